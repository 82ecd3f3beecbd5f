"""AdaAM's method on prepared rows: adaptive affinity, then projection.

Δ is learned from the low-rank structure of the data, in addition to the heat-kernel degrees of the neighbour graph.
Rows come in blocks: pairs within blocks stand for all pairs, and small matrices are summed over all blocks before each
eigenproblem. A fit on all pairs, the search for a metric, the histogram and the displays use a single block
(`AllRows`); very many rows come in several (`adaam.large`).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from adaam._checks import check_number, check_word
from adaam._typing import Column, Constraint, DiagonalRule, FloatMatrix, FloatVector, Tall
from adaam.affinity.heat import HalfAffinity, HeatKernel, heat_affinity, resolve_heat
from adaam.affinity.values import DiagonalAffinity, SumAffinity
from adaam.engines import Engine, Graph
from adaam.engines.blocks import ordered_map, row_blocks, spread, total
from adaam.engines.pruned.cut import kept_from
from adaam.engines.pruned.tiles import upper_tiles
from adaam.linalg import Projection, degree_projection, projected_left_vectors, whitening
from adaam.prepare import Sample

TILE_ROWS = 1024  # of the tiles in which `magnitude_counts` counts entries

GraphOf: TypeAlias = Callable[[Sample], Graph]


@dataclass(eq=False, repr=False)
class AdaptiveAffinity(BaseEstimator):
    """Settings of the adaptive affinity; the defaults are the reference interpretation of the paper.

    Parameters
    ----------
    alphas : tuple of two floats, default=(2.5, 5.0)
        For c clusters, pruning keeps the floor(n² / (alpha c)) entries of largest magnitude: of the intermediate and
        of the final affinity.
    rank : float, default=1.0
        Rank of PP', the matrix pruned to the intermediate affinity, as a multiple of the number of clusters.
    projection_rank : float, default=1.0
        Columns of the projection between the two affinities, and so rank of PP' for the final affinity, as a multiple
        of the number of clusters. (Singular values of projected rows are all equal, so no leading ones stand out.)
    heat : HeatKernel, default=None
        Weights of the neighbour graph; None means `HeatKernel()`.
    diagonal : {"keep", "drop"}, default="keep"
        Whether the diagonal of PP' is pruned like other entries, or removed first.
    constraint : {"gram", "degrees"}, default="gram"
        Metric in which the projection between the two is orthonormal: X'X, or X'DX with D the degrees of the graph.
    """

    alphas: tuple[float, float] = (2.5, 5.0)
    rank: float = 1.0
    projection_rank: float = 1.0
    heat: HeatKernel | None = None
    diagonal: DiagonalRule = "keep"
    constraint: Constraint = "gram"

    def check(self) -> None:
        """Raise if a setting is out of range."""
        if not (isinstance(self.alphas, tuple | list) and len(self.alphas) == 2):
            raise ValueError(f"alphas={self.alphas!r} must hold two numbers: intermediate and final.")
        for alpha in self.alphas:
            check_number("alphas", alpha, above=0.0)
        check_number("rank", self.rank, above=0.0)
        check_number("projection_rank", self.projection_rank, above=0.0)
        check_word("diagonal", self.diagonal, ("keep", "drop"))
        check_word("constraint", self.constraint, ("gram", "degrees"))
        resolve_heat(self.heat)


class Known(NamedTuple):
    """Result of the last pass over the pairs: X'(D - A)X for these rows, and the row sums D of A."""

    rows: Tall
    laplacian: FloatMatrix
    degrees: Column


