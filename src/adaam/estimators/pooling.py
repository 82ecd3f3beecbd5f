"""A fit from row blocks: rows in memory or in a source, dealt, counted and pooled."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adaam._checks import check_weights
from adaam._typing import FloatVector, Tall
from adaam.affinity import AdaptiveAffinity
from adaam.engines import Engine
from adaam.estimators.fitting import check_clusters, check_components, row_weights
from adaam.estimators.phases import FitPhases
from adaam.large import (
    BlockedRows,
    Deal,
    Pooled,
    PooledFit,
    RowBlocks,
    SpreadBlocks,
    counted_blocks,
    dealt_array,
    dealt_source,
    stream_preparation,
)
from adaam.planning import LOADED_BYTES, Plan, plan
from adaam.prepare import LinearMap, Preparation, fit_preparation
from adaam.progress import teller
from adaam.rows import RowSource, n_bytes, read_all

PAUSE_SECONDS = 5.0  # between two lines of progress


@dataclass(frozen=True, slots=True)
class PooledModel:
    """All that a fit from row blocks found."""

    prepared: LinearMap
    pooled: Pooled
    n_neighbors: int
    plan: Plan
    pairs: str | RowBlocks


@dataclass(frozen=True, slots=True)
class PoolingSettings:
    """What an `AdaAM` was told."""

    n_clusters: int
    n_components: Any
    neighbor_count: Callable[[float], int]
    n_iter: int
    preparation: Preparation
    affinity: AdaptiveAffinity
    pairs: Any
    engine: Engine
    verbose: int


def loaded(source: RowSource, pairs: Any) -> Tall | RowSource:
    """Read a source into memory where it is small, or where all pairs were asked for."""
    size = n_bytes(source)
    all_pairs = isinstance(pairs, str) and pairs == "all"
    if all_pairs or (size is not None and size <= LOADED_BYTES):
        return read_all(source)
    return source


def fit_array(X: Tall, sample_weight: Any, settings: PoolingSettings, phase: FitPhases) -> PooledModel:
    """Fit rows in memory."""
    engine = settings.engine
    weights = row_weights(sample_weight, X.shape[0], engine)
    n_present = X.shape[0] if isinstance(weights, float) else int((weights > 0).sum())
    planned = plan_of(settings, n_present, X.shape[1], X.dtype.itemsize, stored=False)
    with phase("preparation"):
        rows = engine.asarray(X)
        prepared = fit_preparation(rows, weights, settings.preparation, engine)
    with phase("row blocks"):
        return _fit(dealt_array(rows, weights, deal_of(settings, planned), prepared, engine), planned, settings)


def fit_source(source: RowSource, sample_weight: Any, settings: PoolingSettings, phase: FitPhases) -> PooledModel:
    """Fit rows that are read twice: for their mean and scatter, and to keep those that take part."""
    engine, tell = settings.engine, teller(settings.verbose, PAUSE_SECONDS)
    weights: FloatVector | None = None
    if sample_weight is not None:
        weights = check_weights(sample_weight, len(sample_weight))
    with phase("preparation"):
        prepared, n_rows = stream_preparation(source, weights, settings.preparation, engine, tell)
    check_clusters(settings.n_clusters, n_rows)
    n_present = n_rows if weights is None else int(np.count_nonzero(weights))
    planned = plan_of(settings, n_present, source.n_features, source.dtype.itemsize, stored=True)
    with phase("row blocks"):
        rows = dealt_source(source, weights, deal_of(settings, planned), prepared, engine, tell)
        return _fit(rows, planned, settings)


def plan_of(settings: PoolingSettings, n: int, d: int, itemsize: int, *, stored: bool) -> Plan:
    """Plan blocks; a source that is small after all is one block, which is all pairs."""
    return plan(
        n, d, settings.n_clusters, pairs=settings.pairs, engine=settings.engine, itemsize=itemsize, stored=stored
    )


def block_settings(pairs: Any) -> RowBlocks:
    """Settings of the blocks, those of "auto" included."""
    return pairs if isinstance(pairs, RowBlocks) else RowBlocks()


def deal_of(settings: PoolingSettings, planned: Plan) -> Deal:
    """Deal rows as planned."""
    seed = block_settings(settings.pairs).random_state
    return Deal(planned.n_samples, planned.n_used, planned.n_blocks, seed)


def _fit(rows: BlockedRows | SpreadBlocks, planned: Plan, settings: PoolingSettings) -> PooledModel:
    """Pool the blocks."""
    given = block_settings(settings.pairs)
    n_components = check_components(settings.n_components, settings.n_clusters, len(rows.prepared.components))
    counted = counted_blocks(rows)
    smallest = float(counted.sizes.min())
    n_neighbors = settings.neighbor_count(float(counted.sizes.sum()))
    if n_neighbors > smallest - 1:
        raise ValueError(
            f"n_neighbors={n_neighbors} needs row blocks of more than {n_neighbors} rows, but the smallest of "
            f"{rows.n_blocks} has {smallest:g} (weights counted). Use RowBlocks with more rows, or fewer neighbours."
        )
    tell = teller(settings.verbose, PAUSE_SECONDS)
    fit = PooledFit(rows, counted, settings.n_clusters, n_neighbors, settings.n_iter, settings.affinity, tell)
    blocks = RowBlocks(planned.block_rows, planned.n_blocks, given.random_state)
    pairs = "all" if planned.exact else blocks
    return PooledModel(rows.prepared, fit.learned(n_components), n_neighbors, planned, pairs)
