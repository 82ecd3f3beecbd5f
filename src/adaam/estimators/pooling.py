"""A fit from row blocks: rows in memory or in a source, dealt, counted and pooled."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from adaam._checks import check_clusters, check_components
from adaam._typing import Tall
from adaam.affinity import AdaptiveAffinity
from adaam.affinity.adaptive import LearnedMap, MethodSettings, counted_halves, learn
from adaam.engines import DaskEngine, Engine
from adaam.engines.cluster.engine import client_engine
from adaam.estimators.phases import FitPhases, teller
from adaam.estimators.stored_rows import PAUSE_SECONDS, counted
from adaam.graph import neighbor_graph
from adaam.large import RowBlocks, Stability
from adaam.large.blocked import BlockedRows, SpreadBlocks, dealt_array, engine_of_blocks, taken_rows
from adaam.large.row_blocks import Deal
from adaam.large.stability import stability
from adaam.planning import Plan, plan
from adaam.prepare import LinearMap, Preparation, fit_preparation, row_weights
from adaam.rows import RowsError, RowSource


@dataclass(frozen=True, slots=True)
class PooledModel:
    """All that a fit found, from row blocks or from all pairs."""

    prepared: LinearMap
    learned: LearnedMap
    stability: Stability | None  # None where there is one block only
    n_neighbors: int
    plan: Plan
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

    def seed(self) -> int:
        """Seed of row blocks, those of "auto" included."""
        return (self.pairs if isinstance(self.pairs, RowBlocks) else RowBlocks()).random_state


def fit_array(X: Tall, sample_weight: Any, settings: PoolingSettings, phase: FitPhases) -> PooledModel:
    """Fit rows in memory."""
    engine = settings.engine
    weights = row_weights(sample_weight, X.shape[0], engine)
    n_present = X.shape[0] if isinstance(weights, float) else int((weights > 0).sum())
    n_features, itemsize = X.shape[1], X.dtype.itemsize
    planned = plan(n_present, n_features, settings.n_clusters, pairs=settings.pairs, engine=engine, itemsize=itemsize)
    with phase("preparation"):
        deal = Deal(planned.n_samples, planned.n_used, planned.n_blocks, settings.seed())
        rows = dealt_array(engine.asarray(X), weights, deal, settings.preparation, engine)
    with phase("row blocks"):
        return _fit(rows, planned, settings)


def fit_source(source: RowSource, sample_weight: Any, settings: PoolingSettings, phase: FitPhases) -> PooledModel:
    """Fit rows that are read once, to keep those that take part; and before that to count them, if that must be."""
    engine, tell = settings.engine, teller(settings.verbose, PAUSE_SECONDS)
    if isinstance(engine, DaskEngine):
        engine = client_engine(engine)  # the rows are read by this process
    with phase("preparation"):
        weights, n_rows, n_present = counted(source, sample_weight)
        if n_rows < 2:
            raise RowsError(f"{source.label}: holds {n_rows} row(s); a fit needs at least 2.")
        check_clusters(settings.n_clusters, n_rows)
        # A source that is small after all is one block, which is all pairs.
        planned = plan(
            n_present,
            source.n_features,
            settings.n_clusters,
            pairs=settings.pairs,
            engine=engine,
            itemsize=source.dtype.itemsize,
            stored=True,
        )
        deal = Deal(planned.n_samples, planned.n_used, planned.n_blocks, settings.seed())
        engine = engine_of_blocks(engine, deal)
        X, held = taken_rows(source, weights, deal, tell)
        own_weights = 1.0 if held is None else engine.asarray(held)
        prepared = fit_preparation(X, own_weights, settings.preparation, engine)
        tell(f"{source.label}: mean and scatter of {deal.n_used} rows")
    with phase("row blocks"):
        rows = BlockedRows(X, own_weights, None, deal, prepared, engine)
        return _fit(rows, planned, settings)


def _fit(rows: BlockedRows | SpreadBlocks, planned: Plan, settings: PoolingSettings) -> PooledModel:
    """Pool the blocks."""
    n_components = check_components(settings.n_components, settings.n_clusters, len(rows.prepared.components))
    counts = counted_halves(rows)
    smallest = min(min(half.sizes) for half in counts)
    n_neighbors = settings.neighbor_count(sum(half.size for half in counts))
    if n_neighbors > smallest - 1:
        raise ValueError(
            f"n_neighbors={n_neighbors} needs row blocks of more than {n_neighbors} rows, but the smallest of "
            f"{rows.n_blocks} has {smallest:g} (weights counted). Use RowBlocks with more rows, or fewer neighbours."
        )
    method = MethodSettings(settings.n_clusters, n_components, settings.n_iter, settings.affinity)
    graph = partial(neighbor_graph, n_neighbors=n_neighbors)
    learned = learn(rows, method, graph, counted=counts, tell=teller(settings.verbose, PAUSE_SECONDS))
    firmness = None
    if learned.halves:
        halves = [half.components for half in learned.halves]
        smaller = int(min(half.size for half in counts))
        firmness = stability(learned.projection.components, halves, learned.evidence.counts.gram, smaller)
    return PooledModel(rows.prepared, learned, firmness, n_neighbors, planned)
