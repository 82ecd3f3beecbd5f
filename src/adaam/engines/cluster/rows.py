"""Rows on a cluster: row blocks on the workers, and Dask arrays that stay lazy.

Columns are on the client and are sent with the tasks that need them. Tasks run the CPU engine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, pairwise
from operator import getitem
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from adaam._checks import check_magnitude, largest_magnitude
from adaam._typing import Column, FloatMatrix, FloatVector, IntVector
from adaam.engines.cluster.workers import (
    HOST,
    Future,
    Workers,
    as_dask_array,
    check_room,
    dask_array,
    is_dask,
    mapped_array,
)
from adaam.engines.equal_rows import first_of, quick_hashes, repeated, row_digests

Sizes: TypeAlias = tuple[int, ...]

MOST_BLOCKS = 96  # or two per thread; limits the pieces sent from each block to each group to some thousands
LEAST_ROWS = 512  # of a block
LARGE_BYTES = 1 << 16  # larger arrays are sent once, not with each task


def starts(sizes: Sizes) -> tuple[int, ...]:
    """First row of each block."""
    return tuple(accumulate(sizes, initial=0))[:-1]


def planned_sizes(n_rows: int, row_bytes: int, n_threads: int, task_bytes: int, block_rows: int | None) -> Sizes:
    """Sizes of row blocks: two blocks for each thread, more if a block takes over an eighth of what a task may hold."""
    if block_rows is None:
        n_blocks = max(4, 2 * n_threads, -(-8 * n_rows * row_bytes // task_bytes))
        n_blocks = min(n_blocks, max(MOST_BLOCKS, 2 * n_threads), max(1, n_rows // LEAST_ROWS))
    else:
        n_blocks = -(-n_rows // block_rows)
    edges = [i * n_rows // max(1, n_blocks) for i in range(max(1, n_blocks) + 1)]
    return tuple(stop - start for start, stop in pairwise(edges))


class ByRow(NamedTuple):
    """Rows, or a column, of which each block gets its part."""

    values: Any


@dataclass(frozen=True, eq=False)
class ClusterRows:
    """Row blocks on the workers, with the `shape` and `dtype` attributes of a NumPy array."""

    parts: tuple[Future, ...]
    sizes: Sizes
    n_columns: int
    dtype: "np.dtype[Any]"
    workers: Workers

    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), self.n_columns

    def __len__(self) -> int:
        return sum(self.sizes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatMatrix:
        rows = np.empty(self.shape, self.dtype if dtype is None else dtype)
        # One block after the other, so that memory never holds all rows twice.
        for block, part in zip(self.slices(), self.parts, strict=True):
            found = self.workers.fetch([part])[0]
            rows[block] = found.toarray() if issparse(found) else found
        return rows

    @cached_property
    def gathered(self) -> FloatMatrix:
        """All rows as a dense array in this process; fetched once."""
        check_room(*self.shape, self.dtype.itemsize)
        return np.asarray(self)

    def slices(self) -> list[slice]:
        """Rows of each block."""
        return [slice(start, start + size) for start, size in zip(starts(self.sizes), self.sizes, strict=True)]

    def __getitem__(self, rows: Any) -> "ClusterRows":
        """Select rows, in ascending order; blocks that are selected as a whole are not copied."""
        wanted: IntVector = np.arange(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows)
        if (np.diff(wanted) <= 0).any():
            raise ValueError("Rows in blocks can be taken in ascending order alone.")
        parts, sizes = [], []
        for part, block in zip(self.parts, self.slices(), strict=True):
            low, high = np.searchsorted(wanted, [block.start, block.stop])
            if low < high:
                whole = high - low == block.stop - block.start
                parts.append(
                    part if whole else self.workers.call("pick", getitem, part, wanted[low:high] - block.start)
                )
                sizes.append(int(high - low))
        return ClusterRows(tuple(parts), tuple(sizes), self.n_columns, self.dtype, self.workers)

    def each(self, name: str, work: Callable[..., Any], *given: Any) -> list[Future]:
        """Apply `work` to each block, with its part of `ByRow` arguments and the whole of all others."""
        by_block = [self.by_block(value.values) if isinstance(value, ByRow) else self._whole(value) for value in given]
        return [
            self.workers.call(name, work, part, *(values[i] for values in by_block))
            for i, part in enumerate(self.parts)
        ]

    def by_block(self, values: Any) -> Sequence[Any]:
        """Split rows or a column into the parts of the blocks."""
        if isinstance(values, ClusterRows):
            if values.sizes == self.sizes:
                return values.parts
            return self.workers.blocks_of(values.dask().rechunk((self.sizes, -1)))
        return [values if isinstance(values, float) else values[block] for block in self.slices()]

    def _whole(self, value: Any) -> list[Any]:
        large = isinstance(value, np.ndarray) and value.nbytes > LARGE_BYTES
        return [self.workers.share("matrix", value) if large else value] * len(self.parts)

    def total(self, name: str, work: Callable[..., Any], *given: Any) -> Any:
        """Sum of the results of `work` on the blocks, in their order."""
        return self.workers.summed(name, self.each(name, work, *given))

    def column(self, name: str, work: Callable[..., Any], *given: Any) -> Any:
        """Compute a column block by block, and fetch it."""
        return np.concatenate(self.workers.fetch(self.each(name, work, *given)))

    @cached_property
    def norms(self) -> FloatVector:
        """Lengths of rows, computed once."""
        return np.asarray(self.column("norms", HOST.row_norms))

    def with_parts(self, parts: Sequence[Future], n_columns: int, dtype: Any) -> "ClusterRows":
        """Rows in blocks of the same sizes, with other futures."""
        return ClusterRows(tuple(parts), self.sizes, n_columns, np.dtype(dtype), self.workers)

    def entrywise(self, function: Callable[..., Any], *given: Any) -> "ClusterRows":
        """Apply an elementwise function to the rows."""
        return self.with_parts(self.each("entrywise", function, *given), self.n_columns, self.dtype)

    def dask(self) -> Any:
        """Return the rows as a Dask array."""
        return dask_array(self.parts, [(size, self.n_columns) for size in self.sizes], self.dtype)


def host_rows(X: Any, sizes: Sizes, workers: Workers) -> ClusterRows:
    """Split rows of this process; the scheduler keeps each block as well, in case a worker is lost."""
    rows = csr_array(X) if issparse(X) else np.asarray(X)
    blocks = (rows[start : start + size] for start, size in zip(starts(sizes), sizes, strict=True))
    parts = tuple(workers.share("rows", block) for block in blocks)
    return ClusterRows(parts, sizes, rows.shape[1], rows.dtype, workers)


def stacked(blocks: Sequence[Any]) -> Any:
    """Row blocks, dense or sparse, one below the other."""
    if any(issparse(block) for block in blocks):
        return csr_array(vstack(blocks, format="csr"))
    return np.concatenate(blocks)


def first_equal(X: ClusterRows) -> IntVector:
    """Index of the first row equal to each row, by quick hashes, and by digests of rows whose hash repeats."""
    suspects = repeated(X.column("equal-rows", block_hashes))
    edges = np.searchsorted(suspects, [*starts(X.sizes), len(X)])
    asked = [
        X.workers.call("equal-rows", block_digests, part, suspects[low:high] - first)
        for part, first, low, high in zip(X.parts, starts(X.sizes), edges[:-1], edges[1:], strict=True)
        if low < high
    ]
    return first_of(len(X), suspects, chain.from_iterable(X.workers.fetch(asked)))


def block_hashes(block: Any) -> IntVector:
    """Quick hashes of the rows of a block; sparse rows all get the same one."""
    return np.zeros(block.shape[0], np.uint64) if issparse(block) else quick_hashes(block)


def block_digests(block: Any, rows: IntVector) -> list[bytes]:
    """Digests of some rows of a block."""
    return list(row_digests(block[rows]))


def between_all(blocks: list[Any], scale: Column, mean: FloatVector, weights: Column) -> FloatMatrix:
    """Inner products between the rows of all blocks, as in `Engine.scatter`."""
    return HOST.scatter(stacked(blocks), scale, mean, weights, between_rows=True)


def dealt(X: ClusterRows, weights: Column, places: Callable[[IntVector], IntVector], edges: Sizes) -> list[Future]:
    """Shuffle rows of positive weight into groups by their place; rows at or past the last edge are left out.

    A group is a pair of rows, sorted by place, and their weights.
    """
    held = X.by_block(weights)
    counts = X.sizes if isinstance(weights, float) else tuple(int(np.count_nonzero(own)) for own in held)
    pieces = [
        X.workers.call("deal", split_by_place, part, own, first, places, edges)
        for part, own, first in zip(X.parts, held, starts(counts), strict=True)
    ]
    return [
        X.workers.call("deal-blocks", laid_out, [X.workers.call("deal-send", getitem, piece, i) for piece in pieces])
        for i in range(len(edges) - 1)
    ]


def row_labels(Z: Any, work: Callable[[Any], IntVector]) -> Any:
    """Labels that `work` gives the rows of each block, as a Dask array; lazy if Z is one."""
    if is_dask(Z):
        return mapped_array(Z, work, None, np.intp, "adaam-predict")
    return dask_array(Z.each("labels", work), [(size,) for size in Z.sizes], np.intp)


def split_by_place(X: Any, weights: Any, first: int, places: Any, edges: Sizes) -> list[Any]:
    """Split the rows of a block by the group of their place, with places and weights."""
    present = np.arange(X.shape[0]) if isinstance(weights, float) else np.flatnonzero(weights)
    place = places(np.arange(first, first + len(present)))
    order = np.argsort(place)
    cuts = np.searchsorted(place[order], edges)
    return [
        (place[some], X[present[some]], weights if isinstance(weights, float) else weights[present[some]])
        for some in (order[low:high] for low, high in pairwise(cuts))
    ]


def laid_out(pieces: list[Any]) -> tuple[Any, Any]:
    """Rows of a group in the order of their places, with their weights."""
    place, rows, weights = zip(*pieces, strict=True)
    order = np.argsort(np.concatenate(place))
    return stacked(rows)[order], weights[0] if isinstance(weights[0], float) else np.concatenate(weights)[order]


@dataclass(frozen=True, slots=True, eq=False)
class LazyRows:
    """A checked Dask array of rows, to be mapped lazily, with the names of its columns if it was a DataFrame."""

    array: Any
    named: Any = None  # an empty DataFrame with the same columns

    ndim = 2

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

    def __len__(self) -> int:
        return self.shape[0]


def lazy_rows(X: Any, at_least: int) -> LazyRows:
    """Check a Dask array or DataFrame as far as possible without computing its values."""
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
    return LazyRows(mapped_array(array, finite, int(d), array.dtype, "adaam-rows"), named)


def finite(block: Any) -> Any:
    """Return a block as a NumPy array whose numbers are all finite."""
    rows = np.asarray(block)
    with np.errstate(over="ignore", invalid="ignore"):
        total = rows.sum()
    # A finite sum proves every entry finite, and takes no mask of the block's size.
    if not np.isfinite(total) and not np.isfinite(rows).all():
        raise ValueError("X contains NaN or infinity. Remove or impute such rows first.")
    return rows


def projected(rows: Any, scale: Any, mean: FloatVector, components: FloatMatrix) -> FloatMatrix:
    """(scale * x - mean) @ components.T of new rows; the scales of rows are a matrix of one column."""
    if isinstance(scale, float):
        check_magnitude("X", largest_magnitude(rows), rows.dtype, learning=False)
        return np.asarray(HOST.project(rows, scale, mean, components))
    return np.asarray(HOST.project(rows, scale[:, 0], mean, components))
