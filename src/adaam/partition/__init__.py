"""Partitions of a neighbour graph: what they are worth, and ways to find them."""

from adaam.partition.heads import HEADS, Head, View
from adaam.partition.links import neighbor_links
from adaam.partition.merging import MergePath, merge_path
from adaam.partition.modularity import Gain, modularity, modularity_gain, row_modularity

__all__ = [
    "HEADS",
    "Gain",
    "Head",
    "MergePath",
    "View",
    "merge_path",
    "modularity",
    "modularity_gain",
    "neighbor_links",
    "row_modularity",
]
