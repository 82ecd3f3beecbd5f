"""Rows and classes from files that others wrote: .npz, .mat of either generation, IDX.

Nothing in a file is run: no pickles, sizes are checked before anything is unpacked, types after.
"""

import gzip
import math
import zipfile
import zlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from adaam._typing import FloatMatrix, IntVector

MAX_BYTES = 1 << 34  # of arrays once unpacked; MNIST in float64 takes a fortieth of it
IDX_IMAGES, IDX_LABELS = 0x0803, 0x0801
ROWS, CLASSES = ("fea", "X"), ("gnd", "y", "Y")


class DataFileError(ValueError):
    """A data file is missing, cannot be read, or is not what its name says."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """What a file holds, as it is there."""

    X: FloatMatrix
    y: IntVector
    image_shape: tuple[int, int] | None = None


def read_npz(path: Path) -> Arrays:
    """Read X, y and, where it is there, image_shape."""
    try:
        with zipfile.ZipFile(path) as archive:
            check_size(path, sum(entry.file_size for entry in archive.infolist()))
        with np.load(path, allow_pickle=False) as arrays:
            for name in ("X", "y"):
                if name not in arrays:
                    raise DataFileError(f"{path}: holds {', '.join(arrays) or 'nothing'}; it must hold X and y.")
            return Arrays(arrays["X"], arrays["y"], _image_shape(arrays))
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise _unreadable(path, "npz", error) from error


def read_mat(path: Path, image_shape: tuple[int, int] | None = None) -> Arrays:
    """Read fea and gnd (or X and y); images are column-major there and row-major in what is returned."""
    try:
        with path.open("rb") as stream:
            newer = b"MATLAB 7.3" in stream.read(116)
        X, y = _read_hdf5(path) if newer else _read_mat5(path)
    except DataFileError:
        raise
    except Exception as error:  # scipy.io raises errors of many kinds on damaged files
        raise _unreadable(path, "mat", error) from error
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
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return _idx_array(path, stream, magic, n_dimensions)  # type: ignore[arg-type]
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, "IDX", error) from error


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
    arrays = loadmat(path, variable_names=[rows, classes])
    X = arrays[rows]
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X), np.asarray(arrays[classes])


def _read_hdf5(path: Path) -> tuple[FloatMatrix, IntVector]:
    try:
        h5py = import_module("h5py")
    except ImportError as error:
        raise DataFileError(
            f"{path}: is a MATLAB 7.3 file, and reading those needs h5py. Install it with: pip install adaam[mat]"
        ) from error
    with h5py.File(path, "r") as file:
        described = {name: file[name].shape for name in file if hasattr(file[name], "shape")}
        rows, classes = _pick(path, described, ROWS), _pick(path, described, CLASSES)
        check_size(path, 8 * sum(math.prod(described[name]) for name in (rows, classes)))
        # MATLAB's order of dimensions is the reverse of HDF5's.
        return np.asarray(file[rows][()]).T, np.asarray(file[classes][()]).T


def _pick(path: Path, described: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if name in described:
            return name
    raise DataFileError(f"{path}: holds {', '.join(described) or 'nothing'}; one of {', '.join(names)} must be there.")


def _image_shape(arrays: Any) -> tuple[int, int] | None:
    if "image_shape" not in arrays:
        return None
    shape = arrays["image_shape"]
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        return None
    return int(shape[0]), int(shape[1])


def _square(n_pixels: int) -> tuple[int, int] | None:
    side = math.isqrt(n_pixels)
    return (side, side) if side * side == n_pixels else None


def _unreadable(path: Path, kind: str, error: Exception) -> DataFileError:
    if isinstance(error, DataFileError):
        return error
    if isinstance(error, FileNotFoundError):
        return DataFileError(f"{path}: no such file.")
    return DataFileError(f"{path}: cannot be read as {kind}: {error or type(error).__name__}.")
