"""Rows and classes from files that others wrote: .npz, .mat of either generation, IDX.

Nothing in a file is run: no pickles, sizes are checked before anything is unpacked, types after.
"""

import gzip
import math
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy.sparse import issparse

from adaam._typing import FloatMatrix, IntVector
from adaam.bench.mat_sparse import read_sparse
from adaam.untrusted import MAX_BYTES, NUMBERS, NUMBERS_AND_WORDS, UnreadableFileError, open_archive, reading

IDX_IMAGES, IDX_LABELS = 0x0803, 0x0801
ROWS, CLASSES = ("fea", "X"), ("gnd", "y", "Y")
# Deflate packs at most so many times; an HDF5 data set that claims more than that was never written.
MOST_PACKED = 1032


class DataFileError(UnreadableFileError):
    """A data file is missing, cannot be read, or is not what its name says."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """What a file holds, as it is there."""

    X: FloatMatrix
    y: IntVector
    image_shape: tuple[int, int] | None = None


def read_npz(path: Path) -> Arrays:
    """Read X, y and, where it is there, image_shape."""
    _check_file(path)
    with reading(path, "npz", DataFileError), open_archive(path, MAX_BYTES) as archive:
        for name in ("X", "y"):
            if f"{name}.npy" not in archive.names:
                held = ", ".join(each.removesuffix(".npy") for each in archive.names)
                raise DataFileError(f"{path}: holds {held or 'nothing'}; it must hold X and y.")
        X, y = archive.array("X.npy"), archive.array("y.npy", NUMBERS_AND_WORDS)
        shape = archive.array("image_shape.npy", NUMBERS + "US") if "image_shape.npy" in archive.names else None
        return Arrays(X, y, _image_shape(shape))


def read_mat(path: Path, image_shape: tuple[int, int] | None = None) -> Arrays:
    """Read fea and gnd (or X and y); images are column-major there and row-major in what is returned."""
    _check_file(path)
    with reading(path, "mat", DataFileError):
        with path.open("rb") as stream:
            newer = b"MATLAB 7.3" in stream.read(116)
        X, y = _read_hdf5(path) if newer else _read_mat5(path)
        for name, array in (("rows", X), ("classes", y)):
            if array.dtype.kind not in NUMBERS:
                raise DataFileError(f"{path}: its {name} are {array.dtype}, not numbers.")
        if X.ndim != 2:
            raise DataFileError(f"{path}: its rows have shape {X.shape}; they must be a table.")
        shape = image_shape or _square(X.shape[1])
        return Arrays(row_major(X, shape), y.ravel(), shape)


def row_major(X: FloatMatrix, image_shape: tuple[int, int] | None) -> FloatMatrix:
    """Turn images that were written column by column into ones written row by row."""
    if image_shape is None or image_shape[0] * image_shape[1] != X.shape[1]:
        return X
    height, width = image_shape
    return np.ascontiguousarray(X.reshape(len(X), width, height).transpose(0, 2, 1).reshape(X.shape))


def read_idx_pair(images: Path, labels: Path) -> Arrays:
    """Read images and their labels from two IDX files, packed by gzip or not."""
    pixels = _read_idx(images, IDX_IMAGES, 3)
    y = _read_idx(labels, IDX_LABELS, 1)
    if len(pixels) != len(y):
        raise DataFileError(f"{labels}: has {len(y)} labels for the {len(pixels)} images of {images.name}.")
    n, height, width = pixels.shape
    return Arrays(pixels.reshape(n, height * width), y, (height, width))


def check_size(path: Path, n_bytes: int) -> None:
    """Refuse what would not fit, before it is unpacked."""
    if n_bytes > MAX_BYTES:
        raise DataFileError(f"{path}: unpacks to {n_bytes} bytes, more than the {MAX_BYTES} that are allowed.")


def _read_idx(path: Path, magic: int, n_dimensions: int) -> FloatMatrix:
    _check_file(path)
    with reading(path, "IDX", DataFileError), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        return _idx_array(path, stream, magic, n_dimensions)  # type: ignore[arg-type]


def _idx_array(path: Path, stream: BinaryIO, magic: int, n_dimensions: int) -> FloatMatrix:
    start = stream.read(4 * (1 + n_dimensions))
    header = np.frombuffer(start[: len(start) // 4 * 4], dtype=">u4")
    if len(header) < 1 + n_dimensions or header[0] != magic:
        found = f"{int(header[0]):#010x}" if len(header) else "nothing"
        raise DataFileError(f"{path}: starts with {found}, not with IDX's {magic:#010x} for unsigned bytes.")
    shape = tuple(int(side) for side in header[1:])
    n_bytes = math.prod(shape)
    check_size(path, n_bytes)
    content = stream.read(n_bytes + 1)
    if len(content) != n_bytes:
        more = "more" if len(content) > n_bytes else f"{len(content)}"
        raise DataFileError(f"{path}: should hold {n_bytes} bytes of shape {shape}, but holds {more}.")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _read_mat5(path: Path) -> tuple[FloatMatrix, IntVector]:
    from scipy.io import loadmat, whosmat

    described = {name: shape for name, shape, _ in whosmat(path)}
    rows, classes = _pick(path, described, ROWS), _pick(path, described, CLASSES)
    check_size(path, 8 * sum(math.prod(described[name]) for name in (rows, classes)))
    sparse = {name: read_sparse(path, name) for name in (rows, classes)}
    dense = [name for name, matrix in sparse.items() if matrix is None]
    arrays = sparse | (loadmat(path, variable_names=dense) if dense else {})
    X, y = (arrays[name] for name in (rows, classes))
    return tuple(np.asarray(each.toarray() if issparse(each) else each) for each in (X, y))  # type: ignore[return-value]


def _read_hdf5(path: Path) -> tuple[FloatMatrix, IntVector]:
    try:
        h5py = import_module("h5py")
    except ImportError as error:
        raise DataFileError(
            f"{path}: is a MATLAB 7.3 file, and reading those needs h5py. Install it with: pip install adaam[mat]"
        ) from error
    with h5py.File(path, "r") as file:
        # A link or a data set that is elsewhere would read any other file of this machine.
        here = [name for name in file if isinstance(file.get(name, getlink=True), h5py.HardLink)]
        described = {name: file[name].shape for name in here if isinstance(file[name], h5py.Dataset)}
        rows, classes = (file[_pick(path, described, names)] for names in (ROWS, CLASSES))
        for each in (rows, classes):
            if each.is_virtual or each.external is not None or each.dtype.kind not in NUMBERS or each.shape is None:
                raise DataFileError(f"{path}: {each.name} is not stored as a table of numbers in the file itself.")
            n_bytes = math.prod(each.shape) * each.dtype.itemsize
            if n_bytes > MOST_PACKED * (each.id.get_storage_size() + 1):
                raise DataFileError(f"{path}: {each.name} claims shape {each.shape}, but its values are not there.")
        check_size(path, 8 * (math.prod(rows.shape) + math.prod(classes.shape)))
        # MATLAB's order of dimensions is the reverse of HDF5's.
        return np.asarray(rows[()]).T, np.asarray(classes[()]).T


def _pick(path: Path, described: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if name in described:
            return name
    raise DataFileError(f"{path}: holds {', '.join(described) or 'nothing'}; one of {', '.join(names)} must be there.")


def _image_shape(shape: Any) -> tuple[int, int] | None:
    if shape is None or shape.shape != (2,) or shape.dtype.kind not in "iu":
        return None
    return int(shape[0]), int(shape[1])


def _square(n_pixels: int) -> tuple[int, int] | None:
    side = math.isqrt(n_pixels)
    return (side, side) if side * side == n_pixels else None


def _check_file(path: Path) -> None:
    if not path.exists():
        raise DataFileError(f"{path}: no such file.")
    if not path.is_file():  # a pipe would be waited for
        raise DataFileError(f"{path}: is no regular file.")
