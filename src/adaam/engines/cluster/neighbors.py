"""Exact nearest neighbours by tasks: block pairs in rounds, each round within the bounds of those before it.

A task takes the rows of one block against those of some others, and runs the loops of `engines.neighbors` on them.
"""

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.cluster.graph import BlockNeighbors, ClusterGraph, added_sums, distance_sums
from adaam.engines.cluster.rows import ClusterRows, at_block, on_blocks
from adaam.engines.cluster.tasks import (
    WHOLE_BYTES,
    PairTask,
    Piece,
    TaskKernels,
    all_pairs,
    call_with,
    pair_tasks,
    partners_at_once,
    piece,
    starts,
)
from adaam.engines.cluster.workers import Future
from adaam.engines.columns import spread
from adaam.engines.neighbors import tiles
from adaam.engines.neighbors.ties import own_copies, tied_shares, widest


class FoundPairs(NamedTuple):
    """Pairs of a row of a block and another row, by its number among all, with squared distance and its weight."""

    rows: IntVector
    others: IntVector
    squares: FloatVector
    weights: FloatVector


class Table(NamedTuple):
    """Nearest others of each row of a block, nearest first; infinity where there are fewer."""

    others: IntMatrix
    squares: FloatMatrix
    weights: FloatMatrix

    def bounds(self) -> FloatVector:
        """Squared distance within which each row has all its neighbours."""
        return np.asarray(self.squares[:, -1])

    def pairs(self) -> FoundPairs:
        """Entries of the table."""
        known = np.isfinite(self.squares)
        return FoundPairs(np.nonzero(known)[0], self.others[known], self.squares[known], self.weights[known])


def nearest_tables(X: ClusterRows, k: int, weights: Column, task_bytes: int, kernels: TaskKernels) -> list[Future]:
    """Table of the k nearest others of each row, for each block.

    Each pair of blocks is looked at once and serves both. The first round is within blocks; later ones take ever more
    blocks at a time, and what is farther than the k-th neighbour known so far is never measured.
    """
    workers, n_blocks = X.workers, len(X.sizes)
    held, first = on_blocks(weights, X.sizes, workers), starts(X.sizes)
    group = partners_at_once(X.n_columns, len(X), n_blocks, task_bytes)
    whole = found_bytes(len(X), k) <= WHOLE_BYTES
    own_round, *rounds = pair_tasks(n_blocks, group, growing=True)

    def submit_own(task: PairTask) -> Future:
        work = partial(own_table, k, kernels)
        return workers.call("neighbours", work, X.parts[task.own], first[task.own], at_block(held, task.own))

    tables = [table for _, table in all_pairs(workers, "neighbours", [own_round], submit_own)]
    for tasks in rounds:

        def submit(task: PairTask, tables: list[Future] = tables) -> Future:
            blocks = [[X.parts[j], first[j], at_block(held, j), tables[j]] for j in task.blocks]
            return workers.call("neighbours", partial(pairs_between, kernels), blocks)

        found: list[list[Piece]] = [[] for _ in tables]
        for task, parts in all_pairs(workers, "neighbours", [tasks], submit):
            for place, index in enumerate(task.blocks):
                found[index].append(piece(workers, "neighbours-part", parts, place, whole))
        tables = [
            call_with(workers, "neighbours-merge", merged, parts, table) if parts else table
            for table, parts in zip(tables, found, strict=True)
        ]
    return tables


def found_bytes(n_rows: int, k: int) -> float:
    """Bytes of what a round finds, about: as many for each row as it has neighbours, for either side of a pair."""
    return 48.0 * n_rows * k


def chosen_tables(
    X: ClusterRows, chosen: list[Future | None], k: int, weights: Column, task_bytes: int
) -> list[Future | None]:
    """Table of the k nearest others of chosen rows of each block (None: of none), among all rows."""
    workers, n_blocks = X.workers, len(X.sizes)
    held, first = on_blocks(weights, X.sizes, workers), starts(X.sizes)
    group = partners_at_once(X.n_columns, len(X), n_blocks, task_bytes)
    tables: list[Future | None] = [None] * n_blocks
    for low in range(0, n_blocks, group):
        blocks = [[X.parts[j], first[j], at_block(held, j)] for j in range(low, min(low + group, n_blocks))]
        for i, rows in enumerate(chosen):
            if rows is not None:
                work = partial(nearest_of, k, first[i])
                tables[i] = workers.call("neighbours-wide", work, X.parts[i], rows, tables[i], blocks)
    return tables


