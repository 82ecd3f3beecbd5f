"""Partitions of a neighbour graph: how they are found and scored."""

from adaam.partition.communities import Draws, local_communities, refined
from adaam.partition.consensus import FEW_ROWS, best_partition, consensus_partition
from adaam.partition.dendrogram import Dendrogram, dendrogram
from adaam.partition.exchange import Partition, partition
from adaam.partition.layers import ClusterLayer, Layers, layered, tree_of
from adaam.partition.modularity import N_ERRORS, Gain, modularity, modularity_gain, row_modularity
from adaam.partition.view import LINKS_PER_ROW, Merging, View, links_per_row, merging

__all__ = [
    "FEW_ROWS",
    "LINKS_PER_ROW",
    "N_ERRORS",
    "ClusterLayer",
    "Dendrogram",
    "Draws",
    "Gain",
    "Layers",
    "Merging",
    "Partition",
    "View",
    "best_partition",
    "consensus_partition",
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
