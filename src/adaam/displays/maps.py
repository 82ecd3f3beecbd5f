"""Displays of the learned map: rows, components, eigenvalues, and contributions of the input features."""

from math import isqrt
from typing import Any, Self, cast

import numpy as np

from adaam._checks import check_whole
from adaam._typing import FloatMatrix, FloatVector
from adaam.cluster_report.layout import discriminant_plane
from adaam.displays.axes import ModelDisplay, axes_for, fitted_metric
from adaam.estimators import LinearMetric
from adaam.estimators.linear_metric import feature_names
from adaam.metric import FeatureContributions
from adaam.palette import cluster_color

MAX_POINTS = 20_000  # more would hide one another
MAX_LEGEND = 20
# Least number of features, a square number, to take for an image; fewer are more often a table.
SMALLEST_IMAGE = 64
N_COLUMNS = 5


class ProjectionDisplay:
    """Rows in two dimensions of the learned space.

    Parameters
    ----------
    points : ndarray of shape (n_samples, 2)
        Position of each row.
    labels : ndarray of shape (n_samples,), default=None
        Labels to colour rows by.
    axis_names : tuple of two str, default=("", "")
        Names of the two axes.

    Attributes
    ----------
    ax_, figure_, scatter_
        Axes and figure of the display, and a matplotlib collection for each label, in the order of the sorted labels.

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
            Labels to colour rows by; None means the clusters predicted by the estimator, if it has `predict`.
        components : tuple of two ints, default=None
            Two components to draw. None means the plane of largest variance of the rows or, with more than two
            labels, of the label means. It is an orthogonal projection of the learned space.
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
            Maximum number of rows drawn; of more, a random sample that is always the same.
        legend : bool, default=True
            Whether to draw a legend, if there are no more than twenty labels.
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
        # Integer labels have the same colours in every figure; other labels get colours in sorted order.
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
    """Return the rows in the plane of largest variance of the label means, or of the rows, and names of its axes."""
    groups = np.zeros(len(Z), dtype=int) if labels is None else np.unique(labels, return_inverse=True)[1]
    of = "label means" if len(np.unique(groups)) > 2 else "rows"
    return discriminant_plane(Z, groups), (f"widest direction of the {of}", "next widest")


def _pair(Z: FloatMatrix, components: Any) -> tuple[FloatMatrix, tuple[str, str]]:
    if np.shape(components) != (2,) or not all(number in range(Z.shape[1]) for number in components):
        raise ValueError(f"components={components!r} must name two of the components 0..{Z.shape[1] - 1}.")
    first, second = components
    return Z[:, [first, second]], (f"component {first}", f"component {second}")


class ComponentsDisplay:
    """Weights of the input features in each component.

    If rows are images, components are drawn as images: red for pixels that increase the component when brighter, blue
    for those that decrease it. Otherwise the largest weights are drawn as bars with the names of their features.

    Parameters
    ----------
    components : ndarray of shape (n_components, n_features)
        Weights.
    names : sequence of str
        Names of the features.
    image_shape : tuple of two ints, default=None
        Shape of a row as an image; None means bars.

    Attributes
    ----------
    ax_, figure_, axes_
        Axes and figure of the display, and the axes of each component inside `ax_`.
    """

    def __init__(self, components: FloatMatrix, names: Any, *, image_shape: tuple[int, int] | None = None) -> None:
        self.components = components
        self.names = names
        self.image_shape = image_shape

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        image_shape: tuple[int, int] | str | None = "auto",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the components of a fitted learner and return the display.

        Parameters
        ----------
        estimator : LinearMetric
            A fitted learner or clusterer.
        image_shape : tuple of two ints, "auto" or None, default="auto"
            Shape of a row as an image. "auto" means a square image if the number of features is a square of 64 or more
            and they have no names, bars otherwise; None means bars.
        ax, **kwargs
            Passed to `plot`.
        """
        model = fitted_metric(estimator)
        components = np.asarray(model.components_)
        shape = _square(model) if image_shape == "auto" else image_shape
        check_image_shape(shape, components.shape[1], '"auto" or None')
        return cls(components, list(feature_names(model)), image_shape=cast(Any, shape)).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, n_components: int = 10, n_features: int = 8) -> Self:
        """Draw the components and return the display.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        n_components : int, default=10
            Maximum number of components drawn, from the first on.
        n_features : int, default=8
            Maximum number of bars for each component, largest magnitude first.
        """
        shown = self.components[: check_whole("n_components", n_components)]
        check_whole("n_features", n_features)
        n_columns = min(len(shown), N_COLUMNS if self.image_shape else 2)
        n_rows = -(-len(shown) // n_columns)
        cell = (1.6, 1.7) if self.image_shape else (4.0, 0.6 + 0.25 * min(n_features, shown.shape[1]))
        ax = axes_for(self, ax, n_columns * cell[0], n_rows * cell[1])
        ax.set_axis_off()
        self.axes_ = np.array(
            [ax.inset_axes(_cell(i, n_rows, n_columns, self.image_shape is not None)) for i in range(len(shown))]
        )
        for number, (inner, component) in enumerate(zip(self.axes_, shown, strict=True)):
            if self.image_shape:
                _draw_image(inner, component.reshape(self.image_shape))
            else:
                strongest = np.argsort(-np.abs(component), kind="stable")[:n_features]
                colours = ["tab:red" if component[j] > 0 else "tab:blue" for j in strongest]
                _draw_bars(inner, [_short(self.names[j]) for j in strongest], component[strongest], color=colours)
                inner.axvline(0.0, color="0.5", linewidth=0.8)
                inner.tick_params(labelsize=8)
            inner.set_title(f"component {number}", fontsize=9)
        return self


def check_image_shape(image_shape: Any, n_features: int, otherwise: str) -> None:
    """Raise if an image shape does not fit the number of features; None always does."""
    if image_shape is None:
        return
    if isinstance(image_shape, str) or np.shape(image_shape) != (2,) or np.prod(image_shape) != n_features:
        raise ValueError(
            f"image_shape={image_shape!r} does not fit {n_features} features. "
            f"Use (rows, columns) whose product is that number, {otherwise}."
        )


def _square(model: Any) -> tuple[int, int] | None:
    side = isqrt(model.n_features_in_)
    nameless = not hasattr(model, "feature_names_in_")
    return (side, side) if nameless and side * side == model.n_features_in_ >= SMALLEST_IMAGE else None


def _cell(number: int, n_rows: int, n_columns: int, image: bool) -> tuple[float, float, float, float]:
    """Position of a component's axes inside those of the display, with room for a title and, beside bars, names."""
    width, height = 1.0 / n_columns, 1.0 / n_rows
    row, column = divmod(number, n_columns)
    left, bottom = column * width, 1.0 - (row + 1) * height
    margin = (0.06, 0.88) if image else (0.36, 0.60)
    return left + margin[0] * width, bottom + 0.1 * height, margin[1] * width, 0.74 * height


def _draw_image(ax: Any, image: FloatMatrix, **style: Any) -> Any:
    # White stands for weight zero, so the colour scale is symmetric.
    limit = np.abs(image).max() or 1.0
    ax.set(xticks=[], yticks=[])
    return ax.imshow(image, **({"cmap": "RdBu_r", "vmin": -limit, "vmax": limit} | style))


def _draw_bars(ax: Any, names: Any, lengths: Any, **style: Any) -> Any:
    places = np.arange(len(names))
    ax.set_yticks(places, names)
    ax.invert_yaxis()
    return ax.barh(places, lengths, **style)


def _short(name: str, length: int = 24) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


class EigenvalueDisplay(ModelDisplay):
    """Eigenvalues of the learned components, ascending: the smaller, the closer a component keeps linked rows.

    Components of nearly equal eigenvalues can trade places if the data change a little.

    Parameters
    ----------
    eigenvalues : ndarray of shape (n_components,)
        Eigenvalues in the order of the components.

    Attributes
    ----------
    ax_, figure_, line_
        Axes and figure of the display, and the matplotlib line.
    """

    def __init__(self, eigenvalues: FloatVector) -> None:
        self.eigenvalues = eigenvalues

    @classmethod
    def _of(cls, model: Any) -> Self:
        return cls(np.asarray(model.eigenvalues_))

    def _draw(self, ax: Any, style: dict[str, Any]) -> None:
        shown = {"marker": "o", "linewidth": 1.0} | style
        (self.line_,) = ax.plot(np.arange(len(self.eigenvalues)), self.eigenvalues, **shown)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set(xlabel="component", ylabel="eigenvalue")


class ContributionsDisplay:
    """Shares of the squared distance by feature, largest first, as bars or as an image.

    Parameters
    ----------
    contributions : FeatureContributions
        The result of `explain`.
    image_shape : tuple of two ints, default=None
        Shape of a row as an image; None means bars.

    Attributes
    ----------
    ax_, figure_, bars_ or image_
        Axes and figure of the display, and the matplotlib bars or image.
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
        """Explain a fitted learner, draw the contributions and return the display.

        Parameters
        ----------
        estimator : LinearMetric
            A fitted learner or clusterer.
        a, b : array-like of shape (n_features,), default=None
            Two rows whose distance is explained; without them, the mean squared distance between training rows.
        image_shape : tuple of two ints, default=None
            Shape of a row as an image; None means bars.
        ax, **kwargs
            Passed to `plot`.
        """
        # For a clusterer too, this explains the metric, not the clusters.
        explained = LinearMetric.explain(fitted_metric(estimator), a, b)
        check_image_shape(image_shape, len(explained.share), "or None")
        return cls(explained, image_shape=image_shape).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, n_features: int = 15, **kwargs: Any) -> Self:
        """Draw the shares and return the display.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        n_features : int, default=15
            Maximum number of bars, largest share first.
        **kwargs
            Passed to matplotlib's `barh` or `imshow`.
        """
        check_whole("n_features", n_features)
        percent = 100.0 * np.asarray(self.contributions.share, dtype=np.float64)
        if self.image_shape is not None:
            ax = axes_for(self, ax, 4.6, 4.0)
            self.image_ = _draw_image(ax, percent.reshape(self.image_shape), **kwargs)
            ax.figure.colorbar(self.image_, ax=ax, label="share of squared distance (%)", shrink=0.85)
            return self
        top = self.contributions.top(n_features)
        ax = axes_for(self, ax, 6.0, 0.9 + 0.27 * len(top))
        self.bars_ = _draw_bars(ax, [name for name, _ in top], [100.0 * share for _, share in top], **kwargs)
        ax.set_xlabel("share of squared distance (%)")
        return self
