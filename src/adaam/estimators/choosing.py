"""From the outcome of a search to a fitted metric and a partition of all distinct rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from adaam._typing import Column, FloatVector, IntVector, Tall
from adaam.engines import Engine
from adaam.engines.columns import spread
from adaam.estimators.adaam import AdaAM, store_all_pairs
from adaam.estimators.fitting import store
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.phases import FitPhases
from adaam.estimators.prepared import PreparedMetric, as_they_are
from adaam.partition import HEADS, View
from adaam.prepare import PREPARATIONS
from adaam.selection import (
    ClusterCount,
    Contender,
    FittedCandidate,
    Selection,
    candidates,
    count_clusters,
    fitted_candidates,
    paper_neighbors,
    random_rows,
    search,
)

# Above so many distinct rows the family is tried on a sample of them.
SEARCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Chosen:
    """A fitted metric and the partition of the distinct rows in it."""

    metric: LinearMetric
    head: str
    labels: IntVector
    weights: FloatVector
    selection: Selection


def is_sampled(n_rows: int) -> bool:
    """Whether the family is tried on a sample of so many rows, and the chosen metric then fitted on all."""
    return n_rows > SEARCH_ROWS


def choose(
    X: Tall,
    weights: Column,
    n_clusters: int,
    heads: Sequence[str],
    *,
    n_init: int,
    seed: int,
    engine: Engine,
    phase: FitPhases,
) -> Chosen:
    """Try the family on distinct rows, or on a sample of many, and fit the chosen metric on all."""
    n = X.shape[0]
    wanted = candidates(X, weights, engine)
    tried, tried_weights = random_rows(X, weights, SEARCH_ROWS, seed) if is_sampled(n) else (X, weights)
    fitted = fitted_candidates(wanted, tried, tried_weights, n_clusters, engine)
    with phase("search", len(wanted)) as steps:
        choice = search(_told(fitted, steps), heads, n_clusters, n_init=n_init, seed=seed)
    outcome = choice.outcome
    source: FittedCandidate = outcome.contender.source
    labels = outcome.labels
    if is_sampled(n):
        with phase("all rows"):
            (source,) = fitted_candidates([source.candidate], X, weights, n_clusters, engine)
            labels = HEADS[outcome.head].labels(source.view, n_clusters, n_init, seed)
    metric = _metric(source, X, n_clusters, engine)
    return Chosen(metric, outcome.head, labels, source.view.weights, choice.selection)


def given_metric(
    metric: LinearMetric,
    X: Tall,
    weights: Column,
    n_clusters: int,
    heads: Sequence[str],
    *,
    n_init: int,
    seed: int,
    engine: Engine,
) -> Chosen:
    """Partition distinct rows in one metric, by the head that modularity prefers."""
    on_host = np.array(spread(engine.to_host(weights), X.shape[0]))
    view = View(metric._map().apply(X, engine), on_host, engine)
    contender = Contender("as given", type(metric).__name__, learned=False, view=view)
    choice = search([contender], heads, n_clusters, n_init=n_init, seed=seed)
    return Chosen(metric, choice.outcome.head, choice.outcome.labels, on_host, choice.selection)


def counted_clusters(X: Tall, weights: Column, engine: Engine, seed: int) -> ClusterCount:
    """Estimate the number of clusters from the graph of the prepared rows, or of a sample of them."""
    tried, tried_weights = (X, weights) if X.shape[0] <= SEARCH_ROWS else random_rows(X, weights, SEARCH_ROWS, seed)
    wanted = [candidate for candidate in candidates(tried, tried_weights, engine) if candidate.width == 0]
    counts = [
        count_clusters(fitted.view.links, np.asarray(engine.to_host(fitted.view.Z)), fitted.view.weights, seed)
        for fitted in fitted_candidates(wanted, tried, tried_weights, 1, engine)
    ]
    return max(counts, key=lambda count: count.modularities.max())


def _told(fitted: Iterator[FittedCandidate], steps: FitPhases) -> Iterator[Contender]:
    """Tell of each candidate once the search is through with it."""
    for candidate in fitted:
        contender = _contender(candidate)
        yield contender
        steps.step(f"candidate {contender.preparation}: {contender.name}")


def _contender(fitted: FittedCandidate) -> Contender:
    candidate = fitted.candidate
    return Contender(candidate.preparation, candidate.name, candidate.width > 0, fitted.view, fitted)


def _metric(fitted: FittedCandidate, X: Tall, n_clusters: int, engine: Engine) -> LinearMetric:
    """Wrap what a candidate learned as the estimator that would have learned it."""
    candidate, preparation = fitted.candidate, PREPARATIONS[fitted.candidate.preparation]
    metric: LinearMetric
    if fitted.projection is None or fitted.learned is None:
        metric = PreparedMetric(preparation, engine=engine)
        store(metric, fitted.prepared, as_they_are(fitted.prepared, fitted.sample), fitted.sample, X)
    else:
        metric = AdaAM(
            n_clusters,
            n_components=len(fitted.projection.components),
            preparation=preparation,
            affinity=candidate.affinity,
            engine=engine,
        )
        store(metric, fitted.prepared, fitted.projection, fitted.sample, X)
        store_all_pairs(metric, fitted.learned, paper_neighbors(fitted.sample.size, n_clusters), X)
    metric.preparation_ = preparation
    metric.n_features_in_ = int(X.shape[1])
    return metric
