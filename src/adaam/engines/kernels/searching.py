"""Loops of the search for nearest neighbours: lists kept sorted, pairs proven too far by their first columns.

Rows are indexed in place: taking a view of one costs more than what is done with it. Counters start at zero wherever a
loop is to run in vectors, since only then no index can be negative.
"""

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.kernels.compiling import compiled, compiled_in_lanes
from adaam.engines.kernels.lanes import N_LANES, load, within
from adaam.engines.kernels.marking import AT_ONCE, WORD, marked
from adaam.engines.kernels.measuring import squared_distance

STEP = 64  # columns after which a distance that is too large already is given up; a fixed number runs in vectors


@compiled
def _insert(indices: IntVector, distances: FloatVector, j: int, distance: float) -> None:
    """Put j into a list sorted by distance, whose last one falls out; nothing changes where it is there already."""
    for other in indices:
        if other == j:
            return
    place = len(indices) - 1
    while place > 0 and distances[place - 1] > distance:
        indices[place] = indices[place - 1]
        distances[place] = distances[place - 1]
        place -= 1
    indices[place] = j
    distances[place] = distance


@compiled_in_lanes
def _rest(
    X: FloatMatrix, i: int, Y: FloatMatrix, j: int, n_leading: int, so_far: np.float32, limit: np.float32
) -> np.float32:
    """Squared distance of two rows from what their leading steps gave; given up early where it passes the limit."""
    total = so_far
    for step in range(n_leading, X.shape[1]):
        if total > limit:
            break
        part = np.float32(0.0)
        for k in range(STEP):
            difference = X[i, step, k] - Y[j, step, k]
            part += difference * difference
        total += part
    return total


@compiled
def keep_nearest(
    tile: FloatMatrix, rows: IntVector, others: IntVector, indices: IntMatrix, distances: FloatMatrix
) -> None:
    """Nearest of the others, from their squared distances to some rows, into the lists of these."""
    for i in range(len(rows)):
        own_indices, own_distances = indices[rows[i]], distances[rows[i]]
        entries = tile[i]
        for j in range(len(others)):
            if entries[j] < own_distances[-1] and others[j] != rows[i]:
                _insert(own_indices, own_distances, others[j], entries[j])


@compiled
def _mark_near(tile: FloatMatrix, i: int, bound: float, bounds: FloatVector, words: IntVector) -> None:
    """Set the bits of entries of row i that lie within the row's bound or their own."""
    n = len(bounds)
    words[:] = 0
    for q in range(n // N_LANES):
        near = within(load(tile, (i, q * N_LANES)), bound, load(bounds, (q * N_LANES,)))
        words[q * N_LANES // WORD] |= near << np.uint64(q * N_LANES % WORD)
    for j in range(n // N_LANES * N_LANES, n):
        if tile[i, j] <= bound or tile[i, j] <= bounds[j]:
            words[j // WORD] |= np.uint64(1) << np.uint64(j % WORD)


@compiled
def within_bounds(
    tile: FloatMatrix,
    on_diagonal: bool,
    first: tuple[int, int],
    n_leading: int,
    X_rows: FloatMatrix,
    X_columns: FloatMatrix,
    row_rest: FloatVector,
    column_rest: FloatVector,
    row_bounds: FloatVector,
    column_bounds: FloatVector,
    rows: IntVector,
    columns: IntVector,
    distances: FloatVector,
) -> int:
    """Write the pairs of a tile that lie within the bound of their first row, both directions; return their number.

    `tile` holds squared distances of `n_leading` steps of columns and of the lengths of the rest, which are no larger
    than the whole; the rest is added where they leave it open. Rows come as (rows, steps, columns of a step).
    """
    n_rows, n_columns = tile.shape
    places = np.empty(n_columns + AT_ONCE, np.int32)
    words = np.empty((n_columns + WORD - 1) // WORD, np.uint64)
    n_found = 0
    for i in range(n_rows):
        row = tile[i]
        bound = row_bounds[i]
        _mark_near(tile, i, bound, column_bounds, words)
        for q in range(marked(words, i + 1 if on_diagonal else 0, n_columns, places)):
            j = places[q]
            apart = row_rest[i] - column_rest[j]
            limit = max(bound, column_bounds[j])
            distance = _rest(X_rows, i, X_columns, j, n_leading, row[j] - apart * apart, limit)
            if distance <= bound:
                rows[n_found] = first[0] + i
                columns[n_found] = first[1] + j
                distances[n_found] = distance
                n_found += 1
            if distance <= column_bounds[j]:
                rows[n_found] = first[1] + j
                columns[n_found] = first[0] + i
                distances[n_found] = distance
                n_found += 1
    return n_found


@compiled
def rank(
    X: FloatMatrix,
    start: int,
    stop: int,
    starts: IntVector,
    candidates: IntVector,
    near: FloatVector,
    error: float,
    indices: IntMatrix,
    distances: FloatMatrix,
) -> None:
    """Nearest candidates of each row by distances made again from differences, the lower index first on a tie."""
    k = indices.shape[1]
    nearest = np.empty(k, np.float32)
    for i in range(start, stop):
        nearest[:] = np.inf
        for q in range(starts[i], starts[i + 1]):
            value = near[q]
            if value < nearest[-1]:
                place = k - 1
                while place > 0 and nearest[place - 1] > value:
                    nearest[place] = nearest[place - 1]
                    place -= 1
                nearest[place] = value
        limit = nearest[-1] + 2.0 * error
        found, lengths = indices[i], distances[i]
        for q in range(starts[i], starts[i + 1]):
            if near[q] > limit:
                continue
            j = candidates[q]
            value = squared_distance(X, i, X, j)
            place = k - 1
            if value > lengths[place] or (value == lengths[place] and j > found[place]):
                continue
            while place > 0 and (lengths[place - 1] > value or (lengths[place - 1] == value and found[place - 1] > j)):
                lengths[place] = lengths[place - 1]
                found[place] = found[place - 1]
                place -= 1
            lengths[place] = value
            found[place] = j
        for place in range(k):
            lengths[place] = np.sqrt(lengths[place])
