"""Displays of a clusterer: its layers, the trials of its search, and the estimated number of clusters."""

from typing import Any, Self

import numpy as np

from adaam.displays.axes import ModelDisplay
from adaam.partition import ClusterLayer, tree_of
from adaam.selection import ClusterCount, Selection


class ClusterLayersDisplay(ModelDisplay):
    """Clusters of every layer as bars, coarsest at the top, each above the finer ones that it contains.

    The width of a bar is the share of rows in the cluster; darker clusters are firmer.

    Parameters
    ----------
    layers : tuple of ClusterLayer
        The `cluster_layers_` of a fitted `AdaAMClustering`.
    chosen : int, default=0
        The layer to mark.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the display.
    bars_
        The matplotlib bars of every layer.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from adaam import AdaAMClustering
    >>> from adaam.displays import ClusterLayersDisplay
    >>> X, _ = load_wine(return_X_y=True)
    >>> display = ClusterLayersDisplay.from_estimator(AdaAMClustering(3).fit(X))
    >>> len(display.bars_) == len(display.layers)
    True
    """

    def __init__(self, layers: tuple[ClusterLayer, ...], chosen: int = 0) -> None:
        self.layers = layers
        self.chosen = chosen

    @classmethod
    def _of(cls, model: Any) -> Self:
        return cls(found_by(model, "cluster_layers_", "has no layers"), int(model.layer_))

    def _draw(self, ax: Any, style: dict[str, Any]) -> None:
        self.bars_ = []
        for depth, order in enumerate(nested_orders(self.layers)):
            layer = self.layers[depth]
            widths = layer.sizes[order] / layer.sizes.sum()
            shades = [(0.12, 0.35, 0.6, 0.25 + 0.75 * float(firm)) for firm in layer.firmness[order]]
            shown = {"color": shades, "edgecolor": "white", "height": 0.8} | style
            self.bars_.append(ax.barh(depth, widths, left=np.cumsum(widths) - widths, **shown))
        names = [f"{layer.n_clusters} clusters" for layer in self.layers]
        names[self.chosen] += " (labels_)"
        ax.set_yticks(range(len(self.layers)), names)
        ax.invert_yaxis()
        ax.set(xlabel="share of rows; darker clusters are firmer", xlim=(0, 1))


def nested_orders(layers: tuple[ClusterLayer, ...]) -> list[Any]:
    """Order of the clusters of every layer such that the parts of a cluster are below it."""
    tree = tree_of(layers)
    orders = [np.arange(layers[0].n_clusters)]
    for depth in range(1, len(layers)):
        orders.append(np.array([child for above in orders[-1] for _, child in tree[depth - 1, int(above)]]))
    return orders


class SelectionDisplay(ModelDisplay):
    """Modularity of every metric and head that was tried, the chosen one marked.

    Parameters
    ----------
    selection : Selection
        The `selection_` of a fitted `AdaAMClustering`.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the display.
    bars_
        The matplotlib bars, in the order of `selection.trials`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from adaam import AdaAMClustering
    >>> from adaam.displays import SelectionDisplay
    >>> X, _ = load_wine(return_X_y=True)
    >>> display = SelectionDisplay.from_estimator(AdaAMClustering(3).fit(X))
    >>> len(display.bars_) == len(display.selection.trials)
    True
    """

    def __init__(self, selection: Selection) -> None:
        self.selection = selection

    @classmethod
    def _of(cls, model: Any) -> Self:
        return cls(found_by(model, "selection_", "chooses nothing"))

    def _draw(self, ax: Any, style: dict[str, Any]) -> None:
        trials = self.selection.trials
        places = np.arange(len(trials))
        colors = ["C1" if trial.chosen else "C0" for trial in trials]
        self.bars_ = ax.barh(places, [trial.modularity for trial in trials], **({"color": colors} | style))
        ax.set_yticks(places, [f"{trial.head}, {trial.metric} ({trial.preparation})" for trial in trials])
        ax.invert_yaxis()
        ax.set(xlabel="modularity on its own graph")


class ClusterCountDisplay(ModelDisplay):
    """Modularity and separation over the number of clusters, with the estimate and its range.

    Parameters
    ----------
    count : ClusterCount
        The `selection_.count` of an `AdaAMClustering` fitted with n_clusters="auto".

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the display.
    line_
        The matplotlib line of the separations.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from adaam import AdaAMClustering
    >>> from adaam.displays import ClusterCountDisplay
    >>> X, _ = load_wine(return_X_y=True)
    >>> display = ClusterCountDisplay.from_estimator(AdaAMClustering("auto").fit(X))
    >>> display.count.low <= display.count.high
    True
    """

    def __init__(self, count: ClusterCount) -> None:
        self.count = count

    @classmethod
    def _of(cls, model: Any) -> Self:
        count = found_by(model, "selection_", "chooses nothing").count
        if count is None:
            raise ValueError(
                f"n_clusters={model.n_clusters!r} was given, so no number was looked for. "
                "Fit AdaAMClustering(n_clusters='auto')."
            )
        return cls(count)

    def _draw(self, ax: Any, style: dict[str, Any]) -> None:
        numbers = np.arange(1, len(self.count.modularities) + 1)
        ax.plot(numbers, self.count.modularities, linewidth=1.0, linestyle="--", label="modularity")
        # Entry c - 1 belongs to the merge that leaves c clusters, so it is evidence for more than c clusters.
        shown = {
            "marker": "o",
            "linewidth": 1.5,
            "label": "links between the two merged (one cloud: 1)",
        } | style
        (self.line_,) = ax.plot(numbers, np.minimum(self.count.separations, 1.0), **shown)
        ax.axvspan(self.count.low - 0.5, self.count.high + 0.5, alpha=0.15, label="range of the estimate")
        ax.axvline(self.count.n_clusters, linewidth=1.0, color="black")
        ax.set(xlabel="number of clusters left", ylabel="modularity, links", ylim=(0, 1.05))
        ax.legend(loc="lower right")


def found_by(model: Any, attribute: str, otherwise: str) -> Any:
    """Return a fitted attribute of a clusterer; raise for models that do not have it."""
    if not hasattr(model, attribute):
        raise TypeError(
            f"estimator={model!r} is a {type(model).__name__}, which {otherwise}. Use a fitted AdaAMClustering."
        )
    return getattr(model, attribute)
