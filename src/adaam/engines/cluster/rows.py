"""Rows on the workers, in row blocks, and what each block is asked for; one CPU engine works inside a task."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from adaam._typing import Column, FloatMatrix, IntVector
from adaam.engines.cluster.columns import (
    ClusterColumn,
    Formula,
    at_block,
    evaluated,
    on_blocks,
    picked_parts,
)
from adaam.engines.cluster.layout import Sizes, added, resized, stacked, starts
from adaam.engines.cluster.workers import Future, Workers, dask_array
from adaam.engines.cpu import CPUEngine

HOST = CPUEngine(kernels="numpy")
FOLD = 8  # small matrices added up by one task
SHORT_ROW = 64  # columns up to which lengths are measured again in place of being kept
NARROW_KINDS = (np.uint8, np.float32)
FEW_ROWS = 16  # which tell of most rows that they are not of a narrow kind


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
    for place, (steps, leaves) in zip(places, formulas, strict=True):
        known[place] = evaluated(steps, None, leaves)
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
