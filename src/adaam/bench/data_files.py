"""Rows and classes from untrusted files: .npz, .mat (MATLAB 5 and 7.3), IDX.

Nothing in a file is executed: no pickles; sizes are checked before anything is unpacked, types after. MATLAB 5 files
are parsed here, since SciPy's reader crashes the process if their parts are damaged.
"""

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, IntVector
from adaam.untrusted import MAX_BYTES, NUMBERS, NUMBERS_AND_WORDS, UnreadableFileError, open_archive, reading

IDX_IMAGES, IDX_LABELS = 0x0803, 0x0801
ROWS, CLASSES = ("fea", "X"), ("gnd", "y", "Y")
# Largest compression ratio of deflate; an HDF5 data set that claims a larger one was never written.
MOST_PACKED = 1032

# MATLAB 5 files.
HEADER_BYTES = 128
MATRIX, COMPRESSED = 14, 15
NUMBER_CLASSES, COMPLEX_FLAG = range(6, 16), 0x0800

# Types of elements by their number in the format.
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
Element = tuple[int, memoryview]


class DataFileError(UnreadableFileError):
    """A data file is missing, cannot be read, or is not what its name says."""


@dataclass(frozen=True, slots=True)
class Data:
    """Rows as stored in the file, of any numeric type; their classes; and the shape of a row as an image."""

    X: FloatMatrix
    classes: IntVector
    image_shape: tuple[int, int] | None = None

    def rows(self, n_rows: int | None = None) -> FloatMatrix:
        """Return the first rows in float64."""
        return np.asarray(self.X[:n_rows], dtype=np.float64)


def read_npz(path: Path) -> Data:
    """Read X, y and, if present, image_shape."""
    with reading(path, "npz", DataFileError), open_archive(path, MAX_BYTES) as archive:
        if not {"X.npy", "y.npy"} <= set(archive.names):
            held = ", ".join(each.removesuffix(".npy") for each in archive.names)
            raise DataFileError(f"{path}: holds {held or 'nothing'}; it must hold X and y.")
        X, y = archive.array("X.npy"), archive.array("y.npy", NUMBERS_AND_WORDS)
        shape = archive.array("image_shape.npy", NUMBERS_AND_WORDS) if "image_shape.npy" in archive.names else None
        if shape is None or shape.shape != (2,) or shape.dtype.kind not in "iu":
            return Data(X, y)
        return Data(X, y, (int(shape[0]), int(shape[1])))


def read_mat(path: Path, image_shape: tuple[int, int] | None = None) -> Data:
    """Read fea and gnd (or X and y); images are column-major in the file and row-major in the result."""
    with reading(path, "mat", DataFileError):
        with path.open("rb") as stream:
            is_hdf5 = b"MATLAB 7.3" in stream.read(116)
        X, y = _read_hdf5(path) if is_hdf5 else _read_mat5(path)
        if X.ndim != 2:
            raise DataFileError(f"{path}: its rows have shape {X.shape}; they must be a table.")
        side = math.isqrt(X.shape[1])
        shape = image_shape or ((side, side) if side * side == X.shape[1] else None)
        return Data(row_major(X, shape), y.ravel(), shape)


def row_major(X: FloatMatrix, image_shape: tuple[int, int] | None) -> FloatMatrix:
    """Convert images from column-major to row-major order."""
    if image_shape is None or image_shape[0] * image_shape[1] != X.shape[1]:
        return X
    height, width = image_shape
    return np.ascontiguousarray(X.reshape(len(X), width, height).transpose(0, 2, 1).reshape(X.shape))


def read_idx_pair(images: Path, labels: Path) -> Data:
    """Read images and their labels from two IDX files, compressed by gzip or not."""
    pixels = _read_idx(images, IDX_IMAGES, 3)
    y = _read_idx(labels, IDX_LABELS, 1)
    if len(pixels) != len(y):
        raise DataFileError(f"{labels}: has {len(y)} labels for the {len(pixels)} images of {images.name}.")
    n, height, width = pixels.shape
    return Data(pixels.reshape(n, height * width), y, (height, width))


def _read_idx(path: Path, magic: int, n_dimensions: int) -> FloatMatrix:
    with reading(path, "IDX", DataFileError), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        start = stream.read(4 * (1 + n_dimensions))
        if len(start) < 4 * (1 + n_dimensions) or int.from_bytes(start[:4]) != magic:
            found = f"0x{start[:4].hex()}" if start else "nothing"
            raise DataFileError(f"{path}: starts with {found}, not with IDX's {magic:#010x} for unsigned bytes.")
        shape = struct.unpack(f">{n_dimensions}I", start[4:])
        n_bytes = math.prod(shape)
        _check_size(path, n_bytes)
        content = stream.read(n_bytes + 1)
        if len(content) != n_bytes:
            more = "more" if len(content) > n_bytes else f"{len(content)}"
            raise DataFileError(f"{path}: should hold {n_bytes} bytes of shape {shape}, but holds {more}.")
        return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _check_size(path: Path, n_bytes: int) -> None:
    """Raise if the content is too large, before it is unpacked."""
    if n_bytes > MAX_BYTES:
        raise DataFileError(f"{path}: unpacks to {n_bytes} bytes, more than the {MAX_BYTES} that are allowed.")


