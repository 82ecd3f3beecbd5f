"""Rows and columns in row blocks on the workers, and what a task does with one; the CPU engine works inside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector
from adaam.engines.cluster.tasks import FOLD, Sizes, added, resized, stacked, starts
from adaam.engines.cluster.workers import Future, Workers, dask_array
from adaam.engines.cpu import CPUEngine

MAX_STEPS = 16  # of a formula; longer ones are made first

HOST = CPUEngine(kernels="numpy")
SHORT_ROW = 64  # columns up to which lengths are measured again in place of being kept
NARROW_KINDS = (np.uint8, np.float32)
FEW_ROWS = 16  # which tell of most rows that they are not of a narrow kind


class Formula:
    """How a column comes from others, number by number; the parts are made when they are first asked for."""

    def __init__(self, function: Any, given: Sequence[Any]) -> None:
        self.function = function
        self.given = [value.short() if isinstance(value, ClusterColumn) else value for value in given]
        self.n_steps = 1 + sum(value.n_steps for value in self.given if isinstance(value, ClusterColumn))
        self.made: tuple[Future, ...] | None = None

    def tree(self, index: int, leaves: list[Future]) -> "Applied":
        """Formula of a block as a tree of functions; parts of columns go to `leaves`."""
        given = (value.tree(index, leaves) if isinstance(value, ClusterColumn) else value for value in self.given)
        return Applied(self.function, tuple(given))


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

    def tree(self, index: int, leaves: list[Future]) -> Any:
        """Tell what a block's numbers come from."""
        if isinstance(self.made, Formula) and self.made.made is None:
            return self.made.tree(index, leaves)
        leaves.append(self.parts[index])
        return Leaf(len(leaves) - 1)

    def written(self, index: int) -> list[Any]:
        """Formula of a block's numbers, and the parts it begins with, for a task that is to work it out."""
        leaves: list[Future] = []
        return [self.tree(index, leaves), leaves]

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
        return [self.workers.call(name, evaluated, tree, work, leaves) for tree, leaves in written]


class Leaf(NamedTuple):
    """Place of a part among those given."""

    place: int


class Applied(NamedTuple):
    """A function of values, of leaves, or of other functions.

    It is no plain tuple, which older Dask would take for a task.
    """

    function: Any
    arguments: tuple[Any, ...]


def evaluated(tree: Any, work: Any, leaves: list[Any]) -> Any:
    """Numbers of a block by its formula, or what `work` makes of them."""
    if isinstance(tree, Leaf):
        value = leaves[tree.place]
    elif isinstance(tree, Applied):
        value = tree.function(*(evaluated(argument, None, leaves) for argument in tree.arguments))
    else:
        value = tree
    return value if work is None else work(value)


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


