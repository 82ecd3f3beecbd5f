"""Cut and pruned Gram matrix from one pass over block pairs, as on one machine (`engines.one_pass`).

A bracket of the cut is guessed. Tasks add what lies above it and list the few entries inside; these stay where they
were found, and what is sent of them is counts: in bins of the bracket, then the few values inside one bin. From the
guess to the last sum no step waits for the client.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from adaam._typing import Column, FloatMatrix
from adaam.engines.cluster.columns import ClusterColumn, at_block, on_blocks
from adaam.engines.cluster.cut import FEW_PAIRS, n_entries
from adaam.engines.cluster.guess import Guess, guessed_bracket, planned_guess
from adaam.engines.cluster.pairs import PairTask, all_pairs
from adaam.engines.cluster.pruned import Block, PrunedPairs
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cluster.tallies import block_squares, inside, joined_bins
from adaam.engines.cluster.task_kernels import TaskKernels
from adaam.engines.cluster.workers import Future
from adaam.engines.columns import spread
from adaam.engines.cut import MAX_DISTINCT, N_BINS, Tally, joined, merged
from adaam.engines.kernels.strips import Survivors, completed, surviving_strips
from adaam.engines.protocol import kept_from

LISTED_BYTES = 16  # of an entry inside the bracket
LISTED_SHARE = 0.5  # of the bytes of rows, which these may take
MAX_LISTED = 1 << 21  # of them in a task, also where many are equal


class Passed(NamedTuple):
    """What a task found: sums of what lies above the bracket and entries inside it; diagonal entries beside them."""

    found: Survivors
    diagonal: Tally

    def tally(self, weights: list[Any]) -> Tally:
        """Count the entries, those of PP' for both their directions."""
        values, counts = [self.diagonal.values], [self.diagonal.counts]
        for index, (row, column, entries) in enumerate(self.found.listed):
            own, other = weights[0], weights[index]
            each = own * own if isinstance(own, float) else own[row] * other[column]
            values.append(np.abs(entries))
            counts.append(np.broadcast_to(2.0 * each, len(entries)))
        return Tally(self.found.above + self.diagonal.above, np.concatenate(values), np.concatenate(counts))


def cut_gram(
    P: ClusterRows,
    t: float,
    X: ClusterRows,
    weights: Column,
    diagonal: Column,
    task_bytes: int,
    kernels: TaskKernels,
) -> tuple[float, FloatMatrix, ClusterColumn] | None:
    """Cut for t entries, X'WSWX and WSw; None where two passes are called for, or the guess of the bracket missed."""
    if kernels.choice == "numpy" or not P.dtype == X.dtype == np.float64:
        return None
    pairs, workers = PrunedPairs(P, X, weights, task_bytes), P.workers
    guess = planned_guess(P.shape, t, n_entries(pairs.weights, len(P)))
    if not is_short(guess, len(P), t, X.nbytes):
        return None
    own = on_blocks(diagonal, P.sizes, workers)
    bracket = guessed_bracket(P, guess, pairs.weights, own, kernels)
    counts: list[Future] = []

    def submit(task: PairTask) -> Future:
        given = (pairs.blocks(task), at_block(own, task.own), task.with_own, bracket)
        part = workers.call("cut-gram", partial(passed_part, kernels), *given)
        # Right behind the pass itself, so that a worker counts what it has just found.
        counts.append(workers.call("cut-count", counted_bins, part, pairs.weights_of(task), bracket))
        return part

    done = list(all_pairs(workers, "pruned pairs", pairs.rounds, submit))
    bin_edges = workers.call("cut-bin", reached_bin, counts, bracket, t)
    values = [workers.call("cut-values", few_values, part, pairs.weights_of(task), bin_edges) for task, part in done]
    cut = workers.call("cut", reached_value, values, bracket, t)
    work = partial(completed_part, kernels)
    parts = [(task, workers.call("pruned-gram", work, part, pairs.blocks(task), cut)) for task, part in done]
    gram, degrees = pairs.added(parts)
    found, half = workers.fetch([cut, gram])
    return None if found is None else (found, half + half.T, degrees)


