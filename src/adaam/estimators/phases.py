"""Phases of a fit, reported to the log and to scikit-learn's callbacks, if any."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from adaam._checks import check_whole
from adaam.engines import CPUEngine, resolve_engine
from adaam.engines.blocks import held_threads
from adaam.linalg import ONE_THREAD_SIZE
from adaam.progress import LOGGER, Teller

__all__ = ["CallbackSupportMixin", "FitPhases", "fit_phases", "teller", "with_callbacks"]

Fit = TypeVar("Fit", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Empty stand-in: this version has no callbacks."""

    _with_callbacks = None


def with_callbacks(fit: Fit) -> Fit:
    """Decorate a `fit` that opens `fit_phases`, so that callbacks end with it, even if it fails."""
    return fit if _with_callbacks is None else _with_callbacks(fit)


class FitPhases:
    """Progress of a running fit; calling it with the name of a phase returns the context manager to run it in."""

    def __init__(self, model: Any, context: Any) -> None:
        self._model = model
        self._context = context
        self._tell = teller(model.verbose)

    @contextmanager
    def __call__(self, name: str, n_steps: int = 0, learner: Any = None) -> Iterator["FitPhases"]:
        """Run one phase of at most `n_steps` steps, logged with its time and reported to callbacks as a task.

        If the phase is the fit of another model, the `learner`, callbacks see the phases of that.
        """
        text, tell = f"{type(self._model).__name__} {name}", teller(self._model.verbose)
        LOGGER.debug("%s ...", text)
        with self._task(name, n_steps, learner) as task:
            yield FitPhases(self._model, task)
        tell(text)

    def step(self, name: str, found: str = "") -> None:
        """Report a finished step to the log and to callbacks; `found` is only appended to the log line."""
        self._tell(f"{type(self._model).__name__} {name}{found}")
        with self._task(name, 0):
            pass

    @contextmanager
    def _task(self, name: str, n_steps: int, learner: Any = None) -> Iterator[Any]:
        if self._context is None:
            yield None
            return
        task = self._context.subcontext(task_name=name, max_subtasks=n_steps)
        with task.propagate_callback_context(learner) if hasattr(learner, "set_callbacks") else nullcontext():
            task.call_on_fit_task_begin(estimator=self._model)
            yield task
        task.call_on_fit_task_end(estimator=self._model)


@contextmanager
def fit_phases(model: Any, n_phases: int, X: Any) -> Iterator[FitPhases]:
    """Open the phases of a fit on validated rows; for use inside a `fit` decorated by `with_callbacks`.

    Requests of callbacks to stop are ignored: phases are steps of one computation, and stopping between two of them
    would leave no model.
    """
    if not isinstance(model.verbose, bool | np.bool_):  # True and False are 1 and 0
        check_whole("verbose", model.verbose, at_least=0)
    # If products are small, BLAS is kept to one thread, so that its threads do not disturb the row blocks.
    small = X is not None and min(X.shape) <= ONE_THREAD_SIZE
    with held_threads() if small and isinstance(resolve_engine(model.engine), CPUEngine) else nullcontext():
        if _with_callbacks is None:
            yield FitPhases(model, None)
            return
        context = model._init_callback_context(max_subtasks=n_phases)
        context.call_on_fit_task_begin(estimator=model, X=X)
        yield FitPhases(model, context)
        # The model is complete here, so a plain copy of it can score.
        context.call_on_fit_task_end(estimator=model, X=X, reconstruction_attributes=dict)


def teller(verbose: int, pause: float = 0.0) -> Teller:
    """Return a function that logs a line of text with the seconds since the previous line.

    Lines go to the logger "adaam": at level DEBUG, or with `verbose` at level INFO. If no handler would show the
    latter, they are written to standard error, so that `verbose` always has an effect. No handler is added to the
    logger. A line within `pause` seconds of the previous one is dropped.
    """
    last = perf_counter()

    def tell(text: str) -> None:
        nonlocal last
        now = perf_counter()
        if now - last < pause:
            return
        line, last = f"{text} ({now - last:.1f} s)", now
        level = logging.INFO if verbose else logging.DEBUG
        if verbose and not (LOGGER.isEnabledFor(level) and LOGGER.hasHandlers()):
            logging.StreamHandler().handle(logging.makeLogRecord({"msg": line}))
        else:
            LOGGER.log(level, "%s", line)

    return tell
