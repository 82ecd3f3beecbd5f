"""Rows in blocks, each prepared when it is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector, Tall
from adaam.affinity.adaptive import Job
from adaam.engines import DaskEngine, Engine
from adaam.engines.columns import at, spread
from adaam.large.deal import Deal
from adaam.large.spread import SpreadBlocks, dealt_spread
from adaam.prepare import LinearMap
from adaam.progress import Teller
from adaam.rows import RowsError, RowSource, checked_blocks
from adaam.sample import Sample

# Prepared rows are kept between passes where all of them take no more than this; otherwise they are made again.
KEPT_BYTES = 1 << 29


@dataclass(frozen=True, slots=True)
class BlockedRows:
    """Raw rows, the order that lays them out block after block, and the map that prepares them.

    Equal rows are merged within a block and counted, as a fit on all pairs does with all rows.
    """

    X: Tall
    weights: Column  # of the rows of X
    order: IntVector | None  # row of X at each place of the deal; None where X is laid out so already
    deal: Deal
    prepared: LinearMap
    engine: Engine
    _kept: dict[int, Sample] = field(default_factory=dict, repr=False, compare=False)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.deal.n_blocks

    def sample(self, index: int) -> Sample:
        """Prepare the rows of one block."""
        if index in self._kept:
            return self._kept[index]
        places = self.deal.block(index)
        rows = places if self.order is None else self.order[places]
        X = self.X[rows]
        if isinstance(X, np.ndarray) and X.dtype.kind != "f":
            X = X.astype(np.float64)
        block, weights = self.engine.distinct(self.engine.asarray(X), at(self.weights, rows))
        sample = Sample(self.prepared.apply(block, self.engine), weights, self.engine)
        if 8 * self.deal.n_used * len(self.prepared.components) <= KEPT_BYTES:
            self._kept[index] = sample
        return sample

    def totals(self, jobs: Sequence[Job], tell: Callable[[int], None]) -> list[Any]:
        """Sum of what each job makes of its blocks; `tell` hears of each block done."""
        items = [(job, block) for job, given in enumerate(jobs) for block in given.blocks]
        found: list[Any] = [None] * len(jobs)

        def part(item: int) -> Any:
            job, block = items[item]
            return jobs[job].work(self.sample(block))

        for (job, block), made in zip(items, self.engine.each(part, range(len(items))), strict=True):
            found[job] = made if found[job] is None else found[job] + made
            tell(block)
        return found


# What learns the preparation, from rows and their weights.
Prepare: TypeAlias = Callable[[Tall, Column], LinearMap]


def dealt_array(X: Tall, weights: Column, deal: Deal, prepare: Prepare, engine: Engine) -> "BlockedRows | SpreadBlocks":
    """Deal rows in memory, or on a cluster, to blocks, and prepare those that take part; of weight zero none do."""
    everything = deal.n_used == deal.n_rows
    if everything and isinstance(engine, DaskEngine):
        return dealt_spread(X, weights, deal, prepare(X, weights), engine)
    counts = spread(engine.to_host(weights), X.shape[0])
    present, places = np.flatnonzero(counts), deal.places(np.arange(deal.n_rows))
    used = places < deal.n_used
    if isinstance(engine, DaskEngine):
        held = np.zeros(len(counts))
        held[present[used]] = counts[present[used]]
        return dealt_spread(X, weights, deal, prepare(X, held), engine)
    order = np.empty(deal.n_used, np.intp)
    order[places[used]] = present[used]
    if everything:
        return BlockedRows(X, weights, order, deal, prepare(X, weights), engine)
    taken, held = X[order], at(weights, order)
    return BlockedRows(taken, held, None, deal, prepare(taken, held), engine)


def taken_rows(
    source: RowSource, weights: FloatVector | None, deal: Deal, tell: Teller
) -> tuple[FloatMatrix, FloatVector | None]:
    """Read a source and keep the rows that take part, with their weights, in the order of the deal."""
    X = np.empty((deal.n_used, source.n_features), source.dtype)
    kept_weights = None if weights is None else np.ones(deal.n_used)
    n_seen = n_present = 0
    for _, block in checked_blocks(source):
        rows = np.arange(len(block)) if weights is None else np.flatnonzero(weights[n_seen : n_seen + len(block)])
        n_seen += len(block)
        if n_present + len(rows) > deal.n_rows:
            break
        places = deal.places(np.arange(n_present, n_present + len(rows)))
        used = places < deal.n_used
        X[places[used]] = block[rows[used]]
        if weights is not None and kept_weights is not None:
            kept_weights[places[used]] = weights[n_seen - len(block) + rows[used]]
        n_present += len(rows)
        tell(f"{source.label}: rows taken from {n_seen}")
    if n_present != deal.n_rows:
        raise RowsError(
            f"{source.label}: gave another number of rows at the second pass. A function of row blocks must return a "
            "new iterator over the same rows at each call, and a file must not change while it is read."
        )
    return X, kept_weights
