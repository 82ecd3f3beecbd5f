"""The preparation alone as a metric: the baseline of everything that is learned."""

from typing import Any, Self

import numpy as np

from adaam.engines import Engine, resolve_engine
from adaam.estimators.fitting import prepared_sample, resolve_preparation, store
from adaam.estimators.linear_metric import LinearMetric
from adaam.prepare import LinearMap, Preparation
from adaam.projection import Projection
from adaam.sample import Sample


class PreparedMetric(LinearMetric):
    """Euclidean distance between prepared rows, in the form of a learned metric.

    Nothing is learned beyond the preparation: rows scaled or columns standardised, centred, and mapped onto their
    leading principal components. It is the baseline for a learned metric.

    Parameters
    ----------
    preparation : {"unit", "linear", "center", "standard"} or Preparation, default="unit"
        How rows are prepared.
    engine : {"auto", "cpu", "gpu", "dask"} or engine, default="auto"
        Where the computation runs.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Principal directions, largest variance first.
    eigenvalues_ : ndarray of shape (n_components_,)
        Variance along each.
    mean_, covariance_, n_components_, preparation_, engine_
        As in `AdaAM`.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen in fit, when X has names that are all strings.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from adaam import PreparedMetric
    >>> X, _ = load_wine(return_X_y=True)
    >>> PreparedMetric(preparation="standard").fit_transform(X).shape
    (178, 13)
    """

    def __init__(self, preparation: str | Preparation = "unit", *, engine: str | Engine = "auto") -> None:
        self.preparation = preparation
        self.engine = engine

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the preparation.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to prepare.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            A row of weight w counts as w equal rows; 0 leaves it out. Weights that sum to less than the number of rows
            of positive weight, as those that sum to 1, are relative: they are scaled to a mean of 1 over these rows.

        Returns
        -------
        self : PreparedMetric
            The fitted metric.
        """
        preparation = resolve_preparation(self.preparation)
        X = self._rows(X, reset=True)
        engine = resolve_engine(self.engine)
        prepared, sample = prepared_sample(X, sample_weight, preparation, engine, rows_are_nodes=False)
        store(self, prepared, as_they_are(prepared, sample), sample, X)
        self.preparation_ = preparation
        return self


def as_they_are(prepared: LinearMap, sample: Sample) -> Projection:
    """Projection that leaves prepared rows where they are, with their variances for eigenvalues."""
    return Projection(np.eye(len(prepared.components)), np.diag(sample.gram()) / sample.size)
