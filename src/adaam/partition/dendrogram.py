"""A dendrogram of communities: which two merge at which resolution."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from sklearn.metrics import pairwise_distances_argmin

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.links import Links

_Merges: TypeAlias = tuple[IntVector, IntVector, FloatVector, FloatVector]  # two leaves, factor, expected links

Places: TypeAlias = tuple[FloatMatrix, FloatVector]  # mean row and number of rows of each node

# Connected components beyond this many of the largest are first joined to the nearest of these.
MOST_PARTS = 2048


@dataclass(frozen=True, slots=True)
class Dendrogram:
    """Merges of m leaves, two clusters at a time, from the highest resolution to the lowest.

    Attributes
    ----------
    merges : array of shape (m - 1, 2)
        A leaf of each of the two clusters: the first represents the merged cluster from then on, the second none.
    resolutions : array of shape (m - 1,)
        Resolution below which the merged cluster has the higher modularity; 0 if no link joins the two.
    modularities : array of shape (m,)
        Entry c - 1 is the modularity of c clusters.
    """

    merges: IntMatrix
    resolutions: FloatVector
    modularities: FloatVector

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.merges) + 1

    def cut(self, n_clusters: int) -> IntVector:
        """Cluster of each leaf when `n_clusters` are left, numbered by their lowest leaf."""
        return joined(self.merges[: max(0, self.n_leaves - n_clusters)], self.n_leaves)

    def number_at(self, resolution: float) -> int:
        """Number of clusters of highest modularity at a resolution."""
        return self.n_leaves - int(np.count_nonzero(self.resolutions > resolution))


def joined(merges: IntMatrix, n_leaves: int) -> IntVector:
    """Cluster of each leaf after some merges of a dendrogram, numbered by their lowest leaf."""
    root = np.arange(n_leaves)
    root[merges[:, 1]] = merges[:, 0]
    while True:
        further = root[root]
        if (further == root).all():
            break
        root = further
    lowest = np.full(n_leaves, n_leaves)
    np.minimum.at(lowest, root, np.arange(n_leaves))
    lowest = lowest[root]
    return np.asarray((np.cumsum(lowest == np.arange(n_leaves)) - 1)[lowest])


def dendrogram(links: Links, places: Callable[[], Places], within: IntVector | None = None) -> Dendrogram:
    """Repeatedly merge the two nodes whose links exceed chance by the largest factor, until one is left.

    That factor, links between the two times all links over the product of their degrees, is the resolution at which
    modularity is the same with and without the merge. It is an average over pairs of rows, so it favours neither large
    nor small clusters, and merging never raises it; therefore all pairs that are each other's best can be merged at
    once (the dendrogram of Bonald et al. 2018, by rounds of reciprocal nearest neighbours). If no two clusters are
    linked, the one of fewest rows is joined to the one of nearest centre.

    Parameters
    ----------
    links : Links of m nodes
        Links between communities; links inside a community are its loop.
    places : callable
        Returns mean row and number of rows (copies counted) of each node; called only if the graph is disconnected.
    within : array of shape (m,), default=None
        Cluster of each node; all nodes of a cluster merge before any two clusters do.
    """
    m = links.n_nodes
    total = float(links.degrees.sum()) or 1.0
    left = _Left(links, np.arange(m), np.arange(m), within)
    found: list[_Merges] = []
    left = _merged(left, total, found)
    if left.inside is not None and left.links.n_nodes > 1:
        # Unlinked parts of a cluster are merged; then clusters may merge with each other.
        kept, labels = np.unique(left.inside, return_inverse=True)
        found.append(_whole(labels, left.leaves, left.links.degrees / total))
        lowest = np.full(len(kept), m)
        np.minimum.at(lowest, labels, left.leaves)
        links = left.links.contracted(labels, len(kept))
        left = _merged(_Left(links, lowest, labels[left.owner], None), total, found)
    return _in_order(found, left, places, within, total)


@dataclass(frozen=True, slots=True)
class _Left:
    """State after some merges: links between clusters, the lowest leaf of each, and the cluster of each leaf."""

    links: Links
    leaves: IntVector
    owner: IntVector
    inside: IntVector | None  # only nodes of equal value may merge


def _merged(left: _Left, total: float, found: list[_Merges]) -> _Left:
    """Merge all pairs of nodes that are each other's best, repeatedly until there are none."""
    links, leaves, owner, inside = left.links, left.leaves, left.owner, left.inside
    if links.compiled:
        return _merged_by_loops(left, total, found)
    while links.n_nodes > 1:
        nodes, others, degrees = links.nodes, links.others, links.degrees
        factors = links.weights * total / (degrees[nodes] * degrees[others])
        if inside is not None:
            allowed = inside[nodes] == inside[others]
            nodes, others, factors = nodes[allowed], others[allowed], factors[allowed]
        highest, partner = links.best(factors, nodes, others, links.n_nodes)
        place = np.arange(links.n_nodes)
        mutual = np.isfinite(highest) & (partner[partner] == place)
        first = np.flatnonzero(mutual & (place < partner))
        if len(first) == 0:
            break
        second = partner[first]
        found.append((leaves[first], leaves[second], highest[first], degrees[first] * degrees[second] / total**2))
        kept, labels = np.unique(np.where(mutual, np.minimum(place, partner), place), return_inverse=True)
        owner, leaves = labels[owner], leaves[kept]
        if inside is not None:
            inside = inside[kept]
        links = links.contracted(labels, len(kept))
    return _Left(links, leaves, owner, inside)


