"""Arrays of other libraries under `array_api_dispatch`: brought to NumPy at the door, results given back in kind."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from sklearn import get_config

Method = TypeVar("Method", bound=Callable[..., Any])


def in_kind(method: Method) -> Method:
    """Let a method of one array see NumPy, and give its answer back as the kind of array that came in.

    Arrays that the estimator's engine takes as they are go through untouched.
    """

    @wraps(method)
    def wrapped(self: Any, X: Any, *given: Any, **named: Any) -> Any:
        if not is_foreign(X) or (hasattr(self, "_engine") and self._engine().accepts(X)):
            return method(self, X, *given, **named)
        return like_input(method(self, on_host(X), *given, **named), X)

    return wrapped  # type: ignore[return-value]


def is_foreign(X: Any) -> bool:
    """Whether X is an array of another library and the user asked for such arrays to be kept."""
    if not get_config()["array_api_dispatch"] or isinstance(X, np.ndarray | np.generic):
        return False
    return _is_tensor(X) or hasattr(X, "__array_namespace__")


def on_host(X: Any) -> Any:
    """Return a foreign array as NumPy, without a copy where its memory allows; anything else as it is."""
    if not is_foreign(X):
        return X
    if _is_tensor(X):
        return X.detach().cpu().numpy()
    try:
        return np.from_dlpack(X)
    except (BufferError, RuntimeError, TypeError, ValueError):
        # Arrays that are read-only, or on a device that NumPy cannot reach, are copied by their own library.
        return X.get() if hasattr(X, "get") else np.asarray(X)


def like_input(Z: Any, X: Any) -> Any:
    """Return a NumPy result as the kind of array that X is, on its device, where X is foreign; else as it is."""
    if not is_foreign(X) or not isinstance(Z, np.ndarray):
        return Z
    namespace = sys.modules["torch"] if _is_tensor(X) else X.__array_namespace__()
    return namespace.asarray(Z, device=X.device)


def _is_tensor(X: Any) -> bool:
    """Whether X is a PyTorch tensor, which names no namespace of its own; told without loading PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(X, torch.Tensor)
