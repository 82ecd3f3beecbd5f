"""Passes over PP' by tasks: the cut, and X'WSWX with the row sums of what it keeps.

A task takes the rows of one block against those of some others, and runs the loops of `engines.pruned` on them. What
travels is small: tallies, Gram matrices, one number a row.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector
from adaam.engines.cluster.rows import ClusterColumn, ClusterRows, at_block, on_blocks
from adaam.engines.cluster.tasks import (
    WHOLE_BYTES,
    PairTask,
    RunningSum,
    TaskKernels,
    all_pairs,
    pair_tasks,
    partners_at_once,
    piece,
)
from adaam.engines.cluster.workers import Future
from adaam.engines.columns import spread, total
from adaam.engines.pruned.cut import Bracket, Tally, counted, exact_cut, guess_bracket, kept_from, merged, rounding_room
from adaam.engines.pruned.tiles import PairBlock, PrunedSums, pruned_sums, tile_tallies

FEW_PAIRS = 1 << 20  # all magnitudes of so many pairs are counted at once
GUESS_ROWS = 1 << 17  # rows that the client samples pairs of, at most
GUESS_BYTES, FEW_ROWS = 1 << 25, 2048  # bytes of these rows, unless they were few
LISTED_BYTES = 16  # of an entry inside the bracket
LISTED_SHARE = 0.5  # of the bytes of rows, which these may take
MAX_LISTED = 1 << 21  # of them in a task

FactorBlock: TypeAlias = tuple[FloatMatrix, FloatMatrix | None, Any]  # P, X and weights of the same rows
Sums: TypeAlias = tuple[FloatMatrix, ...]  # half of X'WSWX, then Sw of each block


class PairPass:
    """Tasks that see each pair of blocks once, what each of them is given, and the sums of what they return."""

    def __init__(self, P: ClusterRows, X: ClusterRows | None, weights: Column, task_bytes: int) -> None:
        self.P, self.X, self.workers = P, X, P.workers
        self.weights = on_blocks(weights, P.sizes, P.workers)
        n_numbers = P.n_columns + (0 if X is None else X.n_columns)
        self.group = partners_at_once(n_numbers, len(P), len(P.sizes), task_bytes)
        self.rounds = pair_tasks(len(P.sizes), self.group)

    def blocks(self, task: PairTask) -> list[Any]:
        """P, X and weights of the blocks of a task, its own first."""
        return [
            [self.P.parts[j], None if self.X is None else self.X.parts[j], at_block(self.weights, j)]
            for j in task.blocks
        ]

    def added(self, parts: Iterable[tuple[PairTask, Future]]) -> tuple[FloatMatrix, ClusterColumn]:
        """X'WSWX here, and WSw on the workers, from the sums of all tasks."""
        assert self.X is not None
        gram = RunningSum(self.workers, "pruned-gram-sum")
        sums = [RunningSum(self.workers, "row-sums") for _ in self.P.sizes]
        n_bytes = sums_bytes(sum(map(len, self.rounds)), self.X.n_columns, self.group, max(self.P.sizes))
        for task, part in parts:
            gram.add(piece(self.workers, "pruned-gram-part", part, 0, n_bytes <= WHOLE_BYTES))
            for place, index in enumerate(task.blocks):
                sums[index].add(piece(self.workers, "row-sums-part", part, 1 + place, n_bytes <= WHOLE_BYTES))
        degrees = ClusterColumn(tuple(one.result() for one in sums), self.P.sizes, self.workers)
        half = self.workers.fetch([gram.result()])[0]
        return half + half.T, degrees * self.weights


def sums_bytes(n_tasks: int, n_columns: int, group: int, block_rows: int) -> float:
    """Bytes of what all tasks of a pass return."""
    return 8.0 * n_tasks * (n_columns**2 + (1 + group) * block_rows)


