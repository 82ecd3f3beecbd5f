"""What a search without labels tried, what it chose, and how sure it is."""

from dataclasses import dataclass, replace

import numpy as np

from adaam.selection.count import ClusterCount


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate metric with one head, and what its partition is worth."""

    preparation: str
    metric: str
    head: str
    n_components: int
    modularity: float
    agreement: float  # adjusted Rand index with the chosen partition
    chosen: bool
    separation: float | None = None  # modularity in the discriminant map of the partition, of learned metrics


@dataclass(frozen=True, slots=True)
class Selection:
    """Report of a search.

    Attributes
    ----------
    trials : tuple of Trial
        Everything that was tried, in order of simplicity.
    steps : tuple of str
        The decisions, in words: each says what was compared, the gain, and its standard error.
    n_rows : int
        Distinct rows the search looked at.
    count : ClusterCount or None
        How the number of clusters was found, where it was asked for.
    starts : tuple of float
        Adjusted Rand index of other starts with the clusters; of all starts where the clusters are their consensus.
    """

    trials: tuple[Trial, ...]
    steps: tuple[str, ...]
    n_rows: int
    count: ClusterCount | None = None
    starts: tuple[float, ...] = ()

    @property
    def best(self) -> Trial:
        """The trial that was chosen."""
        return next(trial for trial in self.trials if trial.chosen)

    def extended(self, count: ClusterCount | None, starts: tuple[float, ...]) -> "Selection":
        """Return the report with the number of clusters that was found, and how far starts agree."""
        return replace(self, count=count, starts=starts)

    def __str__(self) -> str:
        heads = ("preparation", "metric", "head", "columns", "modularity", "separation", "agreement")
        rows = [
            (
                *(t.preparation, t.metric, t.head, str(t.n_components), f"{t.modularity:.3f}"),
                "" if t.separation is None else f"{t.separation:.3f}",
                f"{t.agreement:.2f}",
            )
            for t in self.trials
        ]
        widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]

        def line(cells: tuple[str, ...], mark: str) -> str:
            left = [cell.ljust(width) for cell, width in zip(cells[:3], widths[:3], strict=True)]
            right = [cell.rjust(width) for cell, width in zip(cells[3:], widths[3:], strict=True)]
            return f"{mark} {'  '.join(left + right)}"

        table = [line(heads, " ")] + [
            line(row, ">" if t.chosen else " ") for row, t in zip(rows, self.trials, strict=True)
        ]
        counted = [str(self.count)] if self.count is not None else []
        agreement = f"mean adjusted Rand index {np.mean(self.starts or 0):.2f}"
        repeated = [f"{len(self.starts)} starts agree with the clusters: {agreement}."] if self.starts else []
        return "\n".join([*counted, *table, *self.steps, *repeated])
