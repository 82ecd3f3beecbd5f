"""One sweep over a tile of PP', touching only what survives.

Rows are indexed in place: taking a view of one costs more than what is done with it.
"""

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.kernels.compiling import compiled, compiled_in_lanes
from adaam.engines.kernels.marking import mark_room, marked


@compiled
def _above(row: FloatVector, low: float, start: int, marks: IntVector, places: IntVector) -> int:
    """Positions from `start` on of magnitudes >= low."""
    entries = row[start:]
    for j in range(len(entries)):
        marks[j] = abs(entries[j]) >= low
    return marked(marks, len(entries), start, places)


@compiled
def _product(P: FloatMatrix, i: int, Q: FloatMatrix, j: int) -> float:
    """Inner product of two rows in the order of their entries: the same bits in every tile."""
    total = 0.0
    for k in range(P.shape[1]):
        total += P[i, k] * Q[j, k]
    return total


@compiled
def _add_rows(values: FloatVector, places: IntVector, n_found: int, X: FloatMatrix, out: FloatMatrix, i: int) -> None:
    """Add value * row of each survivor to row i; eight at a time in the precision of X, their sums in that of `out`."""
    d = X.shape[1]
    q = 0
    while q + 8 <= n_found:
        a0, a1, a2, a3 = values[q], values[q + 1], values[q + 2], values[q + 3]
        a4, a5, a6, a7 = values[q + 4], values[q + 5], values[q + 6], values[q + 7]
        j0, j1, j2, j3 = places[q], places[q + 1], places[q + 2], places[q + 3]
        j4, j5, j6, j7 = places[q + 4], places[q + 5], places[q + 6], places[q + 7]
        for k in range(d):
            near = (a0 * X[j0, k] + a1 * X[j1, k]) + (a2 * X[j2, k] + a3 * X[j3, k])
            far = (a4 * X[j4, k] + a5 * X[j5, k]) + (a6 * X[j6, k] + a7 * X[j7, k])
            out[i, k] += near + far
        q += 8
    while q + 3 <= n_found:
        a0, a1, a2 = values[q], values[q + 1], values[q + 2]
        j0, j1, j2 = places[q], places[q + 1], places[q + 2]
        for k in range(d):
            out[i, k] += (a0 * X[j0, k] + a1 * X[j1, k]) + a2 * X[j2, k]
        q += 3
    while q < n_found:
        a0, j0 = values[q], places[q]
        for k in range(d):
            out[i, k] += a0 * X[j0, k]
        q += 1


@compiled
def add_survivors(
    tile: FloatMatrix,
    near: tuple[float, float],
    bracket: tuple[float, float],
    square: float,
    ahead: int,
    P_rows: FloatMatrix,
    P_columns: FloatMatrix,
    X_columns: FloatMatrix,
    row_weights: FloatVector,
    column_weights: FloatVector,
    scale: float,
    product: FloatMatrix,
    row_sums: FloatVector,
    column_sums: FloatVector,
    rows: IntVector,
    columns: IntVector,
    values: FloatVector,
) -> tuple[float, int]:
    """Add a tile's part of SWX and Sw: entries right of the diagonal above a bracket; and list those inside it.

    `tile` holds the entries in float32 and in units of `square`; nothing below near[0] can reach the bracket, what lies
    above near[1] is above it for certain and taken as it is, and all between is computed again from its two rows. The
    tile's first column is `ahead` of its first row. Entries times `scale` and the rows of X are at most 1, so that X
    may come in float32.

    Returns the multiplicity of what was added, each pair counted for both its directions, and how many entries were
    listed in `rows`, `columns` and `values`. A bracket whose upper end is the number just below its lower one lists
    none, and adds what reaches the lower end.
    """
    inside, above = bracket
    low, sure = near
    n_rows, n_columns = tile.shape
    marks = np.empty(mark_room(n_columns), np.uint8)
    places = np.empty(n_columns + 1, np.int32)
    shares = np.empty(n_columns + 1, X_columns.dtype)
    weight_above = 0.0
    n_inside = 0
    for i in range(n_rows):
        n_near = _above(tile[i], low, max(0, i + 1 - ahead), marks, places)
        n_found = 0
        total = 0.0
        reached = 0.0
        for q in range(n_near):
            j = places[q]
            entry = square * tile[i, j]
            if abs(tile[i, j]) <= sure:
                entry = _product(P_rows, i, P_columns, j)
                if abs(entry) <= above:
                    if abs(entry) >= inside:
                        rows[n_inside] = i
                        columns[n_inside] = j
                        values[n_inside] = entry
                        n_inside += 1
                    continue
            weighted = entry * column_weights[j]
            places[n_found] = j
            shares[n_found] = weighted * scale
            n_found += 1
            total += weighted
            reached += column_weights[j]
            column_sums[j] += entry * row_weights[i]
        row_sums[i] += total
        weight_above += 2.0 * row_weights[i] * reached
        _add_rows(shares, places, n_found, X_columns, product, i)
    return weight_above, n_inside


