"""Partitions of a graph: clusters of a dendrogram exchange parts while modularity rises."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from adaam._typing import FloatVector, IntMatrix, IntVector
from adaam.engines.links import Links, summed
from adaam.partition.communities import Draws, refined
from adaam.partition.dendrogram import dendrogram, joined
from adaam.partition.modularity import modularity, modularity_gain, row_modularity
from adaam.partition.view import Merging, View, cluster_means, merging

# Factor by which the number of parts grows from one round of exchange to the next.
PART_RATIO = 1.5
# Moves (merge two clusters and split a third) tried per round, the most promising first.
N_TRIES = 10
MOST_ROUNDS = 3
SWAPPED_PARTS, SWAPPED_PARTS_PER_CLUSTER = 512, 8  # dendrogram parts for these moves: 512, or 8 per cluster if more


@dataclass(frozen=True, slots=True)
class Partition:
    """Clusters of rows, their modularity, and the dendrogram they were made from."""

    labels: Any  # (n,), stored like the links
    modularity: float
    merging: Merging


def partition(view: View, n_clusters: int, seed: int) -> Partition:
    """Partition the rows of a view into `n_clusters` along their links.

    Small communities are merged, each time the two whose links exceed chance by the largest factor. Then clusters
    exchange parts of the dendrogram while modularity rises, large parts first (Noack, Rotta 2009). If two clusters
    should be one and a third should be two, no exchange leads there, so two are merged and one is split while
    modularity rises. Finally single rows move. The cost is that of a few dozen passes over the links, whatever the
    number of clusters.
    """
    links, draws = view.links, view.draws(seed)
    found = merging(view, n_clusters, draws)
    among_leaves = Draws(np.random.default_rng(seed))
    leaves = _exchanged(found, n_clusters, among_leaves)
    if n_clusters > 2 and len(np.unique(leaves)) == n_clusters:
        leaves = _swapped(view, found, leaves, n_clusters, among_leaves)
    labels = refined(links, links.asarray(leaves)[found.communities], n_clusters, draws)
    return Partition(labels, modularity(links, labels), found)


def _exchanged(merging: Merging, n_clusters: int, draws: Draws) -> IntVector:
    """Return the cluster of each leaf of the dendrogram after clusters exchanged smaller and smaller parts of it."""
    tree = merging.tree
    # Graphs of parts, from fine to coarse, each contracted from the one before.
    graphs = [merging.between]
    parts: list[IntVector] = [np.arange(tree.n_leaves)]
    n_parts = tree.n_leaves / PART_RATIO
    while n_parts > PART_RATIO * n_clusters:
        coarse = tree.cut(int(n_parts))
        m = int(coarse.max()) + 1
        onto = np.empty(graphs[-1].n_nodes, dtype=np.intp)
        onto[parts[-1]] = coarse
        graphs.append(graphs[-1].contracted(onto, m))
        parts.append(coarse)
        n_parts /= PART_RATIO
    clusters = tree.cut(n_clusters)
    for graph, part in zip(graphs[::-1], parts[::-1], strict=True):
        held = _majority(part, clusters, merging.between.degrees, n_clusters)
        if n_clusters > 1 and len(np.unique(held)) == n_clusters:
            clusters = refined(graph, held, n_clusters, draws)[part]
    return clusters


def _majority(parts: IntVector, clusters: IntVector, degrees: FloatVector, n_clusters: int) -> IntVector:
    """Cluster that has most of each part by degree: an exchange of coarser parts may have split it."""
    n_parts = int(parts.max()) + 1
    keys, held = summed(parts * n_clusters + clusters, np.maximum(degrees, np.finfo(float).tiny), n_parts * n_clusters)
    place = keys // n_clusters
    first = np.searchsorted(place, np.arange(n_parts))
    most = np.maximum.reduceat(held, first)
    best = np.flatnonzero(held == most[place])[::-1]  # reversed, so that ties go to the lowest cluster
    found = np.empty(n_parts, dtype=np.intp)
    found[place[best]] = keys[best] % n_clusters
    return found


def _swapped(view: View, merging: Merging, clusters: IntVector, n_clusters: int, draws: Draws) -> IntVector:
    """Merge two clusters and split a third as long as modularity rises; `clusters` holds the cluster of each leaf."""
    # The parts that move are clusters of the dendrogram, coarser than its leaves if these are many.
    coarse = merging.tree.cut(max(SWAPPED_PARTS, SWAPPED_PARTS_PER_CLUSTER * n_clusters))
    pairs, part = np.unique(clusters * (int(coarse.max()) + 1) + coarse, return_inverse=True)
    m = len(pairs)
    links, found = merging.between.contracted(part, m), np.empty(m, dtype=np.intp)
    found[part] = clusters

    def places() -> Any:
        of_rows = part[np.asarray(view.links.to_host(merging.communities))]
        return cluster_means(view, of_rows, m)

    def by_rows(clusters: IntVector) -> FloatVector:
        return row_modularity(view.links, view.links.asarray(clusters[part])[merging.communities])

    highest = by_rows(found)
    # Parts that no link joins are clusters of the dendrogram however small they are; merging them takes a round each.
    n_unlinked = int(np.count_nonzero(merging.tree.resolutions == 0.0))
    for _ in range(MOST_ROUNDS + min(n_unlinked, n_clusters)):
        merges = dendrogram(links, places, within=found).merges[: m - n_clusters]
        second = _second_halves(merges, found)
        changed: set[int] = set()
        for way in _promising(links, found, second, n_clusters):
            if changed.intersection(way):
                continue
            split, kept, emptied = way
            tried = found.copy()
            tried[found == emptied] = kept
            tried[(found == split) & second] = emptied
            if len(np.unique(tried)) < n_clusters:
                continue  # an earlier swap has moved the half that was to be split off
            tried = refined(links, tried, n_clusters, draws)
            if modularity(links, tried) <= highest.sum():
                continue
            rows = by_rows(tried)
            if modularity_gain(rows, highest).is_clear:
                found, highest = tried, rows
                changed.update(way)
        if not changed:
            break
    return found[part]


def _second_halves(merges: IntMatrix, clusters: IntVector) -> npt.NDArray[np.bool_]:
    """Return a mask of one half of each cluster: one of the two parts that its last merge joined."""
    m = len(clusters)
    last = np.zeros(len(merges), dtype=bool)
    # The last merge of each cluster is its first one in reversed order.
    last[len(merges) - 1 - np.unique(clusters[merges[::-1, 0]], return_index=True)[1]] = True
    halves = joined(merges[~last], m)
    first_leaf = np.unique(clusters, return_index=True)[1]
    return np.asarray(halves != halves[first_leaf][clusters])


def _promising(
    links: Links, clusters: IntVector, second: npt.NDArray[np.bool_], n_clusters: int
) -> list[tuple[int, int, int]]:
    """Return the most promising moves (cluster to split, two to merge), sorted by their gain in modularity."""
    degrees, total = links.degrees, links.degrees.sum()
    nodes, others, weights = links.nodes, links.others, links.weights
    crossing = (clusters[nodes] == clusters[others]) & (second[nodes] != second[others])
    cut = np.bincount(clusters[nodes[crossing]], weights[crossing], minlength=n_clusters)
    masses = np.bincount(clusters, degrees, minlength=n_clusters)
    parts = np.bincount(clusters[second], degrees[second], minlength=n_clusters)
    between = links.contracted(clusters, n_clusters)
    # Linked clusters, and the smallest ones, whose merge costs little even if no link joins them.
    once = between.nodes < between.others
    a, b, joining = between.nodes[once], between.others[once], between.weights[once]
    smallest = np.sort(np.argsort(masses, kind="stable")[: 2 * N_TRIES])
    i, j = (smallest[k] for k in np.triu_indices(len(smallest), 1))
    unlinked = ~np.isin(i * n_clusters + j, a * n_clusters + b)
    a, b = np.append(a, i[unlinked]), np.append(b, j[unlinked])
    joining = np.append(joining, np.zeros(np.count_nonzero(unlinked)))
    gains, losses = 2.0 * parts * (masses - parts) / total - cut, 2.0 * (masses[a] * masses[b] / total - joining)
    pairs = np.argsort(losses, kind="stable")[:N_TRIES]
    splits = np.argsort(-gains, kind="stable")[:N_TRIES]
    ways = [
        (gains[s] - losses[p], int(s), int(a[p]), int(b[p])) for s in splits for p in pairs if s not in (a[p], b[p])
    ]
    return [way[1:] for way in sorted(ways, key=lambda way: -way[0])[:N_TRIES] if parts[way[1]] > 0]
