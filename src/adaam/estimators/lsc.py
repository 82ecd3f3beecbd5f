"""LSC: landmark spectral clustering."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from adaam._checks import check_magnitude, check_number, check_whole, check_word, largest_magnitude, widened
from adaam._typing import FloatMatrix, IntVector, Tall
from adaam.affinity.landmarks import (
    kmeans_landmarks,
    landmark_directions,
    landmark_weights,
    mean_distance,
    sampled_landmarks,
)
from adaam.array_api import in_kind, on_host
from adaam.engines import CPUEngine
from adaam.estimators.can import check_clusters

LANDMARKS = {"kmeans": kmeans_landmarks, "random": sampled_landmarks}


class LSC(ClusterMixin, BaseEstimator):
    """Spectral clustering of a graph that links rows through landmarks, in time linear in the number of rows.

    Each row is written as weights on its few nearest landmarks. Rows that share landmarks are linked; the spectral
    vectors of that graph come from a matrix of landmarks by landmarks, and k-means clusters them.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_landmarks : int, default=1000
        Landmarks at most; where X has no more distinct rows, they are the landmarks.
    n_nearest : int, default=5
        Landmarks each row is written by.
    landmarks : {"kmeans", "random"}, default="kmeans"
        Centres of a few k-means iterations (LSC-K), or rows drawn at random (LSC-R).
    bandwidth : {"mean", "mean-squared"} or float, default="mean"
        h of the weights exp(-d² / (2 h²)): the mean distance of all rows to all landmarks; the mean of squared
        distances, as in the authors' code, whose unit is off but which makes weights nearly equal; or a number.
    n_init : int, default=10
        k-means++ starts on the spectral vectors; the run of least inertia is kept.
    random_state : int, RandomState instance or None, default=0
        Seed of landmarks and starts. The default makes results the same from run to run.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row.
    landmarks_ : ndarray of shape (n_landmarks_, n_features)
        The landmarks.
    bandwidth_ : float
        h as used.
    directions_ : ndarray of shape (n_landmarks_, n_vectors)
        Turns weights on landmarks into spectral vectors.
    cluster_centers_ : ndarray of shape (n_clusters, n_vectors)
        Centres among the spectral vectors, each scaled to unit length.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen in fit, when X has names that are all strings.

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

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_landmarks: int = 1000,
        n_nearest: int = 5,
        landmarks: str = "kmeans",
        bandwidth: str | float = "mean",
        n_init: int = 10,
        random_state: Any = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_landmarks = n_landmarks
        self.n_nearest = n_nearest
        self.landmarks = landmarks
        self.bandwidth = bandwidth
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to cluster.
        y : None
            Ignored.

        Returns
        -------
        self : LSC
            The fitted clusterer.
        """
        n_clusters = check_whole("n_clusters", self.n_clusters)
        n_landmarks = check_whole("n_landmarks", self.n_landmarks)
        n_nearest = check_whole("n_nearest", self.n_nearest)
        n_init = check_whole("n_init", self.n_init)
        choose = LANDMARKS[check_word("landmarks", self.landmarks, tuple(LANDMARKS))]
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=2)
        X = self._rows(X, reset=True)
        check_clusters(n_clusters, X.shape[0])

        self.landmarks_ = choose(X, n_landmarks, np.random.default_rng(int(seeds[0])))
        self.bandwidth_ = self._bandwidth(X)
        Z = landmark_weights(X, self.landmarks_, n_nearest, self.bandwidth_)
        self.directions_ = landmark_directions(Z, n_clusters)
        clusters = CPUEngine().kmeans(
            unit_rows(Z @ self.directions_), n_clusters, n_init, int(seeds[1]), np.ones(X.shape[0])
        )
        self.cluster_centers_ = clusters.centers
        self.labels_ = clusters.labels
        return self

    @in_kind
    def predict(self, X: Any) -> IntVector:
        """Return the cluster of each row: the nearest centre, once the row is written by its landmarks.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to assign.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row.
        """
        check_is_fitted(self)
        Z = landmark_weights(self._rows(X, reset=False), self.landmarks_, self.n_nearest, self.bandwidth_)
        return CPUEngine().nearest(unit_rows(Z @ self.directions_), self.cluster_centers_)

    def _bandwidth(self, X: Tall) -> float:
        if isinstance(self.bandwidth, str):
            rule = check_word("bandwidth", self.bandwidth, ("mean", "mean-squared"))
            return mean_distance(X, self.landmarks_, squared=rule == "mean-squared")
        return check_number("bandwidth", self.bandwidth, above=0.0)

    def _rows(self, X: Any, *, reset: bool) -> Tall:
        rows: Tall = widened(
            validate_data(
                self,
                on_host(X),
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_min_samples=2 if reset else 1,
            )
        )
        check_magnitude("X", largest_magnitude(rows), rows.dtype, learning=reset)
        return rows

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def unit_rows(embedding: FloatMatrix) -> FloatMatrix:
    """Scale each row to unit Euclidean length; zero rows stay zero."""
    lengths = np.linalg.norm(embedding, axis=1, keepdims=True)
    return np.asarray(embedding / np.where(lengths == 0, 1.0, lengths))
