"""The data sets of the evaluation: what they are, where they are found, and how they are loaded from a folder."""

import os
import tomllib
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path
from sklearn.datasets import load_digits

from adaam.bench.data_files import Data, DataFileError, read_idx_pair, read_mat, read_npz

IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def data_folder(given: str | None) -> Path | None:
    """Return the folder given by the option or the environment, or None."""
    named = given or os.environ.get("ADAAM_DATA")
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        where = "--data" if given else "ADAAM_DATA"
        raise DataFileError(f"{where}={named}: is not a folder. Name one that holds the data sets.")
    return folder


def cache_folder() -> Path:
    """Return the user's folder for fetched data sets: ADAAM_CACHE, or the system's cache folder."""
    return Path(os.environ.get("ADAAM_CACHE") or user_cache_path("adaam", appauthor=False))


def fetch_folder(folder: Path | None) -> Path:
    """Return the folder for fetched data sets: the given one if it is writable, else the user's cache folder."""
    if folder is not None and os.access(folder, os.W_OK | os.X_OK):
        return folder
    own = cache_folder()
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        remedy = "Name a folder of your own with --data or ADAAM_CACHE"
        raise DataFileError(f"{own}: cannot be made: {error.strerror}. {remedy}.") from error
    return own


@dataclass(frozen=True, slots=True)
class DataSet:
    """Description of a data set, known before it is read."""

    title: str
    n: int
    d: int
    c: int
    image_shape: tuple[int, int]
    found: str
    obtain: str
    terms: str
    stems: tuple[str, ...]  # names of its files without extension, case-insensitive
    first_rows: int | None = None
    note: str = ""
    fetched: str = ""  # how a copy that is fetched from OpenML may differ from the paper's


DATASETS = {
    name: DataSet(**table | {key: tuple(table[key]) for key in ("image_shape", "stems")})
    for name, table in tomllib.loads((files("adaam.bench") / "datasets.toml").read_text(encoding="utf-8")).items()
}


def title_of(name: str) -> str:
    """Return the display name of a data set."""
    return DATASETS[name].title if name in DATASETS else name


def find_files(name: str, folder: Path | None, *, required: bool = True) -> tuple[Path, ...]:
    """Return the files of a data set: none for digits, four for IDX, one otherwise.

    They are searched in the folder and then in the user's cache folder. A name that is not listed stands for NAME.npz
    or NAME.mat.
    """
    if name == "digits":
        return ()
    places = tuple(dict.fromkeys(each for each in (folder, cache_folder()) if each is not None))
    stems = DATASETS[name].stems if name in DATASETS else (name.lower(),)
    for place in filter(Path.is_dir, places):
        if paths := _files_in(place, stems):
            return paths
    if not required:
        return ()
    looked_for = ", ".join(f"{stem}.npz, {stem}.mat" for stem in stems)
    remedy = f" To obtain it: {DATASETS[name].obtain}" if name in DATASETS else ""
    where = "" if folder else " (--data FOLDER or ADAAM_DATA name another folder)"
    searched = " or ".join(map(str, places))
    raise DataFileError(f"{name}: none of its files ({looked_for}) is in {searched}{where}.{remedy}")


def _files_in(folder: Path, stems: tuple[str, ...]) -> tuple[Path, ...]:
    here = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_file()}
    for name in (stem + ending for stem in stems for ending in (".npz", ".mat")):
        if name in here:
            return (here[name],)
    found = [here.get(part) or here.get(f"{part}.gz") for part in IDX_FILES]
    paths = tuple(path for path in found if path is not None)
    return paths if stems == DATASETS["mnist"].stems and len(paths) == len(IDX_FILES) else ()


def load_data(name: str, folder: Path | None) -> Data:
    """Load a data set; for a listed name, check that its sizes match."""
    if name == "digits":
        digits = load_digits()
        return Data(digits.data, digits.target, (8, 8))
    listed = DATASETS.get(name)
    path, *others = find_files(name, folder)
    if others:
        first, second = read_idx_pair(path, others[0]), read_idx_pair(*others[1:])
        X, y = np.concatenate([first.X, second.X]), np.concatenate([first.classes, second.classes])
        data = Data(X, y, first.image_shape)
    elif path.suffix.lower() == ".npz":
        data = read_npz(path)
    else:
        data = read_mat(path, listed.image_shape if listed else None)
    data = _checked(name, data, listed.first_rows if listed else None)
    if listed is None:
        return data
    n, d, c = (*data.X.shape, len(np.unique(data.classes)))
    if (n, d, c) != (listed.n, listed.d, listed.c):
        raise DataFileError(
            f"{name}: has {n} rows of {d} in {c} classes, but the data set of this name has {listed.n} rows of "
            f"{listed.d} in {listed.c}. It is another version; give its file another name."
        )
    return data if data.image_shape else replace(data, image_shape=listed.image_shape)


def _checked(name: str, data: Data, first_rows: int | None) -> Data:
    """Return the first rows of a file with classes numbered from 0; raise if they cannot score clusters."""
    X, y, shape = data.X[:first_rows], data.classes[:first_rows], data.image_shape
    if X.ndim != 2:
        raise DataFileError(f"{name}: X has shape {X.shape}; it must be a table of numbers.")
    if y.ndim != 1 or len(y) != len(X):
        raise DataFileError(f"{name}: y has shape {y.shape} for {len(X)} rows; there must be one class a row.")
    if X.dtype.kind == "f" and not np.isfinite(X).all():
        raise DataFileError(f"{name}: X holds NaN or infinite values. Fill them in or leave those rows out.")
    labels, classes = np.unique(y, return_inverse=True)
    if len(labels) < 2:
        raise DataFileError(f"{name}: has {len(labels)} class; at least two are needed to score clusters.")
    fits = shape is not None and shape[0] * shape[1] == X.shape[1]
    return Data(X, classes.astype(np.int64), shape if fits else None)
