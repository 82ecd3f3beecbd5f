"""The pruned affinity S(PP') by NumPy, tile by tile.

Each tile is discarded after use, and each pair of row blocks is multiplied once: entry (i, j) also serves as (j, i).
"""

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, FloatVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.pruned.cut import Bracket, Tally

# Above this share of kept entries a dense product of the tile is faster than a sparse one (decision 0004).
DENSE_SHARE = 0.125


def upper_tiles(P: FloatMatrix, rows: slice, tile_rows: int) -> Iterator[tuple[slice, FloatMatrix]]:
    """Yield columns and tiles of the upper triangle of PP' for a row block; on and below the diagonal, tiles are 0.

    Tiles share their memory: in Dask workers, memory for a new one would come from the system page by page.
    """
    height = rows.stop - rows.start
    memory = np.empty(height * min(tile_rows, len(P)), P.dtype)
    for columns in row_blocks(len(P), tile_rows)[rows.start // tile_rows :]:
        width = columns.stop - columns.start
        tile = np.matmul(P[rows], P[columns].T, out=memory[: height * width].reshape(height, width))
        if columns.start == rows.start:
            tile[np.tri(height, dtype=bool)] = 0.0
        yield columns, tile


def tile_tallies(P: FloatMatrix, weights: FloatVector, bracket: Bracket, tile_rows: int) -> Iterator[Tally]:
    """Tallies of the nonzero off-diagonal magnitudes of PP' for a bracket, one per row block, in order."""
    uniform = bool(np.all(weights == 1.0))

    def row_tally(rows: slice) -> Tally:
        above, values, counts = 0.0, [np.empty(0, P.dtype)], [np.empty(0)]
        for columns, tile in upper_tiles(P, rows, tile_rows):
            np.abs(tile, out=tile)
            # Zeros are the lower triangle of a diagonal tile, and do not affect a cut above zero.
            found = np.flatnonzero(tile >= bracket.low) if bracket.low > 0 else np.flatnonzero(tile)
            inside = tile.ravel()[found] <= bracket.high
            if uniform:
                above += 2.0 * (len(found) - np.count_nonzero(inside))
                counts.append(np.full(np.count_nonzero(inside), 2.0))
            else:
                row, column = np.divmod(found, tile.shape[1])
                each = 2.0 * weights[rows][row] * weights[columns][column]
                above += float(each[~inside].sum())
                counts.append(each[inside])
            values.append(tile.ravel()[found[inside]])
        return Tally(above, np.concatenate(values), np.concatenate(counts))

    return ordered_map(row_tally, row_blocks(len(P), tile_rows))


def prune(tile: FloatMatrix, threshold: float) -> csr_array | FloatMatrix:
    """Keep the entries of magnitude at least `threshold`, as CSR or dense, whichever multiplies faster."""
    keep = (tile >= threshold) | (tile <= -threshold)
    counts = np.count_nonzero(keep, axis=1)
    if counts.sum() > DENSE_SHARE * tile.size:
        tile[~keep] = 0.0
        return tile
    found = np.flatnonzero(keep)
    columns = (found % tile.shape[1]).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return csr_array((tile.ravel()[found], columns, starts), shape=tile.shape)


def pruned_gram(
    P: FloatMatrix, threshold: float, X: FloatMatrix, weights: FloatVector, tile_rows: int
) -> tuple[FloatMatrix, FloatVector]:
    """Return X'WSWX and WSw, where S holds the off-diagonal entries of PP' of magnitude at least `threshold`."""
    uniform = bool(np.all(weights == 1.0))
    w = weights.astype(X.dtype)
    weighted = X if uniform else X * w[:, None]

    def row_sums(rows: slice) -> tuple[FloatMatrix, FloatVector]:
        product, sums = np.zeros((rows.stop - rows.start, X.shape[1]), X.dtype), np.zeros(len(P))
        for columns, tile in upper_tiles(P, rows, tile_rows):
            kept = prune(tile, threshold)
            product += kept @ weighted[columns]
            sums[rows] += kept @ w[columns]
            sums[columns] += kept.T @ w[rows]
        return np.asarray(weighted[rows].T @ product, np.float64), sums

    half, sums = np.zeros((X.shape[1], X.shape[1])), np.zeros(len(P))
    for part, part_sums in ordered_map(row_sums, row_blocks(len(P), tile_rows)):
        half += part
        sums += part_sums
    return half + half.T, sums * weights
