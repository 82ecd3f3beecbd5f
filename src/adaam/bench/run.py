"""Running a case: one fit, timed, and rounds of k-means scored against the classes. The one clock of the library."""

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, IntVector
from adaam._version import __version__
from adaam.bench.methods import Case, Method, PreparationName
from adaam.engines import CPUEngine
from adaam.scores import adjusted_rand_index, clustering_accuracy, normalized_mutual_information

STARTS_PER_ROUND = 10


def default_neighbors(n_rows: int, n_clusters: int) -> int:
    """The paper's size of a neighbourhood, the same for every method."""
    return max(1, round(float(np.log2(n_rows / n_clusters))))


def run_case(
    method: Method,
    X: FloatMatrix,
    classes: IntVector,
    *,
    dataset: str,
    preparation: PreparationName,
    n_rounds: int,
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Fit a method once and yield one record a round.

    An embedding is clustered anew in each round, the best of ten k-means++ runs by inertia; a method that gives labels
    has one round, or is fitted anew in each where its fit depends on the seed. Classes only score.
    """
    n, d = X.shape
    n_clusters = len(np.unique(classes))
    for round_number in range(n_rounds):
        case = Case(n, d, n_clusters, default_neighbors(n, n_clusters), preparation, seed + round_number)
        if round_number == 0 or (method.random and method.kind == "labels"):
            estimator = method.make(case)
            start = perf_counter()
            fitted = estimator.fit_predict(X) if method.kind == "labels" else estimator.fit_transform(X)
            fit_seconds = perf_counter() - start
        if method.kind == "labels":
            labels = fitted
        else:
            labels = CPUEngine().kmeans(fitted, n_clusters, STARTS_PER_ROUND, case.seed, np.ones(n)).labels
        yield {
            "dataset": dataset,
            "method": method.name,
            "preparation": preparation,
            "round": round_number,
            "acc": clustering_accuracy(classes, labels),
            "nmi": normalized_mutual_information(classes, labels),
            "ari": adjusted_rand_index(classes, labels),
            "fit_seconds": fit_seconds,
            "n": n,
            "d": d,
            "c": n_clusters,
            "k": case.n_neighbors,
            "seed": case.seed,
            "engine": "cpu",
            "versions": {"adaam": __version__, "numpy": np.__version__},
        }
        if method.kind == "labels" and not method.random:
            return
