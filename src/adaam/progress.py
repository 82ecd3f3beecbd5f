"""What long work tells while it runs: through the library's logger, or on standard error where nobody listens to it."""

import logging
from collections.abc import Callable
from time import perf_counter
from typing import TypeAlias

LOGGER = logging.getLogger("adaam")

Teller: TypeAlias = Callable[[str], None]


def teller(verbose: int, pause: float = 0.0) -> Teller:
    """Return a function that tells one line, with the seconds since the line before; quiet unless `verbose`.

    Lines go to the logger "adaam" at level INFO. Where no handler would show them, they are written to standard
    error: who asks to be told is told. Nothing is attached to the logger. A line that comes within `pause` seconds of
    the one before is left out.
    """
    last = perf_counter()

    def tell(text: str) -> None:
        nonlocal last
        now = perf_counter()
        if now - last < pause:
            return
        if verbose:
            line = f"{text} ({now - last:.1f} s)"
            record = LOGGER.makeRecord(LOGGER.name, logging.INFO, __file__, 0, line, (), None)
            heard = LOGGER.isEnabledFor(logging.INFO) and LOGGER.hasHandlers()
            (LOGGER if heard else logging.StreamHandler()).handle(record)
        last = now

    return tell
