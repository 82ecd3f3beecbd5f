"""A protocol as data: which cases to run, read from a TOML file and expanded."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

from adaam.bench.methods import METHODS, PreparationName
from adaam.bench.run import n_rounds_of

Kind = Literal["score", "histogram"]
OWN_PLANS = ("paper", "digits")


class PlanError(ValueError):
    """A plan cannot be read or makes no sense."""


@dataclass(frozen=True, slots=True)
class PlanCase:
    """One fit and its rounds; None means the paper's rule (n_neighbors) or all rows (n_rows)."""

    dataset: str
    method: str
    preparation: PreparationName
    rounds: int
    seed: int
    n_starts: int
    kind: Kind = "score"
    n_neighbors: int | None = None
    n_rows: int | None = None
    n_iter: int = 1

    @property
    def label(self) -> str:
        """How the case is named to people."""
        settings = {"k": self.n_neighbors, "n": self.n_rows, "passes": self.n_iter if self.n_iter > 1 else None}
        told = [f"{name}={value}" for name, value in settings.items() if value is not None]
        return " ".join([self.dataset, self.method, self.preparation, *told, *(["histogram"] * (self.kind != "score"))])


@dataclass(frozen=True, slots=True)
class Experiment:
    """Data sets x methods x preparations x settings, each combination a case."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    rounds: int
    refits: int  # rounds of methods that are fitted anew in each
    preparations: tuple[PreparationName, ...] = get_args(PreparationName)
    kind: Kind = "score"
    n_neighbors: tuple[int | None, ...] = (None,)
    n_rows: tuple[int | None, ...] = (None,)
    n_iter: tuple[int, ...] = (1,)
    max_rows: Mapping[str, int] = field(default_factory=dict)  # by method

    def cases(self, plan: "Plan", sizes: Mapping[str, int]) -> Iterator[PlanCase]:
        """Expand, leaving out what has more rows than a method can take or than there are."""
        combined = (self.datasets, self.methods, get_args(PreparationName), self.n_rows, self.n_neighbors, self.n_iter)
        for dataset, name, preparation, n_rows, k, n_iter in product(*combined):
            method, size = METHODS[name], sizes.get(dataset)
            n, limits = n_rows or size, (size, method.max_rows, self.max_rows.get(name))
            fits = n is None or all(limit is None or n <= limit for limit in limits)
            if fits and preparation in method.preparations and preparation in self.preparations:
                rounds = n_rounds_of(method, self.refits if method.is_refitted else self.rounds)
                rounds = 1 if self.kind == "histogram" else rounds  # nothing in it is random
                yield PlanCase(dataset, name, preparation, rounds, plan.seed, plan.starts, self.kind, k, n_rows, n_iter)


@dataclass(frozen=True, slots=True)
class Plan:
    """A title, the seed and number of k-means++ runs a round, and the experiments."""

    title: str
    seed: int
    starts: int
    experiments: tuple[Experiment, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Data sets in order of first use."""
        return tuple(dict.fromkeys(name for each in self.experiments for name in each.datasets))

    def cases(self, sizes: Mapping[str, int] | None = None) -> list[PlanCase]:
        """Return all cases in order; one that several experiments share is run once, with the most rounds."""
        found: dict[PlanCase, PlanCase] = {}
        for experiment in self.experiments:
            for case in experiment.cases(self, sizes or {}):
                alike = replace(case, rounds=0)
                if alike not in found or found[alike].rounds < case.rounds:
                    found[alike] = case
        return list(found.values())

    def narrowed(
        self,
        datasets: Sequence[str] | None = None,
        methods: Sequence[str] | None = None,
        rounds: int | None = None,
    ) -> "Plan":
        """Return the part of the plan with these data sets and methods, and at most so many rounds."""
        experiments = tuple(
            replace(
                each,
                datasets=tuple(name for name in each.datasets if datasets is None or name in datasets),
                methods=tuple(name for name in each.methods if methods is None or name in methods),
                rounds=each.rounds if rounds is None else min(rounds, each.rounds),
                refits=each.refits if rounds is None else min(rounds, each.refits),
            )
            for each in self.experiments
        )
        return replace(self, experiments=tuple(each for each in experiments if each.datasets and each.methods))


