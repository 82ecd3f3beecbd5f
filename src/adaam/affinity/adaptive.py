"""The adaptive affinity of AdaAM: Δ learned from the data's own low-rank structure, beside the heat-kernel degrees.

Rows come in blocks: pairs within blocks stand for all pairs, and small matrices are added up over all blocks before
each eigenproblem. All pairs are one block.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from adaam._checks import check_number, check_word
from adaam._typing import Column, Constraint, DiagonalRule, FloatMatrix, Tall
from adaam.affinity.heat import HeatKernel, heat_affinity, resolve_heat
from adaam.affinity.values import (
    DiagonalAffinity,
    PrunedAffinity,
    SumAffinity,
    not_negative,
    pruned_affinity,
    pruned_beside,
)
from adaam.engines import Engine, Graph
from adaam.engines.columns import total
from adaam.linalg import left_vector_map, whitened_eigenpairs, whitening
from adaam.sample import Sample

GraphOf: TypeAlias = Callable[[Sample], Graph]


class AdaptiveAffinity(BaseEstimator):
    """Settings of the adaptive affinity; the defaults are the reference reading of the paper.

    Parameters
    ----------
    alphas : tuple of two floats, default=(2.5, 5.0)
        Δ keeps the floor(n² / (alpha c)) entries of largest magnitude, first in the intermediate, then in the final
        affinity.
    rank : float, default=1.0
        Columns of P in the intermediate affinity, as a multiple of the number of clusters.
    projection_rank : float, default=1.0
        Columns of the projection between the two, and so of P in the final affinity, as a multiple of the number of
        clusters. (Projected rows have singular values that are all equal, so no fewer of them could be told apart.)
    heat : HeatKernel, default=None
        Weights of the neighbour graph; None means `HeatKernel()`.
    diagonal : {"keep", "drop"}, default="keep"
        Whether the diagonal of PP' takes part in the pruning, or is removed before it.
    constraint : {"gram", "degrees"}, default="gram"
        What the projection between the two is orthonormal under: X'X, or X'DX with the degrees of the graph.
    """

    def __init__(
        self,
        alphas: tuple[float, float] = (2.5, 5.0),
        rank: float = 1.0,
        projection_rank: float = 1.0,
        heat: HeatKernel | None = None,
        diagonal: DiagonalRule = "keep",
        constraint: Constraint = "gram",
    ) -> None:
        self.alphas = alphas
        self.rank = rank
        self.projection_rank = projection_rank
        self.heat = heat
        self.diagonal = diagonal
        self.constraint = constraint

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
        resolve_heat(self.heat).check()


class Learned(NamedTuple):
    """The affinity Δ + D that LPP is applied to, and the two pruned affinities it came from."""

    affinity: SumAffinity
    intermediate: PrunedAffinity
    final: PrunedAffinity


def adaptive_affinity(
    sample: Sample, graph: Graph, n_clusters: int, n_iter: int, settings: AdaptiveAffinity
) -> Learned:
    """Steps 1 to 4 of the method on prepared rows, as `adapt` takes them on all pairs.

    Each further iteration repeats projection and final affinity with the current Δ beside the intermediate one.
    """
    (found,) = adapt(AllRows(sample), settings, n_clusters, n_iter, lambda _: graph)
    intermediate, final = found.first.affinity, found.final.affinity
    assert intermediate is not None
    assert final is not None
    degrees = DiagonalAffinity(found.first.degrees.column, sample.engine)
    return Learned(SumAffinity((final, degrees), sample.engine), intermediate, final)


class Job(NamedTuple):
    """Row blocks, and what is made of each and added up in their order."""

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
        """What works on them."""
        ...

    def totals(self, jobs: Sequence[Job], tell: Callable[[int], None]) -> list[Any]:
        """Sum of what each job makes of its blocks; `tell` hears of blocks done."""
        ...


@dataclass(frozen=True, slots=True)
class AllRows:
    """All rows as one block, at hand from pass to pass."""

    sample: Sample
    n_blocks: int = 1

    @property
    def engine(self) -> Engine:
        """What works on them."""
        return self.sample.engine

    def totals(self, jobs: Sequence[Job], tell: Callable[[int], None]) -> list[Any]:
        """What each job makes of the rows."""
        return [job.work(self.sample) for job in jobs]


class DegreeSums(NamedTuple):
    """X'DX of the row sums D of affinities, and the sum of D."""

    gram: FloatMatrix
    total: float

    def __add__(self, other: "DegreeSums") -> "DegreeSums":  # type: ignore[override]
        return DegreeSums(self.gram + other.gram, self.total + other.total)


@dataclass(frozen=True, slots=True)
class RowDegrees:
    """Row sums D of an affinity on rows at hand, and what `DegreeSums` has of them, when asked for."""

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
    """X'(D - A)X of an affinity A, a D, and the cut of what was pruned, summed over blocks; A itself of one alone."""

    laplacian: FloatMatrix
    degrees: Any  # DegreeSums, or RowDegrees of rows at hand
    cut: float
    affinity: PrunedAffinity | None = None

    def __add__(self, other: "Links") -> "Links":
        return Links(self.laplacian + other.laplacian, self.degrees + other.degrees, self.cut + other.cut)


