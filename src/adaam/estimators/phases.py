"""The phases of a fit, told to the log and to scikit-learn's callbacks where there are any."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, TypeVar

from adaam.progress import LOGGER, teller

__all__ = ["CallbackSupportMixin", "FitPhases", "fit_phases", "with_callbacks"]

Fit = TypeVar("Fit", bound=Callable[..., Any])

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    _with_callbacks = None


def with_callbacks(fit: Fit) -> Fit:
    """Decorate a `fit` that opens `fit_phases`, so that callbacks end with it, also when it fails."""
    return fit if _with_callbacks is None else _with_callbacks(fit)


class FitPhases:
    """What a fit tells while it runs; called with the name of a phase it gives the context to run it in."""

    def __init__(self, model: Any, context: Any) -> None:
        self._model = model
        self._context = context

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Run one phase: logged with its time, and a task to callbacks."""
        model = self._model
        with _told(f"{type(model).__name__} {name}", model.verbose):
            if self._context is None:
                yield
                return
            task = self._context.subcontext(task_name=name)
            task.call_on_fit_task_begin(estimator=model)
            yield
            task.call_on_fit_task_end(estimator=model)

    def tick(self, name: str) -> None:
        """Tell callbacks of one more step, just done, which tells the log by itself."""
        if self._context is not None:
            task = self._context.subcontext(task_name=name)
            task.call_on_fit_task_begin(estimator=self._model)
            task.call_on_fit_task_end(estimator=self._model)


@contextmanager
def fit_phases(model: Any, n_phases: int, X: Any) -> Iterator[FitPhases]:
    """Open the phases of a fit on checked rows; inside a `fit` decorated by `with_callbacks`.

    What callbacks answer is not asked for: phases are steps of one computation, and stopping between two of them would
    leave no model.
    """
    if _with_callbacks is None:
        yield FitPhases(model, None)
        return
    context = model._init_callback_context(max_subtasks=n_phases)
    context.call_on_fit_task_begin(estimator=model, X=X)
    yield FitPhases(model, context)
    # The model is whole here, so that a copy of it, as it is, can score.
    context.call_on_fit_task_end(estimator=model, X=X, reconstruction_attributes=dict)


@contextmanager
def _told(text: str, verbose: int) -> Iterator[None]:
    """Tell what ran and for how long: with `verbose` as `teller` does, else at level DEBUG, beginnings there always."""
    LOGGER.debug("%s ...", text)
    start, tell = perf_counter(), teller(verbose)
    yield
    if verbose:
        tell(text)
    else:
        LOGGER.debug("%s (%.1f s)", text, perf_counter() - start)
