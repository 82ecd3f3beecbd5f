"""The nearest-neighbour graph in row blocks on the workers."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from adaam._typing import Column, FloatVector, IntVector
from adaam.engines.cluster.candidates import Table
from adaam.engines.cluster.columns import ClusterColumn, at_block, on_blocks
from adaam.engines.cluster.half import ClusterHalf, heat_half
from adaam.engines.cluster.layout import Sizes, starts
from adaam.engines.cluster.nearest import chosen_tables, nearest_tables
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cluster.workers import Future, Workers
from adaam.engines.heat import FittedHeat
from adaam.engines.neighbor_graph import NeighborGraph
from adaam.engines.neighborhoods import tied_weights, widest

FOLD = 4  # sets of links joined by one task


class Links(NamedTuple):
    """Neighbours of the rows of a block: compressed rows, numbers among all rows, and as in `NeighborGraph`."""

    starts: IntVector
    indices: IntVector
    distances: FloatVector
    shares: FloatVector
    weights: FloatVector | None  # of the neighbours; None where all weigh 1
    copies: FloatVector

    def rows(self) -> IntVector:
        """Row of the block that each entry belongs to."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


@dataclass(frozen=True, slots=True, eq=False)
class ClusterGraph:
    """Neighbours of each row; see `NeighborGraph`. What leaves the workers unasked is free of n."""

    parts: tuple[Future, ...]
    sizes: Sizes
    workers: Workers
    n_entries: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.sizes)

    def host(self) -> NeighborGraph:
        """Bring the graph to the client."""
        blocks: list[Links] = self.workers.fetch(self.parts)
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
        held = on_blocks(weights, self.sizes, self.workers)
        parts = [
            self.workers.call("mean-distance", distance_sums, part, at_block(held, i))
            for i, part in enumerate(self.parts)
        ]
        distance, counted = (sum(numbers) for numbers in zip(*self.workers.fetch(parts), strict=True))
        return float(distance / counted) if counted > 0 else 0.0

    def farthest(self) -> ClusterColumn:
        """Distance of each row to its farthest neighbour; 0 without any."""
        parts = tuple(self.workers.call("farthest", farthest, part) for part in self.parts)
        return ClusterColumn(parts, self.sizes, self.workers)

    def piece_sizes(self) -> IntVector:
        """Rows in each connected piece, directions ignored, largest first."""
        call = self.workers.call
        stars = [
            call("pieces", links_to_stars, part, i) for part, i in zip(self.parts, starts(self.sizes), strict=True)
        ]
        while len(stars) > 1:
            stars = [call("pieces", joined_stars, stars[i : i + FOLD]) for i in range(0, len(stars), FOLD)]
        sizes: IntVector = self.workers.fetch([call("pieces", star_sizes, stars[0])])[0]
        return sizes

    def heat_half(self, heat: FittedHeat, weights: Column) -> ClusterHalf:
        """Half of the affinity of heat weights, the larger of a pair's two; copies of a row weigh 1."""
        return heat_half(self.parts, self.sizes, self.n_entries, heat, weights, self.workers)


def neighbor_graph(
    X: ClusterRows, k: int, weights: Column, tolerance: float, task_bytes: int, tile_rows: int
) -> ClusterGraph:
    """Find the k nearest others of each row; rows tied at the last place share it (`engines.neighborhoods`).

    Rows whose ties run past a search are searched for again, wider, until none is left.
    """
    workers, n = X.workers, len(X)
    held = on_blocks(weights, X.sizes, workers)
    limit = widest(n, k)
    width = min(k + 2, limit)
    tables: list[Future | None] = [*nearest_tables(X, width, weights, task_bytes, tile_rows)]
    chosen: list[Future | None] = [workers.call("neighbours-rows", np.arange, size) for size in X.sizes]
    shared: list[list[Future]] = [[] for _ in X.sizes]
    while True:
        last = width >= limit
        opened: list[Future | None] = [None] * len(tables)
        for i, table in enumerate(tables):
            if table is not None:
                part = workers.call(
                    "neighbours-shares", shared_places, table, chosen[i], at_block(held, i), k, tolerance, last
                )
                shared[i].append(part)
                opened[i] = workers.call("neighbours-open", open_rows, part)
        counts = workers.fetch([workers.call("neighbours-open", len, rows) for rows in opened if rows is not None])
        n_open = iter(counts)
        chosen = [None if rows is None or next(n_open) == 0 else rows for rows in opened]
        if all(rows is None for rows in chosen):
            break
        width = min(2 * width, limit)
        tables = chosen_tables(X, chosen, width, weights, task_bytes, tile_rows)
    parts = [
        workers.call("neighbours-links", as_links, size, at_block(held, i), k, found)
        for i, (size, found) in enumerate(zip(X.sizes, shared, strict=True))
    ]
    return ClusterGraph(tuple(parts), X.sizes, workers, n * k)


def shared_places(
    table: Table, rows: IntVector, weights: Any, k: int, tolerance: float, last: bool
) -> tuple[tuple[Any, ...], IntVector]:
    """Entries of the rows whose ties are seen whole, and the rows whose ties are not."""
    distances = np.sqrt(table.squares)
    known = np.isfinite(distances)
    held = np.ones(distances.shape) if table.weights is None else table.weights
    own = np.ones(len(rows)) if isinstance(weights, float) else weights[rows]
    places = (k - np.clip(own - 1.0, 0.0, k))[:, None]
    with np.errstate(invalid="ignore"):  # infinity less infinity: places that no row takes
        before, total = tied_weights(held, distances, tolerance)
    whole: Any = (before[:, -1:] >= places).all(axis=1) | last
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.where(known, np.clip((places - before) / total, 0.0, 1.0), 0.0)
    taken = (shares > 0) & whole[:, None]
    entries = (
        np.repeat(rows, taken.sum(axis=1)),
        table.others[taken],
        distances[taken],
        shares[taken],
        None if table.weights is None else held[taken],
    )
    return entries, rows[~whole]


def open_rows(part: tuple[Any, IntVector]) -> IntVector:
    """Rows to be searched for again."""
    return part[1]


def as_links(n_rows: int, weights: Any, k: int, parts: list[tuple[tuple[Any, ...], IntVector]]) -> Links:
    """Put the entries of all searches into compressed rows."""
    found = [entries for entries, _ in parts]
    row = np.concatenate([entries[0] for entries in found])
    order = np.argsort(row, kind="stable")
    counts = np.bincount(row, minlength=n_rows)
    indices, distances, shares, held = (
        None if found[0][place] is None else np.concatenate([entries[place] for entries in found])[order]
        for place in (1, 2, 3, 4)
    )
    copies = np.zeros(n_rows) if isinstance(weights, float) else np.clip(weights - 1.0, 0.0, k)
    assert indices is not None
    assert distances is not None
    assert shares is not None
    return Links(np.concatenate([[0], np.cumsum(counts)]), indices, distances, shares, held, copies)


def distance_sums(links: Links, weights: Any) -> tuple[float, float]:
    """Sum of the distances of a block, and number of neighbours, copies counted."""
    taken = links.shares
    if not isinstance(weights, float):
        taken = taken * weights[links.rows()] * (1.0 if links.weights is None else links.weights)
    return float(taken @ links.distances), float(taken.sum() + (weights * links.copies).sum())


def farthest(links: Links) -> FloatVector:
    """Distance to the farthest neighbour."""
    out = np.zeros(len(links.starts) - 1)
    np.maximum.at(out, links.rows(), links.distances)
    return out


def links_to_stars(links: Links, start: int) -> tuple[IntVector, IntVector]:
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
