"""Reading of untrusted files: no code in them is run, and sizes are checked before memory is allocated."""

import io
import math
import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

MAX_BYTES = 1 << 32  # of arrays once unpacked; MNIST in float64 takes a tenth of it
MAX_DIRECTORY_BYTES = 1 << 20  # of a zip archive's list of members, which is read whole; an entry takes 46 or more
MAX_ARRAY_HEADER_BYTES = 10_000
PIECE_BYTES = 1 << 20  # of a member that are read at a time
NUMBERS = "fiub"  # kinds of arrays: floats, integers, booleans
NUMBERS_AND_WORDS = NUMBERS + "US"

_END = struct.Struct("<4s4H2LH")  # PKZIP's end of central directory
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")


class UnreadableFileError(ValueError):
    """A file is damaged, too large, or not what its name says."""


@contextmanager
def reading(path: Any, kind: str, error_class: type[UnreadableFileError] = UnreadableFileError) -> Iterator[None]:
    """Turn whatever a reader raises on a bad file into one class of errors that name file and cause.

    `kind` is what the file should be, such as ".npz". Errors of the class itself, and of missing or inaccessible files
    and missing packages, pass through.
    """
    try:
        yield
    except (error_class, FileNotFoundError, PermissionError, IsADirectoryError, ImportError):
        raise
    except MemoryError as error:
        raise error_class(f"{path}: cannot be read as {kind}: it asks for more memory than there is.") from error
    except Exception as error:
        # NumPy, SciPy, h5py, zarr and pyarrow raise two dozen kinds of errors on damage, some without a message.
        cause = " ".join(str(error).split()) or type(error).__name__
        raise error_class(f"{path}: cannot be read as {kind}: {cause[:500].rstrip('.')}.") from error


class Archive:
    """A zip archive of arrays, such as .npz: members are stored or deflated, and read whole with their checksums.

    Archives that would unpack to more than `max_bytes` are refused.
    """

    def __init__(self, stream: BinaryIO, max_bytes: int = MAX_BYTES) -> None:
        check_directory(stream)
        self._zip = zipfile.ZipFile(stream)
        members, self.names = self._zip.infolist(), tuple(self._zip.namelist())
        if len(self.names) != len(set(self.names)):
            raise UnreadableFileError("it has two members of the same name")
        for info in members:
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise UnreadableFileError(f"{info.filename!r} is packed by method {info.compress_type}, not by deflate")
            if info.flag_bits & 0x1:
                raise UnreadableFileError(f"{info.filename!r} is encrypted")
        n_bytes = sum(info.file_size for info in members)
        if n_bytes > max_bytes:
            raise UnreadableFileError(f"it unpacks to {n_bytes} bytes, more than max_bytes={max_bytes}")

    def content(self, name: str) -> bytearray:
        """Read a member to its very end, where its checksum is verified."""
        info = self._zip.getinfo(name)
        content = bytearray()
        with self._zip.open(info) as member:
            while piece := member.read(PIECE_BYTES):
                content += piece
        if len(content) != info.file_size:
            raise UnreadableFileError(f"{name!r} holds {len(content)} bytes, but should hold {info.file_size}")
        return content

    def array(self, name: str, kinds: str = NUMBERS) -> Any:
        """Read a member that is a .npy file."""
        return array_of(self.content(name), name, kinds)


@contextmanager
def open_archive(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> Iterator[Archive]:
    """Open a zip archive of arrays; to be used within `reading`, which names the file."""
    with Path(path).open("rb") as stream:
        yield Archive(stream, max_bytes)


def array_of(content: bytearray, name: str, kinds: str = NUMBERS) -> Any:
    """Return the array of a whole .npy file, as a view of it; shape and dtype must account for every byte.

    `kinds` are the values of `dtype.kind` that are allowed.
    """
    stream = io.BytesIO(memoryview(content)[: MAX_ARRAY_HEADER_BYTES + 12])
    shape, by_columns, dtype = array_header(stream)
    start = stream.tell()
    if dtype.kind not in kinds or dtype.itemsize == 0:
        wanted = "numbers or words" if "U" in kinds else "numbers"
        raise UnreadableFileError(f"{name!r} holds {dtype}, not {wanted}")
    n_values = math.prod(shape)
    if min(shape, default=0) < 0 or math.prod(max(1, side) for side in shape) * dtype.itemsize > MAX_BYTES:
        raise UnreadableFileError(f"{name!r} has shape {shape}")
    if start + n_values * dtype.itemsize != len(content):
        raise UnreadableFileError(
            f"{name!r} does not hold the array it claims: {len(content) - start} bytes for shape {shape} of {dtype}"
        )
    array = np.frombuffer(content, dtype, n_values, start).reshape(shape, order="F" if by_columns else "C")
    return np.require(array, requirements="A")


def array_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of a .npy file: shape, whether columns are contiguous, dtype."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise UnreadableFileError(f"version {version} of .npy is not known")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, dtype = read(stream, max_header_size=MAX_ARRAY_HEADER_BYTES)
    return shape, by_columns, dtype


def check_directory(stream: BinaryIO) -> None:
    """Refuse a zip archive whose list of members would fill the memory; `zipfile` reads the list on opening."""
    stream.seek(0, os.SEEK_END)
    size = stream.tell()
    stream.seek(max(0, size - _END.size - 0xFFFF - _END_64.size - _LOCATOR_64.size))
    tail = stream.read()
    place = len(tail) - _END.size
    if place < 0 or not (tail.startswith(b"PK\5\6", place) and tail.endswith(b"\0\0")):
        place = tail.rfind(b"PK\5\6")
    if place < 0 or place + _END.size > len(tail):
        raise UnreadableFileError("it is no zip archive, or its end is missing")
    directory_bytes = _END.unpack_from(tail, place)[5]
    before = place - _LOCATOR_64.size
    if before >= _END_64.size and tail.startswith(b"PK\6\7", before):
        directory_bytes = max(directory_bytes % 0xFFFFFFFF, _END_64.unpack_from(tail, before - _END_64.size)[8])
    if directory_bytes > MAX_DIRECTORY_BYTES:
        raise UnreadableFileError(f"its list of members takes {directory_bytes} bytes")
    stream.seek(0)
