"""Cells of nearby rows: leaves of a k-d tree, and an inverted file of k-means cells that queries probe.

A row probes the cells whose centres are nearest to it. A pair of rows is looked at where one of them probes the cell of
the other. How many cells must be probed is told by the true neighbours of sampled rows.
"""

from dataclasses import dataclass
from itertools import chain

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, IntMatrix, IntVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.neighbors.loops import smallest_k

CELL_ROWS = 140  # rows of a cell, about
N_ROUNDS = 3  # of k-means from the leaves of a tree
N_NEAR_CELLS = 16  # cells around each that are known
BLOCK_ROWS = 1024
VARIANCE_ROWS = 256  # rows of a part that tell in which column it has the largest variance, about


@dataclass(frozen=True, slots=True)
class InvertedFile:
    """Rows laid out cell by cell."""

    order: IntVector  # row at each place
    starts: IntVector  # place at which each cell begins, and the end
    centers: FloatMatrix
    nearest: IntMatrix  # of each cell: some of the others, itself first and then by distance

    def slices(self) -> list[slice]:
        """Places of each cell."""
        return [slice(int(a), int(b)) for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]

    def labels(self) -> IntVector:
        """Cell at each place."""
        return np.repeat(np.arange(len(self.centers), dtype=np.int32), np.diff(self.starts))

    def around(self, cell: int, n_rows: int) -> IntVector:
        """Places of the rows of a cell and of the nearest others, so many at least."""
        nearest = self.nearest[cell]
        counts = self.starts[nearest + 1] - self.starts[nearest]
        enough = nearest[: int(np.searchsorted(np.cumsum(counts), n_rows)) + 1]
        places = np.concatenate([np.arange(self.starts[a], self.starts[a + 1]) for a in enough])
        # Small cells may have small ones alone around them; any rows will do then.
        found = places if len(places) >= n_rows else np.union1d(places, np.arange(min(n_rows, len(self.order))))
        return found.astype(np.int32)


@dataclass(frozen=True, slots=True)
class Probes:
    """Which cells each row probes, and for each cell the rows that do; rows by their places."""

    cells: IntMatrix
    rows: IntVector
    starts: IntVector

    def probing(self, cell: int) -> IntVector:
        """Places of the rows that probe a cell, ascending."""
        return self.rows[self.starts[cell] : self.starts[cell + 1]]


def kd_leaves(rows: FloatMatrix, leaf_rows: int) -> list[IntVector]:
    """Split at the median of the column of largest variance, until no part is larger than a leaf."""

    def halves(part: IntVector) -> list[IntVector]:
        some = rows[part[:: max(1, len(part) // VARIANCE_ROWS)]]
        column = rows[part, some.var(axis=0).argmax()]
        order = np.argpartition(column, len(part) // 2)
        return [part[order[: len(part) // 2]], part[order[len(part) // 2 :]]]

    parts: list[IntVector] = [np.arange(len(rows), dtype=np.int32)]
    while len(parts[0]) > leaf_rows:
        parts = list(chain.from_iterable(ordered_map(halves, parts)))
    return parts


def inverted_file(rows: FloatMatrix, leaves: list[IntVector]) -> InvertedFile:
    """Cluster rows by a few rounds of k-means that begin with leaves.

    Leaves of a tree follow one another by nearness, and so do their cells.
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
    return InvertedFile(np.argsort(labels, kind="stable"), starts, centers, _nearest_centers(centers))


def probe_cells(rows: FloatMatrix, cells: InvertedFile, n_probes: int) -> Probes:
    """Let each row probe its own cell and those of the nearest centres, `n_probes` together."""
    labels = cells.labels()
    lists = np.empty((len(rows), n_probes), np.int32)

    def probe(part: slice) -> None:
        smallest_k(_own_first(rows[part], cells.centers, labels[part]), lists[part])

    for _ in ordered_map(probe, row_blocks(len(rows), BLOCK_ROWS)):
        pass
    n_cells = len(cells.centers)
    # Numbers of 16 bits are sorted in one go.
    flat = lists.ravel() if n_cells > 1 << 16 else lists.ravel().astype(np.uint16)
    probing = np.argsort(flat, kind="stable") // n_probes
    starts = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=n_cells))])
    return Probes(lists, probing.astype(np.int32), starts)


def choose_n_probes(
    rows: FloatMatrix, cells: InvertedFile, queries: IntVector, neighbors: IntMatrix, share: float
) -> tuple[int, float]:
    """Number of cells to probe so that a share of the neighbours of some rows is found, all by their places.

    Also returns the share of all rows that are in as many cells, nearest to one of these rows.
    """
    labels = cells.labels()

    def ranks(part: slice) -> IntMatrix:
        """At which place of the cells around a row its neighbours are, or it is seen from them if that is nearer."""
        own, others = queries[part], neighbors[part].ravel()
        k = neighbors.shape[1]
        from_own = _own_first(rows[own], cells.centers, labels[own]).argsort(axis=1).argsort(axis=1)
        seen = np.take_along_axis(from_own, labels[neighbors[part]], axis=1)
        back = _own_first(rows[others], cells.centers, labels[others])
        to_own = np.take_along_axis(back, np.repeat(labels[own], k)[:, None], axis=1)
        return np.asarray(np.minimum(seen, (back < to_own).sum(axis=1).reshape(seen.shape)))

    blocks = row_blocks(len(queries), max(1, BLOCK_ROWS // neighbors.shape[1]))
    found = np.sort(np.concatenate([part.ravel() for part in ordered_map(ranks, blocks)]))
    n_probes = int(found[max(0, int(np.ceil(share * len(found))) - 1)]) + 1
    sizes = np.diff(cells.starts)
    nearest = _own_first(rows[queries], cells.centers, labels[queries]).argsort(axis=1)[:, :n_probes]
    return n_probes, float(sizes[nearest].sum(axis=1).mean() / len(rows))


def _center_distances(rows: FloatMatrix, centers: FloatMatrix) -> FloatMatrix:
    """Half the squared distances of rows from centres, but for what is the same for all centres."""
    turned = centers.T.astype(np.float32)
    tile = np.asarray(rows @ -turned)
    tile += np.square(turned).sum(axis=0) / 2
    return tile


def _own_first(rows: FloatMatrix, centers: FloatMatrix, labels: IntVector) -> FloatMatrix:
    """Distances of this kind, the row's own cell before all others: of equal centres another may come first."""
    tile = _center_distances(rows, centers)
    tile[np.arange(len(rows)), labels] = -np.inf
    return tile


def nearest_center(rows: FloatMatrix, centers: FloatMatrix) -> IntVector:
    """Number of the centre nearest to each row."""

    def nearest(part: slice) -> IntVector:
        return np.asarray(_center_distances(rows[part], centers).argmin(axis=1))

    return np.concatenate(list(ordered_map(nearest, row_blocks(len(rows), BLOCK_ROWS))))


def _nearest_centers(centers: FloatMatrix) -> IntMatrix:
    """For each cell some others near it, itself first and then by distance."""
    numbers = np.arange(len(centers))
    n_around = min(len(centers), N_NEAR_CELLS)

    def nearest(part: slice) -> IntMatrix:
        distances = _own_first(centers[part].astype(np.float32), centers, numbers[part])
        near = np.argpartition(distances, n_around - 1, axis=1)[:, :n_around]
        order = np.argsort(np.take_along_axis(distances, near, axis=1), axis=1)
        return np.asarray(np.take_along_axis(near, order, axis=1))

    return np.concatenate(list(ordered_map(nearest, row_blocks(len(centers), BLOCK_ROWS))))
