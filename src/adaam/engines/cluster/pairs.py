"""Which block pairs make a pass: each pair once, as many for every block, a group of partners a task."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from adaam.engines.cluster.layout import added
from adaam.engines.cluster.workers import Future, Workers

FOLD = 8  # partial sums added up by one task


class PairTask(NamedTuple):
    """A block and the blocks it is paired with; itself among them where `with_own`."""

    own: int
    others: tuple[int, ...]
    with_own: bool


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


def partners_at_once(block_bytes: float, task_bytes: int) -> int:
    """Blocks that a task can hold beside its own."""
    return int(max(1, task_bytes // max(1.0, block_bytes) - 1))


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


def all_pairs(
    workers: Workers, name: str, rounds: Sequence[Sequence[PairTask]], submit: Callable[[PairTask], Future]
) -> Iterator[tuple[PairTask, Future]]:
    """Run the tasks of a pass in a fixed order, few at a time."""
    tasks = [task for tasks in rounds for task in tasks]
    done = workers.in_turn(name, (partial(submit, task) for task in tasks), len(tasks))
    yield from zip(tasks, done, strict=True)


def pick(parts: Sequence[Any], index: int) -> Any:
    """One of several results of a task."""
    return parts[index]


def block_bytes(n_numbers: int, n_rows: int, n_blocks: int) -> float:
    """Bytes of a block of rows of so many numbers in float64."""
    return 8.0 * n_numbers * float(np.ceil(n_rows / max(1, n_blocks)))
