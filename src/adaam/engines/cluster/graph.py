"""The nearest-neighbour graph in row blocks on the workers: its connected pieces, and the affinity of its edges."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array, vstack
from scipy.sparse.csgraph import connected_components

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector, Sparse
from adaam.engines.cluster.rows import ClusterColumn, ClusterRows, at_block, on_blocks
from adaam.engines.cluster.tasks import (
    PairTask,
    RunningSum,
    Sizes,
    added,
    all_pairs,
    exchanged,
    pair_tasks,
    partners_at_once,
    starts,
)
from adaam.engines.cluster.workers import Future, Workers
from adaam.engines.links import Links
from adaam.engines.neighbors.graph import FittedHeat, HostHalf, NeighborGraph, pair_weights

PIECES_FOLD = 4  # sets of links joined by one task


class BlockNeighbors(NamedTuple):
    """Neighbours of the rows of a block: compressed rows, numbers among all rows, and as in `NeighborGraph`."""

    starts: IntVector
    indices: IntVector
    distances: FloatVector
    shares: FloatVector
    weights: FloatVector  # of the neighbours
    copies: FloatVector
    open: IntVector  # rows that are left out, for their ties were not seen whole

    def rows(self) -> IntVector:
        """Row of the block that each entry belongs to."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


def piece_sizes(links: tuple[Future, ...], sizes: Sizes, workers: Workers) -> IntVector:
    """Rows in each piece, directions ignored, largest first."""
    stars = [workers.call("pieces", links_to_stars, part, i) for part, i in zip(links, starts(sizes), strict=True)]
    while len(stars) > 1:
        stars = [
            workers.call("pieces", joined_stars, stars[i : i + PIECES_FOLD]) for i in range(0, len(stars), PIECES_FOLD)
        ]
    found: IntVector = workers.fetch([workers.call("pieces", star_sizes, stars[0])])[0]
    return found


def links_to_stars(links: BlockNeighbors, start: int) -> tuple[IntVector, IntVector]:
    """Rows that a block links, each with the lowest row it is joined to."""
    own = np.arange(start, start + len(links.starts) - 1)
    return _stars(np.concatenate([own, links.rows() + start]), np.concatenate([own, links.indices]))


