"""AdaAM: the adaptive affinity matrix method as a scikit-learn transformer."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

from adaam._checks import check_clusters, check_components, check_kind, check_whole
from adaam._typing import Tall
from adaam.affinity import AdaptiveAffinity
from adaam.affinity.adaptive import AllRows, LearnedMap, MethodSettings, counted_halves, learn
from adaam.engines import DaskEngine, Engine, resolve_engine
from adaam.engines.cluster.engine import client_engine
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.phases import CallbackSupportMixin, FitPhases, fit_phases, teller, with_callbacks
from adaam.estimators.stored_rows import PAUSE_SECONDS, counted, is_large
from adaam.graph import Neighbors, neighbor_graph, paper_neighbors
from adaam.large import RowBlocks, Stability
from adaam.large.blocked import BlockedRows, SpreadBlocks, dealt_array, engine_of_blocks, taken_rows
from adaam.large.row_blocks import Deal
from adaam.large.stability import stability
from adaam.planning import Plan, check_pairs, plan
from adaam.prepare import (
    LinearMap,
    Preparation,
    fit_preparation,
    prepared_sample,
    resolve_preparation,
    row_weights,
    warn_of_unlike_units,
)
from adaam.rows import RowsError, RowSource, as_rows, read_all
from adaam.selection import DistinctRows, counted_clusters

# Default affinity settings, for each named preparation that has its own.
USUAL_AFFINITY = AdaptiveAffinity()
AFFINITIES = {"linear": AdaptiveAffinity(rank=2.0, diagonal="drop", constraint="degrees")}


@dataclass(eq=False, repr=False)
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
        reference interpretation of the paper). "linear": no row scaling, 98 %, and affinity settings that suit it, so
        that map and metric are linear in the input itself. "center": centred only. "standard": columns scaled to
        standard deviation 1, for columns of different units. An `UnlikeUnitsWarning` is given if one column has nearly
        all the variance and "standard" is not chosen.
    affinity : AdaptiveAffinity, default=None
        Pruning, ranks and heat kernel; None means the reference settings for the named preparation.
    engine : {"auto", "cpu", "gpu", "dask"} or engine, default="auto"
        Where the computation runs; an engine object such as `CPUEngine(tile_bytes=...)` carries its own settings.
    pairs : {"auto", "all"} or RowBlocks, default="auto"
        Which pairs of rows are used. "all": every pair, at a cost that grows with n². A `RowBlocks`: the pairs within
        random row blocks, at a cost that grows with n. "auto": all pairs up to about two minutes of work on two cores
        (100,000 rows of 100 features), row blocks beyond; see `adaam.plan`.
    verbose : int, default=0
        1 logs each phase and its time to the logger "adaam", or to standard error if that has no handler. 0 logs them
        at level DEBUG.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        The map: `transform` returns (rows - mean_) @ components_.T, with rows scaled to unit length first if the
        preparation does so. Each component has unit length in the prepared space.
    eigenvalues_ : ndarray of shape (n_components_,)
        Eigenvalues of the projection, ascending.
    mean_ : ndarray of shape (n_features,)
        Mean of the (scaled) rows.
    covariance_ : ndarray of shape (n_components_, n_features)
        Covariance between components and prepared features, used by `explain`.
    cuts_ : tuple of two floats
        Smallest magnitude kept in the intermediate and in the final affinity.
    n_clusters_, n_components_, n_neighbors_ : int
        Values that were used.
    knn_recall_ : float or None
        Share of the neighbours found that are true nearest neighbours: 1.0, since searches are exact. None if
        neighbours were given, or searched within row blocks.
    pairs_ : "all" or RowBlocks
        Which pairs were used.
    plan_ : Plan
        Plan that the fit followed: pairs, memory, time class.
    stability_ : Stability or None
        For a fit from two or more row blocks: angles in degrees between the maps of two disjoint halves of the rows, by
        direction. None if all pairs were used; fit with `pairs=RowBlocks(n_blocks=2)` to measure it.
    preparation_ : Preparation
        Preparation that was used.
    engine_ : str
        Name of the engine that ran.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number and names of the features seen in fit; names if X has some, all strings.

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

    n_clusters: int | str = 8
    _: KW_ONLY
    n_components: int | None = None
    n_neighbors: int | None = None
    n_iter: int = 1
    preparation: str | Preparation = "unit"
    affinity: AdaptiveAffinity | None = None
    engine: str | Engine = "auto"
    pairs: str | RowBlocks = "auto"
    verbose: int = 0

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, neighbors: Any = None) -> Self:
        """Learn the map and return the learner.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowSource
            Rows to learn from. Memory maps, Zarr arrays and files opened by `adaam.rows.open_rows` are read block by
            block if they take more than one GiB: once, and once more beforehand if their number is not known.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w equal rows; 0 leaves it out. Weights that sum to less than the number of rows
            of positive weight (to 1, for example) are taken as relative and scaled to a mean of 1 over these rows.
        neighbors : tuple, sparse matrix or fitted neighbours object, default=None
            A neighbour graph of the rows: (indices, distances), a sparse array of distances, or an object with
            `kneighbors` fitted on the same rows. None means that the engine searches in the prepared space. With a
            given graph, all pairs are used.
        """
        check_whole("n_iter", self.n_iter)
        preparation, engine = resolve_preparation(self.preparation), resolve_engine(self.engine)
        self._affinity_settings()  # raises before any work is done
        check_pairs(self.pairs)
        if neighbors is not None and isinstance(self.pairs, RowBlocks):
            raise ValueError(
                f"neighbors is a graph of all rows, but pairs={self.pairs!r} looks at pairs within row blocks. "
                'Use pairs="all".'
            )
        pairs = self.pairs if neighbors is None else "all"
        X = self._arrived(X, pairs)
        self.n_clusters_ = self._cluster_number(X, sample_weight, engine)
        if isinstance(X, RowSource):
            with fit_phases(self, 2, None) as phase:
                with phase("preparation"):
                    dealt = self._blocks_of_source(X, sample_weight, engine)
                self._fit_blocks(*dealt, engine, phase, X.dtype)
            return self
        check_clusters(self.n_clusters_, X.shape[0])
        warn_of_unlike_units(X, preparation, getattr(self, "feature_names_in_", None))
        planned = plan(X.shape[0], X.shape[1], self.n_clusters_, pairs=pairs, engine=engine)
        with fit_phases(self, 4 if planned.exact else 2, X) as phase:
            if planned.exact:
                self._fit_pairs(X, sample_weight, neighbors, planned, engine, phase)
            else:
                with phase("preparation"):
                    blocks = self._blocks_of_array(X, sample_weight, engine)
                self._fit_blocks(*blocks, engine, phase, X.dtype)
        return self

    def _fit_pairs(
        self, X: Tall, sample_weight: Any, neighbors: Any, planned: Plan, engine: Engine, phase: FitPhases
    ) -> None:
        """Learn from every pair: all rows are one block."""
        preparation, is_given = resolve_preparation(self.preparation), neighbors is not None
        with phase("preparation"):
            prepared, sample = prepared_sample(X, sample_weight, preparation, engine, rows_are_nodes=is_given)
        method = self._method(sample.X.shape[1])
        n_neighbors = self._neighbor_count(sample.size)
        with phase("neighbours"):
            source = Neighbors(sample, neighbors)
            graph = source(n_neighbors)
        learned = learn(AllRows(sample), method, lambda _: graph, phase=phase)
        self._store(prepared, learned, planned, engine, X.dtype)
        self.n_neighbors_, self.knn_recall_ = n_neighbors, source.recall
        self.stability_: Stability | None = None

    def _blocks_of_array(self, X: Tall, sample_weight: Any, engine: Engine) -> tuple[BlockedRows | SpreadBlocks, Plan]:
        """Assign rows in memory, or on a cluster, to blocks."""
        weights = row_weights(sample_weight, X.shape[0], engine)
        n_present = X.shape[0] if isinstance(weights, float) else int((weights > 0).sum())
        n_features, itemsize = X.shape[1], X.dtype.itemsize
        planned = plan(n_present, n_features, self.n_clusters_, pairs=self.pairs, engine=engine, itemsize=itemsize)
        deal = Deal(planned.n_samples, planned.n_used, planned.n_blocks, self._seed())
        return dealt_array(engine.asarray(X), weights, deal, resolve_preparation(self.preparation), engine), planned

    def _blocks_of_source(self, source: RowSource, sample_weight: Any, engine: Engine) -> tuple[BlockedRows, Plan]:
        """Read rows once and keep those in blocks; if the number of rows is not known, count them in a pass before."""
        tell = teller(self.verbose, PAUSE_SECONDS)
        if isinstance(engine, DaskEngine):
            engine = client_engine(engine)  # the rows are read by this process
        weights, n_rows, n_present = counted(source, sample_weight)
        if n_rows < 2:
            raise RowsError(f"{source.label}: holds {n_rows} row(s); a fit needs at least 2.")
        check_clusters(self.n_clusters_, n_rows)
        # A source that turns out to be small is a single block, so all its pairs are used.
        planned = plan(
            n_present,
            source.n_features,
            self.n_clusters_,
            pairs=self.pairs,
            engine=engine,
            itemsize=source.dtype.itemsize,
            stored=True,
        )
        deal = Deal(planned.n_samples, planned.n_used, planned.n_blocks, self._seed())
        engine = engine_of_blocks(engine, deal)
        X, held = taken_rows(source, weights, deal, tell)
        own_weights = 1.0 if held is None else engine.asarray(held)
        prepared = fit_preparation(X, own_weights, resolve_preparation(self.preparation), engine)
        tell(f"{source.label}: mean and scatter of {deal.n_used} rows")
        return BlockedRows(X, own_weights, None, deal, prepared, engine), planned

    def _fit_blocks(
        self, rows: BlockedRows | SpreadBlocks, planned: Plan, engine: Engine, phase: FitPhases, dtype: Any
    ) -> None:
        """Learn from the pairs within row blocks."""
        with phase("row blocks"):
            method = self._method(len(rows.prepared.components))
            counts = counted_halves(rows)
            smallest = min(min(half.sizes) for half in counts)
            n_neighbors = self._neighbor_count(sum(half.size for half in counts))
            if n_neighbors > smallest - 1:
                raise ValueError(
                    f"n_neighbors={n_neighbors} needs row blocks of more than {n_neighbors} rows, but the smallest of "
                    f"{rows.n_blocks} has {smallest:g} (weights counted). Use RowBlocks with more rows, or fewer "
                    "neighbours."
                )
            graph = partial(neighbor_graph, n_neighbors=n_neighbors)
            learned = learn(rows, method, graph, counted=counts, tell=teller(self.verbose, PAUSE_SECONDS))
            self._store(rows.prepared, learned, planned, engine, dtype)
            self.n_neighbors_, self.knn_recall_, self.stability_ = n_neighbors, None, None
            if learned.halves:
                halves = [half.components for half in learned.halves]
                gram, smaller = learned.evidence.counts.gram, int(min(half.size for half in counts))
                self.stability_ = stability(learned.projection.components, halves, gram, smaller)

    def _method(self, rank: int) -> MethodSettings:
        """Settings of the method for prepared rows of this rank."""
        n_components = check_components(self.n_components, self.n_clusters_, rank)
        return MethodSettings(self.n_clusters_, n_components, self.n_iter, self._affinity_settings())

    def _store(self, prepared: LinearMap, learned: LearnedMap, planned: Plan, engine: Engine, dtype: Any) -> None:
        """Store the fitted attributes."""
        self._store_map(prepared, learned.projection, learned.moments, dtype, engine)
        self.cuts_, self.plan_ = learned.cuts, planned
        self.pairs_ = "all" if planned.exact else RowBlocks(planned.block_rows, planned.n_blocks, self._seed())

    def _arrived(self, X: Any, pairs: Any) -> Any:
        """Validate X; a row source is loaded, unless it is large and `pairs` allows row blocks."""
        source = as_rows(X)
        if source is None:
            return self._rows(X, reset=True)
        rows = source if is_large(source) and pairs != "all" else self._rows(read_all(source), reset=True)
        self._take_features(source, reset=True)
        return rows

    def _cluster_number(self, X: Any, sample_weight: Any, engine: Engine) -> int:
        """Return the number of clusters: as given, or estimated from rows in memory."""
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
        # The estimate may be a single cluster, but the method needs at least two.
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

    def _seed(self) -> int:
        """Seed of the row blocks, also for pairs="auto"."""
        return (self.pairs if isinstance(self.pairs, RowBlocks) else RowBlocks()).random_state
