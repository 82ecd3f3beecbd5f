"""AdaAM from pairs within row blocks: small matrices added up over all blocks before each eigenproblem.

With one block this is the fit on all pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import NamedTuple

import numpy as np

from adaam._typing import FloatMatrix, FloatVector
from adaam.affinity import AdaptiveAffinity
from adaam.affinity.heat import resolve_heat
from adaam.large.blocked import BlockedRows
from adaam.large.job import Job
from adaam.large.links import Links, Pruning, final_links, first_links
from adaam.large.spread import SpreadBlocks
from adaam.large.stability import Stability, stability
from adaam.linalg import degree_eigenpairs, left_vector_map, unit_columns, whitened_eigenpairs, whitening
from adaam.progress import Teller
from adaam.projection import Projection
from adaam.sample import Sample


@dataclass(frozen=True, slots=True)
class Pooled:
    """A projection learned from row blocks, and what it rests on."""

    projection: Projection
    moments: FloatMatrix  # X'X over the number of rows
    cuts: tuple[float, float]
    stability: Stability | None  # None where there is one block only


class Counted(NamedTuple):
    """Size of each block (copies counted), distinct rows in all, and X'X of either half of the blocks."""

    sizes: FloatVector
    n_distinct: int
    grams: tuple[FloatMatrix, ...]

    def share(self, blocks: range) -> float:
        """Number of pairs within these blocks over the number of all pairs of their rows."""
        sizes = self.sizes[list(blocks)]
        return float((sizes**2).sum() / sizes.sum() ** 2)


class Evidence(NamedTuple):
    """What is known of a group of blocks before a projection is learned from it."""

    blocks: range
    gram: FloatMatrix
    first: Links


def halves_of(n_blocks: int) -> list[range]:
    """Every other block and the rest; one block has no halves."""
    return [range(start, n_blocks, 2) for start in range(min(2, n_blocks))]


class _Counts(NamedTuple):
    """Of some blocks in a row: their sizes, distinct rows in all, and X'X."""

    sizes: tuple[float, ...]
    n_distinct: int
    gram: FloatMatrix

    def __add__(self, other: "_Counts") -> "_Counts":  # type: ignore[override]
        return _Counts(self.sizes + other.sizes, self.n_distinct + other.n_distinct, self.gram + other.gram)


def counted_blocks(rows: "BlockedRows | SpreadBlocks") -> Counted:
    """Pass over the blocks once, for what everything else needs to know before."""
    halves = halves_of(rows.n_blocks)
    counts: list[_Counts] = rows.totals([Job(half, _counts) for half in halves], _silent)
    sizes = np.zeros(rows.n_blocks)
    for half, found in zip(halves, counts, strict=True):
        sizes[list(half)] = found.sizes
    return Counted(sizes, sum(found.n_distinct for found in counts), tuple(found.gram for found in counts))


def _counts(sample: Sample) -> _Counts:
    return _Counts((sample.size,), sample.n_rows, sample.gram())


def _silent(block: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class PooledFit:
    """The passes over the blocks: neighbours and intermediate affinity once, the final affinity for each projection."""

    rows: BlockedRows | SpreadBlocks
    counted: Counted
    n_clusters: int
    n_neighbors: int
    n_iter: int
    settings: AdaptiveAffinity
    tell: Teller

    def learned(self, n_components: int) -> Pooled:
        """Learn from all blocks, and from either half of them to see what the halves agree on.

        The halves take neighbours and intermediate affinity from the pass that all blocks share, so that they cost
        one more pass for their own final affinities.
        """
        n_blocks, engine = self.rows.n_blocks, self.rows.engine
        gram = np.asarray(sum(self.counted.grams))
        rank = max(1, round(self.settings.rank * self.n_clusters))
        onto = whitening(gram, self.counted.n_distinct, engine.eigh)[:, :rank]

        pruning = self._pruning(0, range(n_blocks), onto)
        work = partial(first_links, pruning, self.n_neighbors, resolve_heat(self.settings.heat))
        halves = halves_of(n_blocks)
        found = self._totals([Job(half, work) for half in halves], "neighbours and intermediate affinity")
        evidence = [Evidence(range(n_blocks), gram, reduce(add, found))]
        if n_blocks > 1:
            evidence += map(Evidence, halves, self.counted.grams, found)

        final = self._final_links(evidence)

        def projection(index: int) -> Projection:
            return self._projection(evidence[index], final[index], n_components)

        # Small eigenproblems run on one thread each: those of the halves have time beside that of the whole.
        learned, *parts = engine.each(projection, range(len(evidence)))
        firmness = None
        if parts:
            smaller = min(self.counted.sizes[list(half)].sum() for half in halves)
            firmness = stability(learned.components, [part.components for part in parts], gram, int(smaller))
        cuts = (evidence[0].first.cut / n_blocks, final[0].cut / n_blocks)
        return Pooled(learned, gram / self.counted.sizes.sum(), cuts, firmness)

    def _final_links(self, evidence: Sequence[Evidence]) -> list[Links]:
        """Projection and final affinity, as often as asked, for all groups of blocks in the same passes."""
        engine, n = self.rows.engine, self.counted.n_distinct
        n_columns = max(1, round(self.settings.projection_rank * self.n_clusters))
        final: list[Links] = []

        def job(index: int) -> Job:
            known = evidence[index]
            total = known.first.laplacian + final[index].laplacian if final else known.first.laplacian
            bound = known.gram if self.settings.constraint == "gram" else known.first.degrees
            projection = whitened_eigenpairs(total, whitening(bound, n, engine.eigh), n_columns, eigh=engine.eigh)
            turn = left_vector_map(projection.vectors.T @ known.gram @ projection.vectors, n_columns, n)
            return Job(known.blocks, partial(final_links, self._pruning(1, known.blocks, projection.vectors @ turn)))

        for _ in range(self.n_iter):
            final = self._totals(list(engine.each(job, range(len(evidence)))), "final affinity")
        return final

    def _projection(self, known: Evidence, final: Links, n_components: int) -> Projection:
        """LPP on final affinity and heat-kernel degrees."""
        eigh, n = self.rows.engine.eigh, self.counted.n_distinct
        degrees = known.first.degrees + final.degrees
        mean_degree = (known.first.total_degree + final.total_degree) / self.counted.sizes[list(known.blocks)].sum()
        pairs = degree_eigenpairs(final.laplacian, degrees, n_components, n, lambda: mean_degree * known.gram, eigh)
        return Projection(np.ascontiguousarray(unit_columns(pairs.vectors).T), pairs.values)

    def _pruning(self, stage: int, blocks: range, onto: FloatMatrix) -> Pruning:
        alpha_c = self.settings.alphas[stage] * self.n_clusters
        return Pruning(onto, self.counted.share(blocks), alpha_c, self.settings.diagonal)

    def _totals(self, jobs: list[Job], what: str) -> list[Links]:
        found: list[Links] = self.rows.totals(
            jobs, lambda block: self.tell(f"block {block + 1} of {self.rows.n_blocks}: {what}")
        )
        return found
