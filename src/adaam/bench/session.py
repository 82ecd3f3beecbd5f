"""A session: run the missing rounds of a plan, here or in worker processes, and record results as they come.

An interrupt loses nothing; the next session resumes.
"""

import os
import platform
import signal
import subprocess
import sys
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache, lru_cache
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from time import monotonic
from typing import IO, Any, NamedTuple

from joblib import cpu_count
from threadpoolctl import threadpool_limits

from adaam.bench.datasets import load_data
from adaam.bench.methods import METHODS
from adaam.bench.records import Record, RecordsFile, Task
from adaam.bench.run import histogram_record, run_case, versions, warm_up
from adaam.interrupts import STOPS, uninterrupted
from adaam.progress import ChangingLine

BATCH_S = 1.0  # seconds of work that are lost at most if the process is killed by SIGKILL
THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
WORKER_LEAVES_S = 5.0  # seconds to wait for a worker to exit


class Event(NamedTuple):
    """An event of a task: a record or, without one, the end of the task, with the reason if it failed."""

    task: Task
    record: Record | None = None
    failure: str | None = None


def run_tasks(
    tasks: Sequence[Task],
    records: RecordsFile,
    folder: Path | None,
    *,
    n_jobs: int = 1,
    stream: IO[str] | None = None,
    command: str | None = None,
) -> list[tuple[str, str]]:
    """Run tasks and append their records; return the cases that failed with their reasons, after all have run.

    Records are written at least once a second, and always before this function returns. Progress is shown on `stream`,
    or on standard error; `command` is what the user typed, for the record of the session.
    """
    if not tasks:
        return []
    progress = Progress(tasks, stream or sys.stderr)
    serial = (event for task in tasks for event in events_of(task, folder))  # on all cores
    events = serial if n_jobs == 1 else parallel_events(tasks, folder, n_jobs)
    batch = [session_record(n_jobs, command)]
    failures: list[tuple[str, str]] = []
    written = -BATCH_S

    def write() -> None:
        nonlocal written
        with uninterrupted():
            records.append(batch)
            batch.clear()
            written = monotonic()

    try:
        write()
        for event in events:
            if event.record is not None:
                batch.append(event.record)
            elif event.failure is not None:
                failures.append((event.task.case.label, event.failure))
            if event.record is None or monotonic() - written > BATCH_S:
                write()
            progress.tell(event)
    finally:
        events.close()
        _kept.cache_clear()  # it may be large, and its file may change
        progress.line.end()
        write()
    return failures


def session_record(n_jobs: int = 1, command: str | None = None) -> Record:
    """Return a record of the environment in which the records that follow are made."""
    return {
        "kind": "session",
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {cpu_count()} cores",
        "system": platform.platform(),
        "jobs": n_jobs,
        "threads": os.environ.get("OMP_NUM_THREADS", "default"),
        "commit": commit(),
        "command": command,
        "versions": versions(),
    }


