"""Passes over pairs of row blocks by tasks: nearest neighbours, the cut of PP', the pruned Laplacian.

A task takes the rows of one block against those of some others, and runs the loops of `engines.neighbors` and
`engines.pruned` on them, as a thread of the CPU engine does. What comes to the client has at most a few numbers a row.
"""

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.blocks import row_blocks
from adaam.engines.cluster.rows import ClusterRows, starts
from adaam.engines.cluster.workers import HOST, ClusterError
from adaam.engines.columns import at, spread
from adaam.engines.compiled import MANY_ROWS, compile_once, uses_numba
from adaam.engines.cpu import CPUEngine
from adaam.engines.neighbors import tiles as neighbor_tiles
from adaam.engines.neighbors.graph import HostHalf
from adaam.engines.pruned.cut import Bracket, Tally, counted, guess_bracket, rounding_room
from adaam.engines.pruned.tiles import PairBlock, pruned_sums, tile_tallies

FEW_PAIRS = 1 << 20  # all magnitudes of so many pairs are counted at once
GUESS_ROWS = 1 << 17  # rows that the client samples pairs of, at most

FactorBlock: TypeAlias = tuple[FloatMatrix, FloatMatrix | None, Any]  # P, X and weights of the same rows


class PairTask(NamedTuple):
    """A block and the blocks it is paired with; itself among them where `with_own`."""

    own: int
    others: tuple[int, ...]
    with_own: bool

    @property
    def blocks(self) -> tuple[int, ...]:
        """All blocks that the task takes, its own first."""
        return (self.own, *self.others)


def pair_tasks(n_blocks: int, group: int, *, growing: bool = False) -> list[list[PairTask]]:
    """Rounds of tasks that see each pair of blocks once.

    Block i meets i + 1, i + 2, ... around a ring to the far side, so that all blocks have the same work. A task takes
    up to `group` of these steps at once; `growing` begins with itself alone, then takes 1, 4, 16, ... steps.
    """
    rounds: list[list[PairTask]] = []
    first, far = 1, n_blocks // 2
    while first <= far or not rounds:
        size = min(group, 4 ** (len(rounds) - 1)) if growing and rounds else 0 if growing else group
        steps = range(first, min(first + size, far + 1))
        first += size
        tasks = [
            # Half-way round an even ring two blocks meet each other: one of them does the work.
            PairTask(own, tuple((own + s) % n_blocks for s in steps if 2 * s != n_blocks or own < s), not rounds)
            for own in range(n_blocks)
        ]
        rounds.append([task for task in tasks if task.others or task.with_own])
    return rounds


