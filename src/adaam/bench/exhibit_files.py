"""Exhibits as files of plain arrays beside the records, written whole and checked when read."""

import json
import warnings
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from adaam.bench.datasets import load_data
from adaam.bench.exhibit import MAX_COMPONENTS, MAX_FEATURES, MAX_ROWS, MAX_SIDE, N_NEAREST, Exhibit, make_exhibit
from adaam.bench.plan import PlanCase
from adaam.files import atomic_file
from adaam.untrusted import UnreadableFileError, open_archive, reading

FOLDER = "exhibits"
FORMAT = "adaam-exhibit-1"
MAX_BYTES = 1 << 26  # once unpacked; the largest exhibit takes a tenth of it
MAX_CLASSES = 1000
LARGEST_COUNT = 1 << 53
DTYPES = {
    "rows": np.int32,
    "classes": np.int32,
    "clusters": np.int32,
    "before": np.float32,
    "after": np.float32,
    "nearest_before": np.int32,
    "nearest_after": np.int32,
    "tiles": np.uint8,
    "components": np.float32,
    "patterns": np.float32,
    "features": np.int32,
    "confusion": np.int32,
}
ARRAYS = tuple(field.name for field in fields(Exhibit) if field.name != "about")
ABOUT: dict[str, type | tuple[type, ...]] = {
    "dataset": str,
    "n": int,
    "d": int,
    "c": int,
    "k": int,
    "is_image": bool,
    "seed": int,
    "n_starts": int,
    "acc": float,
    "nmi": float,
    "ari": float,
    "session": dict,
}


class ExhibitError(UnreadableFileError):
    """A file is not a readable exhibit."""


def exhibit_path(folder: Path, dataset: str) -> Path:
    """Return the file of a data set's exhibit; a name is only ever a name, whatever signs it holds."""
    return folder / f"{quote(dataset, safe='')}.npz"


def write_exhibit(exhibit: Exhibit, folder: Path) -> Path:
    """Write an exhibit, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = exhibit_path(folder, exhibit.about["dataset"])
    header = json.dumps({"format": FORMAT, **exhibit.about}, sort_keys=True).encode()
    arrays = {name: getattr(exhibit, name) for name in ARRAYS}
    with atomic_file(path) as stream:
        np.savez_compressed(stream, about=np.frombuffer(header, dtype=np.uint8), **arrays)
    return path


def read_exhibit(folder: Path, dataset: str) -> Exhibit | None:
    """Read the exhibit of a data set; None where there is none.

    Raises
    ------
    ExhibitError
        If the file is too large, damaged, of another data set, or holds anything but the arrays of an exhibit.
    """
    path = exhibit_path(folder, dataset)
    if not path.is_file():
        return None
    with reading(path, f"the exhibit of {dataset!r}", ExhibitError), open_archive(path, MAX_BYTES) as archive:
        if sorted(archive.names) != sorted(f"{name}.npy" for name in (*ARRAYS, "about")):
            raise UnreadableFileError(f"it holds {', '.join(archive.names[:20]) or 'nothing'}")
        arrays = {name: archive.array(f"{name}.npy") for name in ARRAYS}
        exhibit = Exhibit(_about(archive.array("about.npy"), dataset), **arrays)
        _check(exhibit)
        return exhibit


def exhibited(cases: Iterable[PlanCase]) -> list[PlanCase]:
    """Of the cases of a plan, those an exhibit can show: AdaAM by its defaults on a whole data set."""
    return [
        case
        for case in cases
        if case.kind == "score"
        and case.method == "adaam"
        and (case.n_rows, case.n_neighbors, case.n_iter) == (None, None, 1)
    ]


def make_exhibits(
    cases: Iterable[PlanCase], data_folder: Path | None, folder: Path, tell: Callable[[str], None]
) -> list[tuple[str, str]]:
    """Make and write the exhibits that are not there yet; return the names and reasons of those that failed."""
    failures = []
    for case in exhibited(cases):
        if is_there(case, folder):
            continue
        try:
            data = load_data(case.dataset, data_folder)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the records of the same case hold them
                exhibit = make_exhibit(data, case.dataset, seed=case.seed, n_starts=case.n_starts)
            path = write_exhibit(exhibit, folder)
            tell(f"exhibit of {case.dataset}: {path}")
        except Exception as error:  # whatever it is, it is this exhibit's own failure
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            failures.append((case.dataset, reason))
            tell(f"exhibit of {case.dataset} FAILED: {reason}")
    return failures


def is_there(case: PlanCase, folder: Path) -> bool:
    """Whether a sound exhibit of the case's data set and seed is in the folder."""
    try:
        exhibit = read_exhibit(folder, case.dataset)
    except ExhibitError:
        return False
    return exhibit is not None and (exhibit.about["seed"], exhibit.about["n_starts"]) == (case.seed, case.n_starts)


