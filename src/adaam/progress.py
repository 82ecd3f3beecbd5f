"""The logger of the library, and lines of progress on a terminal."""

import logging
from collections.abc import Callable
from shutil import get_terminal_size
from typing import IO, TypeAlias

LOGGER = logging.getLogger("adaam")

Teller: TypeAlias = Callable[[str], None]


class ChangingLine:
    """A line that is overwritten on a terminal; elsewhere a new line for each text."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self._is_open = stream, False
        self.changes = stream.isatty()  # if so, frequent texts are fine

    def show(self, text: str) -> None:
        """Show a text in place of the previous one."""
        self._is_open = self.changes
        # A line that wraps could not be overwritten.
        width = get_terminal_size().columns - 1
        self._write(f"\r\x1b[K{text[:width]}" if self.changes else f"{text}\n")

    def end(self) -> None:
        """End the line, so that other output can follow."""
        if self._is_open:
            self._is_open = False
            self._write("\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self.changes = False  # the stream is closed; the work continues
