"""Clustering in a metric that is chosen, or learned, without labels."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Any, Self, cast

import numpy as np
from scipy.sparse import csr_array, vstack
from sklearn.base import ClusterMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from adaam._checks import check_kind, check_number, check_object, check_whole, check_word, in_kind, warn_caller
from adaam._typing import FloatVector, IntVector, Tall
from adaam.engines import DaskEngine, Engine, resolve_engine
from adaam.estimators.choosing import Chosen, choose, choose_given
from adaam.estimators.described_clusters import DescribedClusters
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.membership import KnownRows, Voters, cluster_order, own_shares, strengths, voters
from adaam.estimators.phases import CallbackSupportMixin, FitPhases, fit_phases, with_callbacks
from adaam.estimators.spread_clustering import SpreadRows, known_rows, spread_labels, spread_metric
from adaam.estimators.stored_rows import is_large, rows_at_hand
from adaam.partition import layered, tree_of
from adaam.prepare import HOST, row_weights
from adaam.rows import as_rows, checked_blocks
from adaam.selection import HEADS, DistinctRows, Task, counted_clusters

# Mean adjusted Rand index of the other starts with the one that was kept, below which a warning is given.
SAME_CLUSTERS = 0.6
FEW_STARTS = 3  # least number of other starts for this warning
LEARNERS = "AdaAM, LPP, PCAN or PreparedMetric, or None to have one chosen"


@dataclass(eq=False, repr=False)
class AdaAMClustering(CallbackSupportMixin, ClusterMixin, DescribedClusters):
    """Cluster rows in the metric that suits them, chosen without labels.

    Several linear metrics are tried: the rows as they are, under one or two preparations, and AdaAM maps of several
    widths. Rows are partitioned in each, and the partitions are scored by modularity. The simplest one that no other
    clearly beats is chosen; for a learned metric, clusters must also be more separate or more reproducible than those
    of the rows as they are. `selection_` says why. In a learned metric, more than eight clusters are refined in their
    own discriminant map, which has one column fewer than there are clusters.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters. "auto" estimates it; `selection_.count` then holds the estimate, its range and the
        reasons.
    learner : estimator, default=None
        A single metric to use instead of choosing one: any linear metric of this library. `AdaAM(n_clusters)` with
        head="k-means" is the paper's method.
    head : {"auto", "k-means", "graph"}, default="auto"
        How rows are partitioned in a metric. "k-means": k-means on the mapped rows. "graph": small communities of the
        neighbour graph are merged along their links, then rows move while modularity rises. "auto" chooses both metric
        and head.
    n_init : int, default=10
        Number of starts. For k-means, the run of lowest inertia is kept; for graphs, the consensus of the starts.
        Graphs of up to 5,000 rows have twice as many starts, those of more than 20,000 at most four. In the search,
        k-means has at most three.
    contamination : float, default=0.0
        Share of the rows to label -1, as noise: those with the highest `outlier_scores_`. New rows with scores as high
        are labelled -1 too.
    random_state : int, RandomState instance or None, default=0
        Seed of the starts. The default makes results the same from run to run.
    engine : {"auto", "cpu", "gpu", "dask"} or engine, default="auto"
        Where the computation runs; a given learner uses its own engine.
    verbose : int, default=0
        1 logs each phase and each metric that is tried, with its time, to the logger "adaam", or to standard error if
        that has no handler. 0 logs them at level DEBUG.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each training row, numbered from the largest cluster on, -1 for noise; on the host even if X is a
        tensor, a Dask array if X is one.
    probabilities_ : ndarray of shape (n_samples,)
        Strength of each row: the share of its links that lead to rows of the same cluster.
    memberships_ : csr_array of shape (n_samples, n_clusters_)
        The same for all clusters that the row has links with; rows sum to 1.
    outlier_scores_ : ndarray of shape (n_samples,)
        How much farther away the ten nearest neighbours of a row are than their own neighbours: 0 if they are not
        farther, towards 1 for outliers.
    cluster_layers_ : tuple of ClusterLayer
        Persistent coarser and finer partitions, the coarsest first, each nested in the one before; `labels_` is layer
        `layer_`.
    layer_ : int
        Index of the layer with `n_clusters_` clusters.
    selection_ : Selection
        What was tried, what was chosen and how certain the choice is; `print(model.selection_)` shows it as a table.
    head_ : str
        The head that was chosen.
    distance_ : {"euclidean", "cosine"}
        Distance by which neighbours are found in the learned space, for training rows and new ones.
    n_clusters_ : int
        Number of clusters.
    cluster_centers_ : ndarray of shape (n_clusters_, n_components_)
        Mean of each cluster in the learned space, over the rows that were partitioned.
    inertia_ : float
        Weighted sum of squared distances of these rows to the centre of their cluster.
    metric_ : LinearMetric
        The metric that was chosen, fitted.
    embedding_ : ndarray of shape (n_partitioned, n_components_)
        Distinct training rows that were partitioned, in the learned space; new rows are assigned by the nearest ones.
    embedding_leaves_ : ndarray of shape (n_partitioned,)
        Leaf of the dendrogram that each of them belongs to, which determines its cluster in every layer.
    embedding_radii_ : ndarray of shape (n_partitioned,)
        Distance of each to the farthest of its ten nearest neighbours.
    cluster_profiles_ : ClusterProfiles
        Effect sizes of the features in each cluster, over the rows that were partitioned, noise included (`explain`).
    noise_threshold_ : float
        Outlier score from which rows are noise; infinite if none are.
    components_, covariance_, eigenvalues_, mean_, n_components_, preparation_, engine_
        Those of `metric_`, so that `transform` and distances work as on the metric itself.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen in fit, when X has names that are all strings.

    Notes
    -----
    Rows are treated as a multiset, as by `AdaAM`: equal rows are merged and counted, and their order does not matter.
    Above 10,000 distinct rows, metrics are tried on a random sample of that size, and the chosen metric and head are
    applied to all rows. If `adaam.plan` finds all pairs too expensive, the metric is learned from row blocks, as by
    `AdaAM`; a graph head then partitions a random sample of 20,000 rows (100,000 on a GPU), and the others are assigned
    like new rows. So the cost grows with n, not with n².

    The cost of a partition does not grow with the number of clusters. `random_state` determines the starts, not which
    metric is chosen. A `ConvergenceWarning` is given if starts disagree on the clusters.

    For Dask arrays and sources too large to load, `memberships_`, `probabilities_` and `outlier_scores_` are None; use
    `membership_vectors` and `outlier_scores` on blocks of rows instead.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAMClustering
    >>> X, y = load_digits(return_X_y=True)
    >>> model = AdaAMClustering(n_clusters=10).fit(X)
    >>> model.labels_.shape
    (1797,)
    >>> model.selection_.best.head
    'graph'
    """

    n_clusters: int | str = 8
    _: KW_ONLY
    learner: LinearMetric | None = None
    head: str = "auto"
    n_init: int = 10
    contamination: float = 0.0
    random_state: Any = 0
    engine: str | Engine = "auto"
    verbose: int = 0

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, neighbors: Any = None) -> Self:
        """Choose a metric and cluster the rows in it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowSource
            Rows to cluster. Of memory maps, Zarr arrays and files opened by `adaam.rows.open_rows` that take more than
            one GiB, a random sample of that size is used, and all rows are then labelled block by block. They are read
            once for the sample and once for each layer, and once more if their number is not known.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w equal rows. Weights that sum to less than the number of rows of positive
            weight are taken as relative and scaled to a mean of 1 over these rows.
        neighbors : tuple, sparse matrix or fitted neighbours object, default=None
            A neighbour graph of the rows for the given `learner`, as in `AdaAM.fit`.

        Returns
        -------
        self : AdaAMClustering
            The fitted clusterer.
        """
        n_init = check_whole("n_init", self.n_init)
        contamination = check_contamination(self.contamination)
        heads = check_heads(self.head)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        if self.learner is None and neighbors is not None:
            raise ValueError("neighbors belong to one metric; pass learner=AdaAM(n_clusters) with them.")
        engine = self._engine()
        source = as_rows(X)
        if source is not None:
            X, sample_weight = rows_at_hand(source, sample_weight, seed, self.verbose)
        X = self._rows(X, reset=True)
        if source is not None:
            self._take_features(source, reset=True)
        given = {"sample_weight": sample_weight, "neighbors": neighbors}
        with fit_phases(self, self._n_phases(), X) as phase:
            with phase("distinct rows"):
                arrived = engine.asarray(X)
                distinct, weights = engine.distinct(arrived, row_weights(sample_weight, X.shape[0], engine))
            if isinstance(engine, DaskEngine):
                at = SpreadRows(X, arrived, distinct, weights)
                return self._fit_spread(at, given, Task(0, heads, n_init, seed, HOST), engine, phase)
            rows = DistinctRows.of(distinct, weights, engine)
            count = None
            if self.n_clusters == "auto":
                with phase("number of clusters"):
                    count = counted_clusters(rows)
                n_clusters = count.n_clusters
            else:
                n_clusters = check_clusters(self.n_clusters, X.shape[0], rows.n_rows)

            task = Task(n_clusters, heads, n_init, seed, engine)
            if self.learner is None:
                chosen = choose(rows, task, phase)
            else:
                metric = self._learned(X, given, phase)
                with phase("partition"):
                    chosen = choose_given(metric, rows, task)
            with phase("labels"):
                self._store(chosen, X, contamination)
                if source is not None and is_large(source):
                    self.memberships_ = self.probabilities_ = self.outlier_scores_ = None
                    self._label_layers(self._labels_in(range(len(self.cluster_layers_)), source, engine))
            self.selection_ = chosen.selection.extended(count, chosen.starts)
            warn_of_starts(chosen.starts)
        return self

    def _n_phases(self) -> int:
        """Maximum number of phases of a fit: distinct rows, labels, and those in between."""
        on_all = self.learner is None and isinstance(self._engine(), DaskEngine)
        return 4 + (self.n_clusters == "auto") + on_all

    def _learned(self, X: Any, given: dict[str, Any], phase: FitPhases) -> LinearMetric:
        """Fit the given learner."""
        metric: LinearMetric = clone(self.learner)
        with phase("metric", learner=metric):
            metric.fit(X, **{name: value for name, value in given.items() if value is not None})
        return metric

    def _fit_spread(
        self, at: SpreadRows, given: dict[str, Any], task: Task, engine: DaskEngine, phase: FitPhases
    ) -> Self:
        """Fit rows on a cluster; nothing of the size of all rows is brought to this process unless X already is."""
        known = known_rows(at.rows, at.weights)
        count = None
        if self.n_clusters == "auto":
            with phase("number of clusters"):
                count = counted_clusters(known)
        wanted = self.n_clusters if count is None else count.n_clusters
        task = replace(task, n_clusters=check_clusters(wanted, at.arrived.shape[0], at.rows.shape[0]))
        if self.learner is None:
            chosen = choose(known, task, phase)
            with phase("all rows"):
                chosen = spread_metric(chosen, known, at, task, engine)
        else:
            metric = self._learned(at.arrived, given, phase)
            chosen = choose_given(metric, known, task)
        with phase("labels"):
            self._store_clusters(chosen, check_contamination(self.contamination))
            self.memberships_ = self.probabilities_ = self.outlier_scores_ = None
            Z = self._map().apply(at.arrived, engine)
            layers = range(len(self.cluster_layers_))
            self._label_layers([engine.to_host(self._spread_predicted(Z, layer), at.X) for layer in layers])
        self.selection_ = chosen.selection.extended(count, chosen.starts)
        return self

    def _spread_predicted(self, Z: Any, layer: int) -> Any:
        labels = self.cluster_layers_[layer].leaves[self.embedding_leaves_]
        return spread_labels(Z, self._known(), labels, self.noise_threshold_)

    @in_kind
    def predict(self, X: Any, layer: int | None = None) -> IntVector:
        """Return the cluster of each row.

        It is found by majority vote of the ten nearest training rows in the learned space or, for clusters found by
        k-means, by the nearest centre.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowSource
            Rows to assign; those of a source are read block by block.
        layer : int, default=None
            Which of `cluster_layers_` to assign to; None means `layer_`, the clusters of `labels_`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row, -1 for noise if `contamination` is positive; a tensor on the same device if X is one.
        """
        check_is_fitted(self)
        chosen = self._layer(layer)
        engine = self._engine()
        if isinstance(engine, DaskEngine) and engine.own(X) is not None:
            Z = self._map().apply(self._rows(X, reset=False), engine)
            return cast(IntVector, engine.to_host(self._spread_predicted(Z, chosen), X))
        (labels,) = self._labels_in([chosen], X, engine)
        return cast(IntVector, engine.to_host(labels, X))

    def membership_vectors(self, X: Any, layer: int | None = None) -> csr_array:
        """Return the degree to which each row belongs to the clusters around it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowSource
            Rows.
        layer : int, default=None
            Which of `cluster_layers_`; None means `layer_`.

        Returns
        -------
        memberships : csr_array of shape (n_samples, n_clusters)
            Share of the ten nearest training rows that each cluster has, so at most ten entries per row; rows sum to 1.
        """
        check_is_fitted(self)
        chosen = self.cluster_layers_[self._layer(layer)]
        labels = chosen.leaves[self.embedding_leaves_]
        return csr_array(vstack([found.memberships(labels, chosen.n_clusters) for found in self._voters(X)]))

    def outlier_scores(self, X: Any) -> FloatVector:
        """Return how far each row is from the training rows, relative to their distances from each other.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowSource
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Between 0 and 1, as `outlier_scores_`.
        """
        check_is_fitted(self)
        return np.concatenate([found.outlier_scores(self.embedding_radii_) for found in self._voters(X)])

    @property
    def cluster_tree_(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """Children of each (layer, cluster) in the next finer layer."""
        check_is_fitted(self)
        return tree_of(self.cluster_layers_)

    def _layer(self, layer: int | None) -> int:
        n_layers = len(self.cluster_layers_)
        if layer is None:
            return int(self.layer_)
        if isinstance(layer, bool) or not isinstance(layer, int | np.integer) or not 0 <= layer < n_layers:
            raise ValueError(
                f"layer={layer!r} must be a whole number from 0, the coarsest, to {n_layers - 1}, the finest of the "
                f"{n_layers} layers, or None."
            )
        return int(layer)

    def _mapped(self, X: Any, engine: Engine) -> Any:
        """Yield the rows in the learned space, those of a source block by block."""
        source = as_rows(X)
        if source is None:
            yield self._map().apply(self._rows(X, reset=False), engine)
            return
        self._take_features(source, reset=False)
        for _, block in checked_blocks(source):
            yield self._map().apply(engine.asarray(block), engine)

    def _voters(self, X: Any) -> Any:
        engine = self._engine()
        if isinstance(engine, DaskEngine) and engine.own(X) is not None:
            raise TypeError(
                "memberships and outlier scores of a Dask array are made block by block: use "
                "X.map_blocks with a fitted model whose engine is 'cpu', or pass a computed part of X."
            )
        for Z in self._mapped(X, engine):
            yield voters(Z, self._known(), engine)

    def _known(self) -> KnownRows:
        return KnownRows(self.embedding_, self.embedding_radii_, self._by_cosine)

    @property
    def _by_cosine(self) -> bool:
        # Models of earlier versions have no `distance_`, and compare rows by Euclidean distance.
        return getattr(self, "distance_", "euclidean") == "cosine"

    def _labels_in(self, layers: Sequence[int], X: Any, engine: Engine) -> list[IntVector]:
        """Cluster of each row in some layers, in one pass over the rows."""
        parts = [self._predicted(Z, layers, engine) for Z in self._mapped(X, engine)]
        return [np.concatenate(labels) for labels in zip(*parts, strict=True)]

    def _predicted(self, Z: Tall, layers: Sequence[int], engine: Engine, near: Voters | None = None) -> list[IntVector]:
        """Cluster of mapped rows in some layers; `near` are their nearest known rows, if found before."""
        by_centers = self.layer_ if self.head_ == "k-means" else None
        nearest = cache(lambda: near or voters(Z, self._known(), engine))

        def clusters(layer: int) -> IntVector:
            if layer == by_centers:
                return engine.nearest_known(Z, self.cluster_centers_, 1)[0][:, 0]
            return nearest().labels(self.cluster_layers_[layer].leaves[self.embedding_leaves_])

        found = [clusters(layer) for layer in layers]
        if not np.isfinite(self.noise_threshold_):
            return found
        noise = nearest().outlier_scores(self.embedding_radii_) >= self.noise_threshold_
        return [np.where(noise, -1, labels) for labels in found]

    def _store_clusters(self, chosen: Chosen, contamination: float) -> Any:
        """Store the metric, the partition, the layers around it, and what new rows are assigned by."""
        self.metric_ = chosen.metric
        if hasattr(self, "feature_names_in_"):
            self.metric_.feature_names_in_ = self.feature_names_in_
        for name in _SHARED:
            setattr(self, name, getattr(chosen.metric, name))
        view, engine = chosen.view, chosen.view.engine
        _, labels = np.unique(chosen.labels, return_inverse=True)
        n_clusters = int(labels.max()) + 1
        column = engine.asarray(view.weights)
        self.distance_ = "cosine" if chosen.cosine else "euclidean"
        mapped = chosen.metric._map().apply(chosen.rows.X, engine) if chosen.cosine else view.Z
        sums = engine.cluster_sums(mapped, labels, column, n_clusters)
        centers = sums.sums / sums.weights[:, None]
        order = cluster_order(centers, sums.weights, sums.largest)
        labels = np.argsort(order)[labels]
        Z = np.asarray(engine.to_host(mapped))
        self.head_, self.n_clusters_ = chosen.head, n_clusters
        self.cluster_centers_ = centers[order].astype(Z.dtype)
        self.inertia_ = float(sums.squares.sum() - (sums.weights @ np.square(centers)).sum())
        found = strengths(view, labels, n_clusters)
        layers = layered(view, chosen.communities, labels)
        self.embedding_, self.embedding_radii_, self.embedding_leaves_ = Z, found.radii, layers.leaves
        self.cluster_layers_, self.layer_ = layers.layers, layers.given
        self.noise_threshold_ = noise_threshold(found.outlier_scores, view.weights, contamination)
        self._describe(chosen.rows, labels)
        return found

    def _store(self, chosen: Chosen, X: Tall, contamination: float) -> None:
        """Store the results for every row of X."""
        found = self._store_clusters(chosen, contamination)
        if chosen.rows.n_rows == X.shape[0]:
            scores, memberships = found.outlier_scores, found.memberships
            noise = scores >= self.noise_threshold_
            labels = [np.where(noise, -1, layer.labels) for layer in self.cluster_layers_]
        else:  # equal rows were merged, rows of weight zero left out, or only a sample was partitioned
            engine = self._engine()
            Z = self._map().apply(X, engine)
            near = voters(Z, self._known(), engine)
            scores = near.outlier_scores(self.embedding_radii_)
            own = self.cluster_layers_[self.layer_].leaves[self.embedding_leaves_]
            memberships = near.memberships(own, self.n_clusters_)
            labels = self._predicted(Z, range(len(self.cluster_layers_)), engine, near)
        self.outlier_scores_, self.memberships_ = scores, memberships
        self._label_layers(labels)
        self.probabilities_ = own_shares(memberships, self.labels_)

    def _label_layers(self, labels: Sequence[Any]) -> None:
        """Store the labels of all training rows in every layer."""
        self.cluster_layers_ = tuple(
            replace(layer, labels=found) for layer, found in zip(self.cluster_layers_, labels, strict=True)
        )
        self.labels_ = self.cluster_layers_[self.layer_].labels

    def _check_loaded(self) -> None:
        """Raise if a loaded model lacks attributes of this version."""
        if not hasattr(self, "cluster_layers_"):
            raise ValueError(
                "this AdaAMClustering was saved by an older version, which kept other parts of its clusters; "
                "fit it again"
            )

    def _engine(self) -> Engine:
        if self.learner is None:
            return resolve_engine(self.engine)
        check_object("learner", self.learner)
        learner: LinearMetric = check_kind("learner", self.learner, LinearMetric, LEARNERS)
        return learner._engine()


def noise_threshold(scores: FloatVector, weights: FloatVector, share: float) -> float:
    """Lowest score among the given share of rows (copies counted) of highest scores; infinite if there are none."""
    order = np.argsort(-scores, kind="stable")
    n_noise = int(np.searchsorted(np.cumsum(weights[order]), share * weights.sum(), side="right"))
    return float(scores[order[n_noise - 1]]) if n_noise and scores[order[n_noise - 1]] > 0 else np.inf


def check_contamination(contamination: Any) -> float:
    """Validate the share of rows to label as noise."""
    return 0.0 if contamination == 0 else check_number("contamination", contamination, above=0.0, up_to=0.5)


def check_heads(head: Any) -> tuple[str, ...]:
    """Return the heads to try."""
    if head in ("diffusion", "merging"):
        raise ValueError(f"head={head!r} was replaced by head='graph', which is faster and as accurate.")
    return HEADS if check_word("head", head, ("auto", *HEADS)) == "auto" else (head,)


def warn_of_starts(starts: tuple[float, ...]) -> None:
    """Warn if the clusters depend on the seed."""
    if len(starts) >= FEW_STARTS and np.mean(starts) < SAME_CLUSTERS:
        warn_caller(
            f"Starts disagree: {len(starts)} of them have an adjusted Rand index of {np.mean(starts):.2f} with the "
            "clusters, so these may depend on random_state. The rows may hold another number of "
            'clusters: try n_clusters="auto", or look at cluster_layers_ and selection_.',
            ConvergenceWarning,
        )


def check_clusters(n_clusters: Any, n_samples: int, n_distinct: int) -> int:
    """Return a number of clusters that the rows allow, with a warning if equal rows make it smaller."""
    if isinstance(n_clusters, str):
        raise ValueError(f"n_clusters={n_clusters!r} is not known; use a whole number or 'auto'.")
    wanted = check_whole("n_clusters", n_clusters)
    if wanted > n_samples:
        raise ValueError(f"n_clusters={wanted} exceeds n_samples={n_samples}. Use n_clusters <= {n_samples}.")
    if wanted > n_distinct > 1:  # for a single one, the preparation raises an error that explains it
        warn_caller(
            f"n_clusters={wanted}, but X has {n_distinct} distinct rows: each is a cluster of its own.",
            ConvergenceWarning,
        )
    return min(wanted, n_distinct)


# Attributes that a clusterer copies from its metric.
_SHARED = (
    "components_",
    "covariance_",
    "eigenvalues_",
    "mean_",
    "n_components_",
    "preparation_",
    "engine_",
)
