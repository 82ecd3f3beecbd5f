"""Loops over lists of neighbours: short ones kept sorted, long ones put together by row, and the nearest of each."""

from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.kernels.compiling import compiled
from adaam.engines.kernels.marking import AT_ONCE, WORD, marked
from adaam.engines.kernels.measuring import squared_distance
from adaam.engines.kernels.searching import after, mark_near

N_HALVINGS = 8


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


@compiled
def _nearest_value(values: FloatVector, value: float) -> None:
    """Put a value below the last one into a list that is sorted."""
    place = len(values) - 1
    while place > 0 and values[place - 1] > value:
        values[place] = values[place - 1]
        place -= 1
    values[place] = value


@compiled
def _at_least(values: FloatVector, n_least: int) -> Any:
    """Number that at least so many values do not exceed, and few more: halving steps in place of a sort."""
    low, high = values[0], values[0]
    for g in range(len(values)):
        low = values[g] if values[g] < low else low
        high = values[g] if values[g] > high else high
    for _ in range(N_HALVINGS):
        middle = np.float32(0.5) * (low + high)
        n_within = 0
        for g in range(len(values)):
            n_within += values[g] <= middle
        if n_within >= n_least:
            high = middle
        else:
            low = middle
    return high


@compiled
def _about(tile: FloatMatrix, i: int, groups: FloatVector, n_least: int) -> Any:
    """Number that at least so many entries of row i do not exceed, and few more: from the least ones of groups."""
    n, width = tile.shape[1], len(groups)
    if width < n_least:
        return np.inf
    groups[:] = np.inf
    for start in range(n // width):
        for g in range(width):
            entry = tile[i, start * width + g]
            groups[g] = entry if entry < groups[g] else groups[g]
    for g in range(n % width):
        entry = tile[i, n // width * width + g]
        groups[g] = entry if entry < groups[g] else groups[g]
    return _at_least(groups, n_least)


@compiled
def keep_nearest(
    tile: FloatMatrix,
    rows: IntVector,
    others: IntVector,
    n_least: int,
    n_leading: int,
    X: FloatMatrix,
    rest: FloatVector,
    indices: IntMatrix,
    distances: FloatMatrix,
) -> None:
    """Measure those of the others that look nearest in a tile of leading columns, and put them into the lists of rows.

    `tile` is that of `within_bounds`. `n_least` are measured, a few more, or those alone that can be nearer than what
    is in a list already; it must exceed the length of a list, since the row itself may be among them.
    """
    n_columns = len(others)
    groups = np.empty(max(WORD, min(3 * n_least + WORD - 1, n_columns) // WORD * WORD), np.float32)
    nowhere = np.full(n_columns, -np.inf, np.float32)
    places = np.empty(n_columns + AT_ONCE, np.int32)
    words = np.empty((n_columns + WORD - 1) // WORD, np.uint64)
    sums = np.empty(n_columns, np.float32)
    for i in range(len(rows)):
        own = rows[i]
        own_indices, own_distances = indices[own], distances[own]
        mark_near(tile, i, min(own_distances[-1], _about(tile, i, groups, n_least)), nowhere, words)
        n_near = marked(words, 0, n_columns, places)
        for q in range(n_near):
            j = others[places[q]]
            apart = rest[own] - rest[j]
            sums[q] = tile[i, places[q]] - apart * apart + after(X, own, X, j, n_leading)
        for q in range(n_near):
            j = others[places[q]]
            if sums[q] < own_distances[-1] and j != own:
                _insert(own_indices, own_distances, j, sums[q])


@compiled
def nearest_few(tile: FloatMatrix, out: IntMatrix) -> None:
    """Positions of the smallest entries of each row, ascending."""
    n_few = out.shape[1]
    least = np.empty(n_few, np.float32)
    for i in range(len(tile)):
        entries = tile[i]
        least[:] = np.inf
        for j in range(len(entries)):
            entry = entries[j]
            if entry < least[-1]:
                place = n_few - 1
                while place > 0 and least[place - 1] > entry:
                    least[place] = least[place - 1]
                    out[i, place] = out[i, place - 1]
                    place -= 1
                least[place] = entry
                out[i, place] = j


@compiled
def by_row(
    row: IntVector,
    column: IntVector,
    value: FloatVector,
    starts: IntVector,
    columns: IntVector,
    values: FloatVector,
) -> None:
    """Put pairs together by their first row; `starts`, one longer than there are rows, comes with zeros alone."""
    for q in range(len(row)):
        starts[row[q] + 1] += 1
    for i in range(1, len(starts)):
        starts[i] += starts[i - 1]
    # Each start moves on to the end of its row, which is the start of the next.
    for q in range(len(row)):
        place = starts[row[q]]
        columns[place] = column[q]
        values[place] = value[q]
        starts[row[q]] += 1
    for i in range(len(starts) - 1, 0, -1):
        starts[i] = starts[i - 1]
    starts[0] = 0


@compiled
def rank(
    X: FloatMatrix,
    start: int,
    stop: int,
    rows: IntVector,
    order: IntVector,
    starts: IntVector,
    candidates: IntVector,
    near: FloatVector,
    error: float,
    indices: IntMatrix,
    distances: FloatMatrix,
) -> None:
    """Nearest candidates of each list by distances made again from differences, the lower index first on a tie.

    List i is that of row rows[i] of X, and a candidate stands for the row that `order` has at its place.
    """
    k = indices.shape[1]
    nearest = np.empty(k, np.float32)
    for i in range(start, stop):
        nearest[:] = np.inf
        for q in range(starts[i], starts[i + 1]):
            if near[q] < nearest[-1]:
                _nearest_value(nearest, near[q])
        limit = nearest[-1] + 2.0 * error
        found, lengths = indices[i], distances[i]
        for q in range(starts[i], starts[i + 1]):
            if near[q] > limit:
                continue
            j = order[candidates[q]]
            value = squared_distance(X, rows[i], X, j)
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
