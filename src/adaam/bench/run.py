"""Running a case: one fit, timed, and rounds of k-means scored against the classes. The one clock of the library."""

import platform
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from time import perf_counter
from typing import Any

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_limits

from adaam._typing import FloatMatrix, IntVector
from adaam._version import __version__
from adaam.bench.memory import PeakMemory
from adaam.bench.methods import Case, Method, PreparationName
from adaam.engines import CPUEngine
from adaam.graph import paper_neighbors
from adaam.scores import adjusted_rand_index, clustering_accuracy, normalized_mutual_information

STARTS_PER_ROUND = 10


def default_neighbors(n_rows: int, n_clusters: int) -> int:
    """The paper's size of a neighbourhood, the same for every method."""
    return paper_neighbors(n_rows, n_clusters)


def versions(package: str = "") -> dict[str, str]:
    """Versions of what the numbers came from, and of one more package."""
    return {
        "adaam": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
        **({package: version(package)} if package else {}),
    }


def n_rounds_of(method: Method, n_rounds: int) -> int:
    """Rounds that differ: a method that gives labels without chance has one."""
    return 1 if method.kind == "labels" and not method.random else n_rounds


def run_case(
    method: Method,
    X: FloatMatrix,
    classes: IntVector,
    *,
    dataset: str,
    preparation: PreparationName,
    n_rounds: int,
    seed: int = 0,
    rounds: Sequence[int] | None = None,
    n_neighbors: int | None = None,
    n_iter: int = 1,
    n_rows: int | None = None,
    n_starts: int = STARTS_PER_ROUND,
) -> Iterator[dict[str, Any]]:
    """Fit a method once and yield one record a round.

    An embedding is clustered anew in each round, the best of several k-means++ runs by inertia; a method that gives
    labels has one round. Methods whose fit depends on the seed are fitted anew in each round where they give labels,
    or where they say so. Classes only score.

    Parameters
    ----------
    method : Method
        What to fit.
    X, classes : arrays of shape (n, d) and (n,)
        Rows, and the classes they are scored against.
    dataset, preparation : str
        Names, for the record; the preparation is one of the method's own.
    n_rounds : int
        Rounds in all.
    seed : int, default=0
        Seed of the fit and of round 0; round r has `seed + r`.
    rounds : sequence of int, default=None
        The rounds to run, where others are already done; None means all of them. Any of them gives the record it
        would have given in a run of all.
    n_neighbors : int, default=None
        Neighbours of each row; None means the paper's rule.
    n_iter : int, default=1
        Passes of AdaAM; other methods have none to set.
    n_rows : int, default=None
        Take the first rows only.
    n_starts : int, default=10
        k-means++ runs a round.
    """
    X, classes = X[:n_rows], classes[:n_rows]
    n, d = X.shape
    n_clusters = len(np.unique(classes))
    k = default_neighbors(n, n_clusters) if n_neighbors is None else n_neighbors
    first = Case(n, d, n_clusters, k, preparation, seed)
    fitted = None
    for round_number in range(n_rounds_of(method, n_rounds)) if rounds is None else rounds:
        case = replace(first, seed=seed + round_number)
        if fitted is None or method.is_refitted:
            # One embedding serves all rounds, so its seed is the first one's, whichever round is run first.
            estimator = _estimator(method, case if method.is_refitted else first, n_iter)
            with PeakMemory() as memory:
                start = perf_counter()
                fitted = estimator.fit_predict(X) if method.kind == "labels" else estimator.fit_transform(X)
                fit_seconds = perf_counter() - start
        if method.kind == "labels":
            labels = fitted
        else:
            # On one thread: same bits however many there are, and on a busy machine threads that wait for one another
            # at every step made a round of 0.02 s take 2.
            with threadpool_limits(limits=1):
                labels = CPUEngine().kmeans(fitted, n_clusters, n_starts, case.seed, np.ones(n)).labels
        yield {
            "kind": "score",
            "dataset": dataset,
            "method": method.name,
            "preparation": preparation,
            "round": round_number,
            "acc": clustering_accuracy(classes, labels),
            "nmi": normalized_mutual_information(classes, labels),
            "ari": adjusted_rand_index(classes, labels),
            "fit_seconds": fit_seconds,
            "peak_bytes": memory.peak_bytes,
            "n": n,
            "d": d,
            "c": n_clusters,
            "k": k,
            "seed": case.seed,
            "engine": "cpu",
            "n_neighbors": n_neighbors,
            "n_rows": n_rows,
            "n_iter": n_iter,
            "n_starts": n_starts,
            "versions": versions(method.package),
        }


def warm_up(method: Method) -> None:
    """Fit a few rows, so that what a first fit loads and starts is not counted as the time of a case."""
    X = np.random.default_rng(0).standard_normal((150, 12))
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        method.make(Case(150, 12, 3, 4, method.preparations[0], 0)).fit(X)


def _estimator(method: Method, case: Case, n_iter: int) -> Any:
    estimator = method.make(case)
    if n_iter == 1:
        return estimator
    if "n_iter" not in estimator.get_params():
        raise ValueError(f"n_iter={n_iter} is of no use to {method.title}, which has no passes to repeat. Use 1.")
    return estimator.set_params(n_iter=n_iter)
