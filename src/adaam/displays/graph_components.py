"""The pieces that the neighbour graph falls into."""

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from adaam._checks import check_whole
from adaam._typing import FloatVector
from adaam.displays.axes import axes_for
from adaam.displays.relearned import relearned_graph
from adaam.spectrum import graph_pieces


class GraphComponentsDisplay:
    """Sizes of the connected components of the neighbour graph, largest first.

    One component means that every row can be reached from every other along neighbour edges. Several components are not
    an error, but only the low-rank affinity then relates them to each other.

    Parameters
    ----------
    sizes : ndarray of shape (n_pieces,)
        Rows in each component, copies and weights counted, largest first.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    bars_
        The matplotlib bars.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAM
    >>> from adaam.displays import GraphComponentsDisplay
    >>> X, _ = load_digits(return_X_y=True)
    >>> GraphComponentsDisplay.from_estimator(AdaAM(10).fit(X), X).sizes
    array([1797.])
    """

    def __init__(self, sizes: FloatVector) -> None:
        self.sizes = sizes

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        n_neighbors: int | None = None,
        sample_weight: Any = None,
        neighbors: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Find the neighbour graph again and draw its pieces.

        Parameters
        ----------
        estimator : LinearMetric
            A fitted learner or clusterer.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows it was fitted on.
        n_neighbors : int, default=None
            Neighbours of each row; None means what the fit used, where the estimator keeps it.
        sample_weight, neighbors : default=None
            As they were given to `fit`.
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        GraphComponentsDisplay
            The display, drawn.
        """
        sample, graph = relearned_graph(estimator, X, n_neighbors, sample_weight, neighbors)
        graph = graph.host() if hasattr(graph, "host") else graph
        edges = csr_array((graph.shares, graph.indices, graph.starts), shape=(graph.n_rows, graph.n_rows))
        sizes = np.bincount(graph_pieces(edges), sample.weights)
        return cls(np.sort(sizes)[::-1]).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, max_bars: int = 30, **kwargs: Any) -> Self:
        """Draw the sizes.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        max_bars : int, default=30
            Components drawn at most, largest first.
        **kwargs
            Passed to matplotlib's `bar`.

        Returns
        -------
        GraphComponentsDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        shown = self.sizes[: check_whole("max_bars", max_bars)]
        self.bars_ = ax.bar(np.arange(len(shown)), shown, **kwargs)
        ax.bar_label(self.bars_, fmt="{:g}", fontsize=8)
        ax.xaxis.get_major_locator().set_params(integer=True)
        n_pieces, more = len(self.sizes), len(self.sizes) - len(shown)
        title = f"{n_pieces} connected component{'s' * (n_pieces > 1)}"
        ax.set(xlabel="component", ylabel="rows", title=title + (f", {more} smaller ones not drawn" if more else ""))
        return self
