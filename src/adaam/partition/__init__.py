"""Partitions of a neighbour graph: what they are worth, and ways to find them."""

from adaam.partition.communities import Draws, local_communities, refined
from adaam.partition.dendrogram import Dendrogram, dendrogram
from adaam.partition.layers import ClusterLayer, Layers, layered, tree_of
from adaam.partition.modularity import Gain, modularity, modularity_gain, row_modularity
from adaam.partition.view import LINKS_PER_ROW, Merging, Partition, View, links_per_row, merging, partition

__all__ = [
    "LINKS_PER_ROW",
    "ClusterLayer",
    "Dendrogram",
    "Draws",
    "Gain",
    "Layers",
    "Merging",
    "Partition",
    "View",
    "dendrogram",
    "layered",
    "links_per_row",
    "local_communities",
    "merging",
    "modularity",
    "modularity_gain",
    "partition",
    "refined",
    "row_modularity",
    "tree_of",
]