@dataclass(frozen=True, slots=True)
class PrunedAffinity:
    """Δ = S_t(PP'): the entries of PP' of largest magnitude, represented by the factor P and the cut.

    Entry (i, j) counts weights[i] * weights[j] times, a diagonal entry (i, i) diagonal[i] times. The result of the last
    pass over the pairs is cached.
    """

    factor: Tall  # (n, r)
    cut: float
    weights: Column
    diagonal: Column
    engine: Engine
    _known: list["Known"] = field(default_factory=list, repr=False, compare=False)

    def threshold(self) -> float:
        """Magnitude from which entries are kept."""
        return kept_from(self.cut, self.factor.dtype)

    def degrees(self) -> Column:
        """Row sums Δ1; unlike those of PP' for centred rows, they are not all zero."""
        if not self._known:
            self.laplacian(self.factor)
        return self._known[0].degrees

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'ΔX."""
        laplacian = self.laplacian(X)
        return self.engine.cross(X, X, self.degrees()) - laplacian

    def laplacian(self, X: Tall) -> FloatMatrix:
        """Return X'(D - Δ)X, computed in a pass over the off-diagonal entries; diagonal entries cancel."""
        if not self._known or X is not self._known[0].rows:
            given = (self.factor, 0.0, X, self.weights, self.diagonal)
            _, laplacian, degrees = self.engine.cut_laplacian(*given, cut=self.cut)
            self.remember(X, laplacian, degrees)
        return self._known[0].laplacian

    def remember(self, X: Tall, laplacian: FloatMatrix, degrees: Column) -> None:
        """Cache the result of a pass: X'(D - Δ)X, and the row sums of the off-diagonal entries."""
        squares = self.engine.row_norms(self.factor) ** 2
        kept = squares * (squares >= self.threshold()) * self.diagonal
        self._known[:] = [Known(X, laplacian, degrees + kept)]


def pruned_affinity(sample: Sample, factor: Tall, t: float, diagonal: Column) -> PrunedAffinity:
    """Prune PP' to its t entries of largest magnitude, ties kept; diagonal entry (i, i) counts diagonal[i] times.

    The Laplacian of the rows of the sample is computed in the pass that finds the cut.
    """
    engine, weights = sample.engine, sample.engine_weights
    cut, laplacian, degrees = engine.cut_laplacian(factor, t, sample.X, weights, diagonal)
    affinity = PrunedAffinity(factor, cut, weights, diagonal, engine)
    affinity.remember(sample.X, laplacian, degrees)
    return affinity


def pruned_beside(
    sample: Sample, factor: Tall, t: float, diagonal: Column, other: HalfAffinity
) -> tuple[PrunedAffinity, FloatMatrix]:
    """Prune as `pruned_affinity`; in the same pass compute X'(D - A)X, A being the sum with another affinity."""
    engine, weights = sample.engine, sample.engine_weights
    cut, laplacian, _ = engine.cut_laplacian(factor, t, sample.X, weights, diagonal, other.half)
    return PrunedAffinity(factor, cut, weights, diagonal, engine), laplacian


def magnitude_counts(affinity: PrunedAffinity, n_bins: int = 200) -> tuple[FloatVector, float]:
    """Count the entries of PP' by magnitude in equal bins from 0 to the returned upper end.

    No entry exceeds the largest squared length of a row of P, so one pass suffices.
    """
    P = affinity.engine.to_host(affinity.factor)
    weights, diagonal = (
        spread(affinity.engine.to_host(column), len(P)) for column in (affinity.weights, affinity.diagonal)
    )
    squares = np.einsum("ij,ij->i", P, P)
    top = float(squares.max())
    scale = n_bins / top if top > 0 else 0.0

    def counted(values: FloatMatrix, shares: FloatMatrix) -> FloatVector:
        bins = np.minimum((np.abs(values).ravel() * scale).astype(np.intp), n_bins - 1)
        return np.bincount(bins, shares.ravel(), n_bins)

    def row_counts(rows: slice) -> FloatVector:
        total = np.zeros(n_bins)
        for columns, tile in upper_tiles(P, rows, TILE_ROWS):
            shares = 2.0 * np.outer(weights[rows], weights[columns])
            total += counted(tile, np.triu(shares, k=1) if columns.start == rows.start else shares)
        return total

    blocks = row_blocks(len(P), TILE_ROWS)
    return counted(squares, diagonal) + sum(ordered_map(row_counts, blocks)), top


