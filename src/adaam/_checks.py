"""Checks whose messages name the parameter, its value, the fact that stops it and the way out."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_array

from adaam._typing import FloatVector
from adaam.array_api import on_host


def check_whole(name: str, value: Any, *, at_least: int = 1) -> int:
    """Return a whole number that is at least `at_least`."""
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
    """Raise where a class was passed in place of one of its objects."""
    if isinstance(value, type):
        raise TypeError(f"{name}={value.__name__} is a class; pass one of its objects, {value.__name__}().")


def check_verbose(verbose: Any) -> int:
    """Return how much to tell; True and False are 1 and 0."""
    return int(verbose) if isinstance(verbose, bool | np.bool_) else check_whole("verbose", verbose, at_least=0)


def check_weights(sample_weight: Any, n_samples: int) -> FloatVector:
    """Return one non-negative weight a row on the host; None means 1 each."""
    if sample_weight is None:
        return np.ones(n_samples)
    if isinstance(sample_weight, str):
        raise ValueError(f"sample_weight={sample_weight!r} is a str: pass one weight a row.")
    weights = check_array(
        on_host(sample_weight), ensure_2d=False, dtype=np.float64, input_name="sample_weight", accept_sparse=False
    )
    check_counts(weights, n_samples)
    return np.asarray(weights)


def check_counts(weights: Any, n_samples: int) -> None:
    """Raise unless an array of any kind holds one finite, non-negative weight a row, not all of them zero."""
    shape = tuple(weights.shape)
    if shape != (n_samples,):
        raise ValueError(f"sample_weight has shape {shape}, but X has {n_samples} rows: pass one weight a row.")
    least, size = float(weights.min()), float(weights.sum())
    if least < 0:
        raise ValueError(f"sample_weight holds {least}, and a row cannot count fewer than 0 times. Use weights >= 0.")
    if not np.isfinite(size):
        raise ValueError("sample_weight contains NaN or infinity. Use finite weights >= 0.")
    if size == 0:
        raise ValueError("sample_weight is zero for every row, so no row is left to learn from.")
