"""The exact cut by counting on the workers: bins over all pairs, then the values inside the bin that holds it."""

from functools import partial
from typing import Any

import numpy as np

from adaam._typing import Column
from adaam.engines.cluster.columns import at_block, on_blocks
from adaam.engines.cluster.pairs import PairTask, RunningSum, all_pairs, block_bytes, pair_tasks, partners_at_once
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cluster.tallies import block_squares, counted_bins, counted_values, joined_bins, joined_values
from adaam.engines.cut import N_BINS, Tally

SAMPLED_ROWS = 2048  # rows whose pairs guess the first bracket
AROUND = (1.2, 0.83)  # of the wanted number of entries, at its ends
FEW_VALUES = 1 << 20  # magnitudes inside the first bracket that are kept without a look at bins
FEW_PAIRS = 1 << 20  # all magnitudes of so many pairs are kept at once


def exact_cut(P: ClusterRows, t: float, weights: Column, diagonal: Column, task_bytes: int, tile_rows: int) -> float:
    """Return the magnitude of the t-th largest entry of PP', or 0 where there are fewer than t non-zero ones.

    As on one machine (`engines.cut`): the bracket is narrowed until a pass can keep the values inside. What a task
    sends is a count for each of a fixed number of bins, or the values inside a bracket that holds few.
    """
    room = (64 + P.n_columns) * float(np.finfo(P.dtype).eps)
    squares = P.column(P.each("cut-squares", block_squares))
    floor, ceiling = 0.0, float(squares.max()) * (1.0 + room)
    low, high = floor, ceiling
    passes = Passes(P, weights, diagonal, task_bytes, tile_rows)
    by_values = len(P) ** 2 <= FEW_PAIRS
    if not by_values:
        share = t / max(passes.total(), 1.0)
        low, high = guess_bracket(P, share, floor, ceiling)
        by_values = high < ceiling and (AROUND[0] - AROUND[1]) * share * len(P) ** 2 / 2 < FEW_VALUES
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


class Passes:
    """Passes over all entries of PP', each counted for both directions."""

    def __init__(self, P: ClusterRows, weights: Column, diagonal: Column, task_bytes: int, tile_rows: int) -> None:
        self.P, self.tile_rows = P, tile_rows
        self.weights, self.diagonal = (on_blocks(column, P.sizes, P.workers) for column in (weights, diagonal))
        group = partners_at_once(block_bytes(P.n_columns, len(P), len(P.sizes)), task_bytes // 4)
        self.rounds = pair_tasks(len(P.sizes), group)

    def total(self) -> float:
        """Number of entries, counted with multiplicity."""
        if isinstance(self.weights, float):
            return (self.weights * len(self.P)) ** 2
        return float(self.weights.sum()) ** 2

    def values(self, low: float, high: float) -> Tally | None:
        """Count entries against [low, high], value by value; None when it holds too many distinct ones to keep."""
        return self._pass(partial(counted_values, low, high, self.tile_rows), joined_values)

    def bins(self, low: float, high: float) -> Tally:
        """Count entries against [low, high], by bins that are reported as their lower edges."""
        found = self._pass(partial(counted_bins, low, high, self.tile_rows), joined_bins)
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


def guess_bracket(P: ClusterRows, share: float, floor: float, ceiling: float) -> tuple[float, float]:
    """Bracket the cut by the magnitudes between a few rows, generously: a miss costs a pass, never exactness."""
    step = max(1, len(P) // SAMPLED_ROWS)
    rows = np.asarray(P[np.arange(0, len(P), step)[:SAMPLED_ROWS]])
    upper = np.abs(rows @ rows.T)[np.triu_indices(len(rows), k=1)]
    wanted = np.clip(1.0 - share * np.array(AROUND), 0.0, 1.0)
    low, high = np.quantile(upper, wanted)
    return (floor, ceiling) if share > 0.6 or not floor < low < high < ceiling else (float(low), float(high))
