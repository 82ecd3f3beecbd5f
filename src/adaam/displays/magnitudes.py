"""How the magnitudes of the adaptive affinity are spread, and where it is cut."""

from typing import Any, Self

import numpy as np

from adaam._checks import check_whole, check_word
from adaam._typing import FloatVector
from adaam.displays.axes import axes_for
from adaam.displays.relearned import relearned_affinity
from adaam.magnitudes import N_BINS, magnitude_counts


class MagnitudeDisplay:
    """Histogram of |Δ| before pruning, with the cut that pruning makes.

    Parameters
    ----------
    counts : ndarray of shape (n_bins,)
        Entries in each bin, diagonal included where it takes part in the pruning.
    top : float
        Upper end of the last bin; the first one begins at 0.
    cut : float
        Smallest magnitude kept.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    stairs_, line_
        The histogram and the mark of the cut.

    Notes
    -----
    A fitted model keeps no affinity, so it is learned again from the training rows: the cost is that of a fit and
    one more pass over the pairs.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAM
    >>> from adaam.displays import MagnitudeDisplay
    >>> X, _ = load_digits(return_X_y=True)
    >>> display = MagnitudeDisplay.from_estimator(AdaAM(10).fit(X), X)
    >>> float(display.counts.sum()) == 1797**2
    True
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
        n_bins: int = N_BINS,
        sample_weight: Any = None,
        neighbors: Any = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Learn the affinity again and draw its magnitudes.

        Parameters
        ----------
        estimator : AdaAM or AdaAMClustering with one
            The fitted learner.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows it was fitted on.
        which : {"final", "intermediate"}, default="final"
            Which of the two affinities.
        n_bins : int, default=200
            Number of bins.
        sample_weight, neighbors : default=None
            As they were given to `fit`.
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        **kwargs
            Passed to `plot`.

        Returns
        -------
        MagnitudeDisplay
            The display, drawn.
        """
        check_word("which", which, ("final", "intermediate"))
        check_whole("n_bins", n_bins)
        learned = relearned_affinity(estimator, X, sample_weight, neighbors)
        affinity = learned.final if which == "final" else learned.intermediate
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

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the histogram.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        **kwargs
            Passed to matplotlib's `stairs`.

        Returns
        -------
        MagnitudeDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        self.stairs_ = ax.stairs(self.counts, self.edges, **({"fill": True} | kwargs))
        self.line_ = ax.axvline(
            self.cut, color="tab:red", linestyle="--", label=f"cut: about {100 * self.kept:.1f} % are kept"
        )
        ax.set_yscale("log")
        ax.set(xlabel="|Δ| before pruning", ylabel="entries")
        ax.legend(frameon=False)
        return self
