"""Input validation: parameters, weights, rows, and arrays of other libraries under `array_api_dispatch`.

Errors and warnings name the parameter, its value, the problem and the remedy.
"""

import inspect
import sys
import warnings
from collections.abc import Callable
from functools import partial, wraps
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.utils.validation import check_array, validate_data

from adaam._typing import FloatVector, HostRows

Method = TypeVar("Method", bound=Callable[..., Any])

# Most rows that float64 counts exactly.
MOST_ROWS = 2.0**53

# Rows with less than this share of all weight are left out.
LEAST_SHARE = 1e-14

# Relative rounding error allowed in a sum of equal weights.
ROUNDING = 1e-12

# Largest length of a row that can be scaled to unit length.
LARGEST = 1e307

# Magnitudes between these can be squared and summed over many rows and features; by precision.
SQUARABLE = {np.dtype(np.float32): (1e-15, 1e15), np.dtype(np.float64): (1e-140, 1e140)}

CACHED_NUMBERS = 1 << 15  # in a block of a pass over rows, so that it fits into cache

# Packages whose stack frames are skipped to find the caller: the library, and those that wrap its methods.
INNER = ("adaam", "sklearn", "joblib")


def check_whole(name: str, value: Any, *, at_least: int = 1) -> int:
    """Return an integer that is at least `at_least`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; it must be a whole number >= {at_least}.")
    if value < at_least:
        raise ValueError(f"{name}={value} is too small; use {name} >= {at_least}.")
    return int(value)


def check_number(name: str, value: Any, *, above: float, up_to: float = np.inf) -> float:
    """Return a number in (above, up_to]."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; it must be a number above {above:g}.")
    number = float(value)
    if not above < number <= up_to:
        limit = "" if up_to == np.inf else f" and at most {up_to:g}"
        raise ValueError(f"{name}={value} is out of range; it must be above {above:g}{limit}.")
    return number


def check_word(name: str, value: Any, words: tuple[str, ...]) -> str:
    """Return one of the words."""
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{name}={value!r} is not known; use one of {', '.join(map(repr, words))}.")
    return value


