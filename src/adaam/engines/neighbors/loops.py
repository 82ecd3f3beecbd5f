"""Compiled loops of the search for nearest neighbours: distances, pairs within bounds, top-k lists.

Rows are indexed in place: taking a view of one costs more than what is done with it. Counters start at zero wherever a
loop is to be vectorised, since only then no index can be negative.
"""

from typing import Any, NamedTuple

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.simd import (
    N_LANES,
    ONES,
    UNROLLED,
    WORD,
    add,
    add_squared_difference,
    compiled,
    compiled_reordered,
    count_trailing_zeros,
    fma,
    load,
    load_scalar,
    mask_le_either,
    popcount,
    prefetch,
    reduce_add,
    set_bit_positions,
    store,
    zero_vector,
)


class SearchRows(NamedTuple):
    """Rows as the sweep over pairs takes them."""

    left: FloatMatrix  # factor of `search.LeadingColumns`
    steps: FloatMatrix  # all columns, in steps
    n_leading: int  # steps of leading columns
    rest: FloatVector  # norm of what is left of each row
    bounds: FloatVector  # squared distance within which its neighbours are
    labels: IntVector  # cell of each row
    probes: IntMatrix  # cells that each row probes; without any, all probe all


class PairBuffer(NamedTuple):
    """Memory for pairs and their squared distances."""

    rows: IntVector
    columns: IntVector
    distances: FloatVector


STEP = 64  # columns after which a distance that is too large already is given up; a fixed number is vectorised
N_HALVINGS = 8
QUEUE = 1024  # pairs that wait until they are measured


@compiled_reordered
def squared_distance(X: FloatMatrix, i: int, j: int) -> float:
    """Squared distance of two rows, from differences."""
    total = 0.0
    for k in range(X.shape[1]):
        difference = X[i, k] - X[j, k]
        total += difference * difference
    return total


@compiled
def measure_pairs(
    X: FloatMatrix, bounds: FloatVector, rows: IntVector, columns: IntVector, squares: FloatVector
) -> int:
    """Keep the pairs whose squared distance, from differences, is within the bound of their first row.

    What is kept moves to the front; return how many they are.
    """
    n_kept = 0
    for q in range(len(rows)):
        row, column = rows[q], columns[q]
        square = squared_distance(X, row, column)
        rows[n_kept] = row
        columns[n_kept] = column
        squares[n_kept] = square
        n_kept += square <= bounds[row]
    return n_kept


