"""The exact cut by counting on the workers: values inside a guessed bracket; of very many rows, bins first."""

from functools import partial
from typing import Any

import numpy as np

from adaam._typing import Column
from adaam.engines.cluster.columns import at_block, on_blocks
from adaam.engines.cluster.guess import guessed_bracket, planned_guess
from adaam.engines.cluster.pairs import PairTask, RunningSum, all_pairs, block_bytes, pair_tasks, partners_at_once
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cluster.tallies import counted_bins, counted_values, joined_bins, joined_values, largest_square
from adaam.engines.cluster.task_kernels import TaskKernels
from adaam.engines.columns import total
from adaam.engines.cut import N_BINS, Tally

VALUE_ROWS = 1 << 16  # up to so many rows a guessed bracket holds few values, which are kept without a look at bins
FEW_PAIRS = 1 << 20  # all magnitudes of so many pairs are kept at once


def exact_cut(
    P: ClusterRows, t: float, weights: Column, diagonal: Column, task_bytes: int, kernels: TaskKernels
) -> float:
    """Return the magnitude of the t-th largest entry of PP', or 0 where there are fewer than t non-zero ones.

    As on one machine (`engines.cut`): the bracket is narrowed until a pass can keep the values inside. What a task
    sends is a count for each of a fixed number of bins, or the values inside a bracket that holds few.
    """
    room = (64 + P.n_columns) * float(np.finfo(P.dtype).eps)
    largest = max(P.workers.fetch(P.each("cut-squares", largest_square)))
    floor, ceiling = 0.0, float(largest) * (1.0 + room)
    low, high = floor, ceiling
    passes = Passes(P, weights, diagonal, task_bytes, kernels)
    if len(P) ** 2 > FEW_PAIRS:
        low, high = passes.guess(t)
    by_values = len(P) <= VALUE_ROWS
    while True:
        kept = passes.values(low, high) if by_values else None
        tally = passes.bins(low, high) if kept is None else kept
        by_values = False
        if tally.above >= t:
            low, high = float(np.nextafter(high, np.inf)), ceiling
            floor = low
        elif tally.above + tally.counts.sum() < t:
            if low <= floor:
                return 0.0
            low, high = floor, float(np.nextafter(low, -np.inf))
            ceiling = high
        elif kept is not None:
            return kept.reaching(t)
        else:
            # Half a bin more either way, so that rounding of the edges cannot push the answer out.
            step = (high - low) / N_BINS
            edge = tally.reaching(t)
            low, high = max(low, edge - step / 2), min(high, edge + 1.5 * step)
            floor, ceiling = low, high
            by_values = True


def n_entries(weights: Column, n_rows: int) -> float:
    """Number of entries of PP', counted with multiplicity; at least 1."""
    return max(total(weights, n_rows) ** 2, 1.0)


class Passes:
    """Passes over all entries of PP', each counted for both directions."""

    def __init__(
        self, P: ClusterRows, weights: Column, diagonal: Column, task_bytes: int, kernels: TaskKernels
    ) -> None:
        self.P, self.kernels = P, kernels
        self.weights, self.diagonal = (on_blocks(column, P.sizes, P.workers) for column in (weights, diagonal))
        group = partners_at_once(block_bytes(P.n_columns, len(P), len(P.sizes)), task_bytes // 4)
        self.rounds = pair_tasks(len(P.sizes), group)

    def guess(self, t: float) -> tuple[float, float]:
        """Bracket the cut by a sample."""
        guess = planned_guess(self.P.shape, t, n_entries(self.weights, len(self.P)))
        bracket = guessed_bracket(self.P, guess, self.weights, self.diagonal, self.kernels)
        found: tuple[float, float] = self.P.workers.fetch([bracket])[0]
        return found

    def values(self, low: float, high: float) -> Tally | None:
        """Count entries against [low, high], value by value; None when it holds too many distinct ones to keep."""
        return self._pass(partial(counted_values, low, high, self.kernels), joined_values)

    def bins(self, low: float, high: float) -> Tally:
        """Count entries against [low, high], by bins that are reported as their lower edges."""
        found = self._pass(partial(counted_bins, low, high, self.kernels), joined_bins)
        assert found is not None
        return found

    def _pass(self, work: Any, join: Any) -> Tally | None:
        workers = self.P.workers

        def block(index: int) -> list[Any]:
            return [self.P.parts[index], at_block(self.weights, index), at_block(self.diagonal, index)]

        def submit(task: PairTask) -> Any:
            return workers.call("cut", work, block(task.own), [block(j) for j in task.others], task.with_own)

        joined = RunningSum(workers, "cut-sum", join)
        for _, part in all_pairs(workers, "magnitude cut", self.rounds, submit):
            joined.add(part)
        found: Tally | None = workers.fetch([joined.result()])[0]
        return found
