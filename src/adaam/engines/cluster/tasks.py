"""How work is split into tasks: row blocks, which of them meet, what is sent between them, and the loops that run."""

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from adaam.engines.cluster.workers import ClusterError, Future, Workers
from adaam.engines.compiled import MANY_ROWS, compile_once, uses_numba
from adaam.engines.cpu import CPUEngine

Sizes: TypeAlias = tuple[int, ...]

MOST_BLOCKS = 96  # unless there are more threads; block pairs, and pieces sent from each to each, stay few thousand
LEAST_ROWS = 512

FOLD = 8  # partial sums added up by one task
WHOLE_BYTES = 1 << 26  # of all pieces: then each receiver may as well get all of them


def starts(sizes: Sizes) -> tuple[int, ...]:
    """First row of each block."""
    return tuple(accumulate(sizes, initial=0))[:-1]


def even_sizes(n_rows: int, n_blocks: int) -> Sizes:
    """Cut rows into blocks of equal size, but for one row more or less."""
    edges = [i * n_rows // n_blocks for i in range(n_blocks + 1)]
    return tuple(stop - start for start, stop in pairwise(edges))


def planned_sizes(n_rows: int, row_bytes: int, n_threads: int, task_bytes: int, block_rows: int | None) -> Sizes:
    """Choose row blocks: two for each thread, so that all have work in pairs of them, within what a task may hold."""
    if block_rows is None:
        n_blocks = max(4, 2 * n_threads, -(-8 * n_rows * row_bytes // task_bytes))
        n_blocks = min(n_blocks, max(MOST_BLOCKS, 2 * n_threads), max(1, n_rows // LEAST_ROWS))
    else:
        n_blocks = -(-n_rows // block_rows)
    return even_sizes(n_rows, max(1, n_blocks))


def resized(workers: Workers, parts: Sequence[Future], sizes: Sizes, wanted: Sizes) -> list[Future]:
    """Row blocks of the wanted sizes, made from blocks of other sizes."""
    if sizes == wanted:
        return list(parts)
    first = starts(sizes)
    made = []
    for start, size in zip(starts(wanted), wanted, strict=True):
        pieces, cuts = [], []
        for part, begin, height in zip(parts, first, sizes, strict=True):
            low, high = max(start, begin), min(start + size, begin + height)
            if low < high:
                pieces.append(part)
                cuts.append(slice(low - begin, high - begin))
        made.append(workers.call("cut-blocks", joined_cuts, pieces, cuts))
    return made


def joined_cuts(pieces: list[Any], cuts: list[slice]) -> Any:
    """Join cuts of several row blocks."""
    return stacked([piece[cut] for piece, cut in zip(pieces, cuts, strict=True)])


def stacked(blocks: list[Any]) -> Any:
    """Row blocks, dense or sparse, one below the other."""
    if len(blocks) == 1:
        return blocks[0]
    if any(issparse(block) for block in blocks):
        return csr_array(vstack(blocks, format="csr"))
    return np.concatenate(blocks)


def added(parts: list[Any]) -> Any:
    """Add up parts in their order."""
    return reduce(np.add, parts)


@dataclass(frozen=True, slots=True)
class TaskKernels:
    """Which loops tasks run, as the client decides for all workers; and the rows of all blocks together."""

    choice: str
    n_rows: int
    tile_rows: int  # of NumPy's tiles

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
        return CPUEngine(kernels=self.choice, recall=1.0)

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


def task_kernels(choice: str, n_rows: int, tile_rows: int) -> TaskKernels:
    """Decide, on the client, for all tasks."""
    return TaskKernels(choice if uses_numba(choice, n_rows) else "numpy", n_rows, tile_rows)


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
    steps = list(range(1, n_blocks // 2 + 1))
    sizes: list[int] = []
    while sum(sizes) < len(steps):
        sizes.append(min(group, 4 ** len(sizes) if growing else group))
    rounds: list[list[PairTask]] = []
    first = 0
    for size in [0, *sizes] if growing or not sizes else sizes:
        taken = steps[first : first + size]
        first += size
        # Half-way round an even ring two blocks meet each other: one of them does the work.
        rounds.append(
            [
                PairTask(
                    own,
                    tuple((own + s) % n_blocks for s in taken if 2 * s != n_blocks or own < s),
                    with_own=len(rounds) == 0,
                )
                for own in range(n_blocks)
            ]
        )
    return [[task for task in tasks if task.others or task.with_own] for tasks in rounds]


def partners_at_once(n_numbers: int, n_rows: int, n_blocks: int, task_bytes: int) -> int:
    """Blocks, of rows of so many numbers each, that a task can hold beside its own."""
    return int(max(1, task_bytes // max(1.0, block_bytes(n_numbers, n_rows, n_blocks)) - 1))


def block_bytes(n_numbers: int, n_rows: int, n_blocks: int) -> float:
    """Bytes of a block of rows of so many numbers in float64."""
    return 8.0 * n_numbers * float(np.ceil(n_rows / max(1, n_blocks)))


def all_pairs(
    workers: Workers, name: str, rounds: Sequence[Sequence[PairTask]], submit: Callable[[PairTask], Future]
) -> Iterator[tuple[PairTask, Future]]:
    """Run the tasks of a pass in a fixed order, few at a time."""
    tasks = [task for tasks in rounds for task in tasks]
    done = workers.in_turn(name, (partial(submit, task) for task in tasks), len(tasks))
    yield from zip(tasks, done, strict=True)


class Piece(NamedTuple):
    """One of several results of a task, or with no place the result itself."""

    part: Future
    place: int | None


def piece(workers: Workers, name: str, part: Future, place: int, whole: bool) -> Piece:
    """One of several results: picked by its receiver where a part may be sent `whole`, else by a task of its own."""
    return Piece(part, place) if whole else Piece(workers.call(name, pick, part, place), None)


def call_with(workers: Workers, name: str, work: Callable[..., Any], pieces: Sequence[Piece], *given: Any) -> Future:
    """Do `work` on the list of some pieces, and on what else is given."""
    return workers.call(name, with_pieces, work, [p.part for p in pieces], [p.place for p in pieces], *given)


def with_pieces(work: Callable[..., Any], parts: list[Any], places: list[int | None], *given: Any) -> Any:
    """Do `work` on the pieces at their places."""
    pieces = [part if place is None else part[place] for part, place in zip(parts, places, strict=True)]
    return work(pieces, *given)


class RunningSum:
    """A sum of results on the workers, in the order they are given, of which few wait at a time."""

    def __init__(self, workers: Workers, name: str, fold: Callable[[list[Any]], Any] = added) -> None:
        self.workers, self.name, self.fold = workers, name, fold
        self.waiting: list[Piece] = []

    def add(self, part: Future | Piece) -> None:
        """Take one more part."""
        self.waiting.append(part if isinstance(part, Piece) else Piece(part, None))
        if len(self.waiting) > FOLD:
            self.waiting = [Piece(self.result(), None)]

    def result(self) -> Future:
        """Sum of all parts."""
        return call_with(self.workers, self.name, self.fold, self.waiting)


def exchanged(
    workers: Workers,
    name: str,
    pieces: Sequence[Future],
    n_receivers: int,
    n_bytes: float,
    join: Callable[..., Any],
    given: Callable[[int], Sequence[Any]] = lambda _: (),
) -> list[Future]:
    """Shuffle: each receiver `join`s piece `index` of every sender, with what else it is given.

    By a task for each piece, or whole where there is little to send.
    """
    if n_bytes <= WHOLE_BYTES:
        return [
            workers.call(name, join_whole, join, index, list(pieces), *given(index)) for index in range(n_receivers)
        ]
    return [
        workers.call(name, join, [workers.call(f"{name}-send", pick, piece, index) for piece in pieces], *given(index))
        for index in range(n_receivers)
    ]


def join_whole(join: Callable[..., Any], index: int, pieces: list[Sequence[Any]], *given: Any) -> Any:
    """Join one's own pieces out of all."""
    return join([sent[index] for sent in pieces], *given)


def pick(parts: Sequence[Any], index: int) -> Any:
    """One of several results of a task."""
    return parts[index]
