"""The exact cut by counting on the workers: values inside a guessed bracket; of very many rows, bins first."""

from functools import partial
from typing import Any

import numpy as np

from adaam._typing import Column, FloatMatrix, IntVector
from adaam.engines.cluster.columns import at_block, on_blocks, picked_parts
from adaam.engines.cluster.pairs import PairTask, RunningSum, all_pairs, block_bytes, pair_tasks, partners_at_once
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cluster.tallies import block_squares, counted_bins, counted_values, joined_bins, joined_values
from adaam.engines.cluster.task_kernels import TaskKernels
from adaam.engines.columns import spread
from adaam.engines.cut import N_BINS, Pairs, Tally, guess_bracket

GUESS_ROWS = 1 << 16  # rows among whose pairs the first bracket is guessed, at most
GUESS_BYTES, FEW_ROWS = 1 << 25, 2048  # bytes of these rows, unless they were few
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
    squares = P.column(P.each("cut-squares", block_squares))
    floor, ceiling = 0.0, float(squares.max()) * (1.0 + room)
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


class Passes:
    """Passes over all entries of PP', each counted for both directions."""

    def __init__(
        self, P: ClusterRows, weights: Column, diagonal: Column, task_bytes: int, kernels: TaskKernels
    ) -> None:
        self.P, self.kernels = P, kernels
        self.weights, self.diagonal = (on_blocks(column, P.sizes, P.workers) for column in (weights, diagonal))
        group = partners_at_once(block_bytes(P.n_columns, len(P), len(P.sizes)), task_bytes // 4)
        self.rounds = pair_tasks(len(P.sizes), group)

    def total(self) -> float:
        """Number of entries, counted with multiplicity."""
        if isinstance(self.weights, float):
            return (self.weights * len(self.P)) ** 2
        return float(self.weights.sum()) ** 2

    def guess(self, t: float) -> tuple[float, float]:
        """Bracket the cut from pairs of many rows, on a worker: a miss costs a pass, never exactness."""
        P = self.P
        n_guessed = min(len(P), GUESS_ROWS, max(FEW_ROWS, GUESS_BYTES // (8 * P.n_columns)))
        rows = np.sort(np.random.default_rng(0).permutation(len(P))[:n_guessed])
        parts, weights, diagonal = (self._chosen(value, rows) for value in (P, self.weights, self.diagonal))
        work = partial(guessed_bracket, t=t, total=np.sqrt(self.total()), kernels=self.kernels)
        low, high = P.workers.fetch([P.workers.call("cut-guess", work, parts, weights, diagonal)])[0]
        return low, high

    def values(self, low: float, high: float) -> Tally | None:
        """Count entries against [low, high], value by value; None when it holds too many distinct ones to keep."""
        return self._pass(partial(counted_values, low, high, self.kernels), joined_values)

    def bins(self, low: float, high: float) -> Tally:
        """Count entries against [low, high], by bins that are reported as their lower edges."""
        found = self._pass(partial(counted_bins, low, high, self.kernels), joined_bins)
        assert found is not None
        return found

    def _chosen(self, value: Any, rows: IntVector) -> list[Any]:
        """Some rows of the factor or of a column, in the blocks they are in."""
        n_parts = len(np.unique(np.searchsorted(np.cumsum(self.P.sizes), rows, side="right")))
        return [value] * n_parts if isinstance(value, float) else picked_parts(value, rows)

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


def guessed_bracket(
    parts: list[FloatMatrix], weights: list[Any], diagonal: list[Any], t: float, total: float, kernels: TaskKernels
) -> tuple[float, float]:
    """Bracket the cut from pairs of the given rows, which may be a part of all, of the total weight `total`."""
    P = np.concatenate(parts)
    held, own = (
        np.concatenate([spread(part, len(rows)) for part, rows in zip(column, parts, strict=True)])
        for column in (weights, diagonal)
    )
    share = float(held.sum()) / total
    pairs = Pairs(P, held, own * share, kernels.tile_rows, kernels.here())
    wanted = t * share * share
    if len(P) == kernels.n_rows:
        return guess_bracket(pairs, wanted)
    # Rows vary more than pairs do: what a row has above the cut is about as much as it varies, four times either way.
    room = min(0.5, 8.0 / np.sqrt(len(P)))
    return guess_bracket(pairs, wanted * (1.0 + room))[0], guess_bracket(pairs, wanted * (1.0 - room))[1]
