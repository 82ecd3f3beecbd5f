"""From the outcome of a search to a fitted metric and a partition of the rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from adaam._typing import Column, FloatVector, IntVector, Tall
from adaam.engines import Engine
from adaam.engines.columns import spread
from adaam.estimators.candidate_metric import candidate_metric, unfitted_metric
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.phases import FitPhases
from adaam.partition import HEADS, View
from adaam.planning import plan
from adaam.selection import (
    Choice,
    ClusterCount,
    Contender,
    FittedCandidate,
    Selection,
    candidates,
    count_clusters,
    fitted_candidates,
    random_rows,
    search,
)

# Above so many distinct rows the search looks at a sample of them.
SEARCH_ROWS = 10_000
# Where all pairs of rows are too many, so many are partitioned along their links, and the others take the cluster of
# their nearest ones.
PARTITION_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Task:
    """What a clusterer was told."""

    n_clusters: int
    heads: Sequence[str]
    n_init: int
    seed: int
    engine: Engine


@dataclass(frozen=True, slots=True)
class Chosen:
    """A fitted metric, and the partition in it of distinct rows: of all, or of so many that the others can follow."""

    metric: LinearMetric
    head: str
    rows: Tall
    weights: FloatVector
    labels: IntVector
    selection: Selection


def is_sampled(n_rows: int) -> bool:
    """Whether the search looks at a sample of so many rows, and the chosen metric is then fitted on all."""
    return n_rows > SEARCH_ROWS


def choose(X: Tall, weights: Column, task: Task, phase: FitPhases) -> Chosen:
    """Try the family on distinct rows, or on a sample of many, and fit the chosen metric on all."""
    tried = _some(X, weights, SEARCH_ROWS, task.seed)
    wanted = candidates(*tried, task.engine)
    fitted = fitted_candidates(wanted, *tried, task.n_clusters, task.engine)
    with phase("search", len(wanted)) as steps:
        choice = search(_told(fitted, steps), task.heads, task.n_clusters, n_init=task.n_init, seed=task.seed)
    source: FittedCandidate = choice.outcome.contender.source
    if not is_sampled(X.shape[0]):
        return _partitioned(candidate_metric(source, X, task.n_clusters), choice, X, weights, task)
    with phase("all rows"):
        metric = unfitted_metric(source, task.n_clusters)
        metric.fit(X, sample_weight=None if isinstance(weights, float) else weights)
        return _partitioned(metric, choice, X, weights, task)


def given_metric(metric: LinearMetric, X: Tall, weights: Column, task: Task) -> Chosen:
    """Partition distinct rows in one metric, by the head that modularity prefers."""
    view = _view(metric, *_some(X, weights, SEARCH_ROWS, task.seed), task.engine)
    contender = Contender("as given", type(metric).__name__, learned=False, view=view)
    choice = search([contender], task.heads, task.n_clusters, n_init=task.n_init, seed=task.seed)
    return _partitioned(metric, choice, X, weights, task)


def counted_clusters(X: Tall, weights: Column, engine: Engine, seed: int) -> ClusterCount:
    """Estimate the number of clusters from the graph of the prepared rows, or of a sample of them."""
    tried, tried_weights = _some(X, weights, SEARCH_ROWS, seed)
    wanted = [candidate for candidate in candidates(tried, tried_weights, engine) if candidate.width == 0]
    counts = [
        count_clusters(fitted.view.links, np.asarray(engine.to_host(fitted.view.Z)), fitted.view.weights, seed)
        for fitted in fitted_candidates(wanted, tried, tried_weights, 1, engine)
    ]
    return max(counts, key=lambda count: count.modularities.max())


def _partitioned(metric: LinearMetric, choice: Choice, X: Tall, weights: Column, task: Task) -> Chosen:
    """Partition all rows by the chosen head; along links, as many as all pairs are affordable of."""
    outcome = choice.outcome
    head, view, labels = outcome.head, outcome.contender.view, outcome.labels
    rows = X
    if is_sampled(X.shape[0]):
        affordable = plan(X.shape[0], metric.n_components_, task.n_clusters, engine=task.engine).exact
        if head != "k-means" and not affordable:
            rows, weights = _some(X, weights, PARTITION_ROWS, task.seed)
        view = _view(metric, rows, weights, task.engine)
    if view is not outcome.contender.view or outcome.sketched:
        labels = HEADS[head].labels(view, task.n_clusters, task.n_init, task.seed)
    return Chosen(metric, head, rows, view.weights, labels, choice.selection)


def _some(X: Tall, weights: Column, at_most: int, seed: int) -> tuple[Tall, Column]:
    """Return the rows, or a sample of more than so many."""
    return (X, weights) if X.shape[0] <= at_most else random_rows(X, weights, at_most, seed)


def _view(metric: LinearMetric, X: Tall, weights: Column, engine: Engine) -> View:
    on_host = np.array(spread(engine.to_host(weights), X.shape[0]))
    return View(metric._map().apply(X, engine), on_host, engine)


def _told(fitted: Iterator[FittedCandidate], steps: FitPhases) -> Iterator[Contender]:
    """Tell of each candidate once it is learned."""
    for found in fitted:
        candidate = found.candidate
        steps.step(f"candidate {candidate.preparation}: {candidate.name}")
        yield Contender(candidate.preparation, candidate.name, candidate.width > 0, found.view, found)
