"""Files that appear whole or not at all, and are written by one process at a time."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of `path` only when everything was written.

    A crash, a full disk or an interrupt half-way leaves what was at `path` before.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target} cannot be written: no such folder: {target.parent}.")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes private files; a result should be as readable as the user's other files.
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def lock(handle: int) -> bool:
    """Keep an open file for this process until it is closed; False where another process has it."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system: two runs at once are then the user's to avoid
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
