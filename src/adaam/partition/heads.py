"""Heads: ways to partition rows in a metric, by their places or by their links."""

import warnings
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from adaam._typing import FloatMatrix, FloatVector, IntVector, Tall
from adaam.engines import CPUEngine, Engine, Graph
from adaam.linalg import thread_pools
from adaam.partition.diffusion import diffusion_coordinates
from adaam.partition.links import neighbor_links
from adaam.partition.merging import MergePath, merge_path
from adaam.spectrum import graph_pieces

# Neighbours of each row in the graph that partitions are made and judged on.
LINKS_PER_ROW = 10
# Diffusion: vectors as a multiple of the number of clusters, and steps of the walk.
VECTORS_PER_CLUSTER = 3
N_STEPS = 8.0
# Clusters that merging starts from, as a multiple of the number wanted.
STARTS_PER_CLUSTER = 5
HOST = CPUEngine()


@dataclass(frozen=True, slots=True)
class View:
    """Distinct rows in some metric, with their links; what is made from them is made once."""

    Z: Tall  # (n, m), where the engine works
    weights: FloatVector  # (n,), on the host
    engine: Engine
    graph: Graph | None = None  # neighbours at hand, as many as links ask for; None means found when needed
    _made: dict[object, object] = field(default_factory=dict, repr=False, compare=False)

    @property
    def links(self) -> csr_array:
        """Links to the ten nearest others."""
        if "links" not in self._made:
            graph = self.graph
            if graph is None:
                n_neighbors = links_per_row(self.weights.sum())
                graph = self.engine.neighbor_graph(self.Z, n_neighbors, self.engine.column(self.weights))
            self._made["links"] = neighbor_links(graph.host(), self.weights)
        return self._made["links"]

    def coordinates(self, n_clusters: int) -> FloatMatrix:
        """Diffusion coordinates for so many clusters."""
        key = ("coordinates", n_clusters)
        if key not in self._made:
            with thread_pools().limit(limits=1):
                self._made[key] = diffusion_coordinates(self.links, VECTORS_PER_CLUSTER * n_clusters, N_STEPS)
        return self._made[key]  # type: ignore[return-value]


def links_per_row(size: float) -> int:
    """Neighbours of each row that links are made of, where there are so many others."""
    return int(min(LINKS_PER_ROW, size - 1))


class Head(Protocol):
    """A way to partition the rows of a view."""

    @property
    def name(self) -> str:
        """What reports say."""
        ...

    def labels(self, view: View, n_clusters: int, n_init: int, seed: int) -> IntVector:
        """Cluster of each distinct row."""
        ...


@dataclass(frozen=True, slots=True)
class KMeansHead:
    """k-means on the rows in the metric."""

    name: str = "k-means"

    def labels(self, view: View, n_clusters: int, n_init: int, seed: int) -> IntVector:
        """Cluster of each distinct row."""
        found = view.engine.kmeans(view.Z, n_clusters, n_init, seed, view.engine.column(view.weights))
        return np.asarray(found.labels)


@dataclass(frozen=True, slots=True)
class DiffusionHead:
    """k-means on diffusion coordinates: robust to noise between clusters."""

    name: str = "diffusion"

    def labels(self, view: View, n_clusters: int, n_init: int, seed: int) -> IntVector:
        """Cluster of each distinct row."""
        return place_clusters(view.coordinates(n_clusters), n_clusters, n_init, seed, view.weights)


@dataclass(frozen=True, slots=True)
class MergingHead:
    """Many small clusters of diffusion coordinates, merged along links: follows pieces and curved shapes."""

    name: str = "merging"

    def labels(self, view: View, n_clusters: int, n_init: int, seed: int) -> IntVector:
        """Cluster of each distinct row."""
        n_starts = min(STARTS_PER_CLUSTER * n_clusters, len(view.weights))
        return self.path(view, n_clusters, n_starts, seed).labels(n_clusters)

    def path(self, view: View, n_clusters: int, n_starts: int, seed: int) -> MergePath:
        """Merges from about `n_starts` clusters down to one."""
        Z = np.asarray(view.engine.to_host(view.Z), dtype=np.float64)
        return merged_starts(view.links, view.coordinates(n_clusters), Z, view.weights, n_starts, seed)


def merged_starts(
    links: csr_array, coordinates: FloatMatrix, Z: FloatMatrix, weights: FloatVector, n_starts: int, seed: int
) -> MergePath:
    """Merge small clusters of diffusion coordinates; Z places those that no link joins."""
    small = place_clusters(coordinates, n_starts, 1, seed, weights)
    # No cluster spans two pieces of the graph: coordinates do not tell apart pieces beyond the largest ones.
    _, small = np.unique(graph_pieces(links) * (int(small.max()) + 1) + small, return_inverse=True)
    sizes = np.bincount(small, weights)
    members = csr_array((weights, (small, np.arange(len(small)))), shape=(len(sizes), len(small)))
    return merge_path(links, small, (members @ Z) / sizes[:, None], sizes)


def place_clusters(Z: FloatMatrix, n_clusters: int, n_init: int, seed: int, weights: FloatVector) -> IntVector:
    """k-means on few coordinates, many of which may coincide: then clusters are fewer."""
    # On one thread: the same bits however many there are, and threads that wait for one another at every step made
    # small problems twenty times slower on a busy machine.
    with thread_pools().limit(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return HOST.kmeans(Z, min(n_clusters, len(Z)), n_init, seed, weights).labels


HEADS: dict[str, Head] = {head.name: head for head in (KMeansHead(), DiffusionHead(), MergingHead())}
