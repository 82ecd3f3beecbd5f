"""Clusters of rows, and which of them each row asks for neighbours: a search among many rows looks there alone.

A row asks for the clusters whose centres are nearest to it. A pair of rows is looked at where one of them asks for the
cluster of the other. How many clusters must be asked for is told by the true neighbours of some rows.
"""

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, IntMatrix, IntVector
from adaam.engines.blocks import ordered_map, row_blocks

CLUSTER_ROWS = 140  # rows of a cluster, about
N_ROUNDS = 3  # of k-means from the leaves of a tree
N_AROUND = 16  # clusters around each that are known
BLOCK_ROWS = 1024


@dataclass(frozen=True, slots=True)
class NearClusters:
    """Rows laid out cluster by cluster."""

    order: IntVector  # row at each place
    starts: IntVector  # place at which each cluster begins, and the end
    centers: FloatMatrix
    nearest: IntMatrix  # of each cluster: some of the others, itself first and then by distance

    def slices(self) -> list[slice]:
        """Return the places of each cluster."""
        return [slice(int(a), int(b)) for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]

    def labels(self) -> IntVector:
        """Cluster at each place."""
        return np.repeat(np.arange(len(self.centers), dtype=np.int32), np.diff(self.starts))

    def around(self, block: int, n_rows: int) -> IntVector:
        """Places of the rows of a cluster and of the nearest others, so many at least."""
        nearest = self.nearest[block]
        counts = self.starts[nearest + 1] - self.starts[nearest]
        enough = nearest[: int(np.searchsorted(np.cumsum(counts), n_rows)) + 1]
        places = np.concatenate([np.arange(self.starts[a], self.starts[a + 1]) for a in enough])
        # Small clusters may have small ones alone around them; any rows will do then.
        found = places if len(places) >= n_rows else np.union1d(places, np.arange(min(n_rows, len(self.order))))
        return found.astype(np.int32)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which clusters each row asks for, and for each cluster the rows that do; rows by their places."""

    clusters: IntMatrix
    rows: IntVector
    starts: IntVector

    def asking(self, cluster: int) -> IntVector:
        """Places of the rows that ask for a cluster, ascending."""
        return self.rows[self.starts[cluster] : self.starts[cluster + 1]]


def near_clusters(rows: FloatMatrix, leaves: list[IntVector]) -> NearClusters:
    """Cluster rows by a few rounds of k-means that begin with leaves.

    Leaves of a tree follow one another by nearness, and so do their clusters.
    """
    centers = np.array([rows[leaf].mean(axis=0, dtype=np.float64) for leaf in leaves])
    for _ in range(N_ROUNDS):
        labels = nearest_center(rows, centers)
        sizes = np.bincount(labels, minlength=len(centers))
        members = csr_array((np.ones(len(rows)), (labels, np.arange(len(rows)))), shape=(len(centers), len(rows)))
        centers = np.where(sizes[:, None] > 0, (members @ rows) / np.maximum(sizes, 1)[:, None], centers)
    kept, labels = np.unique(nearest_center(rows, centers), return_inverse=True)
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))])
    centers = centers[kept]
    return NearClusters(np.argsort(labels, kind="stable"), starts, centers, _nearest_centers(centers))


def asked(rows: FloatMatrix, clusters: NearClusters, n_asked: int, kernels: ModuleType) -> Asked:
    """Let each row ask for its own cluster and those of the nearest centres, `n_asked` together."""
    labels = clusters.labels()
    lists = np.empty((len(rows), n_asked), np.int32)

    def ask(part: slice) -> None:
        kernels.nearest_few(_own_first(rows[part], clusters.centers, labels[part]), lists[part])

    for _ in ordered_map(ask, row_blocks(len(rows), BLOCK_ROWS)):
        pass
    n_clusters = len(clusters.centers)
    # Numbers of 16 bits are sorted in one go.
    flat = lists.ravel() if n_clusters > 1 << 16 else lists.ravel().astype(np.uint16)
    asking = np.argsort(flat, kind="stable") // n_asked
    starts = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=n_clusters))])
    return Asked(lists, asking.astype(np.int32), starts)


def n_to_ask(
    rows: FloatMatrix, clusters: NearClusters, some: IntVector, neighbors: IntMatrix, share: float
) -> tuple[int, float]:
    """Number of clusters to ask for so that a share of the neighbours of some rows is found, all by their places.

    Also returns the share of all rows that are in as many clusters, nearest to one of these rows.
    """
    labels = clusters.labels()

    def ranks(part: slice) -> IntMatrix:
        """At which place of the clusters around a row its neighbours are, or it is seen from them if that is nearer."""
        own, others = some[part], neighbors[part].ravel()
        k = neighbors.shape[1]
        from_own = _own_first(rows[own], clusters.centers, labels[own]).argsort(axis=1).argsort(axis=1)
        seen = np.take_along_axis(from_own, labels[neighbors[part]], axis=1)
        back = _own_first(rows[others], clusters.centers, labels[others])
        to_own = np.take_along_axis(back, np.repeat(labels[own], k)[:, None], axis=1)
        return np.asarray(np.minimum(seen, (back < to_own).sum(axis=1).reshape(seen.shape)))

    blocks = row_blocks(len(some), max(1, BLOCK_ROWS // neighbors.shape[1]))
    found = np.sort(np.concatenate([part.ravel() for part in ordered_map(ranks, blocks)]))
    n_asked = int(found[max(0, int(np.ceil(share * len(found))) - 1)]) + 1
    sizes = np.diff(clusters.starts)
    nearest = _own_first(rows[some], clusters.centers, labels[some]).argsort(axis=1)[:, :n_asked]
    return n_asked, float(sizes[nearest].sum(axis=1).mean() / len(rows))


def _lengths(rows: FloatMatrix, centers: FloatMatrix) -> FloatMatrix:
    """Half the squared distances of rows from centres, but for what is the same for all centres."""
    turned = centers.T.astype(np.float32)
    tile = np.asarray(rows @ -turned)
    tile += np.square(turned).sum(axis=0) / 2
    return tile


def _own_first(rows: FloatMatrix, centers: FloatMatrix, labels: IntVector) -> FloatMatrix:
    """Distances of this kind, the row's own cluster before all others: of equal centres another may come first."""
    tile = _lengths(rows, centers)
    tile[np.arange(len(rows)), labels] = -np.inf
    return tile


def nearest_center(rows: FloatMatrix, centers: FloatMatrix) -> IntVector:
    """Number of the centre nearest to each row."""

    def nearest(part: slice) -> IntVector:
        return np.asarray(_lengths(rows[part], centers).argmin(axis=1))

    return np.concatenate(list(ordered_map(nearest, row_blocks(len(rows), BLOCK_ROWS))))


def _nearest_centers(centers: FloatMatrix) -> IntMatrix:
    """For each cluster some others near it, itself first and then by distance."""
    numbers = np.arange(len(centers))
    n_around = min(len(centers), N_AROUND)

    def nearest(part: slice) -> IntMatrix:
        distances = _own_first(centers[part].astype(np.float32), centers, numbers[part])
        some = np.argpartition(distances, n_around - 1, axis=1)[:, :n_around]
        order = np.argsort(np.take_along_axis(distances, some, axis=1), axis=1)
        return np.asarray(np.take_along_axis(some, order, axis=1))

    return np.concatenate(list(ordered_map(nearest, row_blocks(len(centers), BLOCK_ROWS))))