def tables_of(
    X: ClusterRows, rows: IntVector, k: int, weights: Column, task_bytes: int
) -> tuple[IntMatrix, FloatMatrix]:
    """Indices and distances of the nearest others of some rows, here."""
    edges = (*starts(X.sizes), len(X))
    where = [np.flatnonzero((rows >= low) & (rows < high)) for low, high in pairwise(edges)]
    chosen = [
        X.workers.share("neighbours-rows", rows[place] - low) if len(place) else None
        for place, low in zip(where, edges[:-1], strict=True)
    ]
    tables = [table for table in chosen_tables(X, chosen, k, weights, task_bytes) if table is not None]
    indices, distances = np.empty((len(rows), k), np.int64), np.empty((len(rows), k))
    for place, table in zip([place for place in where if len(place)], X.workers.fetch(tables), strict=True):
        indices[place], distances[place] = table.others, np.sqrt(table.squares)
    return indices, distances


def neighbor_graph(
    X: ClusterRows, k: int, weights: Column, tolerance: float, task_bytes: int, kernels: TaskKernels
) -> ClusterGraph:
    """Find the k nearest others of each row; rows tied at the last place share it (`engines.neighbors.ties`).

    Rows whose ties run past a search are searched for again, wider, until none is left.
    """
    workers, n = X.workers, len(X)
    held = on_blocks(weights, X.sizes, workers)
    limit = widest(n, k)
    width = min(k + 2, limit)
    links: list[Future] = [
        workers.call("neighbours-links", linked, table, None, at_block(held, i), k, tolerance, width >= limit)
        for i, table in enumerate(nearest_tables(X, width, weights, task_bytes, kernels))
    ]
    while True:
        told = workers.fetch(
            [workers.call("neighbours-open", told_of, part, at_block(held, i)) for i, part in enumerate(links)]
        )
        counts = [count for count, _ in told]
        if not any(counts):
            distances = added_sums([sums for _, sums in told])
            return ClusterGraph(tuple(links), X.sizes, workers, n * k, weights, distances)
        width = min(2 * width, limit)
        chosen = [
            workers.call("neighbours-open", open_rows, part) if count else None
            for part, count in zip(links, counts, strict=True)
        ]
        for i, table in enumerate(chosen_tables(X, chosen, width, weights, task_bytes)):
            if table is not None:
                given = (at_block(held, i), k, tolerance, width >= limit)
                links[i] = workers.call("neighbours-links", linked, table, links[i], *given)


def own_table(k: int, kernels: TaskKernels, X: FloatMatrix, start: int, weights: Any) -> Table:
    """Nearest others within a block whose first row has the number `start`."""
    n, found = len(X), None
    if 4 * k < min(n, 1024) and kernels.compiled():
        from adaam.engines.neighbors import search

        # Writable: numba compiles once more for arrays that are not, such as those that came over a network.
        found = search.nearest_others(np.require(X, requirements=["C", "W"]), k, 1.0)
    elif 4 * k < n:
        found = tiles.nearest_others(np.asarray(X), k, kernels.tile_rows)
    if found is None and n > 1:
        found = tiles.brute_force(np.asarray(X), min(k, n - 1))
    table = Table(np.full((n, k), -1, np.int64), np.full((n, k), np.inf), np.zeros((n, k)))
    if found is not None:
        others, distances = found
        width = others.shape[1]
        table.others[:, :width], table.squares[:, :width] = others + start, np.square(distances)
        table.weights[:, :width] = spread(weights, n)[others]
    return table


