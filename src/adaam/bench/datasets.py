"""The data sets of the evaluation: what they are, where they are found, and how they are loaded from a folder."""

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from platformdirs import user_cache_path
from sklearn.datasets import load_digits

from adaam._typing import FloatMatrix, IntVector
from adaam.bench.data_files import Arrays, DataFileError, read_idx_pair, read_mat, read_npz

IDX_PARTS = (("train-images", "train-labels"), ("t10k-images", "t10k-labels"))


def data_folder(given: str | None) -> Path | None:
    """Return the folder that the option or the environment names."""
    named = given or os.environ.get("ADAAM_DATA")
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        where = "--data" if given else "ADAAM_DATA"
        raise DataFileError(f"{where}={named}: is not a folder. Name one that holds the data sets.")
    return folder


def cache_folder() -> Path:
    """Return the user's own folder for fetched sets: ADAAM_CACHE, or the system's place for caches."""
    own = os.environ.get("ADAAM_CACHE")
    return Path(own) if own else user_cache_path("adaam", appauthor=False)


def searched(folder: Path | None) -> tuple[Path, ...]:
    """Return the folders that are looked in, in order: the one that was named, then the user's own."""
    if folder is not None and not folder.is_dir():
        raise DataFileError(f"{folder}: is not a folder. Give --data a folder that holds the data sets.")
    return tuple(dict.fromkeys(each for each in (folder, cache_folder()) if each is not None))


def fetch_folder(folder: Path | None) -> Path:
    """Return where fetched sets go: the folder that was named if files can be made in it, else the user's own."""
    if folder is not None and os.access(folder, os.W_OK | os.X_OK):
        return folder
    own = cache_folder()
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataFileError(
            f"{own}: cannot be made: {error.strerror}. Name a folder of your own with --data or ADAAM_CACHE."
        ) from error
    return own


@dataclass(frozen=True, slots=True)
class DataSet:
    """What is known of a data set before it is read."""

    name: str
    title: str
    n: int
    d: int
    c: int
    image_shape: tuple[int, int]
    found: str
    obtain: str
    terms: str
    stems: tuple[str, ...]  # names of its files without their ending, in any case of letters
    first_rows: int | None = None
    note: str = ""
    fetched: str = ""  # how a copy that is fetched from OpenML may differ from the paper's


@dataclass(frozen=True, slots=True)
class Data:
    """Rows as they are in the file (numbers of any kind), classes 0..c-1, and the image a row draws."""

    X: FloatMatrix
    classes: IntVector
    image_shape: tuple[int, int] | None

    def rows(self, n_rows: int | None = None) -> FloatMatrix:
        """Return the first rows in float64."""
        return np.asarray(self.X[:n_rows], dtype=np.float64)


def _listed(name: str, table: dict[str, Any]) -> DataSet:
    return DataSet(name, **table | {key: tuple(table[key]) for key in ("image_shape", "stems")})


_TABLES = tomllib.loads((files("adaam.bench") / "datasets.toml").read_text(encoding="utf-8"))
DATASETS = {name: _listed(name, table) for name, table in _TABLES.items()}


def title_of(name: str) -> str:
    """Return how a data set is named to people."""
    return DATASETS[name].title if name in DATASETS else name


def sizes(names: Sequence[str]) -> dict[str, int]:
    """Return the numbers of rows that are known without reading anything."""
    return {name: DATASETS[name].n for name in names if name in DATASETS}


def find_files(name: str, folder: Path | None) -> tuple[Path, ...]:
    """Return the files of a data set: none for digits, four for IDX, one otherwise.

    They are looked for in the folder and then in the user's own folder of fetched sets. A name that is not listed
    stands for NAME.npz or NAME.mat.
    """
    if name == "digits":
        return ()
    places = searched(folder)
    stems = DATASETS[name].stems if name in DATASETS else (name.lower(),)
    for place in places:
        paths = _files_in(place, stems)
        if paths:
            return paths
    looked_for = ", ".join(f"{stem}.npz, {stem}.mat" for stem in stems)
    remedy = f" To obtain it: {DATASETS[name].obtain}" if name in DATASETS else ""
    where = "" if folder else " (--data FOLDER or ADAAM_DATA name another folder)"
    raise DataFileError(
        f"{name}: none of its files ({looked_for}) is in {' or '.join(map(str, places))}{where}.{remedy}"
    )


def _files_in(folder: Path, stems: tuple[str, ...]) -> tuple[Path, ...]:
    if not folder.is_dir():
        return ()
    here = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_file()}
    for stem in stems:
        for ending in (".npz", ".mat"):
            if stem + ending in here:
                return (here[stem + ending],)
    if stems == DATASETS["mnist"].stems:
        wanted = [f"{part}-idx{3 if 'images' in part else 1}-ubyte" for pair in IDX_PARTS for part in pair]
        found = [here.get(part) or here.get(f"{part}.gz") for part in wanted]
        if all(found):
            return tuple(path for path in found if path is not None)
    return ()


def load_data(name: str, folder: Path | None) -> Data:
    """Load a data set and check that it is the one it is named for."""
    if name == "digits":
        digits = load_digits()
        return Data(digits.data, digits.target, (8, 8))
    listed = DATASETS.get(name)
    arrays = _read(find_files(name, folder), listed.image_shape if listed else None)
    limit = listed.first_rows if listed else None
    data = _checked(name, Arrays(arrays.X[:limit], arrays.y[:limit], arrays.image_shape))
    if listed is None:
        return data
    shape = (*data.X.shape, len(np.unique(data.classes)))
    if shape != (listed.n, listed.d, listed.c):
        raise DataFileError(
            f"{name}: has {shape[0]} rows of {shape[1]} in {shape[2]} classes, but the data set of this name has "
            f"{listed.n} rows of {listed.d} in {listed.c}. It is another version; give its file another name."
        )
    return Data(data.X, data.classes, data.image_shape or listed.image_shape)


def _read(paths: tuple[Path, ...], image_shape: tuple[int, int] | None) -> Arrays:
    if len(paths) == 4:
        parts = [read_idx_pair(*paths[start : start + 2]) for start in (0, 2)]
        X, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y"))
        return Arrays(X, y, parts[0].image_shape)
    return read_npz(paths[0]) if paths[0].suffix.lower() == ".npz" else read_mat(paths[0], image_shape)


def _checked(name: str, arrays: Arrays) -> Data:
    X, y = arrays.X, arrays.y
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise DataFileError(f"{name}: X has shape {X.shape} and type {X.dtype}; it must be a table of numbers.")
    if y.ndim != 1 or len(y) != len(X):
        raise DataFileError(f"{name}: y has shape {y.shape} for {len(X)} rows; there must be one class a row.")
    if y.dtype.kind not in "fiubUS":
        raise DataFileError(f"{name}: y has type {y.dtype}; classes must be numbers or names.")
    if X.dtype.kind == "f" and not np.isfinite(X).all():
        raise DataFileError(f"{name}: X holds NaN or infinite values. Fill them in or leave those rows out.")
    labels, classes = np.unique(y, return_inverse=True)
    if len(labels) < 2:
        raise DataFileError(f"{name}: has {len(labels)} class; at least two are needed to score clusters.")
    shape = arrays.image_shape
    fits = shape is not None and shape[0] * shape[1] == X.shape[1]
    return Data(X, classes.astype(np.int64), shape if fits else None)
