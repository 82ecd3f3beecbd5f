"""Standard streams of a command: talk that nobody hears ends no work, and no name commands the terminal."""

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

# Control characters, and those that turn the direction of writing; a line that is drawn anew is the command's own.
COMMANDING = re.compile("\r\x1b\\[K|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
OWN = "\r\x1b[K"


def printable(text: str) -> str:
    """Return text with what would command a terminal written out."""
    return COMMANDING.sub(lambda found: OWN if found[0] == OWN else repr(found[0])[1:-1], text)


class Shown:
    """A text stream whose terminal no text commands; talk that cannot be written is lost, a result fails."""

    def __init__(self, stream: Any, *, is_talk: bool) -> None:
        self._stream, self._is_talk = stream, is_talk

    def write(self, text: str) -> int:
        """Write what a terminal may show."""
        try:
            self._stream.write(printable(text))
        except (OSError, ValueError):
            if not self._is_talk:
                raise
            discard(self._stream)
        return len(text)

    def flush(self) -> None:
        """Write what was held back."""
        if self._is_talk:
            discard_unwritten(self._stream)
        else:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def command_streams() -> Iterator[None]:
    """Give a command streams that it can rely on, and the process its own back."""
    before = sys.stdout, sys.stderr
    if sys.stderr is None:
        sys.stderr = open_closed(2, os.O_WRONLY)
    if sys.stdout is None:  # what is written to it fails, as it must: the result is nowhere
        sys.stdout = open_closed(1, os.O_RDONLY)
    sys.stderr = Shown(sys.stderr, is_talk=True)
    if sys.stdout.isatty():
        sys.stdout = Shown(sys.stdout, is_talk=False)
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def open_closed(number: int, flags: int) -> Any:
    """Put the null device in the place of a descriptor that was closed, lest the next file take its number."""
    handle = os.open(os.devnull, flags)
    if handle != number:
        os.dup2(handle, number)
        os.close(handle)
    return os.fdopen(number, "w", closefd=False)


def show(text: str) -> None:
    """Print what is in files as well; a reader that went away misses it, and the command goes on."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard(sys.stdout)


def discard(stream: Any) -> None:
    """Send what is still in a stream's buffer nowhere, so that the interpreter does not stumble over it at its end."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        stream.flush()


def discard_unwritten(stream: Any) -> None:
    """Discard what a stream cannot take, so that the interpreter does not try again at its end."""
    try:
        stream.flush()
    except (OSError, ValueError):
        discard(stream)


def output_error(error: OSError) -> OSError:
    """Name standard output in an error of a write that did not say where; others are as they were."""
    if error.filename is None and error.errno in (errno.EBADF, errno.ENOSPC, errno.EIO):
        return OSError(error.errno, error.strerror, "standard output")
    return error
