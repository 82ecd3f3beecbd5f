"""A protocol as data: which cases to run, read from a TOML file and expanded."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
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
        for dataset in self.datasets:
            for name in self.methods:
                method = METHODS[name]
                rounds = self._rounds(method)
                for preparation in method.preparations:
                    if preparation not in self.preparations:
                        continue
                    for n_rows, k, n_iter in self._settings():
                        size = sizes.get(dataset)
                        if self._fits(name, n_rows or size) and (n_rows is None or size is None or n_rows <= size):
                            yield PlanCase(
                                dataset, name, preparation, rounds, plan.seed, plan.starts, self.kind, k, n_rows, n_iter
                            )

    def _rounds(self, method: Method) -> int:
        if self.kind == "histogram":
            return 1  # nothing in it is random
        return n_rounds_of(method, self.refits if method.is_refitted else self.rounds)

    def _settings(self) -> Iterator[tuple[int | None, int | None, int]]:
        for n_rows in self.n_rows:
            for k in self.n_neighbors:
                for n_iter in self.n_iter:
                    yield n_rows, k, n_iter

    def _fits(self, method: str, n_rows: int | None) -> bool:
        limits = (self.max_rows.get(method), METHODS[method].max_rows)
        return n_rows is None or all(limit is None or n_rows <= limit for limit in limits)


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
    """Read one of the library's own plans by its name, or a file.

    Parameters
    ----------
    source : str or Path
        "paper", "digits" or a TOML file.
    quick : bool, default=False
        Take the `quick` settings of each experiment in place of its own, for a first look.

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
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{name}: is not TOML: {error}.") from error
    return _Reader(name).plan(content, quick)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        own = " and ".join(OWN_PLANS)
        raise PlanError(f"{path}: cannot be read as a plan: {error}. (The library's own are {own}.)") from error


@dataclass(frozen=True, slots=True)
class _Reader:
    """Checks that name the key, its value and the way out."""

    source: str

    def plan(self, content: dict[str, Any], quick: bool) -> Plan:
        self.known("", content, {"title", "seed", "starts", "rounds", "refits", "experiments"})
        tables = content.get("experiments")
        if not isinstance(tables, dict) or not tables:
            raise self.refused("experiments", tables, "a plan needs at least one table [experiments.NAME]")
        shared = {
            "rounds": self.whole("rounds", content.get("rounds", 100)),
            "refits": self.whole("refits", content.get("refits", content.get("rounds", 100))),
        }
        experiments = [self.experiment(name, table, shared, quick) for name, table in tables.items()]
        return Plan(
            Path(self.source).stem,
            str(content.get("title", Path(self.source).stem)),
            self.whole("seed", content.get("seed", 0), at_least=0),
            self.whole("starts", content.get("starts", 10)),
            tuple(each for each in experiments if each is not None),
        )

    def experiment(self, name: str, table: Any, shared: dict[str, int], quick: bool) -> Experiment | None:
        where = f"experiments.{name}"
        if not isinstance(table, dict):
            raise self.refused(where, table, "it must be a table of settings")
        keys = set(Experiment.__dataclass_fields__) - {"name"}
        self.known(where, table, keys | {"quick"})
        faster = table.get("quick", {})
        if faster is False and quick:
            return None
        if not isinstance(faster, dict):
            if faster is not False:
                raise self.refused(f"{where}.quick", faster, "use a table, or false")
            faster = {}
        self.known(f"{where}.quick", faster, keys)
        # Both are checked, so that a fault in the settings for a first look is not found on some other day.
        plain = self.settings(where, shared | {key: value for key, value in table.items() if key != "quick"}, name)
        hurried = self.settings(where, shared | {k: v for k, v in (table | faster).items() if k != "quick"}, name)
        return hurried if quick else plain

    def settings(self, where: str, table: dict[str, Any], name: str) -> Experiment:
        values: dict[str, Any] = {"name": name}
        for key in ("datasets", "methods"):
            values[key] = self.words(f"{where}.{key}", table.get(key))
        for key in ("rounds", "refits"):
            values[key] = self.whole(f"{where}.{key}", table[key])
        for key in ("n_neighbors", "n_rows", "n_iter"):
            if key in table:
                numbers = self.several(f"{where}.{key}", table[key])
                values[key] = tuple(self.whole(f"{where}.{key}", value) for value in numbers)
        if "preparations" in table:
            values["preparations"] = self.words(f"{where}.preparations", table["preparations"])
        if "kind" in table:
            values["kind"] = table["kind"]
        values["max_rows"] = self.limits(f"{where}.max_rows", table.get("max_rows", {}))
        for key, known in (("methods", tuple(METHODS)), ("preparations", get_args(PreparationName))):
            for word in values.get(key, ()):
                self.one_of(f"{where}.{key}", word, known)
        self.one_of(f"{where}.kind", values.get("kind", "score"), get_args(Kind))
        if values.get("kind") == "histogram" and values["methods"] != ("adaam",):
            raise self.refused(
                f"{where}.methods", list(values["methods"]), 'the histogram is of AdaAM alone: use ["adaam"]'
            )
        return Experiment(**values)

    def limits(self, key: str, value: Any) -> dict[str, int]:
        if not isinstance(value, dict):
            raise self.refused(key, value, "it must be a table of a number of rows for each method")
        for method in value:
            self.one_of(key, method, tuple(METHODS))
        return {method: self.whole(f"{key}.{method}", limit) for method, limit in value.items()}

    def known(self, where: str, table: dict[str, Any], keys: set[str]) -> None:
        for key in table:
            if key not in keys:
                place = f"{where}.{key}" if where else key
                raise self.refused(place, table[key], f"this key is not known; use one of {', '.join(sorted(keys))}")

    def words(self, key: str, value: Any) -> tuple[str, ...]:
        words = self.several(key, value)
        if not all(isinstance(word, str) for word in words):
            raise self.refused(key, value, "it must be a list of names")
        return tuple(dict.fromkeys(words))

    def several(self, key: str, value: Any) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise self.refused(key, value, "it must be a list with at least one entry")
        return list(value)

    def whole(self, key: str, value: Any, *, at_least: int = 1) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise self.refused(key, value, f"it must be a whole number >= {at_least}")
        return int(value)

    def one_of(self, key: str, value: Any, known: tuple[str, ...]) -> None:
        if value not in known:
            raise self.refused(key, value, f"use one of {', '.join(known)}")

    def refused(self, key: str, value: Any, remedy: str) -> PlanError:
        shown = "is missing" if value is None else f"= {value!r}"
        return PlanError(f"{self.source}: {key} {shown}: {remedy}.")