@compiled
def add_listed(
    rows: IntVector, columns: IntVector, values: FloatVector, scale: float, X: FloatMatrix, product: FloatMatrix
) -> None:
    """Add value * scale * row of X to rows of the product, for entries in a list."""
    for q in range(len(rows)):
        i, j, value = rows[q], columns[q], product.dtype.type(values[q] * scale)
        for k in range(X.shape[1]):
            product[i, k] += value * X[j, k]


@compiled
def magnitudes(P: FloatMatrix, rows: IntVector, columns: IntVector, out: FloatVector) -> None:
    """Magnitudes of chosen entries of PP'."""
    for q in range(len(rows)):
        out[q] = abs(_product(P, rows[q], P, columns[q]))


@compiled_in_lanes
def _weight_above(row: FloatVector, high: float, start: int, weights: FloatVector) -> float:
    """Weight of the columns from `start` on whose magnitude exceeds `high`."""
    total = 0.0
    entries, column_weights = row[start:], weights[start:]
    for j in range(len(entries)):
        total += column_weights[j] if abs(entries[j]) > high else 0.0
    return total


@compiled
def _between(row: FloatVector, low: float, high: float, start: int, marks: IntVector, places: IntVector) -> int:
    """Positions from `start` on of magnitudes in [low, high]: few, so that eight at a time are passed over."""
    entries = row[start:]
    for j in range(len(entries)):
        marks[j] = (abs(entries[j]) >= low) & (abs(entries[j]) <= high)
    return marked(marks, len(entries), start, places)


@compiled
def tally_tile(
    tile: FloatMatrix,
    near: tuple[float, float],
    bracket: tuple[float, float],
    ahead: int,
    P_rows: FloatMatrix,
    P_columns: FloatMatrix,
    row_weights: FloatVector,
    column_weights: FloatVector,
    values: FloatVector,
    counts: FloatVector,
) -> tuple[float, int]:
    """Weight of the entries above a bracket, and how many inside it were written to `values` and `counts`.

    Entries of `tile` at or above near[0] may reach the bracket, those above near[1] are above it for certain; what lies
    between is computed again from its two rows. Each pair counts for both its directions. The tile's first column is
    `ahead` of its first row, and what is not right of the diagonal does not count.
    """
    low, high = bracket
    n_rows, n_columns = tile.shape
    places = np.empty(n_columns + 1, np.int32)
    marks = np.empty(mark_room(n_columns), np.uint8)
    above = 0.0
    n_inside = 0
    for i in range(n_rows):
        row = tile[i]
        start = max(0, i + 1 - ahead)
        reached = _weight_above(row, near[1], start, column_weights)
        for q in range(_between(row, near[0], near[1], start, marks, places)):
            j = places[q]
            entry = abs(_product(P_rows, i, P_columns, j))
            if entry > high:
                reached += column_weights[j]
            elif entry >= low and entry > 0.0:
                values[n_inside] = entry
                counts[n_inside] = 2.0 * row_weights[i] * column_weights[j]
                n_inside += 1
        above += 2.0 * row_weights[i] * reached
    return above, n_inside
