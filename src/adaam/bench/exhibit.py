"""Exhibits: a data set under AdaAM and under the clustering chosen without labels, as arrays for a page.

They are stored as files of plain arrays beside the records, written atomically and checked when read.
"""

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints
from urllib.parse import quote

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.bench.data_files import Data
from adaam.bench.datasets import load_data
from adaam.bench.methods import METHODS, Case
from adaam.bench.plan import PlanCase
from adaam.bench.records import LARGEST_COUNT, SCORES, SESSION, unfit
from adaam.bench.run import STARTS_PER_ROUND, scores
from adaam.bench.session import session_record, told
from adaam.engines import CPUEngine
from adaam.files import atomic_file
from adaam.graph import paper_neighbors
from adaam.untrusted import UnreadableFileError, open_archive, reading

PLAIN = "rows as they are"  # how a selection names a metric that is not learned
MAX_ROWS = 3000  # more points would hide one another and make the page slow
MAX_SIDE = 40  # pixels of a thumbnail
MAX_FEATURES = 128  # of rows that are not images
MAX_COMPONENTS = 64
MAX_CLASSES = 1000
N_NEAREST = 8

FOLDER = "exhibits"
FORMAT = "adaam-exhibit-2"
MAX_BYTES = 1 << 26  # once unpacked; the largest exhibit takes a tenth of it