def _read_hdf5(path: Path) -> tuple[FloatMatrix, IntVector]:
    try:
        h5py = import_module("h5py")
    except ImportError as error:
        remedy = "Install it with: pip install adaam[mat]"
        raise DataFileError(f"{path}: is a MATLAB 7.3 file, and reading those needs h5py. {remedy}") from error
    with h5py.File(path, "r") as file:
        # Links and data sets that point elsewhere could read any other file of this machine.
        here = [name for name in file if isinstance(file.get(name, getlink=True), h5py.HardLink)]
        described = {name: file[name].shape for name in here if isinstance(file[name], h5py.Dataset)}
        rows, classes = (file[_pick(path, described, names)] for names in (ROWS, CLASSES))
        for each in (rows, classes):
            if each.is_virtual or each.external is not None or each.dtype.kind not in NUMBERS or each.shape is None:
                raise DataFileError(f"{path}: {each.name} is not stored as a table of numbers in the file itself.")
            n_bytes = math.prod(each.shape) * each.dtype.itemsize
            if n_bytes > MOST_PACKED * (each.id.get_storage_size() + 1):
                raise DataFileError(f"{path}: {each.name} claims shape {each.shape}, but its values are not there.")
        _check_size(path, 8 * (math.prod(rows.shape) + math.prod(classes.shape)))
        # MATLAB's order of dimensions is the reverse of HDF5's.
        return np.asarray(rows[()]).T, np.asarray(classes[()]).T


def _pick(path: Path, described: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if name in described:
            return name
    raise DataFileError(f"{path}: holds {', '.join(described) or 'nothing'}; one of {', '.join(names)} must be there.")


def _read_mat5(path: Path) -> tuple[FloatMatrix, IntVector]:
    if path.stat().st_size > MAX_BYTES:
        raise UnreadableFileError(f"it has {path.stat().st_size} bytes")
    content = memoryview(path.read_bytes())
    order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:128]))
    if order is None:
        raise UnreadableFileError("it has no header of MATLAB 5, which says in which order bytes are")
    found: dict[str, Any] = {}  # None for what is neither rows nor classes
    for kind, whole in _elements(content[HEADER_BYTES:], order):
        inside = whole
        if kind == COMPRESSED:
            packed = zlib.decompressobj()
            inside = memoryview(packed.decompress(whole, MAX_BYTES))
            if packed.unconsumed_tail:
                raise UnreadableFileError(f"a part unpacks to too much, more than {MAX_BYTES} bytes")
            kind, inside = next(_elements(inside, order), (0, inside))
        if kind != MATRIX or len(parts := list(islice(_elements(inside, order), 4))) < 3:
            continue
        name = bytes(parts[2][1]).decode("latin-1")
        is_wanted = name in (*ROWS, *CLASSES) and name not in found
        found[name] = _matrix(name, parts, order) if is_wanted else None
    return found[_pick(path, found, ROWS)], found[_pick(path, found, CLASSES)]


def _matrix(name: str, parts: list[Element], order: str) -> Any:
    flags = int(np.frombuffer(parts[0][1], f"{order}u4")[0])
    shape = tuple(map(int, np.frombuffer(parts[1][1], f"{order}i4")))
    if flags & COMPLEX_FLAG or flags & 0xFF not in NUMBER_CLASSES:
        raise UnreadableFileError(f"{name} is of class {flags & 0xFF}, not a matrix of real numbers, stored in full")
    if min(shape, default=-1) < 0 or 8 * math.prod(shape) > MAX_BYTES:
        raise UnreadableFileError(f"{name} has shape {shape}")
    kind, content = parts[3] if len(parts) > 3 else (0, memoryview(b""))
    if kind not in TYPES:
        raise UnreadableFileError(f"{name} holds a part of type {kind}, which is none of numbers")
    values = np.frombuffer(content, f"{order}{TYPES[kind]}")
    if values.size != math.prod(shape):
        raise UnreadableFileError(f"{name} holds {values.size} numbers for shape {shape}")
    return values.astype(values.dtype.newbyteorder("=")).reshape(shape, order="F")


def _elements(content: memoryview, order: str) -> Iterator[Element]:
    """Yield type and content of each element: up to four bytes within the tag, others padded to eight bytes."""
    place = 0
    while place + 8 <= len(content):
        kind, size = struct.unpack_from(f"{order}2I", content, place)
        if kind >> 16:
            kind, size, start, end = kind & 0xFFFF, kind >> 16, place + 4, place + 8
        else:
            start = place + 8
            end = start + size + (-size % 8 if kind != COMPRESSED else 0)
        if start + size > len(content):
            raise UnreadableFileError("one of its parts is cut short")
        yield kind, content[start : start + size]
        place = end
