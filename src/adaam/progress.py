"""What long work tells while it runs: through the library's logger, or on standard error where nobody listens to it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

LOGGER = logging.getLogger("adaam")


def teller(verbose: int) -> Callable[[str], None]:
    """Return a function that tells one line, with the seconds since the line before; quiet unless `verbose`.

    Lines go to the logger "adaam" at level INFO. Where no handler would show them, they are written to standard
    error: who asks to be told is told. Nothing is attached to the logger.
    """
    last = perf_counter()

    def tell(text: str) -> None:
        nonlocal last
        now = perf_counter()
        if verbose:
            show(f"{text} ({now - last:.1f} s)")
        last = now

    return tell


@contextmanager
def timed(text: str, verbose: int) -> Iterator[None]:
    """Log what runs and, when it is done, how long it took.

    Both go to the logger "adaam" at level DEBUG, where whoever set that level finds them. With `verbose` the end is
    shown as `teller` shows its lines; from 2 on the beginning is, too.
    """
    if verbose > 1:
        show(f"{text} ...")
    else:
        LOGGER.debug("%s ...", text)
    start = perf_counter()
    yield
    line = f"{text} ({perf_counter() - start:.1f} s)"
    if verbose:
        show(line)
    else:
        LOGGER.debug(line)


def show(line: str) -> None:
    """Show a line to someone who asked for it: by the logger, or on standard error where no handler would show it."""
    record = LOGGER.makeRecord(LOGGER.name, logging.INFO, __file__, 0, line, (), None)
    heard = LOGGER.isEnabledFor(logging.INFO) and LOGGER.hasHandlers()
    (LOGGER if heard else logging.StreamHandler()).handle(record)
