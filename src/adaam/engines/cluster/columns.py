"""One number a row on the workers, in row blocks: arithmetic is done where they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from adaam._typing import Column, FloatVector, IntVector
from adaam.engines.cluster.layout import Sizes, resized, starts
from adaam.engines.cluster.workers import Future, Workers

MAX_STEPS = 16  # of a formula; longer ones are made first


class Formula:
    """How a column comes from others, number by number; the parts are made when they are first asked for."""

    def __init__(self, function: Any, given: Sequence[Any]) -> None:
        self.function = function
        self.given = [value.short() if isinstance(value, ClusterColumn) else value for value in given]
        self.n_steps = 1 + sum(value.n_steps for value in self.given if isinstance(value, ClusterColumn))
        self.made: tuple[Future, ...] | None = None

    def steps(self, index: int, leaves: list[Future]) -> list[Any]:
        """Write the formula of a block: what is given, then the function; parts of columns go to `leaves`."""
        written: list[Any] = []
        for value in self.given:
            written += value.steps(index, leaves) if isinstance(value, ClusterColumn) else [value]
        return [*written, Applied(self.function, len(self.given))]


@dataclass(frozen=True, slots=True, eq=False)
class ClusterColumn(np.lib.mixins.NDArrayOperatorsMixin):
    """Numbers of row blocks; NumPy's operators and functions of single numbers give further columns.

    Those are formulas until they are used, so that a block's numbers take one task for all the operators together.
    """

    made: tuple[Future, ...] | Formula
    sizes: Sizes
    workers: Workers
    dtype: Any = np.float64

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows."""
        return (sum(self.sizes),)

    def __len__(self) -> int:
        return sum(self.sizes)

    @property
    def parts(self) -> tuple[Future, ...]:
        """Numbers of each block, on the workers."""
        if not isinstance(self.made, Formula):
            return self.made
        if self.made.made is None:
            self.made.made = tuple(self._each("column", None))
            self.made.given = []
        return self.made.made

    @property
    def n_steps(self) -> int:
        """Functions that lead to the numbers from what is on the workers."""
        return self.made.n_steps if isinstance(self.made, Formula) and self.made.made is None else 0

    def short(self) -> "ClusterColumn":
        """Return the column itself, or where its formula is long, with its parts made."""
        if self.n_steps <= MAX_STEPS:
            return self
        return ClusterColumn(self.parts, self.sizes, self.workers, self.dtype)

    def steps(self, index: int, leaves: list[Future]) -> list[Any]:
        """Write what a block's numbers come from."""
        if isinstance(self.made, Formula) and self.made.made is None:
            return self.made.steps(index, leaves)
        return [_leaf(self.parts[index], leaves)]

    def written(self, index: int) -> list[Any]:
        """Write the formula of a block's numbers, and the parts it begins with, for a task that is to work it out."""
        leaves: list[Future] = []
        return [self.steps(index, leaves), leaves]

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **options: Any) -> Any:
        """Apply a function of single numbers block by block."""
        if method != "__call__" or options:
            return NotImplemented
        columns = [on_blocks(value, self.sizes, self.workers) for value in given]
        return ClusterColumn(Formula(ufunc, columns), self.sizes, self.workers)

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
        return sum(self.workers.fetch(self._each("column", np.sum)))

    def min(self) -> Any:
        """Smallest number."""
        return min(self.workers.fetch(self._each("column", np.min)))

    def max(self) -> Any:
        """Largest number."""
        return max(self.workers.fetch(self._each("column", np.max)))

    def mean(self) -> float:
        """Mean over all rows."""
        return float(self.sum()) / len(self)

    def any(self) -> bool:
        """Whether any is not zero."""
        return any(self.workers.fetch(self._each("column", np.any)))

    def all(self) -> bool:
        """Whether none is zero."""
        return all(self.workers.fetch(self._each("column", np.all)))

    def _each(self, name: str, work: Any) -> list[Future]:
        """Do `work` on the numbers of each block; None means to leave them as they are."""
        written = [self.written(index) for index in range(len(self.sizes))]
        return [self.workers.call(name, evaluated, steps, work, leaves) for steps, leaves in written]


def _leaf(part: Future, leaves: list[Future]) -> "Leaf":
    leaves.append(part)
    return Leaf(len(leaves) - 1)


class Leaf(NamedTuple):
    """Place of a part among those given."""

    place: int


class Applied(NamedTuple):
    """A function of so many values. A plain tuple that begins with a function would be a task to older Dask."""

    function: Any
    n_given: int


def evaluated(steps: list[Any], work: Any, leaves: list[Any]) -> Any:
    """Numbers of a block by its formula: values wait in a pile, and a function takes its own from the top."""
    pile: list[Any] = []
    for step in steps:
        if isinstance(step, Leaf):
            pile.append(leaves[step.place])
        elif isinstance(step, Applied):
            pile[-step.n_given :] = [step.function(*pile[-step.n_given :])]
        else:
            pile.append(step)
    return pile[0] if work is None else work(pile[0])


def on_blocks(column: Any, sizes: Sizes, workers: Workers) -> Column:
    """Return a column in row blocks of these sizes; a number stays one."""
    if isinstance(column, ClusterColumn):
        if column.sizes == sizes:
            return column
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
