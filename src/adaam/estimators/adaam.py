"""AdaAM: the adaptive affinity matrix method as a scikit-learn transformer."""

from typing import Any, Self

import numpy as np

from adaam._checks import check_clusters, check_components, check_kind, check_whole
from adaam._typing import Tall
from adaam.affinity import AdaptiveAffinity
from adaam.affinity.adaptive import AllRows, MethodSettings, learn
from adaam.engines import DaskEngine, Engine, resolve_engine
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.phases import CallbackSupportMixin, FitPhases, fit_phases, with_callbacks
from adaam.estimators.pooling import PooledModel, PoolingSettings, fit_array, fit_source
from adaam.estimators.stored_rows import is_large
from adaam.graph import Neighbors, paper_neighbors
from adaam.large import RowBlocks, Stability
from adaam.planning import Plan, check_pairs, plan
from adaam.prepare import Preparation, prepared_sample, resolve_preparation, row_weights, warn_of_unlike_units
from adaam.rows import RowSource, as_rows, read_all
from adaam.selection import DistinctRows, counted_clusters

# The affinity that goes with each named preparation, where the caller chose none.
USUAL_AFFINITY = AdaptiveAffinity()
AFFINITIES = {"linear": AdaptiveAffinity(rank=2.0, diagonal="drop", constraint="degrees")}