def read_plan(source: str | Path, *, quick: bool = False) -> Plan:
    """Read one of the library's own plans by its name ("paper", "digits"), or a TOML file.

    `quick` takes the `quick` settings of each experiment in place of its own, for a first look.

    Examples
    --------
    >>> read_plan("paper").datasets
    ('umist', 'coil20', 'usps', 'mnist10k', 'exyaleb', 'mnist')
    """
    own = files("adaam.bench") / "plans" / f"{source}.toml"
    try:
        text = (own if source in OWN_PLANS else Path(source)).read_text(encoding="utf-8")
        return _plan(Path(source).stem, tomllib.loads(text), quick)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{source}: is not TOML: {error}.") from error
    except PlanError as error:
        raise PlanError(f"{source}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        known = " and ".join(OWN_PLANS)
        raise PlanError(f"{source}: cannot be read as a plan: {error}. (The library's own are {known}.)") from error


Readers = Mapping[str, Callable[[str, Any], Any]]


def _read(where: str, table: Any, readers: Readers) -> dict[str, Any]:
    """Read the values of a table, each by the reader of its key."""
    if not isinstance(table, dict):
        raise _refused(where, table, "it must be a table of settings")
    values = {}
    for key, value in table.items():
        place = f"{where}.{key}" if where else key
        if key not in readers:
            raise _refused(place, value, f"this key is not known; use one of {', '.join(sorted(readers))}")
        values[key] = readers[key](place, value)
    return values


def _plan(stem: str, content: dict[str, Any], quick: bool) -> Plan:
    required = {"experiments": content.get("experiments")}
    usual: dict[str, Any] = {"title": stem, "seed": 0, "starts": 10, "rounds": 100}
    given = usual | _read("", content | required, PLAN)
    shared = {"rounds": given["rounds"], "refits": given.get("refits", given["rounds"])}
    experiments = [
        Experiment(**settings)
        for name, table in given["experiments"].items()
        if (settings := _settings(f"experiments.{name}", table, shared, quick))
    ]
    return Plan(given["title"], given["seed"], given["starts"], tuple(experiments))


def _settings(where: str, table: Any, shared: dict[str, int], quick: bool) -> dict[str, Any]:
    """Settings of an experiment; none for one that is left out of a first look."""
    if not isinstance(table, dict):
        raise _refused(where, table, "it must be a table of settings")
    faster = table.get("quick", {})
    if faster is not False and not isinstance(faster, dict):
        raise _refused(f"{where}.quick", faster, "use a table, or false")
    required = {"datasets": None, "methods": None}
    own = {key: value for key, value in table.items() if key != "quick"}
    # Both are checked, so that a fault in the settings for a first look is not found on some other day.
    plain = shared | _read(where, required | own, SETTINGS)
    hurried = plain | _read(f"{where}.quick", faster or {}, SETTINGS)
    for values in (plain, hurried):
        if values.get("kind") == "histogram" and values["methods"] != ("adaam",):
            methods = list(values["methods"])
            raise _refused(f"{where}.methods", methods, 'the histogram is of AdaAM alone: use ["adaam"]')
    if not quick:
        return plain
    return {} if faster is False else hurried


def _tables(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise _refused(key, value, "a plan needs at least one table [experiments.NAME]")
    return value


def _several(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise _refused(key, value, "it must be a list with at least one entry")
    return value


def _words(key: str, value: Any, known: Iterable[str] | None = None) -> tuple[str, ...]:
    words = _several(key, value)
    if not all(isinstance(word, str) for word in words):
        raise _refused(key, value, "it must be a list of names")
    return tuple(dict.fromkeys(word if known is None else _one_of(key, word, known) for word in words))


def _whole(key: str, value: Any, *, at_least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise _refused(key, value, f"it must be a whole number >= {at_least}")
    return value


def _wholes(key: str, value: Any) -> tuple[int, ...]:
    return tuple(_whole(key, each) for each in _several(key, value))


def _limits(key: str, value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        raise _refused(key, value, "it must be a table of a number of rows for each method")
    return {_one_of(key, method, METHODS): _whole(f"{key}.{method}", limit) for method, limit in value.items()}


def _one_of(key: str, value: Any, known: Iterable[str]) -> str:
    if value not in list(known):
        raise _refused(key, value, f"use one of {', '.join(known)}")
    return str(value)


def _refused(key: str, value: Any, remedy: str) -> PlanError:
    """Name the key, its value and the way out."""
    shown = "is missing" if value is None else f"= {value!r}"
    return PlanError(f"{key} {shown}: {remedy}.")


# How each setting of a plan, and of an experiment, is read.
ROUNDS: Readers = dict.fromkeys(("rounds", "refits"), _whole)
PLAN: Readers = {
    **ROUNDS,
    "title": lambda _, value: str(value),
    "seed": partial(_whole, at_least=0),
    "starts": _whole,
    "experiments": _tables,
}
SETTINGS: Readers = {
    **ROUNDS,
    "datasets": _words,
    "methods": partial(_words, known=METHODS),
    "preparations": partial(_words, known=get_args(PreparationName)),
    "kind": partial(_one_of, known=get_args(Kind)),
    **dict.fromkeys(("n_neighbors", "n_rows", "n_iter"), _wholes),
    "max_rows": _limits,
}
