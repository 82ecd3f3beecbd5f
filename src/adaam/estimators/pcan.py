"""PCAN: projected clustering with adaptive neighbours, a metric learner and a clusterer in one."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from adaam._checks import check_whole
from adaam._typing import IntVector
from adaam.affinity.clustered_graph import pcan_graph
from adaam.array_api import in_kind
from adaam.engines import Engine, resolve_engine
from adaam.estimators.can import check_clusters, iteration_report, neighbor_count, warn_of_pieces
from adaam.estimators.fitting import check_components, prepared_sample, resolve_preparation, store
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.phases import CallbackSupportMixin, fit_phases, with_callbacks
from adaam.prepare import Preparation
from adaam.projection import Projection


class PCAN(CallbackSupportMixin, ClusterMixin, LinearMetric):
    """Learn a linear map and, in it, a neighbour graph that falls into as many pieces as there are clusters.

    Graph, map and spectral vectors are updated in turn: each row spreads over the rows near it in the map, by a
    distance that also counts how far apart the spectral vectors are, until the graph has exactly `n_clusters` pieces.
    The pieces are the clusters.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters c.
    n_components : int, default=None
        Dimension of the learned space; None means `n_clusters`, or the rank of the data if that is smaller.
        (The authors' code takes one less.)
    n_neighbors : int, default=None
        Neighbours of each row in the first graph; they set how wide rows spread in all later ones. None means 15, the
        value of the authors' code, or n_samples - 2 if that is smaller.
    max_iter : int, default=30
        Graphs built at most.
    preparation : {"center", "unit", "linear"} or Preparation, default="center"
        How rows are prepared. "center" removes nothing but directions in which the rows do not vary.
    engine : {"auto", "cpu", "gpu"} or engine, default="auto"
        Where the computation runs.
    verbose : int, default=0
        1 logs each iteration (number, penalty, pieces, seconds) through the logger "adaam", or on standard
        error if that has no handler.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each training row: its piece of the graph, numbered in order of first appearance.
    embedding_ : ndarray of shape (n_samples, n_components_)
        Training rows in the learned space, to which `predict` compares new ones.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The learned graph, symmetric.
    n_iter_ : int
        Graphs built.
    components_ : ndarray of shape (n_components_, n_features)
        The map, as in `AdaAM`.
    eigenvalues_ : ndarray of shape (n_components_,)
        Eigenvalues of the projection, ascending.
    mean_ : ndarray of shape (n_features,)
        Mean of the (scaled) rows.
    covariance_ : ndarray of shape (n_components_, n_features)
        Covariance between components and prepared features, used by `explain`.
    n_components_, n_neighbors_ : int
        What was used.
    preparation_ : Preparation
        What was used.
    engine_ : str
        Name of the engine that ran.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen in fit, when X has names that are all strings.

    Notes
    -----
    Equal rows are not merged: each is a node of the graph. Memory is that of the rows, the graph and one block of
    distances; there is no n x n array and no full eigendecomposition. Where the graph does not end with c pieces, a
    `ConvergenceWarning` says so and the labels are the pieces there are. Rows of about as many dimensions as there are
    rows can be set apart in any way by a linear map, and then no penalty joins pieces again once they are too many;
    fewer principal components, `preparation=Preparation("none", 0.95)`, help.

    References
    ----------
    F. Nie, X. Wang, H. Huang, "Clustering and Projected Clustering with Adaptive Neighbors", KDD 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> from adaam import PCAN
    >>> X, _ = make_blobs(60, 5, centers=3, random_state=0)
    >>> model = PCAN(n_clusters=3).fit(X)
    >>> np.bincount(model.labels_)
    array([20, 20, 20])
    >>> model.transform(X).shape
    (60, 3)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_components: int | None = None,
        n_neighbors: int | None = None,
        max_iter: int = 30,
        preparation: str | Preparation = "center",
        engine: str | Engine = "auto",
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.preparation = preparation
        self.engine = engine
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the map and the clusters.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to learn from.
        y : None
            Ignored.

        Returns
        -------
        self : PCAN
            The fitted learner.
        """
        n_clusters = check_whole("n_clusters", self.n_clusters)
        max_iter = check_whole("max_iter", self.max_iter)
        preparation = resolve_preparation(self.preparation)
        engine = resolve_engine(self.engine)
        X = self._rows(X, reset=True)
        check_clusters(n_clusters, X.shape[0])
        n_neighbors = neighbor_count(self.n_neighbors, X.shape[0])

        prepared, sample = prepared_sample(X, None, preparation, engine, rows_are_nodes=True)
        n_components = check_components(self.n_components, n_clusters, sample.X.shape[1])
        with fit_phases(self, max_iter, X) as phase:
            report = iteration_report("PCAN", self.verbose, phase)
            graph, pairs = pcan_graph(sample, n_clusters, n_components, n_neighbors, max_iter, report)

            warn_of_pieces(graph, n_clusters)
            store(self, prepared, Projection(np.ascontiguousarray(pairs.vectors.T), pairs.values), sample, X)
            self.preparation_ = preparation
            self.n_neighbors_ = n_neighbors
            self.embedding_ = engine.to_host(self._map().apply(X, engine))
            self.labels_ = graph.pieces
            self.affinity_matrix_ = graph.weights
            self.n_iter_ = graph.n_iter
        return self

    @in_kind
    def predict(self, X: Any) -> IntVector:
        """Return the cluster of each row: that of the training row nearest to it in the learned space.

        Clusters are pieces of a graph and need not be round, so the nearest row tells more than the nearest centre.

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
        engine = self._engine()
        Z = self._map().apply(self._rows(X, reset=False), engine)
        return np.asarray(self.labels_[engine.nearest(Z, self.embedding_)])
