"""Plans: which cases to run, read from a TOML file and expanded."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Literal, get_args

from adaam.bench.datasets import DATASETS
from adaam.bench.methods import METHODS, PreparationName

Kind = Literal["score", "histogram"]
OWN_PLANS = ("paper", "digits")

Rule = tuple[Callable[[Any], object], str]  # predicate of valid values, and the remedy for others


def _among(known: Iterable[str]) -> Rule:
    names = list(known)
    return names.__contains__, f"use one of {', '.join(names)}"


def _from(least: int) -> Rule:
    return lambda value: type(value) is int and value >= least, f"it must be a whole number >= {least}"


# Rules for the settings of a plan and of an experiment; for lists, the rule of each entry.
LISTS = ("datasets", "methods", "preparations", "n_neighbors", "n_rows", "n_iter")
PLAN: dict[str, Rule] = {
    "title": (lambda value: isinstance(value, str), "it must be a text"),
    "seed": _from(0),
    **dict.fromkeys(("starts", "rounds", "refits"), _from(1)),
    "experiments": (
        lambda value: isinstance(value, dict) and value,
        "a plan needs at least one table [experiments.NAME]",
    ),
}
EXPERIMENT: dict[str, Rule] = {
    "datasets": (lambda value: isinstance(value, str), "it must be a list of names"),
    "methods": _among(METHODS),
    "preparations": _among(get_args(PreparationName)),
    "kind": _among(get_args(Kind)),
    **dict.fromkeys(("rounds", "refits", "n_neighbors", "n_rows", "n_iter"), _from(1)),
    "max_rows": (lambda value: isinstance(value, dict), "it must be a table of a number of rows for each method"),
}
QUICK: dict[str, Rule] = {"quick": (lambda value: value is False or isinstance(value, dict), "use a table, or false")}
LIMITS = dict.fromkeys(METHODS, _from(1))
USUAL: dict[str, Any] = {"kind": "score", "n_neighbors": [None], "n_rows": [None], "n_iter": [1], "max_rows": {}}


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
        """Display name of the case."""
        settings = {"k": self.n_neighbors, "n": self.n_rows, "passes": self.n_iter if self.n_iter > 1 else None}
        told = [f"{name}={value}" for name, value in settings.items() if value is not None]
        return " ".join([self.dataset, self.method, self.preparation, *told, *(["histogram"] * (self.kind != "score"))])


@dataclass(frozen=True, slots=True)
class Plan:
    """A title and the cases, in order; a case of several experiments appears once, with the most rounds."""

    title: str
    cases: tuple[PlanCase, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Data sets in order of first use."""
        return tuple(dict.fromkeys(case.dataset for case in self.cases))

    def narrowed(
        self, datasets: Sequence[str] | None = None, methods: Sequence[str] | None = None, rounds: int | None = None
    ) -> "Plan":
        """Return the part of the plan with these data sets and methods, and at most `rounds` rounds."""
        cases = (
            case if rounds is None else replace(case, rounds=min(rounds, case.rounds))
            for case in self.cases
            if (datasets is None or case.dataset in datasets) and (methods is None or case.method in methods)
        )
        return Plan(self.title, tuple(cases))


def read_plan(source: str | Path, *, quick: bool = False) -> Plan:
    """Read one of the library's own plans by its name ("paper", "digits"), or a TOML file.

    With `quick`, the `quick` settings of each experiment override its own, for a first look.
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


def _plan(stem: str, content: dict[str, Any], quick: bool) -> Plan:
    plan: dict[str, Any] = {"title": stem, "seed": 0, "starts": 10, "rounds": 100}
    plan |= _checked("", content, PLAN, required=("experiments",))
    usual = USUAL | {"rounds": plan["rounds"], "refits": plan.get("refits", plan["rounds"])}
    found: dict[PlanCase, PlanCase] = {}
    for name, table in plan["experiments"].items():
        where = f"experiments.{name}"
        plain = usual | _checked(where, table, EXPERIMENT | QUICK, required=("datasets", "methods"))
        faster = plain.pop("quick", {})
        hurried = plain | _checked(f"{where}.quick", faster or {}, EXPERIMENT)
        # Both are checked, so that a fault in the quick settings is found in any run.
        for settings in (plain, hurried):
            _checked(f"{where}.max_rows", settings["max_rows"], LIMITS)
            if settings["kind"] == "histogram" and set(settings["methods"]) != {"adaam"}:
                remedy = 'the histogram is of AdaAM alone: use ["adaam"]'
                raise _refused(f"{where}.methods", settings["methods"], remedy)
        if not quick or faster is not False:
            for case in _cases(hurried if quick else plain, plan["seed"], plan["starts"]):
                alike = replace(case, rounds=0)
                found[alike] = max(found.get(alike, case), case, key=lambda each: each.rounds)
    return Plan(plan["title"], tuple(found.values()))


def _cases(settings: dict[str, Any], seed: int, starts: int) -> Iterator[PlanCase]:
    """Data sets x methods x preparations x settings, without those of more rows than there are or than are allowed."""
    for dataset, name in product(settings["datasets"], settings["methods"]):
        method, size = METHODS[name], DATASETS[dataset].n if dataset in DATASETS else None
        rounds = method.n_rounds(settings["refits" if method.is_refitted else "rounds"])
        rounds = 1 if settings["kind"] == "histogram" else rounds  # nothing in it is random
        preparations = [
            each for each in method.preparations if each in settings.get("preparations", method.preparations)
        ]
        varied = (settings[key] for key in ("n_rows", "n_neighbors", "n_iter"))
        for preparation, n_rows, k, n_iter in product(preparations, *varied):
            n, limits = n_rows or size, (size, method.max_rows, settings["max_rows"].get(name))
            if n is None or all(limit is None or n <= limit for limit in limits):
                yield PlanCase(dataset, name, preparation, rounds, seed, starts, settings["kind"], k, n_rows, n_iter)


def _checked(where: str, table: Any, rules: Mapping[str, Rule], required: Iterable[str] = ()) -> dict[str, Any]:
    """Return a table if it has all required keys and its values satisfy the rules; raise otherwise."""
    if not isinstance(table, dict):
        raise _refused(where, table, "it must be a table of settings")
    for key, value in (table | {key: table.get(key) for key in required}).items():
        place = f"{where}.{key}".lstrip(".")
        if key not in rules:
            raise _refused(place, value, f"this key is not known; use one of {', '.join(sorted(rules))}")
        is_right, wanted = rules[key]
        if key in LISTS and (not isinstance(value, list) or not value):
            raise _refused(place, value, "it must be a list with at least one entry")
        for each in value if key in LISTS else [value]:
            if not is_right(each):
                raise _refused(place, each, wanted)
    return table


def _refused(key: str, value: Any, remedy: str) -> PlanError:
    """Return an error that names the key, its value and the remedy."""
    shown = "is missing" if value is None else f"= {value!r}"
    return PlanError(f"{key} {shown}: {remedy}.")
