"""Exhibits as files of plain arrays beside the records, written whole and checked when read."""

import json
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import quote

import numpy as np

from adaam.bench.datasets import load_data
from adaam.bench.exhibit import (
    MAX_COMPONENTS,
    MAX_FEATURES,
    MAX_ROWS,
    MAX_SIDE,
    N_NEAREST,
    Exhibit,
    Stored,
    make_exhibit,
)
from adaam.bench.plan import PlanCase
from adaam.bench.records import COUNT, FIELDS, LARGEST_COUNT, SCORES, WORD, Field, unfit
from adaam.bench.work import told
from adaam.files import atomic_file
from adaam.untrusted import UnreadableFileError, open_archive, reading

FOLDER = "exhibits"
FORMAT = "adaam-exhibit-2"
MAX_BYTES = 1 << 26  # once unpacked; the largest exhibit takes a tenth of it
MAX_CLASSES = 1000
HINTS = get_type_hints(Exhibit, include_extras=True)
ARRAYS: dict[str, Stored] = {name: hint.__metadata__[0] for name, hint in HINTS.items() if name != "about"}
FLAG: Field = (lambda value: isinstance(value, bool), "true or false")
TABLE: Field = (lambda value: isinstance(value, dict), "a table")
CHOSEN: dict[str, Field] = {**dict.fromkeys(("metric", "preparation", "head"), WORD), "learned": FLAG, **SCORES}
ABOUT: dict[str, Field] = {
    **dict.fromkeys(("n", "d", "c", "k", "seed", "n_starts"), COUNT),
    **SCORES,
    "dataset": WORD,
    "is_image": FLAG,
    "chosen": TABLE,
    "session": TABLE,
}
# Letters of the shapes, and how much each may stand for.
BOUNDS = {
    "p": ("rows", 2, MAX_ROWS),
    "c": ("classes", 2, MAX_CLASSES),
    "k": ("neighbours", 1, N_NEAREST),
    "m": ("components", 1, MAX_COMPONENTS),
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
    shown = ("score", "adaam", None, None, 1)
    return [case for case in cases if (case.kind, case.method, case.n_rows, case.n_neighbors, case.n_iter) == shown]


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
            tell(f"exhibit of {case.dataset}: {write_exhibit(exhibit, folder)}")
        except Exception as error:  # whatever it is, it is this exhibit's own failure
            failures.append((case.dataset, told(error)))
            tell(f"exhibit of {case.dataset} FAILED: {told(error)}")
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
    problem = unfit(about, ABOUT) or unfit(about["chosen"], CHOSEN) or unfit(about["session"], FIELDS["session"])
    if problem is not None:
        raise UnreadableFileError(f"in its header, {problem}")
    if about["dataset"] != dataset:
        raise UnreadableFileError(f"it is of {about['dataset']!r}")
    return about


def _check(exhibit: Exhibit) -> None:
    """Refuse arrays whose types, shapes or ranges a page could not rely on."""
    about, tiles = exhibit.about, exhibit.tiles
    sides = {"2": 2, "n": about["n"], "d": about["d"], "c": about["c"]}
    sides["f"] = 0 if about["is_image"] else tiles.shape[-1] if tiles.ndim else 0
    for name, stored in ARRAYS.items():
        array = getattr(exhibit, name)
        known = zip(stored.shape, array.shape, strict=False)
        shape = tuple(sides.setdefault(letter, side) for letter, side in known)
        if array.dtype != stored.dtype or array.ndim != len(stored.shape) or array.shape != shape:
            raise UnreadableFileError(f"{name} is {array.dtype} of shape {array.shape}; {shape} was expected")
        if not np.isfinite(array).all():
            raise UnreadableFileError(f"{name} holds values that are not finite")
        limit = sides.get(stored.below, LARGEST_COUNT)
        if array.dtype.kind != "f" and array.size and not 0 <= array.min() <= array.max() < limit:
            raise UnreadableFileError(f"{name} has values outside 0..{limit - 1}")
    fits = MAX_SIDE if about["is_image"] else MAX_FEATURES
    for letter, (name, low, high) in (BOUNDS | dict.fromkeys("hw", ("pixels of a side", 1, fits))).items():
        if not low <= sides[letter] <= high:
            raise UnreadableFileError(f"it has {sides[letter]} {name}; {low} to {high} are possible")
    for name in ("confusion", "chosen_confusion"):
        counted = getattr(exhibit, name).sum()
        if counted != about["n"]:
            raise UnreadableFileError(f"{name} counts {counted} rows of {about['n']}")
