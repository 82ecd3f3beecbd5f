"""Summaries of records by case: average, maximum and spread over rounds, and the paper's results."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple, get_args

import numpy as np

from adaam.bench.datasets import DATASETS
from adaam.bench.methods import METHODS, PreparationName
from adaam.bench.records import identity

Record = Mapping[str, Any]
LISTED = [*DATASETS, *METHODS, *get_args(PreparationName)]
PAPER: dict[str, Any] = tomllib.loads((files("adaam.report") / "paper.toml").read_text(encoding="utf-8"))


class Setting(NamedTuple):
    """The fields of a record that identify its case."""

    dataset: str
    method: str
    preparation: str
    n_neighbors: int | None = None
    n_rows: int | None = None
    n_iter: int = 1

    @property
    def row(self) -> tuple[str, str]:
        """Method and preparation: a row of a table, a line of a figure."""
        return self.method, self.preparation

    @property
    def is_default(self) -> bool:
        """Whether all rows, the paper's k and one pass were used, as in Table 1."""
        return self[3:] == (None, None, 1)


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of the rounds of one case: scores as fractions, times in seconds, memory in bytes."""

    setting: Setting
    n: int
    d: int
    c: int
    k: int
    rounds: int
    average: float
    maximum: float
    spread: float  # standard deviation over rounds; 0 for one round
    nmi: float
    ari: float
    fit_seconds: float  # median over the fits
    peak_bytes: int | None


def setting_of(record: Record) -> Setting:
    """Return the case of a record."""
    return Setting._make(map(record.get, Setting._fields))


def distinct(records: Iterable[Record], kind: str = "score") -> list[Record]:
    """Return the records of one kind; of several records of the same round, the last counts."""
    found = {identity(record): record for record in records if record.get("kind") == kind}
    return list(found.values())


def summaries(records: Iterable[Record]) -> list[Summary]:
    """Summarise the rounds of each case, in the library's order of data sets and methods."""
    groups: dict[Setting, list[Record]] = {}
    for record in distinct(records):
        groups.setdefault(setting_of(record), []).append(record)
    found = []
    for setting in sorted(groups, key=setting_order):
        rounds = groups[setting]
        names = ("acc", "nmi", "ari", "fit_seconds")
        acc, nmi, ari, seconds = (np.array([record[name] for record in rounds]) for name in names)
        peaks = [record["peak_bytes"] for record in rounds if record.get("peak_bytes") is not None]
        found.append(
            Summary(
                setting,
                **{name: int(rounds[0][name]) for name in "ndck"},
                rounds=len(rounds),
                average=float(acc.mean()),
                maximum=float(acc.max()),
                spread=float(acc.std(ddof=1)) if len(acc) > 1 else 0.0,
                nmi=float(nmi.mean()),
                ari=float(ari.mean()),
                fit_seconds=float(np.median(seconds)),
                peak_bytes=max(peaks, default=None),
            )
        )
    return found


def default_summaries(records: Iterable[Record]) -> list[Summary]:
    """Return the summaries of the cases that Table 1 shows."""
    return [each for each in summaries(records) if each.setting.is_default]


def by_dataset(found: Iterable[Summary]) -> dict[str, list[Summary]]:
    """Group summaries by data set, in the order in which these come."""
    groups: dict[str, list[Summary]] = {}
    for each in found:
        groups.setdefault(each.setting.dataset, []).append(each)
    return groups


def timed_alone(records: Iterable[Record]) -> tuple[list[Record], str]:
    """Return the records whose times can be compared, and the machine they were taken on.

    These are from sessions that ran one case at a time, since concurrent fits slow each other down, and from the
    machine with most such records. Records without a session count as records of one machine.
    """
    groups: dict[str, list[Record]] = {}
    machine, is_alone = "", True
    for record in records:
        if record.get("kind") == "session":
            machine, is_alone = str(record.get("machine") or ""), record.get("jobs", 1) in (1, None)
        elif is_alone:
            groups.setdefault(machine, []).append(record)
    machine = max(groups, key=lambda name: len(groups[name]), default="")
    return groups.get(machine, []), machine


def row_order(method: str, preparation: str) -> tuple[Any, ...]:
    """Sort key of a method's row: the library's order of methods, then of preparations."""
    return (*_place(method), *_place(preparation))


def setting_order(setting: Setting) -> tuple[Any, ...]:
    """Sort key of a case: the library's order of data sets, then of methods and preparations, then of settings."""
    settings = (setting.n_rows or 0, setting.n_neighbors or 0, setting.n_iter)
    return (*_place(setting.dataset), *row_order(*setting.row), *settings)


def _place(name: str) -> tuple[int, str]:
    """Sort key of a name: those the library lists in its order, then others alphabetically."""
    return (LISTED.index(name) if name in LISTED else len(LISTED), name)


def paper_accuracy(dataset: str, method: str) -> tuple[float | None, float | None]:
    """Return the paper's average and maximum in per cent, None for what it lacks."""
    values = PAPER["table1"].get(dataset, {}).get(method, [])
    return (*values, None, None)[:2]


def method_title(name: str) -> str:
    """Return the title of a method."""
    return METHODS[name].title if name in METHODS else name


def method_colors() -> dict[str, int]:
    """Return each method's index in the palette, by its title: the same colour in every figure."""
    return {method.title: place for place, method in enumerate(METHODS.values())}
