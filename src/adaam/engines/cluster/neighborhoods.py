"""Who is a neighbour of whom, block by block, and by which share where rows tie at the last place."""

from typing import Any

import numpy as np

from adaam._typing import Column, IntVector
from adaam.engines.cluster.candidates import Table
from adaam.engines.cluster.columns import at_block, on_blocks
from adaam.engines.cluster.graph import ClusterGraph, added_sums, distance_sums
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
        for i, table in enumerate(chosen_tables(X, chosen, width, weights, task_bytes, kernels)):
            if table is not None:
                given = (at_block(held, i), k, tolerance, width >= limit)
                links[i] = workers.call("neighbours-links", linked, table, links[i], *given)


def linked(table: Table, known: Links | None, weights: Any, k: int, tolerance: float, last: bool) -> Links:
    """Links of all rows of a block by their table, or with those known, of the rows that were left open."""
    if known is None:
        n_rows, parts = len(table.others), []
        rows = np.arange(n_rows)
    else:
        n_rows, rows = len(known.starts) - 1, known.open
        parts = [(known.rows(), known.indices, known.distances, known.shares, known.weights)]
    entries, still_open = shared_places(table, rows, weights, k, tolerance, last)
    return as_links(n_rows, weights, k, [*parts, entries], still_open)


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


def open_rows(links: Links) -> IntVector:
    """Rows to be searched for again."""
    return links.open


def told_of(links: Links, weights: Any) -> tuple[int, tuple[float, float]]:
    """Number of rows to be searched for again, and the sum and number of the distances of others."""
    return len(links.open), distance_sums(links, weights)


def as_links(n_rows: int, weights: Any, k: int, found: list[tuple[Any, ...]], still_open: IntVector) -> Links:
    """Put the entries of all searches into compressed rows."""
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
    return Links(np.concatenate([[0], np.cumsum(counts)]), indices, distances, shares, held, copies, still_open)
