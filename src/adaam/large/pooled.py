"""AdaAM from pairs within row blocks: small matrices added up over all blocks before each eigenproblem.

With one block this is the fit on all pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from adaam._typing import DiagonalRule, FloatMatrix, FloatVector
from adaam.affinity import AdaptiveAffinity, HeatKernel
from adaam.affinity.heat import resolve_heat
from adaam.large.blocked import BlockedRows
from adaam.large.links import Links, added, heat_links, pruned_links
from adaam.large.spread import SpreadBlocks
from adaam.large.stability import Stability, stability
from adaam.linalg import left_vector_map, smallest_eigenpairs, unit_columns, whitened_eigenpairs, whitening
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
    heat: Links
    intermediate: Links


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
    sizes, n_distinct, grams = np.zeros(rows.n_blocks), 0, []
    for half in halves_of(rows.n_blocks):
        counts: _Counts = rows.total(half, _counts, _silent)
        sizes[list(half)] = counts.sizes
        n_distinct += counts.n_distinct
        grams.append(counts.gram)
    return Counted(sizes, n_distinct, tuple(grams))


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
        n_blocks = self.rows.n_blocks
        everything = range(n_blocks)
        share = self.counted.share(everything)
        gram = np.asarray(sum(self.counted.grams))
        rank = max(1, round(self.settings.rank * self.n_clusters))
        onto = whitening(gram, self.counted.n_distinct, self.rows.engine.eigh)[:, :rank]

        parts = []
        for half, half_gram in zip(halves_of(n_blocks), self.counted.grams, strict=True):
            heat, intermediate = self._first_links(half, onto, share)
            parts.append(Evidence(half, half_gram, heat, intermediate))
        heat, intermediate = added(part.heat for part in parts), added(part.intermediate for part in parts)
        projection, final = self._projection(Evidence(everything, gram, heat, intermediate), n_components)

        firmness = None
        if n_blocks > 1:
            halves = [self._projection(part, n_components)[0].components for part in parts]
            smaller = min(self.counted.sizes[list(part.blocks)].sum() for part in parts)
            firmness = stability(projection.components, halves, gram, int(smaller))
        cuts = (intermediate.cut / n_blocks, final.cut / n_blocks)
        return Pooled(projection, gram / self.counted.sizes.sum(), cuts, firmness)

    def _first_links(self, blocks: range, onto: FloatMatrix, share: float) -> "FirstLinks":
        """Heat-kernel graph and intermediate affinity, in one pass."""
        kernel = resolve_heat(self.settings.heat)
        given = (self.n_neighbors, kernel, onto, share, self._alpha_c(0), self.settings.diagonal)
        found: FirstLinks = self.rows.total(
            blocks, partial(_first_links, *given), self._teller("neighbours and intermediate affinity")
        )
        return found

    def _projection(self, known: Evidence, n_components: int) -> tuple[Projection, Links]:
        """Projection and final affinity, as often as asked, then LPP on final affinity and heat-kernel degrees."""
        eigh, n = self.rows.engine.eigh, self.counted.n_distinct
        share = self.counted.share(known.blocks)
        n_columns = max(1, round(self.settings.projection_rank * self.n_clusters))
        bound = whitening(known.gram if self.settings.constraint == "gram" else known.heat.degrees, n, eigh)
        base = known.heat.laplacian + known.intermediate.laplacian
        final: Links | None = None
        for _ in range(self.n_iter):
            seen = base if final is None else base + final.laplacian
            projection = whitened_eigenpairs(seen, bound, n_columns, eigh=eigh).vectors
            turn = left_vector_map(projection.T @ known.gram @ projection, n_columns, n)
            final = self._final_links(known.blocks, projection @ turn, share)
        assert final is not None
        # Eigenvalues of the degree term alone are 1.
        degrees = known.heat.degrees + final.degrees
        pairs = smallest_eigenpairs(final.laplacian, degrees, n_components, n, scale=1.0, eigh=eigh)
        return Projection(np.ascontiguousarray(unit_columns(pairs.vectors).T), pairs.values), final

    def _final_links(self, blocks: range, onto: FloatMatrix, share: float) -> Links:
        given: dict[str, Any] = {
            "onto": onto,
            "share": share,
            "alpha_c": self._alpha_c(1),
            "diagonal": self.settings.diagonal,
        }
        found: Links = self.rows.total(blocks, partial(pruned_links, **given), self._teller("final affinity"))
        return found

    def _teller(self, what: str) -> Callable[[int], None]:
        return lambda block: self.tell(f"block {block + 1} of {self.rows.n_blocks}: {what}")

    def _alpha_c(self, stage: int) -> float:
        return self.settings.alphas[stage] * self.n_clusters


class FirstLinks(NamedTuple):
    """Links of the heat-kernel graph and of the intermediate affinity."""

    heat: Links
    intermediate: Links

    def __add__(self, other: "FirstLinks") -> "FirstLinks":  # type: ignore[override]
        return FirstLinks(self.heat + other.heat, self.intermediate + other.intermediate)


def _first_links(
    n_neighbors: int,
    kernel: HeatKernel,
    onto: FloatMatrix,
    share: float,
    alpha_c: float,
    diagonal: DiagonalRule,
    sample: Sample,
) -> FirstLinks:
    return FirstLinks(heat_links(sample, n_neighbors, kernel), pruned_links(sample, onto, share, alpha_c, diagonal))
