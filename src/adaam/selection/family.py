"""Candidate metrics: a few preparations, each without a map and with AdaAM maps of several widths."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from adaam._typing import Column, FloatMatrix, IntVector, Tall
from adaam.affinity import AdaptiveAffinity
from adaam.affinity.adaptive import AllRows, MethodSettings, learn
from adaam.engines import Engine
from adaam.engines.blocks import at
from adaam.graph import neighbor_graph, paper_neighbors
from adaam.partition import View
from adaam.prepare import (
    PREPARATIONS,
    LinearMap,
    Sample,
    TruncatedSpectrumWarning,
    ZeroRowWarning,
    column_variances,
    fit_preparation,
    unit_rows,
)

# Columns of the AdaAM map as multiples of the number of clusters: narrow maps suit embeddings, wide ones images.
WIDTHS = (1, 2, 4, 8)
# Fewest columns of a map: in fewer, rows are near each other by chance, and modularity is high whatever the clusters.
FEWEST_COLUMNS = 8
COMMON_UNITS = ("unit", "linear")
UNLIKE_UNITS = ("standard",)
# Relative difference up to which lengths of rows count as equal; scaling in float16 or better leaves no more.
SAME_LENGTH = 1e-3
# Rows from which maps are learned in the search: the larger of the two. Maps are scored on more rows, so that
# overfitting counts less.
LEARNING_ROWS = 4096
LEARNING_ROWS_PER_CLUSTER = 40


@dataclass(frozen=True, slots=True)
class Candidate:
    """A linear metric to try: how rows are prepared, and how wide a map AdaAM learns, if any."""

    preparation: str
    width: int  # multiples of the number of clusters; 0 means the prepared rows as they are

    @property
    def name(self) -> str:
        """Name in reports."""
        columns = "column" if self.width == 1 else "columns"
        return "rows as they are" if self.width == 0 else f"AdaAM, {self.width} {columns} per cluster"

    def n_columns(self, n_clusters: int) -> int:
        """Number of columns of the map, unless the rows have fewer."""
        return max(self.width * n_clusters, FEWEST_COLUMNS)

    def affinity(self, n_clusters: int) -> AdaptiveAffinity:
        """Settings of AdaAM for this width."""
        rank = self.n_columns(n_clusters) / n_clusters
        return AdaptiveAffinity(rank=rank, projection_rank=rank)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Distinct rows under one preparation."""

    name: str
    map: LinearMap
    sample: Sample
    ranks: IntVector  # position of each row in an order that does not depend on that of the input

    def view(self, components: FloatMatrix | None = None, *, cosine: bool = False) -> View:
        """Rows mapped by `components`, or as they are; scaled to unit length if `cosine`."""
        sample, Z = self.sample, self.sample.X
        if components is not None:
            Z = sample.engine.project(Z, 1.0, np.zeros(Z.shape[1]), components)
        if cosine:
            Z = unit_rows(Z, sample.engine)
        return View(Z, np.array(sample.weights), sample.engine, self.ranks)

    def some(self, rows: IntVector) -> "Prepared":
        """Return a subset of the rows, given by ascending indices, under the same preparation."""
        sample = self.sample
        ranks = np.argsort(np.argsort(self.ranks[rows]))
        return Prepared(
            self.name, self.map, Sample(sample.X[rows], at(sample.engine_weights, rows), sample.engine), ranks
        )


def preparations(X: Tall, weights: Column, engine: Engine) -> tuple[str, ...]:
    """Return the names of preparations that suit these rows.

    Columns of a common unit (pixels, spectra, embeddings) keep their variances; rows are tried scaled to unit length
    and, unless all have the same length, unscaled. If one column has at least the variance of all others together, its
    unit alone would decide every distance: units are taken to be unlike, and columns are standardised.
    """
    variances = column_variances(X, weights, engine)
    if variances.max() >= variances.sum() - variances.max():
        return UNLIKE_UNITS
    lengths = np.asarray(engine.to_host(engine.row_norms(X)))
    return COMMON_UNITS[:1] if np.ptp(lengths) <= SAME_LENGTH * lengths.max() else COMMON_UNITS


