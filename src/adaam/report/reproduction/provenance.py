"""Where every number comes from: the sessions that made the records, and how each case was run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adaam.bench.datasets import title_of
from adaam.bench.records import identity
from adaam.report.summary import Record, Setting, method_title, setting_order
from adaam.report.tables import Cell, Table

UNKNOWN = "not recorded"


@dataclass(frozen=True, slots=True)
class Session:
    """One start of the command: when, where and by what the records after it were made."""

    number: int
    facts: tuple[tuple[str, str], ...]
    n_records: int


def sessions(records: Sequence[Record]) -> list[Session]:
    """Return the sessions in their order; records before any session are told of as one of unknown origin."""
    heads: list[Record] = []
    counts: list[int] = []
    for record in records:
        if record.get("kind") == "session":
            heads.append(record)
            counts.append(0)
            continue
        if not heads:
            heads.append({"versions": record.get("versions", {})})
            counts.append(0)
        counts[-1] += 1
    return [Session(i + 1, facts_of(head), count) for i, (head, count) in enumerate(zip(heads, counts, strict=True))]


def facts_of(head: Record) -> tuple[tuple[str, str], ...]:
    """Return what a session says of itself, as pairs of words."""
    versions = dict(head.get("versions") or {})
    machine = ", ".join(str(head[name]) for name in ("machine", "system") if head.get(name))
    jobs = f"{head.get('jobs')} at a time, threads: {head.get('threads', 'default')}" if head.get("jobs") else UNKNOWN
    libraries = ", ".join(f"{name} {value}" for name, value in sorted(versions.items()) if name != "adaam")
    return (
        ("command", str(head.get("command") or UNKNOWN)),
        ("started", str(head.get("started") or UNKNOWN)),
        ("adaam", str(versions.get("adaam", UNKNOWN))),
        ("commit", str(head.get("commit") or UNKNOWN)),
        ("machine", machine or UNKNOWN),
        ("cases", jobs),
        ("libraries", libraries or UNKNOWN),
    )


def cases_table(records: Sequence[Record]) -> Table:
    """Return a line for every case of the records: how its numbers were made, and by which session."""
    groups: dict[tuple[str, Setting], dict[tuple[Any, ...], tuple[int, Record]]] = {}
    number = 0
    for record in records:
        kind = record.get("kind")
        if kind == "session":
            number += 1
        elif kind in ("score", "histogram"):
            setting = Setting(*(record[name] for name in Setting.__dataclass_fields__))
            groups.setdefault((kind, setting), {})[identity(record)] = (max(number, 1), record)
    ordered = sorted(groups.items(), key=lambda group: (*setting_order(group[0][1]), group[0][0]))
    rows = [_row(kind, setting, list(found.values())) for (kind, setting), found in ordered]
    columns = ("data set", "method", "preparation", "shows", "rows", "k", "passes", "rounds", "seeds", "starts", "acc")
    notes = (
        "A round depends on its seed alone. starts: k-means++ runs in each round; the one of least inertia counts. "
        "acc: average accuracy in percent.",
    )
    return Table("cases", "Every case", (*columns, "session"), tuple(rows), 4, notes)


def _row(kind: str, setting: Setting, found: list[tuple[int, Record]]) -> tuple[Cell, ...]:
    records = [record for _, record in found]
    seeds = sorted({int(record["seed"]) for record in records})
    numbers = sorted({number for number, _ in found})
    first = records[0]
    accuracy = "–" if kind == "histogram" else f"{100 * sum(record['acc'] for record in records) / len(records):.2f}"
    words = (
        title_of(setting.dataset),
        method_title(setting.method),
        setting.preparation,
        _shown(kind, setting),
        str(first["n"]),
        str(first["k"]),
        str(setting.n_iter),
        str(len(records)),
        str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]}–{seeds[-1]}",
        str(first.get("n_starts", "–")),
        accuracy,
        ", ".join(map(str, numbers)),
    )
    return tuple(map(Cell, words))


def _shown(kind: str, setting: Setting) -> str:
    if kind == "histogram":
        return "Fig. 1b"
    if setting.is_default:
        return "Table 1"
    if setting.n_rows is not None:
        return "Fig. 3"
    return "Fig. 1a" if setting.n_iter > 1 else "Fig. 2"