@dataclass(frozen=True, slots=True, eq=False)
class ClusterRows:
    """Row blocks that show their shape and precision as a NumPy array does."""

    parts: tuple[Future, ...]
    sizes: Sizes
    n_columns: int
    dtype: "np.dtype[Any]"
    workers: Workers
    _norms: list[ClusterColumn] = field(default_factory=list, repr=False)
    _lengths: list[Future] = field(default_factory=list, repr=False)

    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return sum(self.sizes), self.n_columns

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def __len__(self) -> int:
        return sum(self.sizes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatMatrix:
        rows = stacked(self.workers.fetch(self.parts))
        return np.asarray(rows.toarray() if issparse(rows) else rows, dtype=dtype)

    def toarray(self) -> FloatMatrix:
        """Bring all rows here, dense."""
        return self.__array__()

    def __getitem__(self, rows: Any) -> "ClusterRows":
        """Take some rows, in ascending order."""
        wanted: IntVector = np.arange(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows)
        if (np.diff(wanted) < 0).any():
            raise ValueError("Rows in blocks can be taken in ascending order alone.")
        edges = np.searchsorted(wanted, [*starts(self.sizes), len(self)])
        sizes = tuple(int(size) for size in np.diff(edges) if size)
        return ClusterRows(tuple(picked_parts(self, wanted)), sizes, self.n_columns, self.dtype, self.workers)

    def each(self, name: str, work: Callable[..., Any], *given: Any) -> list[Future]:
        """Do `work` on each block with its part of the given columns and rows; anything else is given as it is."""
        aligned = [_aligned(value, self) for value in given]
        # Formulas of columns are worked out by the task that needs their numbers.
        places = [i for i, value in enumerate(aligned) if isinstance(value, ClusterColumn) and value.n_steps > 0]
        if not places:
            return [
                self.workers.call(name, work, part, *[_at(value, i) for value in aligned])
                for i, part in enumerate(self.parts)
            ]
        return [
            self.workers.call(
                name,
                with_formulas,
                work,
                places,
                [aligned[place].written(i) for place in places],
                part,
                *[None if place in places else _at(value, i) for place, value in enumerate(aligned)],
            )
            for i, part in enumerate(self.parts)
        ]

    def total(self, name: str, work: Callable[..., Any], *given: Any) -> Any:
        """Sum of what `work` makes of the blocks, in their order."""
        return summed(self.workers, name, self.each(name, work, *given))

    def with_parts(self, parts: list[Future], n_columns: int, dtype: Any) -> "ClusterRows":
        """Rows of the same blocks, made by tasks of their own."""
        return ClusterRows(tuple(parts), self.sizes, n_columns, np.dtype(dtype), self.workers)

    def norms(self) -> ClusterColumn:
        """Lengths of rows, made once; those of short rows by each task that needs them, which takes less time."""
        if self.n_columns <= SHORT_ROW:
            return ClusterColumn(Formula(block_norms, [self.column(list(self.parts))]), self.sizes, self.workers)
        if not self._norms:
            self._norms.append(self.column(self.each("norms", block_norms)))
        return self._norms[0]

    def lengths(self) -> list[Future]:
        """What is told of the lengths of rows of each block, made once."""
        if not self._lengths:
            self._lengths.extend(self.each("lengths", block_lengths))
        return self._lengths

    def column(self, parts: list[Future], dtype: Any = np.float64) -> ClusterColumn:
        """Column of the same blocks."""
        return ClusterColumn(tuple(parts), self.sizes, self.workers, dtype)

    def entrywise(self, function: Callable[..., Any], *given: Any) -> "ClusterRows":
        """Rows that a function of single numbers makes of these."""
        return self.with_parts(self.each("entrywise", function, *map(Fixed, given)), self.n_columns, self.dtype)

    def dask(self) -> Any:
        """Return the rows as a Dask array."""
        return dask_array(self.parts, [(size, self.n_columns) for size in self.sizes], self.dtype)


def with_formulas(work: Callable[..., Any], places: list[int], formulas: list[Any], block: Any, *given: Any) -> Any:
    """Do `work` on a block with what is given, columns at some places by their formulas."""
    known = list(given)
    for place, (tree, leaves) in zip(places, formulas, strict=True):
        known[place] = evaluated(tree, None, leaves)
    return work(block, *known)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value that each block gets whole, though it may look like one for each row."""

    value: Any


def host_rows(X: Any, sizes: Sizes, workers: Workers) -> ClusterRows:
    """Split rows of this process; each block stays with the scheduler as well, to be had again."""
    rows = csr_array(X) if issparse(X) else np.asarray(X)
    blocks = (rows[start : start + size] for start, size in zip(starts(sizes), sizes, strict=True))
    parts = tuple(_sent(block, workers) for block in blocks)
    return ClusterRows(parts, sizes, rows.shape[1], rows.dtype, workers)


def _sent(block: Any, workers: Workers) -> Future:
    narrow = block if issparse(block) else narrowed(block)
    return workers.share("rows", block) if narrow is block else workers.share("rows", narrow, widened, block.dtype)


def narrowed(block: FloatMatrix) -> Any:
    """Return the same numbers in fewer bytes, such as those of pictures in one each; the block itself if none do.

    They pass through client and scheduler on their way, which takes as long as a pass over the rows.
    """
    for kind in NARROW_KINDS:
        if np.dtype(kind).itemsize < block.dtype.itemsize and _as_kind(block[:FEW_ROWS], kind) is not None:
            narrow = _as_kind(block, kind)
            if narrow is not None:
                return narrow
    return block


def _as_kind(block: FloatMatrix, kind: type[Any]) -> Any:
    """Return the same numbers as those of a kind; None where it has not all of them."""
    limits: Any = np.iinfo(kind) if np.issubdtype(kind, np.integer) else np.finfo(kind)
    if block.size == 0 or not (block.min() >= limits.min and block.max() <= limits.max):
        return None
    narrow = block.astype(kind)
    return narrow if (narrow == block).all() else None


def widened(block: Any, dtype: Any) -> FloatMatrix:
    """Bring numbers back to the precision of the caller's rows."""
    return np.asarray(block, dtype)


def summed(workers: Workers, name: str, parts: list[Future]) -> Any:
    """Add up small results on the workers, a few at a time and in a fixed order, and bring the sum here."""
    while len(parts) > 1:
        parts = [workers.call(f"{name}-sum", added, parts[i : i + FOLD]) for i in range(0, len(parts), FOLD)]
    return workers.fetch(parts)[0]


def beside(rows: ClusterRows, X: Any) -> ClusterRows:
    """Rows in the same blocks as others."""
    if isinstance(X, ClusterRows):
        parts = resized(rows.workers, X.parts, X.sizes, rows.sizes)
        return ClusterRows(tuple(parts), rows.sizes, X.n_columns, X.dtype, rows.workers)
    return host_rows(X, rows.sizes, rows.workers)


def _aligned(value: Any, rows: ClusterRows) -> Any:
    if isinstance(value, ClusterRows):
        return beside(rows, value)
    if isinstance(value, ClusterColumn) or (isinstance(value, np.ndarray) and value.shape == (len(rows),)):
        return on_blocks(value, rows.sizes, rows.workers)
    if isinstance(value, Fixed) and isinstance(value.value, np.ndarray) and value.value.nbytes > 1 << 16:
        return Fixed(rows.workers.share("matrix", value.value))
    return value


def _at(value: Any, index: int) -> Any:
    if isinstance(value, ClusterRows):
        return value.parts[index]
    return value.value if isinstance(value, Fixed) else at_block(value, index)


def block_norms(block: Any) -> Any:
    """Lengths of rows."""
    return HOST.row_norms(block)


class Lengths(NamedTuple):
    """Lengths of the rows of a block: the sum of their squares, and the largest."""

    square: float
    longest: float


def block_lengths(block: Any) -> Lengths:
    """Measure the rows of a block."""
    norms = HOST.row_norms(block)
    return Lengths(float(np.square(norms).sum()), float(norms.max(initial=0.0)))


def block_cross(A: Any, B: Any, weights: Column) -> FloatMatrix:
    """Sum over rows of weight * a b'."""
    return HOST.cross(A, B, weights)


def block_sum(X: Any, weights: Column) -> Any:
    """Sum over rows of weight * x."""
    return HOST.cross(None, X, weights)


def block_scatter(X: Any, scale: Column, weights: Column, mean: Any) -> FloatMatrix:
    """Sum over rows of weight * z z' with z = scale * x - mean."""
    return HOST.scatter(X, scale, mean, weights)


def block_project(X: Any, scale: Column, mean: Any, components: FloatMatrix) -> FloatMatrix:
    """(scale * x - mean) @ components.T."""
    return np.asarray(HOST.project(X, scale, mean, components))


def block_nearest(Z: Any, centers: FloatMatrix) -> IntVector:
    """Nearest centre of each row."""
    return HOST.nearest(Z, centers)


def centred(X: Any, scale: Column, weights: Column, mean: Any) -> FloatMatrix:
    """Rows scaled, less their mean and times the root of their weight, dense in float64: of few rows alone."""
    dense = np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
    moved = dense * (scale if isinstance(scale, float) else scale[:, None]) - mean
    return np.asarray(moved * (np.sqrt(weights) if isinstance(weights, float) else np.sqrt(weights)[:, None]))


def row_products(blocks: list[FloatMatrix]) -> FloatMatrix:
    """Inner products between all rows."""
    rows = np.concatenate(blocks)
    return np.asarray(rows @ rows.T)
