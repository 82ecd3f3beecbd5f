"""Preparation of rows: unit length, centring, leading principal components."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.base import BaseEstimator

from adaam._typing import Column, ColumnUnits, FloatMatrix, FloatVector, RowScaling, Tall
from adaam._warnings import warn_caller
from adaam.engines import CPUEngine, Engine
from adaam.engines.blocks import row_blocks
from adaam.engines.columns import spread, total
from adaam.linalg import Eigenpairs, range_eigenpairs

# Past this many rows and columns the whole spectrum is out of reach, and the caller must say how much of it to keep.
FULL_SPECTRUM_LIMIT = 12_000
# Up to so many columns the scatter matrix is made for its diagonal, since it is exact far from the origin.
SCATTER_COLUMNS = 4096
DIAGONAL_BLOCK = 64
# Spreads along components below this share of the largest are not trusted to rounding.
LEAST_SPREAD = 1e-6


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
    column_scaling : {"none", "standard"}, default="none"
        "standard" divides each column by its standard deviation first, for columns of unlike units; it goes with
        row_scaling="none" alone. Constant columns stay as they are.

    Examples
    --------
    >>> from adaam import AdaAM, Preparation
    >>> AdaAM(3, preparation=Preparation(row_scaling="none", keep=0.95))
    AdaAM(n_clusters=3, preparation=Preparation(keep=0.95, row_scaling='none'))
    """

    def __init__(
        self, row_scaling: RowScaling = "unit", keep: float = 0.99, column_scaling: ColumnUnits = "none"
    ) -> None:
        self.row_scaling = row_scaling
        self.keep = keep
        self.column_scaling = column_scaling


PREPARATIONS = {
    "unit": Preparation(row_scaling="unit", keep=0.99),
    "linear": Preparation(row_scaling="none", keep=0.98),
    "center": Preparation(row_scaling="none", keep=1.0),
    "standard": Preparation(row_scaling="none", keep=1.0, column_scaling="standard"),
}


@dataclass(frozen=True, slots=True)
class LinearMap:
    """Rows to unit length (or not), minus a mean, times components: all that a fitted model needs to map new rows."""

    components: FloatMatrix  # (m, d)
    mean: FloatVector  # (d,)
    row_scaling: RowScaling
    column_units: FloatVector | float = 1.0  # what columns were divided by; components hold it already
    # Sums of squares along the components of the rows they are the principal ones of, where well told apart.
    spreads: FloatVector | None = None

    def then(self, coefficients: FloatMatrix) -> "LinearMap":
        """Follow this map by another of shape (m', m), folded into one."""
        return LinearMap(coefficients @ self.components, self.mean, self.row_scaling, self.column_units)

    def in_units(self, units: FloatVector) -> "LinearMap":
        """Take rows as they are, where this map takes rows whose columns were divided by units."""
        return LinearMap(self.components / units, self.mean * units, self.row_scaling, units, self.spreads)

    def apply(self, X: Tall, engine: Engine) -> Tall:
        """Map rows."""
        return engine.project(X, row_scale(X, self.row_scaling, engine), self.mean, self.components)


def row_scale(X: Tall, row_scaling: RowScaling, engine: Engine) -> Column:
    """Factor each row is multiplied with: one over its length, or one."""
    return 1.0 if row_scaling == "none" else _reciprocal(engine.row_norms(X))


def _reciprocal(norms: Column) -> Column:
    # Lengths below the smallest normal number have no finite reciprocal; such rows count as zero and stay.
    return 1.0 / (norms + (norms < np.finfo(np.float64).tiny))


def scaled_rows(X: FloatMatrix, row_scaling: RowScaling) -> FloatMatrix:
    """Scale a few host rows as the preparation does."""
    engine = CPUEngine()
    return np.asarray(X * spread(row_scale(X, row_scaling, engine), len(X))[:, None])


def fit_preparation(X: Tall, weights: Column, settings: Preparation, engine: Engine) -> LinearMap:
    """Learn the preparation: a map onto the kept principal components, largest variance first.

    Raises
    ------
    ValueError
        If all prepared rows are equal, so that there is nothing to learn.
    """
    if settings.column_scaling == "standard":
        return _standardised(X, weights, settings, engine)
    n, d = X.shape
    scale: Column = 1.0
    if settings.row_scaling == "unit":
        norms = engine.row_norms(X)
        _warn_of_zero_rows(norms)
        scale = _reciprocal(norms)
    size = total(weights, n)
    mean = engine.cross(None, X, weights * scale)[0] / size
    pairs = _principal_pairs(X, scale, mean, weights, settings.keep, engine)
    prepared = principal_map(pairs, mean, size, (n, d), float(np.finfo(X.dtype).eps), settings)
    # Of fewer rows than features, or by Lanczos steps, components are less exact than their spreads would have to be.
    told_apart = d <= min(n, FULL_SPECTRUM_LIMIT) and pairs.values[-1] > LEAST_SPREAD * pairs.values[0]
    return replace(prepared, spreads=pairs.values) if told_apart else prepared


