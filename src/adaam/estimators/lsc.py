"""LSC: landmark spectral clustering."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse, vstack
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from adaam._checks import check_clusters, check_magnitude, check_number, check_whole, check_word, host_rows, in_kind
from adaam._typing import FloatMatrix, IntVector, Tall
from adaam.engines import CPUEngine
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.equal_rows import first_equal
from adaam.linalg import range_eigenpairs

BLOCK_BYTES = 1 << 25  # memory for the distances of one block of rows to all landmarks

# Centres need only cover the rows, not converge; the authors' code runs this many iterations too.
KMEANS_ITERATIONS = 5


def chosen_landmarks(X: Tall, n_landmarks: int, rng: np.random.Generator, *, settled: bool) -> FloatMatrix:
    """Draw distinct rows of X, or all if there are no more; if `settled`, refine them by a few k-means iterations."""
    chosen = np.sort(rng.permutation(np.unique(first_equal(X)))[:n_landmarks])
    start = np.asarray(X[chosen].toarray() if issparse(X) else X[chosen])
    if not settled or len(start) < n_landmarks:
        return start
    with warnings.catch_warnings():
        # An empty cluster gives a landmark that no row is near to, which is harmless.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = KMeans(len(start), init=start, n_init=1, max_iter=KMEANS_ITERATIONS).fit(X)
    return np.asarray(search.cluster_centers_)


def mean_distance(X: Tall, landmarks: FloatMatrix, *, squared: bool) -> float:
    """Mean (squared) Euclidean distance from all rows to all landmarks."""

    def total(rows: slice) -> float:
        return float(euclidean_distances(X[rows], landmarks, squared=squared).sum(dtype=np.float64))

    return float(sum(ordered_map(total, _blocks(X, landmarks))) / (X.shape[0] * len(landmarks)))


def landmark_weights(X: Tall, landmarks: FloatMatrix, n_nearest: int, bandwidth: float) -> csr_array:
    """Gaussian weights exp(-d² / (2 bandwidth²)) of each row on its nearest landmarks, normalised to sum 1.

    With a bandwidth of 0, only the nearest landmark has weight.
    """
    n_kept = min(n_nearest, len(landmarks))

    def block_weights(rows: slice) -> csr_array:
        distances = np.asarray(euclidean_distances(X[rows], landmarks, squared=True), np.float64)
        columns = np.argsort(distances, axis=1, kind="stable")[:, :n_kept]
        beyond = np.take_along_axis(distances, columns, axis=1)
        # Relative to the nearest, so that no row underflows far from all landmarks; normalising cancels the shift.
        beyond -= beyond[:, :1]
        # Divided twice: a bandwidth that is a mean of squares may have a square that overflows.
        weights = np.exp(-beyond / bandwidth / bandwidth / 2.0) if bandwidth > 0 else (beyond == 0).astype(np.float64)
        weights /= weights.sum(axis=1, keepdims=True)
        starts = np.arange(len(columns) + 1) * n_kept
        return csr_array((weights.ravel(), columns.ravel(), starts), shape=(len(columns), len(landmarks)))

    return csr_array(vstack(list(ordered_map(block_weights, _blocks(X, landmarks)))))


def landmark_directions(Z: csr_array, n_directions: int) -> FloatMatrix:
    """Return the p x r matrix that maps landmark weights Z to spectral vectors of Z S⁻¹ Z', S the column sums of Z.

    They are the leading left singular vectors of Z S^(-1/2), computed from its p x p Gram matrix. The constant vector,
    which always leads, is removed explicitly: if the graph is disconnected, it is one of several leading ones. If
    there is nothing but the constant vector, zeros are returned.
    """
    n, p = Z.shape
    sums = np.asarray(Z.sum(axis=0)).ravel()
    scale = np.where(sums > 0, 1.0 / np.sqrt(np.where(sums > 0, sums, 1.0)), 0.0)
    scaled = Z @ diags_array(scale)
    constant = np.sqrt(sums / n)
    pairs = range_eigenpairs((scaled.T @ scaled).toarray() - np.outer(constant, constant), n)
    # The eigenvalue of the constant is 1 - 1 = 0, but rounding may leave it, or all, just above the floor.
    kept = np.flatnonzero(pairs.values > 1e-10)[:n_directions]
    if len(kept) == 0:
        return np.zeros((p, 1))
    return np.asarray(scale[:, None] * pairs.vectors[:, kept] / np.sqrt(pairs.values[kept]))


def _blocks(X: Tall, landmarks: FloatMatrix) -> list[slice]:
    return row_blocks(X.shape[0], max(16, BLOCK_BYTES // (8 * len(landmarks))))


@dataclass(eq=False, repr=False)
class LSC(ClusterMixin, BaseEstimator):
    """Spectral clustering of a graph that links rows through landmarks, in time linear in the number of rows.

    Each row is represented by weights on its few nearest landmarks. Rows that share landmarks are linked; the spectral
    vectors of that graph are computed from a landmarks x landmarks matrix and clustered by k-means.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_landmarks : int, default=1000
        Maximum number of landmarks; if X has no more distinct rows than this, they are the landmarks.
    n_nearest : int, default=5
        Number of nearest landmarks that represent each row.
    landmarks : {"kmeans", "random"}, default="kmeans"
        Centres of a few k-means iterations (LSC-K), or rows drawn at random (LSC-R).
    bandwidth : {"mean", "mean-squared"} or float, default="mean"
        h of the weights exp(-d² / (2 h²)), or a rule for it. "mean": mean distance of all rows to all landmarks.
        "mean-squared": mean squared distance, as in the authors' code; the unit is wrong, but weights are nearly equal.
    n_init : int, default=10
        Number of k-means++ starts on the spectral vectors; the run of lowest inertia is kept.
    random_state : int, RandomState instance or None, default=0
        Seed of landmarks and starts. The default makes results the same from run to run.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row, numbered in order of first appearance.
    landmarks_ : ndarray of shape (n_landmarks_, n_features)
        The landmarks.
    bandwidth_ : float
        The h that was used.
    directions_ : ndarray of shape (n_landmarks_, n_vectors)
        Matrix that maps landmark weights to spectral vectors.
    cluster_centers_ : ndarray of shape (n_clusters, n_vectors)
        Cluster centres of the spectral vectors, which are scaled to unit length.
    n_features_in_, feature_names_in_
        As in `AdaAM`.

    References
    ----------
    X. Chen, D. Cai, "Large Scale Spectral Clustering with Landmark-Based Representation", AAAI 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_circles
    >>> from adaam import LSC
    >>> X, _ = make_circles(400, factor=0.3, random_state=0)
    >>> np.bincount(LSC(n_clusters=2, n_landmarks=100, n_nearest=3).fit_predict(X))
    array([200, 200])
    """

    n_clusters: int = 8
    _: KW_ONLY
    n_landmarks: int = 1000
    n_nearest: int = 5
    landmarks: str = "kmeans"
    bandwidth: str | float = "mean"
    n_init: int = 10
    random_state: Any = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the rows and return the clusterer.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to cluster.
        y : None
            Ignored.
        """
        n_clusters = check_whole("n_clusters", self.n_clusters)
        n_landmarks = check_whole("n_landmarks", self.n_landmarks)
        n_nearest = check_whole("n_nearest", self.n_nearest)
        n_init = check_whole("n_init", self.n_init)
        settled = check_word("landmarks", self.landmarks, ("kmeans", "random")) == "kmeans"
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=2)
        X = self._rows(X, reset=True)
        check_clusters(n_clusters, X.shape[0])

        self.landmarks_ = chosen_landmarks(X, n_landmarks, np.random.default_rng(int(seeds[0])), settled=settled)
        if isinstance(self.bandwidth, str):
            rule = check_word("bandwidth", self.bandwidth, ("mean", "mean-squared"))
            self.bandwidth_ = mean_distance(X, self.landmarks_, squared=rule == "mean-squared")
        else:
            self.bandwidth_ = check_number("bandwidth", self.bandwidth, above=0.0)
        Z = landmark_weights(X, self.landmarks_, n_nearest, self.bandwidth_)
        self.directions_ = landmark_directions(Z, n_clusters)
        embedding = normalize(Z @ self.directions_)
        clusters = CPUEngine().kmeans(embedding, n_clusters, n_init, int(seeds[1]), np.ones(X.shape[0]))
        # Numbered by first appearance, since rounding decides which of the starts with the same clusters is kept.
        order = np.argsort([np.argmax(clusters.labels == label) for label in range(n_clusters)], kind="stable")
        self.cluster_centers_ = clusters.centers[order]
        self.labels_ = np.argsort(order)[clusters.labels]
        return self

    @in_kind
    def predict(self, X: Any) -> IntVector:
        """Return the cluster of each row: that of the centre nearest to its spectral vector.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to assign.
        """
        check_is_fitted(self)
        Z = landmark_weights(self._rows(X, reset=False), self.landmarks_, self.n_nearest, self.bandwidth_)
        nearest, _ = CPUEngine().nearest_known(normalize(Z @ self.directions_), self.cluster_centers_, 1)
        return nearest[:, 0]

    def _rows(self, X: Any, *, reset: bool) -> Tall:
        rows: Tall
        rows, largest = host_rows(self, X, reset=reset)
        check_magnitude("X", largest, rows.dtype, learning=reset)
        return rows

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
