"""Scorers that need no labels, for scikit-learn's searches: how well clusters separate in the learned metric."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import calinski_harabasz_score, davies_bouldin_score, silhouette_score

__all__ = ["calinski_harabasz", "davies_bouldin", "silhouette"]

# The silhouette compares all pairs of rows; of more than this many, a random sample is scored.
SILHOUETTE_ROWS = 5000


def silhouette(estimator: Any, X: Any, y: Any = None) -> float:
    """Mean silhouette of the predicted clusters in the learned space, from -1 (wrong) to 1 (far apart).

    Parameters
    ----------
    estimator : estimator with `transform` and `predict`
        A fitted clusterer, or a pipeline that ends in one.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to score on; of more than 5000, a random sample that is the same each time.
    y : None
        Ignored.

    Returns
    -------
    float
        The score, larger is better; -1 if all rows are in one cluster, or each in its own.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import GridSearchCV
    >>> from adaam import AdaAM, AdaAMClustering
    >>> from adaam.scorers import silhouette
    >>> X, _ = load_digits(return_X_y=True)
    >>> grid = {"learner__n_neighbors": [12, 20]}
    >>> search = GridSearchCV(AdaAMClustering(10, learner=AdaAM(10)), grid, scoring=silhouette, cv=3).fit(X)
    >>> sorted(search.best_params_)
    ['learner__n_neighbors']
    """
    return _score(silhouette_score, estimator, X, worst=-1.0, most_rows=SILHOUETTE_ROWS)


def calinski_harabasz(estimator: Any, X: Any, y: Any = None) -> float:
    """Spread between the predicted clusters over spread inside them, in the learned space: larger is better.

    Parameters
    ----------
    estimator, X, y
        As in `silhouette`, but all rows are scored; 0 if they are in one cluster, or each in its own.
    """
    return _score(calinski_harabasz_score, estimator, X, worst=0.0)


def davies_bouldin(estimator: Any, X: Any, y: Any = None) -> float:
    """Minus the mean similarity of each predicted cluster to its most similar one: larger is better, at most 0.

    Parameters
    ----------
    estimator, X, y
        As in `silhouette`, but all rows are scored; -inf if they are in one cluster, or each in its own.
    """
    return _score(lambda Z, labels: -davies_bouldin_score(Z, labels), estimator, X, worst=-np.inf)


def _score(score: Callable[..., Any], estimator: Any, X: Any, *, worst: float, most_rows: int | None = None) -> float:
    """Score of the clusters in the learned space; `worst` if there is nothing to compare."""
    missing = [name for name in ("transform", "predict") if not hasattr(estimator, name)]
    if missing:
        raise TypeError(
            f"estimator={estimator!r} has no {' and no '.join(missing)}, so it has no clusters in a learned space to "
            "score. Use AdaAMClustering, or a pipeline that ends in it."
        )
    Z, labels = np.asarray(estimator.transform(X)), np.asarray(estimator.predict(X))
    if most_rows is not None and len(Z) > most_rows:
        shown = np.random.default_rng(0).permutation(len(Z))[:most_rows]
        Z, labels = Z[shown], labels[shown]
    return float(score(Z, labels)) if 1 < len(np.unique(labels)) < len(labels) else worst
