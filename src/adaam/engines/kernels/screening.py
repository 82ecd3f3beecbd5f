"""One sweep over pairs of rows: squared distances of leading columns made in registers, compared, and left as bits.

Two rows are multiplied with the 64 columns of a panel at a time, which stay in the first-level cache for all rows. What
lies within bounds waits in a queue and is measured many at a time: no tile is ever written.
"""

from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.kernels.compiling import compiled
from adaam.engines.kernels.lanes import (
    N_LANES,
    add_product,
    fetch,
    load,
    lowest_bit,
    n_bits,
    nothing,
    number,
    store,
    within,
)
from adaam.engines.kernels.marking import AT_ONCE, ONES, WORD
from adaam.engines.kernels.searching import STEP, in_step, with_rest

QUEUE = 1024  # pairs that wait until they are measured


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
    a0, a1, a2, a3 = nothing(left), nothing(left), nothing(left), nothing(left)
    b0, b1, b2, b3 = nothing(left), nothing(left), nothing(left), nothing(left)
    for k in range(left.shape[1]):
        a, b = number(left, (i, k)), number(left, (h, k))
        c0, c1 = load(right, (w, k, 0)), load(right, (w, k, N_LANES))
        c2, c3 = load(right, (w, k, 2 * N_LANES)), load(right, (w, k, 3 * N_LANES))
        a0, a1, a2, a3 = (
            add_product(a0, a, c0),
            add_product(a1, a, c1),
            add_product(a2, a, c2),
            add_product(a3, a, c3),
        )
        b0, b1, b2, b3 = (
            add_product(b0, b, c0),
            add_product(b1, b, c1),
            add_product(b2, b, c2),
            add_product(b3, b, c3),
        )
    words[0] = _keep(entries, 0, a0, a1, a2, a3, bounds[i], column_bounds, w * WORD)
    words[1] = _keep(entries, 1, b0, b1, b2, b3, bounds[h], column_bounds, w * WORD)


@compiled
def _keep(
    entries: FloatMatrix, row: int, e0: Any, e1: Any, e2: Any, e3: Any, bound: float, bounds: FloatVector, j: int
) -> Any:
    """Write 64 entries, and return their bits."""
    store(entries, (row, 0), e0)
    store(entries, (row, N_LANES), e1)
    store(entries, (row, 2 * N_LANES), e2)
    store(entries, (row, 3 * N_LANES), e3)
    n = N_LANES
    near = within(e0, bound, load(bounds, (j,))) | (within(e1, bound, load(bounds, (j + n,))) << np.uint64(n))
    far = within(e2, bound, load(bounds, (j + 2 * n,))) | (
        within(e3, bound, load(bounds, (j + 3 * n,))) << np.uint64(n)
    )
    return near | (far << np.uint64(2 * n))


@compiled
def _asking(asked: IntMatrix, first: int, stop: int, cluster: int) -> Any:
    """Bits of the rows from `first` on that ask for a cluster; all of them where there are no lists."""
    if asked.shape[1] == 0:
        return ONES
    bits = np.uint64(0)
    for b in range(first, stop):
        found = False
        for q in range(asked.shape[1]):
            found |= asked[b, q] == cluster
        bits |= np.uint64(found) << np.uint64(b - first)
    return bits


@compiled
def _queued(
    bits: Any, a: int, begin: int, entries: FloatMatrix, row: int, queue: IntMatrix, sums: FloatVector, n_queued: int
) -> Any:
    """Put the pairs of a row whose bits are set at the end of a queue; return its length."""
    n_more = n_queued + n_bits(bits)
    place = n_queued
    for _ in range(AT_ONCE):
        j = lowest_bit(bits)
        queue[0, place] = a
        queue[1, place] = begin + j
        sums[place] = entries[row, j]
        bits &= bits - np.uint64(1)
        place += 1
    while bits:
        j = lowest_bit(bits)
        queue[0, place] = a
        queue[1, place] = begin + j
        sums[place] = entries[row, j]
        bits &= bits - np.uint64(1)
        place += 1
    return n_more


@compiled
def _measured(
    queue: IntMatrix,
    sums: FloatVector,
    n_queued: int,
    n_leading: int,
    X: FloatMatrix,
    rest: FloatVector,
    bounds: FloatVector,
    rows: IntVector,
    columns: IntVector,
    distances: FloatVector,
    n_found: int,
) -> int:
    """Write the queued pairs within the bound of their first row behind those found so far; return how many there are.

    The first step after the leading ones is added without a branch that depends on a distance: most pairs end there,
    and a wrong guess of a branch costs as much as the step.
    """
    n_open = 0
    for q in range(n_queued):
        a, b = queue[0, q], queue[1, q]
        apart = rest[a] - rest[b]
        so_far = sums[q] - apart * apart
        if n_leading < X.shape[1]:
            so_far += in_step(X, a, X, b, n_leading)
        queue[0, n_open] = a
        queue[1, n_open] = b
        sums[n_open] = so_far
        n_open += so_far <= max(bounds[a], bounds[b])
    for q in range(n_open):
        a, b = queue[0, q], queue[1, q]
        distance = with_rest(X, a, X, b, n_leading + 1, sums[q], max(bounds[a], bounds[b]))
        if distance <= bounds[a]:
            rows[n_found] = a
            columns[n_found] = b
            distances[n_found] = distance
            n_found += 1
        if distance <= bounds[b]:
            rows[n_found] = b
            columns[n_found] = a
            distances[n_found] = distance
            n_found += 1
    return n_found


@compiled
def within_near(
    left: FloatMatrix,
    rows: IntVector,
    right: FloatMatrix,
    first: int,
    n_columns: int,
    n_leading: int,
    X: FloatMatrix,
    rest: FloatVector,
    bounds: FloatVector,
    labels: IntVector,
    asked: IntMatrix,
    found_rows: IntVector,
    found_columns: IntVector,
    distances: FloatVector,
) -> int:
    """Write pairs of some rows and those from `first` on that lie within the bound of their first row, both directions.

    `left` and the panels of `right`, 64 columns each, are the factors of `kernels.narrow.Leading`. A pair counts once:
    where the row is the later of the two, and the column asks for the row's cluster as well, it is left to the tile in
    which it is the other way round. Without lists of what is asked for, all ask for all.
    """
    entries = np.zeros((2, WORD + 1), np.float32)
    words = np.empty(2, np.uint64)
    queue = np.empty((2, QUEUE + 2 * WORD + AT_ONCE), np.uint32)  # numba asks signed indices whether they are negative
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
        label, others_ask = -1, np.uint64(0)
        for i in range(n_rows):
            a = rows[i]
            if i % 2 == 0:
                if n_queued > QUEUE:
                    n_found = _measured(
                        queue, sums, n_queued, n_leading, X, rest, bounds, found_rows, found_columns, distances, n_found
                    )
                    n_queued = 0
                _screen(left, a, rows[min(i + 1, n_rows - 1)], right, w, bounds, column_bounds, entries, words)
            bits = words[i % 2] & (ONES >> np.uint64(WORD - width))
            if begin <= a:
                if labels[a] != label:
                    label = labels[a]
                    others_ask = _asking(asked, begin, begin + width, label)
                bits &= ~(others_ask & (ONES >> np.uint64(max(0, WORD - 1 - (a - begin)))))
            for line in range(n_lines):
                fetch(X, (a, n_leading, line * N_LANES))
            n_queued = _queued(bits, a, begin, entries, i % 2, queue, sums, n_queued)
    return _measured(queue, sums, n_queued, n_leading, X, rest, bounds, found_rows, found_columns, distances, n_found)
