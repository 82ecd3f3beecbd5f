"""Exact nearest neighbours of all rows: block pairs in rounds, each round within the bounds of those before it."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.cluster.candidates import Found, Table, best, between, both_ways, listed, own_table
from adaam.engines.cluster.columns import at_block, on_blocks
from adaam.engines.cluster.exchange import WHOLE_BYTES
from adaam.engines.cluster.layout import starts
from adaam.engines.cluster.pairs import (
    PairTask,
    Piece,
    all_pairs,
    block_bytes,
    call_with,
    pair_tasks,
    partners_at_once,
    piece,
)
from adaam.engines.cluster.rows import ClusterRows, Lengths
from adaam.engines.cluster.task_kernels import TaskKernels
from adaam.engines.cluster.workers import Future
from adaam.engines.kernels.block_neighbors import block_frame
from adaam.engines.kernels.narrow import Frame

Numbered = tuple[FloatMatrix, int, Any]  # rows, number of the first one, weights


def nearest_tables(X: ClusterRows, k: int, weights: Column, task_bytes: int, kernels: TaskKernels) -> list[Future]:
    """Table of the k nearest others of each row, for each block.

    Each pair of blocks is looked at once and serves both. The first round is within blocks; later ones take ever more
    blocks at a time, and what is farther than the k-th neighbour known so far is never measured.
    """
    workers, n_blocks = X.workers, len(X.sizes)
    held, first = on_blocks(weights, X.sizes, workers), starts(X.sizes)
    group = partners_at_once(block_bytes(X.n_columns, len(X), n_blocks), task_bytes)
    whole = found_bytes(len(X), k) <= WHOLE_BYTES
    own_rounds, *rounds = pair_tasks(n_blocks, group, growing=True)

    def submit_own(task: PairTask) -> Future:
        i = task.own
        return workers.call(
            "neighbours", partial(own_table, k=k, kernels=kernels), X.parts[i], first[i], at_block(held, i)
        )

    tables = [table for _, table in all_pairs(workers, "neighbours", [own_rounds], submit_own)]
    # One frame for all blocks: what a worker makes of a block in it serves all tasks.
    frame = workers.call("neighbours-frame", frame_of, X.parts[0], X.lengths())
    for tasks in rounds:

        def block(index: int, tables: list[Future] = tables) -> list[Any]:
            return [X.parts[index], first[index], at_block(held, index), tables[index]]

        def submit(task: PairTask, block: Any = block) -> Future:
            work = partial(nearest_between, k, kernels)
            return workers.call("neighbours", work, frame, block(task.own), [block(j) for j in task.others])

        found: list[list[Piece]] = [[] for _ in tables]
        for task, parts in all_pairs(workers, "neighbours", [tasks], submit):
            for place, index in enumerate((task.own, *task.others)):
                found[index].append(piece(workers, "neighbours-part", parts, place, whole))
        tables = [
            call_with(workers, "neighbours-merge", merged, parts, table, kernels) if parts else table
            for table, parts in zip(tables, found, strict=True)
        ]
    return tables


def found_bytes(n_rows: int, k: int) -> float:
    """Bytes of what a round finds, about: as many for each row as it has neighbours, for either side of a pair."""
    return 48.0 * n_rows * k


def chosen_tables(
    X: ClusterRows, chosen: list[Future | None], k: int, weights: Column, task_bytes: int, kernels: TaskKernels
) -> list[Future | None]:
    """Table of the k nearest others of chosen rows of each block (None: of none), among all rows."""
    workers, n_blocks = X.workers, len(X.sizes)
    held, first = on_blocks(weights, X.sizes, workers), starts(X.sizes)
    group = partners_at_once(block_bytes(X.n_columns, len(X), n_blocks), task_bytes)
    tables: list[Future | None] = [None] * n_blocks
    for low in range(0, n_blocks, group):
        blocks = [[X.parts[j], first[j], at_block(held, j)] for j in range(low, min(low + group, n_blocks))]
        for i, rows in enumerate(chosen):
            if rows is not None:
                work = partial(nearest_of, k, kernels, first[i])
                tables[i] = workers.call("neighbours-wide", work, X.parts[i], rows, tables[i], blocks)
    return tables


def frame_of(X: FloatMatrix, lengths: list[Lengths]) -> Frame:
    """Frame of a block's rows for all blocks."""
    return block_frame(np.asarray(X), max(found.longest for found in lengths))


def nearest_between(k: int, kernels: TaskKernels, frame: Frame, own: Any, others: list[Any]) -> list[Found]:
    """What a block and others find in each other, one's own first."""
    X, start, weights, table = own
    mine, yours = [], []
    bounds = [table.bounds(), *(other[3].bounds() for other in others)]
    found = both_ways([X, *(other[0] for other in others)], bounds, k, frame, kernels)
    for (_, other_start, other_weights, _), (near, far) in zip(others, found, strict=True):
        mine.append(_found(near, other_start, other_weights))
        yours.append(_found(far, start, weights))
    return [_together(mine), *yours]


def nearest_of(
    k: int,
    kernels: TaskKernels,
    start: int,
    X: FloatMatrix,
    rows: IntVector,
    known: Table | None,
    others: list[Numbered],
) -> Table:
    """Table of chosen rows of a block, after a look at some more blocks."""
    queries, found = X[rows], [] if known is None else [listed(known)]
    bounds = np.full(len(rows), np.inf) if known is None else known.bounds()
    for Y, other_start, weights in others:
        # One more than k: each row finds itself too, and copies may come before it.
        row, column, squares = between(queries, Y, (bounds, None), min(k + 1, len(Y)), kernels.tile_rows)[0]
        apart = rows[row] + start != column + other_start
        found.append(_found((row[apart], column[apart], squares[apart]), other_start, weights))
    return best(len(rows), k, found, kernels)


def merged(parts: list[Found], table: Table, kernels: TaskKernels) -> Table:
    """Table with what another round found."""
    return best(len(table.others), table.others.shape[1], [listed(table), *parts], kernels)


def _found(pairs: tuple[IntVector, IntVector, FloatVector], start: int, weights: Any) -> Found:
    row, column, squares = pairs
    return Found(row, column + start, squares, None if isinstance(weights, float) else weights[column])


def _together(parts: list[Found]) -> Found:
    rows, others, squares = (np.concatenate(part) for part in list(zip(*parts, strict=True))[:3])
    held = (
        None
        if parts[0].weights is None
        else np.concatenate([part.weights for part in parts if part.weights is not None])
    )
    return Found(rows, others, squares, held)


def tables_of(
    X: ClusterRows, rows: IntVector, k: int, weights: Column, task_bytes: int, kernels: TaskKernels
) -> tuple[IntMatrix, FloatMatrix]:
    """Indices and distances of the nearest others of some rows, here."""
    edges = (*starts(X.sizes), len(X))
    where = [np.flatnonzero((rows >= low) & (rows < high)) for low, high in pairwise(edges)]
    chosen = [
        X.workers.share("neighbours-rows", rows[place] - low) if len(place) else None
        for place, low in zip(where, edges[:-1], strict=True)
    ]
    tables = [table for table in chosen_tables(X, chosen, k, weights, task_bytes, kernels) if table is not None]
    indices, distances = np.empty((len(rows), k), np.int64), np.empty((len(rows), k))
    for place, table in zip([place for place in where if len(place)], X.workers.fetch(tables), strict=True):
        indices[place], distances[place] = table.others, np.sqrt(table.squares)
    return indices, distances
