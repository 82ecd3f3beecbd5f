"""Nearest neighbours by compiled kernels: a good guess of them bounds their distances, one pass proves it.

The pass looks at all pairs in a few leading columns (`kernels.narrow`), and only the few that these leave open are
measured in all. Of many rows it looks at pairs alone of which one asks for the cluster of the other
(`kernels.near_clusters`). How many clusters to ask for is told by the true neighbours of some rows. How many neighbours
that finds is measured on other rows. Where they are too few, or where too many clusters would have to be asked for, the
pass goes over all pairs.
"""

from types import ModuleType

import numpy as np

from adaam._typing import FloatMatrix, IntMatrix, IntVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.kernels.candidates import MAX_CANDIDATES, Pairs, Search, among_all, among_asked, from_some, joined
from adaam.engines.kernels.guesses import LEAF_ROWS, around, guessed, leaves, trees
from adaam.engines.kernels.narrow import (
    LARGEST,
    SMALLEST,
    Leading,
    NarrowRows,
    common_frame,
    first_columns,
    leading_columns,
    telling_columns,
)
from adaam.engines.kernels.near_clusters import CLUSTER_ROWS, NearClusters, asked, n_to_ask, near_clusters

MAX_NEIGHBORS = 256  # past it lists are too long to be kept by insertion
MANY_ROWS = 1 << 15  # from here on clusters are asked in place of all rows
CHOOSING_ROWS = 400  # rows whose true neighbours tell how many clusters to ask for
RECALL_ROWS = 200  # other rows whose true neighbours tell what was missed
MOST_LOOKED_AT = 0.2  # of all rows, from one; past it all pairs are as cheap

Found = tuple[IntMatrix, FloatMatrix]


def nearest_others(X: FloatMatrix, k: int, kernels: ModuleType, recall: float) -> Found | None:
    """Indices and distances of the k nearest others of each row, nearest first; None where float32 is too coarse.

    At least a share `recall` of them are true ones, as far as some rows tell; 1.0 means all, proven.
    """
    frame = common_frame(X)
    if not SMALLEST < frame.peak < LARGEST:
        return None
    head = first_columns(X, frame)
    asks = len(X) >= MANY_ROWS and recall < 1.0
    leaf_rows = max(LEAF_ROWS, 4 * k)
    parts = leaves(head, CLUSTER_ROWS if asks else leaf_rows)
    clusters = near_clusters(head, parts) if asks else None
    order = np.concatenate(parts).astype(np.intp) if clusters is None else clusters.order
    narrow = NarrowRows(X, frame, order)
    if not narrow.squares.any():  # rows are all equal, or their squares vanish
        return None
    leading = Leading(narrow, telling_columns(narrow))
    looks = trees(narrow.head, parts, leaf_rows) if clusters is None else [around(clusters, k)]
    # What one tree leaves out another one may find.
    guess = guessed(narrow, leading, looks, k, 2 if clusters is None else k // 2 + 2, kernels)
    search = _search(narrow, leading, guess, kernels)
    found = None if clusters is None else _among_clusters(X, search, clusters, guess, k, recall)
    return _among_all(X, search, order, k) if found is None else found


def _search(narrow: NarrowRows, leading: Leading, guess: Found, kernels: ModuleType) -> Search:
    bounds = guess[1][:, -1] + np.float32(2.0 * narrow.error)
    n_leading = leading_columns(narrow, bounds)
    return Search(narrow, leading if n_leading == leading.n_leading else Leading(narrow, n_leading), bounds, kernels)


def _among_all(X: FloatMatrix, search: Search, order: IntVector, k: int) -> Found | None:
    pairs = among_all(search, MAX_CANDIDATES * k * len(order))
    return None if pairs is None else _in_order(_ranked(X, pairs, order, order, k, search), order)


def _among_clusters(
    X: FloatMatrix, search: Search, clusters: NearClusters, guess: Found, k: int, recall: float
) -> Found | None:
    """Neighbours in clusters asked for; None where this does not find enough, or is no cheaper than all pairs."""
    n, order = len(clusters.order), clusters.order
    head = search.narrow.head
    some = np.linspace(0, n - 1, min(n, CHOOSING_ROWS + RECALL_ROWS)).astype(np.intp)
    # Two of three choose. Half of what may be missed is left to chance.
    measuring = some[1::3]
    choosing = np.setdiff1d(some, measuring)
    true = _true(X, search, choosing, order, k)
    if true is None:
        return None
    places = np.empty(n, np.intp)
    places[order] = np.arange(n)
    n_asked, looked_at = n_to_ask(head, clusters, choosing, places[true[0]], (1.0 + recall) / 2.0)
    if looked_at > MOST_LOOKED_AT:
        return None
    pairs = among_asked(search, clusters, asked(head, clusters, n_asked, search.kernels), MAX_CANDIDATES * k * n)
    true = _true(X, search, measuring, order, k)
    if pairs is None or true is None:
        return None
    found = _in_order(_ranked(X, _completed(pairs, *guess), order, order, k, search), order)
    reached = found[1][order[measuring]] <= true[1][:, -1:]
    return found if reached.mean() >= recall else None


def _true(X: FloatMatrix, search: Search, some: IntVector, order: IntVector, k: int) -> Found | None:
    """Nearest others of some places, by a look at all."""
    # Some rows may have far more candidates than rows have on average.
    pairs = from_some(search, some, 8 * MAX_CANDIDATES * k * len(some))
    return None if pairs is None else _ranked(X, pairs, order[some], order, k, search)


def _completed(pairs: Pairs, indices: IntMatrix, distances: FloatMatrix) -> Pairs:
    """Add the guess for rows that have fewer candidates than neighbours: it may lie in clusters not searched."""
    n, k = indices.shape
    short = np.flatnonzero(np.bincount(pairs.row, minlength=n) < k)
    if len(short) == 0:
        return pairs
    is_short = np.zeros(n, bool)
    is_short[short] = True
    known = is_short[pairs.row]
    keys = pairs.row[known].astype(np.int64) * n + pairs.column[known]
    row, column = np.repeat(short, k), indices[short].ravel()
    new = ~np.isin(row * n + column, keys)
    return joined([pairs, Pairs(row[new].astype(np.int32), column[new], distances[short].ravel()[new])])


def _ranked(X: FloatMatrix, pairs: Pairs, rows: IntVector, order: IntVector, k: int, search: Search) -> Found:
    """Return the k nearest of the candidates by exact distance, the lower index first on a tie.

    `rows` are the rows of X that the first of each pair stand for, `order` those of the second.
    """
    n = len(rows)
    starts = np.zeros(n + 1, np.intp)
    columns, values = np.empty_like(pairs.column), np.empty_like(pairs.value)
    search.kernels.by_row(*pairs, starts, columns, values)
    indices = np.full((n, k), len(X), np.intp)
    distances = np.full((n, k), np.inf)
    error = search.narrow.error

    def rank(part: slice) -> None:
        search.kernels.rank(X, part.start, part.stop, rows, order, starts, columns, values, error, indices, distances)

    for _ in ordered_map(rank, row_blocks(n, 1024)):
        pass
    return indices, distances


def _in_order(found: Found, order: IntVector) -> Found:
    """Lists by the rows of X, where `order` tells the row at each place."""
    indices, distances = np.empty_like(found[0]), np.empty_like(found[1])
    indices[order], distances[order] = found
    return indices, distances
