"""Cases that cannot be run here for want of a package: told, recorded with the reason, and run once it is there."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from adaam.bench.datasets import title_of
from adaam.bench.methods import METHODS, Method
from adaam.bench.plan import PlanCase
from adaam.bench.records import IDENTITY, Record, identity

Skip = tuple[PlanCase, str]


def reason_to_skip(method: Method) -> str | None:
    """Return what a method lacks on this machine and how to get it, or None where it can be run."""
    try:
        if method.package:
            version(method.package)
    except PackageNotFoundError:
        return (
            f"{method.title} needs {method.package}, which is not installed. "
            f"Install it with: pip install adaam[{method.name}]"
        )
    return None


def runnable(cases: Iterable[PlanCase]) -> tuple[list[PlanCase], list[Skip]]:
    """Return the cases that can be run here, and the others with their reasons."""
    told = [(case, reason_to_skip(METHODS[case.method])) for case in cases]
    return [case for case, reason in told if reason is None], [(case, reason) for case, reason in told if reason]


def skip_records(left_out: Sequence[Skip], records: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Return what is to be recorded of cases left out, unless it is recorded already."""
    known = {identity(record) for record in records}
    skips = (
        {name: getattr(case, name) for name in IDENTITY} | {"kind": "skip", "reason": why} for case, why in left_out
    )
    return [record for record in skips if identity(record) not in known]


def skip_notes(records: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a line for each reason, with the data sets it kept a method from; cases run since are not among them.

    Examples
    --------
    >>> skip = {"kind": "skip", "method": "umap", "preparation": "raw", "reason": "UMAP needs umap-learn"}
    >>> skip_notes([skip | {"dataset": "usps"}, skip | {"dataset": "umist"}])
    ('Left out (USPS, UMIST): UMAP needs umap-learn.',)
    """
    everything = list(records)
    run = {_case(record) for record in everything if record.get("kind") == "score"}
    reasons: dict[str, dict[str, None]] = {}
    for record in everything:
        if record.get("kind") == "skip" and _case(record) not in run:
            reasons.setdefault(str(record["reason"]), {})[title_of(str(record["dataset"]))] = None
    return tuple(f"Left out ({', '.join(datasets)}): {reason}." for reason, datasets in reasons.items())


def _case(record: Mapping[str, Any]) -> tuple[Any, ...]:
    left_aside = ("kind", "seed", "n_starts")
    return tuple(record.get(name) for name in IDENTITY if name not in left_aside)
