"""Merging small clusters along the links of a graph, two at a time."""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, FloatVector, IntVector


@dataclass(frozen=True, slots=True)
class MergePath:
    """Which two clusters were merged at each step, and the modularity at every number of clusters on the way."""

    start: IntVector  # (n,) cluster of each row before any merge, 0..m-1
    merges: IntVector  # (m - 1, 2): the second cluster joins the first
    modularities: FloatVector  # (m,): entry c - 1 belongs to c clusters

    def labels(self, n_clusters: int) -> IntVector:
        """Cluster of each row when `n_clusters` are left, numbered in order of first appearance."""
        n_start = len(self.modularities)
        owner = np.arange(n_start)
        for kept, joined in self.merges[: max(0, n_start - n_clusters)]:
            owner[owner == joined] = kept
        found = owner[self.start]
        _, first, labels = np.unique(found, return_index=True, return_inverse=True)
        return np.asarray(np.argsort(np.argsort(first))[labels], dtype=np.intp)


def merge_path(links: csr_array, start: IntVector, centers: FloatMatrix, weights: FloatVector) -> MergePath:
    """Merge clusters until one is left, each time the two whose links exceed chance by the largest factor.

    That factor is links between the two over the product of their degrees, an average over pairs: it favours neither
    large nor small clusters, as the gain in modularity itself would. Where no two clusters are linked, the one of
    fewest rows joins the nearest centre.

    Parameters
    ----------
    links : csr_array of shape (n, n)
        Symmetric links.
    start : array of shape (n,)
        Cluster of each row, 0..m-1, none empty.
    centers : array of shape (m, k)
        Mean row of each cluster.
    weights : array of shape (m,)
        Rows in each cluster, copies counted.
    """
    m = len(centers)
    members = csr_array((np.ones(len(start)), (start, np.arange(len(start)))), shape=(m, len(start)))
    between = csr_array(members @ links @ members.T)
    degrees = np.asarray(between.sum(axis=1)).ravel()
    total = degrees.sum() or 1.0
    neighbors = [_row(between, a) for a in range(m)]
    inside = between.diagonal().sum() / total
    expected = float(((degrees / total) ** 2).sum())
    state = _Merging(neighbors, degrees, centers.astype(np.float64).copy(), weights.astype(np.float64).copy())

    merges = np.empty((m - 1, 2), dtype=np.intp)
    modularities = np.empty(m)
    modularities[m - 1] = inside - expected
    for step in range(m - 1):
        kept, joined = state.next_pair()
        inside += 2.0 * state.neighbors[kept].get(joined, 0.0) / total
        expected += 2.0 * degrees[kept] * degrees[joined] / total**2
        state.merge(kept, joined)
        merges[step] = kept, joined
        modularities[m - 2 - step] = inside - expected
    return MergePath(np.asarray(start, dtype=np.intp), merges, modularities)


def _row(between: csr_array, a: int) -> dict[int, float]:
    """Links of a cluster to others."""
    entries = slice(between.indptr[a], between.indptr[a + 1])
    pairs = zip(between.indices[entries].tolist(), between.data[entries].tolist(), strict=True)
    return {b: value for b, value in pairs if b != a and value > 0}


class _Merging:
    """Clusters that are left, and a heap of linked pairs in which outdated entries are skipped."""

    def __init__(
        self, neighbors: list[dict[int, float]], degrees: FloatVector, centers: FloatMatrix, weights: FloatVector
    ) -> None:
        self.neighbors, self.degrees, self.centers, self.weights = neighbors, degrees, centers, weights
        self.left = np.ones(len(neighbors), dtype=bool)
        self.version = [0] * len(neighbors)
        self.heap = [self._entry(a, b) for a, row in enumerate(neighbors) for b in row if a < b]
        heapify(self.heap)

    def _entry(self, a: int, b: int) -> tuple[float, int, int, int, int]:
        a, b = min(a, b), max(a, b)
        factor = self.neighbors[a][b] / (self.degrees[a] * self.degrees[b])
        return (-factor, a, b, self.version[a], self.version[b])

    def next_pair(self) -> tuple[int, int]:
        while self.heap:
            _, a, b, version_a, version_b = heappop(self.heap)
            if self.left[a] and self.left[b] and (self.version[a], self.version[b]) == (version_a, version_b):
                return a, b
        left = np.flatnonzero(self.left)
        small = int(left[np.argmin(self.weights[left])])
        others = left[left != small]
        distances = np.linalg.norm(self.centers[others] - self.centers[small], axis=1)
        nearest = int(others[np.argmin(distances)])
        return min(small, nearest), max(small, nearest)

    def merge(self, kept: int, joined: int) -> None:
        """Let one cluster join another."""
        w, v = self.weights[kept], self.weights[joined]
        self.centers[kept] = (w * self.centers[kept] + v * self.centers[joined]) / (w + v)
        self.weights[kept] += v
        self.degrees[kept] += self.degrees[joined]
        self.left[joined] = False
        self.version[kept] += 1
        row = self.neighbors[kept]
        for b, value in self.neighbors[joined].items():
            if b != kept:
                row[b] = row.get(b, 0.0) + value
        row.pop(joined, None)
        self.neighbors[joined] = {}
        for b, value in row.items():
            self.neighbors[b].pop(joined, None)
            self.neighbors[b][kept] = value
            heappush(self.heap, self._entry(kept, b))
