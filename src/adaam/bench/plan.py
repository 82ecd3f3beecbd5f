"""A protocol as data: which cases to run, read from a TOML file and expanded."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

from adaam.bench.methods import METHODS, Method, PreparationName
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

    name: str
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
                rounds = self._rounds(method)
                yield PlanCase(dataset, name, preparation, rounds, plan.seed, plan.starts, self.kind, k, n_rows, n_iter)

    def _rounds(self, method: Method) -> int:
        if self.kind == "histogram":
            return 1  # nothing in it is random
        return n_rounds_of(method, self.refits if method.is_refitted else self.rounds)


@dataclass(frozen=True, slots=True)
class Plan:
    """A title, the seed and number of k-means++ runs a round, and the experiments."""

    name: str
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
        datasets: tuple[str, ...] | None = None,
        methods: tuple[str, ...] | None = None,
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
    name = str(source)
    if name in OWN_PLANS:
        text = (files("adaam.bench") / "plans" / f"{name}.toml").read_text(encoding="utf-8")
    else:
        text = _text_of(Path(source))
    try:
        return _plan(Path(name).stem, tomllib.loads(text), quick)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{name}: is not TOML: {error}.") from error
    except PlanError as error:
        raise PlanError(f"{name}: {error}") from error


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        own = " and ".join(OWN_PLANS)
        raise PlanError(f"{path}: cannot be read as a plan: {error}. (The library's own are {own}.)") from error


def _plan(stem: str, content: dict[str, Any], quick: bool) -> Plan:
    _check_known("", content, ("title", "seed", "starts", "rounds", "refits", "experiments"))
    tables = content.get("experiments")
    if not isinstance(tables, dict) or not tables:
        raise _refused("experiments", tables, "a plan needs at least one table [experiments.NAME]")
    rounds = content.get("rounds", 100)
    shared = {"rounds": _whole("rounds", rounds), "refits": _whole("refits", content.get("refits", rounds))}
    experiments = [_experiment(name, table, shared, quick) for name, table in tables.items()]
    return Plan(
        stem,
        str(content.get("title", stem)),
        _whole("seed", content.get("seed", 0), at_least=0),
        _whole("starts", content.get("starts", 10)),
        tuple(each for each in experiments if each is not None),
    )


def _experiment(name: str, table: Any, shared: dict[str, int], quick: bool) -> Experiment | None:
    where = f"experiments.{name}"
    if not isinstance(table, dict):
        raise _refused(where, table, "it must be a table of settings")
    _check_known(where, table, (*SETTINGS, "quick"))
    own = {key: value for key, value in (shared | table).items() if key != "quick"}
    faster = table.get("quick", {})
    if faster is False:
        if quick:
            return None
        faster = {}
    if not isinstance(faster, dict):
        raise _refused(f"{where}.quick", faster, "use a table, or false")
    _check_known(f"{where}.quick", faster, SETTINGS)
    # Both are checked, so that a fault in the settings for a first look is not found on some other day.
    plain, hurried = (Experiment(name, **_settings(where, each)) for each in (own, own | faster))
    return hurried if quick else plain


def _settings(where: str, table: dict[str, Any]) -> dict[str, Any]:
    required = {"datasets": None, "methods": None}
    values = {key: SETTINGS[key](f"{where}.{key}", value) for key, value in (required | table).items()}
    if values.get("kind") == "histogram" and values["methods"] != ("adaam",):
        methods = list(values["methods"])
        raise _refused(f"{where}.methods", methods, 'the histogram is of AdaAM alone: use ["adaam"]')
    return values


def _check_known(where: str, table: dict[str, Any], keys: Iterable[str]) -> None:
    for key in table:
        if key not in keys:
            place = f"{where}.{key}" if where else key
            raise _refused(place, table[key], f"this key is not known; use one of {', '.join(sorted(keys))}")


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


# How each setting of an experiment is read.
SETTINGS: dict[str, Callable[[str, Any], Any]] = {
    "datasets": _words,
    "methods": partial(_words, known=METHODS),
    "preparations": partial(_words, known=get_args(PreparationName)),
    "kind": partial(_one_of, known=get_args(Kind)),
    **dict.fromkeys(("rounds", "refits"), _whole),
    **dict.fromkeys(("n_neighbors", "n_rows", "n_iter"), _wholes),
    "max_rows": _limits,
}