def principal_map(
    pairs: Eigenpairs, mean: FloatVector, size: float, shape: tuple[int, int], eps: float, settings: Preparation
) -> LinearMap:
    """Turn principal components of rows, of a total weight and a precision, into a map; equal rows have none."""
    n, d = shape
    # Spread below the rounding of the mean is no spread: equal rows must not pass for data.
    noise = (float(np.abs(mean).max(initial=0.0)) * eps * 8) ** 2 * size * d
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


def _standardised(X: Tall, weights: Column, settings: Preparation, engine: Engine) -> LinearMap:
    """Preparation of rows whose columns are brought to standard deviation 1; the map takes rows as they are."""
    units = column_units(column_variances(X, weights, engine))
    if issparse(X):
        scaled = engine.asarray(csr_array(X @ diags_array(1.0 / units)))
    else:
        scaled = _entrywise(np.divide, X, engine, units.astype(X.dtype))
    plain = fit_preparation(scaled, weights, Preparation(settings.row_scaling, settings.keep), engine)
    return plain.in_units(units)


def column_units(variances: FloatVector) -> FloatVector:
    """Standard deviation of each column; 1 where it is constant."""
    return np.where(variances > 0, np.sqrt(variances), 1.0)


def column_variances(X: Tall, weights: Column, engine: Engine) -> FloatVector:
    """Variance of each column, zero where it is no more than rounding."""
    n, d = X.shape
    size = total(weights, n)
    mean = engine.cross(None, X, weights)[0] / size
    if d <= SCATTER_COLUMNS:
        # Of the scatter matrix only blocks along the diagonal are made, where columns can be had apart.
        whole = issparse(X) or hasattr(X, "entrywise")
        parts = [slice(0, d)] if whole else row_blocks(d, DIAGONAL_BLOCK)
        squares = [np.diag(engine.scatter(X if whole else X[:, part], 1.0, mean[part], weights)) for part in parts]
        variances = np.concatenate(squares) / size
    else:
        squares = X.multiply(X) if issparse(X) else _entrywise(np.square, X, engine)
        variances = engine.cross(None, squares, weights)[0] / size - mean**2
    return above_rounding(variances, mean, float(np.finfo(X.dtype).eps))


def _entrywise(function: Callable[..., Any], X: Tall, engine: Engine, *given: Any) -> Tall:
    """Rows that a function of single numbers makes of others; rows in blocks on a cluster stay there."""
    if hasattr(X, "entrywise"):
        return X.entrywise(function, *given)
    return engine.asarray(function(engine.to_host(X), *given))


def above_rounding(variances: FloatVector, mean: FloatVector, eps: float) -> FloatVector:
    """Variances of columns, zero where they are no more than the rounding of the mean."""
    return np.where(variances > (np.abs(mean) * eps * 8) ** 2, variances, 0.0)


def _principal_pairs(
    X: Tall, scale: Column, mean: FloatVector, weights: Column, keep: float, engine: Engine
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
        # Fewer rows than features: what has one number a row is the smaller side, and may come to the host.
        root = np.sqrt(spread(engine.to_host(weights), n))[:, None]
        K = engine.scatter(X, scale, mean, weights, between_rows=True)
        rows = range_eigenpairs(K, n, engine.eigh)
        lift = rows.vectors * root / np.sqrt(rows.values)
        basis = engine.cross(X, lift, scale) - np.outer(mean, lift.sum(axis=0))
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
    X: Tall, scale: Column, mean: FloatVector, weights: Column, n_pairs: int, engine: Engine
) -> Eigenpairs:
    """Return the leading eigenpairs of the scatter matrix by Lanczos steps, each two passes over the rows."""
    d = X.shape[1]

    def multiply(v: FloatVector) -> FloatVector:
        # Rows are centred on one side alone: the other side's mean would meet a weighted sum that is zero.
        along = engine.project(X, scale, mean, v.reshape(1, d))
        return np.asarray(engine.cross(along, X, weights * scale)[0])

    operator = LinearOperator((d, d), matvec=multiply, dtype=np.float64)
    # A fixed start makes the result the same from run to run.
    values, vectors = eigsh(operator, k=n_pairs, v0=np.random.default_rng(0).standard_normal(d))
    return Eigenpairs(values[::-1], vectors[:, ::-1])


def _warn_of_zero_rows(norms: Column) -> None:
    n_zero = int((norms == 0).sum())
    if n_zero:
        warn_caller(
            f"{n_zero} distinct row(s) of X are all zero and cannot be scaled to unit length; they stay zero.",
            ZeroRowWarning,
        )
