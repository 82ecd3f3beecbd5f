"""Where every number comes from: the sessions that made the records, and how each case was run."""

from collections.abc import Sequence
from typing import Any

from adaam.bench.datasets import title_of
from adaam.bench.records import identity
from adaam.report.summary import Record, Setting, method_title, setting_of, setting_order
from adaam.report.tables import MISSING, Cell, Table

UNKNOWN = "not recorded"


def sessions(records: Sequence[Record]) -> list[tuple[dict[str, str], int]]:
    """Return what each session says of itself and the number of its records; those before any are of unknown origin."""
    found: list[tuple[dict[str, str], int]] = []
    for record in records:
        is_head = record.get("kind") == "session"
        if is_head or not found:
            found.append((facts_of(record), 0))
        found[-1] = (found[-1][0], found[-1][1] + (not is_head))
    return found


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
    rows = []
    for setting, kind in sorted(groups, key=lambda group: (*setting_order(group[0]), group[1])):
        numbers, found = zip(*groups[setting, kind], strict=True)
        seeds = sorted({int(record["seed"]) for record in found})
        is_score = kind == "score"
        words = (
            title_of(setting.dataset),
            method_title(setting.method),
            setting.preparation,
            _shown(setting) if is_score else "Fig. 1b",
            found[0]["n"],
            found[0]["k"],
            setting.n_iter,
            len(found),
            "–".join(map(str, dict.fromkeys((seeds[0], seeds[-1])))),
            found[0].get("n_starts", MISSING),
            f"{100 * sum(each['acc'] for each in found) / len(found):.2f}" if is_score else MISSING,
            ", ".join(map(str, sorted(set(numbers)))),
        )
        rows.append(tuple(Cell(str(word)) for word in words))
    columns = ("data set", "method", "preparation", "shows", "rows", "k", "passes", "rounds", "seeds", "starts", "acc")
    note = (
        "A round depends on its seed alone. starts: k-means++ runs in each round; the one of least inertia counts. "
        "acc: average accuracy in percent."
    )
    return Table("cases", "Every case", (*columns, "session"), tuple(rows), 4, (note,))


def _shown(setting: Setting) -> str:
    """Where the page shows a case."""
    if setting.is_default:
        return "Table 1"
    if setting.n_rows is not None:
        return "Fig. 3"
    return "Fig. 1a" if setting.n_iter > 1 else "Fig. 2"
