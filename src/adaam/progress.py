"""The logger of the library, and lines of progress on a terminal."""

import logging
from collections.abc import Callable
from shutil import get_terminal_size
from typing import IO, TypeAlias

LOGGER = logging.getLogger("adaam")

Teller: TypeAlias = Callable[[str], None]


class ChangingLine:
    """One line that changes on a terminal; a line for each text elsewhere."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self._is_open = stream, False
        self.changes = stream.isatty()  # so that texts may follow one another quickly

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