class AdaAM(CallbackSupportMixin, LinearMetric):
    """Learn a linear map and Mahalanobis metric in which clusters separate, from unlabelled rows.

    The adaptive affinity matrix method: an affinity learned from the data's own low-rank structure, pruned to its
    strongest entries, drives a locality preserving projection. The affinity is never stored: a fit needs memory for
    the rows and a few tiles.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters c to separate; "auto" estimates it as `AdaAMClustering` does.
    n_components : int, default=None
        Dimension of the learned space; None means `n_clusters`, or the rank of the data if that is smaller.
    n_neighbors : int, default=None
        Neighbours of each row in the heat-kernel graph; None means round(log2(n_samples / n_clusters)).
    n_iter : int, default=1
        Passes of projection and final affinity; the paper uses one.
    preparation : {"unit", "linear", "center", "standard"} or Preparation, default="unit"
        How rows are prepared. "unit": unit length, centred, principal components of 99 % of the variance (the
        reference reading of the paper). "linear": no row scaling, 98 %, and the affinity settings that suit it, so that
        map and metric are linear in the input itself. "center": centred only. "standard": columns scaled to standard
        deviation 1, for columns of different units. An `UnlikeUnitsWarning` is given if one column has nearly all
        variance and this is not chosen.
    affinity : AdaptiveAffinity, default=None
        Pruning, ranks and heat kernel; None means the reference reading for the named preparation.
    engine : {"auto", "cpu", "gpu", "dask"} or engine, default="auto"
        Where the computation runs; an engine object such as `CPUEngine(tile_bytes=...)` has settings of its own.
    pairs : {"auto", "all"} or RowBlocks, default="auto"
        Which pairs of rows are used. "all": every pair, at a cost that grows with n². A `RowBlocks`: the pairs within
        random row blocks, at a cost that grows with n. "auto": all pairs up to about two minutes of work on two cores
        (100,000 rows of 100 features), row blocks beyond; see `adaam.plan`.
    verbose : int, default=0
        1 logs each phase and its seconds through the logger "adaam", or on standard error if that has no handler. 0
        logs them at level DEBUG.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        The map: `transform` returns (rows - mean_) @ components_.T, with rows scaled to unit length first if the
        preparation does so. Each component is the image of a unit vector in the prepared space.
    eigenvalues_ : ndarray of shape (n_components_,)
        Eigenvalues of the projection, ascending.
    mean_ : ndarray of shape (n_features,)
        Mean of the (scaled) rows.
    covariance_ : ndarray of shape (n_components_, n_features)
        Covariance between components and prepared features, used by `explain`.
    cuts_ : tuple of two floats
        Smallest magnitude kept in the intermediate and in the final affinity.
    n_clusters_, n_components_, n_neighbors_ : int
        What was used.
    knn_recall_ : float or None
        Share of the neighbours that are true nearest ones, measured on 100 rows by brute force; 1.0 below 4,096 rows,
        where the search itself is brute force. None if neighbours were given, or searched within row blocks.
    pairs_ : "all" or RowBlocks
        Which pairs were used.
    plan_ : Plan
        What the fit did: pairs, memory, time class.
    stability_ : Stability or None
        For a fit from two or more row blocks: angles in degrees between the maps of two disjoint halves of the rows, by
        direction. None if all pairs were used; fit with `pairs=RowBlocks(n_blocks=2)` to measure it.
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
    Rows are treated as a multiset: equal rows are merged and counted, so a row of weight w is the same as w equal rows,
    and the order of rows does not matter. The result is bit-identical from run to run; with another number of threads
    or another tile size, components agree up to rounding. Signs are fixed: the largest entry of each component is
    positive.

    Row blocks are drawn by row number and a seed: the result is bit-identical from run to run, but depends on the order
    of rows. Equal rows are merged within a block only, and a row of weight w counts as w equal rows in its block.

    References
    ----------
    Y. Li, J. Chen, Y. Zhao, H. Lu, "Adaptive Affinity Matrix for Unsupervised Metric Learning", ICME 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAM
    >>> X, _ = load_digits(return_X_y=True)
    >>> Z = AdaAM(n_clusters=10).fit_transform(X)
    >>> Z.shape
    (1797, 10)
    """

    knn_recall_: float | None
    pairs_: str | RowBlocks
    plan_: Plan
    stability_: Stability | None

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        n_components: int | None = None,
        n_neighbors: int | None = None,
        n_iter: int = 1,
        preparation: str | Preparation = "unit",
        affinity: AdaptiveAffinity | None = None,
        engine: str | Engine = "auto",
        pairs: str | RowBlocks = "auto",
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.n_iter = n_iter
        self.preparation = preparation
        self.affinity = affinity
        self.engine = engine
        self.pairs = pairs
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, neighbors: Any = None) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowSource
            Rows to learn from. Memory maps, Zarr arrays and what `adaam.rows.open_rows` opens are read block by block
            where they take more than one GiB: once, and once before where their number is not known.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w equal rows; 0 leaves it out. Weights that sum to less than the number of rows
            of positive weight, as those that sum to 1, are relative: they are scaled to a mean of 1 over these rows.
        neighbors : tuple, sparse matrix or fitted neighbours object, default=None
            A neighbour graph of the rows: (indices, distances), a sparse array of distances, or an object with
            `kneighbors` fitted on the same rows. None means found by the engine in the prepared space. A graph of
            all rows goes with all pairs.

        Returns
        -------
        self : AdaAM
            The fitted learner.
        """
        n_iter = check_whole("n_iter", self.n_iter)
        preparation = resolve_preparation(self.preparation)
        settings = self._affinity_settings()
        engine = resolve_engine(self.engine)
        pairs = self._pairs(neighbors)
        X = self._arrived(X, pairs)
        n_clusters = self.n_clusters_ = self._cluster_number(X, sample_weight, engine)
        pooling = PoolingSettings(
            n_clusters=n_clusters,
            n_components=self.n_components,
            neighbor_count=self._neighbor_count,
            n_iter=n_iter,
            preparation=preparation,
            affinity=settings,
            pairs=pairs,
            engine=engine,
            verbose=self.verbose,
        )
        if isinstance(X, RowSource):
            with fit_phases(self, 2, None) as phase:
                return self._stored(fit_source(X, sample_weight, pooling, phase), X.dtype, pooling)
        check_clusters(n_clusters, X.shape[0])
        warn_of_unlike_units(X, preparation, getattr(self, "feature_names_in_", None))
        planned = plan(X.shape[0], X.shape[1], n_clusters, pairs=pairs, engine=engine)
        with fit_phases(self, 4 if planned.exact else 2, X) as phase:
            if planned.exact:
                model = self._all_pairs(X, sample_weight, neighbors, pooling, planned, phase)
            else:
                model = fit_array(X, sample_weight, pooling, phase)
            return self._stored(model, X.dtype, pooling)

    def _all_pairs(
        self, X: Tall, sample_weight: Any, neighbors: Any, settings: PoolingSettings, planned: Plan, phase: FitPhases
    ) -> PooledModel:
        """Learn from every pair: all rows are one block."""
        engine, n_clusters, is_given = settings.engine, settings.n_clusters, neighbors is not None
        with phase("preparation"):
            prepared, sample = prepared_sample(X, sample_weight, settings.preparation, engine, rows_are_nodes=is_given)
        n_components = check_components(self.n_components, n_clusters, sample.X.shape[1])
        n_neighbors = self._neighbor_count(sample.size)
        with phase("neighbours"):
            source = Neighbors(sample, neighbors)
            graph = source(n_neighbors)
        method = MethodSettings(n_clusters, n_components, settings.n_iter, settings.affinity)
        learned = learn(AllRows(sample), method, lambda _: graph, phase=phase)
        return PooledModel(prepared, learned, None, n_neighbors, planned, source.recall)

    def _stored(self, model: PooledModel, dtype: Any, settings: PoolingSettings) -> Self:
        """Keep what was learned."""
        learned = model.learned
        precision = np.float32 if dtype == np.float32 else np.float64
        preparation, engine = settings.preparation, settings.engine
        self._store_map(model.prepared, learned.projection, learned.moments, precision, preparation, engine)
        self.cuts_, self.n_neighbors_, self.knn_recall_ = learned.cuts, model.n_neighbors, model.recall
        planned = self.plan_ = model.plan
        self.pairs_ = "all" if planned.exact else RowBlocks(planned.block_rows, planned.n_blocks, settings.seed())
        self.stability_ = model.stability
        return self

    def _pairs(self, neighbors: Any) -> Any:
        """Choice of pairs; a graph that the caller brings is one of all rows."""
        check_pairs(self.pairs)
        if neighbors is None:
            return self.pairs
        if isinstance(self.pairs, RowBlocks):
            raise ValueError(
                f"neighbors is a graph of all rows, but pairs={self.pairs!r} looks at pairs within row blocks. "
                'Use pairs="all".'
            )
        return "all"

    def _arrived(self, X: Any, pairs: Any) -> Any:
        """Validate rows at the door; a source too large to load stays one."""
        source = as_rows(X)
        if source is not None:
            X = source if is_large(source) and pairs != "all" else read_all(source)
        rows = X if isinstance(X, RowSource) else self._rows(X, reset=True)
        if source is not None:
            self._take_features(source, reset=True)
        return rows

    def _cluster_number(self, X: Any, sample_weight: Any, engine: Engine) -> int:
        """Return the number of clusters: as given, or estimated from rows that are at hand."""
        if self.n_clusters != "auto":
            if isinstance(self.n_clusters, str):
                raise ValueError(f"n_clusters={self.n_clusters!r} is not known; use a whole number or 'auto'.")
            return check_whole("n_clusters", self.n_clusters)
        if isinstance(X, RowSource) or isinstance(engine, DaskEngine):
            raise ValueError(
                "n_clusters='auto' looks at rows that are in memory, and X is not. Fit AdaAMClustering('auto') on it, "
                "which estimates the number from a sample, and pass its n_clusters_."
            )
        rows, weights = engine.distinct(engine.asarray(X), row_weights(sample_weight, X.shape[0], engine))
        # A single cloud has no clusters to separate, but a map wants two.
        return max(2, counted_clusters(DistinctRows.of(rows, weights, engine)).n_clusters)

    def _neighbor_count(self, size: float) -> int:
        if self.n_neighbors is not None:
            return check_whole("n_neighbors", self.n_neighbors)
        return paper_neighbors(size, self.n_clusters_)

    def _affinity_settings(self) -> AdaptiveAffinity:
        if self.affinity is None:
            named = self.preparation if isinstance(self.preparation, str) else ""
            return AFFINITIES.get(named, USUAL_AFFINITY)
        settings: AdaptiveAffinity = check_kind(
            "affinity", self.affinity, AdaptiveAffinity, "an AdaptiveAffinity or None"
        )
        settings.check()
        return settings
