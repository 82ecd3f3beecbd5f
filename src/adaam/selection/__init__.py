"""Choosing a metric, a head and a number of clusters without labels."""

from adaam.selection.count import ClusterCount, count_clusters
from adaam.selection.family import (
    Candidate,
    Prepared,
    host_weights,
    learned_maps,
    learning_rows,
    prepared_rows,
    random_rows,
    row_ranks,
)
from adaam.selection.report import Selection, Trial
from adaam.selection.search import HEADS, Choice, Contender, Outcome, Task, discriminates, given_metric, search

__all__ = [
    "HEADS",
    "Candidate",
    "Choice",
    "ClusterCount",
    "Contender",
    "Outcome",
    "Prepared",
    "Selection",
    "Task",
    "Trial",
    "count_clusters",
    "discriminates",
    "given_metric",
    "host_weights",
    "learned_maps",
    "learning_rows",
    "prepared_rows",
    "random_rows",
    "row_ranks",
    "search",
]
