"""Layers: coarser and finer partitions around a given one, each nested in the next coarser."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from adaam._typing import FloatVector, IntVector
from adaam.partition.dendrogram import Dendrogram, dendrogram
from adaam.partition.separation import splits
from adaam.partition.view import Merging, View, cluster_means

# Least persistence of a layer: the factor by which the resolution can change without changing the number of clusters.
PERSISTENT = 1.2
# Maximum number of layers on either side of the given partition, and least ratio of numbers of clusters of two layers.
LAYERS_EACH_SIDE = 3
APART = 1.4
# Maximum number of clusters of a layer, as a multiple of those of the given partition.
FINEST = 20


@dataclass(frozen=True, slots=True, eq=False)
class ClusterLayer:
    """One partition of the rows, between coarser and finer ones.

    Attributes
    ----------
    n_clusters : int
        Number of clusters.
    labels : ndarray of shape (n_samples,)
        Cluster of each training row, the largest cluster first; a Dask array if X is one.
    sizes : ndarray of shape (n_clusters,)
        Rows in each cluster, copies counted.
    firmness : ndarray of shape (n_clusters,)
        How separate each cluster is from the nearest other one: 1 if no links join the two, 0 if they are joined like
        the two halves of a homogeneous cloud.
    persistence : float
        Factor by which the resolution of modularity can change without changing the number of clusters, as found in
        the dendrogram.
    leaves : ndarray of shape (n_leaves,)
        Cluster of each leaf of the dendrogram, by which new rows are assigned.
    """

    n_clusters: int
    labels: IntVector
    sizes: FloatVector
    firmness: FloatVector
    persistence: float
    leaves: IntVector


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """Layers of distinct rows, the coarsest first, and which of them is the given partition."""

    leaves: IntVector  # (n,) leaf of each distinct row
    layers: tuple[ClusterLayer, ...]
    given: int


def layered(view: View, communities: IntVector, labels: IntVector) -> Layers:
    """Find persistent partitions coarser and finer than a given one.

    Parameters
    ----------
    view : View
        Rows in their metric.
    communities : array of shape (n,)
        Small communities of the rows, on the host; finer partitions are made of them.
    labels : array of shape (n,)
        The given partition, clusters numbered from the largest on.
    """
    n_clusters = int(labels.max()) + 1
    pairs, leaves = np.unique(labels * (int(communities.max()) + 1) + communities, return_inverse=True)
    m = len(pairs)
    of_leaf = np.empty(m, dtype=np.intp)
    of_leaf[leaves] = labels
    links = view.links.contracted(view.links.asarray(leaves), m).host()
    tree = dendrogram(links, lambda: cluster_means(view, leaves, m), within=of_leaf)
    numbers = _persistent_numbers(tree, n_clusters)
    sizes = np.bincount(leaves, view.weights, minlength=m)
    looked_at = splits(
        view, Merging(view.links.asarray(leaves), links, tree), numbers[-1] - 1 if numbers[-1] > 1 else 0
    )
    ratios = np.array([split.ratio for split in looked_at])
    layers = []
    for number in numbers:
        clusters = of_leaf if number == n_clusters else _by_size(tree.cut(number), sizes)
        counts = np.bincount(clusters, sizes, minlength=number)
        firmness = _firmness(tree, clusters, number, ratios)
        layers.append(ClusterLayer(number, clusters[leaves], counts, firmness, _persistence(tree, number), clusters))
    return Layers(leaves, tuple(layers), numbers.index(n_clusters))


def _by_size(clusters: IntVector, sizes: FloatVector) -> IntVector:
    """Number clusters from the largest to the smallest, those of equal size by their first leaf."""
    counts = np.bincount(clusters, sizes)
    order = np.lexsort((np.arange(len(counts)), -np.round(counts, 9)))
    return np.asarray(np.argsort(order)[clusters])


def _persistence(tree: Dendrogram, n_clusters: int) -> float:
    """Factor between the resolutions at which clusters appear and vanish; infinite if no links join them."""
    before, after = tree.n_leaves - n_clusters - 1, tree.n_leaves - n_clusters
    if n_clusters < 2 or after >= len(tree.resolutions) or before < 0:
        return 1.0
    upper, lower = tree.resolutions[before], tree.resolutions[after]
    return float(max(1.0, upper / lower)) if lower > 0 else np.inf


def _persistent_numbers(tree: Dendrogram, given: int) -> list[int]:
    """Numbers of clusters worth a layer, ascending: the given one, and persistent ones well apart from each other."""
    candidates = range(2, min(tree.n_leaves - 1, FINEST * given) + 1)
    ranked = sorted(candidates, key=lambda number: (-_persistence(tree, number), number))
    chosen = [given]
    for number in ranked:
        if _persistence(tree, number) < PERSISTENT:
            break
        side = [other for other in chosen if (other < given) == (number < given) and other != given]
        if len(side) < LAYERS_EACH_SIDE and all(max(number, o) / min(number, o) >= APART for o in chosen):
            chosen.append(number)
    return sorted(chosen)


def _firmness(tree: Dendrogram, clusters: IntVector, n_clusters: int, ratios: FloatVector) -> FloatVector:
    """1 minus the link ratio (`Split.ratio`) of the first merge of each cluster."""
    firmness = np.ones(n_clusters)
    first = tree.n_leaves - n_clusters
    owner = clusters.copy()
    done = np.zeros(n_clusters, dtype=bool)
    for step, (a, b) in enumerate(tree.merges[first:]):
        p, q = int(owner[a]), int(owner[b])
        for cluster in (p, q):
            if not done[cluster]:
                firmness[cluster] = 1.0 - min(1.0, float(ratios[n_clusters - 2 - step]))
                done[cluster] = True
        owner = np.where(owner == q, p, owner)
    return firmness


def tree_of(layers: tuple[ClusterLayer, ...]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Children of each (layer, cluster) in the next finer layer."""
    tree: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for i, (coarse, fine) in enumerate(pairwise(layers)):
        parents = np.empty(fine.n_clusters, dtype=np.intp)
        parents[fine.leaves] = coarse.leaves
        for cluster in range(coarse.n_clusters):
            tree[i, cluster] = [(i + 1, int(child)) for child in np.flatnonzero(parents == cluster)]
    return tree
