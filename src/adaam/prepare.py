"""Preparation of rows for a fit: distinct rows and their weights, unit length, centring, principal components."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, cast

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array, diags_array, issparse
from sklearn.base import BaseEstimator

from adaam._checks import (
    check_kind,
    check_lengths,
    check_magnitude,
    check_number,
    check_weights,
    check_whole,
    check_word,
    row_counts,
    warn_caller,
)
from adaam._typing import Column, ColumnUnits, FloatMatrix, FloatVector, RowScaling, Tall
from adaam.engines import CPUEngine, Engine
from adaam.engines.blocks import beside, row_blocks, spread, total
from adaam.linalg import Eigenpairs, range_eigenpairs

HOST = CPUEngine()
# Above this many rows and columns the full spectrum is too expensive: leading components by subspace iteration.
FULL_SPECTRUM_LIMIT = 4_096
# Sparse rows are kept sparse, which makes leading components cheap and the full spectrum expensive.
SPARSE_SPECTRUM_LIMIT = 1_024
# Most components that are kept of such rows if `keep` is a share of the variance.
SKETCH_COMPONENTS = 256
SKETCH_SPARE = 16  # further columns of the iterated subspace
# Iteration stops when the captured norm grows by a smaller share: exact for a number of components, rough for a share.
SKETCHED, EXACT, MOST_ROUNDS = 1e-3, 1e-14, 200
# The last share of the variance may round to just below 1; keeping everything must not depend on that.
ALL_BUT_ROUNDING = 1 - 1e-12
# Smallest pivot of a Cholesky factor, relative to the largest; below it rounding would set the rest of the basis.
LEAST_PIVOT = 1e-5
# A share of the variance keeps at most half as many components as there are rows, or this many if that is more: in as
# many dimensions as there are rows, every row is equally far from all others.
FEW_COMPONENTS = 64
# Columns per diagonal block of a scatter matrix of which only the diagonal is needed.
DIAGONAL_BLOCK = 64
# Shorter rows are not scaled to unit length: their numbers have lost digits to underflow.
SMALLEST = float(np.finfo(np.float64).tiny)
# Variances below this have lost digits to underflow.
LEAST_VARIANCE = 1e-280
# Spreads along components are reused only if all are above this share of the largest; smaller ones are too inexact.
LEAST_SPREAD = 1e-6
# A column with this share of the variance of all columns is taken to have another unit; checked on N_SEEN rows.
DOMINANT_SHARE = 0.9
N_SEEN = 4096


class ZeroRowWarning(UserWarning):
    """Some rows are all zero and cannot be scaled to unit length."""


class UnlikeUnitsWarning(UserWarning):
    """One column varies far more than all others, so that its unit decides every distance."""


class TruncatedSpectrumWarning(UserWarning):
    """Fewer components were kept than the requested share of the variance needs."""


@dataclass(eq=False, repr=False)
class Preparation(BaseEstimator):
    """How rows are prepared before anything is learned from them.

    Parameters
    ----------
    row_scaling : {"unit", "none"}, default="unit"
        "unit" divides each row by its Euclidean length (all-zero rows stay zero, with a warning at fit).
    keep : float or int, default=0.99
        Leading principal components to keep: a share of the variance in (0, 1], or a number of components.
        1.0 removes nothing but the null space. A share below 1 keeps at most half as many components as there are
        distinct rows (64 are always allowed). With more than 4,096 rows and features, or 1,024 if rows are sparse, a
        share keeps at most 256 components. A `TruncatedSpectrumWarning` is issued if that is less than requested.
    column_scaling : {"none", "standard"}, default="none"
        "standard" divides each column by its standard deviation first, for columns of different units; it requires
        row_scaling="none". Constant columns carry no weight.

    Examples
    --------
    >>> from adaam import AdaAM, Preparation
    >>> AdaAM(3, preparation=Preparation(row_scaling="none", keep=0.95))
    AdaAM(n_clusters=3, preparation=Preparation(keep=0.95, row_scaling='none'))
    """

    row_scaling: RowScaling = "unit"
    keep: float = 0.99
    column_scaling: ColumnUnits = "none"


PREPARATIONS = {
    "unit": Preparation(row_scaling="unit", keep=0.99),
    "linear": Preparation(row_scaling="none", keep=0.98),
    "center": Preparation(row_scaling="none", keep=1.0),
    "standard": Preparation(row_scaling="none", keep=1.0, column_scaling="standard"),
}


def resolve_preparation(preparation: Any) -> Preparation:
    """Convert the `preparation` parameter, a name or a `Preparation`, to checked settings."""
    if isinstance(preparation, str):
        return PREPARATIONS[check_word("preparation", preparation, tuple(PREPARATIONS))]
    settings: Preparation = check_kind(
        "preparation", preparation, Preparation, "'unit', 'linear', 'center', 'standard' or a Preparation"
    )
    check_word("row_scaling", settings.row_scaling, ("unit", "none"))
    check_word("column_scaling", settings.column_scaling, ("none", "standard"))
    if settings.column_scaling == "standard" and settings.row_scaling == "unit":
        raise ValueError(
            "column_scaling='standard' goes with row_scaling='none' alone, since rows are scaled first. "
            "Standardise X beforehand to have both."
        )
    if isinstance(settings.keep, int | np.integer):
        check_whole("keep", settings.keep)
    else:
        check_number("keep", settings.keep, above=0.0, up_to=1.0)
    return settings


@dataclass(frozen=True, slots=True)
class LinearMap:
    """Map of rows: to unit length (or not), minus a mean, times components; all that is needed to map new rows."""

    components: FloatMatrix  # (m, d)
    mean: FloatVector  # (d,)
    row_scaling: RowScaling
    column_units: FloatVector | float = 1.0  # divisors of columns, which `components` contains already
    # Sums of squares of the fitted rows along their principal components; None if these are not exact enough.
    spreads: FloatVector | None = None

    def apply(self, X: Tall, engine: Engine) -> Tall:
        """Map rows."""
        return engine.project(X, row_scale(X, self.row_scaling, engine), self.mean, self.components)


def row_scale(X: Tall, row_scaling: RowScaling, engine: Engine) -> Column:
    """Factor that each row is multiplied by: one over its length, or 1."""
    return 1.0 if row_scaling == "none" else _reciprocal(engine.row_norms(X))


def _reciprocal(norms: Column) -> Column:
    # Lengths below the smallest normal number have no finite reciprocal; such rows count as zero rows.
    return 1.0 / (norms + (norms < SMALLEST))


def unit_rows(Z: Any, engine: Engine = HOST) -> Any:
    """Divide mapped rows by their lengths, so that Euclidean distance compares their directions; zero rows stay."""
    scale, m = _reciprocal(engine.row_norms(Z)), Z.shape[1]
    if isinstance(Z, np.ndarray):  # without a product with the identity, which takes longer
        return Z * beside(scale, slice(None)).astype(Z.dtype, copy=False)
    return engine.project(Z, scale, np.zeros(m), np.eye(m, dtype=Z.dtype))


def scaled_rows(X: FloatMatrix, row_scaling: RowScaling) -> FloatMatrix:
    """Scale a few host rows as the preparation does."""
    return np.asarray(X * spread(row_scale(X, row_scaling, HOST), len(X))[:, None])


def fit_preparation(X: Tall, weights: Column, settings: Preparation, engine: Engine) -> LinearMap:
    """Learn the preparation: a map onto the kept principal components, largest variance first.

    Integer rows are used as they are, without a floating-point copy of all of them.
    """
    n, d = X.shape
    dtype, size = working_type(X), total(weights, n)
    scale: Column = 1.0
    norms = row_lengths(X, engine)
    if settings.row_scaling == "unit":
        check_lengths("X", float(norms.max()), learning=True)
        _warn_of_zero_rows(norms)
        scale = _reciprocal(norms)
    else:
        check_magnitude("X", float(norms.max()), dtype, learning=True)
    mean = engine.cross(None, X, weights * scale)[0] / size
    units: FloatVector | float = 1.0
    if settings.column_scaling == "standard":
        variances = column_variances(X, weights, engine)
        # A constant column is divided by its magnitude, so that its rounding is as small as that of others.
        units = np.where(variances > 0, np.sqrt(variances), np.where(mean == 0.0, 1.0, np.abs(mean)))
    pairs = _principal_pairs(X, scale, mean, weights, units, settings.keep, engine)
    # Spread below the rounding of the mean counts as zero: equal rows must not be mistaken for data.
    largest, centred_first = float(np.abs(mean / units).max(initial=0.0)), not issparse(X)
    noise = float(_mean_rounding(largest, dtype, size, centred_first)) * size * d
    n_kept = int(np.count_nonzero(pairs.values > noise))
    if n_kept == 0:
        raise ValueError(
            f"All {n} distinct rows are equal after preparation, up to rounding (row_scaling={settings.row_scaling!r}, "
            f"n_features={d}, weights counted, means up to {largest:.2g}): there is nothing to learn from them. "
            f"{_way_out(d, settings, centred_first)}"
        )
    # With fewer rows than features, or by subspace iteration, components are not exact enough to use their spreads.
    spreads = pairs.values[:n_kept]
    told_apart = d <= min(n, FULL_SPECTRUM_LIMIT) and spreads[-1] > LEAST_SPREAD * spreads[0]
    components = pairs.vectors[:, :n_kept].T / units
    return LinearMap(components, mean, settings.row_scaling, units, spreads if told_apart else None)


def working_type(X: Tall) -> "np.dtype[Any]":
    """Precision of computations on rows: their own dtype, or float64 for dtypes other than floats."""
    return X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)


def row_lengths(X: Tall, engine: Engine) -> Column:
    """Length of each row; the CPU engine measures integer rows, which other engines do not accept."""
    return engine.row_norms(X) if X.dtype == working_type(X) else engine.asarray(HOST.row_norms(X))


def _way_out(n_features: int, settings: Preparation, centred_first: bool) -> str:
    if n_features == 1 and settings.row_scaling == "unit":
        return 'Rows of one feature all have the same direction; use preparation="linear".'
    if not centred_first:
        return "Rows in sparse form lose their differences beside a large mean; pass X.toarray() where these are small."
    return "Check that X holds different rows; where a mean is large beside the differences, subtract it first."


def column_variances(X: Any, weights: Column, engine: Engine) -> FloatVector:
    """Variance of each column; zero if it is no more than the rounding of its mean."""
    n, d = X.shape
    dtype, size = working_type(X), total(weights, n)
    check_magnitude("X", float(row_lengths(X, engine).max()), dtype, learning=True)
    mean = engine.cross(None, X, weights)[0] / size
    if issparse(X):
        variances = engine.cross(None, X.astype(np.float64).power(2), weights)[0] / size - mean**2
    else:
        # Scatter matrices are exact far from the origin. Only blocks along the diagonal are computed, except for rows
        # on a cluster, whose columns cannot be sliced.
        whole = hasattr(X, "entrywise")
        parts = [slice(0, d)] if whole else row_blocks(d, DIAGONAL_BLOCK)
        squares = [np.diag(engine.scatter(X if whole else X[:, part], 1.0, mean[part], weights)) for part in parts]
        variances = np.concatenate(squares) / size
    # If squares underflow in float64, a spread cannot be distinguished from zero.
    lost = np.flatnonzero((variances < LEAST_VARIANCE) & (mean != 0.0) & (np.abs(mean) < np.sqrt(LEAST_VARIANCE)))
    if len(lost):
        around = mean[lost[0]]
        raise ValueError(
            f"column_scaling='standard' cannot measure column {lost[0]} of X: its values are around {around:.2g}, and "
            f"their squares vanish in float64. Multiply the column by {1.0 / abs(around):.0e}, or leave it out."
        )
    return np.where(variances > _mean_rounding(mean, dtype, size, not issparse(X)), variances, 0.0)


def _mean_rounding(mean: Any, dtype: Any, size: float, centred_first: bool) -> Any:
    """Largest variance that rounding of the mean may cause."""
    if centred_first:
        return (np.abs(mean) * float(np.finfo(dtype).eps) * 8) ** 2
    # Rounding of sums of squares, which grows with the root of the number of rows.
    return mean**2 * float(np.finfo(np.float64).eps) * 8 * np.sqrt(max(size, 1.0))


def _divided(X: Any, units: FloatVector, engine: Engine) -> Tall:
    """Divide the columns of rows by units; rows in blocks on a cluster stay there."""
    if issparse(X):
        return cast(Tall, engine.asarray(csr_array(X @ diags_array(1.0 / units))))
    narrow = units.astype(working_type(X))
    # If units underflow in float32, the result is float64.
    units = narrow if (narrow >= np.finfo(narrow.dtype).tiny).all() else units
    if hasattr(X, "entrywise"):
        return cast(Tall, X.entrywise(np.divide, units))
    return cast(Tall, engine.asarray(engine.to_host(X) / units))


def _principal_pairs(
    X: Tall,
    scale: Column,
    mean: FloatVector,
    weights: Column,
    units: FloatVector | float,
    keep: float,
    engine: Engine,
) -> Eigenpairs:
    """Leading eigenpairs of the scatter matrix of columns in their units, by its d x d or n x n form if feasible."""
    n, d = X.shape
    by_count = isinstance(keep, Integral)
    most = max(FEW_COMPONENTS, n // 2) if not by_count and keep < 1.0 else max(n, d)
    out_of_reach = min(n, d) > (SPARSE_SPECTRUM_LIMIT if issparse(X) else FULL_SPECTRUM_LIMIT)
    if (out_of_reach or n < d) and not isinstance(units, float):
        X, mean = _divided(X, units, engine), mean / units
    if out_of_reach:
        most = min(int(keep) if by_count else SKETCH_COMPONENTS, n - 1, d)
        tolerance = EXACT if by_count else SKETCHED
        pairs, variance = _leading_pairs(X, scale, mean, weights, most, tolerance, engine)
    elif n < d:
        # Fewer rows than features: columns are the smaller side, and may be copied to the host.
        root = np.sqrt(spread(engine.to_host(weights), n))[:, None]
        K = engine.scatter(X, scale, mean, weights, between_rows=True)
        rows = range_eigenpairs(K, n, engine.eigh)
        lift = rows.vectors * root / np.sqrt(rows.values)
        basis = engine.cross(X, lift, scale) - np.outer(mean, lift.sum(axis=0))
        pairs, variance = Eigenpairs(rows.values, basis), float(rows.values.sum())
    else:
        scatter = engine.scatter(X, scale, mean, weights) / np.outer(units, units)
        pairs = range_eigenpairs(scatter, n, engine.eigh)
        variance = float(pairs.values.sum())
    shares = np.cumsum(pairs.values) / max(variance, SMALLEST)
    wanted = int(keep) if by_count else int(np.searchsorted(shares, keep * ALL_BUT_ROUNDING)) + 1
    kept = slice(min(wanted, most))
    share, n_kept = float(shares[kept].max(initial=0.0)), len(shares[kept])
    if not by_count and n_kept == most and share < keep * ALL_BUT_ROUNDING:
        warn_caller(
            f"keep={keep!r} asks for that share of the variance of {n} distinct rows x {d} features; the {most} "
            f"leading components were kept, which hold {share:.0%}. Say how many you want, as "
            f"Preparation(keep={most}), or reduce the features beforehand.",
            TruncatedSpectrumWarning,
        )
    return Eigenpairs(pairs.values[kept], pairs.vectors[:, kept])


def _leading_pairs(
    X: Tall, scale: Column, mean: FloatVector, weights: Column, n_pairs: int, tolerance: float, engine: Engine
) -> tuple[Eigenpairs, float]:
    """Return the leading eigenpairs of the scatter matrix by subspace iteration, and its trace.

    Each round is two passes over the rows (Halko, Martinsson, Tropp 2011); sparse rows stay sparse.
    """
    n, d = X.shape
    width = min(n_pairs + SKETCH_SPARE, n, d)
    # A fixed start makes the result the same from run to run.
    basis = np.random.default_rng(0).standard_normal((d, width)) / np.sqrt(d)
    reached = 0.0
    for _ in range(MOST_ROUNDS):
        along = engine.project(X, scale, mean, basis.T)
        # It suffices to centre one side: the mean of the other would be multiplied by a weighted sum that is zero.
        product = engine.cross(along, X, weights * scale).T
        before, reached = reached, float(np.linalg.norm(product))
        basis = _nearly_orthonormal(product)
        if reached - before <= tolerance * reached:
            break
    basis = _nearly_orthonormal(basis)  # to the last digit, since it nearly was already
    along = engine.project(X, scale, mean, basis.T)
    values, vectors = np.linalg.eigh(engine.cross(along, along, weights))
    leading = slice(None, -n_pairs - 1, -1)
    lengths = row_lengths(X, engine) * scale
    trace = total(weights * lengths * lengths, n) - total(weights, n) * float(mean @ mean)
    return Eigenpairs(np.maximum(values[leading], 0.0), basis @ vectors[:, leading]), float(trace)


def _nearly_orthonormal(A: FloatMatrix) -> FloatMatrix:
    """Basis of the columns of a tall matrix, orthonormal to a few digits, which suffices between rounds.

    A Cholesky factor of A'A costs two matrix products, a fifth of the time of Householder reflections.
    """
    with suppress(np.linalg.LinAlgError):
        factor = np.linalg.cholesky(A.T @ A)
        pivots = np.diag(factor)
        if pivots.min() > LEAST_PIVOT * pivots.max():
            return np.asarray(solve_triangular(factor, A.T, lower=True, check_finite=False).T)
    return np.linalg.qr(A)[0]


def _warn_of_zero_rows(norms: Column) -> None:
    n_short = int((norms < SMALLEST).sum())
    if n_short:
        what = "all zero" if n_short == int((norms == 0).sum()) else f"all zero or shorter than {SMALLEST:.1e}"
        warn_caller(
            f"{n_short} distinct row(s) of X are {what} and cannot be scaled to unit length; they stay as they are.",
            ZeroRowWarning,
        )


def warn_of_unlike_units(X: Tall, settings: Preparation, names: Sequence[str] | None) -> None:
    """Warn if one column has nearly all variance and the preparation does not change that.

    Checked on at most 4,096 evenly spaced rows; rows on a device or on a cluster are not checked.
    """
    n, d = X.shape
    if settings.column_scaling == "standard" or d < 2 or not (isinstance(X, np.ndarray) or issparse(X)):
        return
    rows = X[np.unique(np.linspace(0, n - 1, min(n, N_SEEN)).astype(np.int64))]
    if issparse(rows) and d > FULL_SPECTRUM_LIMIT:
        return  # so many sparse columns are counts in one unit
    values = np.asarray(rows.toarray() if issparse(rows) else rows, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # variances of huge numbers overflow
        shares = values.var(axis=0)
        shares /= shares.sum()
        largest = int(shares.argmax())
        if not shares[largest] >= DOMINANT_SHARE:
            return
        # Also of the spread of the middle half of the rows, since outliers are no matter of units.
        low, high = np.quantile(values, [0.25, 0.75], axis=0)
        spreads = (high - low) ** 2
        share = min(shares[largest], spreads[largest] / spreads.sum())
    # If all other columns are constant, there is no unit to differ from.
    if DOMINANT_SHARE <= share < 1.0:
        name = f"x{largest}" if names is None else str(names[largest])
        warn_caller(
            f"Column {name!r} of X has {100 * shares[largest]:.4g} % of the variance of all {d} columns, so that "
            'its unit decides nearly every distance. If columns have unlike units, use preparation="standard", or '
            "AdaAMClustering, which chooses it by itself.",
            UnlikeUnitsWarning,
        )


@dataclass(frozen=True)
class Sample:
    """Prepared rows where the engine works, and how many coincident rows each stands for."""

    X: Tall
    engine_weights: Column
    engine: Engine
    # Sums of squares of the columns, if they are principal components of these very rows.
    spreads: FloatVector | None = None

    @property
    def n_rows(self) -> int:
        """Number of distinct rows."""
        return int(self.X.shape[0])

    @property
    def weights(self) -> FloatVector:
        """Weights as a vector on the host, for learners that work there."""
        return spread(self.engine.to_host(self.engine_weights), self.n_rows)

    @cached_property
    def size(self) -> float:
        """Number of rows, copies counted; cached, since reading a sum from a device waits for it."""
        return float(total(self.engine_weights, self.n_rows))

    @cached_property
    def gram(self) -> FloatMatrix:
        """X'X with copies counted."""
        # The columns of float32 rows are not exactly the principal components.
        if self.spreads is not None and self.X.dtype == np.float64:
            return np.diag(self.spreads)
        return self.engine.cross(self.X, self.X, self.engine_weights)

    @property
    def moments(self) -> FloatMatrix:
        """X'X over the number of rows, copies counted."""
        return self.gram / self.size


def row_weights(sample_weight: Any, n_rows: int, engine: Engine) -> Column:
    """Number of equal rows that each row counts as, by `row_counts`, where the engine works; None means 1."""
    if sample_weight is None:
        return 1.0
    own = engine.own(sample_weight)
    if own is None:
        return engine.asarray(check_weights(sample_weight, n_rows))
    return row_counts(engine.asarray(own), n_rows)


def prepared_sample(
    X: Tall, sample_weight: Any, preparation: Preparation, engine: Engine, *, rows_are_nodes: bool
) -> tuple[LinearMap, Sample]:
    """Learn the preparation and apply it to the distinct rows.

    With `rows_are_nodes`, since the caller gave a graph or an affinity of the rows, none are merged or dropped.
    """
    weights = row_weights(sample_weight, X.shape[0], engine)
    rows = engine.asarray(X)
    if not rows_are_nodes:
        rows, weights = engine.distinct(rows, weights)
    elif not isinstance(weights, float) and (weights == 0).any():
        raise ValueError("sample_weight holds zeros, which would leave nodes of the given graph without a row.")
    prepared = fit_preparation(rows, weights, preparation, engine)
    return prepared, Sample(prepared.apply(rows, engine), weights, engine, prepared.spreads)