def pairs_between(kernels: TaskKernels, blocks: list[Any]) -> list[FoundPairs]:
    """What each block finds in the first one, and the first one in all others, within the bounds of their tables."""
    rows, firsts, weights, tables = zip(*blocks, strict=True)
    X, bounds = np.concatenate(rows), np.concatenate([table.bounds() for table in tables])
    sizes = [len(part) for part in rows]
    numbers = np.concatenate([np.arange(first, first + size) for first, size in zip(firsts, sizes, strict=True)])
    held = np.concatenate([spread(part, size) for part, size in zip(weights, sizes, strict=True)])
    found: Any = None
    if kernels.compiled():
        from adaam.engines.neighbors import search

        found = search.block_pairs(X, bounds, sizes[0])
    if found is None:
        found = tiles.block_pairs(X, bounds, sizes[0], kernels.tile_rows)
    row, column, squares = found
    order = np.argsort(row, kind="stable")
    cuts = np.searchsorted(row[order], [0, *np.cumsum(sizes)])
    return [
        FoundPairs(row[mine] - row_start, numbers[column[mine]], squares[mine], held[column[mine]])
        for mine, row_start in zip(
            (order[low:high] for low, high in pairwise(cuts)), [0, *np.cumsum(sizes)[:-1]], strict=True
        )
    ]


def nearest_of(k: int, start: int, X: FloatMatrix, rows: IntVector, known: Table | None, others: list[Any]) -> Table:
    """Table of chosen rows of a block, after a look at some more blocks."""
    found = [] if known is None else [known.pairs()]
    for Y, first, weights in others:
        # One more than k: each row finds itself too, and copies may come before it.
        width = min(k + 1, len(Y))
        column, distances = tiles.brute_force(np.asarray(Y), width, X[rows])
        apart = (column + first != rows[:, None] + start).ravel()
        row, other = np.repeat(np.arange(len(rows)), width)[apart], column.ravel()[apart]
        squares = np.square(distances).ravel()[apart]
        found.append(FoundPairs(row, other + first, squares, spread(weights, len(Y))[other]))
    return best(len(rows), k, found)


def merged(parts: list[FoundPairs], table: Table) -> Table:
    """Table with what another round found."""
    return best(len(table.others), table.others.shape[1], [table.pairs(), *parts])


def best(n_rows: int, k: int, parts: list[FoundPairs]) -> Table:
    """The k nearest of all that was found, the lower number first on a tie."""
    row, other, squares, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((other, squares, row))
    counts = np.bincount(row, minlength=n_rows)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    order, place = order[place < k], place[place < k]
    table = Table(np.full((n_rows, k), -1, np.int64), np.full((n_rows, k), np.inf), np.zeros((n_rows, k)))
    for out, values in zip(table, (other, squares, weights), strict=True):
        out[row[order], place] = values[order]
    return table


def linked(
    table: Table, known: BlockNeighbors | None, weights: Any, k: int, tolerance: float, last: bool
) -> BlockNeighbors:
    """Links of all rows of a block by their table, or with those known, of the rows that were left open."""
    n_rows = len(table.others) if known is None else len(known.starts) - 1
    rows = np.arange(n_rows) if known is None else known.open
    copies = spread(own_copies(weights, k), n_rows)
    distances = np.sqrt(table.squares)
    with np.errstate(invalid="ignore"):  # infinity less infinity: places that no row takes
        shares, whole = tied_shares(table.weights, distances, k - copies[rows, None], tolerance, last)
    taken = (shares > 0) & whole[:, None]
    found = [
        (np.repeat(rows, taken.sum(axis=1)), table.others[taken], distances[taken], shares[taken], table.weights[taken])
    ]
    if known is not None:
        found.append((known.rows(), known.indices, known.distances, known.shares, known.weights))
    row, others, lengths, parts, held = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(row, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))])
    return BlockNeighbors(starts, others[order], lengths[order], parts[order], held[order], copies, rows[~whole])


def open_rows(links: BlockNeighbors) -> IntVector:
    """Rows to be searched for again."""
    return links.open


def told_of(links: BlockNeighbors, weights: Any) -> tuple[int, tuple[float, float]]:
    """Number of rows to be searched for again, and the sum and number of the distances of others."""
    return len(links.open), distance_sums(links, weights)
