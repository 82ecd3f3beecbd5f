"""What a report of clusters shows, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.cluster_report.pictures import Pictures
from adaam.cluster_words import WordEffect
from adaam.palette import Theme, cluster_color

Node = tuple[int, int]  # layer and cluster in it
# Up to this number of rows, the page holds label, strength and outlier score of each, for the download.
MAX_LABELLED = 1_000_000


@dataclass(frozen=True, slots=True)
class CardEffect:
    """How a feature sets a cluster apart, in three ways."""

    name: str
    effect: float  # Cohen's d; infinite if constant in the cluster and, at another value, elsewhere
    superiority: float  # chance that a row of the cluster has a larger value than another row
    mean: float
    rest_mean: float


@dataclass(frozen=True, slots=True)
class Borderline:
    """A row that nearly belongs to another cluster."""

    row: int
    strength: float
    other: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterCard:
    """Description of one cluster; rows are given by their number in the data, and each is among those shown."""

    label: int
    size: int
    strength: float  # mean over its rows
    firmness: float | None = None  # how separate it is from the nearest other cluster, in [0, 1]
    summary: str = ""
    effects: tuple[CardEffect, ...] = ()
    words: tuple[WordEffect, ...] = ()
    categories: tuple[tuple[str, WordEffect], ...] = ()  # of further columns, with the column's name
    exemplars: tuple[int, ...] = ()
    borderline: tuple[Borderline, ...] = ()
    neighbors: tuple[tuple[int, float], ...] = ()  # other clusters and the mean membership shared with them
    pictures: Pictures | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ReportLayer:
    """One partition, from coarse to fine."""

    labels: IntVector  # of all rows
    sizes: tuple[int, ...]
    firmness: tuple[float, ...] = ()  # of each cluster, if known
    colors: tuple[int, ...] = ()  # palette index of each cluster
    shades: tuple[int, ...] = ()  # shade of that colour; empty: 0 for each

    def color(self, cluster: int, theme: Theme) -> str:
        """Return the colour of one of its clusters, or grey for label -1."""
        return cluster_color(self.colors[cluster], theme, self.shades[cluster] if self.shades else 0)


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """A column to colour by and to list: numbers or strings, None if missing, one value for each row shown."""

    name: str
    values: tuple[float | str | None, ...]

    @property
    def is_number(self) -> bool:
        """Whether no value is a string."""
        return not any(isinstance(value, str) for value in self.values)


@dataclass(frozen=True, slots=True)
class CountCurve:
    """How a number of clusters was found: scores of 1, 2, ... clusters."""

    n_clusters: int
    low: int
    high: int
    modularity: tuple[float, ...]
    # How separate the two clusters of the last split are: 1 means no links, 0 as many as inside a single cloud.
    separateness: tuple[float | None, ...]
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """Why this metric and head were chosen, and this number of clusters."""

    metric: str
    head: str
    headings: tuple[str, ...] = ()
    trials: tuple[tuple[str, ...], ...] = ()
    chosen: int | None = None  # index into `trials`
    steps: tuple[str, ...] = ()
    count: CountCurve | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ReportData:
    """Everything that the page of a clustering shows.

    Arrays of all rows have shape (n_rows,); those of the rows shown are in the order of `shown`.
    """

    title: str
    n_features: int
    labels: IntVector  # of all rows; -1 means no cluster
    strengths: FloatVector  # of all rows, in [0, 1]
    outlier_scores: FloatVector  # of all rows, in [0, 1]
    shown: IntVector  # ascending numbers of the rows with details
    neighbor_map: FloatMatrix  # (n_shown, 2)
    plane: FloatMatrix  # (n_shown, 2)
    cards: tuple[ClusterCard, ...]
    choice: Choice
    ids: tuple[str, ...] | None = None  # of all rows
    columns: tuple[ReportColumn, ...] = ()
    texts: tuple[str, ...] | None = None
    images: IntMatrix | None = None  # bytes, (n_shown, height, width) or with three colours
    layers: tuple[ReportLayer, ...] = ()
    tree: Mapping[Node, tuple[Node, ...]] = field(default_factory=dict)
    outliers: tuple[int, ...] = ()  # rows, the most outlying first
    names_features: bool = True  # whether features, or columns of a table, are compared
    first_row: int = 0  # number of the first row, if rows have no ids

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.cards)

    @property
    def is_sampled(self) -> bool:
        """Whether some rows are not shown in detail."""
        return len(self.shown) < self.n_rows

    @property
    def holds_all_labels(self) -> bool:
        """Whether the page holds the labels of all rows, also of those not shown."""
        return self.n_rows <= MAX_LABELLED

    def place(self, row: int) -> int:
        """Return the position of a row among those shown."""
        return int(np.searchsorted(self.shown, row))

    def row_name(self, row: int) -> str:
        """Return the name of a row: its id, or its number."""
        return f"row {row + self.first_row}" if self.ids is None else self.ids[row]
