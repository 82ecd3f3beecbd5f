"""CAN and PCAN: clustering with adaptive neighbours, and projected clustering with them."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from adaam._checks import check_clusters, check_components, check_whole, host_rows, in_kind, warn_caller
from adaam._typing import IntVector
from adaam.affinity.clustered_graph import ClusteredGraph, Search, can_graph, pcan_graph
from adaam.engines import Engine, resolve_engine
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.phases import CallbackSupportMixin, fit_phases, with_callbacks
from adaam.graph import check_neighbors
from adaam.prepare import LinearMap, Preparation, Sample, prepared_sample, resolve_preparation

# Neighbours in the authors' code, where the rows allow it.
USUAL_NEIGHBORS = 15


class CAN(CallbackSupportMixin, ClusterMixin, BaseEstimator):
    """Cluster rows by a neighbour graph that is learned until it falls into as many pieces as there are clusters.

    The graph's weights and its spectral vectors are updated in turn: each row spreads over its nearest neighbours by a
    distance that also counts how far apart the spectral vectors are. The pieces of the last graph are the clusters, so
    no k-means and no random numbers are needed.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters c.
    n_neighbors : int, default=None
        Neighbours of each row; None means 15, the value of the authors' code, or n_samples - 2 if that is smaller.
    max_iter : int, default=30
        Graphs built at most.
    preparation : {"center", "unit", "linear"} or Preparation, default="center"
        How rows are prepared; centring changes no distance.
    engine : {"auto", "cpu", "gpu"} or engine, default="auto"
        Where the computation runs.
    verbose : int, default=0
        1 logs each iteration (number, penalty, pieces, seconds) through the logger "adaam", or on standard
        error if that has no handler.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row: its piece of the graph, numbered in order of first appearance.
    affinity_matrix_ : csr_array of shape (n_samples, n_samples)
        The learned graph, symmetric.
    n_iter_ : int
        Graphs built.
    engine_ : str
        Name of the engine that ran.
    n_features_in_, feature_names_in_
        As in `AdaAM`.

    See Also
    --------
    PCAN : The same in a projection learned along with the graph; it also takes new rows.

    Notes
    -----
    Equal rows are not merged: each is a node of the graph. A row's neighbours stay the k nearest of the prepared rows,
    so a neighbour graph of more than c pieces can never be joined; a larger `n_neighbors` helps. Where the graph does
    not end with c pieces, a `ConvergenceWarning` says so and the labels are the pieces there are.

    References
    ----------
    F. Nie, X. Wang, H. Huang, "Clustering and Projected Clustering with Adaptive Neighbors", KDD 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> from adaam import CAN
    >>> X, _ = make_blobs(60, centers=3, random_state=0, cluster_std=0.4)
    >>> np.bincount(CAN(n_clusters=3).fit_predict(X))
    array([20, 20, 20])
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_neighbors: int | None = None,
        max_iter: int = 30,
        preparation: str | Preparation = "center",
        engine: str | Engine = "auto",
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.preparation = preparation
        self.engine = engine
        self.verbose = verbose

    @with_callbacks
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
        self : object
            The fitted clusterer.
        """
        n_clusters = check_whole("n_clusters", self.n_clusters)
        max_iter = check_whole("max_iter", self.max_iter)
        preparation = resolve_preparation(self.preparation)
        engine = resolve_engine(self.engine)
        X = self._rows(X, reset=True)
        check_clusters(n_clusters, X.shape[0])
        if self.n_neighbors is None:
            n_neighbors = max(1, min(USUAL_NEIGHBORS, X.shape[0] - 2))
        else:
            n_neighbors = check_whole("n_neighbors", self.n_neighbors)
            check_neighbors(n_neighbors, X.shape[0])

        prepared, sample = prepared_sample(X, None, preparation, engine, rows_are_nodes=True)
        with fit_phases(self, max_iter, X) as phase:

            def report(iteration: int, penalty: float, n_pieces: int) -> None:
                phase.step(f"iteration {iteration}", f": lambda {penalty:.3g}, {n_pieces} components")

            graph = self._learned_graph(X, prepared, sample, Search(n_clusters, n_neighbors, max_iter, report))
            if graph.n_pieces != n_clusters:
                remedy = "larger" if graph.n_pieces > n_clusters else "smaller"
                warn_caller(
                    f"The learned graph has {graph.n_pieces} connected components after {graph.n_iter} iterations, not "
                    f"n_clusters={n_clusters}; labels_ are those components. Try a {remedy} n_neighbors, or more "
                    "max_iter.",
                    ConvergenceWarning,
                )
            self.labels_, self.affinity_matrix_, self.n_iter_ = graph.pieces, graph.weights, graph.n_iter
            self.engine_ = engine.name
        return self

    def _rows(self, X: Any, *, reset: bool) -> Any:
        return host_rows(self, X, reset=reset)[0]

    def _learned_graph(self, X: Any, prepared: LinearMap, sample: Sample, search: Search) -> ClusteredGraph:
        return can_graph(sample, search)

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class PCAN(LinearMetric, CAN):
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
        Neighbours of each row in the first graph; they set how wide rows spread in all later ones. None means as in
        `CAN`.
    max_iter, preparation, engine, verbose
        As in `CAN`. The preparation "center" removes nothing but directions in which the rows do not vary.

    Attributes
    ----------
    labels_, affinity_matrix_, n_iter_
        As in `CAN`.
    embedding_ : ndarray of shape (n_samples, n_components_)
        Training rows in the learned space, to which `predict` compares new ones.
    components_, eigenvalues_, mean_, covariance_, n_components_, n_neighbors_, preparation_, engine_
        As in `AdaAM`, like `n_features_in_` and `feature_names_in_`.

    Notes
    -----
    Equal rows are not merged, and a `ConvergenceWarning` is given, as by `CAN`. Memory is that of the rows, the graph
    and one block of distances; there is no n x n array and no full eigendecomposition. Rows of about as many dimensions
    as there are rows can be set apart in any way by a linear map, and then no penalty joins pieces again once they are
    too many; fewer principal components, `preparation=Preparation("none", 0.95)`, help.

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

    def _learned_graph(self, X: Any, prepared: LinearMap, sample: Sample, search: Search) -> ClusteredGraph:
        n_components = check_components(self.n_components, search.n_clusters, sample.X.shape[1])
        graph, projection = pcan_graph(sample, n_components, search)
        preparation, self.n_neighbors_ = resolve_preparation(self.preparation), search.n_neighbors
        self._store_map(prepared, projection, sample.moments, X.dtype, preparation, sample.engine)
        self.embedding_ = sample.engine.to_host(self._map().apply(X, sample.engine))
        return graph

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
        nearest, _ = engine.nearest_known(Z, self.embedding_, 1)
        return np.asarray(self.labels_[nearest[:, 0]])
