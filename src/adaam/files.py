"""Output files that appear whole or not at all, and are written by one process at a time."""

import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import BinaryIO

# Nobody else names files so: what a killed run left behind is told by its name, and by the lock it no longer holds.
PART = re.compile(r"\..+\.[0-9a-f]{8}\.adaam-part", re.DOTALL)
LONGEST_NAME = 200  # bytes of the target's name within that of its part; systems allow 255 in all
OPEN_STREAM = re.compile(r"/dev/(?:stdout|stderr|fd/\d+)|/proc/self/fd/\d+")
STREAMS = {"stdout": 1, "stderr": 2}
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
# Errors of writing alone: a full disk, a file too large, a pipe whose reader has left.
WRITE_ERRORS = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EPIPE)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing, reading and seeking that takes the place of `path` only when everything was written.

    A crash, a full disk or an interrupt half-way leaves what was at `path` before. Symbolic links are followed, and a
    file that is replaced keeps its mode and owner. What is not a regular file (a device, a pipe) is never replaced:
    it is written to, in one go, once everything is there.
    """
    try:
        there = Path(path).stat() if Path(path).exists() else None
        if there is not None and stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a folder; a file is to be written", str(path))
        is_open, name = OPEN_STREAM.fullmatch(os.fspath(path)), Path(path).name
        if is_open or (there is not None and not stat.S_ISREG(there.st_mode)):
            with tempfile.TemporaryFile() as stream:
                yield stream
                # A stream of this process goes on where it is.
                handle = os.dup(STREAMS.get(name) or int(name)) if is_open else os.open(path, os.O_WRONLY)
                _copy(stream, handle)
        else:
            with _replacing(Path(os.path.realpath(path)), there) as stream:
                yield stream
    except OSError as error:
        if error.errno not in WRITE_ERRORS or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error  # with the name, without which it comes


@contextmanager
def _replacing(target: Path, there: os.stat_result | None) -> Iterator[BinaryIO]:
    """Write beside a regular file, or one that is not there yet, and take its place at the end."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target} cannot be written: no such folder: {target.parent}.")
    if there is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "Is write-protected", str(target))
    sweep(target.parent)
    start = os.fsdecode(os.fsencode(target.name)[:LONGEST_NAME])
    part = target.with_name(f".{start}.{secrets.token_hex(4)}.adaam-part")
    try:
        # Until it takes its place, what replaces a private file is private too; a new file is as the umask has it.
        with os.fdopen(_new_part(part, 0o666 if there is None else 0o600, target), "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if there is not None and not _made_alike(stream.fileno(), there):
                _copy(stream, os.open(target, os.O_WRONLY | os.O_TRUNC))
                part.unlink()
            elif os.name != "nt":  # while it is locked, so that nobody sweeps it
                part.replace(target)
        if os.name == "nt":  # where open files cannot be moved
            part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def sweep(folder: Path) -> None:
    """Remove parts of files that killed runs left in a folder; those that are being written are locked, and stay."""
    for part in [path for path in folder.glob(".*.adaam-part") if PART.fullmatch(path.name)]:
        # Whoever else may have put something of this name here: it is neither waited for nor followed.
        flags = os.O_RDWR | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
        with suppress(OSError):
            handle = os.open(part, flags)
            try:
                if stat.S_ISREG(os.fstat(handle).st_mode) and lock(handle):
                    part.unlink()
            finally:
                os.close(handle)


def spreadsheet_text(text: str) -> str:
    """Return a word that a spreadsheet shows as it is; one that begins like a formula gets an apostrophe before it."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


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


def own_lock_path(name: str) -> Path | None:
    """Place for a lock that no other user can hold, in a folder that is ours and closed to others; None without one."""
    if not hasattr(os, "getuid"):
        return None
    folder = Path(tempfile.gettempdir()) / f"adaam-{os.getuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return folder / f"{name}.lock"
    return None


@contextmanager
def waiting_lock(path: Path, longest_wait_s: float) -> Iterator[bool]:
    """Hold a lock; False where it could not be had in time, since whoever holds it may have been stopped."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        end = monotonic() + longest_wait_s
        while not (is_ours := lock(handle)) and monotonic() < end:
            sleep(0.05)
        yield is_ours
    finally:
        os.close(handle)


def _new_part(part: Path, mode: int, target: Path) -> int:
    """Make a part of the target and lock it; one that was swept before it was locked is made anew."""
    while True:
        try:
            handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        except OSError as error:
            raise type(error)(error.errno, error.strerror, str(target)) from error
        lock(handle)
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)


def _made_alike(handle: int, there: os.stat_result) -> bool:
    """Give a part owner and mode of the file it replaces; False where the owner cannot be given."""
    if not hasattr(os, "fchown"):
        return True
    own = os.fstat(handle)
    if (own.st_uid, own.st_gid) != (there.st_uid, there.st_gid):
        try:
            os.fchown(handle, there.st_uid, there.st_gid)
        except OSError:
            return False
    os.fchmod(handle, stat.S_IMODE(there.st_mode))
    return True


def _copy(stream: BinaryIO, handle: int) -> None:
    stream.flush()
    stream.seek(0)
    with os.fdopen(handle, "wb") as target:
        shutil.copyfileobj(stream, target)
