"""A metric learned from a partition: distances in standard deviations within its clusters."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from adaam._typing import IntVector, Tall
from adaam.engines import Engine, resolve_engine
from adaam.estimators.linear_metric import LinearMetric
from adaam.prepare import LinearMap, Preparation, Sample, prepared_sample, resolve_preparation
from adaam.projection import discriminant


@dataclass(eq=False, repr=False)
class DiscriminantMetric(LinearMetric):
    """Linear discriminant map (LDA) of a partition, as a learned metric.

    `AdaAMClustering` learns it from the clusters that it found in an AdaAM metric. It has at most one component fewer
    than there are clusters, and separates them, relative to their spread, as well as any linear map can.

    Parameters
    ----------
    preparation : {"unit", "linear", "center", "standard"} or Preparation, default="unit"
        How rows are prepared.
    engine : {"auto", "cpu", "gpu"} or engine, default="auto"
        Where the computation runs.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Discriminant directions, the one that separates most first.
    eigenvalues_ : ndarray of shape (n_components_,)
        Variance between clusters along each component, relative to the variance within clusters.
    mean_, covariance_, n_components_, preparation_, engine_, n_features_in_, feature_names_in_
        As in `AdaAM`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAMClustering, DiscriminantMetric
    >>> X, _ = load_digits(return_X_y=True)
    >>> labels = AdaAMClustering(10).fit_predict(X)
    >>> DiscriminantMetric().fit(X, labels).transform(X).shape
    (1797, 9)
    """

    preparation: str | Preparation = "unit"
    _: KW_ONLY
    engine: str | Engine = "auto"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Cluster of each row.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w equal rows.

        Returns
        -------
        self : DiscriminantMetric
            The fitted metric.
        """
        if y is None:
            raise ValueError(
                "requires y to be passed, but the target y is None: DiscriminantMetric learns from a partition. "
                "Pass labels, such as AdaAMClustering().fit_predict(X)."
            )
        preparation = resolve_preparation(self.preparation)
        X = self._rows(X, reset=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        check_classification_targets(y)
        engine = resolve_engine(self.engine)
        return self._fit_prepared(*prepared_sample(X, sample_weight, preparation, engine, rows_are_nodes=True), y, X)

    def _fit_prepared(self, prepared: LinearMap, sample: Sample, y: IntVector, X: Tall) -> Self:
        """Learn the map from rows that are prepared already."""
        labels = np.unique(y, return_inverse=True)[1]
        projection = discriminant(sample, labels, int(labels.max()) + 1)
        self._store_map(prepared, projection, sample.moments, self._rows(X, reset=True).dtype, sample.engine)
        return self

    def __sklearn_tags__(self) -> Any:
        """Labels are required."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
