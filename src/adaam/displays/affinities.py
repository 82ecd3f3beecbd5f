"""Displays of the neighbour graph and the adaptive affinity of a fit, computed again from the training rows."""

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from adaam._checks import check_whole, check_word
from adaam._typing import FloatVector
from adaam.affinity.adaptive import AllRows, MethodSettings, learn, magnitude_counts
from adaam.displays.axes import Display, axes_for, fitted_metric
from adaam.engines import Graph
from adaam.estimators import AdaAM
from adaam.graph import Neighbors
from adaam.prepare import Sample, prepared_sample

# Relative tolerance on cuts: for the same rows in another order they differ by rounding, for other rows by far more.
SAME_CUT = 1e-3


def fitted_learner(estimator: Any) -> Any:
    """Return the learner inside a clusterer, or the learner itself."""
    model = fitted_metric(estimator)
    return getattr(model, "metric_", model)


def relearned_graph(
    learner: Any, X: Any, n_neighbors: int | None, sample_weight: Any, neighbors: Any
) -> tuple[Sample, Graph]:
    """Return the training rows as prepared in the fit, and their neighbour graph."""
    rows, is_given = learner._rows(X, reset=False), neighbors is not None
    _, sample = prepared_sample(rows, sample_weight, learner.preparation_, learner._engine(), rows_are_nodes=is_given)
    count = getattr(learner, "n_neighbors_", None) if n_neighbors is None else n_neighbors
    if count is None:
        raise ValueError(
            f"n_neighbors=None, but {type(learner).__name__} does not keep the number of neighbours "
            "its affinity used. Pass n_neighbors."
        )
    return sample, Neighbors(sample, neighbors)(int(count))


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
    ax_, figure_, bars_
        Axes and figure of the display, and the matplotlib bars.
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
        """Compute the neighbour graph again, draw the sizes of its connected components and return the display.

        Parameters
        ----------
        estimator : LinearMetric
            A fitted learner or clusterer.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows it was fitted on.
        n_neighbors : int, default=None
            Neighbours of each row; None means the number used in fit, if the estimator stores it.
        sample_weight, neighbors : default=None
            As they were given to `fit`.
        ax, **kwargs
            Passed to `plot`.
        """
        sample, graph = relearned_graph(fitted_learner(estimator), X, n_neighbors, sample_weight, neighbors)
        graph = graph.host()
        edges = csr_array((graph.shares, graph.indices, graph.starts), shape=(graph.n_rows, graph.n_rows))
        sizes = np.bincount(connected_components(edges, directed=False)[1], sample.weights)
        return cls(np.sort(sizes)[::-1]).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, max_bars: int = 30, **kwargs: Any) -> Self:
        """Draw the sizes and return the display.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        max_bars : int, default=30
            Maximum number of components drawn, largest first.
        **kwargs
            Passed to matplotlib's `bar`.
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


class MagnitudeDisplay(Display):
    """Histogram of the magnitudes |Δ| of an affinity before pruning, with the cut: smaller ones are removed.

    Parameters
    ----------
    counts : ndarray of shape (n_bins,)
        Number of entries in each bin, including the diagonal if it takes part in the pruning.
    top : float
        Upper end of the last bin; the first one begins at 0.
    cut : float
        Smallest magnitude kept.

    Attributes
    ----------
    ax_, figure_, stairs_, line_
        Axes and figure of the display, the histogram, and the line at the cut.

    Notes
    -----
    A fitted model does not store the affinity, so it is learned again from the training rows: the cost is that of a
    fit and one more pass over the pairs.
    """

    def __init__(self, counts: FloatVector, top: float, cut: float) -> None:
        self.counts = counts
        self.top = top
        self.cut = cut

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        which: str = "final",
        n_bins: int = 200,
        sample_weight: Any = None,
        neighbors: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Learn the affinity again, draw its magnitudes and return the display.

        Parameters
        ----------
        estimator : AdaAM or AdaAMClustering with one
            The fitted learner.
        X, sample_weight, neighbors
            What it was fitted on, as in `fit`.
        which : {"final", "intermediate"}, default="final"
            Which of the two affinities.
        n_bins : int, default=200
            Number of bins.
        ax, **kwargs
            Passed to `plot`.
        """
        check_word("which", which, ("final", "intermediate"))
        check_whole("n_bins", n_bins)
        learner = fitted_learner(estimator)
        if not isinstance(learner, AdaAM):
            raise TypeError(f"{type(learner).__name__} learns no adaptive affinity to draw. Use AdaAM.")
        sample, graph = relearned_graph(learner, X, None, sample_weight, neighbors)
        settings = learner._affinity_settings()
        method = MethodSettings(learner.n_clusters_, learner.n_components_, learner.n_iter, settings)
        learned = learn(AllRows(sample), method, lambda _: graph)
        if not np.allclose(learned.cuts, learner.cuts_, rtol=SAME_CUT):
            raise ValueError(
                f"X gives the cuts {learned.cuts[0]:.3g} and {learned.cuts[1]:.3g}, but the fit found "
                f"{learner.cuts_[0]:.3g} and {learner.cuts_[1]:.3g}. Pass the rows, weights and neighbours the model "
                "was fitted on."
            )
        affinity = (learned.evidence.final if which == "final" else learned.evidence.first).affinity
        counts, top = magnitude_counts(affinity, n_bins)
        return cls(counts, top, float(affinity.cut)).plot(ax=ax, **kwargs)

    @property
    def edges(self) -> FloatVector:
        """Edges of the bins."""
        return np.linspace(0.0, self.top, len(self.counts) + 1)

    @property
    def kept(self) -> float:
        """Share of entries in bins above the cut, the bin of the cut itself counted in part."""
        above = np.clip((self.edges[1:] - self.cut) / np.diff(self.edges), 0.0, 1.0)
        return float(self.counts @ above / self.counts.sum())

    def _draw(self, ax: Any, style: dict[str, Any]) -> None:
        self.stairs_ = ax.stairs(self.counts, self.edges, **({"fill": True} | style))
        self.line_ = ax.axvline(
            self.cut, color="tab:red", linestyle="--", label=f"cut: about {100 * self.kept:.1f} % are kept"
        )
        ax.set_yscale("log")
        ax.set(xlabel="|Δ| before pruning", ylabel="entries")
        ax.legend(frameon=False)