def diagonal_counts(sample: Sample, diagonal: DiagonalRule, share: float = 1.0) -> Column:
    """Times that each diagonal entry counts: once per pair of copies of the row, and once per copy unless dropped.

    A row of weight below one has no copies. If only a `share` of all pairs is used, the product of a row with itself,
    which is not a sampled pair, counts by that share.
    """
    weights = sample.engine_weights
    counts = weights**2 - weights + (weights * share if diagonal == "keep" else 0.0)
    return counts * (counts > 0)


class MethodSettings(NamedTuple):
    """Parameters of the method."""

    n_clusters: int
    n_components: int
    n_iter: int = 1
    affinity: AdaptiveAffinity = AdaptiveAffinity()


class Job(NamedTuple):
    """A function of a row block, and the blocks over which its results are summed, in this order."""

    blocks: Sequence[int]
    work: Callable[[Sample], Any]


class Blocks(Protocol):
    """Prepared rows in blocks: pairs within blocks stand for all pairs."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        ...

    @property
    def engine(self) -> Engine:
        """Engine that processes them."""
        ...

    def totals(self, jobs: Sequence[Job], tell: Callable[[int], None]) -> list[Any]:
        """Sum of the results of each job over its blocks; `tell` is called with each finished block."""
        ...


@dataclass(frozen=True, slots=True)
class AllRows:
    """All rows as one block, kept from pass to pass."""

    sample: Sample
    n_blocks: int = 1

    @property
    def engine(self) -> Engine:
        """Engine that processes them."""
        return self.sample.engine

    def totals(self, jobs: Sequence[Job], tell: Callable[[int], None]) -> list[Any]:
        """Result of each job on the rows."""
        return [job.work(self.sample) for job in jobs]


class DegreeSums(NamedTuple):
    """X'DX for the row sums D of affinities, and the sum of D."""

    gram: FloatMatrix
    total: float

    def __add__(self, other: "DegreeSums") -> "DegreeSums":  # type: ignore[override]
        return DegreeSums(self.gram + other.gram, self.total + other.total)


@dataclass(frozen=True, slots=True)
class RowDegrees:
    """Row sums D of an affinity on `AllRows`, with the fields of `DegreeSums` computed on demand."""

    column: Column
    sample: Sample

    @property
    def gram(self) -> FloatMatrix:
        """X'DX."""
        return self.sample.engine.cross(self.sample.X, self.sample.X, self.column)

    @property
    def total(self) -> float:
        """Sum of D."""
        return total(self.column, self.sample.n_rows)

    def __add__(self, other: "RowDegrees") -> "RowDegrees":
        return RowDegrees(other.column + self.column, self.sample)


@dataclass(frozen=True, slots=True)
class Links:
    """X'(D - A)X of an affinity A, degrees, and the cut of the pruned affinity, summed over blocks."""

    laplacian: FloatMatrix
    degrees: Any  # DegreeSums, or RowDegrees for `AllRows`
    cut: float
    affinity: Any = None  # PrunedAffinity, for `AllRows` only

    def __add__(self, other: "Links") -> "Links":
        return Links(self.laplacian + other.laplacian, self.degrees + other.degrees, self.cut + other.cut)


class Pruning(NamedTuple):
    """How a block is pruned to Δ = S_t(PP'), t = ⌊n²/(αc)⌋: `onto` maps prepared rows to P.

    Pairs within blocks stand for all pairs, so entries are divided by the share of pairs that lie within blocks; a row
    paired with itself is not a sampled pair and counts once. `at_hand` is true for `AllRows`.
    """

    onto: FloatMatrix
    share: float
    alpha_c: float
    diagonal: DiagonalRule
    at_hand: bool

    def of(self, sample: Sample) -> tuple[Tall, float, Column]:
        """Return P of a block, the number of entries to keep, and how often each diagonal entry counts."""
        P = sample.engine.project(sample.X, 1.0, np.zeros(len(self.onto)), self.onto.T / np.sqrt(self.share))
        t = max(1.0, np.floor(sample.size**2 / self.alpha_c))
        return P, t, diagonal_counts(sample, self.diagonal, self.share)

    def links(self, sample: Sample, affinity: PrunedAffinity, laplacian: FloatMatrix, degrees: Column) -> Links:
        """Return the links of a block."""
        rows = RowDegrees(degrees, sample)
        if self.at_hand:
            return Links(laplacian, rows, affinity.cut, affinity)
        return Links(laplacian, DegreeSums(rows.gram, rows.total), affinity.cut * self.share)


