"""What each input feature contributes to the metric, or to one distance."""

from typing import Any, Self

import numpy as np

from adaam._checks import check_whole
from adaam.displays.axes import axes_for, check_image_shape, fitted_metric
from adaam.estimators import LinearMetric
from adaam.metric import FeatureContributions


class ContributionsDisplay:
    """Shares of the squared distance by feature, largest first, as bars or as an image.

    Parameters
    ----------
    contributions : FeatureContributions
        What `explain` returns.
    image_shape : tuple of two ints, default=None
        Shape of the image a row draws; None means bars.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    bars_ or image_
        The matplotlib bars, or the image.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from adaam import AdaAM
    >>> from adaam.displays import ContributionsDisplay
    >>> X = load_wine(as_frame=True).data
    >>> display = ContributionsDisplay.from_estimator(AdaAM(3, n_neighbors=12, preparation="standard").fit(X))
    >>> len(display.contributions.share)
    13
    """

    def __init__(self, contributions: FeatureContributions, *, image_shape: tuple[int, int] | None = None) -> None:
        self.contributions = contributions
        self.image_shape = image_shape

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        a: Any = None,
        b: Any = None,
        *,
        image_shape: tuple[int, int] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Explain a fitted learner and draw the answer.

        Parameters
        ----------
        estimator : LinearMetric
            A fitted learner or clusterer.
        a, b : array-like of shape (n_features,), default=None
            Two rows whose distance is explained; without them, the mean squared distance between training rows.
        image_shape : tuple of two ints, default=None
            Shape of the image a row draws; None means bars.
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        ContributionsDisplay
            The display, drawn.
        """
        # Of a clusterer too the metric is explained here, not its clusters.
        explained = LinearMetric.explain(fitted_metric(estimator), a, b)
        check_image_shape(image_shape, len(explained.share), "or None")
        return cls(explained, image_shape=image_shape).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, n_features: int = 15, **kwargs: Any) -> Self:
        """Draw the shares.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        n_features : int, default=15
            Bars drawn at most, largest share first.
        **kwargs
            Passed to matplotlib's `barh` or `imshow`.

        Returns
        -------
        ContributionsDisplay
            The display itself.
        """
        check_whole("n_features", n_features)
        percent = 100.0 * np.asarray(self.contributions.share, dtype=np.float64)
        if self.image_shape is not None:
            ax = axes_for(self, ax, 4.6, 4.0)
            limit = np.abs(percent).max() or 1.0
            style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit} | kwargs
            self.image_ = ax.imshow(percent.reshape(self.image_shape), **style)
            ax.figure.colorbar(self.image_, ax=ax, label="share of squared distance (%)", shrink=0.85)
            ax.set(xticks=[], yticks=[])
            return self
        top = self.contributions.top(n_features)
        ax = axes_for(self, ax, 6.0, 0.9 + 0.27 * len(top))
        self.bars_ = ax.barh(np.arange(len(top)), [100.0 * share for _, share in top], **kwargs)
        ax.set_yticks(np.arange(len(top)), [name for name, _ in top])
        ax.invert_yaxis()
        ax.set_xlabel("share of squared distance (%)")
        return self