def check_kind(name: str, value: Any, kind: type, shown: str) -> Any:
    """Return a settings object of the expected class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; use {shown}.")
    return value


def check_object(name: str, value: Any) -> None:
    """Raise if a class was passed in place of an instance."""
    if isinstance(value, type):
        raise TypeError(f"{name}={value.__name__} is a class; pass one of its objects, {value.__name__}().")


def check_clusters(n_clusters: int, n_samples: int) -> None:
    """Raise if there are more clusters than rows."""
    if n_clusters > n_samples:
        raise ValueError(f"n_clusters={n_clusters} exceeds n_samples={n_samples}. Use n_clusters <= {n_samples}.")


def check_components(n_components: Any, default: int, rank: int) -> int:
    """Return the number of components; the default is limited to the rank, an explicit number above it raises."""
    if n_components is None:
        return min(default, rank)
    wanted = check_whole("n_components", n_components)
    if wanted > rank:
        raise ValueError(
            f"n_components={wanted} exceeds the rank {rank} of the prepared rows. Use n_components <= {rank}, or None."
        )
    return wanted


def check_weights(sample_weight: Any, n_samples: int) -> FloatVector:
    """Return how many rows each row counts as, on the host."""
    if isinstance(sample_weight, str):
        raise ValueError(f"sample_weight={sample_weight!r} is a str: pass one weight a row.")
    weights = check_array(
        on_host(sample_weight), ensure_2d=False, dtype=np.float64, input_name="sample_weight", accept_sparse=False
    )
    return np.asarray(row_counts(weights, n_samples))


def row_counts(weights: Any, n_samples: int) -> Any:
    """Return how many equal rows each row counts as, from an array of weights of any kind.

    Weights are counts, integer or fractional. Weights that sum to less than the number of rows of positive weight, such
    as those that sum to 1, are relative instead, and are scaled to a mean of 1 over these rows. A row with less than
    1e-14 of all weight would be lost in the rounding of sums over rows, and is left out.
    """
    shape = tuple(weights.shape)
    if shape != (n_samples,):
        raise ValueError(f"sample_weight has shape {shape}, but X has {n_samples} rows: pass one weight a row.")
    least, most = float(weights.min()), float(weights.max())
    if least < 0:
        raise ValueError(f"sample_weight holds {least}, and a row cannot count fewer than 0 times. Use weights >= 0.")
    # Comparisons may miss a NaN; the sum does not, and weights up to the limit cannot overflow it.
    total = float(weights.sum()) if most <= MOST_ROWS else most
    if not np.isfinite(total):
        raise ValueError("sample_weight contains NaN or infinity. Use finite weights >= 0.")
    if total > MOST_ROWS:
        raise ValueError(
            f"sample_weight sums to {total:.3g} or more. A row of weight w counts as w equal rows, and no more than "
            f"2**53 rows can be counted. Divide the weights by their mean, {total / n_samples:.3g} or more, to make "
            "them relative."
        )
    if most == 0:
        raise ValueError("sample_weight is zero for every row, so no row is left to learn from.")
    n_present = int((weights > 0).sum())
    if total >= n_present:
        return weights if least >= LEAST_SHARE * total else weights * (weights >= LEAST_SHARE * total)
    relative = weights / most
    sum_of_relative = float(relative.sum())
    if n_present - sum_of_relative <= n_present * ROUNDING:  # all equal: treated as unweighted
        return (weights > 0) * 1.0
    return relative * (relative >= LEAST_SHARE * sum_of_relative) * (n_present / sum_of_relative)


def host_rows(model: Any, X: Any, *, reset: bool) -> tuple[HostRows, float]:
    """Validate rows on the host, dense or sparse, by scikit-learn's checks; a fit, which resets, needs two or more.

    Also returns their largest magnitude, which is finite only if all numbers are: one pass for both.
    """
    validated = partial(
        validate_data,
        model,
        on_host(X),
        reset=reset,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_min_samples=2 if reset else 1,
    )
    rows = validated(ensure_all_finite=False)
    largest = largest_magnitude(rows)
    if not np.isfinite(largest):
        validated()  # raises scikit-learn's error
    return widened(rows, largest), largest


def widened(X: HostRows, largest: float) -> HostRows:
    """Convert float32 host rows to float64 if their squares leave the range of float32; return others as they are."""
    if X.dtype != np.float32:
        return X
    least, most = SQUARABLE[X.dtype]
    # No row is longer than the largest number times the root of the number of features.
    return X if least <= largest <= most / np.sqrt(X.shape[1]) else X.astype(np.float64)


def largest_magnitude(X: HostRows) -> float:
    """Largest magnitude in dense or sparse host rows; NaN if one is NaN, 0 if there are none."""
    values = X.data if issparse(X) else X.T if X.flags.f_contiguous else X
    if not values.size:
        return 0.0
    # Blocks that fit into cache, since each is read twice.
    step = max(1, CACHED_NUMBERS * len(values) // values.size)
    blocks = (values[start : start + step] for start in range(0, len(values), step))
    return float(np.max([(block.max(), -block.min()) for block in blocks]))


def check_magnitude(name: str, largest: float, dtype: Any, *, learning: bool) -> None:
    """Raise if squares of rows would overflow or, with `learning`, if all of them would underflow."""
    least, most = SQUARABLE[np.dtype(dtype)]
    vanish = learning and 0.0 < largest < least
    if largest <= most and not vanish:
        return
    fact, known = "vanish" if vanish else "overflow", min(largest, LARGEST)
    wider = " Convert them to float64, or m" if np.dtype(dtype) == np.float32 else " M"
    raise ValueError(
        f"{name} holds magnitudes up to {known:.2g}, and sums of squares of such values {fact} in {np.dtype(dtype)}."
        f"{wider}ultiply all of them by {1.0 / known:.0e}, which multiplies learned distances by the same factor."
    )


def check_lengths(name: str, largest: float, *, learning: bool = False) -> None:
    """Raise if a row is too long to be scaled to unit length or, with `learning`, if all are too short."""
    if not largest <= LARGEST:
        raise ValueError(
            f"{name} holds a row whose length overflows in float64, so that it cannot be scaled to unit length. "
            "Multiply all rows by 0.01, which does not change their directions."
        )
    if learning and 0.0 < largest < np.finfo(np.float64).tiny:
        raise ValueError(
            f"{name} holds rows of lengths up to {largest:.2g}, too short for float64 to tell their directions. "
            "Multiply the rows by a large number before they are rounded, which does not change their directions."
        )


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to the line that called into the library."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in INNER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def in_kind(method: Method) -> Method:
    """Decorate a method of one array: pass it NumPy, and convert its result back to the kind of array that came in.

    Arrays that the estimator's engine works on are passed through unchanged.
    """

    @wraps(method)
    def wrapped(self: Any, X: Any, *given: Any, **named: Any) -> Any:
        if not is_foreign(X) or (hasattr(self, "_engine") and self._engine().own(X) is not None):
            return method(self, X, *given, **named)
        Z = method(self, on_host(X), *given, **named)
        namespace = sys.modules["torch"] if _is_tensor(X) else X.__array_namespace__()
        return namespace.asarray(Z, device=X.device) if isinstance(Z, np.ndarray) else Z

    return wrapped  # type: ignore[return-value]


def is_foreign(X: Any) -> bool:
    """Whether X is an array of another library and the user asked for such arrays to be kept."""
    if not get_config()["array_api_dispatch"] or isinstance(X, np.ndarray | np.generic):
        return False
    return _is_tensor(X) or hasattr(X, "__array_namespace__")


def on_host(X: Any) -> Any:
    """Return a foreign array as NumPy, without a copy where its memory allows; anything else as it is."""
    if not is_foreign(X):
        if _is_tensor(X) and X.device.type != "cpu":
            raise TypeError(
                f"X is a tensor on {X.device}, which this engine does not read. "
                'Use engine="gpu" to work there, or pass X.cpu().'
            )
        return X
    if _is_tensor(X):
        return X.detach().cpu().numpy()
    try:
        return np.from_dlpack(X)
    except (BufferError, RuntimeError, TypeError, ValueError):
        # Arrays that are read-only, or on a device that NumPy cannot reach, are copied by their own library.
        return X.get() if hasattr(X, "get") else np.asarray(X)


def _is_tensor(X: Any) -> bool:
    """Whether X is a PyTorch tensor, which has no `__array_namespace__`; does not import PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, torch.Tensor)
