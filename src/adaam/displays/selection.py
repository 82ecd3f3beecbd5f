"""What a search without labels tried, and what the number of clusters was read from."""

from typing import Any, Self, cast

import numpy as np

from adaam.displays.axes import KeptDisplay, axes_for
from adaam.selection import ClusterCount, Selection


class SelectionDisplay(KeptDisplay):
    """Modularity of every metric and head that was tried, the chosen one marked.

    Parameters
    ----------
    selection : Selection
        The `selection_` of a fitted `AdaAMClustering`.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
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
        return cls(selection_of(model))

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw one bar a trial.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        **kwargs
            Passed to matplotlib's `barh`.

        Returns
        -------
        SelectionDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        trials = self.selection.trials
        places = np.arange(len(trials))
        colors = ["C1" if trial.chosen else "C0" for trial in trials]
        style = {"color": colors} | kwargs
        self.bars_ = ax.barh(places, [trial.modularity for trial in trials], **style)
        ax.set_yticks(places, [f"{trial.head}, {trial.metric} ({trial.preparation})" for trial in trials])
        ax.invert_yaxis()
        ax.set(xlabel="modularity on its own graph")
        return self


class ClusterCountDisplay(KeptDisplay):
    """Modularity and separation over the number of clusters, with the estimate and its range.

    Parameters
    ----------
    count : ClusterCount
        The `selection_.count` of an `AdaAMClustering` fitted with n_clusters="auto".

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
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
        count = selection_of(model).count
        if count is None:
            raise ValueError(
                f"n_clusters={model.n_clusters!r} was given, so no number was looked for. "
                "Fit AdaAMClustering(n_clusters='auto')."
            )
        return cls(count)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw modularity, how separate merged clusters are, and the range of the estimate.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None means a new figure.
        **kwargs
            Passed to matplotlib's `plot` of the separations.

        Returns
        -------
        ClusterCountDisplay
            The display itself.
        """
        ax = axes_for(self, ax)
        numbers = np.arange(1, len(self.count.modularities) + 1)
        ax.plot(numbers, self.count.modularities, linewidth=1.0, linestyle="--", label="modularity")
        # Entry c - 1 belongs to the merge that leaves c clusters, so it tells why there are more than c.
        style = {"marker": "o", "linewidth": 1.5, "label": "links between the two merged, one cloud being 1"} | kwargs
        (self.line_,) = ax.plot(numbers, np.minimum(self.count.separations, 1.0), **style)
        ax.axvspan(self.count.low - 0.5, self.count.high + 0.5, alpha=0.15, label="range of the estimate")
        ax.axvline(self.count.n_clusters, linewidth=1.0, color="black")
        ax.set(xlabel="number of clusters left", ylabel="modularity, links", ylim=(0, 1.05))
        ax.legend(loc="lower right")
        return self


def selection_of(model: Any) -> Selection:
    """Return the report of the search that a clusterer keeps."""
    if not hasattr(model, "selection_"):
        raise TypeError(
            f"estimator={model!r} is a {type(model).__name__}, which chooses nothing. Use a fitted AdaAMClustering."
        )
    return cast(Selection, model.selection_)
