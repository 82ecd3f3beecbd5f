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

# Names of temporary files, which no other program uses: those of killed runs are found by name and are not locked.
PART = re.compile(r"\..+\.[0-9a-f]{8}\.adaam-part", re.DOTALL)
LONGEST_NAME = 200  # bytes of the target's name in that of its temporary file; systems allow 255 in all
OPEN_STREAM = re.compile(r"/dev/(?:stdout|stderr|fd/\d+)|/proc/self/fd/\d+")
STREAMS = {"stdout": 1, "stderr": 2}
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
# Errors that only writing raises: a full disk, a file too large, a pipe whose reader has closed it.
WRITE_ERRORS = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EPIPE)


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing, reading and seeking that replaces `path` only when everything has been written.

    After a crash, a full disk or an interrupt, `path` is as it was before. Symbolic links are followed, and a file that
    is replaced keeps its mode and owner. Anything other than a regular file (a device, a pipe) is never replaced but
    written to, in one go, at the end.
    """
    try:
        there = Path(path).stat() if Path(path).exists() else None
        if there is not None and stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a folder; a file is to be written", str(path))
        is_open, name = OPEN_STREAM.fullmatch(os.fspath(path)), Path(path).name
        if is_open or (there is not None and not stat.S_ISREG(there.st_mode)):
            with tempfile.TemporaryFile() as stream:
                yield stream
                # A stream of this process is continued at its current position.
                handle = os.dup(STREAMS.get(name) or int(name)) if is_open else os.open(path, os.O_WRONLY)
                _copy(stream, handle)
        else:
            with _replacing(Path(os.path.realpath(path)), there) as stream:
                yield stream
    except OSError as error:
        if error.errno not in WRITE_ERRORS or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error  # the original lacks the name


@contextmanager
def _replacing(target: Path, there: os.stat_result | None) -> Iterator[BinaryIO]:
    """Write to a temporary file beside the target, which it replaces or creates at the end."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target} cannot be written: no such folder: {target.parent}.")
    if there is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "Is write-protected", str(target))
    sweep(target.parent)
    start = os.fsdecode(os.fsencode(target.name)[:LONGEST_NAME])
    part = target.with_name(f".{start}.{secrets.token_hex(4)}.adaam-part")
    try:
        # The replacement of an existing file is private until it gets that file's mode; a new file follows the umask.
        with os.fdopen(_new_part(part, 0o666 if there is None else 0o600, target), "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if there is not None and not _made_alike(stream.fileno(), there):
                _copy(stream, os.open(target, os.O_WRONLY | os.O_TRUNC))
                part.unlink()
            elif os.name != "nt":  # while it is locked, so that no other process sweeps it
                part.replace(target)
        if os.name == "nt":  # Windows cannot move open files
            part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def sweep(folder: Path) -> None:
    """Remove temporary files that killed runs left in a folder; those being written are locked, and stay."""
    for part in [path for path in folder.glob(".*.adaam-part") if PART.fullmatch(path.name)]:
        # Another user may have put a pipe or a link of this name here: do not wait for it or follow it.
        flags = os.O_RDWR | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
        with suppress(OSError):
            handle = os.open(part, flags)
            try:
                if stat.S_ISREG(os.fstat(handle).st_mode) and lock(handle):
                    part.unlink()
            finally:
                os.close(handle)


def spreadsheet_text(text: str) -> str:
    """Return text that a spreadsheet shows as it is: with an apostrophe in front if it begins like a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def lock(handle: int) -> bool:
    """Lock an open file for this process until it is closed; False if another process has locked it."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system: it is up to the user not to start two runs at once
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def own_lock_path(name: str) -> Path | None:
    """Path of a lock that no other user can hold, in a private folder of this user; None without such a folder."""
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
    """Wait for a lock and hold it; yields False after `longest_wait_s`, since its holder may have been stopped."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        end = monotonic() + longest_wait_s
        while not (is_ours := lock(handle)) and monotonic() < end:
            sleep(0.05)
        yield is_ours
    finally:
        os.close(handle)


def _new_part(part: Path, mode: int, target: Path) -> int:
    """Create a temporary file of the target and lock it; try again if it was swept before it was locked."""
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
    """Give a temporary file the owner and mode of the file it replaces; False if the owner cannot be set."""
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