class Stored(NamedTuple):
    """How an array is stored: its type, its shape in letters, and the letter of an exclusive upper bound of values."""

    dtype: str
    shape: str
    below: str = ""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Some rows of a data set: as they are, under AdaAM's map, and in the metric that AdaAMClustering chose.

    All arrays refer to the same rows in the same order; neighbours are positions among them. Clusters have the number
    of the class they are matched to. A tile shows a row: its image, or one line of its values, each feature scaled from
    its minimum to its maximum.

    Letters of the shapes: p rows that are shown, n rows and d features of the data set, c classes, k neighbours, h x w
    pixels of a tile, m components, f features that tiles show (none for images).
    """

    about: Mapping[str, Any]
    rows: Annotated[IntVector, Stored("int32", "p", "n")]  # row numbers in the data set, ascending
    classes: Annotated[IntVector, Stored("int32", "p", "c")]
    clusters: Annotated[IntVector, Stored("int32", "p", "c")]
    before: Annotated[FloatMatrix, Stored("float32", "p2")]  # plane of the rows as they are
    after: Annotated[FloatMatrix, Stored("float32", "p2")]  # plane of the learned space
    nearest_before: Annotated[IntMatrix, Stored("int32", "pk", "p")]  # nearest first
    nearest_after: Annotated[IntMatrix, Stored("int32", "pk", "p")]
    tiles: Annotated[IntMatrix, Stored("uint8", "phw")]
    components: Annotated[FloatMatrix, Stored("float32", "mhw")]  # weights of each component
    patterns: Annotated[FloatMatrix, Stored("float32", "mhw")]  # covariances of each component with the features
    features: Annotated[IntVector, Stored("int32", "f", "d")]  # which features the tiles show
    confusion: Annotated[IntMatrix, Stored("int32", "cc")]  # rows of the whole data set by class and by cluster
    chosen: Annotated[FloatMatrix, Stored("float32", "p2")]  # plane of the metric that AdaAMClustering chose
    chosen_clusters: Annotated[IntVector, Stored("int32", "p", "c")]
    nearest_chosen: Annotated[IntMatrix, Stored("int32", "pk", "p")]
    chosen_confusion: Annotated[IntMatrix, Stored("int32", "cc")]


HINTS = get_type_hints(Exhibit, include_extras=True)
ARRAYS: dict[str, Stored] = {name: hint.__metadata__[0] for name, hint in HINTS.items() if name != "about"}
CHOSEN = {**dict.fromkeys(("metric", "preparation", "head"), "a word"), "learned": "true or false", **SCORES}
ABOUT = {
    **dict.fromkeys(("n", "d", "c", "k", "seed", "n_starts"), "a whole number"),
    **SCORES,
    **{"dataset": "a word", "is_image": "true or false", "chosen": "a table", "session": "a table"},
}


def make_exhibit(data: Data, name: str, *, seed: int = 0, n_starts: int = STARTS_PER_ROUND) -> Exhibit:
    """Fit AdaAM and AdaAMClustering once with their defaults, as in round 0 of a plan, and return what a page shows.

    Classes are used to score, to match clusters and to mark neighbours, never to choose.
    """
    X, classes, shape = data.rows(), data.classes, data.image_shape
    n, d = X.shape
    n_clusters = len(np.unique(classes))
    k = paper_neighbors(n, n_clusters)
    metric = METHODS["adaam"].make(Case(n, d, n_clusters, k, "reference", seed))
    Z = metric.fit_transform(X)
    with threadpool_limits(limits=1):
        clustering = CPUEngine().kmeans(Z, n_clusters, n_starts, seed, np.ones(n))
    clusters, confusion = matched(classes, clustering.labels, n_clusters)
    choice = METHODS["adaam-clustering"].make(Case(n, d, n_clusters, k, "raw", seed)).fit(X)
    chosen_clusters, chosen_confusion = matched(classes, choice.labels_, n_clusters)
    Z_chosen, best = np.asarray(choice.transform(X)), choice.selection_.best

    rows = np.sort(np.random.default_rng(seed).permutation(n)[:MAX_ROWS])
    features = np.arange(0) if shape else leading_features(metric.explain().share)

    def pictures(points: FloatMatrix) -> FloatMatrix:
        return reduced(points, shape) if shape else np.asarray(points)[:, None, features]

    # Black and white are the smallest and the largest value of all images; other features have their own scales.
    values, axis = (X, None) if shape else (X[:, features], 0)
    low, high = values.min(axis=axis), values.max(axis=axis)
    shares = np.clip((pictures(X[rows]) - low) / np.where(high > low, high - low, 1.0), 0, 1)

    chosen = {name: getattr(best, name) for name in ("metric", "preparation", "head")}
    about = {
        **{"dataset": name, "n": n, "d": d, "c": n_clusters, "k": k, "is_image": shape is not None},
        **{"seed": seed, "n_starts": n_starts, **scores(classes, clusters), "session": session_record()},
        "chosen": {**chosen, "learned": best.metric != PLAIN, **scores(classes, chosen_clusters)},
    }
    arrays = {
        "rows": rows,
        "classes": classes[rows],
        "clusters": clusters[rows],
        "before": plane(X, X)[rows],
        "after": spread_plane(Z, clustering.centers)[rows],
        "nearest_before": nearest(X[rows]),
        "nearest_after": nearest(Z[rows]),
        "tiles": np.round(255 * shares),
        "components": pictures(metric.components_[:MAX_COMPONENTS]),
        "patterns": pictures(metric.covariance_[:MAX_COMPONENTS]),
        "features": features,
        "confusion": confusion,
        "chosen": spread_plane(Z_chosen, choice.cluster_centers_)[rows],
        "chosen_clusters": chosen_clusters[rows],
        "nearest_chosen": nearest(Z_chosen[rows]),
        "chosen_confusion": chosen_confusion,
    }
    return Exhibit(about, **{name: array.astype(ARRAYS[name].dtype) for name, array in arrays.items()})


def matched(classes: IntVector, labels: IntVector, n_clusters: int) -> tuple[IntVector, IntMatrix]:
    """Number clusters by their best one-to-one match with classes; return labels and counts, class by cluster."""
    counts = np.zeros((n_clusters, n_clusters), dtype=np.int64)
    np.add.at(counts, (classes, labels), 1)
    _, partner = linear_sum_assignment(counts, maximize=True)
    return np.argsort(partner)[labels], counts[:, partner]


def spread_plane(Z: FloatMatrix, centers: FloatMatrix) -> FloatMatrix:
    """Map rows to the plane in which cluster centres spread most, or the rows themselves if centres span none."""
    return plane(Z, centers if len(centers) > 2 else Z)


def plane(Z: FloatMatrix, points: FloatMatrix) -> FloatMatrix:
    """Map rows to the plane in which `points` spread most; a line gets a second coordinate of zeros."""
    shown = PCA(min(2, *points.shape), svd_solver="full" if points.shape[1] < 2000 else "auto", random_state=0)
    mapped = shown.fit(points).transform(Z)
    return np.asarray(np.pad(mapped, ((0, 0), (0, 2 - mapped.shape[1]))))


def nearest(X: FloatMatrix) -> IntMatrix:
    """Positions of the nearest other rows of each row, nearest first."""
    finder = NearestNeighbors(n_neighbors=min(N_NEAREST, len(X) - 1), algorithm="brute").fit(X)
    return np.asarray(finder.kneighbors(return_distance=False))


def reduced(images: FloatMatrix, shape: tuple[int, int]) -> FloatMatrix:
    """Return flat images as (n, height, width), averaged over blocks if a side is longer than a thumbnail's."""
    # A side shorter than a block is averaged to one pixel.
    down, across = (min(-(-max(shape) // MAX_SIDE), side) for side in shape)
    height, width = shape[0] // down, shape[1] // across
    pictures = np.reshape(images, (-1, *shape))[:, : height * down, : width * across]
    return np.asarray(pictures.reshape(-1, height, down, width, across).mean(axis=(2, 4)))


def leading_features(share: FloatVector) -> IntVector:
    """Features that contribute most to the metric, in the order of the input."""
    return np.sort(np.argsort(-share, kind="stable")[:MAX_FEATURES])


class ExhibitError(UnreadableFileError):
    """A file is not a readable exhibit."""


def exhibit_path(folder: Path, dataset: str) -> Path:
    """Return the file of a data set's exhibit; the name is quoted, so that it cannot contain a path."""
    return folder / f"{quote(dataset, safe='')}.npz"


def write_exhibit(exhibit: Exhibit, folder: Path) -> Path:
    """Write an exhibit atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    path = exhibit_path(folder, exhibit.about["dataset"])
    header = json.dumps({"format": FORMAT, **exhibit.about}, sort_keys=True).encode()
    arrays = {name: getattr(exhibit, name) for name in ARRAYS}
    with atomic_file(path) as stream:
        np.savez_compressed(stream, about=np.frombuffer(header, dtype=np.uint8), **arrays)
    return path


def read_exhibit(folder: Path, dataset: str) -> Exhibit | None:
    """Read the exhibit of a data set, None if there is none; raise ExhibitError if the file is anything else."""
    path = exhibit_path(folder, dataset)
    if not path.is_file():
        return None
    with reading(path, f"the exhibit of {dataset!r}", ExhibitError), open_archive(path, MAX_BYTES) as archive:
        if sorted(archive.names) != sorted(f"{name}.npy" for name in (*ARRAYS, "about")):
            raise UnreadableFileError(f"it holds {', '.join(archive.names[:20]) or 'nothing'}")
        about = _about(archive.array("about.npy"), dataset)
        exhibit = Exhibit(about, **{name: archive.array(f"{name}.npy") for name in ARRAYS})
        _check(exhibit)
        return exhibit


def _about(content: Any, dataset: str) -> dict[str, Any]:
    if content.dtype != np.uint8 or content.ndim != 1:
        raise UnreadableFileError("its header is no text")
    about = json.loads(content.tobytes())
    if not isinstance(about, dict) or about.pop("format", None) != FORMAT:
        raise UnreadableFileError(f"its format is not {FORMAT}")
    problem = unfit(about, ABOUT) or unfit(about["chosen"], CHOSEN) or unfit(about["session"], SESSION)
    if problem is not None:
        raise UnreadableFileError(f"in its header, {problem}")
    if about["dataset"] != dataset:
        raise UnreadableFileError(f"it is of {about['dataset']!r}")
    return about


def _check(exhibit: Exhibit) -> None:
    """Raise if arrays do not have the types, shapes and ranges that a page relies on."""
    about, tiles = exhibit.about, exhibit.tiles
    sides = {"2": 2, "n": about["n"], "d": about["d"], "c": about["c"]}
    sides["f"] = 0 if about["is_image"] else tiles.shape[-1] if tiles.ndim else 0
    most = {"p": MAX_ROWS, "c": MAX_CLASSES, "k": N_NEAREST, "m": MAX_COMPONENTS}
    most |= dict.fromkeys("hw", MAX_SIDE if about["is_image"] else MAX_FEATURES)
    for name, stored in ARRAYS.items():
        array = getattr(exhibit, name)
        known = zip(stored.shape, array.shape, strict=False)
        shape = tuple(sides.setdefault(letter, side) for letter, side in known)
        if array.dtype != stored.dtype or array.ndim != len(stored.shape) or array.shape != shape:
            raise UnreadableFileError(f"{name} is {array.dtype} of shape {array.shape}; {shape} was expected")
        for letter in most.keys() & set(stored.shape):
            if not 1 <= sides[letter] <= most[letter]:
                raise UnreadableFileError(f"{name} has shape {shape}; a side of 1 to {most[letter]} is {sides[letter]}")
        if not np.isfinite(array).all():
            raise UnreadableFileError(f"{name} holds values that are not finite")
        limit = sides.get(stored.below, LARGEST_COUNT)
        if array.dtype.kind != "f" and array.size and not 0 <= array.min() <= array.max() < limit:
            raise UnreadableFileError(f"{name} has values outside 0..{limit - 1}")
    for name in ("confusion", "chosen_confusion"):
        counted = getattr(exhibit, name).sum()
        if counted != about["n"]:
            raise UnreadableFileError(f"{name} counts {counted} rows of {about['n']}")


def make_exhibits(
    cases: Iterable[PlanCase], data_folder: Path | None, folder: Path, tell: Callable[[str], None]
) -> list[tuple[str, str]]:
    """Make and write the exhibits that are missing; return those that failed with their reasons."""
    failures = []
    for case in exhibited(cases):
        if is_there(case, folder):
            continue
        what = f"exhibit of {case.dataset}"
        try:
            data = load_data(case.dataset, data_folder)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the records of the same case hold them
                exhibit = make_exhibit(data, case.dataset, seed=case.seed, n_starts=case.n_starts)
            tell(f"{what}: {write_exhibit(exhibit, folder)}")
        except Exception as error:  # any error fails this exhibit only
            failures.append((what, told(error)))
            tell(f"{what} FAILED: {told(error)}")
    return failures


def exhibited(cases: Iterable[PlanCase]) -> list[PlanCase]:
    """Return the cases of a plan that an exhibit can show: AdaAM with its defaults on a whole data set."""
    shown = ("score", "adaam", None, None, 1)
    return [case for case in cases if (case.kind, case.method, case.n_rows, case.n_neighbors, case.n_iter) == shown]


def is_there(case: PlanCase, folder: Path) -> bool:
    """Whether a valid exhibit of the case's data set, seed and number of starts is in the folder."""
    try:
        exhibit = read_exhibit(folder, case.dataset)
    except ExhibitError:
        return False
    return exhibit is not None and (exhibit.about["seed"], exhibit.about["n_starts"]) == (case.seed, case.n_starts)
