"""From the outcome of a search to a fitted metric and a partition of all distinct rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adaam._typing import Column, FloatVector, IntVector, Tall
from adaam.engines import Engine
from adaam.engines.columns import spread
from adaam.estimators.adaam import AdaAM, store_all_pairs
from adaam.estimators.fitting import store
from adaam.estimators.linear_metric import LinearMetric
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
# Starts of k-means that tell what a metric is worth: partitions of one metric differ less than metrics do. The chosen
# partition is then made with as many as the caller wants.
SEARCH_STARTS = 3


@dataclass(frozen=True, slots=True)
class Chosen:
    """A fitted metric and the partition of the distinct rows in it."""

    metric: LinearMetric
    head: str
    labels: IntVector
    weights: FloatVector
    selection: Selection


def choose(
    X: Tall, weights: Column, n_clusters: int, heads: Sequence[str], *, n_init: int, seed: int, engine: Engine
) -> Chosen:
    """Try the family on distinct rows, or on a sample of many, and fit the chosen metric on all."""
    n = X.shape[0]
    wanted = candidates(X, weights, engine)
    tried, tried_weights = (X, weights) if n <= SEARCH_ROWS else random_rows(X, weights, SEARCH_ROWS, seed)
    fitted = fitted_candidates(wanted, tried, tried_weights, n_clusters, engine)
    n_starts = min(n_init, SEARCH_STARTS)
    choice = search(map(_contender, fitted), heads, n_clusters, n_starts=n_starts, seed=seed)
    outcome = choice.outcome
    source: FittedCandidate = outcome.contender.source
    if n > SEARCH_ROWS:
        (source,) = fitted_candidates([source.candidate], X, weights, n_clusters, engine)
    labels = outcome.labels
    if n > SEARCH_ROWS or n_init > n_starts:
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
    n_starts = n_init if len(heads) == 1 else min(n_init, SEARCH_STARTS)
    choice = search([contender], heads, n_clusters, n_starts=n_starts, seed=seed)
    labels = choice.outcome.labels
    if n_init > n_starts:
        labels = HEADS[choice.outcome.head].labels(view, n_clusters, n_init, seed)
    return Chosen(metric, choice.outcome.head, labels, on_host, choice.selection)


def counted_clusters(X: Tall, weights: Column, engine: Engine, seed: int) -> ClusterCount:
    """Estimate the number of clusters from the graph of the prepared rows, or of a sample of them."""
    tried, tried_weights = (X, weights) if X.shape[0] <= SEARCH_ROWS else random_rows(X, weights, SEARCH_ROWS, seed)
    wanted = [candidate for candidate in candidates(tried, tried_weights, engine) if candidate.width == 0]
    counts = [
        count_clusters(fitted.view.links, np.asarray(engine.to_host(fitted.view.Z)), fitted.view.weights, seed)
        for fitted in fitted_candidates(wanted, tried, tried_weights, 1, engine)
    ]
    return max(counts, key=lambda count: count.modularities.max())


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
