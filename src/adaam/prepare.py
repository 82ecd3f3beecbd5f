"""Preparation of rows: unit length, centring, leading principal components."""

import warnings
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.base import BaseEstimator

from adaam._typing import FloatMatrix, FloatVector, RowScaling, Tall
from adaam.engines import CPUEngine, Engine
from adaam.linalg import Eigenpairs, range_eigenpairs

# Past this many rows and columns the whole spectrum is out of reach, and the caller must say how much of it to keep.
FULL_SPECTRUM_LIMIT = 12_000


class ZeroRowWarning(UserWarning):
    """Some rows are all zero, so they have no direction to keep."""


class Preparation(BaseEstimator):
    """How rows are prepared before anything is learned from them.

    Parameters
    ----------
    row_scaling : {"unit", "none"}, default="unit"
        "unit" divides each row by its Euclidean length (all-zero rows stay zero, with a warning at fit).
    keep : float or int, default=0.99
        Leading principal components to keep: a share of the variance in (0, 1], or a number of components.
        1.0 removes nothing but the null space.

    Examples
    --------
    >>> from adaam import AdaAM, Preparation
    >>> AdaAM(3, preparation=Preparation(row_scaling="none", keep=0.95))
    AdaAM(n_clusters=3, preparation=Preparation(keep=0.95, row_scaling='none'))
    """

    def __init__(self, row_scaling: RowScaling = "unit", keep: float = 0.99) -> None:
        self.row_scaling = row_scaling
        self.keep = keep


@dataclass(frozen=True, slots=True)
class LinearMap:
    """Rows to unit length (or not), minus a mean, times components: all that a fitted model needs to map new rows."""

    components: FloatMatrix  # (m, d)
    mean: FloatVector  # (d,)
    row_scaling: RowScaling

    def then(self, coefficients: FloatMatrix) -> "LinearMap":
        """Follow this map by another of shape (m', m), folded into one."""
        return LinearMap(coefficients @ self.components, self.mean, self.row_scaling)

    def apply(self, X: Tall, engine: Engine) -> Tall:
        """Map rows."""
        return engine.project(X, row_scale(X, self.row_scaling, engine), self.mean, self.components)


def row_scale(X: Tall, row_scaling: RowScaling, engine: Engine) -> FloatVector:
    """Factor each row is multiplied with: one over its length, or one."""
    if row_scaling == "none":
        return np.ones(X.shape[0])
    norms = engine.row_norms(X)
    # Lengths below the smallest normal number have no finite reciprocal; such rows count as zero.
    return np.where(norms < np.finfo(np.float64).tiny, 1.0, 1.0 / np.maximum(norms, np.finfo(np.float64).tiny))


def scaled_rows(X: FloatMatrix, row_scaling: RowScaling) -> FloatMatrix:
    """Scale a few host rows as the preparation does."""
    return np.asarray(X * row_scale(X, row_scaling, CPUEngine())[:, None])


def fit_preparation(X: Tall, weights: FloatVector, settings: Preparation, engine: Engine) -> LinearMap:
    """Learn the preparation: a map onto the kept principal components, largest variance first.

    Raises
    ------
    ValueError
        If all prepared rows are equal, so that there is nothing to learn.
    """
    scale = row_scale(X, settings.row_scaling, engine)
    if settings.row_scaling == "unit":
        _warn_of_zero_rows(X, engine)
    total = weights.sum()
    mean = engine.cross((weights * scale)[:, None], X)[0] / total
    n, d = X.shape
    pairs = _principal_pairs(X, scale, mean, weights, settings.keep, engine)
    return principal_map(pairs, mean, float(total), (n, d), float(np.finfo(X.dtype).eps), settings)


