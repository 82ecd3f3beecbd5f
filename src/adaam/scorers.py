"""Scorers that need no labels, for scikit-learn's searches: how well clusters separate in the learned metric."""

from collections.abc import Callable
from inspect import getdoc
from typing import Any, TypeAlias

import numpy as np
from sklearn.metrics import calinski_harabasz_score, davies_bouldin_score, silhouette_score

from adaam._typing import FloatMatrix, IntVector

__all__ = ["calinski_harabasz", "davies_bouldin", "silhouette"]

Score: TypeAlias = Callable[[FloatMatrix, IntVector], Any]
Scorer: TypeAlias = Callable[..., float]

# The silhouette compares all pairs of rows; beyond this many an even sample of them tells as much.
SILHOUETTE_ROWS = 5000
# What a scorer takes and gives, beside its own first line and examples.
CONTRACT = """
Parameters
----------
estimator : estimator with `transform` and `predict`
    A fitted clusterer, or a pipeline that ends in one.
X : {{array-like, sparse matrix}} of shape (n_samples, n_features)
    Rows to score on.
y : None
    Ignored.

Returns
-------
float
    The score, larger is better; {worst:g} where all rows fall into one cluster, or each into its own.
"""


def scorer(worst: float, max_rows: int | None = None) -> Callable[[Score], Scorer]:
    """Make a score of places and labels a scorer of fitted clusterers, `worst` where there is nothing to compare."""

    def scorer_of(score: Score) -> Scorer:
        def scored(estimator: Any, X: Any, y: Any = None) -> float:
            Z, labels = _clustered(estimator, X, max_rows)
            return float(score(Z, labels)) if 1 < len(np.unique(labels)) < len(labels) else worst

        summary, _, rest = (getdoc(score) or "").partition("\n")
        scored.__doc__ = summary + "\n" + CONTRACT.format(worst=worst) + rest
        # Known by the name of the score, so that it is found again in other processes.
        scored.__name__, scored.__qualname__, scored.__module__ = score.__name__, score.__qualname__, score.__module__
        return scored

    return scorer_of


@scorer(worst=-1.0, max_rows=SILHOUETTE_ROWS)
def silhouette(Z: FloatMatrix, labels: IntVector) -> Any:
    """Mean silhouette of the predicted clusters in the learned space, from -1 (wrong) to 1 (far apart).

    Notes
    -----
    More than 5000 rows are thinned out evenly at random, the same each time.

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
    return silhouette_score(Z, labels)


@scorer(worst=0.0)
def calinski_harabasz(Z: FloatMatrix, labels: IntVector) -> Any:
    """Spread between the predicted clusters over spread inside them, in the learned space."""
    return calinski_harabasz_score(Z, labels)


@scorer(worst=-np.inf)
def davies_bouldin(Z: FloatMatrix, labels: IntVector) -> Any:
    """Minus the mean likeness of each predicted cluster to its nearest other one: at most 0."""
    return -davies_bouldin_score(Z, labels)


def _clustered(estimator: Any, X: Any, max_rows: int | None) -> tuple[FloatMatrix, IntVector]:
    missing = [name for name in ("transform", "predict") if not hasattr(estimator, name)]
    if missing:
        raise TypeError(
            f"estimator={estimator!r} has no {' and no '.join(missing)}, so it has no clusters in a learned space to "
            "score. Use AdaAMClustering, or a pipeline that ends in it."
        )
    Z, labels = np.asarray(estimator.transform(X)), np.asarray(estimator.predict(X))
    if max_rows is None or len(Z) <= max_rows:
        return Z, labels
    shown = np.random.default_rng(0).permutation(len(Z))[:max_rows]
    return Z[shown], labels[shown]
