"""What long work tells while it runs: through the library's logger, or on standard error where nobody listens to it."""

import logging
from collections.abc import Callable
from shutil import get_terminal_size
from time import perf_counter
from typing import IO, TypeAlias

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


class ChangingLine:
    """One line that changes on a terminal; a line for each text elsewhere.

    Attributes
    ----------
    changes : bool
        Whether it is one line that changes, so that texts may follow one another quickly.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self._is_open = stream, False
        self.changes = stream.isatty()

    def show(self, text: str) -> None:
        """Show a text in place of the one before."""
        self._is_open = self.changes
        # A line that wraps could not be taken back.
        width = get_terminal_size().columns - 1
        self._write(f"\r\x1b[K{text[:width]}" if self.changes else f"{text}\n")

    def end(self) -> None:
        """Leave the line, so that something else can be written."""
        if self._is_open:
            self._is_open = False
            self._write("\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self.changes = False  # nobody is watching any more; the work goes on
