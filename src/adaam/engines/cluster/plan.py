"""What a fit costs on a cluster, told beforehand: blocks, tasks, bytes moved, memory of a worker."""

from dataclasses import dataclass

import numpy as np

PROCESS_BYTES = 350 << 20  # a worker with NumPy, SciPy, scikit-learn and numba loaded
ROW_STEPS = 23  # tasks that each block gets outside the passes: norms, sums, projections, columns (counted at 8 blocks)


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
    from adaam.engines.cluster.neighbors import found_bytes
    from adaam.engines.cluster.pruned import lists_little, sums_bytes
    from adaam.engines.cluster.tasks import FOLD, WHOLE_BYTES, block_bytes, pair_tasks, partners_at_once, planned_sizes
    from adaam.engines.compiled import MANY_ROWS

    n, d = shape
    sizes = planned_sizes(n, 8 * d, n_threads, task_bytes, block_rows)
    n_blocks = len(sizes)
    rows_bytes = n * d * (itemsize + 8.0)  # raw and prepared
    held = rows_bytes / n_workers + n_threads / n_workers * 1.5 * task_bytes + PROCESS_BYTES + 80.0 * d * d
    if row_blocks is not None:
        n_groups = min(row_blocks[0], n_blocks)
        dealt = row_blocks[1] * d * float(itemsize)
        n_tasks = 20 * n_blocks + 8 * n_groups + (n_blocks * n_groups if dealt > WHOLE_BYTES else 0)
        worker = n * d * itemsize / n_workers + 2 * dealt / n_workers + n_threads / n_workers * 2 * dealt / n_groups
        return ClusterPlan(
            n_workers, n_threads, n_blocks, max(sizes), n_tasks, int(dealt), int(worker + PROCESS_BYTES + 80.0 * d * d)
        )
    group = partners_at_once(d + n_clusters, n, n_blocks, task_bytes)
    pruned = [task for tasks in pair_tasks(n_blocks, group) for task in tasks]
    near = pair_tasks(n_blocks, group, growing=True)
    entries = n * n / (2.5 * n_clusters)
    one_pass = n >= MANY_ROWS and lists_little((n, n_clusters), entries, 1.0, 8.0 * n * d)
    narrow = partners_at_once(n_clusters, n, n_blocks, task_bytes // 4)
    # With one pass what was found is counted by bins and by values, and completed; else two cuts of one pass each.
    cut = 6 * len(pruned) if one_pass else 2 * sum(map(len, pair_tasks(n_blocks, narrow)))
    others = sum(len(task.others) for task in pruned)
    k = max(1, round(np.log2(max(n / n_clusters, 2))))
    sends = n_blocks * n_blocks * ((40 * n * k > WHOLE_BYTES) + (16 * n * k > WHOLE_BYTES))
    picks = 2 * (others + 2 * len(pruned)) * (sums_bytes(len(pruned), d, group, max(sizes)) > WHOLE_BYTES)
    found_picks = (others + len(pruned)) * (found_bytes(n, k + 2) > WHOLE_BYTES)
    n_tasks = (
        ROW_STEPS * n_blocks
        + 2 * (len(pruned) + n_blocks + (others + 2 * len(pruned)) // FOLD)  # two pruned passes, their sums
        + cut
        + len(pruned)  # X'HX
        + sum(map(len, near))
        + n_blocks * (len(near) - 1)  # neighbours put together after each round
        + picks
        + found_picks
        + sends
    )
    # Four passes move rows: neighbours, X'HX and two pruned ones. A worker fetches each block once a pass at most.
    passes = 4 * min(others * block_bytes(d, n, n_blocks), 8.0 * n * d * (n_workers - 1))
    moved = passes + (60.0 + 16.0 * (len(near) - 1)) * n * k * min(n_workers, 4)
    if one_pass:
        held += 4.0 * n * d * len(pair_tasks(n_blocks, group)) / n_workers  # products that wait for the cut
    return ClusterPlan(n_workers, n_threads, n_blocks, max(sizes), int(n_tasks), int(moved), int(held))
