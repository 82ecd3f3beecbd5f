"""How the magnitudes of AdaAM's final affinity are spread before pruning, counted tile by tile."""

from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, IntVector
from adaam.affinity import AdaptiveAffinity
from adaam.affinity.adaptive import adaptive_affinity
from adaam.affinity.values import PrunedAffinity
from adaam.bench.run import default_neighbors, versions
from adaam.engines import CPUEngine
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.columns import spread
from adaam.engines.tiles import upper_tiles
from adaam.estimators.fitting import neighbor_source, prepared_sample, resolve_preparation

N_BINS = 200
TILE_ROWS = 1024


def magnitude_counts(affinity: PrunedAffinity) -> tuple[FloatMatrix, float]:
    """Count the entries of PP' by magnitude in equal bins from 0 to the returned upper end.

    No entry exceeds the largest squared length of a row of P, so one pass suffices.
    """
    P = np.asarray(affinity.factor)
    weights, diagonal = spread(affinity.weights, len(P)), spread(affinity.diagonal, len(P))
    squares = np.einsum("ij,ij->i", P, P)
    top = float(squares.max())
    scale = N_BINS / top if top > 0 else 0.0

    def counted(values: FloatMatrix, shares: FloatMatrix) -> FloatMatrix:
        bins = np.minimum((np.abs(values).ravel() * scale).astype(np.intp), N_BINS - 1)
        return np.bincount(bins, shares.ravel(), N_BINS)

    def row_counts(rows: slice) -> FloatMatrix:
        total = np.zeros(N_BINS)
        for columns, tile in upper_tiles(P, rows, TILE_ROWS):
            shares = 2.0 * np.outer(weights[rows], weights[columns])
            total += counted(tile, np.triu(shares, k=1) if columns.start == rows.start else shares)
        return total

    blocks = row_blocks(len(P), TILE_ROWS)
    return counted(squares, diagonal) + sum(ordered_map(row_counts, blocks)), top


def histogram_record(
    X: FloatMatrix,
    classes: IntVector,
    *,
    dataset: str,
    seed: int = 0,
    n_neighbors: int | None = None,
    n_iter: int = 1,
    n_rows: int | None = None,
    n_starts: int = 10,
) -> dict[str, Any]:
    """Learn the adaptive affinity as AdaAM does by default and record its magnitudes and the cut.

    Nothing here is random; `seed` and `n_starts` only say which plan the record belongs to.
    """
    X, classes = X[:n_rows], classes[:n_rows]
    n_clusters = len(np.unique(classes))
    _, sample = prepared_sample(X, None, resolve_preparation("unit"), CPUEngine(), rows_are_nodes=False)
    k = default_neighbors(len(X), n_clusters) if n_neighbors is None else n_neighbors
    graph = neighbor_source(sample, None)(k)
    final = adaptive_affinity(sample, graph, n_clusters, n_iter, AdaptiveAffinity()).final
    counts, top = magnitude_counts(final)
    return {
        "kind": "histogram",
        "dataset": dataset,
        "method": "adaam",
        "preparation": "reference",
        "round": 0,
        "counts": [round(count) for count in counts.tolist()],
        "top": top,
        "cut": float(final.cut),
        "n": len(X),
        "d": X.shape[1],
        "c": n_clusters,
        "k": k,
        "seed": seed,
        "engine": "cpu",
        "n_neighbors": n_neighbors,
        "n_rows": n_rows,
        "n_iter": n_iter,
        "n_starts": n_starts,
        "versions": versions(),
    }
