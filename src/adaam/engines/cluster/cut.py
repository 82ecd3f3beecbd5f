"""The exact cut by counting on the workers: bins over all pairs, then the values inside the bin that holds it."""

from functools import partial
from typing import Any

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import row_blocks
from adaam.engines.cluster.columns import at_block, on_blocks
from adaam.engines.cluster.pairs import PairTask, RunningSum, all_pairs, block_bytes, pair_tasks, partners_at_once
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cut import MAX_DISTINCT, N_BINS, Tally, merged

SAMPLED_ROWS = 2048  # rows whose pairs guess the first bracket
AROUND = (1.2, 0.83)  # of the wanted number of entries, at its ends
FEW_VALUES = 1 << 20  # magnitudes inside the first bracket that are kept without a look at bins
FEW_PAIRS = 1 << 20  # all magnitudes of so many pairs are kept at once

Block = tuple[FloatMatrix, Any, Any]  # P, weights and diagonal of the same rows


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
            return float(kept.values[kept.reaching(t)])
        else:
            # Half a bin more either way, so that rounding of the edges cannot push the answer out.
            step = (high - low) / N_BINS
            edge = float(tally.values[tally.reaching(t)])
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


def block_squares(P: FloatMatrix) -> FloatVector:
    """Diagonal entries of PP'."""
    return np.asarray(np.einsum("ij,ij->i", P, P))


def counted_values(
    low: float, high: float, tile_rows: int, own: Block, others: list[Block], with_own: bool
) -> Tally | None:
    """Count the entries of one block with others value by value; None where they are too many."""
    tallies = []
    for values, counts in magnitudes(low, tile_rows, own, others, with_own):
        inside = values <= high
        above, within = _split(counts, inside)
        tallies.append(Tally(above, values[inside], np.broadcast_to(within, (int(np.count_nonzero(inside)),))))
        if sum(len(part.values) for part in tallies) > MAX_DISTINCT:
            tallies = [merged(tallies)]
            if len(tallies[0].values) > MAX_DISTINCT // 2:
                return None
    return merged(tallies)


def counted_bins(low: float, high: float, tile_rows: int, own: Block, others: list[Block], with_own: bool) -> Tally:
    """Count the entries of one block with others by bins."""
    edges = np.linspace(low, high, N_BINS + 1)[:-1]
    above, counted = 0.0, np.zeros(N_BINS)
    steps = N_BINS / (high - low) if high > low else 0.0
    for values, counts in magnitudes(low, tile_rows, own, others, with_own):
        inside = values <= high
        beyond, within = _split(counts, inside)
        above += beyond
        bins = np.minimum(((values[inside] - low) * steps).astype(np.intp), N_BINS - 1)
        if isinstance(within, float):
            counted += within * np.bincount(bins, minlength=N_BINS)
        else:
            counted += np.bincount(bins, within, N_BINS)
    return Tally(above, edges, counted)


def _split(counts: Any, inside: FloatVector) -> tuple[float, Any]:
    """Total count of what is above a bracket, and the counts inside it: one for all, or one each."""
    if isinstance(counts, float):
        return counts * (len(inside) - np.count_nonzero(inside)), counts
    return float(counts[~inside].sum()), counts[inside]


def magnitudes(low: float, tile_rows: int, own: Block, others: list[Block], with_own: bool) -> Any:
    """Positive magnitudes >= low with how often each counts, tile by tile; the diagonal first where it is asked for."""
    P, weights, diagonal = own
    if with_own:
        squares = block_squares(P)
        counts = np.broadcast_to(np.asarray(diagonal, dtype=np.float64), squares.shape)
        taken = (squares >= low) & (counts > 0)
        yield squares[taken], counts[taken]
    for rows in row_blocks(len(P), tile_rows):
        for block in ([own] if with_own else []) + others:
            for columns in row_blocks(len(block[0]), tile_rows):
                if block is own and columns.start < rows.start:
                    continue
                tile = P[rows] @ block[0][columns].T
                if block is own and columns.start == rows.start:
                    tile = np.triu(tile, k=1)
                np.abs(tile, out=tile)
                found = np.flatnonzero(tile >= low) if low > 0 else np.flatnonzero(tile)
                yield tile.ravel()[found], _multiplicities(weights, block[1], rows, columns, found, tile.shape[1])


def _multiplicities(own: Any, other: Any, rows: slice, columns: slice, found: IntVector, width: int) -> Any:
    if isinstance(own, float):
        return 2.0 * own * own
    row, column = np.divmod(found, width)
    return np.asarray(2.0 * own[rows][row] * other[columns][column])


def joined_values(parts: list[Tally | None]) -> Tally | None:
    """Join tallies by value, unless they are too many."""
    whole = [part for part in parts if part is not None]
    if len(whole) < len(parts) or sum(len(part.values) for part in whole) > 4 * MAX_DISTINCT:
        return None
    joined = merged(whole)
    return None if len(joined.values) > MAX_DISTINCT else joined


def joined_bins(parts: list[Tally]) -> Tally:
    """Add up tallies of the same bins."""
    counts = np.sum([part.counts for part in parts], axis=0)
    return Tally(sum(part.above for part in parts), parts[0].values, counts)
