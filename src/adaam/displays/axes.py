"""The displays' door to matplotlib, and what they share of scikit-learn's models."""

from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from adaam.estimators import LinearMetric


def axes_for(display: Any, ax: Any, width: float = 6.0, height: float = 4.0) -> Any:
    """Return the axes to draw in: the caller's, or those of a new figure; the display keeps both."""
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


class Display:
    """A display of what a fitted model keeps, whose drawing is one call of matplotlib."""

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw what a fitted model keeps and return the display.

        Parameters
        ----------
        estimator : LinearMetric
            A fitted learner or clusterer; one that keeps nothing to draw is refused with the reason.
        ax, **kwargs
            Passed to `plot`.
        """
        return cls._of(fitted_metric(estimator)).plot(ax=ax, **kwargs)

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

    @classmethod
    def _of(cls, model: Any) -> Self:
        """Make the display from a fitted model."""
        raise NotImplementedError

    def _draw(self, ax: Any, style: dict[str, Any]) -> None:
        """Draw in these axes; `style` goes before the display's own settings."""
        raise NotImplementedError


def fitted_metric(model: Any) -> LinearMetric:
    """Check that a display can look at the model: a fitted linear metric."""
    if not isinstance(model, LinearMetric):
        raise TypeError(
            f"estimator={model!r} is a {type(model).__name__}, which has no linear map to look at. "
            "Use AdaAM, LPP, PCAN or AdaAMClustering."
        )
    check_is_fitted(model)
    return model
