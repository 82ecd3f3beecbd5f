"""Choosing a metric, a head and a number of clusters without labels."""

from adaam.selection.count import ClusterCount, count_clusters
from adaam.selection.distinct import SEARCH_ROWS, DistinctRows, counted_clusters
from adaam.selection.family import (
    Candidate,
    Prepared,
    learned_maps,
    learning_rows,
    prepared_rows,
    row_ranks,
)
from adaam.selection.report import Selection, Trial
from adaam.selection.search import HEADS, Choice, Contender, Outcome, Task, discriminates, given_metric, search

__all__ = [
    "HEADS",
    "SEARCH_ROWS",
    "Candidate",
    "Choice",
    "ClusterCount",
    "Contender",
    "DistinctRows",
    "Outcome",
    "Prepared",
    "Selection",
    "Task",
    "Trial",
    "count_clusters",
    "counted_clusters",
    "discriminates",
    "given_metric",
    "learned_maps",
    "learning_rows",
    "prepared_rows",
    "row_ranks",
    "search",
]
