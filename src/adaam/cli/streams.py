"""Standard streams of a command: a closed standard error stops no work, and no text controls the terminal."""

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

# Control characters and bidirectional formatting characters. The sequence that redraws a line is our own.
COMMANDING = re.compile("\r\x1b\\[K|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
OWN = "\r\x1b[K"


def printable(text: str) -> str:
    """Return text with the characters that would control a terminal escaped."""
    return COMMANDING.sub(lambda found: OWN if found[0] == OWN else repr(found[0])[1:-1], text)


class Shown:
    """A text stream that escapes control characters; a message that cannot be written is dropped, a result raises."""

    def __init__(self, stream: Any, *, is_talk: bool) -> None:
        self._stream, self._is_talk = stream, is_talk

    def write(self, text: str) -> int:
        """Write text with control characters escaped."""
        try:
            self._stream.write(printable(text))
        except (OSError, ValueError):
            if not self._is_talk:
                raise
            discard(self._stream)
        return len(text)

    def flush(self) -> None:
        """Write what is still in the buffer."""
        if self._is_talk:
            discard_unwritten(self._stream)
        else:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def command_streams() -> Iterator[None]:
    """Replace standard output and error by streams that are safe to write to, and restore them at the end."""
    before = sys.stdout, sys.stderr
    if sys.stderr is None:
        sys.stderr = open_closed(2, os.O_WRONLY)
    if sys.stdout is None:  # writes to it must fail, since the result would be lost
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
    """Open the null device as a descriptor that was closed, so that the next file opened does not get its number."""
    handle = os.open(os.devnull, flags)
    if handle != number:
        os.dup2(handle, number)
        os.close(handle)
    return os.fdopen(number, "w", closefd=False)


def show(text: str) -> None:
    """Print what is also in files; if the reader of standard output has closed it, the command continues."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard(sys.stdout)


def discard(stream: Any) -> None:
    """Discard what is still in a stream's buffer, so that the interpreter does not fail on it at exit."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        stream.flush()


def discard_unwritten(stream: Any) -> None:
    """Discard what a stream cannot write, so that the interpreter does not try again at exit."""
    try:
        stream.flush()
    except (OSError, ValueError):
        discard(stream)


def output_error(error: OSError) -> OSError:
    """Return a write error without a filename with standard output named, and others unchanged."""
    if error.filename is None and error.errno in (errno.EBADF, errno.ENOSPC, errno.EIO):
        return OSError(error.errno, error.strerror, "standard output")
    return error
