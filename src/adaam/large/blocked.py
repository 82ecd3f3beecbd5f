"""Row blocks in memory, prepared on demand, and on a cluster, prepared once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector, Tall
from adaam.affinity.adaptive import Job
from adaam.engines import CPUEngine, DaskEngine, Engine
from adaam.engines.blocks import at, spread
from adaam.engines.cluster.rows import dealt
from adaam.engines.cluster.workers import Workers, task_engine
from adaam.engines.compiled import chosen_kernels
from adaam.large.row_blocks import Deal
from adaam.prepare import LinearMap, Preparation, Sample, fit_preparation, working_type
from adaam.progress import Teller
from adaam.rows import RowsError, RowSource, checked_blocks

# Prepared rows are cached between passes if all of them take no more than this; otherwise they are prepared again.
KEPT_BYTES = 1 << 29


@dataclass(frozen=True, slots=True, eq=False)
class SpreadBlocks:
    """Blocks in groups on the workers of a cluster, prepared once; see `BlockedRows`."""

    groups: Sequence[Any]  # of consecutive blocks: each a list of samples, on a worker
    first_blocks: IntVector  # first block of each group, then the number of all blocks
    deal: Deal
    prepared: LinearMap
    engine: DaskEngine
    workers: Workers

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.deal.n_blocks

    def totals(self, jobs: Sequence[Job], tell: Callable[[int], None]) -> list[Any]:
        """Sum of the results of each job on its blocks; `tell` is called after each group."""
        calls, places = [], []
        kernels, n_rows = self.engine.kernels, self.deal.n_used
        for place, job in enumerate(jobs):
            for group, (first, end) in zip(self.groups, pairwise(self.first_blocks), strict=True):
                blocks = [block for block in job.blocks if first <= block < end]
                if blocks:
                    calls.append((group_sum, job.work, kernels, n_rows, group, np.array(blocks) - first))
                    places.append((place, blocks[-1]))
        return added_up(len(jobs), places, self.workers.in_turn("row-blocks", calls), tell)


def dealt_spread(X: Tall, weights: Column, deal: Deal, prepared: LinearMap, engine: DaskEngine) -> SpreadBlocks:
    """Shuffle rows on a cluster into blocks; rows of weight zero are left out."""
    rows = engine.asarray(X)
    n_groups, workers = min(deal.n_blocks, len(rows.sizes)), rows.workers
    first = np.arange(n_groups + 1) * deal.n_blocks // n_groups
    starts = np.array([*(deal.block(block).start for block in range(deal.n_blocks)), deal.n_used])
    groups = dealt(rows, weights, deal.places, tuple(starts[first]))
    shared = workers.share("preparation", prepared)
    samples = []
    for group, (low, high) in zip(groups, pairwise(first), strict=True):
        sizes = np.diff(starts[low : high + 1])
        samples.append(workers.call("prepare", prepared_blocks, engine.kernels, deal.n_used, group, sizes, shared))
    return SpreadBlocks(samples, first, deal, prepared, engine, workers)


def prepared_blocks(
    kernels: str, n_rows: int, group: tuple[Tall, Column], sizes: IntVector, prepared: LinearMap
) -> list[Sample]:
    """Split a group into consecutive blocks of the given sizes, each prepared as on one machine."""
    X, weights = group
    host = task_engine(kernels, n_rows, int(max(sizes)))
    samples = []
    for start, stop in pairwise([0, *np.cumsum(sizes)]):
        rows, counts = host.distinct(X[start:stop], at(weights, slice(start, stop)))
        samples.append(Sample(prepared.apply(rows, host), counts, host))
    return samples


def group_sum(work: Callable[[Sample], Any], kernels: str, n_rows: int, group: list[Sample], blocks: IntVector) -> Any:
    """Sum of `work` on some blocks of a group, which another worker, with other kernels, may have prepared."""
    host = task_engine(kernels, n_rows, max(sample.n_rows for sample in group))
    samples = [sample if sample.engine == host else replace(sample, engine=host) for sample in group]
    return reduce(add, [work(samples[block]) for block in blocks])


@dataclass(frozen=True, slots=True)
class BlockedRows:
    """Raw rows, their order block after block, and the map that prepares them.

    Equal rows within a block are merged and counted, as all rows are in a fit on all pairs.
    """

    X: Tall
    weights: Column  # of the rows of X
    order: IntVector | None  # row of X at each place of the shuffle; None if X is in that order already
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
        if isinstance(X, np.ndarray):
            X = X.astype(working_type(X), copy=False)
        block, weights = self.engine.distinct(self.engine.asarray(X), at(self.weights, rows))
        sample = Sample(self.prepared.apply(block, self.engine), weights, self.engine)
        if 8 * self.deal.n_used * len(self.prepared.components) <= KEPT_BYTES:
            self._kept[index] = sample
        return sample

    def totals(self, jobs: Sequence[Job], tell: Callable[[int], None]) -> list[Any]:
        """Sum of the results of each job on its blocks; `tell` is called after each block."""
        items = [(job, block) for job, given in enumerate(jobs) for block in given.blocks]

        def part(item: int) -> Any:
            job, block = items[item]
            return jobs[job].work(self.sample(block))

        return added_up(len(jobs), items, self.engine.each(part, range(len(items))), tell)


def added_up(
    n_jobs: int, places: Sequence[tuple[int, int]], parts: Iterable[Any], tell: Callable[[int], None]
) -> list[Any]:
    """Sum of the parts of each job, as they arrive; `places` has the job and the last block of each part."""
    found: list[Any] = [None] * n_jobs
    for (job, last), part in zip(places, parts, strict=True):
        found[job] = part if found[job] is None else found[job] + part
        tell(last)
    return found


def engine_of_blocks(engine: Engine, deal: Deal) -> Engine:
    """Return the engine with kernels chosen by the rows of all blocks: once imported, numba is faster for one too."""
    if isinstance(engine, CPUEngine):
        return replace(engine, kernels=chosen_kernels(engine.kernels, deal.n_used))
    return engine


def dealt_array(
    X: Tall, weights: Column, deal: Deal, preparation: Preparation, engine: Engine
) -> BlockedRows | SpreadBlocks:
    """Assign rows in memory or on a cluster to blocks, and fit their preparation; rows of weight zero are left out."""
    engine = engine_of_blocks(engine, deal)
    everything = deal.n_used == deal.n_rows
    if everything and isinstance(engine, DaskEngine):
        return dealt_spread(X, weights, deal, fit_preparation(X, weights, preparation, engine), engine)
    counts = spread(engine.to_host(weights), X.shape[0])
    present, places = np.flatnonzero(counts), deal.places(np.arange(deal.n_rows))
    used = places < deal.n_used
    order: Any = np.empty(deal.n_used, np.intp)
    order[places[used]] = present[used]
    if isinstance(engine, DaskEngine):
        held = np.zeros(len(counts))
        held[order] = counts[order]
        return dealt_spread(X, weights, deal, fit_preparation(X, held, preparation, engine), engine)
    if not everything:
        X, weights, order = X[order], at(weights, order), None
    return BlockedRows(X, weights, order, deal, fit_preparation(X, weights, preparation, engine), engine)


def taken_rows(
    source: RowSource, weights: FloatVector | None, deal: Deal, tell: Teller
) -> tuple[FloatMatrix, FloatVector | None]:
    """Read a source and keep the rows that take part, with their weights, in the order of the shuffle."""
    X, held = np.empty((deal.n_used, source.n_features), source.dtype), np.empty(deal.n_used)
    n_present = 0
    for start, block in checked_blocks(source):
        counts = np.ones(len(block)) if weights is None else weights[start : start + len(block)]
        rows = np.flatnonzero(counts)
        if n_present + len(rows) > deal.n_rows:
            break
        places = deal.places(np.arange(n_present, n_present + len(rows)))
        used = places < deal.n_used
        X[places[used]], held[places[used]] = block[rows[used]], counts[rows[used]]
        n_present += len(rows)
        tell(f"{source.label}: rows taken from {start + len(block)}")
    if n_present != deal.n_rows:
        raise RowsError(
            f"{source.label}: gave another number of rows at the second pass. A function of row blocks must return a "
            "new iterator over the same rows at each call, and a file must not change while it is read."
        )
    return X, None if weights is None else held
