"""Rows in a metric with their links, and the dendrogram of their communities."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector, Tall
from adaam.engines import Engine, Graph
from adaam.engines.links import Links
from adaam.partition.communities import Draws, local_communities
from adaam.partition.dendrogram import Dendrogram, dendrogram

# Neighbours of each row in the graph on which partitions are found and scored.
LINKS_PER_ROW = 10
# Least number of communities to start merging from, as a multiple of the wanted number of clusters.
COMMUNITIES_PER_CLUSTER = 3
# Factor by which the resolution is raised if there are too few communities.
FINER = 4.0


@dataclass(frozen=True, slots=True)
class View:
    """Distinct rows in a metric, with their neighbour graph and links, which are computed once."""

    Z: Tall  # (n, m), where the engine computes
    weights: FloatVector  # (n,), on the host
    engine: Engine
    ranks: IntVector | None = None  # order in which random numbers are assigned to rows; None means that of the rows
    _made: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def n_rows(self) -> int:
        """Number of distinct rows."""
        return len(self.weights)

    @property
    def graph(self) -> Graph:
        """Graph of the ten nearest neighbours of each row."""
        if "graph" not in self._made:
            n_neighbors = links_per_row(self.weights.sum())
            column = self.engine.asarray(self.weights)
            self._made["graph"] = self.engine.neighbor_graph(self.Z, n_neighbors, column)
        graph: Graph = self._made["graph"]
        return graph

    @property
    def links(self) -> Links:
        """Links of that graph."""
        if "links" not in self._made:
            self._made["links"] = self.graph.links(self.weights)
        links: Links = self._made["links"]
        return links

    def along(self, links: Links) -> "View":
        """Return the same rows with other links."""
        return replace(self, _made={**self._made, "links": links})

    def draws(self, seed: int) -> Draws:
        """Random numbers for the rows."""
        return Draws(np.random.default_rng(seed), self.ranks)


@dataclass(frozen=True, slots=True)
class Merging:
    """Small communities of rows and their dendrogram."""

    communities: Any  # (n,), stored like the links
    between: Links  # links between communities, on the host, since there are few
    tree: Dendrogram

    def labels(self, links: Links, n_clusters: int) -> Any:
        """Cluster of each row when `n_clusters` are left in the dendrogram, before single rows move."""
        return links.asarray(self.tree.cut(n_clusters))[self.communities]


def links_per_row(size: float) -> int:
    """Neighbours to which each row is linked: `LINKS_PER_ROW`, or fewer if there are fewer other rows."""
    return int(min(LINKS_PER_ROW, max(1, size - 1)))


def merging(view: View, n_clusters: int, draws: Draws) -> Merging:
    """Find small communities, enough for `n_clusters` clusters, and merge them."""
    links, resolution = view.links, 1.0
    wanted = min(COMMUNITIES_PER_CLUSTER * n_clusters, links.n_nodes // 2)
    communities, m = local_communities(links, resolution, draws)
    while m < wanted and resolution < links.n_nodes:
        resolution *= FINER
        communities, m = local_communities(links, resolution, draws)
    if m < n_clusters:
        communities, m = links.asarray(draws.singletons(links.n_nodes)), links.n_nodes
    between = links.contracted(communities, m).host()
    tree = dendrogram(between, lambda: cluster_means(view, links.to_host(communities), m))
    return Merging(communities, between, tree)


def cluster_means(view: View, labels: IntVector, n_labels: int) -> tuple[FloatMatrix, FloatVector]:
    """Mean row and size of each cluster."""
    found = view.engine.cluster_sums(view.Z, labels, view.engine.asarray(view.weights), n_labels)
    return found.sums / np.maximum(found.weights, np.finfo(float).tiny)[:, None], found.weights
