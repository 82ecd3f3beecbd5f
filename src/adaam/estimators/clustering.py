"""Clustering in a metric that is chosen, or learned, without labels."""

import warnings
from typing import Any, Self, cast

import numpy as np
from sklearn.base import ClusterMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from adaam._checks import check_whole, check_word
from adaam._typing import IntVector, Tall
from adaam.array_api import in_kind
from adaam.engines import DaskEngine, Engine, resolve_engine
from adaam.estimators.choosing import Chosen, choose, counted_clusters, given_metric
from adaam.estimators.fitting import row_weights
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.numbering import centers_and_inertia, numbered
from adaam.estimators.spread_clustering import (
    SpreadRows,
    choose_spread,
    count_of,
    given_spread,
    known_rows,
    partition,
    voted,
)
from adaam.estimators.voting import voted_labels
from adaam.partition.heads import HEADS, LINKS_PER_ROW

LONE_NEIGHBORS = "neighbors belong to one metric; pass learner=AdaAM(n_clusters) with them."


class AdaAMClustering(ClusterMixin, LinearMetric):
    """Cluster rows in the metric that suits them, chosen without labels.

    A small family of linear metrics is tried: the rows as they are, under one or two preparations, and AdaAM maps of
    two widths. Each is partitioned by k-means and along its neighbour graph, and scored by modularity. The simplest
    that nothing clearly beats is taken, and `selection_` says why.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters. "auto" estimates it from the neighbour graph of the prepared rows; `selection_.count` then
        holds the estimate, its range and the criterion at every number.
    learner : estimator, default=None
        One metric in place of the family: any of this library's linear metrics. `AdaAM(n_clusters)` with
        head="k-means" is the paper's method.
    head : {"auto", "k-means", "diffusion", "merging"}, default="auto"
        How rows are partitioned in a metric. "k-means" on the rows; "diffusion": k-means on diffusion coordinates of
        the neighbour graph; "merging": many small clusters of those coordinates, merged along the links of the graph.
        "auto" chooses with the metric.
    n_init : int, default=10
        k-means++ starts; the run of least inertia is kept.
    random_state : int, RandomState instance or None, default=0
        Seed of the starts. The default makes results the same from run to run.
    engine : {"auto", "cpu", "gpu", "dask"} or engine, default="auto"
        Where the work is done; a given learner brings its own.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each training row, on the host also where X is a tensor; a Dask array where X is one.
    selection_ : Selection
        What was tried, what was chosen and how sure that is; `print(model.selection_)` shows it as a table.
    head_ : str
        The head that was chosen.
    n_clusters_ : int
        Number of clusters.
    cluster_centers_ : ndarray of shape (n_clusters_, n_components_)
        Mean of each cluster in the learned space.
    inertia_ : float
        Sum of squared distances to the cluster's centre, weighted.
    metric_ : LinearMetric
        The metric that was chosen, fitted.
    embedding_ : ndarray of shape (n_distinct, n_components_)
        Distinct training rows in the metric, and in `embedding_labels_` their clusters: new rows take the cluster of
        their nearest ones. Both are None for k-means, where the centres are enough.
    components_, covariance_, eigenvalues_, mean_, n_components_, preparation_, engine_
        Those of `metric_`, so that `transform` and the metric work as on the metric itself.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen in fit, when X has names that are all strings.

    Notes
    -----
    A fit sees a multiset, as `AdaAM` does. Above 10,000 distinct rows the family is tried on that many, drawn at
    random, and the chosen metric and head are applied to all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAMClustering
    >>> X, y = load_digits(return_X_y=True)
    >>> model = AdaAMClustering(n_clusters=10).fit(X)
    >>> model.labels_.shape
    (1797,)
    >>> model.selection_.best.head
    'diffusion'
    """

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        learner: LinearMetric | None = None,
        head: str = "auto",
        n_init: int = 10,
        random_state: Any = 0,
        engine: str | Engine = "auto",
    ) -> None:
        self.n_clusters = n_clusters
        self.learner = learner
        self.head = head
        self.n_init = n_init
        self.random_state = random_state
        self.engine = engine

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, neighbors: Any = None) -> Self:
        """Choose a metric and cluster the rows in it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to cluster.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w equal rows.
        neighbors : tuple, sparse matrix or fitted neighbours object, default=None
            A neighbour graph of the rows for the given `learner`, as in `AdaAM.fit`.

        Returns
        -------
        self : AdaAMClustering
            The fitted clusterer.
        """
        n_init = check_whole("n_init", self.n_init)
        heads = tuple(HEADS) if check_word("head", self.head, ("auto", *HEADS)) == "auto" else (self.head,)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        engine = self._engine()
        X = self._rows(X, reset=True)
        arrived = engine.asarray(X)
        rows, weights = engine.distinct(arrived, row_weights(sample_weight, X.shape[0], engine))
        count = None
        if isinstance(engine, DaskEngine):
            given = {"sample_weight": sample_weight, "neighbors": neighbors}
            return self._fit_spread(SpreadRows(X, arrived, rows, weights), given, heads, n_init, seed, engine)
        if self.n_clusters == "auto":
            count = counted_clusters(rows, weights, engine, seed)
            n_clusters = count.n_clusters
        else:
            n_clusters = check_clusters(self.n_clusters, X.shape[0], rows.shape[0])

        if self.learner is None:
            if neighbors is not None:
                raise ValueError(LONE_NEIGHBORS)
            chosen = choose(rows, weights, n_clusters, heads, n_init=n_init, seed=seed, engine=engine)
        else:
            given = {"sample_weight": sample_weight, "neighbors": neighbors}
            given = {name: value for name, value in given.items() if value is not None}
            metric = clone(self.learner).fit(X, **given)
            chosen = given_metric(metric, rows, weights, n_clusters, heads, n_init=n_init, seed=seed, engine=engine)
        self._store(chosen, X, rows)
        self.selection_ = chosen.selection.with_count(count)
        return self

    def _fit_spread(
        self, at: SpreadRows, given: dict[str, Any], heads: tuple[str, ...], n_init: int, seed: int, engine: DaskEngine
    ) -> Self:
        """Fit rows on a cluster: nothing of the size of all rows comes here unless X was here."""
        known = known_rows(at.rows, at.weights, seed)
        count = count_of(known, seed) if self.n_clusters == "auto" else None
        if count is None:
            n_clusters = check_clusters(self.n_clusters, at.arrived.shape[0], at.rows.shape[0])
        else:
            n_clusters = count.n_clusters
        settings = {"n_init": n_init, "seed": seed}
        if self.learner is None:
            if given["neighbors"] is not None:
                raise ValueError(LONE_NEIGHBORS)
            chosen = choose_spread(known, at.rows, at.weights, n_clusters, heads, engine=engine, **settings)
        else:
            passed = {name: value for name, value in given.items() if value is not None}
            metric = clone(self.learner).fit(at.arrived, **passed)
            chosen = given_spread(metric, known, n_clusters, heads, **settings)
        self.metric_ = chosen.metric
        for name in _SHARED:
            setattr(self, name, getattr(chosen.metric, name))
        Z = self._map().apply(at.rows, engine)
        found = partition(chosen, known, Z, at.weights, n_clusters, n_init, seed, engine)
        self.head_, self.cluster_centers_, self.inertia_ = chosen.head, found.centers, found.inertia
        self.n_clusters_ = len(found.centers)
        self.embedding_, self.embedding_labels_ = found.embedding, found.embedding_labels
        labels = self._predicted(Z if at.rows is at.arrived else self._map().apply(at.arrived, engine), engine)
        self.labels_ = engine.like(labels, at.X)
        self.selection_ = chosen.selection.with_count(count)
        return self

    @in_kind
    def predict(self, X: Any) -> IntVector:
        """Return the cluster of each row.

        Of clusters found by k-means it is the one of nearest centre; of others, the one that most of the ten nearest
        training rows have. Distances are those of the learned metric.

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
        labels = self._predicted(self._map().apply(self._rows(X, reset=False), engine), engine)
        return cast(IntVector, engine.like(labels, X))

    def _predicted(self, Z: Tall, engine: Engine) -> IntVector:
        if self.embedding_ is None or self.embedding_labels_ is None:
            return engine.nearest(Z, self.cluster_centers_)
        if isinstance(engine, DaskEngine) and engine.accepts(Z):
            return cast(IntVector, voted(Z, self.embedding_, self.embedding_labels_, engine))
        return voted_labels(engine.to_host(Z), self.embedding_, self.embedding_labels_, LINKS_PER_ROW)

    def _store(self, chosen: Chosen, X: Tall, rows: Tall) -> None:
        """Keep the metric, the partition, and what tells the cluster of new rows."""
        self.metric_ = chosen.metric
        for name in _SHARED:
            setattr(self, name, getattr(chosen.metric, name))
        engine = self._engine()
        Z = np.asarray(engine.to_host(self._map().apply(rows, engine)))
        labels = numbered(chosen.labels, chosen.weights, Z)
        self.head_ = chosen.head
        self.n_clusters_ = int(labels.max()) + 1
        self.cluster_centers_, self.inertia_ = centers_and_inertia(Z, labels, chosen.weights)
        by_center = chosen.head == "k-means"
        self.embedding_ = None if by_center else Z
        self.embedding_labels_ = None if by_center else labels
        if rows.shape[0] == X.shape[0]:
            self.labels_ = labels
        else:  # equal rows were merged, or rows of weight zero left out
            self.labels_ = self._predicted(self._map().apply(X, engine), engine)

    def _engine(self) -> Engine:
        return resolve_engine(self.engine) if self.learner is None else self.learner._engine()


def check_clusters(n_clusters: Any, n_samples: int, n_distinct: int) -> int:
    """Return a number of clusters that the rows allow, with a warning where equal rows make it smaller."""
    if isinstance(n_clusters, str):
        raise ValueError(f"n_clusters={n_clusters!r} is not known; use a whole number or 'auto'.")
    wanted = check_whole("n_clusters", n_clusters)
    if wanted > n_samples:
        raise ValueError(f"n_clusters={wanted} exceeds n_samples={n_samples}. Use n_clusters <= {n_samples}.")
    if wanted > n_distinct > 1:  # a single one is refused with the reason when it is prepared
        warnings.warn(
            f"n_clusters={wanted}, but X has {n_distinct} distinct rows: each is a cluster of its own.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return min(wanted, n_distinct)


# What a clusterer takes over from its metric.
_SHARED = (
    "components_",
    "covariance_",
    "eigenvalues_",
    "mean_",
    "n_components_",
    "preparation_",
    "engine_",
)
