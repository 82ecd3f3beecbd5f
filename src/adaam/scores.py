"""Scores of a partition against known classes; for judging results, never for choosing them."""

from typing import Any, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import check_consistent_length, column_or_1d

from adaam._typing import FloatMatrix

__all__ = ["adjusted_rand_index", "clustering_accuracy", "normalized_mutual_information", "purity"]


def clustering_accuracy(y_true: Any, y_pred: Any) -> float:
    """Share of rows in the right class under the best one-to-one match of clusters and classes.

    Clusters left without a class count as errors.

    Examples
    --------
    >>> clustering_accuracy([0, 0, 1, 1], [5, 5, 7, 5])
    0.75
    """
    table = _contingency(y_true, y_pred)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def normalized_mutual_information(
    y_true: Any, y_pred: Any, *, average: Literal["max", "geometric", "arithmetic", "min"] = "max"
) -> float:
    """Mutual information over an average of the two entropies.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Classes and clusters.
    average : {"max", "geometric", "arithmetic", "min"}, default="max"
        "max" is what the literature of this method reports, "arithmetic" what scikit-learn does by default.

    Examples
    --------
    >>> normalized_mutual_information([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    return float(normalized_mutual_info_score(y_true, y_pred, average_method=average))


def adjusted_rand_index(y_true: Any, y_pred: Any) -> float:
    """Hubert and Arabie's adjusted Rand index: 1 for equal partitions, about 0 for independent ones.

    Examples
    --------
    >>> adjusted_rand_index([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    return float(adjusted_rand_score(y_true, y_pred))


def purity(y_true: Any, y_pred: Any) -> float:
    """Share of rows that belong to the majority class of their cluster.

    Examples
    --------
    >>> purity([0, 0, 1, 1], [0, 1, 2, 2])
    1.0
    """
    table = _contingency(y_true, y_pred)
    return float(table.max(axis=0).sum() / table.sum())


def _contingency(y_true: Any, y_pred: Any) -> FloatMatrix:
    """Counts of rows by class (rows) and cluster (columns)."""
    y_true, y_pred = column_or_1d(y_true), column_or_1d(y_pred)
    check_consistent_length(y_true, y_pred)
    if len(y_true) == 0:
        raise ValueError("y_true and y_pred are empty, so there is no partition to score.")
    return np.asarray(contingency_matrix(y_true, y_pred))
