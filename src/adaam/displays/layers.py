"""The layers of a clusterer: which cluster is made of which, and how firm each is."""

from typing import Any, Self

import numpy as np

from adaam.displays.axes import KeptDisplay, axes_for
from adaam.partition import ClusterLayer, tree_of


class ClusterLayersDisplay(KeptDisplay):
    """Clusters of every layer as bars, coarsest at the top, each above the finer ones that it is made of.

    The width of a bar is the share of rows in the cluster, its shade how firm it is.

    Parameters
    ----------
    layers : tuple of ClusterLayer
        The `cluster_layers_` of a fitted `AdaAMClustering`.
    chosen : int, default=0
        The layer to mark.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
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
        if not hasattr(model, "cluster_layers_"):
            raise TypeError(
                f"estimator={model!r} is a {type(model).__name__}, which has no layers. Use a fitted AdaAMClustering."
            )
        return cls(model.cluster_layers_, int(model.layer_))

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw one row of bars a layer.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        **kwargs
            Passed to matplotlib's `barh`.

        Returns
        -------
        ClusterLayersDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        self.bars_ = []
        for depth, order in enumerate(nested_orders(self.layers)):
            layer = self.layers[depth]
            widths = layer.sizes[order] / layer.sizes.sum()
            shades = [(0.12, 0.35, 0.6, 0.25 + 0.75 * float(firm)) for firm in layer.firmness[order]]
            style = {"color": shades, "edgecolor": "white", "height": 0.8} | kwargs
            self.bars_.append(ax.barh(depth, widths, left=np.cumsum(widths) - widths, **style))
        names = [f"{layer.n_clusters} clusters" for layer in self.layers]
        names[self.chosen] += " (labels_)"
        ax.set_yticks(range(len(self.layers)), names)
        ax.invert_yaxis()
        ax.set(xlabel="share of rows; darker clusters are firmer", xlim=(0, 1))
        return self


def nested_orders(layers: tuple[ClusterLayer, ...]) -> list[Any]:
    """Order of the clusters of every layer in which the parts of a cluster lie below it."""
    tree = tree_of(layers)
    orders = [np.arange(layers[0].n_clusters)]
    for depth in range(1, len(layers)):
        orders.append(np.array([child for above in orders[-1] for _, child in tree[depth - 1, int(above)]]))
    return orders
