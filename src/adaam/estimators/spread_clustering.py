"""Clustering on a Dask cluster: metric and head are chosen locally on a sample, and applied to all rows on workers."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from adaam._typing import Column, FloatMatrix, IntVector, Tall
from adaam.engines import DaskEngine
from adaam.engines.blocks import spread
from adaam.engines.cluster.rows import row_labels
from adaam.estimators.choosing import Chosen, finished_in
from adaam.estimators.membership import KnownRows, voters
from adaam.prepare import HOST
from adaam.selection import SEARCH_ROWS, DistinctRows, Task


@dataclass(frozen=True, slots=True)
class SpreadRows:
    """Rows as given, the same on the workers, and the distinct ones there with their weights."""

    X: Any
    arrived: Tall
    rows: Tall
    weights: Column


def known_rows(rows: Tall, weights: Column) -> DistinctRows:
    """Fetch a sample of bounded size from the workers."""
    if rows.shape[0] > SEARCH_ROWS:
        chosen = np.sort(np.random.default_rng(0).choice(rows.shape[0], SEARCH_ROWS, replace=False))
        rows, weights = rows[chosen], weights if isinstance(weights, float) else weights[chosen]
    held = np.array(spread(np.asarray(weights), rows.shape[0]))
    return DistinctRows.of(np.asarray(rows), 1.0 if (held == 1.0).all() else held, HOST)


def spread_metric(chosen: Chosen, known: DistinctRows, at: SpreadRows, task: Task, engine: DaskEngine) -> Chosen:
    """Learn the chosen metric from all rows on the workers, and partition the sample in it."""
    weights = None if isinstance(at.weights, float) else at.weights
    return finished_in(chosen, known, task, lambda metric: metric.set_params(engine=engine).fit(at.rows, None, weights))


def spread_labels(Z: Tall, known: KnownRows, labels: IntVector, threshold: float) -> Any:
    """Cluster of each row by votes of known rows, computed on the workers."""
    return row_labels(Z, partial(_voted, known=known, labels=labels, threshold=threshold))


def _voted(Z: FloatMatrix, known: KnownRows, labels: IntVector, threshold: float) -> IntVector:
    found = voters(Z, known, HOST)
    if not np.isfinite(threshold):
        return found.labels(labels)
    return np.where(found.outlier_scores(known.radii) >= threshold, -1, found.labels(labels))
