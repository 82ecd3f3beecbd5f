"""Clustering of rows on a cluster: metric and head are chosen on a sample here, and applied to all rows there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector, Tall
from adaam.engines import CPUEngine, DaskEngine
from adaam.engines.columns import spread
from adaam.estimators.choosing import SEARCH_ROWS, Chosen, choose, counted_clusters, given_metric
from adaam.estimators.linear_metric import LinearMetric
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


def choose_spread(
    known: Known,
    rows: Tall,
    weights: Column,
    n_clusters: int,
    heads: Sequence[str],
    *,
    n_init: int,
    seed: int,
    engine: DaskEngine,
) -> Chosen:
    """Try the family on the sample, and learn the chosen metric from all rows."""
    settings = {"n_init": n_init, "seed": seed, "engine": HOST}
    chosen = choose(known.X, _host_weights(known), n_clusters, heads, **settings)  # type: ignore[arg-type]
    metric = clone(chosen.metric).set_params(engine=engine)
    metric.fit(rows, sample_weight=None if isinstance(weights, float) else weights)
    return replace(chosen, metric=metric)


def given_spread(
    metric: LinearMetric, known: Known, n_clusters: int, heads: Sequence[str], *, n_init: int, seed: int
) -> Chosen:
    """Choose a head for one metric on the sample."""
    settings = {"n_init": n_init, "seed": seed, "engine": HOST}
    return given_metric(metric, known.X, _host_weights(known), n_clusters, heads, **settings)  # type: ignore[arg-type]


def partition(
    chosen: Chosen, known: Known, Z: Tall, weights: Column, n_clusters: int, n_init: int, seed: int, engine: DaskEngine
) -> SpreadPartition:
    """Partition all rows by the chosen head: k-means by the workers, others by votes of the sample's partition."""
    embedding: FloatMatrix | None = None
    embedding_labels: IntVector | None = None
    if chosen.head == "k-means":
        found = engine.kmeans(Z, n_clusters, n_init, seed, weights)
        labels, n_found = found.labels, len(found.centers)
    else:
        embedding = np.asarray(chosen.metric._map().apply(known.X, HOST))
        view = View(embedding, known.weights, HOST)
        embedding_labels = numbered(HEADS[chosen.head].labels(view, n_clusters, n_init, seed), known.weights, embedding)
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


def _host_weights(known: Known) -> Column:
    return 1.0 if (known.weights == 1.0).all() else known.weights
