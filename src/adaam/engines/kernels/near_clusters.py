"""Which groups of rows are near enough to hold each other's neighbours: a search among many rows looks there alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, IntMatrix, IntVector
from adaam.engines.blocks import ordered_map, row_blocks

CLUSTER_ROWS = 140  # rows of a cluster, about
PROBED_SHARE = 0.12  # of all clusters, those nearest to a cluster that are searched from it (decision 0016)
N_ROUNDS = 3  # of k-means from the leaves of a tree
BLOCK_ROWS = 2048


class Layout(Protocol):
    """Row blocks, and for each the blocks that a search from it looks at: itself, and those after it that are near."""

    def slices(self) -> list[slice]:
        """Return the row blocks."""
        ...

    def columns(self, block: int, most_rows: int) -> Iterator[slice]:
        """Yield what a block is searched against, so many rows at most together; the first one is the block itself."""
        ...


@dataclass(frozen=True, slots=True)
class AllPairs:
    """Every block against itself and all that follow."""

    n_rows: int
    block_rows: int

    def slices(self) -> list[slice]:
        """Return the row blocks."""
        return row_blocks(self.n_rows, self.block_rows)

    def columns(self, block: int, most_rows: int) -> Iterator[slice]:
        """Yield the block itself and all blocks after it."""
        yield from self.slices()[block:]


@dataclass(frozen=True, slots=True)
class NearClusters:
    """Rows laid out cluster by cluster, and for each cluster those that follow it in this order and are near."""

    order: IntVector  # row at each place
    starts: IntVector  # place at which each cluster begins, and the end
    near: list[IntVector]  # of each cluster: near ones from itself on, ascending
    nearest: IntMatrix  # of each cluster: those searched from it, itself first and then by distance

    def slices(self) -> list[slice]:
        """Return the places of each cluster."""
        return [slice(int(a), int(b)) for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]

    def around(self, block: int, n_rows: int) -> IntVector:
        """Places of the rows of a cluster and of the nearest others, so many at least."""
        nearest = self.nearest[block]
        counts = self.starts[nearest + 1] - self.starts[nearest]
        enough = nearest[: int(np.searchsorted(np.cumsum(counts), n_rows)) + 1]
        places = np.concatenate([np.arange(self.starts[a], self.starts[a + 1]) for a in enough])
        # Small clusters may have small ones alone around them; any rows will do then.
        found = places if len(places) >= n_rows else np.union1d(places, np.arange(min(n_rows, len(self.order))))
        return found.astype(np.int32)

    def columns(self, block: int, most_rows: int) -> Iterator[slice]:
        """Yield the cluster itself, then near ones after it, neighbouring ones together."""
        yield slice(int(self.starts[block]), int(self.starts[block + 1]))
        begin = end = -1
        for other in self.near[block][1:]:
            if end >= 0 and (self.starts[other] != end or self.starts[other + 1] - begin > most_rows):
                yield slice(begin, end)
                begin = -1
            begin = int(self.starts[other]) if begin < 0 else begin
            end = int(self.starts[other + 1])
        if end >= 0:
            yield slice(begin, end)


def near_clusters(rows: FloatMatrix, leaves: list[IntVector]) -> NearClusters:
    """Cluster rows by a few rounds of k-means that begin with leaves, and find the clusters near each one.

    Leaves of a tree follow one another by nearness, and so do their clusters. Being near is mutual: one of two may ask
    for it.
    """
    centers = np.array([rows[leaf].mean(axis=0, dtype=np.float64) for leaf in leaves])
    for _ in range(N_ROUNDS):
        labels = _nearest(rows, centers)
        sizes = np.bincount(labels, minlength=len(centers))
        members = csr_array((np.ones(len(rows)), (labels, np.arange(len(rows)))), shape=(len(centers), len(rows)))
        centers = np.where(sizes[:, None] > 0, (members @ rows) / np.maximum(sizes, 1)[:, None], centers)
    labels = _nearest(rows, centers)
    kept, labels = np.unique(labels, return_inverse=True)
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))])
    nearest = _nearest_centers(centers[kept])
    asked = np.zeros((len(kept), len(kept)), bool)
    np.put_along_axis(asked, nearest, True, axis=1)
    near = [np.flatnonzero(row[a:]) + a for a, row in enumerate(asked | asked.T)]
    return NearClusters(np.argsort(labels, kind="stable"), starts, near, nearest)


def _nearest(rows: FloatMatrix, centers: FloatMatrix) -> IntVector:
    turned = centers.T.astype(np.float32)
    lengths = np.square(turned).sum(axis=0) / 2

    def nearest(part: slice) -> IntVector:
        return np.asarray((lengths - rows[part] @ turned).argmin(axis=1))

    return np.concatenate(list(ordered_map(nearest, row_blocks(len(rows), BLOCK_ROWS))))


def _nearest_centers(centers: FloatMatrix) -> IntMatrix:
    """For each cluster those that are searched from it, itself first and then by distance."""
    squares = np.square(centers).sum(axis=1)
    distances = squares[:, None] + squares - 2.0 * centers @ centers.T
    np.fill_diagonal(distances, -np.inf)
    n_probed = min(len(centers), max(2, round(PROBED_SHARE * len(centers))))
    nearest = np.argpartition(distances, n_probed - 1, axis=1)[:, :n_probed]
    order = np.argsort(np.take_along_axis(distances, nearest, axis=1), axis=1)
    return np.asarray(np.take_along_axis(nearest, order, axis=1))
