"""CAN: clustering with adaptive neighbours."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from adaam._checks import check_whole, warn_caller, widened
from adaam.affinity.clustered_graph import ClusteredGraph, Report, can_graph
from adaam.array_api import on_host
from adaam.engines import Engine, resolve_engine
from adaam.estimators.fitting import check_neighbors, prepared_sample, resolve_preparation
from adaam.estimators.phases import CallbackSupportMixin, FitPhases, fit_phases, with_callbacks
from adaam.prepare import Preparation
from adaam.progress import teller

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
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen in fit, when X has names that are all strings.

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
        self : CAN
            The fitted clusterer.
        """
        n_clusters = check_whole("n_clusters", self.n_clusters)
        max_iter = check_whole("max_iter", self.max_iter)
        preparation = resolve_preparation(self.preparation)
        engine = resolve_engine(self.engine)
        given = validate_data(
            self, on_host(X), accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2
        )
        X = widened(given)
        check_clusters(n_clusters, X.shape[0])
        n_neighbors = neighbor_count(self.n_neighbors, X.shape[0])

        _, sample = prepared_sample(X, None, preparation, engine, rows_are_nodes=True)
        with fit_phases(self, max_iter, X) as phase:
            report = iteration_report("CAN", self.verbose, phase)
            graph = can_graph(sample, n_clusters, n_neighbors, max_iter, report)

            warn_of_pieces(graph, n_clusters)
            self.labels_ = graph.pieces
            self.affinity_matrix_ = graph.weights
            self.n_iter_ = graph.n_iter
            self.engine_ = engine.name
        return self

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def check_clusters(n_clusters: int, n_samples: int) -> None:
    """Each cluster needs a row."""
    if n_clusters > n_samples:
        raise ValueError(f"n_clusters={n_clusters} exceeds n_samples={n_samples}. Use n_clusters <= {n_samples}.")


def neighbor_count(n_neighbors: Any, n_samples: int) -> int:
    """Neighbours to start from; the usual number gives way to fewer rows, an explicit one does not."""
    if n_neighbors is None:
        return max(1, min(USUAL_NEIGHBORS, n_samples - 2))
    wanted = check_whole("n_neighbors", n_neighbors)
    check_neighbors(wanted, n_samples)
    return wanted


def iteration_report(name: str, verbose: int, phase: FitPhases) -> Report:
    """Tell callbacks of each iteration, and with `verbose` the log."""
    tell = teller(verbose)

    def report(iteration: int, penalty: float, n_pieces: int) -> None:
        tell(f"{name} iteration {iteration}: lambda {penalty:.3g}, {n_pieces} components")
        phase.tick(f"iteration {iteration}")

    return report


def warn_of_pieces(graph: ClusteredGraph, n_clusters: int) -> None:
    """Warn where the graph did not end with as many pieces as there are clusters."""
    if graph.n_pieces == n_clusters:
        return
    remedy = "larger" if graph.n_pieces > n_clusters else "smaller"
    warn_caller(
        f"The learned graph has {graph.n_pieces} connected components after {graph.n_iter} iterations, not "
        f"n_clusters={n_clusters}; labels_ are those components. Try a {remedy} n_neighbors, or more max_iter.",
        ConvergenceWarning,
    )
