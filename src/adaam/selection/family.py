"""The candidates: a few preparations, each as it is and through AdaAM maps of two widths."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from adaam._typing import Column, Tall
from adaam.affinity import AdaptiveAffinity, adaptive_affinity
from adaam.affinity.adaptive import Learned
from adaam.engines import Engine
from adaam.engines.columns import spread
from adaam.graph import neighbor_graph
from adaam.partition import View
from adaam.partition.heads import links_per_row
from adaam.prepare import PREPARATIONS, LinearMap, ZeroRowWarning, column_variances, fit_preparation
from adaam.projection import Projection, lpp
from adaam.sample import Sample

# Columns of the AdaAM map as multiples of the number of clusters. The paper's own single multiple is too narrow for a
# graph: among ten neighbours in as few dimensions there are rows of other clusters.
WIDTHS = (3, 5)
COMMON_UNITS = ("unit", "linear")
UNLIKE_UNITS = ("standard",)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A linear metric to try: how rows are prepared, and how wide a map AdaAM learns, if any."""

    preparation: str
    width: int  # multiples of the number of clusters; 0 means the prepared rows as they are

    @property
    def name(self) -> str:
        """What reports say."""
        return "rows as they are" if self.width == 0 else f"AdaAM, {self.width} columns a cluster"

    @property
    def affinity(self) -> AdaptiveAffinity:
        """Settings of AdaAM for this width."""
        return AdaptiveAffinity(rank=float(self.width), projection_rank=float(self.width))


@dataclass(frozen=True, slots=True)
class FittedCandidate:
    """A candidate learned from distinct rows: the parts of its map, and the rows in its metric."""

    candidate: Candidate
    prepared: LinearMap
    sample: Sample
    projection: Projection | None
    learned: Learned | None
    view: View


def candidates(X: Tall, weights: Column, engine: Engine) -> list[Candidate]:
    """Candidates for these rows, those of one preparation side by side.

    Columns of a common unit (pixels, spectra, embeddings) keep their variances, with rows scaled to unit length and
    without. Where one column varies more than all others together, its unit alone would decide every distance; so
    units are unlike, and columns are standardised.
    """
    variances = column_variances(X, weights, engine)
    unlike = variances.max() >= variances.sum() - variances.max()
    preparations = UNLIKE_UNITS if unlike else COMMON_UNITS
    return [Candidate(preparation, width) for preparation in preparations for width in (0, *WIDTHS)]


def fitted_candidates(
    wanted: Sequence[Candidate], X: Tall, weights: Column, n_clusters: int, engine: Engine
) -> Iterator[FittedCandidate]:
    """Learn candidates from distinct rows; those of one preparation share prepared rows and neighbour graph.

    A preparation that leaves nothing to learn from is passed over, unless it is the last hope.
    """
    preparations = list(dict.fromkeys(candidate.preparation for candidate in wanted))
    found = False
    for name in preparations:
        try:
            with warnings.catch_warnings():
                # A candidate is not the caller's choice; rows without a direction speak against it in its score.
                warnings.simplefilter("ignore", ZeroRowWarning)
                prepared = fit_preparation(X, weights, PREPARATIONS[name], engine)
        except ValueError:
            if name == preparations[-1] and not found:
                raise
            continue
        found = True
        sample = Sample(prepared.apply(X, engine), weights, engine, prepared.spreads)
        widths = [candidate.width for candidate in wanted if candidate.preparation == name]
        yield from _of_one_preparation(name, widths, prepared, sample, n_clusters)


def _of_one_preparation(
    name: str, widths: Sequence[int], prepared: LinearMap, sample: Sample, n_clusters: int
) -> Iterator[FittedCandidate]:
    engine, rank = sample.engine, sample.X.shape[1]
    on_host = np.array(spread(engine.to_host(sample.engine_weights), sample.n_rows))
    k = paper_neighbors(sample.size, n_clusters)
    graph = neighbor_graph(sample, k) if any(widths) else None
    seen: set[int] = set()
    for width in widths:
        candidate = Candidate(name, width)
        if width == 0:
            at_hand = graph if k == links_per_row(sample.size) else None
            yield FittedCandidate(candidate, prepared, sample, None, None, View(sample.X, on_host, engine, at_hand))
            continue
        assert graph is not None
        n_components = min(width * n_clusters, rank)
        if n_components in seen:
            continue  # the rank of the rows leaves no room for a wider map
        seen.add(n_components)
        learned = adaptive_affinity(sample, graph, n_clusters, 1, candidate.affinity)
        projection = lpp(sample.X, learned.affinity, n_components, engine=engine)
        Z = engine.project(sample.X, 1.0, np.zeros(rank), projection.components)
        yield FittedCandidate(candidate, prepared, sample, projection, learned, View(Z, on_host, engine))


def paper_neighbors(size: float, n_clusters: int) -> int:
    """Neighbours of each row by the paper's rule, round(log2(n / c)), within what the rows allow."""
    return int(np.clip(round(np.log2(max(size / n_clusters, 1.0))), 1, max(1, int(size) - 1)))


def random_rows(X: Tall, weights: Column, n_rows: int, seed: int) -> tuple[Tall, Column]:
    """Return some distinct rows, drawn without replacement, in their own order."""
    chosen = np.sort(np.random.default_rng(seed).choice(X.shape[0], n_rows, replace=False))
    return X[chosen], weights if isinstance(weights, float) else weights[chosen]
