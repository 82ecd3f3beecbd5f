"""Run a case: a timed fit, and rounds of k-means scored against the classes."""

import ctypes
import gc
import platform
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from adaam._typing import FloatMatrix, IntVector
from adaam._version import __version__
from adaam.affinity.adaptive import AllRows, MethodSettings, learn, magnitude_counts
from adaam.bench.methods import Case, Method, PreparationName
from adaam.bench.plan import PlanCase
from adaam.engines import CPUEngine
from adaam.graph import Neighbors, paper_neighbors
from adaam.prepare import PREPARATIONS, prepared_sample
from adaam.scores import adjusted_rand_index, clustering_accuracy, normalized_mutual_information

STATUS = Path("/proc/self/status")
HIGH_WATER_RESET = Path("/proc/self/clear_refs")
STARTS_PER_ROUND = 10


def measured(act: Callable[[], Any]) -> tuple[Any, float, int | None]:
    """Return the result of a call, its seconds, and the peak growth of the process in bytes.

    The bytes are None if the system does not report them, and a lower bound if free memory cannot be released first.
    """
    gc.collect()
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
    before = peak = None
    with suppress(OSError, ValueError):
        HIGH_WATER_RESET.write_text("5")
        before = _resident("VmRSS")
    start = perf_counter()
    result = act()
    seconds = perf_counter() - start
    with suppress(OSError, ValueError):
        peak = None if before is None else max(0, _resident("VmHWM") - before)
    return result, seconds, peak


def _resident(field: str) -> int:
    (kibibytes,) = re.findall(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    return int(kibibytes) * 1024


def versions(package: str = "") -> dict[str, str]:
    """Versions of the packages that results depend on, and of one more package."""
    packages = filter(None, ("numpy", "scipy", "scikit-learn", package))
    return {"adaam": __version__, "python": platform.python_version()} | {name: version(name) for name in packages}


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
    """Fit a method and yield one record per round.

    An embedding is clustered again in each round, the best of several k-means++ runs by inertia; a deterministic method
    that gives labels has one round. Methods whose fit depends on the seed are fitted again in each round if they give
    labels or set `refits`. Classes are used for scoring only.

    The fit and round 0 have `seed`, round r has `seed + r`. If other rounds are done already, `rounds` lists those to
    run: each gives the same record as in a run of all rounds. `n_neighbors=None` means the paper's rule; with `n_rows`,
    only the first rows are used.
    """
    X, classes = X[:n_rows], classes[:n_rows]
    first = _case(X, classes, n_neighbors, preparation, seed)
    fitted = None
    for round_number in range(method.n_rounds(n_rounds)) if rounds is None else rounds:
        case = replace(first, seed=seed + round_number)
        if fitted is None or method.is_refitted:
            # One embedding is used for all rounds, so it has the seed of round 0, whichever round is run first.
            estimator = method.make(case if method.is_refitted else first)
            if n_iter > 1:
                if "n_iter" not in estimator.get_params():
                    raise ValueError(f"n_iter={n_iter} is of no use to {method.title}, which has no passes. Use 1.")
                estimator.set_params(n_iter=n_iter)
            fit = estimator.fit_predict if method.kind == "labels" else estimator.fit_transform
            fitted, fit_seconds, peak_bytes = measured(partial(fit, X))
        if method.kind == "labels":
            labels = fitted
        else:
            # On one thread, for the same bits on any number of threads; and on a busy machine, threads waiting for one
            # another at every step made a round of 0.02 s take 2 s.
            with threadpool_limits(limits=1):
                labels = CPUEngine().kmeans(fitted, case.n_clusters, n_starts, case.seed, np.ones(case.n)).labels
        yield {
            **_told(case, dataset=dataset, n_neighbors=n_neighbors, n_rows=n_rows, n_iter=n_iter, n_starts=n_starts),
            "kind": "score",
            "method": method.name,
            "round": round_number,
            **scores(classes, labels),
            "fit_seconds": fit_seconds,
            "peak_bytes": peak_bytes,
            "versions": versions(method.package),
        }


def scores(classes: IntVector, labels: IntVector) -> dict[str, float]:
    """Scores of clusters against classes, by their names in records."""
    by_name = {"acc": clustering_accuracy, "nmi": normalized_mutual_information, "ari": adjusted_rand_index}
    return {name: score(classes, labels) for name, score in by_name.items()}


def _case(X: FloatMatrix, classes: IntVector, k: int | None, preparation: PreparationName, seed: int) -> Case:
    n_clusters = len(np.unique(classes))
    n_neighbors = paper_neighbors(len(X), n_clusters) if k is None else k
    return Case(len(X), X.shape[1], n_clusters, n_neighbors, preparation, seed)


def _told(case: Case, **asked: Any) -> dict[str, Any]:
    """Fields common to records of either kind: those of the case, and the settings from the plan."""
    sizes = {"n": case.n, "d": case.d, "c": case.n_clusters, "k": case.n_neighbors}
    return {**asked, **sizes, "preparation": case.preparation, "seed": case.seed, "engine": "cpu"}


def warm_up(method: Method) -> None:
    """Fit a few rows, so that the start-up cost of a first fit is not counted in the time of a case."""
    X = np.random.default_rng(0).standard_normal((150, 12))
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        method.make(Case(150, 12, 3, 4, method.preparations[0], 0)).fit(X)


def histogram_record(plan: PlanCase, X: FloatMatrix, classes: IntVector) -> dict[str, Any]:
    """Learn the adaptive affinity as AdaAM does by default and record its magnitudes and the cut.

    Nothing here is random; seed and starts only say which plan the record belongs to.
    """
    case = _case(X, classes, plan.n_neighbors, "reference", plan.seed)
    _, sample = prepared_sample(X, None, PREPARATIONS["unit"], CPUEngine(), rows_are_nodes=False)
    graph = Neighbors(sample, None)(case.n_neighbors)
    method = MethodSettings(case.n_clusters, case.n_clusters, plan.n_iter)
    final = learn(AllRows(sample), method, lambda _: graph).evidence.final.affinity
    counts, top = magnitude_counts(final)
    asked = {name: getattr(plan, name) for name in ("dataset", "n_neighbors", "n_rows", "n_iter", "n_starts")}
    return {
        **_told(case, **asked),
        "kind": "histogram",
        "method": "adaam",
        "round": 0,
        "counts": [round(count) for count in counts.tolist()],
        "top": top,
        "cut": float(final.cut),
        "versions": versions(),
    }
