"""Model files: a zip of plain NumPy arrays and one JSON header, read without running any code from it."""

import json
import math
import os
import zipfile
from typing import Any

import numpy as np
from numpy.lib import format as npy
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from adaam._version import __version__
from adaam.encoding import Arrays, decoded, encoded
from adaam.estimators import LinearMetric
from adaam.files import atomic_file

FORMAT = "adaam-model"
FORMAT_VERSION = 1
HEADER = "header.json"
MAX_HEADER_BYTES = 1 << 24
ARRAY_KINDS = "fiub"  # floats, integers, booleans: anything else is not an array of ours


class ModelFileError(ValueError):
    """A file is not a readable adaam model."""


def save(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file of plain arrays.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library.
    path : path-like
        Where to write; what was there stays until the new file is complete.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAM, load, save
    >>> X, _ = load_digits(return_X_y=True)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "digits.adaam"
    >>> save(AdaAM(10).fit(X), path)
    >>> load(path).transform(X[:1]).shape
    (1, 10)
    """
    check_is_fitted(model)
    arrays: Arrays = {}
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "adaam_version": __version__,
        "model": encoded(model, arrays, "model"),
    }
    with atomic_file(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(HEADER, json.dumps(header, indent=1))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                npy.write_array(member, array, allow_pickle=False)


def load(path: str | os.PathLike[str], *, max_bytes: int = 1 << 30) -> Any:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : path-like
        The file.
    max_bytes : int, default=1 GiB
        Refuse files that would unpack to more.

    Returns
    -------
    estimator
        The fitted estimator.

    Raises
    ------
    ModelFileError
        If the file is truncated, larger than `max_bytes`, damaged, of a newer format, or no adaam model at all.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(archive, path, max_bytes)
            header = _read_header(archive, path)
            arrays = {
                info.filename.removesuffix(".npy"): _read_array(archive, info, path)
                for info in archive.infolist()
                if info.filename != HEADER
            }
        return _read_model(header, arrays, path)
    except (ModelFileError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # zipfile meets damage with a dozen kinds of errors
        raise ModelFileError(f"{path} is not an adaam model, or it is damaged or truncated: {error}.") from error


def _read_model(header: dict[str, Any], arrays: Arrays, path: Any) -> Any:
    try:
        model = decoded(header["model"], arrays)
        _check_shapes(model)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"{path} is damaged: its header does not describe a model ({error}).") from error
    return model


def _check_members(archive: zipfile.ZipFile, path: Any, max_bytes: int) -> None:
    """Refuse foreign and oversized archives before anything is unpacked."""
    names = [info.filename for info in archive.infolist()]
    if HEADER not in names or len(set(names)) != len(names):
        raise ModelFileError(f"{path} is a zip archive, but not an adaam model: it has no {HEADER}.")
    size = sum(info.file_size for info in archive.infolist())
    if size > max_bytes:
        raise ModelFileError(
            f"{path} unpacks to {size} bytes, more than max_bytes={max_bytes}. "
            "If you trust it, pass a larger max_bytes."
        )
    if archive.getinfo(HEADER).file_size > MAX_HEADER_BYTES:
        raise ModelFileError(f"{path} has a header of more than {MAX_HEADER_BYTES} bytes and is refused.")


def _read_header(archive: zipfile.ZipFile, path: Any) -> dict[str, Any]:
    try:
        header = json.loads(archive.read(HEADER))
    except ValueError as error:
        raise ModelFileError(f"{path} is damaged: its header is not JSON ({error}).") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"{path} is a zip archive, but not an adaam model.")
    version = header.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {version}, written by adaam {header.get('adaam_version')}; adaam "
            f"{__version__} reads up to {FORMAT_VERSION}. Upgrade adaam to read it."
        )
    return header


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Any) -> Any:
    """Read one array, after comparing the size its header claims with the bytes that are there."""
    with archive.open(info) as member:
        shape, fortran, dtype = _array_header(member)
        n_bytes = math.prod(shape) * dtype.itemsize
        if dtype.kind not in ARRAY_KINDS or n_bytes > info.file_size:
            raise ModelFileError(f"{path} is damaged: {info.filename} does not hold the array it claims.")
        flat = np.frombuffer(member.read(n_bytes), dtype=dtype)
        return flat.reshape(shape, order="F" if fortran else "C").copy()


def _array_header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(member)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(member)
    return shape, fortran, dtype


def _check_shapes(model: Any) -> None:
    """A map whose parts do not fit together would fail later and elsewhere."""
    if isinstance(model, LinearMetric):
        m, d = model.components_.shape
        if model.mean_.shape != (d,) or model.covariance_.shape != (m, d) or model.n_features_in_ != d:
            raise ValueError(f"components of shape {(m, d)} and mean of shape {model.mean_.shape}")
