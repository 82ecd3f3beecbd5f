"""Model files: a zip of plain NumPy arrays and one JSON header, read without running any code from it."""

import json
import os
import zipfile
from typing import Any

from numpy.lib import format as npy
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from adaam._version import __version__
from adaam.files import atomic_file
from adaam.model_contents import FITTED, Arrays, check_fitted, decoded, encoded
from adaam.untrusted import Archive, UnreadableFileError, open_archive, reading

FORMAT = "adaam-model"
FORMAT_VERSION = 1
HEADER = "header.json"
MAX_HEADER_BYTES = 1 << 24
LARGEST_ZIP32_MEMBER = (1 << 31) - (1 << 20)  # bytes; larger members need Zip64


class ModelFileError(UnreadableFileError):
    """A file is not a readable adaam model."""


def save(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file of plain arrays.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library.
    path : path-like
        Where to write; an existing file is replaced when the new one is complete.

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
    if type(model).__name__ not in FITTED:
        raise TypeError(
            f"model={model!r} is a {type(model).__name__}, which a model file does not hold. "
            f"Save one of {', '.join(FITTED)}; use joblib.dump for others."
        )
    check_is_fitted(model)
    try:
        check_fitted(model)
    except ValueError as error:
        raise ValueError(f"model={model!r} cannot be saved: {error}.") from error
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
            large = array.nbytes > LARGEST_ZIP32_MEMBER
            with archive.open(f"{name}.npy", "w", force_zip64=large) as member:
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
        If the file is truncated, larger than `max_bytes`, damaged (by a single changed bit or more), of a newer format,
        or no adaam model at all.
    """
    with reading(path, "an adaam model", ModelFileError), open_archive(path, max_bytes) as archive:
        header = _header(archive)
        arrays = {name.removesuffix(".npy"): archive.array(name) for name in archive.names if name != HEADER}
        model = decoded(header.get("model"), arrays)
        check_fitted(model)
        if arrays:
            raise UnreadableFileError(f"its header does not name the array {next(iter(arrays))!r}")
        return model


def _header(archive: Archive) -> dict[str, Any]:
    """Read the header and check that this version of the library can read the model."""
    if HEADER not in archive.names or any(not name.endswith(".npy") for name in archive.names if name != HEADER):
        raise UnreadableFileError(f"it is a zip archive, but not of a model: it holds {', '.join(archive.names[:3])}")
    content = archive.content(HEADER)
    if len(content) > MAX_HEADER_BYTES:
        raise UnreadableFileError(f"its header has more than {MAX_HEADER_BYTES} bytes")
    header = json.loads(content, object_pairs_hook=_without_repeats)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise UnreadableFileError("it is a zip archive, but not of a model")
    version = header.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= FORMAT_VERSION:
        raise UnreadableFileError(
            f"it has format version {version!r}, written by adaam {str(header.get('adaam_version'))[:20]}; adaam "
            f"{__version__} reads up to {FORMAT_VERSION}. Upgrade adaam to read it"
        )
    return header


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UnreadableFileError("its header has the same key twice")
    return found
