"""What displays share: their base class, matplotlib axes, and the check of the model."""

from abc import ABC, abstractmethod
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from adaam.estimators import LinearMetric


def axes_for(display: Any, ax: Any, width: float = 6.0, height: float = 4.0) -> Any:
    """Return the given axes or those of a new figure; axes and figure are stored in the display."""
    if ax is None:
        try:
            from matplotlib import pyplot as plt
        except ImportError as error:
            raise ImportError(
                f"{type(display).__name__}.plot needs matplotlib. Install it with: pip install adaam[plot]"
            ) from error
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    display.ax_, display.figure_ = ax, ax.figure
    return ax


class Display(ABC):
    """Base class of displays that draw one pair of axes."""

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the display and return it.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        **kwargs
            Passed to matplotlib: to `plot` for lines, to `barh` for bars, to `stairs` for histograms.
        """
        self._draw(axes_for(self, ax), kwargs)
        return self

    @abstractmethod
    def _draw(self, ax: Any, style: dict[str, Any]) -> None:
        """Draw in these axes; `style` overrides the display's own settings."""


class ModelDisplay(Display):
    """Base class of displays that only need a fitted model."""

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the display of a fitted model and return it.

        Parameters
        ----------
        estimator : LinearMetric
            A fitted learner or clusterer; one that has nothing to draw raises an error with the reason.
        ax, **kwargs
            Passed to `plot`.
        """
        return cls._of(fitted_metric(estimator)).plot(ax=ax, **kwargs)

    @classmethod
    @abstractmethod
    def _of(cls, model: Any) -> Self:
        """Make the display from a fitted model."""


def fitted_metric(model: Any) -> LinearMetric:
    """Return the model if it is a fitted linear metric; raise otherwise."""
    if not isinstance(model, LinearMetric):
        raise TypeError(
            f"estimator={model!r} is a {type(model).__name__}, which has no linear map to look at. "
            "Use AdaAM, LPP, PCAN or AdaAMClustering."
        )
    check_is_fitted(model)
    return model