@compiled
def step_distance(X: FloatMatrix, i: int, j: int, step: int) -> Any:
    """Squared distance of two rows in one step of columns."""
    a, b = zero_vector(X), zero_vector(X)
    for half in range(STEP // (2 * N_LANES)):
        k = 2 * N_LANES * half
        a = add_squared_difference(a, load(X, (i, step, k)), load(X, (j, step, k)))
        b = add_squared_difference(b, load(X, (i, step, k + N_LANES)), load(X, (j, step, k + N_LANES)))
    return reduce_add(add(a, b))


@compiled
def remaining_distance(X: FloatMatrix, i: int, j: int, n_leading: int) -> Any:
    """Squared distance of two rows in all columns after the leading steps."""
    a, b = zero_vector(X), zero_vector(X)
    for step in range(n_leading, X.shape[1]):
        for half in range(STEP // (2 * N_LANES)):
            k = 2 * N_LANES * half
            a = add_squared_difference(a, load(X, (i, step, k)), load(X, (j, step, k)))
            b = add_squared_difference(b, load(X, (i, step, k + N_LANES)), load(X, (j, step, k + N_LANES)))
    return reduce_add(add(a, b))


@compiled
def finish_distance(X: FloatMatrix, i: int, j: int, n_steps: int, so_far: np.float32, limit: np.float32) -> np.float32:
    """Squared distance of two rows from what their first steps gave; given up early where it passes the limit."""
    distance = so_far
    for step in range(n_steps, X.shape[1]):
        if distance > limit:
            break
        distance += step_distance(X, i, j, step)
    return distance


@compiled
def mark_within(tile: FloatMatrix, i: int, bound: float, bounds: FloatVector, words: IntVector) -> None:
    """Set the bits of entries of row i that lie within the row's bound or their own."""
    n = len(bounds)
    words[:] = 0
    for q in range(n // N_LANES):
        near = mask_le_either(load(tile, (i, q * N_LANES)), bound, load(bounds, (q * N_LANES,)))
        words[q * N_LANES // WORD] |= near << np.uint64(q * N_LANES % WORD)
    for j in range(n // N_LANES * N_LANES, n):
        if tile[i, j] <= bound or tile[i, j] <= bounds[j]:
            words[j // WORD] |= np.uint64(1) << np.uint64(j % WORD)


@compiled
def _insert_unique(indices: IntVector, distances: FloatVector, j: int, distance: float) -> None:
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
def _insert_value(values: FloatVector, value: float) -> None:
    """Put a value below the last one into a list that is sorted."""
    place = len(values) - 1
    while place > 0 and values[place - 1] > value:
        values[place] = values[place - 1]
        place -= 1
    values[place] = value


@compiled
def _quantile_bound(values: FloatVector, n_least: int) -> Any:
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
def _topk_bound(tile: FloatMatrix, i: int, groups: FloatVector, n_least: int) -> Any:
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
    return _quantile_bound(groups, n_least)


@compiled
def update_topk(
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

    `tile` holds squared distances in the leading columns and in the norms of the rest. `n_least` are measured, a few
    more, or those alone that can be nearer than what is in a list already; it must exceed the length of a list, since
    the row itself may be among them.
    """
    n_columns = len(others)
    groups = np.empty(max(WORD, min(3 * n_least + WORD - 1, n_columns) // WORD * WORD), np.float32)
    nowhere = np.full(n_columns, -np.inf, np.float32)
    places = np.empty(n_columns + UNROLLED, np.int32)
    words = np.empty((n_columns + WORD - 1) // WORD, np.uint64)
    sums = np.empty(n_columns, np.float32)
    for i in range(len(rows)):
        own = rows[i]
        own_indices, own_distances = indices[own], distances[own]
        mark_within(tile, i, min(own_distances[-1], _topk_bound(tile, i, groups, n_least)), nowhere, words)
        n_near = set_bit_positions(words, 0, n_columns, places)
        for q in range(n_near):
            j = others[places[q]]
            apart = rest[own] - rest[j]
            sums[q] = tile[i, places[q]] - apart * apart + remaining_distance(X, own, j, n_leading)
        for q in range(n_near):
            j = others[places[q]]
            if sums[q] < own_distances[-1] and j != own:
                _insert_unique(own_indices, own_distances, j, sums[q])


@compiled
def smallest_k(tile: FloatMatrix, out: IntMatrix) -> None:
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
def group_by_row(
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
def rank_candidates(
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
                _insert_value(nearest, near[q])
        limit = nearest[-1] + 2.0 * error
        found, lengths = indices[i], distances[i]
        for q in range(starts[i], starts[i + 1]):
            if near[q] > limit:
                continue
            j = order[candidates[q]]
            value = squared_distance(X, rows[i], j)
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


@compiled
def _screen(
    left: FloatMatrix,
    i: int,
    h: int,
    right: FloatMatrix,
    w: int,
    bounds: FloatVector,
    column_bounds: FloatVector,
    entries: FloatMatrix,
    words: IntVector,
) -> None:
    """Entries of rows i and h against a panel, and a bit for each within the bound of its row or its column."""
    a0, a1, a2, a3 = zero_vector(left), zero_vector(left), zero_vector(left), zero_vector(left)
    b0, b1, b2, b3 = zero_vector(left), zero_vector(left), zero_vector(left), zero_vector(left)
    for k in range(left.shape[1]):
        a, b = load_scalar(left, (i, k)), load_scalar(left, (h, k))
        c0, c1 = load(right, (w, k, 0)), load(right, (w, k, N_LANES))
        c2, c3 = load(right, (w, k, 2 * N_LANES)), load(right, (w, k, 3 * N_LANES))
        a0, a1, a2, a3 = fma(a0, a, c0), fma(a1, a, c1), fma(a2, a, c2), fma(a3, a, c3)
        b0, b1, b2, b3 = fma(b0, b, c0), fma(b1, b, c1), fma(b2, b, c2), fma(b3, b, c3)
    words[0] = _store_word(entries, 0, a0, a1, a2, a3, bounds[i], column_bounds, w * WORD)
    words[1] = _store_word(entries, 1, b0, b1, b2, b3, bounds[h], column_bounds, w * WORD)


@compiled
def _store_word(
    entries: FloatMatrix, row: int, e0: Any, e1: Any, e2: Any, e3: Any, bound: float, bounds: FloatVector, j: int
) -> Any:
    """Write 64 entries, and return their bits."""
    store(entries, (row, 0), e0)
    store(entries, (row, N_LANES), e1)
    store(entries, (row, 2 * N_LANES), e2)
    store(entries, (row, 3 * N_LANES), e3)
    n = N_LANES
    b0, b1, b2, b3 = load(bounds, (j,)), load(bounds, (j + n,)), load(bounds, (j + 2 * n,)), load(bounds, (j + 3 * n,))
    near = mask_le_either(e0, bound, b0) | (mask_le_either(e1, bound, b1) << np.uint64(n))
    far = mask_le_either(e2, bound, b2) | (mask_le_either(e3, bound, b3) << np.uint64(n))
    return near | (far << np.uint64(2 * n))


@compiled
def _probing_bits(probes: IntMatrix, first: int, stop: int, cell: int) -> Any:
    """Bits of the rows from `first` on that probe a cell; all of them where there are no lists."""
    if probes.shape[1] == 0:
        return ONES
    bits = np.uint64(0)
    for b in range(first, stop):
        found = False
        for q in range(probes.shape[1]):
            found |= probes[b, q] == cell
        bits |= np.uint64(found) << np.uint64(b - first)
    return bits


@compiled
def _enqueue(
    bits: Any, a: int, begin: int, entries: FloatMatrix, row: int, queue: IntMatrix, sums: FloatVector, n_queued: int
) -> Any:
    """Put the pairs of a row whose bits are set at the end of a queue; return its length."""
    n_more = n_queued + popcount(bits)
    place = n_queued
    for _ in range(UNROLLED):
        j = count_trailing_zeros(bits)
        queue[0, place] = a
        queue[1, place] = begin + j
        sums[place] = entries[row, j]
        bits &= bits - np.uint64(1)
        place += 1
    while bits:
        j = count_trailing_zeros(bits)
        queue[0, place] = a
        queue[1, place] = begin + j
        sums[place] = entries[row, j]
        bits &= bits - np.uint64(1)
        place += 1
    return n_more


@compiled
def _measure_queue(
    search: SearchRows, queue: IntMatrix, sums: FloatVector, n_queued: int, found: PairBuffer, n_found: int
) -> int:
    """Write the queued pairs within the bound of their first row behind those found so far; return how many there are.

    The first step after the leading ones is added without a branch that depends on a distance: most pairs end there,
    and a wrong guess of a branch costs as much as the step.
    """
    X, n_leading, rest, bounds = search.steps, search.n_leading, search.rest, search.bounds
    n_open = 0
    for q in range(n_queued):
        a, b = queue[0, q], queue[1, q]
        apart = rest[a] - rest[b]
        so_far = sums[q] - apart * apart
        if n_leading < X.shape[1]:
            so_far += step_distance(X, a, b, n_leading)
        queue[0, n_open] = a
        queue[1, n_open] = b
        sums[n_open] = so_far
        n_open += so_far <= max(bounds[a], bounds[b])
    for q in range(n_open):
        a, b = queue[0, q], queue[1, q]
        distance = finish_distance(X, a, b, n_leading + 1, sums[q], max(bounds[a], bounds[b]))
        if distance <= bounds[a]:
            found.rows[n_found] = a
            found.columns[n_found] = b
            found.distances[n_found] = distance
            n_found += 1
        if distance <= bounds[b]:
            found.rows[n_found] = b
            found.columns[n_found] = a
            found.distances[n_found] = distance
            n_found += 1
    return n_found


@compiled
def sweep_pairs(
    search: SearchRows, rows: IntVector, right: FloatMatrix, first: int, n_columns: int, found: PairBuffer
) -> int:
    """Write pairs of some rows and those from `first` on that lie within the bound of their first row, both directions.

    The panels of `right`, 64 columns each, are the right factor of the columns. A pair counts once: where the row is
    the later of the two, and the column probes the row's cell as well, it is left to the tile in which it is the other
    way round.
    """
    left, X, n_leading, _, bounds, labels, probes = search
    entries = np.zeros((2, WORD + 1), np.float32)
    words = np.empty(2, np.uint64)
    queue = np.empty((2, QUEUE + 2 * WORD + UNROLLED), np.uint32)  # numba asks signed indices whether they are negative
    sums = np.empty(queue.shape[1], np.float32)
    column_bounds = np.full(len(right) * WORD, -np.inf, np.float32)
    column_bounds[:n_columns] = bounds[first : first + n_columns]
    n_rows = len(rows)
    n_found = 0
    n_queued = 0
    n_lines = STEP // N_LANES if n_leading < X.shape[1] else 0
    for w in range(len(right)):
        begin = first + w * WORD
        width = min(WORD, n_columns - w * WORD)
        label, others_probe = -1, np.uint64(0)
        for i in range(n_rows):
            a = rows[i]
            if i % 2 == 0:
                if n_queued > QUEUE:
                    n_found = _measure_queue(search, queue, sums, n_queued, found, n_found)
                    n_queued = 0
                _screen(left, a, rows[min(i + 1, n_rows - 1)], right, w, bounds, column_bounds, entries, words)
            bits = words[i % 2] & (ONES >> np.uint64(WORD - width))
            if begin <= a:
                if labels[a] != label:
                    label = labels[a]
                    others_probe = _probing_bits(probes, begin, begin + width, label)
                bits &= ~(others_probe & (ONES >> np.uint64(max(0, WORD - 1 - (a - begin)))))
            for line in range(n_lines):
                prefetch(X, (a, n_leading, line * N_LANES))
            n_queued = _enqueue(bits, a, begin, entries, i % 2, queue, sums, n_queued)
    return _measure_queue(search, queue, sums, n_queued, found, n_found)