def commit() -> str | None:
    """Return the commit this library was run from, if it was run from a checkout of its own."""
    here = Path(__file__)

    def git(*words: str) -> str:
        run = ["git", "-C", str(here.parent), *words]
        return subprocess.run(run, capture_output=True, check=True, timeout=10, text=True).stdout.strip()

    try:
        # Only our own repository tracks this file; one that merely contains an installation does not.
        return git("ls-files", "--error-unmatch", here.name) and git("describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.SubprocessError):
        return None


# The last data set is cached, and each method is warmed up once.
_kept = lru_cache(maxsize=1)(load_data)
_warmed_up = cache(lambda name: warm_up(METHODS[name]))


def events_of(task: Task, folder: Path | None) -> Iterator[Event]:
    """Run a task; an exception fails this task only."""
    try:
        for record in _records_of(task, folder):
            yield Event(task, record)
        yield Event(task)
    except Exception as error:
        yield Event(task, failure=told(error))


def _records_of(task: Task, folder: Path | None) -> Iterator[Record]:
    """Run the rounds of a task; categories of warnings are kept in the records."""
    case = task.case
    data = _kept(case.dataset, folder)
    X, classes = data.rows(case.n_rows), data.classes[: case.n_rows]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if case.kind == "histogram":
            yield histogram_record(case, X, classes)
            return
        _warmed_up(case.method)
        names = ("dataset", "preparation", "seed", "n_neighbors", "n_iter", "n_rows", "n_starts")
        settings: dict[str, Any] = {name: getattr(case, name) for name in names}
        for record in run_case(METHODS[case.method], X, classes, n_rounds=case.rounds, rounds=task.rounds, **settings):
            yield record | {"warnings": sorted({warning.category.__name__ for warning in caught})}


def told(error: Exception) -> str:
    """Return an error as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def parallel_events(tasks: Sequence[Task], folder: Path | None, n_jobs: int) -> Generator[Event]:
    """Run tasks in worker processes that share the cores.

    If a worker dies (for lack of memory, say), its task fails and it is replaced. Workers exit if this process ends.
    """
    waiting = list(reversed(tasks))
    running: dict[Connection, tuple[SpawnProcess, Task]] = {}

    def give(connection: Connection, process: SpawnProcess) -> None:
        task = waiting.pop()
        running[connection] = process, task
        connection.send(task)

    def end(connection: Connection) -> None:
        process, _ = running.pop(connection)
        connection.close()
        process.terminate()
        process.join(WORKER_LEAVES_S)

    try:
        while waiting or running:
            while waiting and len(running) < n_jobs:
                give(*_started(folder, max(1, cpu_count() // n_jobs)))
            ready = wait(running)
            for connection in [each for each in running if each in ready]:
                process, task = running[connection]
                try:
                    event = connection.recv()
                except (EOFError, OSError):
                    process.join(WORKER_LEAVES_S)
                    event = Event(task, failure=_ending(process.exitcode))
                    end(connection)
                yield event
                if event.record is None and connection in running:
                    if waiting:
                        give(connection, process)
                    else:
                        end(connection)
    finally:
        for connection in list(running):
            end(connection)


def _ending(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"its process ended with code {exit_code}"
    name = signal.Signals(-exit_code).name
    return f"its process was ended by {name}" + ", perhaps for want of memory" * (name == "SIGKILL")


def _started(folder: Path | None, n_threads: int) -> tuple[Connection, SpawnProcess]:
    """Start a worker by spawning, so that thread settings hold from the first import."""
    context = get_context("spawn")
    connection, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, folder, n_threads), daemon=True)
    with _thread_settings(n_threads):
        process.start()
    theirs.close()
    return connection, process


def _serve(connection: Connection, folder: Path | None, n_threads: int) -> None:
    # Ctrl-C and a closed terminal signal every process; the one that writes the records handles them and ends this one
    # by SIGTERM.
    for number in STOPS:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    with threadpool_limits(limits=n_threads), suppress(EOFError, ConnectionError):
        while True:
            for event in events_of(connection.recv(), folder):
                connection.send(event)


@contextmanager
def _thread_settings(n_threads: int) -> Iterator[None]:
    """Let processes started inside inherit a number of threads, or a smaller one set by the user."""
    before = {name: os.environ[name] for name in THREAD_SETTINGS if name in os.environ}
    smaller = {name: value for name, value in before.items() if value.isdecimal() and 0 < int(value) < n_threads}
    os.environ.update(dict.fromkeys(THREAD_SETTINGS, str(n_threads)) | smaller)
    try:
        yield
    finally:
        for name in THREAD_SETTINGS:
            os.environ.pop(name)
        os.environ.update(before)


class Progress:
    """Rate and remaining time: one line that is updated on a terminal, a line for each case elsewhere."""

    def __init__(self, tasks: Sequence[Task], stream: IO[str]) -> None:
        self.line = ChangingLine(stream)
        self._n_cases, self._n_rounds = len(tasks), sum(len(task.rounds) for task in tasks)
        self._cases_done = 0
        self._start = self._told = monotonic()
        self._done: dict[Task, list[Record]] = {}

    def tell(self, event: Event) -> None:
        """Record an event and show it."""
        done = self._done.setdefault(event.task, [])
        if event.record is not None:
            done.append(event.record)
            if not self.line.changes or monotonic() - self._told < 0.1:
                return
        else:
            self._cases_done += 1
            self._n_rounds -= len(event.task.rounds) - len(done)  # failed rounds are no longer waited for
        self._told = monotonic()
        parts = [f"{self._cases_done}/{self._n_cases} cases", event.task.case.label]
        scores = [record["acc"] for record in done if "acc" in record]
        if scores and event.failure is None:
            parts.append(f"acc {100 * sum(scores) / len(scores):.1f}")
        parts += ["FAILED"] if event.failure else []
        if n_done := sum(map(len, self._done.values())):
            seconds = max(self._told - self._start, 1e-9)
            left = duration(seconds / n_done * (self._n_rounds - n_done))
            parts.append(f"{n_done / seconds:.1f} rounds/s, about {left} left")
        self.line.show(" | ".join(parts))


def duration(seconds: float) -> str:
    """Return seconds in a readable form, such as "3 min 20 s"."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
