"""Clustering in a metric that is chosen, or learned, without labels."""

from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.base import ClusterMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from adaam._checks import check_kind, check_object, check_whole, check_word
from adaam._typing import IntVector, Tall
from adaam._warnings import warn_caller
from adaam.array_api import in_kind
from adaam.engines import DaskEngine, Engine, resolve_engine
from adaam.estimators.choosing import Chosen, Task, choose, counted_clusters, given_metric, is_sampled
from adaam.estimators.fitting import row_weights
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.numbering import centers_and_inertia, numbered
from adaam.estimators.phases import CallbackSupportMixin, FitPhases, fit_phases, with_callbacks
from adaam.estimators.spread_clustering import (
    HOST,
    SpreadRows,
    count_of,
    known_rows,
    partition,
    spread_metric,
    voted,
)
from adaam.estimators.stored_rows import is_large, rows_at_hand
from adaam.estimators.voting import voted_labels
from adaam.partition.heads import HEADS, LINKS_PER_ROW
from adaam.rows import as_rows, checked_blocks

LEARNERS = "AdaAM, LPP, PCAN or PreparedMetric, or None to have one chosen"


class AdaAMClustering(CallbackSupportMixin, ClusterMixin, LinearMetric):
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
        k-means++ starts; the run of least inertia is kept. The search gives k-means on the rows
        themselves three of them, unless it is chosen.
    random_state : int, RandomState instance or None, default=0
        Seed of the starts. The default makes results the same from run to run.
    engine : {"auto", "cpu", "gpu", "dask"} or engine, default="auto"
        Where the work is done; a given learner brings its own.
    verbose : int, default=0
        1 tells of each phase and of each metric that was tried, with its seconds, through the logger "adaam", or on
        standard error where that has no handler. Without it the same is logged at level DEBUG.

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
        Mean of each cluster in the learned space, over the rows that were partitioned.
    inertia_ : float
        Sum of their squared distances to the cluster's centre, weighted.
    metric_ : LinearMetric
        The metric that was chosen, fitted.
    embedding_ : ndarray of shape (n_partitioned, n_components_)
        Distinct training rows that were partitioned, in the metric, and in `embedding_labels_` their clusters: new
        rows take the cluster of their nearest ones. Both are None for k-means, where the centres are enough.
    components_, covariance_, eigenvalues_, mean_, n_components_, preparation_, engine_
        Those of `metric_`, so that `transform` and the metric work as on the metric itself.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen in fit, when X has names that are all strings.

    Notes
    -----
    A fit sees a multiset, as `AdaAM` does. Above 10,000 distinct rows the family is tried on that many, drawn at
    random, and the chosen metric and head are applied to all rows. Where `adaam.plan` finds all pairs too many, the
    metric is learned from row blocks, as by `AdaAM`, a graph head partitions 20,000 rows, drawn at random, and the
    others take the cluster of their nearest ones, as new rows do: the cost grows with the number of rows alone.

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
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.learner = learner
        self.head = head
        self.n_init = n_init
        self.random_state = random_state
        self.engine = engine
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, neighbors: Any = None) -> Self:
        """Choose a metric and cluster the rows in it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowSource
            Rows to cluster. Of memory maps, Zarr arrays and what `adaam.rows.open_rows` opens, a random GiB is kept
            where they take more; all rows are then labelled block by block. They are read twice, and once more to
            count rows whose number is not known.
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
        if self.learner is None and neighbors is not None:
            raise ValueError("neighbors belong to one metric; pass learner=AdaAM(n_clusters) with them.")
        engine = self._engine()
        source = as_rows(X)
        if source is not None:
            X, sample_weight = rows_at_hand(source, sample_weight, seed, self.verbose)
        X = self._rows(X, reset=True)
        given = {"sample_weight": sample_weight, "neighbors": neighbors}
        with fit_phases(self, self._n_phases(X.shape[0]), X) as phase:
            with phase("distinct rows"):
                arrived = engine.asarray(X)
                rows, weights = engine.distinct(arrived, row_weights(sample_weight, X.shape[0], engine))
            if isinstance(engine, DaskEngine):
                at = SpreadRows(X, arrived, rows, weights)
                return self._fit_spread(at, given, Task(0, heads, n_init, seed, HOST), engine, phase)
            count = None
            if self.n_clusters == "auto":
                with phase("number of clusters"):
                    count = counted_clusters(rows, weights, engine, seed)
                n_clusters = count.n_clusters
            else:
                n_clusters = check_clusters(self.n_clusters, X.shape[0], rows.shape[0])

            task = Task(n_clusters, heads, n_init, seed, engine)
            if self.learner is None:
                chosen = choose(rows, weights, task, phase)
            else:
                metric = self._learned(X, given, phase)
                with phase("partition"):
                    chosen = given_metric(metric, rows, weights, task)
            with phase("labels"):
                self._store(chosen, X)
                if source is not None:
                    self._take_features(source, reset=True)
                if source is not None and is_large(source):
                    self.labels_ = self.predict(source)
            self.selection_ = chosen.selection.with_count(count)
        return self

    def _n_phases(self, n_rows: int) -> int:
        """Phases of a fit, at most: distinct rows and labels, and what is between."""
        on_all = is_sampled(n_rows) or isinstance(self._engine(), DaskEngine)
        between = 2 if self.learner is not None or on_all else 1
        return 2 + between + (self.n_clusters == "auto")

    def _learned(self, X: Any, given: dict[str, Any], phase: FitPhases) -> LinearMetric:
        """Fit the given learner."""
        metric: LinearMetric = clone(self.learner)
        with phase.of_learner("metric", metric):
            metric.fit(X, **{name: value for name, value in given.items() if value is not None})
        return metric

    def _fit_spread(
        self, at: SpreadRows, given: dict[str, Any], task: Task, engine: DaskEngine, phase: FitPhases
    ) -> Self:
        """Fit rows on a cluster: nothing of the size of all rows comes here unless X was here."""
        known = known_rows(at.rows, at.weights, task.seed)
        count = None
        if self.n_clusters == "auto":
            with phase("number of clusters"):
                count = count_of(known, task.seed)
        wanted = self.n_clusters if count is None else count.n_clusters
        task = replace(task, n_clusters=check_clusters(wanted, at.arrived.shape[0], at.rows.shape[0]))
        if self.learner is None:
            chosen = choose(known.X, known.column(), task, phase)
            with phase("all rows"):
                chosen = spread_metric(chosen, at, engine)
        else:
            metric = self._learned(at.arrived, given, phase)
            chosen = given_metric(metric, known.X, known.column(), task)
        self.metric_ = chosen.metric
        for name in _SHARED:
            setattr(self, name, getattr(chosen.metric, name))
        with phase("labels"):
            Z = self._map().apply(at.rows, engine)
            found = partition(chosen, known, Z, at.weights, task, engine)
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
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowSource
            Rows to assign; those of a source are read block by block.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row; a tensor on the same device where X is one.
        """
        check_is_fitted(self)
        engine = self._engine()
        source = as_rows(X)
        if source is not None:
            self._take_features(source, reset=False)
            blocks = (engine.asarray(block) for _, block in checked_blocks(source))
            return np.concatenate([self._predicted(self._map().apply(block, engine), engine) for block in blocks])
        labels = self._predicted(self._map().apply(self._rows(X, reset=False), engine), engine)
        return cast(IntVector, engine.like(labels, X))

    def _predicted(self, Z: Tall, engine: Engine) -> IntVector:
        if self.embedding_ is None or self.embedding_labels_ is None:
            return engine.nearest(Z, self.cluster_centers_)
        if isinstance(engine, DaskEngine) and engine.accepts(Z):
            return cast(IntVector, voted(Z, self.embedding_, self.embedding_labels_, engine))
        return voted_labels(engine.to_host(Z), self.embedding_, self.embedding_labels_, LINKS_PER_ROW)

    def _store(self, chosen: Chosen, X: Tall) -> None:
        """Keep the metric, the partition, and what tells the cluster of new rows."""
        self.metric_ = chosen.metric
        for name in _SHARED:
            setattr(self, name, getattr(chosen.metric, name))
        engine = self._engine()
        Z = np.asarray(engine.to_host(self._map().apply(chosen.rows, engine)))
        labels = numbered(chosen.labels, chosen.weights, Z)
        self.head_ = chosen.head
        self.n_clusters_ = int(labels.max()) + 1
        self.cluster_centers_, self.inertia_ = centers_and_inertia(Z, labels, chosen.weights)
        by_center = chosen.head == "k-means"
        self.embedding_ = None if by_center else Z
        self.embedding_labels_ = None if by_center else labels
        if chosen.rows.shape[0] == X.shape[0]:
            self.labels_ = labels
        else:  # equal rows were merged, rows of weight zero left out, or some of very many partitioned
            self.labels_ = self._predicted(self._map().apply(X, engine), engine)

    def _engine(self) -> Engine:
        if self.learner is None:
            return resolve_engine(self.engine)
        check_object("learner", self.learner)
        learner: LinearMetric = check_kind("learner", self.learner, LinearMetric, LEARNERS)
        return learner._engine()


def check_clusters(n_clusters: Any, n_samples: int, n_distinct: int) -> int:
    """Return a number of clusters that the rows allow, with a warning where equal rows make it smaller."""
    if isinstance(n_clusters, str):
        raise ValueError(f"n_clusters={n_clusters!r} is not known; use a whole number or 'auto'.")
    wanted = check_whole("n_clusters", n_clusters)
    if wanted > n_samples:
        raise ValueError(f"n_clusters={wanted} exceeds n_samples={n_samples}. Use n_clusters <= {n_samples}.")
    if wanted > n_distinct > 1:  # a single one is refused with the reason when it is prepared
        warn_caller(
            f"n_clusters={wanted}, but X has {n_distinct} distinct rows: each is a cluster of its own.",
            ConvergenceWarning,
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
