"""How the magnitudes of a pruned affinity are spread before pruning, counted tile by tile."""

import numpy as np

from adaam._typing import FloatMatrix, FloatVector
from adaam.affinity.adaptive import PrunedAffinity
from adaam.engines.blocks import ordered_map, row_blocks, spread
from adaam.engines.pruned.tiles import upper_tiles

N_BINS = 200
TILE_ROWS = 1024


def magnitude_counts(affinity: PrunedAffinity, n_bins: int = N_BINS) -> tuple[FloatVector, float]:
    """Count the entries of PP' by magnitude in equal bins from 0 to the returned upper end.

    No entry exceeds the largest squared length of a row of P, so one pass suffices.
    """
    P = affinity.engine.to_host(affinity.factor)
    weights, diagonal = (
        spread(affinity.engine.to_host(column), len(P)) for column in (affinity.weights, affinity.diagonal)
    )
    squares = np.einsum("ij,ij->i", P, P)
    top = float(squares.max())
    scale = n_bins / top if top > 0 else 0.0

    def counted(values: FloatMatrix, shares: FloatMatrix) -> FloatVector:
        bins = np.minimum((np.abs(values).ravel() * scale).astype(np.intp), n_bins - 1)
        return np.bincount(bins, shares.ravel(), n_bins)

    def row_counts(rows: slice) -> FloatVector:
        total = np.zeros(n_bins)
        for columns, tile in upper_tiles(P, rows, TILE_ROWS):
            shares = 2.0 * np.outer(weights[rows], weights[columns])
            total += counted(tile, np.triu(shares, k=1) if columns.start == rows.start else shares)
        return total

    blocks = row_blocks(len(P), TILE_ROWS)
    return counted(squares, diagonal) + sum(ordered_map(row_counts, blocks)), top
