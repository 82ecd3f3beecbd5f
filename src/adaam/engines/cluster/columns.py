"""One number a row on the workers, in row blocks: arithmetic is done where they are."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from adaam._typing import Column, FloatVector, IntVector
from adaam.engines.cluster.layout import Sizes, resized, starts
from adaam.engines.cluster.workers import Future, Workers


@dataclass(frozen=True, slots=True, eq=False)
class ClusterColumn(np.lib.mixins.NDArrayOperatorsMixin):
    """Numbers of row blocks; NumPy's operators and functions of single numbers give further columns."""

    parts: tuple[Future, ...]
    sizes: Sizes
    workers: Workers
    dtype: Any = np.float64

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows."""
        return (sum(self.sizes),)

    def __len__(self) -> int:
        return sum(self.sizes)

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **options: Any) -> Any:
        """Apply a function of single numbers block by block."""
        if method != "__call__" or options:
            return NotImplemented
        columns = [on_blocks(value, self.sizes, self.workers) for value in given]
        parts = tuple(
            self.workers.call("column", ufunc, *[at_block(column, i) for column in columns])
            for i in range(len(self.sizes))
        )
        return ClusterColumn(parts, self.sizes, self.workers)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatVector:
        return np.concatenate([np.empty(0), *self.workers.fetch(self.parts)]).astype(dtype or self.dtype, copy=False)

    def __getitem__(self, rows: Any) -> FloatVector:
        """Numbers of a few rows, here."""
        wanted = np.arange(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows)
        order = np.argsort(wanted, kind="stable")
        found = np.empty(len(wanted), self.dtype)
        found[order] = np.concatenate([np.empty(0), *self.workers.fetch(picked_parts(self, wanted[order]))])
        return found

    def sum(self) -> Any:
        """Sum over all rows."""
        return sum(self._each(np.sum))

    def min(self) -> Any:
        """Smallest number."""
        return min(self._each(np.min))

    def max(self) -> Any:
        """Largest number."""
        return max(self._each(np.max))

    def mean(self) -> float:
        """Mean over all rows."""
        return float(self.sum()) / len(self)

    def any(self) -> bool:
        """Whether any is not zero."""
        return any(self._each(np.any))

    def all(self) -> bool:
        """Whether none is zero."""
        return all(self._each(np.all))

    def _each(self, work: Any) -> list[Any]:
        return self.workers.fetch([self.workers.call("column", work, part) for part in self.parts])


def on_blocks(column: Any, sizes: Sizes, workers: Workers) -> Column:
    """Return a column in row blocks of these sizes; a number stays one."""
    if isinstance(column, ClusterColumn):
        parts = resized(workers, column.parts, column.sizes, sizes)
        return ClusterColumn(tuple(parts), sizes, workers, column.dtype)
    if np.ndim(column) == 0:
        return column
    if len(column) != sum(sizes):
        raise ValueError(f"A column of {len(column)} numbers does not go with {sum(sizes)} rows.")
    blocks = [column[start : start + size] for start, size in zip(starts(sizes), sizes, strict=True)]
    return ClusterColumn(tuple(workers.share("column", block) for block in blocks), sizes, workers, blocks[0].dtype)


def at_block(column: Column, index: int) -> Any:
    """Numbers of one block, or the number that all rows have."""
    return column.parts[index] if isinstance(column, ClusterColumn) else column


def picked_parts(blocks: Any, wanted: IntVector) -> list[Future]:
    """Some rows of a column or of rows in blocks, in the order of the blocks they are in; `wanted` is ascending."""
    edges = np.searchsorted(wanted, [*starts(blocks.sizes), sum(blocks.sizes)])
    return [
        blocks.workers.call("pick", taken, part, wanted[low:high] - start)
        for part, start, low, high in zip(blocks.parts, starts(blocks.sizes), edges[:-1], edges[1:], strict=True)
        if low < high
    ]


def taken(block: Any, rows: IntVector) -> Any:
    """Rows of a block."""
    return block[rows]
