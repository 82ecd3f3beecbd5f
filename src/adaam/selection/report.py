"""Report of a search without labels: its trials, its choice, and how certain that is."""

from dataclasses import dataclass, replace

import numpy as np

from adaam.selection.count import ClusterCount


@dataclass(frozen=True, slots=True)
class Trial:
    """One metric with one head, and the scores of its partition."""

    preparation: str
    metric: str
    head: str
    n_components: int
    modularity: float
    agreement: float  # adjusted Rand index with the chosen partition
    chosen: bool
    separation: float | None = None  # modularity in discriminant maps of the partition, if it was compared by it


@dataclass(frozen=True, slots=True)
class Selection:
    """Report of a search.

    Attributes
    ----------
    trials : tuple of Trial
        All trials, the simplest first.
    steps : tuple of str
        The decisions in words: what was compared, the gain, and its standard error.
    n_rows : int
        Number of distinct rows that the search used.
    count : ClusterCount or None
        Estimate of the number of clusters, if it was requested.
    starts : tuple of float
        Adjusted Rand index of each other start with the clusters; of all starts if the clusters are their consensus.
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
        """Return the report with the estimate of the number of clusters and the agreement of starts added."""
        return replace(self, count=count, starts=starts)

    def __str__(self) -> str:
        columns: list[tuple[str, list[str]]] = [
            ("preparation", [t.preparation for t in self.trials]),
            ("metric", [t.metric for t in self.trials]),
            ("head", [t.head for t in self.trials]),
            ("columns", [str(t.n_components) for t in self.trials]),
            ("modularity", [f"{t.modularity:.3f}" for t in self.trials]),
            ("separation", ["" if t.separation is None else f"{t.separation:.3f}" for t in self.trials]),
            ("agreement", [f"{t.agreement:.2f}" for t in self.trials]),
        ]
        aligned = []
        for place, (head, cells) in enumerate(columns):
            if any(cells):
                width = max(map(len, [head, *cells]))
                aligned.append([cell.ljust(width) if place < 3 else cell.rjust(width) for cell in [head, *cells]])
        marks = [" ", *(">" if t.chosen else " " for t in self.trials)]
        table = [f"{mark} {'  '.join(cells)}" for mark, *cells in zip(marks, *aligned, strict=True)]
        counted = [str(self.count)] if self.count is not None else []
        agreement = f"mean adjusted Rand index {np.mean(self.starts or 0):.2f}"
        repeated = [f"{len(self.starts)} starts agree with the clusters: {agreement}."] if self.starts else []
        return "\n".join([*counted, *table, *self.steps, *repeated])
