"""AdaAM's method on prepared rows, composed once: neighbour graph, adaptive affinity, projection.

A fit, the search for a metric, histogram and displays learn from all pairs, which are one block (`AllRows`); very many
rows come in blocks (`adaam.large`).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from adaam._typing import FloatMatrix
from adaam.affinity.adaptive import AdaptiveAffinity, Blocks, Counts, Evidence, GraphOf, adapt
from adaam.engines import Engine
from adaam.linalg import degree_eigenpairs, unit_columns
from adaam.projection import Projection


class MethodSettings(NamedTuple):
    """What the method is told beside the rows."""

    n_clusters: int
    n_components: int
    n_iter: int = 1
    affinity: AdaptiveAffinity = AdaptiveAffinity()


@dataclass(frozen=True, slots=True)
class LearnedMap:
    """A projection of prepared rows, what it rests on, and where there are several blocks, those of either half."""

    projection: Projection
    evidence: Evidence
    halves: tuple[Projection, ...] = ()

    @property
    def cuts(self) -> tuple[float, float]:
        """Smallest magnitude kept in the intermediate and in the final affinity, on average over blocks."""
        n_blocks = len(self.evidence.blocks)
        return self.evidence.first.cut / n_blocks, self.evidence.final.cut / n_blocks

    def moments(self) -> FloatMatrix:
        """X'X over the number of rows, copies counted."""
        return self.evidence.counts.gram / self.evidence.counts.size


def learn(
    rows: Blocks,
    settings: MethodSettings,
    graph: GraphOf,
    *,
    counted: Sequence[Counts] | None = None,
    phase: Callable[[str], AbstractContextManager[Any]] = nullcontext,
    tell: Callable[[str], None] = lambda text: None,
) -> LearnedMap:
    """Learn a linear map of prepared rows.

    Parameters
    ----------
    rows : Blocks
        Prepared rows: `AllRows`, or row blocks.
    settings : MethodSettings
        Settings.
    graph : callable
        Gives the neighbour graph of a block: found, or brought by the caller.
    counted : list of Counts, default=None
        What `counted_halves` found, where it is known.
    phase : callable, default=None
        Gives the context to run a named phase in.
    tell : callable, default=None
        Hears of row blocks done.
    """
    with phase("affinity"):
        found = adapt(rows, settings.affinity, settings.n_clusters, settings.n_iter, graph, counted, tell)
    with phase("projection"):

        def projection(index: int) -> Projection:
            return _projection(found[index], settings.n_components, found[0].counts.n_distinct, rows.engine)

        # Small eigenproblems run on one thread each: those of the halves have time beside that of the whole.
        learned, *halves = rows.engine.each(projection, range(len(found)))
    return LearnedMap(learned, found[0], tuple(halves))


def _projection(found: Evidence, n_components: int, n_distinct: int, engine: Engine) -> Projection:
    """LPP on final affinity and heat-kernel degrees, as `adaam.projection.lpp` has it."""
    degrees, counts = found.first.degrees + found.final.degrees, found.counts

    def even() -> FloatMatrix:
        return np.asarray(degrees.total / counts.size * counts.gram)

    pairs = degree_eigenpairs(found.final.laplacian, degrees.gram, n_components, n_distinct, even, engine.eigh)
    return Projection(np.ascontiguousarray(unit_columns(pairs.vectors).T), pairs.values)