def pruned_gram(
    P: ClusterRows, threshold: float, X: ClusterRows, weights: Column, task_bytes: int, kernels: TaskKernels
) -> tuple[FloatMatrix, ClusterColumn]:
    """X'WSWX and WSw over the off-diagonal entries of PP' of magnitude at least `threshold`."""
    pairs = PairPass(P, X, weights, task_bytes)

    def submit(task: PairTask) -> Future:
        given = (pairs.blocks(task), task.with_own)
        return pairs.workers.call("pruned-gram", partial(pruned_part, threshold, kernels), *given)

    return pairs.added(all_pairs(pairs.workers, "pruned pairs", pairs.rounds, submit))


class ClusterEntries:
    """All entries of PP', counted by tasks: `engines.pruned.cut.Entries` of a cluster."""

    def __init__(
        self, P: ClusterRows, weights: Column, diagonal: Column, task_bytes: int, kernels: TaskKernels
    ) -> None:
        self.pairs = PairPass(P, None, weights, task_bytes // 4)
        self.P, self.workers, self.kernels = P, P.workers, kernels
        self.diagonal = on_blocks(diagonal, P.sizes, P.workers)
        self.dtype = P.dtype

    def largest(self) -> float:
        """Magnitude that no entry exceeds."""
        return float(max(self.workers.fetch(self.P.each("cut-squares", largest_square))))

    def guess(self, t: float) -> Bracket:
        """Bracket the t-th largest entry by a sample of rows, on the client."""
        n, weights = len(self.P), self.pairs.weights
        if n**2 <= FEW_PAIRS:
            return Bracket(0.0, self.largest())
        n_rows = n_guessed(self.P.shape)
        rows = np.sort(np.random.default_rng(0).permutation(n)[:n_rows])
        P = np.asarray(self.P if n_rows == n else self.P[rows])
        held, own = (spread(c if isinstance(c, float) else c[rows], n_rows) for c in (weights, self.diagonal))
        part = n_rows / n
        return guess_bracket(P, t * part**2, held, own * part, row_room(n_rows, n))

    def tally(self, bracket: Bracket) -> Tally:
        """Count all entries against a bracket."""
        joined = RunningSum(self.workers, "cut-sum", partial(joined_tallies, bracket))

        def submit(task: PairTask) -> Future:
            given = (self.pairs.blocks(task), at_block(self.diagonal, task.own), task.with_own)
            return self.workers.call("cut", partial(counted_part, bracket, self.kernels), *given)

        for _, part in all_pairs(self.workers, "magnitude cut", self.pairs.rounds, submit):
            joined.add(part)
        found: Tally = self.workers.fetch([joined.result()])[0]
        return found


def n_guessed(shape: tuple[int, int]) -> int:
    """Rows that pairs are sampled of."""
    return min(shape[0], GUESS_ROWS, max(FEW_ROWS, GUESS_BYTES // (8 * shape[1])))


def row_room(n_rows: int, n: int) -> float:
    """Error of a count that comes from a sample of rows, which vary about as much as entries above the cut do."""
    return 8.0 / float(np.sqrt(n_rows)) if n_rows < n else 0.0


def cut(P: ClusterRows, t: float, weights: Column, diagonal: Column, task_bytes: int, kernels: TaskKernels) -> float:
    """Return the t-th largest magnitude of PP', counted with multiplicity."""
    return exact_cut(ClusterEntries(P, weights, diagonal, task_bytes, kernels), t)


def cut_gram(
    P: ClusterRows, t: float, X: ClusterRows, weights: Column, diagonal: Column, task_bytes: int, kernels: TaskKernels
) -> tuple[float, FloatMatrix, ClusterColumn]:
    """Cut for t entries, X'WSWX and WSw: from one pass where a guess of the bracket holds, else from two.

    Tasks of the one pass add what lies above the bracket and list the few entries inside. These stay where they were
    found; what is sent of them is counts, in bins of the bracket and then the values inside one bin.
    """
    entries = ClusterEntries(P, weights, diagonal, task_bytes, kernels)
    if kernels.choice != "numpy" and P.dtype == X.dtype == np.float64 and lists_little(P.shape, t, weights, X.nbytes):
        found = _one_pass(entries, PairPass(P, X, weights, task_bytes), t)
        if found is not None:
            return found
    magnitude = exact_cut(entries, t)
    return magnitude, *pruned_gram(P, kept_from(magnitude, P.dtype), X, weights, task_bytes, kernels)


def lists_little(shape: tuple[int, int], t: float, weights: Column, rows_bytes: float) -> bool:
    """Whether the entries inside a guessed bracket take little memory beside the rows, which are not very few."""
    n, n_rows = shape[0], n_guessed(shape)
    share = t / max(total(weights, n) ** 2, 1.0)
    n_sampled = n_rows * n_rows // 512 + 4096
    room = 4.0 * np.sqrt(max(share, 1.0 / n_sampled) / n_sampled) / share + row_room(n_rows, n)
    return bool(n**2 > FEW_PAIRS and LISTED_BYTES * room * t <= LISTED_SHARE * rows_bytes)


def _one_pass(entries: ClusterEntries, pairs: PairPass, t: float) -> tuple[float, FloatMatrix, ClusterColumn] | None:
    """Cut and sums from one pass; None where the bracket missed, or a worker has no compiled loops."""
    workers, kernels = entries.workers, entries.kernels
    bracket = entries.guess(t).widened()

    def submit(task: PairTask) -> Future:
        given = (pairs.blocks(task), at_block(entries.diagonal, task.own), task.with_own)
        return workers.call("cut-gram", partial(passed_part, bracket, kernels), *given)

    done = list(all_pairs(workers, "pruned pairs", pairs.rounds, submit))

    def tally(within: Bracket, *, binned: bool) -> Tally | None:
        joined = RunningSum(workers, "cut-sum", partial(joined_tallies, within))
        for _, part in done:
            joined.add(workers.call("cut-count", partial(tally_part, within, binned), part))
        found: Tally | None = workers.fetch([joined.result()])[0]
        return found

    bins = tally(bracket, binned=True)
    if bins is None or not bins.holds(t):
        return None
    values = tally(bracket.around(bins.reaching(t)), binned=False)
    if values is None or values.binned or not values.holds(t):
        return None
    magnitude = values.reaching(t)
    threshold = kept_from(magnitude, np.float64)
    if threshold < bracket.low:
        return None
    work = partial(completed_part, threshold, bracket, kernels)
    given = ((task, workers.call("pruned-gram", work, part, pairs.blocks(task), task.with_own)) for task, part in done)
    return magnitude, *pairs.added(given)


def pair_block(blocks: list[FactorBlock], with_own: bool) -> PairBlock:
    """Rows of the first block against those of all, or of the others alone."""
    P, X, weights = blocks[0]
    columns = blocks if with_own else blocks[1:]
    Ps, Xs, counts = zip(*columns, strict=True)
    held = np.concatenate([spread(w, len(one)) for w, one in zip(counts, Ps, strict=True)])
    return PairBlock(
        np.asarray(P),
        np.array(spread(weights, len(P))),
        np.concatenate(Ps),
        held,
        0 if with_own else len(P),
        None if X is None else np.concatenate(Xs),
    )


def split_sums(found: PrunedSums, blocks: list[FactorBlock], with_own: bool) -> Sums:
    """Half of the Gram matrix, and the row sums of each block."""
    sizes = [len(P) for P, _, _ in (blocks if with_own else blocks[1:])]
    down = np.split(found.column_sums, np.cumsum(sizes)[:-1])
    return (found.gram, found.row_sums + down[0], *down[1:]) if with_own else (found.gram, found.row_sums, *down)


def pruned_part(threshold: float, kernels: TaskKernels, blocks: list[FactorBlock], with_own: bool) -> Sums:
    """Sums over the kept entries of one block with others, and with itself where asked for."""
    X, block = np.asarray(blocks[0][1]), pair_block(blocks, with_own)
    if kernels.compiled() and block.P.dtype == X.dtype == np.float64:
        from adaam.engines.pruned.screened import screened_sums

        found = screened_sums(block, X, threshold, kernels.dtype)
    else:
        found = pruned_sums(block, X, threshold, kernels.tile_rows)
    return split_sums(found, blocks, with_own)


def squares_of(P: FloatMatrix) -> FloatVector:
    """Diagonal entries of PP'."""
    return np.asarray(np.einsum("ij,ij->i", P, P))


def largest_square(P: FloatMatrix) -> float:
    """Magnitude that no entry of these rows exceeds."""
    return float(squares_of(P).max()) * rounding_room(P)


def counted_part(
    bracket: Bracket, kernels: TaskKernels, blocks: list[FactorBlock], diagonal: Any, with_own: bool
) -> Tally:
    """Count the entries of one block with others against a bracket, and those on the diagonal where asked for."""
    P, block = blocks[0][0], pair_block(blocks, with_own)

    def parts() -> Iterator[Tally]:
        if with_own:
            yield Tally(0.0, squares_of(P), spread(diagonal, len(P))).within(bracket)
        if kernels.compiled() and P.dtype == np.float64:
            from adaam.engines.pruned.screened import screened_tallies

            yield from screened_tallies(block, bracket)
        else:
            yield from tile_tallies(block, bracket, kernels.tile_rows)

    return counted(parts(), bracket)


def joined_tallies(bracket: Bracket, parts: list[Tally | None]) -> Tally | None:
    """Put the tallies of tasks together; None where one of them has none."""
    known = [part for part in parts if part is not None]
    return counted(known, bracket) if len(known) == len(parts) else None


class PassedPart(NamedTuple):
    """What a task of the one pass found: for each of its row blocks, and on the diagonal."""

    found: list[Any]  # RowBlockPass
    diagonal: Tally


def passed_part(
    bracket: Bracket, kernels: TaskKernels, blocks: list[FactorBlock], diagonal: Any, with_own: bool
) -> PassedPart | None:
    """Pass over the entries of one block with others; None with too many inside, or on a worker without numba."""
    if not kernels.compiled():
        return None
    from adaam.engines.pruned.screened import PrunedPass

    work = PrunedPass(pair_block(blocks, with_own), bracket, kernels.dtype)
    found, n_listed = [], 0
    for rows in work.row_blocks():
        part = work.run(rows)
        found.append(part.stored(kernels.dtype))
        n_listed += len(part.inside.values)
        if n_listed > MAX_LISTED:
            return None
    squares = squares_of(blocks[0][0])
    counts = spread(diagonal if with_own else 0.0, len(squares))
    return PassedPart(found, Tally(0.0, squares, counts).within(bracket))


def tally_part(bracket: Bracket, binned: bool, part: PassedPart | None) -> Tally | None:
    """Count what a task found, by bins of a bracket or value by value inside it."""
    if part is None:
        return None
    every = [part.diagonal, *(one.tally for one in part.found)]
    if binned:
        return counted([one.in_bins(bracket) for one in every], bracket)
    return merged(one.within(bracket) for one in every)


def completed_part(
    threshold: float,
    bracket: Bracket,
    kernels: TaskKernels,
    part: PassedPart,
    blocks: list[FactorBlock],
    with_own: bool,
) -> Sums:
    """Sums with the listed entries that the cut keeps; a worker without compiled loops passes over its tiles again."""
    if not kernels.compiled():
        return pruned_part(threshold, kernels, blocks, with_own)
    from adaam.engines.pruned.screened import PrunedPass
    from adaam.engines.pruned.tiles import summed_rows

    X = np.asarray(blocks[0][1])
    work = PrunedPass(pair_block(blocks, with_own), bracket, kernels.dtype)

    def sums() -> Iterator[PrunedSums]:
        for found in part.found:
            # What came over a network cannot be written to.
            found = found._replace(product=np.array(found.product))
            along, down = work.complete(found, threshold)
            gram, row_sums, column_sums = work.sums(found, X[found.rows])
            yield PrunedSums(gram, row_sums + along, column_sums + down)

    return split_sums(summed_rows(sums()), blocks, with_own)
