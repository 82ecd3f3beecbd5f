"""Row blocks on a cluster: rows are dealt to them by the workers, and a task works on several of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any

from adaam._typing import Column, Tall
from adaam.affinity.adaptive import Job
from adaam.engines import DaskEngine
from adaam.engines.columns import at
from adaam.large.deal import Deal
from adaam.prepare import LinearMap
from adaam.sample import Sample

if TYPE_CHECKING:
    from adaam.engines.cluster.pairs import TaskKernels


@dataclass(frozen=True, slots=True, eq=False)
class SpreadBlocks:
    """Blocks in groups, a group in one place; see `BlockedRows`."""

    groups: Any  # of raw rows, laid out block after block, and their weights
    first_blocks: tuple[int, ...]  # of each group, and the number of all blocks
    deal: Deal
    prepared: LinearMap
    engine: DaskEngine

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.deal.n_blocks

    def totals(self, jobs: Sequence[Job], tell: Callable[[int], None]) -> list[Any]:
        """Sum of what each job makes of its blocks; `tell` hears of each group done."""
        return [self._total(job, tell) for job in jobs]

    def _total(self, job: Job, tell: Callable[[int], None]) -> Any:
        wanted = sorted(job.blocks)
        shares = []
        for low, high in zip(self.first_blocks[:-1], self.first_blocks[1:], strict=True):
            start = self.deal.block(low).start
            mine = [self.deal.block(block) for block in wanted if low <= block < high]
            shares.append([slice(places.start - start, places.stop - start) for places in mine])
        found: Any = None
        kernels = self.engine.task_kernels(self.deal.n_rows)
        work = partial(group_sum, job.work, kernels)
        sums = self.engine.group_results(self.groups, work, shares, self.prepared)
        for last, part in zip(self.first_blocks[1:], sums, strict=True):
            if part is not None:
                found = part if found is None else found + part
                tell(last - 1)
        return found


def dealt_spread(X: Tall, weights: Column, deal: Deal, prepared: LinearMap, engine: DaskEngine) -> SpreadBlocks:
    """Deal rows on a cluster to blocks; those of weight zero take no part."""
    n_groups = min(deal.n_blocks, len(engine.asarray(X).sizes))
    first = tuple(group * deal.n_blocks // n_groups for group in range(n_groups + 1))
    edges = tuple(deal.block(block).start for block in first[:-1]) + (deal.n_used,)
    return SpreadBlocks(engine.dealt(X, weights, deal.places, edges), first, deal, prepared, engine)


def group_sum(
    work: Callable[[Sample], Any], kernels: "TaskKernels", group: Any, blocks: list[slice], prepared: LinearMap
) -> Any:
    """Sum over some blocks of a group, each prepared as on one machine; None where there are none."""
    X, weights = group
    host = kernels.engine(max((rows.stop - rows.start for rows in blocks), default=0))
    parts = []
    for rows in blocks:
        block, counts = host.distinct(X[rows], at(weights, rows))
        parts.append(work(Sample(prepared.apply(block, host), counts, host)))
    return reduce(add, parts) if parts else None