def prepared_rows(
    X: Tall, weights: Column, ranks: IntVector, engine: Engine, wanted: Sequence[str] = ()
) -> list[Prepared]:
    """Prepare distinct rows by every preparation that suits them, or by those in `wanted`.

    A preparation that leaves nothing to learn from is skipped; if all do, the error of the last is raised.
    """
    found: list[Prepared] = []
    wanted = wanted or preparations(X, weights, engine)
    for name in wanted:
        try:
            with warnings.catch_warnings():
                # The user did not choose this candidate; rows without a direction count against it in its score.
                warnings.simplefilter("ignore", ZeroRowWarning)
                warnings.simplefilter("ignore", TruncatedSpectrumWarning)
                prepared = fit_preparation(X, weights, PREPARATIONS[name], engine)
        except ValueError:
            if name == wanted[-1] and not found:
                raise
            continue
        sample = Sample(prepared.apply(X, engine), weights, engine, prepared.spreads)
        found.append(Prepared(name, prepared, sample, ranks))
    return found


def learned_maps(
    prepared: Prepared, n_clusters: int, widths: Sequence[int] = WIDTHS, *, every_row: bool = False
) -> list[tuple[Candidate, Callable[[], FloatMatrix]]]:
    """Return, for each width, a function that learns an AdaAM map from a sample of the rows, or from all."""
    sample = prepared.sample if every_row else learning_sample(prepared, n_clusters)
    graph = neighbor_graph(sample, paper_neighbors(sample.size, n_clusters))

    def components(settings: MethodSettings) -> FloatMatrix:
        return learn(AllRows(sample), settings, lambda _: graph).projection.components

    seen: set[int] = set()
    maps: list[tuple[Candidate, Callable[[], FloatMatrix]]] = []
    for width in widths:
        candidate = Candidate(prepared.name, width)
        n_components = min(candidate.n_columns(n_clusters), sample.X.shape[1])
        if n_components in seen or (maps and n_components == sample.X.shape[1]):
            continue  # no wider than the last (FEWEST_COLUMNS), or all columns, of which none would be left out
        seen.add(n_components)
        settings = MethodSettings(n_clusters, n_components, affinity=candidate.affinity(n_clusters))
        maps.append((candidate, partial(components, settings)))
    return maps


def learning_rows(n_clusters: int) -> int:
    """Number of rows from which a map for `n_clusters` clusters is learned in the search."""
    return max(LEARNING_ROWS, LEARNING_ROWS_PER_CLUSTER * n_clusters)


def learning_sample(prepared: Prepared, n_clusters: int) -> Sample:
    """Return the rows from which maps are learned: all, or a random sample of `learning_rows(n_clusters)`."""
    if learning_rows(n_clusters) >= prepared.sample.n_rows:
        return prepared.sample
    return prepared.some(random_rows(prepared.ranks, learning_rows(n_clusters), seed=0)).sample


def row_ranks(X: Tall, engine: Engine) -> IntVector:
    """Position of each distinct row along a fixed random direction, which does not depend on the order of rows."""
    direction = np.random.default_rng(0).standard_normal((1, X.shape[1]))
    along = np.asarray(engine.to_host(engine.project(X, 1.0, np.zeros(X.shape[1]), direction))).ravel()
    ranks = np.empty(len(along), dtype=np.intp)
    ranks[np.argsort(along, kind="stable")] = np.arange(len(along))
    return ranks


def random_rows(ranks: IntVector, n_rows: int, seed: int) -> IntVector:
    """Indices of `n_rows` random rows, drawn without replacement by their ranks, in ascending order."""
    taken = np.zeros(len(ranks), dtype=bool)
    taken[np.random.default_rng(seed).choice(len(ranks), n_rows, replace=False)] = True
    return np.flatnonzero(taken[ranks])
