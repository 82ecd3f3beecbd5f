"""Estimated cost of a fit on a cluster: blocks, tasks, bytes moved, memory of a worker."""

import math
from dataclasses import dataclass

from adaam.engines.cluster.engine import DaskEngine
from adaam.engines.cluster.rows import planned_sizes
from adaam.engines.cluster.workers import TASK_BYTES, TASK_SHARE

PROCESS_BYTES = 350 << 20  # memory of a worker with NumPy, SciPy, scikit-learn and numba loaded
# Tasks, counted at 4 to 8 blocks: per block until rows are prepared, per block after that with all pairs, per group.
ROW_STEPS, PAIR_STEPS, GROUP_STEPS = 6, 6, 9


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Cost of a fit on a cluster.

    Parameters
    ----------
    n_workers, n_threads : int
        Number of workers, and of their threads in total.
    n_blocks, block_rows : int
        Number of row blocks, and of rows in the largest.
    n_tasks : int
        Approximate number of tasks of the whole fit.
    moved_bytes : int
        Bytes sent between workers, or to the client; an approximate upper limit.
    worker_bytes : int
        Memory of a worker; an approximate upper limit.
    """

    n_workers: int
    n_threads: int
    n_blocks: int
    block_rows: int
    n_tasks: int
    moved_bytes: int
    worker_bytes: int

    def __str__(self) -> str:
        return (
            f"  cluster {self.n_workers} workers, {self.n_threads} threads; {self.n_blocks} blocks of "
            f"{self.block_rows} rows\n          about {self.n_tasks} tasks, up to {self.moved_bytes / 1e9:.1f} GB "
            f"moved and {self.worker_bytes / 1e9:.1f} GB a worker"
        )


def cluster_plan(
    engine: DaskEngine,
    shape: tuple[int, int],
    workers: int | None,
    memory: float | None,
    itemsize: int,
    row_blocks: tuple[int, int] | None,
) -> ClusterPlan:
    """Estimate the cost of a fit on the engine's workers, or on `workers` workers of `memory` bytes each.

    `row_blocks` is the number of row blocks and of rows in all of them; None if all rows are gathered in this process.
    The number of features is also taken for that of kept components, which is smaller.
    """
    n, d = shape
    if workers is None:
        at = engine._workers()
        n_workers, n_threads, task_bytes = at.n_workers(), at.n_threads, at.task_bytes
    else:
        n_workers = n_threads = workers
        most = int(min(TASK_BYTES, (memory or math.inf) / TASK_SHARE))
        task_bytes = most if engine.task_bytes is None else engine.task_bytes
    sizes = planned_sizes(n, 8 * d, n_threads, task_bytes, engine.block_rows)
    n_blocks = len(sizes)
    raw, prepared, n_tasks = n * d * float(itemsize), 8.0 * n * d, ROW_STEPS * n_blocks
    if row_blocks is None:
        n_tasks += PAIR_STEPS * n_blocks
        moved, held = prepared, (raw + prepared) / n_workers
    else:
        n_groups, share = min(row_blocks[0], n_blocks), row_blocks[1] / n
        n_tasks += (n_blocks + GROUP_STEPS) * n_groups
        # Rows are shuffled raw and kept prepared; a task holds those of a group in both forms.
        moved, group = share * raw, share * (raw + prepared) / n_groups
        held = (raw + moved + share * prepared) / n_workers + group * n_threads / n_workers
    held += PROCESS_BYTES + 80.0 * d * d
    return ClusterPlan(n_workers, n_threads, n_blocks, max(sizes), n_tasks, int(moved), int(held))
