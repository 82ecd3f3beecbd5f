"""The commands of the paper's evaluation: `reproduce` and `report`."""

import os
import shlex
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adaam.bench.data_files import DataFileError
from adaam.bench.datasets import data_folder, find_files
from adaam.bench.exhibit import FOLDER, Exhibit, ExhibitError, make_exhibits, read_exhibit
from adaam.bench.methods import METHODS
from adaam.bench.plan import Plan, PlanError, read_plan
from adaam.bench.records import RecordsError, RecordsFile, identity, missing, read_records, skip_record
from adaam.bench.session import run_tasks
from adaam.cli.commands import say
from adaam.cli.outputs import check_folder
from adaam.cli.streams import show
from adaam.files import atomic_file
from adaam.report.charts import all_charts
from adaam.report.figures import write_chart
from adaam.report.page import NAME as PAGE
from adaam.report.page import write_page
from adaam.report.summary import by_dataset, summaries
from adaam.report.tables import RENDERERS, all_tables, text
from adaam.tables import counted

RECORDS = "records.jsonl"


def reproduce(arguments: Namespace) -> None:
    """Run the missing cases of a plan, and write tables, figures and the page."""
    for name in ("jobs", "rounds"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise PlanError(f"--{name} {value} is too small; use 1 or more.")
    folder = data_folder(arguments.data)
    plan = available(chosen_plan(arguments, folder), folder, required=arguments.datasets is not None)
    out = Path(arguments.out)
    check_folder(out, (RECORDS,), force=arguments.force)
    out.mkdir(parents=True, exist_ok=True)

    with RecordsFile(out / RECORDS) as records:
        if records.torn_bytes:
            torn = f"{records.torn_bytes} bytes of a record cut short were set aside in {records.torn_path.name}"
            say(f"{records.path}: {torn}; it will be run again.")
        lacking = {case: METHODS[case.method].lacking for case in plan.cases}
        ready = [case for case, reason in lacking.items() if reason is None]
        left_out = [skip_record(case, reason) for case, reason in lacking.items() if reason]
        for reason in dict.fromkeys(record["reason"] for record in left_out):
            say(f"left out: {reason}")
        if not ready:
            raise PlanError("no case of the plan can be run here.")
        known = set(map(identity, records.records))
        records.append([record for record in left_out if identity(record) not in known])
        tasks = missing(ready, records.records)
        say(f"{plan.title}: {len(ready)} cases, {len(ready) - len(tasks)} of them done before.")
        try:
            failed_cases = run_tasks(tasks, records, folder, n_jobs=arguments.jobs, command=command_of(arguments))
            failed_exhibits = make_exhibits(plan.cases, folder, out / FOLDER, say)
        except KeyboardInterrupt:
            say(f"stopped; all finished rounds are in {records.path}, and the same command goes on from there.")
            raise
        write_report(records.records, out, exhibits=out / FOLDER)
    if failed_cases or failed_exhibits:
        kinds = ((failed_cases, "case"), (failed_exhibits, "exhibit"))
        counts = " and ".join(f"{counted(len(failed), noun)} failed" for failed, noun in kinds if failed)
        details = "\n".join(f"  {name}: {reason}" for name, reason in [*failed_cases, *failed_exhibits])
        raise ValueError(f"{counts}; the same command tries again:\n{details}")


def report(arguments: Namespace) -> None:
    """Redraw tables, figures and the page from records and the exhibits beside them."""
    source = Path(arguments.records)
    source = source / RECORDS if source.is_dir() else source
    if not source.is_file():
        raise RecordsError(f"{source}: no such file. Give a records file, or a folder that adaam reproduce wrote.")
    reading = read_records(source)
    if reading.torn_bytes:
        say(f"{source}: {reading.torn_bytes} bytes of a record cut short were left out.")
    if not reading.records:
        raise RecordsError(f"{source}: holds no records.")
    out = Path(arguments.out) if arguments.out else source.parent
    check_folder(out, (RECORDS, source.name, PAGE), force=arguments.force)
    out.mkdir(parents=True, exist_ok=True)
    write_report(reading.records, out, exhibits=source.parent / FOLDER)


def chosen_plan(arguments: Namespace, folder: Path | None) -> Plan:
    """Read the plan and return the part that the options select."""
    whole = read_plan(arguments.plan or ("digits" if folder is None else "paper"), quick=arguments.quick)
    for name in arguments.methods or ():
        if name not in METHODS:
            raise PlanError(f"--methods {name}: is not known; use some of {', '.join(METHODS)}.")
    for name in arguments.datasets or ():
        if name not in whole.datasets:
            raise PlanError(f"--datasets {name}: is not in the plan; it has {', '.join(whole.datasets)}.")
    plan = whole.narrowed(arguments.datasets, arguments.methods, arguments.rounds)
    if not plan.cases:
        methods = dict.fromkeys(case.method for case in whole.cases)
        raise PlanError(f"nothing of the plan is left; it has the methods {', '.join(methods)}.")
    return plan


def available(plan: Plan, folder: Path | None, *, required: bool) -> Plan:
    """Return the plan with the data sets that are available; if `required`, all must be."""
    there = []
    for name in plan.datasets:
        try:
            find_files(name, folder)
            there.append(name)
        except DataFileError as error:
            if required:
                raise
            say(f"left out: {error}")
    if not there:
        raise DataFileError(f"none of the plan's data sets is at hand: {', '.join(plan.datasets)}. See: adaam datasets")
    return plan.narrowed(datasets=there)


def command_of(arguments: Namespace) -> str:
    """Return the command as someone else would type it, without the user's own folders."""
    words = ["adaam", "reproduce"]
    if arguments.data or os.environ.get("ADAAM_DATA"):
        words += ["--data", "FOLDER"]
    if arguments.plan:
        words += ["--plan", Path(arguments.plan).name]
    if arguments.quick:
        words += ["--quick"]
    for name, usual in (("datasets", None), ("methods", None), ("rounds", None), ("jobs", 1)):
        value = getattr(arguments, name)
        if value not in (usual, []):
            words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return shlex.join(words)


def write_report(records: list[dict[str, Any]], out: Path, *, exhibits: Path) -> None:
    """Write every table in every format, every figure, and the page; then print the first table.

    Outputs that cannot be written raise an error at the end, after all others.
    """
    tables, failures = all_tables(records), list[str]()
    for table in tables:
        for ending, render in RENDERERS.items():
            with noted(failures), atomic_file(out / f"{table.name}{ending}") as stream:
                stream.write(render(table).encode())
    written = [f"{table.name}.{{{','.join(ending[1:] for ending in RENDERERS)}}}" for table in tables]
    try:
        for chart in all_charts(records):
            with noted(failures):
                write_chart(chart, out)
                written.append(f"{chart.name}.{{png,pdf}}")
    except ImportError as error:
        say(f"figures were left out. {error}")
    try:
        with noted(failures):
            say(f"to look at: {write_page(records, stored_exhibits(records, exhibits), out)}")
    except ImportError as error:
        say(f"the page was left out. {error}")
    if tables:  # the reader of standard output may close it
        show(text(tables[0]))
    if failures:
        raise OSError(f"{counted(len(failures), 'output')} could not be written: {'; '.join(failures)}")
    say(f"wrote to {out}: {', '.join(written)}" if written else f"{out}: there is nothing to show yet.")


@contextmanager
def noted(failures: list[str]) -> Iterator[None]:
    """Record the error of an output that cannot be written, so that the others still are."""
    try:
        yield
    except OSError as error:
        failures.append(str(error))


def stored_exhibits(records: list[dict[str, Any]], folder: Path) -> list[Exhibit]:
    """Read the exhibits of the data sets in the records; an unreadable one is reported and left out."""
    found = []
    for name in by_dataset(summaries(records)):
        try:
            found.append(read_exhibit(folder, name))
        except ExhibitError as error:
            say(f"left out: {error}")
    return [exhibit for exhibit in found if exhibit is not None]
