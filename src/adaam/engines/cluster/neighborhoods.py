"""Who is a neighbour of whom, block by block, and by which share where rows tie at the last place."""

from typing import Any

import numpy as np

from adaam._typing import Column, IntVector
from adaam.engines.cluster.candidates import Table
from adaam.engines.cluster.columns import at_block, on_blocks
from adaam.engines.cluster.graph import ClusterGraph
from adaam.engines.cluster.links import Links
from adaam.engines.cluster.nearest import chosen_tables, nearest_tables
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cluster.task_kernels import TaskKernels
from adaam.engines.cluster.workers import Future
from adaam.engines.neighborhoods import tied_weights, widest


def neighbor_graph(
    X: ClusterRows, k: int, weights: Column, tolerance: float, task_bytes: int, kernels: TaskKernels
) -> ClusterGraph:
    """Find the k nearest others of each row; rows tied at the last place share it (`engines.neighborhoods`).

    Rows whose ties run past a search are searched for again, wider, until none is left.
    """
    workers, n = X.workers, len(X)
    held = on_blocks(weights, X.sizes, workers)
    limit = widest(n, k)
    width = min(k + 2, limit)
    tables: list[Future | None] = [*nearest_tables(X, width, weights, task_bytes, kernels)]
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
        tables = chosen_tables(X, chosen, width, weights, task_bytes, kernels)
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
