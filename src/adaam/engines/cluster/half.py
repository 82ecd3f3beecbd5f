"""Half of a symmetric affinity in row blocks: each edge at the row it points to, where both its shares are known."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector, Sparse
from adaam.engines.cluster.columns import ClusterColumn, at_block, on_blocks
from adaam.engines.cluster.layout import Sizes, added, starts
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cluster.tasks import PairTask, RunningSum, all_pairs, exchanged, pair_tasks, partners_at_once
from adaam.engines.cluster.workers import Future, Workers
from adaam.engines.neighbors.graph import FittedHeat, HostHalf, pair_weights


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