class Pruning(NamedTuple):
    """How a block is pruned to Δ = S_t(PP'), t = ⌊n²/(αc)⌋: `onto` maps prepared rows to P.

    Pairs within blocks stand for all pairs, so entries are divided by the share of pairs that lie within blocks; a row
    paired with itself is no sampled pair, and counts once. `at_hand` tells that the rows stay from pass to pass.
    """

    onto: FloatMatrix
    share: float
    alpha_c: float
    diagonal: DiagonalRule
    at_hand: bool

    def of(self, sample: Sample) -> tuple[Tall, float, Column]:
        """P of a block, how many entries are kept, and how often one on the diagonal counts."""
        weights, nowhere = sample.engine_weights, np.zeros(len(self.onto))
        P = sample.engine.project(sample.X, 1.0, nowhere, self.onto.T / np.sqrt(self.share))
        on_diagonal = weights**2 - weights
        if self.diagonal == "keep":
            on_diagonal = on_diagonal + weights * self.share
        return P, max(1.0, np.floor(sample.size**2 / self.alpha_c)), not_negative(on_diagonal)

    def links(self, sample: Sample, affinity: PrunedAffinity, laplacian: FloatMatrix, degrees: Column) -> Links:
        """What a block says."""
        rows = RowDegrees(degrees, sample)
        if self.at_hand:
            return Links(laplacian, rows, affinity.cut, affinity)
        return Links(laplacian, DegreeSums(rows.gram, rows.total), affinity.cut * self.share)


def first_links(pruning: Pruning, graph: GraphOf, kernel: HeatKernel, sample: Sample) -> Links:
    """Laplacian of heat-kernel graph and intermediate affinity together, and the degrees of the graph alone."""
    heat = heat_affinity(graph(sample), kernel, sample)
    affinity, laplacian = pruned_beside(sample, *pruning.of(sample), heat)
    return pruning.links(sample, affinity, laplacian, heat.degrees())


def projected_factor(
    laplacian: FloatMatrix, bound: FloatMatrix, gram: FloatMatrix, n_columns: int, n: int, engine: Engine
) -> FloatMatrix:
    """Map of prepared rows onto the left singular vectors of their projection, P of the final affinity."""
    projection = whitened_eigenpairs(laplacian, bound, n_columns, eigh=engine.eigh).vectors
    return projection @ left_vector_map(projection.T @ gram @ projection, n_columns, n)


def final_links(pruning: Pruning, sample: Sample) -> Links:
    """Links of the final affinity."""
    affinity = pruned_affinity(sample, *pruning.of(sample))
    return pruning.links(sample, affinity, affinity.laplacian(sample.X), affinity.degrees())


class Counts(NamedTuple):
    """Of some blocks in a row: their sizes (copies counted), distinct rows in all, and X'X."""

    sizes: tuple[float, ...]
    n_distinct: int
    gram: FloatMatrix

    @classmethod
    def of(cls, sample: Sample) -> "Counts":
        """Count one block."""
        return cls((sample.size,), sample.n_rows, sample.gram())

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
    """Pass over the blocks once, for what everything else needs to know before: of every other block, and the rest."""
    return rows.totals([Job(half, Counts.of) for half in halves_of(rows.n_blocks)], lambda block: None)


def halves_of(n_blocks: int) -> list[range]:
    """Every other block and the rest; one block has no halves."""
    return [range(start, n_blocks, 2) for start in range(min(2, n_blocks))]


class Evidence(NamedTuple):
    """What a group of blocks says: their rows, and links of graph and intermediate affinity, and of the final one."""

    blocks: range
    counts: Counts
    first: Links
    final: Links


def adapt(
    rows: Blocks,
    settings: AdaptiveAffinity,
    n_clusters: int,
    n_iter: int,
    graph: GraphOf,
    counted: Sequence[Counts] | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Evidence]:
    """Learn the affinities of all blocks together, and where there are several, of either half of them beside.

    The halves share neighbours and intermediate affinity with the whole, so that they cost one more pass for their
    own final affinities.

    Parameters
    ----------
    rows : Blocks
        Prepared rows.
    settings : AdaptiveAffinity
        Settings.
    n_clusters, n_iter : int
        Number of clusters, and how often projection and final affinity are repeated.
    graph : callable
        Gives the neighbour graph of a block.
    counted : list of Counts, default=None
        What `counted_halves` found, where it is known.
    tell : callable, default=None
        Hears of blocks done.

    Returns
    -------
    list of Evidence
        Of all blocks, then of the halves.
    """
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
    work = partial(first_links, pruning(0, everything, left[:, :rank]), graph, resolve_heat(settings.heat))
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
        onto = projected_factor(laplacian, bounds[index], known.gram, n_columns, n, engine)
        return Job(blocks, partial(final_links, pruning(1, known, onto)))

    bounds = list(engine.each(bound, range(len(groups))))
    for _ in range(n_iter):
        final = totals(list(engine.each(job, range(len(groups)))), "final affinity")
    return [Evidence(*group, last) for group, last in zip(groups, final, strict=True)]
