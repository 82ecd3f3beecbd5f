"""Nearest rows between two blocks: candidates by float32 tiles, measured from differences, nothing missed."""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.blocks import row_blocks
from adaam.engines.cluster.task_kernels import TaskKernels
from adaam.engines.kernels.block_neighbors import are_measurable, near_blocks
from adaam.engines.kernels.narrow import Frame
from adaam.engines.nearest import nearest_others

Pairs: TypeAlias = tuple[IntVector, IntVector, FloatVector]  # a row, another one, squared distance

MEASURED_ROWS = 1 << 13  # differences made at a time


class Found(NamedTuple):
    """Pairs of a row of one's own and another row, by its number among all, with their squared distance."""

    rows: IntVector
    others: IntVector
    squares: FloatVector
    weights: FloatVector | None  # of the others; None where all weigh 1


class Table(NamedTuple):
    """Nearest others of each row of a block, nearest first; infinity where there are fewer."""

    others: IntMatrix
    squares: FloatMatrix
    weights: FloatMatrix | None

    def bounds(self) -> FloatVector:
        """Squared distance within which each row has all its neighbours."""
        return np.asarray(self.squares[:, -1])


class Scaled:
    """Rows in float32 over a common length, so that a tile of squared distances is one product (`engines.nearest`)."""

    def __init__(self, X: FloatMatrix, peak: float) -> None:
        n, d = X.shape
        self.right = np.ones((n, d + 2), np.float32)
        np.divide(X, peak, out=self.right[:, :d], casting="same_kind")
        self.right[:, d + 1] = np.einsum("ij,ij->i", self.right[:, :d], self.right[:, :d])

    def left(self, rows: slice) -> FloatMatrix:
        """Factor of the product: (-2x, |x|², 1)."""
        left = self.right[rows] * np.float32(-2.0)
        left[:, -2:] = self.right[rows, :-3:-1]
        return np.asarray(left)


def between(
    A: FloatMatrix, B: FloatMatrix, bounds: tuple[FloatVector, FloatVector | None], k: int, tile_rows: int
) -> tuple[Pairs, Pairs]:
    """Rows of B that may be among the k nearest of A's, and rows of A for B's where B has bounds, each measured.

    A pair is kept if its squared distance is within the bound of the row it is kept for. A row without a bound keeps
    the k nearest of each tile.
    """
    peak = float(np.sqrt(max(_longest(A), _longest(B)))) or 1.0
    ours, theirs = Scaled(A, peak), Scaled(B, peak)
    error = np.float32((A.shape[1] + 16) * 2.0**-24 * 2.0)
    limits, other_limits = (None if bound is None else (bound / peak**2).astype(np.float32) + error for bound in bounds)
    mine: list[Pairs] = []
    yours: list[Pairs] = []
    assert limits is not None
    for rows in row_blocks(len(A), tile_rows):
        left = ours.left(rows)
        for columns in row_blocks(len(B), tile_rows):
            tile = left @ theirs.right[columns].T
            row, column = _within(tile, _closest(tile, limits[rows], k, error)[:, None])
            mine.append(_measured(A, B, row + rows.start, column + columns.start, bounds[0]))
            if other_limits is not None:
                row, column = _within(tile, _closest(tile.T, other_limits[columns], k, error))
                yours.append(_measured(B, A, column + columns.start, row + rows.start, bounds[1]))
    return _joined(mine), _joined(yours)


def both_ways(
    blocks: list[FloatMatrix], bounds: list[FloatVector], k: int, frame: Frame, kernels: TaskKernels
) -> Iterator[tuple[Pairs, Pairs]]:
    """What the first block finds in each other one, and each other one in the first, within the bounds of all."""
    compiled = kernels.here()
    if compiled is not None and are_measurable(blocks, bounds, frame):
        yield from near_blocks(blocks, bounds, frame, compiled)
        return
    for X, bound in zip(blocks[1:], bounds[1:], strict=True):
        yield between(blocks[0], X, (bounds[0], bound), k, kernels.tile_rows)


