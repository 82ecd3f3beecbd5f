"""Warnings that name the caller's own line, however deep in the library they arise."""

import inspect
import warnings

# Frames of the library, and those that scikit-learn and joblib put around its methods.
INNER = ("adaam", "sklearn", "joblib")


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line that called into the library."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in INNER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