def is_short(guess: Guess, n_rows: int, t: float, rows_bytes: float) -> bool:
    """Whether the list of entries inside a bracket takes little memory beside the rows, which are not very few."""
    return n_rows**2 > FEW_PAIRS and LISTED_BYTES * guess.room * t <= LISTED_SHARE * rows_bytes


def passed_part(
    kernels: TaskKernels, blocks: list[Block], diagonal: Any, with_own: bool, bracket: tuple[float, float]
) -> Passed | None:
    """Pass over the entries of one block with others, and with itself where it is asked for.

    None where too many lie inside the bracket, or on a worker without numba.
    """
    compiled = kernels.here()
    if compiled is None:
        return None
    low, high = widened(bracket)
    found = surviving_strips((low, high), blocks, with_own, kernels.narrow, compiled, MAX_LISTED)
    if found is None:
        return None
    squares = block_squares(blocks[0][0])
    entries = Tally(0.0, squares, spread(diagonal if with_own else 0.0, len(squares)))
    return Passed(found._replace(product=found.product.astype(kernels.narrow, copy=False)), inside(entries, low, high))


def widened(bracket: tuple[float, float]) -> tuple[float, float]:
    """Bracket that holds what is kept with a cut at its lower end, which begins a hair below it."""
    return bracket[0] * (1.0 - 64 * float(np.finfo(np.float64).eps)), bracket[1]


def counted_bins(part: Passed | None, weights: list[Any], bracket: tuple[float, float]) -> Tally | None:
    """Count what a task found by bins of the bracket."""
    if part is None:
        return None
    low, high = widened(bracket)
    tally = part.tally(weights)
    steps = N_BINS / (high - low) if high > low else 0.0
    bins = np.minimum(((tally.values - low) * steps).astype(np.intp), N_BINS - 1)
    edges = np.linspace(low, high, N_BINS + 1)[:-1]
    return Tally(tally.above, edges, np.bincount(bins, tally.counts, N_BINS))


def reached_bin(parts: list[Tally | None], bracket: tuple[float, float], t: float) -> tuple[float, float] | None:
    """Ends of a short bracket around the bin that the cut lies in; None where it is in none of them."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    tally = joined_bins(known)
    if tally.above >= t or tally.above + tally.counts.sum() < t:
        return None
    low, high = widened(bracket)
    edge, step = tally.reaching(t), (high - low) / N_BINS
    # Half a bin more either way, so that rounding of the edges cannot push the answer out.
    return max(low, edge - step / 2), min(high, edge + 1.5 * step)


def few_values(part: Passed | None, weights: list[Any], ends: tuple[float, float] | None) -> Tally | None:
    """Count what a task found value by value inside a short bracket."""
    return None if part is None or ends is None else merged([inside(part.tally(weights), *ends)])


def reached_value(parts: list[Tally | None], bracket: tuple[float, float], t: float) -> float | None:
    """Return the cut, read off the values of all tasks; None where they do not tell it."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or sum(len(part.values) for part in known) > MAX_DISTINCT:
        return None
    tally = joined(known)
    if tally.above >= t or tally.above + tally.counts.sum() < t:
        return None
    cut = tally.reaching(t)
    return None if kept_from(cut, np.float64) < widened(bracket)[0] else cut


def completed_part(
    kernels: TaskKernels, part: Passed | None, blocks: list[Block], cut: float | None
) -> tuple[FloatMatrix, ...]:
    """Half of the Gram matrix and the row sums with the listed entries that the cut keeps; zeros without one."""
    if part is None or cut is None:
        n_columns = blocks[0][1].shape[1]
        return np.zeros((n_columns, n_columns)), *(np.zeros(len(P)) for P, _, _ in blocks)
    gram, sums = completed(part.found, kept_from(cut, np.float64), blocks, kernels.here())
    return gram, *sums
