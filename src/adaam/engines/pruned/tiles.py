"""The pruned affinity S(PP') by NumPy, tile by tile.

No tile outlives its turn, and each pair of row blocks is multiplied once: entry (i, j) serves for (j, i).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, FloatVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.pruned.cut import Bracket, Tally

# Above this share of kept entries a dense product of the tile is faster than a sparse one (decision 0004).
DENSE_SHARE = 0.125


@dataclass(frozen=True, slots=True)
class PairBlock:
    """Part of PP': rows against columns, of which entries right of the diagonal count, each for both directions.

    On one machine rows and columns are all there are. A task of a cluster takes the rows of one row block, and the
    columns of it and of others, or of others alone.
    """

    P: FloatMatrix
    weights: FloatVector
    column_P: FloatMatrix
    column_weights: FloatVector
    offset: int = 0  # places by which the first column comes after the first row
    X: FloatMatrix | None = None  # rows that columns stand for, to be multiplied with

    def tiles(self, rows: slice, tile_rows: int) -> Iterator[tuple[slice, FloatMatrix]]:
        """Tiles of a row block with entries right of the diagonal; on and below it entries are zero."""
        for columns in row_blocks(len(self.column_P), tile_rows):
            ahead = self.offset + columns.start - rows.start
            if self.offset + columns.stop <= rows.start + 1:
                continue
            tile = self.P[rows] @ self.column_P[columns].T
            yield columns, tile if ahead >= rows.stop - rows.start else np.triu(tile, k=1 - ahead)


def all_pairs(P: FloatMatrix, weights: FloatVector, X: FloatMatrix | None = None) -> PairBlock:
    """All of PP'."""
    return PairBlock(P, weights, P, weights, X=X)


class PrunedSums(NamedTuple):
    """What the kept entries S of a part of PP' add up to: half of X'WSWX, and Sw of rows and of columns."""

    gram: FloatMatrix
    row_sums: FloatVector
    column_sums: FloatVector


def tile_tallies(block: PairBlock, bracket: Bracket, tile_rows: int) -> Iterator[Tally]:
    """Count the positive magnitudes of a part of PP' against a bracket, a row block at a time, in order."""
    uniform = bool(np.all(block.weights == 1.0) and np.all(block.column_weights == 1.0))

    def row_tally(rows: slice) -> Tally:
        above, values, counts = 0.0, [np.empty(0, block.P.dtype)], [np.empty(0)]
        for columns, tile in block.tiles(rows, tile_rows):
            np.abs(tile, out=tile)
            # Zeros stand for the lower triangle of a diagonal tile, and never decide a cut above zero.
            found = np.flatnonzero(tile >= bracket.low) if bracket.low > 0 else np.flatnonzero(tile)
            inside = tile.ravel()[found] <= bracket.high
            if uniform:
                above += 2.0 * (len(found) - np.count_nonzero(inside))
                counts.append(np.full(np.count_nonzero(inside), 2.0))
            else:
                row, column = np.divmod(found, tile.shape[1])
                each = 2.0 * block.weights[rows][row] * block.column_weights[columns][column]
                above += float(each[~inside].sum())
                counts.append(each[inside])
            values.append(tile.ravel()[found[inside]])
        return Tally(above, np.concatenate(values), np.concatenate(counts))

    yield from ordered_map(row_tally, row_blocks(len(block.P), tile_rows))


def prune(tile: FloatMatrix, threshold: float) -> csr_array | FloatMatrix:
    """Keep the entries of magnitude at least `threshold`, in whichever form multiplies faster."""
    keep = np.abs(tile) >= threshold
    counts = np.count_nonzero(keep, axis=1)
    if counts.sum() > DENSE_SHARE * tile.size:
        tile[~keep] = 0.0
        return tile
    found = np.flatnonzero(keep)
    columns = (found % tile.shape[1]).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return csr_array((tile.ravel()[found], columns, starts), shape=tile.shape)


def pruned_sums(block: PairBlock, X: FloatMatrix, threshold: float, tile_rows: int) -> PrunedSums:
    """Sums over the entries of a part of PP' of magnitude at least `threshold`, where X are the rows of its rows."""
    columns_X = block.X
    assert columns_X is not None
    w, v = block.weights.astype(X.dtype), block.column_weights.astype(X.dtype)
    uniform = bool(np.all(v == 1.0) and np.all(w == 1.0))

    def row_sums(rows: slice) -> PrunedSums:
        product = np.zeros((rows.stop - rows.start, X.shape[1]), X.dtype)
        along, down = np.zeros(rows.stop - rows.start), np.zeros(len(v))
        for columns, tile in block.tiles(rows, tile_rows):
            kept = prune(tile, threshold)
            product += kept @ (columns_X[columns] if uniform else columns_X[columns] * v[columns, None])
            along += kept @ v[columns]
            down[columns] += kept.T @ w[rows]
        own = X[rows] if uniform else X[rows] * w[rows, None]
        return PrunedSums(np.asarray(own.T @ product, np.float64), along, down)

    return summed_rows(ordered_map(row_sums, row_blocks(len(block.P), tile_rows)))


def summed_rows(parts: Iterator[PrunedSums]) -> PrunedSums:
    """Put the sums of row blocks together."""
    first = next(parts)
    gram, down, along = first.gram, first.column_sums, [first.row_sums]
    for part in parts:
        gram += part.gram
        down += part.column_sums
        along.append(part.row_sums)
    return PrunedSums(gram, np.concatenate(along), down)