def principal_map(
    pairs: Eigenpairs, mean: FloatVector, total: float, shape: tuple[int, int], eps: float, settings: Preparation
) -> LinearMap:
    """Turn principal components of rows, of a total weight and a precision, into a map; equal rows have none."""
    n, d = shape
    # Spread below the rounding of the mean is no spread: equal rows must not pass for data.
    noise = (float(np.abs(mean).max(initial=0.0)) * eps * 8) ** 2 * total * d
    if len(pairs.values) == 0 or pairs.values[0] <= noise:
        raise ValueError(
            f"All {n} distinct rows are equal after preparation (row_scaling={settings.row_scaling!r}, "
            f"n_features={d}): there is nothing to learn from them. "
            + (
                'Rows of one feature all have the same direction; use preparation="linear".'
                if d == 1 and settings.row_scaling == "unit"
                else "Check that X holds different rows."
            )
        )
    return LinearMap(pairs.vectors.T, mean, settings.row_scaling)


def _principal_pairs(
    X: Tall, scale: FloatVector, mean: FloatVector, weights: FloatVector, keep: float, engine: Engine
) -> Eigenpairs:
    """Leading eigenpairs of the scatter matrix, by whichever of its two forms is smaller."""
    n, d = X.shape
    by_count = isinstance(keep, Integral)
    if min(n, d) > FULL_SPECTRUM_LIMIT:
        if not by_count:
            raise ValueError(
                f"keep={keep!r} asks for a share of the variance of {n} rows x {d} features, which needs the "
                f"whole spectrum; that is limited to {FULL_SPECTRUM_LIMIT} rows or features. "
                "Use Preparation(keep=200), a number of components."
            )
        return _leading_pairs(X, scale, mean, weights, int(keep), engine)
    if n < d:
        root = np.sqrt(weights)
        K = engine.row_scatter(X, scale, mean) * root * root[:, None]
        rows = range_eigenpairs(K, n, engine.eigh)
        lift = rows.vectors * root[:, None] / np.sqrt(rows.values)
        basis = engine.cross(X, lift * scale[:, None]) - np.outer(mean, lift.sum(axis=0))
        pairs = Eigenpairs(rows.values, basis)
    else:
        pairs = range_eigenpairs(engine.scatter(X, scale, mean, weights), n, engine.eigh)
    return kept_pairs(pairs, keep)


def kept_pairs(pairs: Eigenpairs, keep: float) -> Eigenpairs:
    """Return the leading pairs: a number of them, or those that hold a share of the variance."""
    if isinstance(keep, Integral):
        kept = int(keep)
    else:
        share = np.cumsum(pairs.values) / pairs.values.sum()
        # The last share may round to just below 1; keeping everything must not depend on that.
        kept = int(np.searchsorted(share, keep * (1 - 1e-12))) + 1
    return Eigenpairs(pairs.values[:kept], pairs.vectors[:, :kept])


def _leading_pairs(
    X: Tall, scale: FloatVector, mean: FloatVector, weights: FloatVector, n_pairs: int, engine: Engine
) -> Eigenpairs:
    """Return the leading eigenpairs of the scatter matrix by Lanczos steps, each two passes over the rows."""
    d = X.shape[1]

    def multiply(v: FloatVector) -> FloatVector:
        along = np.asarray(engine.to_host(engine.project(X, scale, mean, v.reshape(1, d))), np.float64)
        along *= weights[:, None]
        return np.asarray(engine.cross(along * scale[:, None], X)[0] - along.sum() * mean)

    operator = LinearOperator((d, d), matvec=multiply, dtype=np.float64)
    # A fixed start makes the result the same from run to run.
    values, vectors = eigsh(operator, k=n_pairs, v0=np.random.default_rng(0).standard_normal(d))
    return Eigenpairs(values[::-1], vectors[:, ::-1])


def _warn_of_zero_rows(X: Tall, engine: Engine) -> None:
    n_zero = int(np.sum(engine.row_norms(X) == 0))
    if n_zero:
        warnings.warn(
            f"{n_zero} distinct row(s) of X are all zero and cannot be scaled to unit length; they stay zero.",
            ZeroRowWarning,
            stacklevel=2,
        )
