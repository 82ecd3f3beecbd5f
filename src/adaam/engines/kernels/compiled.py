"""Loops that numba compiles on first use: one sweep over a tile, touching only what survives.

The sole importer of numba. All kernels release the interpreter's lock, so that each thread of an engine runs its own.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def kernel(function: Kernel, *, reorder: bool = False) -> Kernel:
    """Compile on first use and keep the result on disk, where there is a place for it.

    `reorder` lets sums be split over vector lanes; without it they run in the order that is written.
    """
    fastmath = {"contract", "reassoc"} if reorder else {"contract"}
    options = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to keep it in
        return numba.njit(**options)(function)


@kernel
def _above(row: FloatVector, low: float, start: int, places: IntVector) -> int:
    """Positions from `start` on of magnitudes >= low; no branch, since which ones survive cannot be predicted."""
    n_found = 0
    for j in range(start, len(row)):
        places[n_found] = j
        n_found += abs(row[j]) >= low
    return n_found


@kernel
def _product(p: FloatVector, q: FloatVector) -> float:
    """Inner product in the order of the entries: the same bits in every tile, on either side of the diagonal."""
    total = 0.0
    for k in range(len(p)):
        total += p[k] * q[k]
    return total


@kernel
def _add_rows(values: FloatVector, places: IntVector, n_found: int, X: FloatMatrix, out: FloatVector) -> None:
    """Add value * row of each survivor; eight at a time, so that `out` is read and written once for all of them."""
    d = len(out)
    q = 0
    while q + 8 <= n_found:
        a0, a1, a2, a3 = values[q], values[q + 1], values[q + 2], values[q + 3]
        a4, a5, a6, a7 = values[q + 4], values[q + 5], values[q + 6], values[q + 7]
        x0, x1, x2, x3 = X[places[q]], X[places[q + 1]], X[places[q + 2]], X[places[q + 3]]
        x4, x5, x6, x7 = X[places[q + 4]], X[places[q + 5]], X[places[q + 6]], X[places[q + 7]]
        for k in range(d):
            near = (a0 * x0[k] + a1 * x1[k]) + (a2 * x2[k] + a3 * x3[k])
            far = (a4 * x4[k] + a5 * x5[k]) + (a6 * x6[k] + a7 * x7[k])
            out[k] += near + far
        q += 8
    while q + 2 <= n_found:
        a0, a1 = values[q], values[q + 1]
        x0, x1 = X[places[q]], X[places[q + 1]]
        for k in range(d):
            out[k] += a0 * x0[k] + a1 * x1[k]
        q += 2
    if q < n_found:
        a0 = values[q]
        x0 = X[places[q]]
        for k in range(d):
            out[k] += a0 * x0[k]


@kernel
def add_survivors(
    tile: FloatMatrix,
    low: float,
    threshold: float,
    on_diagonal: bool,
    P_rows: FloatMatrix,
    P_columns: FloatMatrix,
    X_columns: FloatMatrix,
    row_weights: FloatVector,
    column_weights: FloatVector,
    product: FloatMatrix,
    row_sums: FloatVector,
    column_sums: FloatVector,
) -> None:
    """Add a tile's part of SWX and Sw: entries whose exact magnitude is at least `threshold`, right of the diagonal.

    `tile` holds the entries in float32, in units in which nothing below `low` can reach the threshold; what does not
    fall below it is computed again from its two rows.
    """
    n_rows, n_columns = tile.shape
    places = np.empty(n_columns + 1, np.int32)
    values = np.empty(n_columns + 1, np.float64)
    for i in range(n_rows):
        n_near = _above(tile[i], low, i + 1 if on_diagonal else 0, places)
        n_found = 0
        total = 0.0
        for q in range(n_near):
            j = places[q]
            entry = _product(P_rows[i], P_columns[j])
            if abs(entry) >= threshold:
                weighted = entry * column_weights[j]
                places[n_found] = j
                values[n_found] = weighted
                n_found += 1
                total += weighted
                column_sums[j] += entry * row_weights[i]
        row_sums[i] += total
        _add_rows(values, places, n_found, X_columns, product[i])


@kernel
def tally_tile(
    tile: FloatMatrix,
    near: tuple[float, float],
    bracket: tuple[float, float],
    on_diagonal: bool,
    P_rows: FloatMatrix,
    P_columns: FloatMatrix,
    row_weights: FloatVector,
    column_weights: FloatVector,
    values: FloatVector,
    counts: FloatVector,
) -> tuple[float, int]:
    """Weight of the entries above a bracket, and how many inside it were written to `values` and `counts`.

    Entries of `tile` at or above near[0] may reach the bracket, those above near[1] are above it for certain; what lies
    between is computed again from its two rows. Each pair counts for both its directions.
    """
    low, high = bracket
    n_rows, n_columns = tile.shape
    places = np.empty(n_columns + 1, np.int32)
    above = 0.0
    n_inside = 0
    for i in range(n_rows):
        row = tile[i]
        n_near = _above(row, near[0], i + 1 if on_diagonal else 0, places)
        reached = 0.0
        for q in range(n_near):
            j = places[q]
            if abs(row[j]) > near[1]:
                reached += column_weights[j]
                continue
            entry = abs(_product(P_rows[i], P_columns[j]))
            if entry > high:
                reached += column_weights[j]
            elif entry >= low and entry > 0.0:
                values[n_inside] = entry
                counts[n_inside] = 2.0 * row_weights[i] * column_weights[j]
                n_inside += 1
        above += 2.0 * row_weights[i] * reached
    return above, n_inside
