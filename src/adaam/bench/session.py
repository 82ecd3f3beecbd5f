"""A session: what a plan lacks is run and recorded as it comes; an interrupt loses nothing and the next goes on."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import IO

from joblib import cpu_count

from adaam.bench.records import Record, RecordsFile, Task
from adaam.bench.run import versions
from adaam.bench.work import Event, parallel_events, serial_events
from adaam.interrupts import uninterrupted
from adaam.progress import ChangingLine

BATCH_S = 1.0  # at most this much work is lost to a kill that no program can catch


def run_tasks(
    tasks: Sequence[Task],
    records: RecordsFile,
    folder: Path | None,
    *,
    n_jobs: int = 1,
    stream: IO[str] | None = None,
    command: str | None = None,
) -> list[tuple[str, str]]:
    """Run tasks and append their records; return the cases that failed with their reasons, when the others are done.

    Records are written at least once a second, and always before this function is left. Progress is told on `stream`,
    or on standard error; `command` is what the user typed, for the record of the session.
    """
    if not tasks:
        return []
    progress = Progress(tasks, sys.stderr if stream is None else stream)
    records.append([session_record(n_jobs, command)])
    events = serial_events(tasks, folder) if n_jobs == 1 else parallel_events(tasks, folder, n_jobs)
    batch: list[Record] = []
    failures: list[tuple[str, str]] = []
    written = monotonic()

    def write() -> None:
        nonlocal batch, written
        with uninterrupted():
            records.append(batch)
            batch, written = [], monotonic()

    try:
        for event in events:
            if event.record is not None:
                batch.append(event.record)
            elif event.failure is not None:
                failures.append((event.task.case.label, event.failure))
            if event.is_end or monotonic() - written > BATCH_S:
                write()
            progress.tell(event)
    finally:
        events.close()
        progress.end()
        write()
    return failures


def session_record(n_jobs: int = 1, command: str | None = None) -> Record:
    """Where and by what the records that follow were made."""
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
        # A file that is tracked tells our own repository from one that merely contains an installation.
        return git("ls-files", "--error-unmatch", here.name) and git("describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.SubprocessError):
        return None


class Progress:
    """Rate and time left: one line that changes on a terminal, a line for each case elsewhere."""

    def __init__(self, tasks: Sequence[Task], stream: IO[str]) -> None:
        self._line = ChangingLine(stream)
        self._n_cases, self._n_rounds = len(tasks), sum(len(task.rounds) for task in tasks)
        self._cases_done = 0
        self._start = self._told = monotonic()
        self._done: dict[Task, list[Record]] = {}

    def tell(self, event: Event) -> None:
        """Take note of an event and show it."""
        done = self._done.setdefault(event.task, [])
        if event.record is not None:
            done.append(event.record)
            if not self._line.changes or monotonic() - self._told < 0.1:
                return
        else:
            self._cases_done += 1
            self._n_rounds -= len(event.task.rounds) - len(done)  # rounds that failed are not to be waited for
        self._told = monotonic()
        self._line.show(self._text(event, [record["acc"] for record in done if "acc" in record]))

    def end(self) -> None:
        """Leave the line."""
        self._line.end()

    def _text(self, event: Event, scores: list[float]) -> str:
        parts = [f"{self._cases_done}/{self._n_cases} cases", event.task.case.label]
        if event.failure is not None:
            parts.append("FAILED")
        elif scores:
            parts.append(f"acc {100 * sum(scores) / len(scores):.1f}")
        n_done, elapsed = sum(map(len, self._done.values())), monotonic() - self._start
        if n_done:
            left = elapsed / n_done * (self._n_rounds - n_done)
            parts.append(f"{n_done / max(elapsed, 1e-9):.1f} rounds/s, about {duration(left)} left")
        return " | ".join(parts)


def duration(seconds: float) -> str:
    """Return seconds as people say them.

    Examples
    --------
    >>> duration(7), duration(125), duration(7300)
    ('7 s', '2 min 5 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
