"""The preparation alone as a metric: a baseline for learned metrics."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from adaam.engines import Engine, resolve_engine
from adaam.estimators.linear_metric import LinearMetric
from adaam.linalg import Projection
from adaam.prepare import Preparation, prepared_sample, resolve_preparation


@dataclass(eq=False, repr=False)
class PreparedMetric(LinearMetric):
    """Euclidean distance between prepared rows, in the form of a learned metric.

    Nothing is learned beyond the preparation: rows scaled or columns standardised, centred, and mapped onto their
    leading principal components. It is the baseline for a learned metric.

    Parameters
    ----------
    preparation, engine
        As in `AdaAM`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Principal directions, largest variance first.
    eigenvalues_ : ndarray of shape (n_components_,)
        Variance along each.
    mean_, covariance_, n_components_, preparation_, engine_, n_features_in_, feature_names_in_
        As in `AdaAM`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from adaam import PreparedMetric
    >>> X, _ = load_wine(return_X_y=True)
    >>> PreparedMetric(preparation="standard").fit_transform(X).shape
    (178, 13)
    """

    preparation: str | Preparation = "unit"
    _: KW_ONLY
    engine: str | Engine = "auto"

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the preparation and return the metric.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to prepare.
        y, sample_weight
            As in `AdaAM.fit`.
        """
        preparation = resolve_preparation(self.preparation)
        X = self._rows(X, reset=True)
        engine = resolve_engine(self.engine)
        prepared, sample = prepared_sample(X, sample_weight, preparation, engine, rows_are_nodes=False)
        # The identity map of prepared rows, with their variances as eigenvalues.
        projection = Projection(np.eye(len(prepared.components)), np.diag(sample.moments))
        self._store_map(prepared, projection, sample.moments, X.dtype, engine)
        return self
