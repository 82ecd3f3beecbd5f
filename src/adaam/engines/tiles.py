"""The pruned affinity S(PP') on the CPU, tile by tile.

No tile outlives its turn, and each pair of row blocks is multiplied once: entry (i, j) serves for (j, i).
"""

from collections.abc import Iterator
from types import ModuleType

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, FloatVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.kernels import survivors

# Above this share of survivors a dense product of the tile is faster than a sparse one (decision 0004).
DENSE_SHARE = 0.125


def upper_tiles(P: FloatMatrix, rows: slice, tile_rows: int) -> Iterator[tuple[slice, FloatMatrix]]:
    """Tiles of PP' from the diagonal rightwards; on and below the diagonal entries are zero."""
    for columns in row_blocks(len(P), tile_rows):
        if columns.start >= rows.start:
            tile = P[rows] @ P[columns].T
            yield columns, np.triu(tile, k=1) if columns.start == rows.start else tile


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


def pruned_gram(
    P: FloatMatrix,
    threshold: float,
    X: FloatMatrix,
    weights: FloatVector,
    tile_rows: int,
    kernels: ModuleType | None = None,
) -> tuple[FloatMatrix, FloatVector]:
    """X'WSWX and WSw over the off-diagonal entries of PP' of magnitude at least `threshold`.

    Compiled kernels take rows in float64; `tile_rows` is for NumPy's tiles.
    """
    n, d = X.shape
    if kernels is not None and X.dtype == np.float64 and X.flags.c_contiguous:
        return survivors.pruned_gram(P, threshold, X, weights, kernels)
    uniform = bool(np.all(weights == 1.0))
    v = weights.astype(X.dtype)

    def weighted(rows: slice) -> FloatMatrix:
        return X[rows] if uniform else X[rows] * v[rows, None]

    def row_gram(rows: slice) -> tuple[slice, FloatMatrix, FloatVector]:
        height = rows.stop - rows.start
        product = np.zeros((height, d), X.dtype)
        sums = np.zeros(n - rows.start)
        for columns, tile in upper_tiles(P, rows, tile_rows):
            kept = prune(tile, threshold)
            product += kept @ weighted(columns)
            sums[:height] += kept @ v[columns]
            sums[columns.start - rows.start : columns.stop - rows.start] += kept.T @ v[rows]
        return rows, np.asarray(weighted(rows).T @ product, np.float64), sums

    half = np.zeros((d, d))
    degrees = np.zeros(n)
    for rows, part, sums in ordered_map(row_gram, row_blocks(n, tile_rows)):
        half += part
        degrees[rows.start :] += sums
    return half + half.T, degrees * weights
