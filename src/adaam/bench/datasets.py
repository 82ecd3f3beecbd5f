"""The data sets of the evaluation: what they are, where they are found, and how they are loaded from a folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from adaam._typing import FloatMatrix, IntVector
from adaam.bench.data_files import Arrays, DataFileError, read_idx_pair, read_mat, read_npz
from adaam.bench.places import searched

DENG_CAI = "the .mat file (fea, gnd) that circulates with Deng Cai's MATLAB code"
ORIGINATORS = "research use, under the originators' own terms; never part of this package"


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


MNIST_STEMS = ("mnist", "mnist_784")
FETCH = "adaam datasets --fetch {}"
LISTED = (
    DataSet(
        "umist",
        "UMIST",
        575,
        1600,
        20,
        (40, 40),
        "OpenML 41084 holds the 112x92 originals; the paper uses them at 40x40",
        FETCH.format("umist"),
        ORIGINATORS,
        ("umist", "umist_40x40"),
        note="151 of the 575 images of the file behind the published results are upsampled from the 32x32 set",
        fetched="OpenML's order of rows; every image is resized from the originals, by averages over areas",
    ),
    DataSet(
        "umist_32x32",
        "UMIST 32x32",
        575,
        1024,
        20,
        (32, 32),
        "as widely published at 32x32",
        "save it as umist_32x32.mat (fea, gnd) or umist_32x32.npz (X, y, image_shape)",
        ORIGINATORS,
        ("umist_32x32",),
        note="holds 10 exact duplicate rows",
    ),
    DataSet(
        "coil20",
        "COIL20",
        1440,
        1024,
        20,
        (32, 32),
        DENG_CAI,
        "save it as coil20.mat",
        ORIGINATORS,
        ("coil20",),
    ),
    DataSet(
        "usps",
        "USPS",
        9298,
        256,
        10,
        (16, 16),
        "OpenML 41082",
        FETCH.format("usps"),
        "see the page it is obtained from",
        ("usps",),
        fetched="OpenML's order of rows; ink from 0 to 1 in place of -1 to 1",
    ),
    DataSet(
        "mnist10k",
        "MNIST",
        10_000,
        784,
        10,
        (28, 28),
        "the first 10,000 rows of mnist, as in the paper",
        FETCH.format("mnist"),
        "as mnist",
        MNIST_STEMS,
        first_rows=10_000,
        fetched="the first 10,000 rows in OpenML's order",
    ),
    DataSet(
        "mnist",
        "MNIST 70k",
        70_000,
        784,
        10,
        (28, 28),
        "OpenML 554, or the four IDX files (train-images-idx3-ubyte.gz, ...)",
        FETCH.format("mnist") + ", or put the IDX files into the folder",
        "see the page it is obtained from",
        MNIST_STEMS,
        fetched="OpenML's order of rows",
    ),
    DataSet(
        "exyaleb",
        "ExYaleB",
        2414,
        1024,
        38,
        (32, 32),
        DENG_CAI,
        "save it as exyaleb.mat or YaleB_32x32.mat",
        ORIGINATORS,
        ("exyaleb", "yaleb_32x32"),
    ),
    DataSet(
        "digits",
        "Digits",
        1797,
        64,
        10,
        (8, 8),
        "comes with scikit-learn (UCI's optical digits, test part)",
        "nothing to do",
        "as scikit-learn distributes it",
        (),
    ),
)
DATASETS: dict[str, DataSet] = {each.name: each for each in LISTED}
IDX_PARTS = (("train-images", "train-labels"), ("t10k-images", "t10k-labels"))


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
    if stems == MNIST_STEMS:
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
