"""What a fit costs on a cluster, told beforehand: blocks, tasks, bytes moved, memory of a worker."""

from dataclasses import dataclass

import numpy as np

from adaam.engines.cluster.workers import FOLD

PROCESS_BYTES = 350 << 20  # a worker with NumPy, SciPy, scikit-learn and numba loaded
ROW_STEPS = 15  # tasks that each block gets outside the passes: norms, sums, projections (counted at 6 and 8 blocks)


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Cost of a fit on a cluster.

    Parameters
    ----------
    n_workers, n_threads : int
        Workers, and threads of all of them.
    n_blocks, block_rows : int
        Row blocks, and rows of the largest.
    n_tasks : int
        Tasks of the whole fit, about.
    moved_bytes : int
        Bytes sent between workers, at most about.
    worker_bytes : int
        Memory of a worker, at most about.
    """

    n_workers: int
    n_threads: int
    n_blocks: int
    block_rows: int
    n_tasks: int
    moved_bytes: int
    worker_bytes: int

    def __str__(self) -> str:
        return "\n".join(
            [
                f"  cluster {self.n_workers} workers, {self.n_threads} threads; {self.n_blocks} blocks of "
                f"{self.block_rows} rows",
                f"          about {self.n_tasks} tasks, up to {self.moved_bytes / 1e9:.1f} GB moved and "
                f"{self.worker_bytes / 1e9:.1f} GB a worker",
            ]
        )


def cluster_plan(
    shape: tuple[int, int],
    n_clusters: int,
    n_workers: int,
    n_threads: int,
    task_bytes: int,
    block_rows: int | None,
    itemsize: int,
    row_blocks: tuple[int, int] | None,
) -> ClusterPlan:
    """Count what a fit does; `row_blocks` is their number and that of their rows where not all pairs are looked at.

    The number of features stands for that of kept components too, which is smaller.
    """
    from adaam.engines.cluster.pairs import block_bytes, pair_tasks, partners_at_once
    from adaam.engines.cluster.rows import planned_sizes

    n, d = shape
    sizes = planned_sizes(n, 8 * d, n_threads, task_bytes, block_rows)
    n_blocks, threads_each = len(sizes), n_threads / n_workers

    def told(n_tasks: float, moved: float, held: float) -> ClusterPlan:
        held += PROCESS_BYTES + 80.0 * d * d
        return ClusterPlan(n_workers, n_threads, n_blocks, max(sizes), int(n_tasks), int(moved), int(held))

    if row_blocks is not None:
        n_groups = min(row_blocks[0], n_blocks)
        dealt = row_blocks[1] * d * float(itemsize)
        held = (n * d * itemsize + 2 * dealt) / n_workers + threads_each * 2 * dealt / n_groups
        return told(ROW_STEPS * n_blocks + 5 * n_groups + n_blocks * n_groups, dealt, held)
    group = partners_at_once(d + n_clusters, n, n_blocks, task_bytes)
    pruned = [task for tasks in pair_tasks(n_blocks, group) for task in tasks]
    near = pair_tasks(n_blocks, group, growing=True)
    narrow = partners_at_once(n_clusters, n, n_blocks, task_bytes // 4)
    cut = len(pruned) + sum(map(len, pair_tasks(n_blocks, narrow)))  # a pass that counts, and one that adds up
    links = n_blocks * -(-n_blocks // (1 + group))
    n_tasks = ROW_STEPS * n_blocks + 2 * cut + links + sum(map(len, near)) + n_blocks * (len(near) - 1)
    # Four passes move rows: neighbours, X'HX and two pruned ones. A worker fetches each block once a pass at most.
    others = sum(len(task.others) for task in pruned)
    k = max(1, round(np.log2(max(n / n_clusters, 2))))
    moved = 4 * min(others * block_bytes(d, n, n_blocks), 8.0 * n * d * (n_workers - 1))
    held = n * d * (itemsize + 8.0) / n_workers + threads_each * 1.5 * task_bytes  # raw and prepared rows; tasks
    return told(n_tasks * (1 + 1 / FOLD), moved + 24.0 * n * k * len(near) * min(n_workers, 4), held)
