"""From the outcome of a search to a fitted metric and a partition of the rows."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adaam._typing import Column, IntVector
from adaam.estimators.adaam import AdaAM
from adaam.estimators.discriminant import DiscriminantMetric
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.phases import FitPhases
from adaam.estimators.prepared import PreparedMetric
from adaam.partition import FEW_ROWS, Merging, View, consensus_partition, merging
from adaam.planning import plan
from adaam.prepare import PREPARATIONS, TruncatedSpectrumWarning, ZeroRowWarning
from adaam.selection import (
    SEARCH_ROWS,
    Candidate,
    Choice,
    Contender,
    DistinctRows,
    Selection,
    Task,
    discriminates,
    given_metric,
    learned_maps,
    prepared_rows,
    search,
)

# Rows whose graph is partitioned if all pairs of rows are too expensive; the others take the cluster of their nearest
# ones.
PARTITION_ROWS = 20_000
# The same on a GPU, where all pairs of this many rows take little time.
DEVICE_PARTITION_ROWS = 100_000
# Maximum number of starts of the intermediate partition that a discriminant map is learned from, above FEW_ROWS rows.
GRAPH_STARTS = 4


@dataclass(frozen=True, slots=True)
class Chosen:
    """A fitted metric, and the partition in it of distinct rows: of all, or of a sample that others are assigned by."""

    metric: LinearMetric
    head: str
    rows: DistinctRows
    view: View
    labels: IntVector
    communities: IntVector
    choice: Choice
    starts: tuple[float, ...]  # agreement of other starts with the one that was kept

    @property
    def selection(self) -> Selection:
        """Report of the search."""
        return self.choice.selection

    @property
    def cosine(self) -> bool:
        """Whether the rows of the view are scaled to unit length."""
        return self.choice.outcome.contender.cosine


def is_sampled(n_rows: int) -> bool:
    """Whether the search uses a sample of that many rows, and the chosen metric is then fitted to all."""
    return n_rows > SEARCH_ROWS


def choose(rows: DistinctRows, task: Task, phase: FitPhases) -> Chosen:
    """Search for a metric on distinct rows, or on a sample of many, and partition all rows in it."""
    with phase("search", 10) as steps:
        tried = rows.some(SEARCH_ROWS)
        prepared = prepared_rows(tried.X, tried.weights, tried.ranks, tried.engine)
        choice = search(prepared, task, steps.step)
    with phase("partition"), warnings.catch_warnings():
        # The user did not choose the preparation, so warnings about it are suppressed.
        warnings.simplefilter("ignore", ZeroRowWarning)
        warnings.simplefilter("ignore", TruncatedSpectrumWarning)
        return _finished(choice, rows, task, lambda metric: metric.fit(rows.X, None, _given(rows.weights)))


def finished_in(chosen: Chosen, rows: DistinctRows, task: Task, fit: Callable[[Any], object]) -> Chosen:
    """Repeat the steps that follow a choice, with a metric that is fitted elsewhere to more rows than these."""
    return _finished(chosen.choice, rows, task, fit, elsewhere=True)


def choose_given(metric: LinearMetric, rows: DistinctRows, task: Task) -> Chosen:
    """Partition distinct rows in one metric, by the head that modularity prefers."""
    view = rows.some(SEARCH_ROWS).view(metric._map())
    choice = given_metric(Contender("as given", type(metric).__name__, view), task)
    return _partitioned(metric, choice, _partition_rows(rows, choice, metric.n_components_, task), task)


def _finished(
    choice: Choice, rows: DistinctRows, task: Task, fit: Callable[[Any], object], *, elsewhere: bool = False
) -> Chosen:
    """Learn the chosen metric from all rows, and partition them in it."""
    contender = choice.outcome.contender
    partitioned = _partition_rows(rows, choice, contender.view.Z.shape[1], task)
    preparation = PREPARATIONS[contender.preparation]
    if not contender.learned:
        plain = PreparedMetric(preparation, engine=task.engine)
        fit(plain)
        return _partitioned(plain, choice, partitioned, task)
    sharpened = discriminates(task.n_clusters)
    if elsewhere or not sharpened or partitioned.n_rows < rows.n_rows:
        learned = AdaAM(
            task.n_clusters,
            n_components=int(contender.view.Z.shape[1]),
            preparation=preparation,
            affinity=Candidate(contender.preparation, contender.width).affinity(task.n_clusters),
            engine=task.engine,
        )
        fit(learned)
        if not sharpened:
            return _partitioned(learned, choice, partitioned, task)
        labels = _graph_labels(partitioned.view(learned._map(), cosine=contender.cosine), task)
    else:
        labels = _learned_labels(choice, rows, task)
    metric, source = DiscriminantMetric(preparation, engine=task.engine), contender.source
    if source is not None and source.sample.n_rows == partitioned.n_rows:
        metric._fit_prepared(source.map, source.sample, labels, partitioned.X)
    else:
        metric.fit(partitioned.X, labels, sample_weight=_given(partitioned.weights))
    return _partitioned(metric, choice, partitioned, task)


def _learned_labels(choice: Choice, rows: DistinctRows, task: Task) -> IntVector:
    """Partition rows in the AdaAM metric of the chosen width, learned again if the search saw only some of the rows."""
    contender, c = choice.outcome.contender, task.n_clusters
    if len(choice.outcome.labels) == rows.n_rows:
        return _graph_labels(contender.view, task)
    (source,) = prepared_rows(rows.X, rows.weights, rows.ranks, rows.engine, (contender.preparation,))
    ((_, components),) = learned_maps(source, c, (contender.width,), every_row=True)
    return _graph_labels(source.view(components(), cosine=contender.cosine), task)


def _graph_labels(view: View, task: Task) -> IntVector:
    """Consensus partition of a few starts, on the host."""
    n_starts = task.n_init if view.n_rows <= FEW_ROWS else min(task.n_init, GRAPH_STARTS)
    return np.asarray(view.links.to_host(consensus_partition(view, task.n_clusters, task.seed, n_starts)[0].labels))


def _partition_rows(rows: DistinctRows, choice: Choice, n_columns: int, task: Task) -> DistinctRows:
    """Rows to partition: all, or a sample if their neighbour graph is too expensive."""
    if choice.outcome.head == "k-means":
        return rows
    if rows.engine.name == "gpu":
        return rows.some(DEVICE_PARTITION_ROWS)
    affordable = not is_sampled(rows.n_rows) or plan(rows.n_rows, n_columns, task.n_clusters, engine=task.engine).exact
    return rows if affordable else rows.some(PARTITION_ROWS)


def _partitioned(metric: LinearMetric, choice: Choice, rows: DistinctRows, task: Task) -> Chosen:
    """Partition rows in the metric by the chosen head, from several starts."""
    view = rows.view(metric._map(), cosine=choice.outcome.contender.cosine)
    if choice.outcome.head == "k-means":
        column = view.engine.asarray(view.weights)
        labels = np.asarray(view.engine.kmeans(view.Z, task.n_clusters, task.n_init, task.seed, column).labels)
        found: Merging = merging(view, task.n_clusters, view.draws(task.seed))
        starts: tuple[float, ...] = ()
    else:
        best, starts = consensus_partition(view, task.n_clusters, task.seed, task.n_init)
        labels, found = np.asarray(view.links.to_host(best.labels)), best.merging
    communities = np.asarray(view.links.to_host(found.communities))
    return Chosen(metric, choice.outcome.head, rows, view, labels, communities, choice, starts)


def _given(weights: Column) -> Column | None:
    return None if isinstance(weights, float) else weights
