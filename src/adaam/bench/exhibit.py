"""What a data set looks like under AdaAM and under the clustering chosen without labels, as arrays for a page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.bench.datasets import Data
from adaam.bench.methods import METHODS, Case
from adaam.bench.run import STARTS_PER_ROUND, scores
from adaam.bench.session import session_record
from adaam.engines import CPUEngine
from adaam.graph import paper_neighbors

PLAIN = "rows as they are"  # how a selection names a metric that is not learned
MAX_ROWS = 3000  # more points would hide one another and make the page slow
MAX_SIDE = 40  # pixels of a thumbnail
MAX_FEATURES = 128  # of rows that are no images
MAX_COMPONENTS = 64
N_NEAREST = 8


class Stored(NamedTuple):
    """How an array is stored: its type, its shape in letters, and the letter of a number that its values are below."""

    dtype: str
    shape: str
    below: str = ""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """Some rows of a data set: as they are, under AdaAM's map, and in the metric that AdaAMClustering chose.

    All arrays speak of the same rows in the same order; neighbours are positions among them. Clusters carry the number
    of the class they are matched to. A tile is what a row looks like: its image, or one line of its values, each
    feature from its least to its largest.

    Letters of the shapes: p rows that are shown, n rows and d features of the data set, c classes, k neighbours, h x w
    pixels of a tile, m components, f features that tiles show (none for images).
    """

    about: Mapping[str, Any]
    rows: Annotated[IntVector, Stored("int32", "p", "n")]  # places in the data set, ascending
    classes: Annotated[IntVector, Stored("int32", "p", "c")]
    clusters: Annotated[IntVector, Stored("int32", "p", "c")]
    before: Annotated[FloatMatrix, Stored("float32", "p2")]  # plane of the rows as they are
    after: Annotated[FloatMatrix, Stored("float32", "p2")]  # plane of the learned space
    nearest_before: Annotated[IntMatrix, Stored("int32", "pk", "p")]  # nearest first
    nearest_after: Annotated[IntMatrix, Stored("int32", "pk", "p")]
    tiles: Annotated[IntMatrix, Stored("uint8", "phw")]
    components: Annotated[FloatMatrix, Stored("float32", "mhw")]  # weights of each component
    patterns: Annotated[FloatMatrix, Stored("float32", "mhw")]  # what changes with it: covariances of features
    features: Annotated[IntVector, Stored("int32", "f", "d")]  # which features the tiles show
    confusion: Annotated[IntMatrix, Stored("int32", "cc")]  # rows of the whole data set by class and by cluster
    chosen: Annotated[FloatMatrix, Stored("float32", "p2")]  # plane of the metric that AdaAMClustering chose
    chosen_clusters: Annotated[IntVector, Stored("int32", "p", "c")]
    nearest_chosen: Annotated[IntMatrix, Stored("int32", "pk", "p")]
    chosen_confusion: Annotated[IntMatrix, Stored("int32", "cc")]


def make_exhibit(data: Data, name: str, *, seed: int = 0, n_starts: int = STARTS_PER_ROUND) -> Exhibit:
    """Fit AdaAM and AdaAMClustering once by their defaults, as round 0 of a plan does, and keep what can be looked at.

    Classes score, match clusters and mark neighbours; they choose nothing.
    """
    X, classes = data.rows(), data.classes
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
    shape = data.image_shape
    features = np.arange(0) if shape else leading_features(metric.explain().share)

    def pictures(points: FloatMatrix) -> FloatMatrix:
        return reduced(points, shape) if shape else np.asarray(points)[:, None, features]

    # Black and white are the least and the largest value of all images; other features have a scale each.
    values = X if shape else X[:, features]
    low, high = (extreme(values, axis=None if shape else 0) for extreme in (np.min, np.max))
    shares = np.clip((pictures(X[rows]) - low) / np.where(high > low, high - low, 1.0), 0, 1)

    about = {
        "dataset": name,
        "n": n,
        "d": d,
        "c": n_clusters,
        "k": k,
        "is_image": shape is not None,
        "seed": seed,
        "n_starts": n_starts,
        **scores(classes, clusters),
        "chosen": {
            "metric": best.metric,
            "preparation": best.preparation,
            "head": best.head,
            "learned": best.metric != PLAIN,
            **scores(classes, chosen_clusters),
        },
        "session": session_record(),
    }
    return Exhibit(
        about,
        rows=rows.astype(np.int32),
        classes=classes[rows].astype(np.int32),
        clusters=clusters[rows].astype(np.int32),
        before=plane(X, X)[rows].astype(np.float32),
        after=spread_plane(Z, clustering.centers)[rows].astype(np.float32),
        nearest_before=nearest(X[rows]),
        nearest_after=nearest(Z[rows]),
        tiles=np.round(255 * shares).astype(np.uint8),
        components=pictures(metric.components_[:MAX_COMPONENTS]).astype(np.float32),
        patterns=pictures(metric.covariance_[:MAX_COMPONENTS]).astype(np.float32),
        features=features.astype(np.int32),
        confusion=confusion.astype(np.int32),
        chosen=spread_plane(Z_chosen, choice.cluster_centers_)[rows].astype(np.float32),
        chosen_clusters=chosen_clusters[rows].astype(np.int32),
        nearest_chosen=nearest(Z_chosen[rows]),
        chosen_confusion=chosen_confusion.astype(np.int32),
    )


def matched(classes: IntVector, labels: IntVector, n_clusters: int) -> tuple[IntVector, IntMatrix]:
    """Number clusters by the classes they match best, one to one; return them and the counts class by cluster."""
    counts = np.zeros((n_clusters, n_clusters), dtype=np.int64)
    np.add.at(counts, (classes, labels), 1)
    _, partner = linear_sum_assignment(counts, maximize=True)
    number = np.empty(n_clusters, dtype=np.int64)
    number[partner] = np.arange(n_clusters)
    return number[labels], counts[:, partner]


def spread_plane(Z: FloatMatrix, centers: FloatMatrix) -> FloatMatrix:
    """Map rows to the plane in which cluster centres spread most, or the rows themselves where centres span none."""
    return plane(Z, centers if len(centers) > 2 else Z)


def plane(Z: FloatMatrix, points: FloatMatrix) -> FloatMatrix:
    """Map rows to the plane in which `points` spread most; a line gets a second coordinate of zeros."""
    shown = PCA(min(2, *points.shape), svd_solver="full" if points.shape[1] < 2000 else "auto", random_state=0)
    mapped = shown.fit(points).transform(Z)
    return np.asarray(np.pad(mapped, ((0, 0), (0, 2 - mapped.shape[1]))))


def nearest(X: FloatMatrix) -> IntMatrix:
    """Positions of the nearest other rows of each row, nearest first."""
    n_nearest = min(N_NEAREST, len(X) - 1)
    finder = NearestNeighbors(n_neighbors=n_nearest, algorithm="brute").fit(X)
    return np.asarray(finder.kneighbors(return_distance=False), dtype=np.int32)


def reduced(images: FloatMatrix, shape: tuple[int, int]) -> FloatMatrix:
    """Return flat images as (n, height, width), by means of blocks where a side is longer than a thumbnail's."""
    height, width = shape
    step = -(-max(shape) // MAX_SIDE)
    pictures = np.reshape(images, (-1, height, width))
    if step == 1:
        return pictures
    # A side shorter than a block stays as long as it is.
    down, across = min(step, height), min(step, width)
    rows, columns = height // down, width // across
    blocks = pictures[:, : rows * down, : columns * across].reshape(-1, rows, down, columns, across)
    return np.asarray(blocks.mean(axis=(2, 4)))


def leading_features(share: FloatVector) -> IntVector:
    """Features that count most for the metric, in the order of the input."""
    return np.sort(np.argsort(-share, kind="stable")[:MAX_FEATURES])
