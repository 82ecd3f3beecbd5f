"""Dask arrays that are to be mapped, not learned from: what is made of them stays lazy."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from adaam._checks import check_magnitude, largest_magnitude
from adaam._typing import Column, FloatMatrix
from adaam.engines.cluster.rows import HOST, block_nearest, block_project
from adaam.engines.cluster.workers import as_dask_array, mapped_array


@dataclass(frozen=True, slots=True, eq=False)
class LazyRows:
    """A checked Dask array of rows, with the names of its columns where it was a DataFrame."""

    array: Any
    named: Any = None  # an empty DataFrame with the same columns

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, d = self.array.shape
        return int(n), int(d)

    @property
    def dtype(self) -> "np.dtype[Any]":
        """Precision."""
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    ndim = 2

    def __len__(self) -> int:
        return self.shape[0]


def lazy_rows(X: Any, at_least: int) -> LazyRows:
    """Check what can be told of a Dask array or DataFrame without computing its numbers."""
    named = getattr(X, "_meta", None) if hasattr(X, "to_dask_array") else None
    if X.ndim != 2:
        raise ValueError(f"X is a Dask array of {X.ndim} dimension(s); pass one row a sample, one column a feature.")
    array = as_dask_array(X)
    n, d = array.shape
    if n < at_least or d < 1:
        raise ValueError(f"X has shape {(int(n), int(d))}; at least {at_least} row(s) and 1 feature are needed.")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"X holds {array.dtype}, not real numbers. Convert its columns first.")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    return LazyRows(array, named)


def finite(block: Any) -> Any:
    """Return a block whose numbers are all finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = block.sum()
    # A finite sum proves every entry finite, and takes no mask of the block's size.
    if not np.isfinite(total) and not np.isfinite(block).all():
        raise ValueError("X contains NaN or infinity. Remove or impute such rows first.")
    return block


def lazy_norms(array: Any) -> Any:
    """Length of each row."""
    return mapped_array(array, _norms, None, np.float64, "adaam-norms")


def lazy_project(array: Any, scale: Column, mean: Any, components: FloatMatrix) -> Any:
    """(scale * x - mean) @ components.T of each row."""
    dtype = np.result_type(array.dtype, components.dtype)
    if isinstance(scale, float):
        work = partial(_project, scale=scale, mean=mean, components=components)
        return mapped_array(array, work, len(components), dtype, "adaam-map")
    work = partial(_project, mean=mean, components=components)
    return mapped_array(array, work, len(components), dtype, "adaam-map", scale[:, None])


def lazy_nearest(array: Any, centers: FloatMatrix) -> Any:
    """Nearest centre of each row."""
    return mapped_array(array, partial(block_nearest, centers=centers), None, np.intp, "adaam-predict")


def _norms(block: Any) -> Any:
    return HOST.row_norms(finite(np.asarray(block)))


def _project(block: Any, scale: Any, mean: Any, components: FloatMatrix) -> FloatMatrix:
    rows = finite(np.asarray(block))
    if not isinstance(scale, float):
        return block_project(rows, scale[:, 0], mean, components)
    check_magnitude("X", largest_magnitude(rows), rows.dtype, learning=False)
    return block_project(rows, scale, mean, components)
