"""Clustering of rows on a cluster: metric and head are chosen on a sample here, and applied to all rows there."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector, Tall
from adaam.engines import CPUEngine, DaskEngine
from adaam.engines.columns import spread
from adaam.estimators.choosing import SEARCH_ROWS, Chosen, Task, counted_clusters
from adaam.estimators.numbering import cluster_order, numbered
from adaam.estimators.voting import voted_labels
from adaam.partition.heads import HEADS, LINKS_PER_ROW, View
from adaam.selection import ClusterCount, random_rows

HOST = CPUEngine()


@dataclass(frozen=True, slots=True)
class SpreadRows:
    """Rows as the caller gave them, on the workers, and there without repeats, with the weights of these."""

    X: Any
    arrived: Tall
    rows: Tall
    weights: Column


@dataclass(frozen=True, slots=True)
class Known:
    """Distinct rows that came here, all or so many drawn at random, and their weights."""

    X: FloatMatrix
    weights: FloatVector

    def column(self) -> Column:
        """Return the weights as engines take them."""
        return 1.0 if (self.weights == 1.0).all() else self.weights


@dataclass(frozen=True, slots=True)
class SpreadPartition:
    """Clusters of rows on a cluster: centres, and where these are not enough known rows with their clusters."""

    centers: FloatMatrix
    inertia: float
    embedding: FloatMatrix | None
    embedding_labels: IntVector | None


def known_rows(rows: Tall, weights: Column, seed: int) -> Known:
    """Bring a sample here; its size does not grow with the number of rows."""
    if rows.shape[0] > SEARCH_ROWS:
        rows, weights = random_rows(rows, weights, SEARCH_ROWS, seed)
    return Known(np.asarray(rows), np.array(spread(np.asarray(weights), rows.shape[0])))


def count_of(known: Known, seed: int) -> ClusterCount:
    """Estimate the number of clusters from the sample."""
    return counted_clusters(known.X, known.weights, HOST, seed)


def spread_metric(chosen: Chosen, at: SpreadRows, engine: DaskEngine) -> Chosen:
    """Learn the chosen metric from all rows."""
    metric = clone(chosen.metric).set_params(engine=engine)
    metric.fit(at.rows, sample_weight=None if isinstance(at.weights, float) else at.weights)
    return replace(chosen, metric=metric)


def partition(
    chosen: Chosen, known: Known, Z: Tall, weights: Column, task: Task, engine: DaskEngine
) -> SpreadPartition:
    """Partition all rows by the chosen head: k-means by the workers, others by votes of the sample's partition."""
    embedding: FloatMatrix | None = None
    embedding_labels: IntVector | None = None
    if chosen.head == "k-means":
        found = engine.kmeans(Z, task.n_clusters, task.n_init, task.seed, weights)
        labels, n_found = found.labels, len(found.centers)
    else:
        embedding = np.asarray(chosen.metric._map().apply(known.X, HOST))
        view = View(embedding, known.weights, HOST)
        found_labels = HEADS[chosen.head].labels(view, task.n_clusters, task.n_init, task.seed)
        embedding_labels = numbered(found_labels, known.weights, embedding)
        labels, n_found = voted(Z, embedding, embedding_labels, engine), int(embedding_labels.max()) + 1
    sums = engine.cluster_sums(Z, labels, weights, n_found)
    counts = np.maximum(sums.weights, np.finfo(np.float64).tiny)
    centers = sums.sums / counts[:, None]
    if embedding is None:
        order = cluster_order(centers, sums.weights, sums.largest)
        order = order[sums.weights[order] > 0]
        centers, sums = centers[order], sums._replace(weights=sums.weights[order], squares=sums.squares[order])
    inertia = float((sums.squares - sums.weights * np.square(centers).sum(axis=1)).sum())
    return SpreadPartition(centers.astype(Z.dtype), inertia, embedding, embedding_labels)


def voted(Z: Tall, known: FloatMatrix, labels: IntVector, engine: DaskEngine) -> Any:
    """Cluster of each row by votes of known rows, found where the rows are."""
    return engine.row_labels(Z, partial(voted_labels, known=known, labels=labels, n_voters=LINKS_PER_ROW))
