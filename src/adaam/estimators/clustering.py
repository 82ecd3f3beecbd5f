"""Clustering in a learned metric."""

from typing import Any, Self, cast

import numpy as np
from sklearn.base import ClusterMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from adaam._checks import check_weights, check_whole
from adaam._typing import IntVector
from adaam.array_api import in_kind
from adaam.engines import Engine
from adaam.estimators.adaam import AdaAM
from adaam.estimators.linear_metric import LinearMetric


class AdaAMClustering(ClusterMixin, LinearMetric):
    """Cluster rows by k-means in the metric that AdaAM learns from them.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    learner : estimator, default=None
        The metric learner: any of this library's linear metrics; None means `AdaAM(n_clusters)`.
    n_init : int, default=10
        k-means++ starts; the run of least inertia is kept.
    random_state : int, RandomState instance or None, default=0
        Seed of the starts. The default makes results the same from run to run.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each training row, on the host also where X is a tensor.
    cluster_centers_ : ndarray of shape (n_clusters, n_components_)
        Centres in the learned space.
    inertia_ : float
        Sum of squared distances to the nearest centre, weighted.
    metric_ : LinearMetric
        The fitted learner.
    components_, covariance_, eigenvalues_, mean_, n_components_, preparation_, engine_
        Those of the fitted learner, so that `transform` and the metric work as on the learner itself.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen in fit, when X has names that are all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAMClustering
    >>> X, y = load_digits(return_X_y=True)
    >>> labels = AdaAMClustering(n_clusters=10).fit_predict(X)
    >>> labels.shape
    (1797,)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        learner: LinearMetric | None = None,
        n_init: int = 10,
        random_state: Any = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.learner = learner
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, neighbors: Any = None) -> Self:
        """Learn the metric and cluster the rows in it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to cluster.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w equal rows.
        neighbors : tuple, sparse matrix or fitted neighbours object, default=None
            A neighbour graph of the rows, as in `AdaAM.fit`.

        Returns
        -------
        self : AdaAMClustering
            The fitted clusterer.
        """
        n_clusters = check_whole("n_clusters", self.n_clusters)
        n_init = check_whole("n_init", self.n_init)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        X = self._rows(X, reset=True)
        learner = clone(self._learner())
        given = {"sample_weight": sample_weight, "neighbors": neighbors}
        self.metric_ = learner.fit(X, **{name: value for name, value in given.items() if value is not None})
        for name in _SHARED:
            setattr(self, name, getattr(self.metric_, name))

        engine = self._engine()
        Z = self._map().apply(X, engine)
        weights = check_weights(sample_weight, X.shape[0])
        clusters = engine.kmeans(Z, n_clusters, n_init, seed, weights)
        self.cluster_centers_ = clusters.centers
        self.inertia_ = clusters.inertia
        self.labels_ = clusters.labels
        return self

    @in_kind
    def predict(self, X: Any) -> IntVector:
        """Return the cluster of each row: the nearest centre in the learned metric.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to assign.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row; a tensor on the same device where X is one.
        """
        check_is_fitted(self)
        engine = self._engine()
        labels = engine.nearest(self._map().apply(self._rows(X, reset=False), engine), self.cluster_centers_)
        return cast(IntVector, engine.like(labels, X))

    def _learner(self) -> LinearMetric:
        return AdaAM(self.n_clusters) if self.learner is None else self.learner

    def _engine(self) -> Engine:
        return self._learner()._engine()


# What a clusterer takes over from its fitted learner.
_SHARED = (
    "components_",
    "covariance_",
    "eigenvalues_",
    "mean_",
    "n_components_",
    "preparation_",
    "engine_",
)
