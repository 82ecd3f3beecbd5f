"""A fit from row blocks: rows in memory or in a source, dealt, counted and pooled."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from adaam._checks import check_weights
from adaam._typing import Column, Tall
from adaam.affinity import AdaptiveAffinity
from adaam.affinity.adaptive import counted_halves
from adaam.engines import Engine
from adaam.estimators.fitting import check_clusters, check_components, row_weights
from adaam.estimators.phases import FitPhases
from adaam.graph import neighbor_graph
from adaam.large import (
    BlockedRows,
    Deal,
    RowBlocks,
    SpreadBlocks,
    Stability,
    dealt_array,
    stability,
    stream_preparation,
    taken_rows,
)
from adaam.learning import LearnedMap, MethodSettings, learn
from adaam.planning import LOADED_BYTES, Plan, plan
from adaam.prepare import LinearMap, Preparation, fit_preparation
from adaam.progress import teller
from adaam.rows import ArrayRows, RowsError, RowSource, counted_rows, n_bytes, read_all

PAUSE_SECONDS = 5.0  # between two lines of progress


@dataclass(frozen=True, slots=True)
class PooledModel:
    """All that a fit found, from row blocks or from all pairs."""

    prepared: LinearMap
    learned: LearnedMap
    stability: Stability | None  # None where there is one block only
    n_neighbors: int
    plan: Plan
    pairs: str | RowBlocks
    recall: float | None = None  # of the neighbours, where the engine searched all pairs


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

    def prepare(rows: Tall, held: Column) -> LinearMap:
        return fit_preparation(rows, held, settings.preparation, engine)

    with phase("preparation"):
        rows = dealt_array(engine.asarray(X), weights, deal_of(settings, planned), prepare, engine)
    with phase("row blocks"):
        return _fit(rows, planned, settings)


def fit_source(source: RowSource, sample_weight: Any, settings: PoolingSettings, phase: FitPhases) -> PooledModel:
    """Fit rows that are read once, to keep those that take part; and before that to count them, if that must be."""
    engine, tell = settings.engine, teller(settings.verbose, PAUSE_SECONDS)
    with phase("preparation"):
        n_rows = counted_rows(source)
        if n_rows < 2:
            raise RowsError(f"{source.label}: holds {n_rows} row(s); a fit needs at least 2.")
        weights = None if sample_weight is None else check_weights(sample_weight, len(sample_weight))
        if weights is not None and len(weights) != n_rows:
            raise ValueError(f"sample_weight holds {len(weights)} weights, but {source.label} has {n_rows} rows.")
        check_clusters(settings.n_clusters, n_rows)
        n_present = n_rows if weights is None else int(np.count_nonzero(weights))
        planned = plan_of(settings, n_present, source.n_features, source.dtype.itemsize, stored=True)
        deal = deal_of(settings, planned)
        X, held = taken_rows(source, weights, deal, tell)
        taken = ArrayRows(X, source.label)
        prepared = stream_preparation(taken, held, settings.preparation, engine, tell)
    with phase("row blocks"):
        rows = BlockedRows(X, 1.0 if held is None else engine.asarray(held), None, deal, prepared, engine)
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
    counted = counted_halves(rows)
    smallest = min(min(half.sizes) for half in counted)
    n_neighbors = settings.neighbor_count(sum(half.size for half in counted))
    if n_neighbors > smallest - 1:
        raise ValueError(
            f"n_neighbors={n_neighbors} needs row blocks of more than {n_neighbors} rows, but the smallest of "
            f"{rows.n_blocks} has {smallest:g} (weights counted). Use RowBlocks with more rows, or fewer neighbours."
        )
    tell = teller(settings.verbose, PAUSE_SECONDS)
    method = MethodSettings(settings.n_clusters, n_components, settings.n_iter, settings.affinity)
    graph = partial(neighbor_graph, n_neighbors=n_neighbors)
    learned = learn(rows, method, graph, counted=counted, tell=tell)
    firmness = None
    if learned.halves:
        halves = [half.components for half in learned.halves]
        smaller = int(min(half.size for half in counted))
        firmness = stability(learned.projection.components, halves, learned.evidence.counts.gram, smaller)
    blocks = RowBlocks(planned.block_rows, planned.n_blocks, given.random_state)
    pairs = "all" if planned.exact else blocks
    return PooledModel(rows.prepared, learned, firmness, n_neighbors, planned, pairs)
