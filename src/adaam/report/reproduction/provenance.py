"""Where every number comes from: the sessions that made the records, and how each case was run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adaam.bench.datasets import title_of
from adaam.bench.records import identity
from adaam.report.summary import Record, Setting, method_title, setting_of, setting_order
from adaam.report.tables import MISSING, Cell, Table

UNKNOWN = "not recorded"


@dataclass(frozen=True, slots=True)
class Session:
    """One start of the command: when, where and by what the records after it were made."""

    facts: dict[str, str]
    n_records: int


def sessions(records: Sequence[Record]) -> list[Session]:
    """Return the sessions in their order; records before any session are told of as one of unknown origin."""
    heads: list[Record] = []
    counts: list[int] = []
    for record in records:
        is_head = record.get("kind") == "session"
        if is_head or not heads:
            heads.append(record)
            counts.append(0)
        counts[-1] += not is_head
    return [Session(facts_of(head), count) for head, count in zip(heads, counts, strict=True)]


def facts_of(head: Record) -> dict[str, str]:
    """Return what a session says of itself."""
    versions = dict(head.get("versions") or {})
    facts = {
        "command": head.get("command"),
        "started": head.get("started"),
        "adaam": versions.pop("adaam", None),
        "commit": head.get("commit"),
        "machine": ", ".join(str(head[name]) for name in ("machine", "system") if head.get(name)),
        "cases": head.get("jobs") and f"{head['jobs']} at a time, threads: {head.get('threads', 'default')}",
        "libraries": ", ".join(f"{name} {value}" for name, value in sorted(versions.items())),
    }
    return {name: str(value or UNKNOWN) for name, value in facts.items()}


def cases_table(records: Sequence[Record]) -> Table:
    """Return a line for every case of the records: how its numbers were made, and by which session."""
    latest: dict[tuple[Any, ...], tuple[int, Record]] = {}  # of records of the same round, the last counts
    session = 0
    for record in records:
        if record.get("kind") == "session":
            session += 1
        elif record.get("kind") in ("score", "histogram"):
            latest[identity(record)] = (max(session, 1), record)
    groups: dict[tuple[Setting, str], list[tuple[int, Record]]] = {}
    for number, record in latest.values():
        groups.setdefault((setting_of(record), record["kind"]), []).append((number, record))
    ordered = sorted(groups, key=lambda group: (*setting_order(group[0]), group[1]))
    rows = tuple(_row(setting, kind, groups[setting, kind]) for setting, kind in ordered)
    columns = ("data set", "method", "preparation", "shows", "rows", "k", "passes", "rounds", "seeds", "starts", "acc")
    note = (
        "A round depends on its seed alone. starts: k-means++ runs in each round; the one of least inertia counts. "
        "acc: average accuracy in percent."
    )
    return Table("cases", "Every case", (*columns, "session"), rows, 4, (note,))


def _row(setting: Setting, kind: str, found: Sequence[tuple[int, Record]]) -> tuple[Cell, ...]:
    numbers = sorted({number for number, _ in found})
    records = [record for _, record in found]
    seeds = sorted({int(record["seed"]) for record in records})
    accuracy = MISSING if kind == "histogram" else f"{100 * sum(each['acc'] for each in records) / len(records):.2f}"
    words = (
        title_of(setting.dataset),
        method_title(setting.method),
        setting.preparation,
        _shown(setting, kind),
        records[0]["n"],
        records[0]["k"],
        setting.n_iter,
        len(records),
        "–".join(map(str, dict.fromkeys((seeds[0], seeds[-1])))),
        records[0].get("n_starts", MISSING),
        accuracy,
        ", ".join(map(str, numbers)),
    )
    return tuple(Cell(str(word)) for word in words)


def _shown(setting: Setting, kind: str) -> str:
    if kind == "histogram":
        return "Fig. 1b"
    if setting.is_default:
        return "Table 1"
    if setting.n_rows is not None:
        return "Fig. 3"
    return "Fig. 1a" if setting.n_iter > 1 else "Fig. 2"
