"""LPP as an estimator, with any affinity."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from scipy.sparse import csr_array, issparse

from adaam._checks import check_components, check_object, check_whole, check_word
from adaam._typing import ColumnScaling
from adaam.affinity import Affinity, AffinityLearner, KNNAffinity, SparseAffinity
from adaam.engines import Engine, resolve_engine
from adaam.estimators.linear_metric import LinearMetric
from adaam.estimators.phases import CallbackSupportMixin, fit_phases, with_callbacks
from adaam.graph import Neighbors
from adaam.prepare import Preparation, prepared_sample, resolve_preparation
from adaam.projection import lpp


@dataclass(eq=False, repr=False)
class LPP(CallbackSupportMixin, LinearMetric):
    """Locality preserving projection: a linear map that keeps rows of high affinity together.

    Parameters
    ----------
    n_components : int, default=2
        Dimension of the learned space.
    affinity : affinity learner, affinity or sparse matrix, default=None
        A learner with a `learn(sample, neighbors)` method; None means `KNNAffinity()`, the heat-kernel graph of five
        nearest neighbours. Or a precomputed affinity of the rows passed to `fit`, as for the `affinity` of `fit`.
    scaling : {"unit", "orthonormal"}, default="unit"
        Length of each component in the prepared space: Euclidean length 1, or length 1 under X'DX. Both span the same
        space, but distances, and so a subsequent k-means, differ.
    preparation : {"center", "unit", "linear"} or Preparation, default="center"
        How rows are prepared; LPP is not invariant to a shift, so rows are always centred. Directions in which the
        rows do not vary are left out.
    engine, verbose
        As in `AdaAM`.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components_,)
        Eigenvalues, ascending: 0 for directions in which linked rows coincide.
    knn_recall_ : float or None
        As in `AdaAM`; None if no neighbours were searched.
    components_, mean_, covariance_, n_components_, preparation_, engine_, n_features_in_, feature_names_in_
        As in `AdaAM`.

    References
    ----------
    X. He, P. Niyogi, "Locality Preserving Projections", NIPS 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import LPP, KNNAffinity
    >>> X, _ = load_digits(return_X_y=True)
    >>> LPP(n_components=2, affinity=KNNAffinity(n_neighbors=10)).fit_transform(X).shape
    (1797, 2)
    """

    n_components: int = 2
    _: KW_ONLY
    affinity: AffinityLearner | None = None
    scaling: ColumnScaling = "unit"
    preparation: str | Preparation = "center"
    engine: str | Engine = "auto"
    verbose: int = 0

    @with_callbacks
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, neighbors: Any = None, affinity: Any = None
    ) -> Self:
        """Learn the map and return the learner.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to learn from.
        y, sample_weight, neighbors
            As in `AdaAM.fit`.
        affinity : sparse matrix or affinity value, default=None
            An affinity of the rows: a symmetric sparse n x n matrix, or an object with `degrees()` and `gram(X)`.
            It replaces the learner.
        """
        check_whole("n_components", self.n_components)
        scaling: Any = check_word("scaling", self.scaling, ("unit", "orthonormal"))
        preparation = resolve_preparation(self.preparation)
        engine = resolve_engine(self.engine)
        learner = KNNAffinity() if self.affinity is None else self.affinity
        check_object("affinity", learner)
        if affinity is None and not hasattr(learner, "learn"):
            affinity = learner
        if affinity is not None and (sample_weight is not None or neighbors is not None):
            raise ValueError("affinity was given to fit, so sample_weight and neighbors would be ignored. Pass one.")
        X = self._rows(X, reset=True)

        given = None if affinity is None else given_affinity(affinity, X.shape[0], engine)
        rows_are_nodes = neighbors is not None or given is not None
        with fit_phases(self, 3, X) as phase:
            with phase("preparation"):
                prepared, sample = prepared_sample(X, sample_weight, preparation, engine, rows_are_nodes=rows_are_nodes)
            n_components = check_components(self.n_components, self.n_components, sample.X.shape[1])
            with phase("affinity"):
                source = Neighbors(sample, neighbors)
                value = learner.learn(sample, source) if given is None else given
            with phase("projection"):
                projection = lpp(sample, value, n_components, scaling)

            self._store_map(prepared, projection, sample.moments, X.dtype, engine)
            self.knn_recall_ = source.recall
        return self


def given_affinity(affinity: Any, n_rows: int, engine: Engine) -> Affinity:
    """Return an affinity given by the user: a symmetric sparse matrix, or an object with `degrees()` and `gram(X)`."""
    if not issparse(affinity):
        if hasattr(affinity, "degrees") and hasattr(affinity, "gram"):
            value: Affinity = affinity
            return value
        raise TypeError(
            f"affinity={affinity!r} is no learner with learn(sample, neighbors), no value with degrees() and gram(X), "
            "and no sparse matrix. Use KNNAffinity(), or scipy.sparse.csr_array for a matrix of your own."
        )
    weights = csr_array(affinity)
    if weights.shape != (n_rows, n_rows):
        raise ValueError(f"affinity has shape {weights.shape}, but X has {n_rows} rows.")
    difference = abs(weights - weights.T)
    if difference.nnz and difference.max() > 1e-8 * abs(weights).max():
        raise ValueError("affinity is not symmetric. Use affinity.maximum(affinity.T) or the mean of the two.")
    return SparseAffinity(weights, engine)
