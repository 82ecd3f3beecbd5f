"""How the magnitudes of AdaAM's final affinity are spread before pruning, as a record."""

from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, IntVector
from adaam.affinity import AdaptiveAffinity
from adaam.affinity.adaptive import adaptive_affinity
from adaam.bench.run import versions
from adaam.engines import CPUEngine
from adaam.estimators.fitting import Neighbors, prepared_sample, resolve_preparation
from adaam.graph import paper_neighbors
from adaam.magnitudes import magnitude_counts


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
    k = paper_neighbors(len(X), n_clusters) if n_neighbors is None else n_neighbors
    graph = Neighbors(sample, None)(k)
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