def _merged_by_loops(left: _Left, total: float, found: list[_Merges]) -> _Left:
    from adaam.engines.link_loops import merge_rounds

    links, n = left.links, left.links.n_nodes
    inside = np.zeros(n, dtype=np.intp) if left.inside is None else left.inside.astype(np.intp)
    graph = links.starts, links.others, links.weights, links.loops, links.degrees
    starts, others, weights, loops, labels, merges, factors, expected = merge_rounds(*graph, inside, total)
    found.append((left.leaves[merges[:, 0]], left.leaves[merges[:, 1]], factors, expected))
    kept = np.unique(labels, return_index=True)[1]
    nodes = np.repeat(np.arange(len(kept)), np.diff(starts))
    between = Links(nodes, others, weights, loops, links.compiled)
    return _Left(between, left.leaves[kept], labels[left.owner], None if left.inside is None else left.inside[kept])


def _whole(labels: IntVector, leaves: IntVector, masses: FloatVector) -> _Merges:
    """Merges of nodes of equal label, in order, at resolution 0."""
    first: dict[int, int] = {}
    steps: list[tuple[int, int, float]] = []
    masses = masses.copy()
    for node, label in enumerate(labels.tolist()):
        base = first.setdefault(label, node)
        if base != node:
            steps.append((int(leaves[base]), int(leaves[node]), float(masses[base] * masses[node])))
            masses[base] += masses[node]
    a, b, expected = (np.array([step[i] for step in steps]) for i in range(3))
    return a.astype(np.intp), b.astype(np.intp), np.zeros(len(steps)), expected.astype(np.float64)


def _in_order(
    found: list[_Merges], left: _Left, places: Callable[[], Places], within: IntVector | None, total: float
) -> Dendrogram:
    """Sort merges by resolution, and append those of connected components."""
    empty = (np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0), np.empty(0))
    a, b, factors, expected = (np.concatenate(part) for part in zip(empty, *found, strict=True))
    inner = np.zeros(len(a), dtype=bool) if within is None else within[a] == within[b]
    order = np.lexsort((np.arange(len(a)), -factors, ~inner))
    parts = _merged_parts(left.owner, left.leaves, left.links.degrees / total, places)
    gains = 2.0 * np.concatenate([expected[order] * (factors[order] - 1.0), -parts.expected])
    merges = np.concatenate([np.column_stack([a, b])[order], parts.merges])
    resolutions = np.concatenate([factors[order], np.zeros(len(parts.merges))])
    # One cluster has modularity 0; from there, the merges are undone one by one.
    modularities = np.concatenate([[0.0], -np.cumsum(gains[::-1])])
    return Dendrogram(merges.astype(np.intp), resolutions, modularities)


@dataclass(frozen=True, slots=True)
class _Parts:
    merges: IntMatrix
    expected: FloatVector


def _merged_parts(owner: IntVector, leaves: IntVector, masses: FloatVector, places: Callable[[], Places]) -> _Parts:
    """Merge connected components: each time the one of fewest rows with the one of nearest centre."""
    n_parts = len(leaves)
    merges = np.empty((max(0, n_parts - 1), 2), dtype=np.intp)
    expected = np.empty(max(0, n_parts - 1))
    if n_parts <= 1:
        return _Parts(merges, expected)
    centers, weights = places()
    sizes = np.bincount(owner, weights, minlength=n_parts)
    sums = np.zeros((n_parts, centers.shape[1]))
    np.add.at(sums, owner, centers * weights[:, None])
    means, masses = sums / np.maximum(sizes, np.finfo(float).tiny)[:, None], masses.copy()
    by_size = np.lexsort((np.arange(n_parts), -sizes))
    step = 0

    def join(small: int, large: int) -> None:
        nonlocal step
        merges[step], expected[step] = (leaves[large], leaves[small]), masses[small] * masses[large]
        together = sizes[small] + sizes[large]
        means[large] = (sizes[small] * means[small] + sizes[large] * means[large]) / together
        sizes[large], masses[large] = together, masses[large] + masses[small]
        step += 1

    if n_parts > MOST_PARTS:
        largest, rest = by_size[:MOST_PARTS], by_size[MOST_PARTS:][::-1]
        for part, nearest in zip(rest, pairwise_distances_argmin(means[rest], means[largest]), strict=True):
            join(int(part), int(largest[nearest]))
        by_size = largest
    left = by_size.copy()
    while len(left) > 1:
        at = int(np.lexsort((left, sizes[left]))[0])
        small = int(left[at])
        left = np.delete(left, at)
        offsets = means[left] - means[small]
        join(small, int(left[np.argmin(np.einsum("ij,ij->i", offsets, offsets))]))
    return _Parts(merges, expected)
