"""Running tasks, in this process or in several beside it, as one stream of what happened."""

import os
import signal
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from joblib import cpu_count
from threadpoolctl import threadpool_limits

from adaam.bench.datasets import Data, load_data
from adaam.bench.methods import METHODS, Method
from adaam.bench.records import Record, Task
from adaam.bench.run import histogram_record, run_case, warm_up
from adaam.interrupts import STOPS

THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
WORKER_LEAVES_S = 5.0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a task: a record came, or it ended, well or with the reason why not."""

    task: Task
    record: Record | None = None
    failure: str | None = None

    @property
    def is_end(self) -> bool:
        """Whether nothing more will come of this task."""
        return self.record is None


class Bench:
    """Where tasks are run: the last data set is kept at hand, and methods that have run once are warm."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._kept: dict[str, Data] = {}
        self._warm: set[str] = set()

    def data(self, name: str) -> Data:
        """Return a data set."""
        if name not in self._kept:
            self._kept.clear()  # the old one may leave before the new one comes
            self._kept[name] = load_data(name, self._folder)
        return self._kept[name]

    def method(self, name: str) -> Method:
        """Return a method that has been fitted before."""
        if name not in self._warm:
            warm_up(METHODS[name])
            self._warm.add(name)
        return METHODS[name]


def run_task(task: Task, bench: Bench) -> Iterator[Record]:
    """Run the rounds of a task; what was warned of is kept in the records."""
    case = task.case
    data = bench.data(case.dataset)
    X, classes = data.rows(case.n_rows), data.classes[: case.n_rows]
    names = ("dataset", "seed", "n_neighbors", "n_iter", "n_rows", "n_starts")
    settings: dict[str, Any] = {name: getattr(case, name) for name in names}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if case.kind == "histogram":
            yield histogram_record(X, classes, **settings)
            return
        chosen: dict[str, Any] = {"preparation": case.preparation, "n_rounds": case.rounds, "rounds": task.rounds}
        for record in run_case(bench.method(case.method), X, classes, **settings, **chosen):
            yield record | {"warnings": sorted({warning.category.__name__ for warning in caught})}


def events_of(task: Task, bench: Bench) -> Iterator[Event]:
    """Run a task; whatever it raises is its own failure and nobody else's."""
    try:
        for record in run_task(task, bench):
            yield Event(task, record)
    except Exception as error:
        yield Event(task, failure=told(error))
    else:
        yield Event(task)


def told(error: Exception) -> str:
    """Return an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def serial_events(tasks: Sequence[Task], folder: Path | None) -> Generator[Event]:
    """Run tasks one by one in this process, on all cores."""
    bench = Bench(folder)
    for task in tasks:
        yield from events_of(task, bench)


def parallel_events(tasks: Sequence[Task], folder: Path | None, n_jobs: int) -> Generator[Event]:
    """Run tasks in worker processes that share the cores out among them.

    A worker that dies (killed for memory, say) fails its task and is replaced. Workers that lose this process end.
    """
    n_threads = max(1, cpu_count() // n_jobs)
    waiting = list(reversed(tasks))
    workers: list[_Worker] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < n_jobs:
                workers.append(_Worker(folder, n_threads))
                workers[-1].give(waiting.pop())
            for connection in wait([worker.connection for worker in workers]):
                worker = next(worker for worker in workers if worker.connection is connection)
                event = worker.event()
                yield event
                if event.is_end and (worker.is_lost or not waiting):
                    workers.remove(worker)
                    worker.end()
                elif event.is_end:
                    worker.give(waiting.pop())
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A process that runs the tasks it is given; started afresh, so that thread settings hold from the first import."""

    def __init__(self, folder: Path | None, n_threads: int) -> None:
        self.is_lost = False
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, folder, n_threads), daemon=True)
        with _thread_settings(n_threads):
            self._process.start()
        theirs.close()

    def give(self, task: Task) -> None:
        self._task = task
        self.connection.send(task)

    def event(self) -> Event:
        try:
            event: Event = self.connection.recv()
        except (EOFError, OSError):
            self._process.join(WORKER_LEAVES_S)
            self.is_lost = True
            return Event(self._task, failure=f"its process {_ending(self._process.exitcode)}")
        return event

    def end(self) -> None:
        self.connection.close()
        self._process.terminate()
        self._process.join(WORKER_LEAVES_S)


def _serve(connection: Connection, folder: Path | None, n_threads: int) -> None:
    # Ctrl-C and a closed terminal reach every process; the one that writes the records decides what becomes of it,
    # and ends this one by SIGTERM.
    for number in STOPS:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    bench = Bench(folder)
    with threadpool_limits(limits=n_threads):
        try:
            while True:
                for event in events_of(connection.recv(), bench):
                    connection.send(event)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return


def _ending(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"ended with code {exit_code}"
    name = signal.Signals(-exit_code).name
    return f"was ended by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")


@contextmanager
def _thread_settings(n_threads: int) -> Iterator[None]:
    """Let processes started inside inherit a number of threads, or a smaller one the user has set."""
    before = {name: os.environ[name] for name in THREAD_SETTINGS if name in os.environ}
    asked = {name: int(value) for name, value in before.items() if value.isdecimal() and int(value) > 0}
    try:
        os.environ.update({name: str(min(asked.get(name, n_threads), n_threads)) for name in THREAD_SETTINGS})
        yield
    finally:
        for name in THREAD_SETTINGS:
            os.environ.pop(name)
        os.environ.update(before)
