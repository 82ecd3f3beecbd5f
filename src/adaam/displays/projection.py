"""Rows in the learned metric, as a scatter plot."""

from typing import Any, Self

import numpy as np

from adaam._checks import check_whole
from adaam._typing import FloatMatrix
from adaam.cluster_report.layout import discriminant_plane
from adaam.displays.axes import axes_for, fitted_metric
from adaam.palette import cluster_color

MAX_POINTS = 20_000  # more would hide one another
MAX_LEGEND = 20


class ProjectionDisplay:
    """Rows in two dimensions of the learned space.

    Parameters
    ----------
    points : ndarray of shape (n_samples, 2)
        Where each row is drawn.
    labels : ndarray of shape (n_samples,), default=None
        What rows are coloured by.
    axis_names : tuple of two str, default=("", "")
        What the two directions are.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    scatter_ : list
        One matplotlib collection a label, in the order of the sorted labels.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAMClustering
    >>> from adaam.displays import ProjectionDisplay
    >>> X, _ = load_digits(return_X_y=True)
    >>> display = ProjectionDisplay.from_estimator(AdaAMClustering(10).fit(X), X)
    >>> display.points.shape
    (1797, 2)
    """

    def __init__(self, points: FloatMatrix, *, labels: Any = None, axis_names: tuple[str, str] = ("", "")) -> None:
        self.points = points
        self.labels = labels
        self.axis_names = axis_names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        labels: Any = None,
        components: tuple[int, int] | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Map rows, draw them and return the display.

        Parameters
        ----------
        estimator : LinearMetric
            A fitted learner or clusterer.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to draw.
        labels : array-like of shape (n_samples,), default=None
            What to colour rows by; None means the estimator's own clusters where it predicts them.
        components : tuple of two ints, default=None
            Which two components to draw. None means the plane in which the rows, or the means of more than two
            labels, spread most: distances in it are the learned ones, seen from the best side.
        ax, **kwargs
            Passed to `plot`.
        """
        model = fitted_metric(estimator)
        Z = np.asarray(model._engine().to_host(model._map().apply(model._rows(X, reset=False), model._engine())))
        if labels is None and hasattr(model, "predict"):
            labels = model.predict(X)
        labels = None if labels is None else np.asarray(labels)
        if labels is not None and labels.shape != (len(Z),):
            raise ValueError(f"labels has shape {labels.shape}, but X has {len(Z)} rows: pass one label a row.")
        points, names = _plane(Z, labels) if components is None else _pair(Z, components)
        return cls(points, labels=labels, axis_names=names).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, max_points: int = MAX_POINTS, legend: bool = True, **kwargs: Any) -> Self:
        """Draw the rows and return the display.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        max_points : int, default=20000
            Rows drawn at most; more are thinned out evenly at random, the same each time.
        legend : bool, default=True
            Whether labels are named beside the rows, where there are no more than twenty.
        **kwargs
            Passed to matplotlib's `scatter`.
        """
        check_whole("max_points", max_points)
        ax = axes_for(self, ax, 5.6, 4.6)
        shown = np.random.default_rng(0).permutation(len(self.points))[:max_points]
        style = {"s": 60 / np.log10(len(shown) + 10), "alpha": 0.7, "linewidths": 0} | kwargs
        if self.labels is None:
            self.scatter_ = [ax.scatter(*self.points[shown].T, **style)]
        else:
            self.scatter_ = self._draw_labels(ax, shown, style, legend)
        ax.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        return self

    def _draw_labels(self, ax: Any, shown: Any, style: dict[str, Any], legend: bool) -> list[Any]:
        names = np.unique(self.labels)
        # Numbers of clusters keep their colours in every picture; other labels take colours in their order.
        numbers = names if np.issubdtype(names.dtype, np.integer) else np.arange(len(names))
        drawn = []
        for place, name in enumerate(names):
            members = shown[self.labels[shown] == name]
            colour = {"color": cluster_color(int(numbers[place]))} | style
            drawn.append(ax.scatter(*self.points[members].T, label=str(name), **colour))
        if legend and len(names) <= MAX_LEGEND:
            ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False, markerscale=1.4)
        return drawn


def _plane(Z: FloatMatrix, labels: Any) -> tuple[FloatMatrix, tuple[str, str]]:
    """Rows in the plane of largest spread of the label means, or of the rows."""
    groups = np.zeros(len(Z), dtype=int) if labels is None else np.unique(labels, return_inverse=True)[1]
    of = "label means" if len(np.unique(groups)) > 2 else "rows"
    return discriminant_plane(Z, groups), (f"widest direction of the {of}", "next widest")


def _pair(Z: FloatMatrix, components: Any) -> tuple[FloatMatrix, tuple[str, str]]:
    if np.shape(components) != (2,) or not all(number in range(Z.shape[1]) for number in components):
        raise ValueError(f"components={components!r} must name two of the components 0..{Z.shape[1] - 1}.")
    first, second = components
    return Z[:, [first, second]], (f"component {first}", f"component {second}")
