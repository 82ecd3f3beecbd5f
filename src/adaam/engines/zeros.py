"""Rows of which most entries are zero: their scatter and their projection from the other entries alone.

Rows are not centred, which would fill them: with z = scale * x - mean, what the mean adds to sums is added afterwards.
That costs digits of columns whose mean is large beside their spread, as it is in none with many zeros. The few columns
of such rows in which it is are centred like dense ones.
"""

import numpy as np
from scipy.sparse import issparse

from adaam._typing import Column, FloatMatrix, FloatVector, Tall
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.columns import spread, total
from adaam.engines.compiled import uses_numba
from adaam.engines.packing import PANEL, aligned_zeros, pack_rows, panel_count

LOOKED_AT = 128  # rows that are looked at for how many entries are zero

# Entries that are not zero, over all that a dense product would take, up to which they alone take clearly less time;
# and columns from which on making lists of them is worth it (decision 0016).
MOST_FILLED = 0.4
LEAST_COLUMNS = 64

# Squares about the origin over those about the mean. Columns with more, on the rows that are looked at, are centred
# first; should the sums of all rows have more, the product is left to dense rows.
MUCH, TOO_MUCH = 8.0, 64.0

# Rows of a task; each task of a scatter has a d x d sum of its own.
SCATTER_ROWS = 4096
PROJECT_ROWS = 1024

# Rows whose panels stay in the first-level cache, and columns whose components nearly do.
HEIGHT = 128
WIDTH = 192


def scatter(X: Tall, scale: Column, mean: FloatVector, weights: Column, choice: str) -> FloatMatrix | None:
    """Return the sum over rows of weight * z z' with z = scale * x - mean, or None where it is left to dense rows.

    `choice` is that of kernels: "auto", "numba" or "numpy".
    """
    n, d = X.shape
    n_panels = panel_count(d)
    # A panel takes rows of the sum up to its own last column, where a dense product takes those up to each column.
    if not uses_numba(choice, n) or not few_filled(X, d, PANEL * (n_panels + 1)):
        return None
    from adaam.engines import zeros_loops

    centred = _centred(X, scale, mean)
    offset = _in_panels(-centred)
    factors, roots = spread(scale, n), np.sqrt(spread(weights, n))

    def part(rows: slice) -> tuple[FloatMatrix, FloatVector]:
        product = aligned_zeros((1, n_panels * (n_panels + 1) // 2 * PANEL * PANEL), np.float64)
        sums = aligned_zeros((n_panels * PANEL,), np.float64)
        room = aligned_zeros((n_panels, HEIGHT * PANEL), np.float64)
        zeros_loops.add_scatter(X[rows], np.array(factors[rows]), offset, np.array(roots[rows]), room, product, sums)
        return product, sums

    parts = ordered_map(part, _tasks(n, SCATTER_ROWS))
    product, sums = next(parts)
    for more, more_sums in parts:
        product += more
        sums += more_sums
    out = np.empty((d, d))
    lossless = zeros_loops.centred_scatter(product, sums, mean - centred, total(weights, n), TOO_MUCH, out)
    return out if lossless else None


def project(X: Tall, scale: Column, mean: FloatVector, components: FloatMatrix, choice: str) -> FloatMatrix | None:
    """Return (scale * x - mean) @ components.T for each row, or None where it is left to dense rows."""
    n, m = X.shape[0], len(components)
    if not uses_numba(choice, n) or np.result_type(X.dtype, components.dtype) != np.float64:
        return None
    n_panels = panel_count(m)
    if not few_filled(X, m, PANEL * n_panels):
        return None
    from adaam.engines import zeros_loops

    centred = _centred(X, scale, mean)
    offset, begin = _in_panels(-centred), _in_panels((centred - mean) @ components.T)
    panels = pack_rows(components.T, WIDTH, 1.0, np.float64)
    factors = spread(scale, n)
    out = np.empty((n, m))

    def fill(rows: slice) -> None:
        room = aligned_zeros((n_panels, HEIGHT * PANEL), np.float64)
        zeros_loops.project_rows(X[rows], np.array(factors[rows]), offset, panels, begin, room, out[rows])

    for _ in ordered_map(fill, _tasks(n, PROJECT_ROWS)):
        pass
    return out


def few_filled(X: Tall, n_columns: int, n_summed: int) -> bool:
    """Whether so few entries are not zero that a product from them alone takes less time, told from a few rows.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows; compiled loops take dense ones alone.
    n_columns : int
        Columns of the product.
    n_summed : int
        Columns that are summed for it, some of them for nothing.
    """
    if issparse(X) or not (X.size and X.flags.c_contiguous) or X.dtype not in (np.float32, np.float64):
        return False
    if min(X.shape[1], n_columns) < LEAST_COLUMNS:
        return False
    few = _spread_rows(X)
    return bool(np.count_nonzero(few) * n_summed <= MOST_FILLED * few.size * n_columns)


def _spread_rows(X: FloatMatrix) -> FloatMatrix:
    """Few rows, spread evenly; the step is odd, since tables of all combinations repeat after an even number."""
    return X[:: len(X) // LOOKED_AT | 1]


def _centred(X: FloatMatrix, scale: Column, mean: FloatVector) -> FloatVector:
    """Mean of the columns in which it is large beside the spread, zero for the others."""
    factors = _spread_rows(spread(scale, len(X))[:, None])
    with np.errstate(over="ignore", under="ignore"):
        scaled = _spread_rows(X) * factors
        squares = np.square(scaled).sum(axis=0) + len(scaled) * mean**2
        return np.where(squares > MUCH * np.square(scaled - mean).sum(axis=0), mean, 0.0)


def _in_panels(values: FloatVector) -> FloatVector:
    """Fill up to whole panels."""
    room = aligned_zeros((panel_count(len(values)) * PANEL,), np.float64)
    room[: len(values)] = values
    return room


def _tasks(n_rows: int, rows: int) -> list[slice]:
    """Row blocks of about the same size."""
    n_tasks = -(-n_rows // rows)
    return row_blocks(n_rows, -(-n_rows // n_tasks))
