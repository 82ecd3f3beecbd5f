"""From a path or an array to a row source."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from adaam.rows.array import ArrayRows
from adaam.rows.npy import NpyRows
from adaam.rows.parquet import ParquetRows
from adaam.rows.protocol import RowsError, RowSource
from adaam.rows.zarr import ZarrRows, is_zarr


def open_rows(path: str | os.PathLike[str]) -> RowSource:
    """Open a file of rows without reading them.

    Parameters
    ----------
    path : path-like
        A .npy file, a .zarr folder, a .parquet file, or a folder of .parquet files.

    Returns
    -------
    RowSource
        For `AdaAM.fit`, for `transform` and for `map_to_file`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from adaam.rows import open_rows
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.npy"
    >>> np.save(path, np.zeros((5, 3)))
    >>> rows = open_rows(path)
    >>> rows.n_rows, rows.n_features
    (5, 3)
    """
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"{path}: no such file.")
    ending = place.suffix.lower()
    if ending == ".npy":
        return NpyRows(place)
    if ending == ".zarr":
        return ZarrRows(place)
    if ending == ".parquet" or place.is_dir():
        return ParquetRows(place)
    raise RowsError(
        f"{path}: ending {ending!r} is not known; use .npy, .zarr, .parquet or a folder of .parquet files. Other rows "
        "can be read by adaam.rows.BlockRows."
    )


def as_rows(X: Any) -> RowSource | None:
    """Return X as a row source, or None where it is an ordinary array for scikit-learn's own checks.

    Memory maps and Zarr arrays count as row sources: they must not be loaded by accident.
    """
    if isinstance(X, np.ndarray):
        return ArrayRows(X) if isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiub" else None
    if is_zarr(X):
        return ArrayRows(X)
    return X if isinstance(X, RowSource) else None