def _about(content: Any, dataset: str) -> dict[str, Any]:
    if content.dtype != np.uint8 or content.ndim != 1:
        raise UnreadableFileError("its header is no text")
    about = json.loads(content.tobytes())
    if not isinstance(about, dict) or about.pop("format", None) != FORMAT:
        raise UnreadableFileError(f"its format is not {FORMAT}")
    for name, kind in ABOUT.items():
        value = about.get(name)
        sound = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not sound or (isinstance(value, int | float) and not 0 <= abs(value) < LARGEST_COUNT):
            raise UnreadableFileError(f"{name}={str(value)[:60]!r} in its header")
    if about["seed"] < 0 or not isinstance(about["session"].get("versions", {}), dict):
        raise UnreadableFileError("seed or versions in its header")
    if about["dataset"] != dataset:
        raise UnreadableFileError(f"it is of {about['dataset']!r}")
    return about


def _check(exhibit: Exhibit) -> None:
    """Refuse arrays whose types, shapes or ranges a page could not rely on."""
    about = exhibit.about
    p, c, m = len(exhibit.rows), about["c"], len(exhibit.components)
    height, width = exhibit.tiles.shape[1:] if exhibit.tiles.ndim == 3 else (0, 0)
    k = exhibit.nearest_after.shape[-1]
    n_features = 0 if about["is_image"] else width
    shapes = {
        "rows": (p,),
        "classes": (p,),
        "clusters": (p,),
        "before": (p, 2),
        "after": (p, 2),
        "nearest_before": (p, k),
        "nearest_after": (p, k),
        "tiles": (p, height, width),
        "components": (m, height, width),
        "patterns": (m, height, width),
        "features": (n_features,),
        "confusion": (c, c),
    }
    for name, shape in shapes.items():
        array = getattr(exhibit, name)
        if array.dtype != DTYPES[name] or array.shape != shape:
            raise UnreadableFileError(f"{name} is {array.dtype} of shape {array.shape}; {shape} was expected")
        if not np.isfinite(array).all():
            raise UnreadableFileError(f"{name} holds values that are not finite")
    fits = MAX_SIDE if about["is_image"] else MAX_FEATURES
    bounds = {"rows": (p, 2, MAX_ROWS), "classes": (c, 2, MAX_CLASSES), "neighbours": (k, 1, N_NEAREST)}
    bounds |= {"components": (m, 1, MAX_COMPONENTS), "pixels": (min(height, width), 1, fits)}
    bounds |= {"pixels of a side": (max(height, width), 1, fits)}
    for name, (value, low, high) in bounds.items():
        if not low <= value <= high:
            raise UnreadableFileError(f"it has {value} {name}; {low} to {high} are possible")
    limits = {"rows": about["n"], "classes": c, "clusters": c, "nearest_before": p, "nearest_after": p}
    limits |= {"features": about["d"], "confusion": about["n"] + 1}
    for name, limit in limits.items():
        array = getattr(exhibit, name)
        if array.size and not 0 <= array.min() <= array.max() < limit:
            raise UnreadableFileError(f"{name} has values outside 0..{limit - 1}")
    if exhibit.confusion.sum() != about["n"]:
        raise UnreadableFileError(f"confusion counts {exhibit.confusion.sum()} rows of {about['n']}")