def own_table(X: FloatMatrix, start: int, weights: FloatVector | float, k: int, kernels: TaskKernels) -> Table:
    """Nearest others within a block whose first row has the number `start`."""
    known = None
    if len(X) > 4 * k:
        # Writable: numba compiles once more for arrays that are not, as those that came over a network.
        known = nearest_others(np.require(X, requirements=["C", "W"]), k, kernels.tile_rows, kernels.here())
    if known is None:
        free = np.full(len(X), np.inf)
        row, column, squares = between(X, X, (free, None), min(k + 1, len(X)), kernels.tile_rows)[0]
        apart = row != column
        found = Found(row[apart], column[apart] + start, squares[apart], None)
    else:
        others, distances = known
        found = Found(np.repeat(np.arange(len(X)), k), others.ravel() + start, np.square(distances).ravel(), None)
    if not isinstance(weights, float):
        found = found._replace(weights=weights[found.others - start])
    return best(len(X), k, [found], kernels)


def best(n_rows: int, k: int, parts: list[Found], kernels: TaskKernels) -> Table:
    """The k nearest of all that was found, the lower number first on a tie."""
    row, other, squares = (np.concatenate(part) for part in list(zip(*parts, strict=True))[:3])
    others = np.full((n_rows, k), -1, np.int64)
    table = np.full((n_rows, k), np.inf)
    compiled = kernels.here()
    if compiled is None:
        order = np.lexsort((other, squares, row))
        counts = np.bincount(row, minlength=n_rows)
        place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        near = place < k
        place, pair = place[near], order[near]
        others[row[pair], place], table[row[pair], place] = other[pair], squares[pair]
    else:
        pairs = np.full((n_rows, k), -1, np.int64)
        compiled.keep_best(row.astype(np.int64, copy=False), other, squares, pairs, others, table)
        filled = np.nonzero(pairs >= 0)
        place, pair = filled[1], pairs[filled]
    if parts[0].weights is None:
        return Table(others, table, None)
    held = np.zeros((n_rows, k))
    held[row[pair], place] = np.concatenate([part.weights for part in parts if part.weights is not None])[pair]
    return Table(others, table, held)


def listed(table: Table) -> Found:
    """Entries of a table."""
    known = np.isfinite(table.squares)
    row = np.nonzero(known)[0]
    return Found(
        row, table.others[known], table.squares[known], None if table.weights is None else table.weights[known]
    )


def _closest(tile: FloatMatrix, limits: FloatVector, k: int, error: np.float32) -> FloatVector:
    """Limit for each row of a tile: the known one, or that of the k-th nearest here."""
    free = np.flatnonzero(np.isinf(limits))
    if len(free) == 0 or tile.shape[1] <= k:
        return limits
    limits = limits.copy()
    limits[free] = np.partition(tile[free], k - 1, axis=1)[:, k - 1] + 2 * error
    return limits


def _within(tile: FloatMatrix, limits: FloatVector) -> tuple[IntVector, IntVector]:
    row, column = np.divmod(np.flatnonzero(tile <= limits), tile.shape[1])
    return row, column


def _measured(A: FloatMatrix, B: FloatMatrix, row: IntVector, column: IntVector, bounds: FloatVector | None) -> Pairs:
    """Measure pairs from differences in the precision of the rows, and keep those within the bounds."""
    squares = np.empty(len(row))
    for part in row_blocks(len(row), MEASURED_ROWS):
        difference = A[row[part]] - B[column[part]]
        squares[part] = np.einsum("ij,ij->i", difference, difference)
    assert bounds is not None
    kept = squares <= bounds[row]
    return row[kept], column[kept], squares[kept]


def _joined(parts: list[Pairs]) -> Pairs:
    if not parts:
        return np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0)
    row, column, squares = (np.concatenate(part) for part in zip(*parts, strict=True))
    return row, column, squares


def _longest(X: FloatMatrix) -> float:
    return float(np.einsum("ij,ij->i", X, X).max(initial=0.0))