def joined_stars(parts: list[tuple[IntVector, IntVector]]) -> tuple[IntVector, IntVector]:
    """Join what several blocks have joined."""
    return _stars(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def star_sizes(stars: tuple[IntVector, IntVector]) -> IntVector:
    """Rows of each piece, largest first."""
    sizes = np.unique(stars[1], return_counts=True)[1]
    return np.sort(sizes)[::-1]


def _stars(ends: IntVector, others: IntVector) -> tuple[IntVector, IntVector]:
    nodes, where = np.unique(np.concatenate([ends, others]), return_inverse=True)
    i, j = where[: len(ends)], where[len(ends) :]
    edges = coo_array((np.ones(len(i), np.int8), (i, j)), shape=(len(nodes), len(nodes)))
    n_pieces, piece = connected_components(edges, directed=False)
    lowest = np.full(n_pieces, len(nodes))
    np.minimum.at(lowest, piece, np.arange(len(nodes)))
    return nodes, nodes[lowest[piece]]


@dataclass(frozen=True, slots=True, eq=False)
class ClusterHalf:
    """K of an affinity K + K', as sparse row blocks with all columns."""

    parts: tuple[Future, ...]
    sizes: Sizes
    n_entries: int
    workers: Workers

    def host(self) -> csr_array:
        """Bring all entries to the client."""
        return csr_array(vstack(self.workers.fetch(self.parts), format="csr"))

    def gram(self, X: ClusterRows) -> FloatMatrix:
        """Return X' K X, in float64."""
        return sparse_gram(self, X, X.workers.task_bytes())

    def degrees(self) -> ClusterColumn:
        """Row sums of K + K'."""
        workers, edges = self.workers, (*starts(self.sizes), sum(self.sizes))
        sums = [workers.call("degrees", column_sums, part, edges) for part in self.parts]
        parts = exchanged(
            workers, "degrees", sums, len(sums), 16.0 * self.n_entries, summed_rows, lambda i: [self.parts[i]]
        )
        return ClusterColumn(tuple(parts), self.sizes, workers)


class ClientHalf(HostHalf):
    """Half of an affinity that the client has; its entries are split when they meet rows on the workers."""

    def gram(self, X: ClusterRows) -> FloatMatrix:
        """Return X' H X, in float64."""
        return host_half(self.matrix, X.sizes, X.workers).gram(X)


class Sent(NamedTuple):
    """Entries (i, j) of a graph on their way to the block of j: what is known of them where i is."""

    rows: IntVector  # j, within its block
    sources: IntVector  # i, among all rows
    distances: FloatVector
    shares: FloatVector
    bandwidths: Any
    weights: Any


def heat_half(
    links: tuple[Future, ...], sizes: Sizes, n_entries: int, heat: FittedHeat, weights: Column, workers: Workers
) -> ClusterHalf:
    """Weigh the edges of a graph whose distances are the same both ways.

    Every edge is sent to the block of the row it points to. There its two shares f and g meet, and it gets its part
    f(1 - g/2) of the pair's f + g - fg.
    """
    held, widths = (on_blocks(column, sizes, workers) for column in (weights, heat.bandwidths))
    edges = (*starts(sizes), sum(sizes))
    pieces = [
        workers.call("heat-split", sent_edges, part, edges[i], at_block(widths, i), at_block(held, i), edges)
        for i, part in enumerate(links)
    ]

    def given(index: int) -> list[Any]:
        return [links[index], edges[index], at_block(widths, index), at_block(held, index), heat.power, edges[-1]]

    parts = exchanged(workers, "heat", pieces, len(links), 40.0 * n_entries, weighed_edges, given)
    return ClusterHalf(tuple(parts), sizes, n_entries, workers)


def host_half(entries: Sparse, sizes: Sizes, workers: Workers) -> ClusterHalf:
    """Split a sparse matrix of the client's."""
    rows = csr_array(entries)
    parts = [workers.share("entries", rows[a : a + size]) for a, size in zip(starts(sizes), sizes, strict=True)]
    return ClusterHalf(tuple(parts), sizes, rows.nnz, workers)


def sparse_gram(half: ClusterHalf, X: ClusterRows, task_bytes: int) -> FloatMatrix:
    """X'KX, over block pairs."""
    workers, first, n_blocks = X.workers, starts(X.sizes), len(X.sizes)
    group = partners_at_once(X.n_columns, len(X), n_blocks, task_bytes)

    def block(index: int) -> list[Any]:
        return [half.parts[index], X.parts[index], first[index]]

    def submit(task: PairTask) -> Future:
        if n_blocks <= group:
            return workers.call("graph-gram", gram_rows, half.parts[task.own], X.parts[task.own], list(X.parts))
        return workers.call("graph-gram", gram_part, block(task.own), [block(j) for j in task.others], task.with_own)

    # Where a task can hold all rows, each takes one block of K with all of its columns: half the dense products.
    rounds = pair_tasks(n_blocks, group) if n_blocks > group else [[PairTask(i, (), True) for i in range(n_blocks)]]
    total = RunningSum(workers, "graph-gram-sum", added)
    for _, part in all_pairs(workers, "graph pairs", rounds, submit):
        total.add(part)
    gram: FloatMatrix = workers.fetch([total.result()])[0]
    return gram


def sent_edges(links: Any, start: int, bandwidths: Any, weights: Any, edges: tuple[int, ...]) -> list[Sent]:
    """Edges of a block, sorted by the block of the row they point to."""
    source = links.rows()
    order = np.argsort(links.indices, kind="stable")
    cuts = np.searchsorted(links.indices[order], edges)
    sent = []
    for low, high, first in zip(cuts[:-1], cuts[1:], edges[:-1], strict=True):
        taken = order[low:high]
        bandwidth, weight = (
            column if isinstance(column, float) else column[source[taken]] for column in (bandwidths, weights)
        )
        place = (links.indices[taken] - first, source[taken] + start)
        sent.append(Sent(*place, links.distances[taken], links.shares[taken], bandwidth, weight))
    return sent


def weighed_edges(
    pieces: list[Sent], links: Any, start: int, bandwidths: Any, weights: Any, power: int, n_rows: int
) -> csr_array:
    """Entries of K in the rows that edges point to; copies of a row are linked with weight 1."""
    height = len(links.starts) - 1
    row, source, distances, f = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in Sent._fields[:4]
    )
    pair_bandwidth: Any = bandwidths
    if not isinstance(bandwidths, float):
        pair_bandwidth = np.sqrt(bandwidths[row]) * np.sqrt(np.concatenate([piece.bandwidths for piece in pieces]))
    values = pair_weights(distances, pair_bandwidth, power)
    # The share of the edge back, 0 where there is none.
    back = links.rows() * n_rows + links.indices
    order = np.argsort(back)
    wanted = row * n_rows + source
    place = np.minimum(np.searchsorted(back, wanted, sorter=order), max(len(back) - 1, 0))
    g = np.zeros(len(row))
    if len(back):
        at = order[place]
        g = np.where(back[at] == wanted, links.shares[at], 0.0)
    data = values * f * (1.0 - g / 2)
    if not isinstance(weights, float):
        data *= weights[row] * np.concatenate([piece.weights for piece in pieces])
        twins = np.flatnonzero(links.copies)
        row, source = np.concatenate([row, twins]), np.concatenate([source, twins + start])
        data = np.concatenate([data, (weights * links.copies / 2)[twins]])
    return csr_array((data, (row, source)), shape=(height, n_rows))