def partners_at_once(n_numbers: int, n_rows: int, n_blocks: int, task_bytes: int) -> int:
    """Blocks, of rows of so many numbers each, that a task can hold beside its own."""
    return int(max(1, task_bytes // max(1.0, block_bytes(n_numbers, n_rows, n_blocks)) - 1))


def block_bytes(n_numbers: int, n_rows: int, n_blocks: int) -> float:
    """Bytes of a block of rows of so many numbers in float64."""
    return 8.0 * n_numbers * float(np.ceil(n_rows / max(1, n_blocks)))


@dataclass(frozen=True, slots=True)
class TaskKernels:
    """Which loops tasks run, as the client decides for all workers; and the rows of all blocks together."""

    choice: str
    n_rows: int
    tile_rows: int = HOST._tile_rows()  # of NumPy's tiles

    def compiled(self) -> bool:
        """Whether a task of this process runs compiled loops; the first one compiles them.

        "auto" is NumPy on a worker without numba, whatever others have: results agree to rounding.
        """
        if not self._uses_numba(self.n_rows):
            return False
        compile_once(self.dtype)
        return True

    def engine(self, n_rows: int) -> CPUEngine:
        """Return the CPU engine for blocks of so many rows that a task has to itself."""
        if self._uses_numba(n_rows):
            compile_once(self.dtype)
        return CPUEngine(kernels=self.choice)

    @property
    def dtype(self) -> type:
        """Precision in which rows are multiplied with kept entries: float32 where they are many."""
        return np.float32 if self.n_rows >= MANY_ROWS else np.float64

    def _uses_numba(self, n_rows: int) -> bool:
        try:
            return uses_numba(self.choice, n_rows)
        except ImportError as error:
            raise ClusterError(
                f'DaskEngine(kernels="numba") needs numba on every worker, and the one on {platform.node()} has none. '
                'Install it there with: pip install adaam[fast], or use kernels="auto", which is NumPy on such workers.'
            ) from error


class FoundPairs(NamedTuple):
    """Pairs of a row of a block and another row, by its number among all, with squared distance."""

    rows: IntVector
    others: IntVector
    squares: FloatVector


class Table(NamedTuple):
    """Nearest others of each row of a block, nearest first; infinity where there are fewer."""

    others: IntMatrix
    squares: FloatMatrix

    def bounds(self) -> FloatVector:
        """Squared distance within which each row has all its neighbours."""
        return np.asarray(self.squares[:, -1])

    def pairs(self) -> FoundPairs:
        """Entries of the table."""
        known = np.isfinite(self.squares)
        return FoundPairs(np.nonzero(known)[0], self.others[known], self.squares[known])


def nearest_others(X: ClusterRows, k: int, kernels: TaskKernels) -> tuple[IntMatrix, FloatMatrix]:
    """Indices and distances of the k nearest others of each row, here.

    Each pair of blocks is looked at once and serves both. The first round is within blocks; later ones take ever more
    blocks at a time, and what is farther than the k-th neighbour known so far is never measured.
    """
    workers, first = X.workers, starts(X.sizes)
    group = partners_at_once(X.n_columns, len(X), len(X.sizes), workers.task_bytes)
    _, *rounds = pair_tasks(len(X.sizes), group, growing=True)
    own = (
        workers.call("neighbours", own_table, k, kernels, part, start)
        for part, start in zip(X.parts, first, strict=True)
    )
    tables = list(workers.in_turn("neighbours", own, len(first)))
    for tasks in rounds:
        blocks = [[part, start, table] for part, start, table in zip(X.parts, first, tables, strict=True)]
        given = (workers.call("neighbours", pairs_between, kernels, [blocks[j] for j in task.blocks]) for task in tasks)
        found: list[list[Any]] = [[] for _ in tables]
        for task, part in zip(tasks, workers.in_turn("neighbours", given, len(tasks)), strict=True):
            for place, index in enumerate(task.blocks):
                found[index].append([part, place])
        tables = [
            workers.call("neighbours-merge", merged_table, table, parts) if parts else table
            for table, parts in zip(tables, found, strict=True)
        ]
    others, squares = (np.concatenate(part) for part in zip(*workers.fetch(tables), strict=True))
    return others, np.sqrt(squares)


def nearest_of(X: ClusterRows, rows: IntVector, k: int) -> tuple[IntMatrix, FloatMatrix]:
    """Indices and distances of the k nearest others of chosen rows, here: these rows are sent to all blocks."""
    wanted, place = np.unique(rows, return_inverse=True)
    found = []
    for some in row_blocks(len(wanted), max(1, X.workers.task_bytes // (32 * X.n_columns))):
        asked = wanted[some]
        # One more than k: each row finds itself too, unless copies crowd it out.
        parts = X.workers.fetch(X.each("neighbours-wide", nearest_known, np.asarray(X[asked]), k + 1))
        others = np.concatenate([near + start for (near, _), start in zip(parts, starts(X.sizes), strict=True)], axis=1)
        distances = np.concatenate([far for _, far in parts], axis=1)
        distances[others == asked[:, None]] = np.inf
        best = np.lexsort((others, distances))[:, :k]
        found.append([np.take_along_axis(part, best, axis=1) for part in (others, distances)])
    indices, distances = (np.concatenate(part)[place] for part in zip(*found, strict=True))
    return indices, distances


def own_table(k: int, kernels: TaskKernels, X: FloatMatrix, start: int) -> Table:
    """Nearest others within a block whose first row has the number `start`."""
    n = len(X)
    table = Table(np.full((n, k), -1, np.int64), np.full((n, k), np.inf))
    if n > 1:
        # Writable: numba compiles once more for arrays that are not, such as those that came over a network.
        rows = np.require(X, requirements=["C", "W"])
        others, distances = kernels.engine(n).neighbors(rows, min(k, n - 1))
        width = others.shape[1]
        table.others[:, :width], table.squares[:, :width] = others + start, np.square(distances)
    return table


def pairs_between(kernels: TaskKernels, blocks: list[Any]) -> list[FoundPairs]:
    """What each block finds in the first one, and the first one in all others, within the bounds of their tables."""
    rows, firsts, tables = zip(*blocks, strict=True)
    X, bounds = np.concatenate(rows), np.concatenate([table.bounds() for table in tables])
    sizes = [len(part) for part in rows]
    numbers = np.concatenate([np.arange(first, first + size) for first, size in zip(firsts, sizes, strict=True)])
    found: Any = None
    if kernels.compiled():
        from adaam.engines.neighbors import search

        found = search.block_pairs(X, bounds, sizes[0])
    if found is None:
        found = neighbor_tiles.block_pairs(X, bounds, sizes[0], kernels.tile_rows)
    row, column, squares = found
    order = np.argsort(row, kind="stable")
    edges = [0, *np.cumsum(sizes)]
    parts = [order[low:high] for low, high in pairwise(np.searchsorted(row[order], edges))]
    return [
        FoundPairs(row[part] - start, numbers[column[part]], squares[part])
        for part, start in zip(parts, edges[:-1], strict=True)
    ]


def nearest_known(X: FloatMatrix, queries: FloatMatrix, k: int) -> tuple[IntMatrix, FloatMatrix]:
    """Indices and distances of the k nearest rows of a block, or of all where it has fewer, of each query."""
    return neighbor_tiles.brute_force(np.asarray(X), min(k, len(X)), np.asarray(queries))


def merged_table(table: Table, parts: list[Any]) -> Table:
    """Table with what another round found: one of the results of each task, by its place."""
    n_rows, k = table.others.shape
    return best_pairs(n_rows, k, [table.pairs(), *(found[place] for found, place in parts)])


def best_pairs(n_rows: int, k: int, parts: list[FoundPairs]) -> Table:
    """The k nearest of all that was found, the lower number first on a tie."""
    row, other, squares = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((other, squares, row))
    counts = np.bincount(row, minlength=n_rows)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    order, place = order[place < k], place[place < k]
    table = Table(np.full((n_rows, k), -1, np.int64), np.full((n_rows, k), np.inf))
    table.others[row[order], place], table.squares[row[order], place] = other[order], squares[order]
    return table


class ClientHalf(HostHalf):
    """Half of an affinity on the client; rows of it are sent to where those of X are."""

    def gram(self, X: Any) -> FloatMatrix:
        """Return X' H X for rows on the workers, in float64."""
        workers, n_blocks, edges = X.workers, len(X.sizes), [*starts(X.sizes), len(X)]
        group = 1 + partners_at_once(X.n_columns, len(X), n_blocks, workers.task_bytes)
        columns = [(low, min(low + group, n_blocks)) for low in range(0, n_blocks, group)]
        given = (
            workers.call("graph-gram", half_gram, rows[:, edges[low] : edges[high]], part, list(X.parts[low:high]))
            for rows, part in zip(X.by_block(csr_array(self.matrix)), X.parts, strict=True)
            for low, high in columns
        )
        return np.asarray(workers.summed("graph-gram", workers.in_turn("graph-gram", given, n_blocks * len(columns))))


def half_gram(H: csr_array, X: FloatMatrix, blocks: list[FloatMatrix]) -> FloatMatrix:
    """What some rows and columns of H add to X'HX, with the rows of X for either."""
    along, first = np.zeros(X.shape), 0
    for Y in blocks:
        along += H[:, first : first + len(Y)] @ Y
        first += len(Y)
    return np.asarray(np.asarray(X, np.float64).T @ along)


class PrunedPairs:
    """All entries of PP', and the rows X they are multiplied with, by tasks: `engines.pruned.cut.Entries`."""

    def __init__(self, P: ClusterRows, X: ClusterRows, weights: Column, diagonal: Column, kernels: TaskKernels) -> None:
        self.P, self.X, self.workers, self.kernels = P, X, P.workers, kernels
        self.weights, self.diagonal, self.dtype = weights, diagonal, P.dtype
        self.by_block = [list(part) for part in zip(P.parts, P.by_block(X), P.shared(weights), strict=True)]
        self.diagonals = P.shared(diagonal)

    def tasks(self, n_numbers: int, task_bytes: int) -> list[PairTask]:
        """Tasks that see each pair of blocks once, of rows of so many numbers."""
        n_blocks = len(self.P.sizes)
        group = partners_at_once(n_numbers, len(self.P), n_blocks, task_bytes)
        return [task for tasks in pair_tasks(n_blocks, group) for task in tasks]

    def blocks(self, task: PairTask) -> list[Any]:
        """P, X and weights of the blocks of a task, its own first."""
        return [self.by_block[j] for j in task.blocks]

    def largest(self) -> float:
        """Magnitude that no entry exceeds."""
        return float(np.square(self.P.norms).max()) * rounding_room(self.P)

    def guess(self, t: float) -> Bracket:
        """Bracket the t-th largest entry by a sample of rows, on the client."""
        n, n_rows = len(self.P), min(len(self.P), GUESS_ROWS)
        if n**2 <= FEW_PAIRS:
            return Bracket(0.0, self.largest())
        rows = np.sort(np.random.default_rng(0).permutation(n)[:n_rows])
        held, own = (spread(at(column, rows), n_rows) for column in (self.weights, self.diagonal))
        part = n_rows / n
        # Sampled rows vary about as much as entries above the cut do.
        room = 8.0 / float(np.sqrt(n_rows)) if n_rows < n else 0.0
        return guess_bracket(np.asarray(self.P[rows]), t * part**2, held, own * part, room)

    def tally(self, bracket: Bracket) -> Tally:
        """Count all entries against a bracket."""
        tasks = self.tasks(self.P.n_columns, self.workers.task_bytes // 4)
        work = partial(counted_part, bracket, self.kernels)
        given = (
            self.workers.call(
                "cut", work, [[P, None, w] for P, _, w in self.blocks(task)], self.diagonals[task.own], task.with_own
            )
            for task in tasks
        )
        done = self.workers.in_turn("cut", given, len(tasks))
        found: Tally = self.workers.summed("cut", done, partial(counted, bracket=bracket))
        return found

    def sums(self, threshold: float) -> tuple[FloatMatrix, FloatVector]:
        """X'WSWX and WSw over the off-diagonal entries of magnitude at least `threshold`."""
        tasks = self.tasks(self.P.n_columns + self.X.n_columns, self.workers.task_bytes)
        work, first = partial(pruned_part, threshold, self.kernels, len(self.P)), starts(self.P.sizes)
        given = (
            self.workers.call("pruned-gram", work, self.blocks(task), [first[j] for j in task.blocks], task.with_own)
            for task in tasks
        )
        half, row_sums = self.workers.summed("pruned-gram", self.workers.in_turn("pruned-gram", given, len(tasks)))
        return half + half.T, row_sums * self.weights


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


def pruned_part(
    threshold: float, kernels: TaskKernels, n_rows: int, blocks: list[FactorBlock], firsts: list[int], with_own: bool
) -> list[FloatMatrix]:
    """Half of X'WSWX and Sw of all rows, from the kept entries of one block with others, and with itself if asked for.

    `firsts` are the numbers of the blocks' first rows.
    """
    X, block = np.asarray(blocks[0][1]), pair_block(blocks, with_own)
    if kernels.compiled() and block.P.dtype == X.dtype == np.float64:
        from adaam.engines.pruned.screened import screened_sums

        found = screened_sums(block, X, threshold, kernels.dtype)
    else:
        found = pruned_sums(block, X, threshold, kernels.tile_rows)
    numbers = [np.arange(first, first + len(P)) for first, (P, _, _) in zip(firsts, blocks, strict=True)]
    row_sums = np.zeros(n_rows)
    row_sums[np.concatenate(numbers if with_own else numbers[1:])] = found.column_sums
    row_sums[numbers[0]] += found.row_sums
    return [found.gram, row_sums]


def counted_part(
    bracket: Bracket, kernels: TaskKernels, blocks: list[FactorBlock], diagonal: Any, with_own: bool
) -> Tally:
    """Count the entries of one block with others against a bracket, and those on the diagonal where asked for."""
    block = pair_block(blocks, with_own)

    def parts() -> Iterator[Tally]:
        if with_own:
            squares = np.einsum("ij,ij->i", block.P, block.P)
            yield Tally(0.0, squares, spread(diagonal, len(squares))).within(bracket)
        if kernels.compiled() and block.P.dtype == np.float64:
            from adaam.engines.pruned.screened import screened_tallies

            yield from screened_tallies(block, bracket)
        else:
            yield from tile_tallies(block, bracket, kernels.tile_rows)

    return counted(parts(), bracket)
