"""Choosing a metric, a head and a number of clusters without labels."""

from adaam.selection.count import ClusterCount, count_clusters
from adaam.selection.family import (
    Candidate,
    FittedCandidate,
    candidates,
    fitted_candidates,
    paper_neighbors,
    random_rows,
)
from adaam.selection.report import Selection, Trial
from adaam.selection.search import Choice, Contender, search

__all__ = [
    "Candidate",
    "Choice",
    "ClusterCount",
    "Contender",
    "FittedCandidate",
    "Selection",
    "Trial",
    "candidates",
    "count_clusters",
    "fitted_candidates",
    "paper_neighbors",
    "random_rows",
    "search",
]