def column_sums(half: csr_array, edges: tuple[int, ...]) -> list[tuple[IntVector, FloatVector]]:
    """Column sums of a block, sparse, by the block that owns the columns."""
    columns, where = np.unique(half.indices, return_inverse=True)
    sums = np.bincount(where, half.data, len(columns))
    cuts = np.searchsorted(columns, edges)
    return [
        (columns[low:high] - first, sums[low:high])
        for low, high, first in zip(cuts[:-1], cuts[1:], edges[:-1], strict=True)
    ]


def summed_rows(pieces: list[tuple[IntVector, FloatVector]], half: csr_array) -> FloatVector:
    """Row sums of a block of K, and the column sums that all blocks have sent."""
    total = np.asarray(half.sum(axis=1), dtype=np.float64).ravel()
    for columns, sums in pieces:
        total[columns] += sums
    return total


def gram_rows(K: csr_array, X: FloatMatrix, blocks: list[FloatMatrix]) -> FloatMatrix:
    """What the rows of a block of K add to X'KX."""
    along = np.zeros(X.shape)
    start = 0
    for Y in blocks:
        along += K[:, start : start + len(Y)] @ Y
        start += len(Y)
    return np.asarray(np.asarray(X, np.float64).T @ along)


def gram_part(own: Any, others: list[Any], with_own: bool) -> FloatMatrix:
    """What the entries between a block and others, both ways, add to X'KX."""
    K, X, start = own
    along, back = np.zeros(X.shape), np.zeros(X.shape)
    if with_own:
        along += K[:, start : start + len(X)] @ X
    for other_K, Y, other_start in others:
        along += K[:, other_start : other_start + len(Y)] @ Y
        back += other_K[:, start : start + len(X)].T @ Y
    wide = np.asarray(X, np.float64)
    return np.asarray(wide.T @ along + back.T @ wide)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterGraph:
    """Neighbours of each row; see `NeighborGraph`. What leaves the workers unasked is free of n."""

    parts: tuple[Future, ...]
    sizes: Sizes
    workers: Workers
    n_entries: int
    weights: Column  # of the rows it was made of
    distances: tuple[float, float]  # their sum and number, with these weights and copies counted

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.sizes)

    def host(self) -> NeighborGraph:
        """Bring the graph to the client."""
        blocks: list[BlockNeighbors] = self.workers.fetch(self.parts)
        counts = np.concatenate([np.diff(block.starts) for block in blocks])
        indices, distances, shares, copies = (
            np.concatenate([getattr(block, name) for block in blocks])
            for name in ("indices", "distances", "shares", "copies")
        )
        return NeighborGraph(
            np.concatenate([[0], np.cumsum(counts)]), indices, distances, shares, copies, measured=True
        )

    def mean_distance(self, weights: Column) -> float:
        """Mean of all neighbour distances, copies counted."""
        distance, counted = self.distances if weights is self.weights else self._distances(weights)
        return float(distance / counted) if counted > 0 else 0.0

    def _distances(self, weights: Column) -> tuple[float, float]:
        held = on_blocks(weights, self.sizes, self.workers)
        parts = [
            self.workers.call("mean-distance", distance_sums, part, at_block(held, i))
            for i, part in enumerate(self.parts)
        ]
        return added_sums(self.workers.fetch(parts))

    def farthest(self) -> ClusterColumn:
        """Distance of each row to its farthest neighbour; 0 without any."""
        parts = tuple(self.workers.call("farthest", farthest, part) for part in self.parts)
        return ClusterColumn(parts, self.sizes, self.workers)

    def piece_sizes(self) -> IntVector:
        """Rows in each connected piece, directions ignored, largest first."""
        return piece_sizes(self.parts, self.sizes, self.workers)

    def links(self, weights: FloatVector) -> Links:
        """Links that the neighbours make, on the host."""
        return self.host().links(weights)

    def heat_half(self, heat: FittedHeat, weights: Column) -> ClusterHalf:
        """Half of the affinity of heat weights, the larger of a pair's two; copies of a row weigh 1."""
        return heat_half(self.parts, self.sizes, self.n_entries, heat, weights, self.workers)


def added_sums(parts: list[tuple[float, float]]) -> tuple[float, float]:
    """Add up sums and numbers of distances, in the order of blocks."""
    distance, counted = (sum(numbers) for numbers in zip(*parts, strict=True))
    return distance, counted


def distance_sums(links: BlockNeighbors, weights: Any) -> tuple[float, float]:
    """Sum of the distances of a block, and number of neighbours, copies counted."""
    taken = links.shares
    if not isinstance(weights, float):
        taken = taken * weights[links.rows()] * links.weights
    return float(taken @ links.distances), float(taken.sum() + (weights * links.copies).sum())


def farthest(links: BlockNeighbors) -> FloatVector:
    """Distance to the farthest neighbour."""
    out = np.zeros(len(links.starts) - 1)
    np.maximum.at(out, links.rows(), links.distances)
    return out
