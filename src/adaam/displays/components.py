"""The learned components: as images, or as bars of their strongest features."""

from math import isqrt
from typing import Any, Self, cast

import numpy as np

from adaam._checks import check_whole
from adaam._typing import FloatMatrix
from adaam.displays.axes import axes_for, check_image_shape, fitted_metric
from adaam.estimators.linear_metric import feature_names

# Fewer square features are more often a table than an image.
SMALLEST_IMAGE = 64
N_COLUMNS = 5


class ComponentsDisplay:
    """Each component as the weights it gives to input features.

    Rows that are images make components that are images: red where a brighter pixel moves a row up along the
    component, blue where it moves it down. Other features are drawn as bars, the strongest ones with their names.

    Parameters
    ----------
    components : ndarray of shape (n_components, n_features)
        Weights.
    names : sequence of str
        Names of the features.
    image_shape : tuple of two ints, default=None
        Shape of the image a row draws; None means bars.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    axes_ : ndarray of matplotlib axes
        One a component, inside `ax_`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAM
    >>> from adaam.displays import ComponentsDisplay
    >>> X, _ = load_digits(return_X_y=True)
    >>> ComponentsDisplay.from_estimator(AdaAM(10).fit(X)).image_shape
    (8, 8)
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
        """Draw the components of a fitted learner.

        Parameters
        ----------
        estimator : LinearMetric
            A fitted learner or clusterer.
        image_shape : tuple of two ints, "auto" or None, default="auto"
            Shape of the image a row draws. "auto" takes nameless features of a square number, 64 or more, for a
            square image; None draws bars.
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        ComponentsDisplay
            The display, drawn.
        """
        model = fitted_metric(estimator)
        components = np.asarray(model.components_)
        shape = _square(model) if image_shape == "auto" else image_shape
        check_image_shape(shape, components.shape[1], '"auto" or None')
        return cls(components, list(feature_names(model)), image_shape=cast(Any, shape)).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, n_components: int = 10, n_features: int = 8) -> Self:
        """Draw the components.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        n_components : int, default=10
            Components drawn at most, the first ones.
        n_features : int, default=8
            Bars drawn for each component at most, strongest first.

        Returns
        -------
        ComponentsDisplay
            The display itself.
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
                _draw_bars(inner, component, self.names, n_features)
            inner.set_title(f"component {number}", fontsize=9)
        return self


def _square(model: Any) -> tuple[int, int] | None:
    side = isqrt(model.n_features_in_)
    nameless = not hasattr(model, "feature_names_in_")
    return (side, side) if nameless and side * side == model.n_features_in_ >= SMALLEST_IMAGE else None


def _cell(number: int, n_rows: int, n_columns: int, image: bool) -> tuple[float, float, float, float]:
    """Place of a component's axes in the whole, with room for its title and, beside bars, for names."""
    width, height = 1.0 / n_columns, 1.0 / n_rows
    row, column = divmod(number, n_columns)
    left, bottom = column * width, 1.0 - (row + 1) * height
    margin = (0.06, 0.88) if image else (0.36, 0.60)
    return left + margin[0] * width, bottom + 0.1 * height, margin[1] * width, 0.74 * height


def _draw_image(ax: Any, image: FloatMatrix) -> None:
    # White is no weight at all, so the scale is the same in both directions.
    limit = np.abs(image).max() or 1.0
    ax.imshow(image, cmap="RdBu_r", vmin=-limit, vmax=limit)
    ax.set(xticks=[], yticks=[])


def _draw_bars(ax: Any, component: Any, names: Any, n_features: int) -> None:
    strongest = np.argsort(-np.abs(component), kind="stable")[:n_features]
    colours = ["tab:red" if component[j] > 0 else "tab:blue" for j in strongest]
    ax.barh(np.arange(len(strongest)), component[strongest], color=colours)
    ax.set_yticks(np.arange(len(strongest)), [_short(names[j]) for j in strongest], fontsize=8)
    ax.tick_params(axis="x", labelsize=7)
    ax.axvline(0.0, color="0.5", linewidth=0.8)
    ax.invert_yaxis()


def _short(name: str, length: int = 24) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"