def first_links(pruning: Pruning, graph: GraphOf, kernel: HeatKernel | None, sample: Sample) -> Links:
    """Return the Laplacian of heat-kernel graph plus intermediate affinity, and the degrees of the graph alone."""
    heat = heat_affinity(graph(sample), kernel, sample)
    affinity, laplacian = pruned_beside(sample, *pruning.of(sample), heat)
    return pruning.links(sample, affinity, laplacian, heat.half.degrees())


def final_links(pruning: Pruning, sample: Sample) -> Links:
    """Return the links of the final affinity."""
    affinity = pruned_affinity(sample, *pruning.of(sample))
    return pruning.links(sample, affinity, affinity.laplacian(sample.X), affinity.degrees())


class Counts(NamedTuple):
    """Sizes of some blocks (copies counted), their total number of distinct rows, and X'X."""

    sizes: tuple[float, ...]
    n_distinct: int
    gram: FloatMatrix

    @classmethod
    def of(cls, sample: Sample) -> "Counts":
        """Count one block."""
        return cls((sample.size,), sample.n_rows, sample.gram)

    @property
    def size(self) -> float:
        """Rows in all, copies counted."""
        return sum(self.sizes)

    def share(self) -> float:
        """Number of pairs within these blocks over the number of all pairs of their rows."""
        return float(np.square(self.sizes).sum() / self.size**2)

    def __add__(self, other: "Counts") -> "Counts":  # type: ignore[override]
        return Counts(self.sizes + other.sizes, self.n_distinct + other.n_distinct, self.gram + other.gram)


def counted_halves(rows: Blocks) -> list[Counts]:
    """Count the even and the odd blocks, in the pass that all others depend on."""
    return rows.totals([Job(half, Counts.of) for half in halves_of(rows.n_blocks)], lambda block: None)


def halves_of(n_blocks: int) -> list[range]:
    """Even and odd blocks; a single block is returned as it is."""
    return [range(start, n_blocks, 2) for start in range(min(2, n_blocks))]


class Evidence(NamedTuple):
    """Results for a group of blocks: counts, links of graph and intermediate affinity, links of the final affinity."""

    blocks: range
    counts: Counts
    first: Links
    final: Links


