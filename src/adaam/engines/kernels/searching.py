"""Loops of the search for nearest neighbours: pairs proven too far by their first columns, the others measured.

Rows are indexed in place: taking a view of one costs more than what is done with it. Counters start at zero wherever a
loop is to run in vectors, since only then no index can be negative.
"""

from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.kernels.compiling import compiled
from adaam.engines.kernels.lanes import N_LANES, add, add_square, load, nothing, total, within
from adaam.engines.kernels.marking import AT_ONCE, WORD, marked

STEP = 64  # columns after which a distance that is too large already is given up; a fixed number runs in vectors


@compiled
def in_step(X: FloatMatrix, i: int, Y: FloatMatrix, j: int, step: int) -> Any:
    """Squared distance of two rows in one step of columns."""
    a, b = nothing(X), nothing(X)
    for half in range(STEP // (2 * N_LANES)):
        k = 2 * N_LANES * half
        a = add_square(a, load(X, (i, step, k)), load(Y, (j, step, k)))
        b = add_square(b, load(X, (i, step, k + N_LANES)), load(Y, (j, step, k + N_LANES)))
    return total(add(a, b))


@compiled
def after(X: FloatMatrix, i: int, Y: FloatMatrix, j: int, n_leading: int) -> Any:
    """Squared distance of two rows in all columns after the leading steps."""
    a, b = nothing(X), nothing(X)
    for step in range(n_leading, X.shape[1]):
        for half in range(STEP // (2 * N_LANES)):
            k = 2 * N_LANES * half
            a = add_square(a, load(X, (i, step, k)), load(Y, (j, step, k)))
            b = add_square(b, load(X, (i, step, k + N_LANES)), load(Y, (j, step, k + N_LANES)))
    return total(add(a, b))


@compiled
def opened(
    tile: FloatMatrix,
    i: int,
    n_near: int,
    places: IntVector,
    a: int,
    first: int,
    n_leading: int,
    X: FloatMatrix,
    Y: FloatMatrix,
    apart: tuple[FloatVector, FloatVector],
    bounds: tuple[FloatVector, FloatVector],
    sums: FloatVector,
) -> int:
    """Add the first step after the leading ones, and keep the places that are still within bounds; return how many.

    No branch depends on a distance: most pairs end here, and a wrong guess of a branch costs as much as the step.
    """
    n_open = 0
    for q in range(n_near):
        j = places[q]
        rest = apart[0][a] - apart[1][first + j]
        so_far = tile[i, j] - rest * rest
        if n_leading < X.shape[1]:
            so_far += in_step(X, a, Y, first + j, n_leading)
        places[n_open] = j
        sums[n_open] = so_far
        n_open += so_far <= max(bounds[0][a], bounds[1][first + j])
    return n_open


@compiled
def with_rest(
    X: FloatMatrix, i: int, Y: FloatMatrix, j: int, n_steps: int, so_far: np.float32, limit: np.float32
) -> np.float32:
    """Squared distance of two rows from what their first steps gave; given up early where it passes the limit."""
    distance = so_far
    for step in range(n_steps, X.shape[1]):
        if distance > limit:
            break
        distance += in_step(X, i, Y, j, step)
    return distance


@compiled
def mark_near(tile: FloatMatrix, i: int, bound: float, bounds: FloatVector, words: IntVector) -> None:
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
    sums = np.empty(n_columns, np.float32)
    apart, both_bounds = (row_rest, column_rest), (row_bounds, column_bounds)
    n_found = 0
    for i in range(n_rows):
        bound = row_bounds[i]
        mark_near(tile, i, bound, column_bounds, words)
        n_near = marked(words, i + 1 if on_diagonal else 0, n_columns, places)
        for q in range(opened(tile, i, n_near, places, i, 0, n_leading, X_rows, X_columns, apart, both_bounds, sums)):
            j = places[q]
            limit = max(bound, column_bounds[j])
            distance = with_rest(X_rows, i, X_columns, j, n_leading + 1, sums[q], limit)
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