def adapt(
    rows: Blocks,
    method: MethodSettings,
    graph: GraphOf,
    counted: Sequence[Counts] | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Evidence]:
    """Learn the affinities of all blocks together and, if there are several, of each half of the blocks.

    The halves share neighbours and intermediate affinity with the whole, so they cost only one more pass, for their
    final affinities. Parameters are those of `learn`; the result for all blocks comes first, then those of the halves.
    """
    settings, n_clusters = method.affinity, method.n_clusters
    engine, n_blocks = rows.engine, rows.n_blocks
    halves, counts = halves_of(n_blocks), counted_halves(rows) if counted is None else counted
    everything = reduce(add, counts)
    n = everything.n_distinct
    rank, n_columns = (max(1, round(r * n_clusters)) for r in (settings.rank, settings.projection_rank))

    def pruning(stage: int, counts: Counts, onto: FloatMatrix) -> Pruning:
        alpha_c = settings.alphas[stage] * n_clusters
        return Pruning(onto, counts.share(), alpha_c, settings.diagonal, isinstance(rows, AllRows))

    def totals(jobs: list[Job], what: str) -> list[Links]:
        return rows.totals(jobs, lambda block: tell(f"block {block + 1} of {n_blocks}: {what}"))

    left = whitening(everything.gram, n, engine.eigh)
    work = partial(first_links, pruning(0, everything, left[:, :rank]), graph, settings.heat)
    found = totals([Job(half, work) for half in halves], "neighbours and intermediate affinity")
    groups = [(range(n_blocks), everything, reduce(add, found))]
    if n_blocks > 1:
        groups += zip(halves, counts, found, strict=True)
    final: list[Links] = []

    def bound(index: int) -> FloatMatrix:
        _, known, first = groups[index]
        if settings.constraint == "degrees":
            return whitening(first.degrees.gram, n, engine.eigh)
        return whitening(known.gram, n, engine.eigh) if index else left

    def job(index: int) -> Job:
        blocks, known, first = groups[index]
        laplacian = first.laplacian + final[index].laplacian if final else first.laplacian
        onto = projected_left_vectors(laplacian, bounds[index], known.gram, n_columns, n, engine.eigh)
        return Job(blocks, partial(final_links, pruning(1, known, onto)))

    bounds = list(engine.each(bound, range(len(groups))))
    for _ in range(method.n_iter):
        final = totals(list(engine.each(job, range(len(groups)))), "final affinity")
    return [Evidence(*group, last) for group, last in zip(groups, final, strict=True)]


class Learned(NamedTuple):
    """The affinity Δ + D that LPP is applied to, and the two pruned affinities it came from."""

    affinity: SumAffinity
    intermediate: PrunedAffinity
    final: PrunedAffinity


def adaptive_affinity(
    sample: Sample, graph: Graph, n_clusters: int, n_iter: int, settings: AdaptiveAffinity
) -> Learned:
    """Run steps 1 to 4 of the method on all pairs of prepared rows."""
    (found,) = adapt(AllRows(sample), MethodSettings(n_clusters, n_clusters, n_iter, settings), lambda _: graph)
    degrees = DiagonalAffinity(found.first.degrees.column, sample.engine)
    affinity = SumAffinity((found.final.affinity, degrees), sample.engine)
    return Learned(affinity, found.first.affinity, found.final.affinity)


class LearnedMap(NamedTuple):
    """A projection of prepared rows, what it was learned from, and those of the two halves of several blocks."""

    projection: Projection
    evidence: Evidence
    moments: FloatMatrix  # X'X divided by the number of rows, copies counted
    cuts: tuple[float, float]  # smallest magnitudes kept, intermediate and final, on average over blocks
    halves: list[Projection]


def learn(
    rows: Blocks,
    method: MethodSettings,
    graph: GraphOf,
    *,
    counted: Sequence[Counts] | None = None,
    phase: Callable[[str], AbstractContextManager[Any]] = nullcontext,
    tell: Callable[[str], None] = lambda text: None,
) -> LearnedMap:
    """Learn a linear map of prepared rows.

    `graph` returns the neighbour graph of a block: searched, or given by the user. `counted` is the result of
    `counted_halves`, if known. `phase` returns the context manager of a named phase; `tell` receives progress messages.
    """
    with phase("affinity"):
        found = adapt(rows, method, graph, counted, tell)
    with phase("projection"):

        def projection(index: int) -> Projection:
            """LPP on final affinity and heat-kernel degrees, as in `adaam.projection.lpp`."""
            _, counts, first, final = found[index]
            degrees = first.degrees + final.degrees

            def even() -> FloatMatrix:
                return np.asarray(degrees.total / counts.size * counts.gram)

            n, eigh = found[0].counts.n_distinct, rows.engine.eigh
            return degree_projection(final.laplacian, degrees.gram, method.n_components, n, even, eigh)

        # Small eigenproblems run on one thread each, so those of the halves run in parallel with that of the whole.
        learned, *halves = rows.engine.each(projection, range(len(found)))
    blocks, counts, first, final = found[0]
    cuts = (first.cut / len(blocks), final.cut / len(blocks))
    return LearnedMap(learned, found[0], counts.gram / counts.size, cuts, halves)
