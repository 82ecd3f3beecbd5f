"""Scatter and projection of rows with mostly zero entries, from their nonzero entries alone.

Centring would fill in the zeros, so the mean in z = scale * x - mean is accounted for after summing. That loses digits
in columns whose mean is large relative to their spread, which is never so in a column with many zeros. The few columns
where it is so are centred as in dense rows.

Compiled loops list the nonzero entries, by rows (CSR) or columns (CSC), with an even number of entries in each list
(`simd.accumulate_rows`).
"""

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import for_each, ordered_map, row_blocks, spread, total
from adaam.engines.compiled import PANEL, panel_count, spread_rows
from adaam.engines.simd import accumulate_rows, aligned_zeros, compiled, pack_rows, unpack_rows

# Sum of squares about the origin divided by that about the mean. Columns above the first limit in a sample of rows are
# centred first; if a column is above the second one over all rows, the dense product is used instead.
MUCH, TOO_MUCH = 8.0, 64.0

# Rows per task; each task of a scatter has its own d x d sum.
SCATTER_ROWS = 4096
PROJECT_ROWS = 1024

# Rows of which one panel stays in the L1 cache, and columns whose components nearly do.
HEIGHT = 128
WIDTH = 192


def scatter(X: FloatMatrix, scale: Column, mean: FloatVector, weights: Column) -> FloatMatrix | None:
    """Return the sum over rows of weight * z z' with z = scale * x - mean, or None if a dense product loses less."""
    n, d = X.shape
    centred = _centred(X, scale, mean)
    factors, roots = np.array(spread(scale, n)), np.sqrt(spread(weights, n))

    def part(rows: slice) -> tuple[FloatMatrix, FloatVector]:
        panels = aligned_zeros((panel_count(d), HEIGHT * PANEL), np.float64)
        product = aligned_zeros((panel_count(d), d * PANEL), np.float64)
        sums = np.zeros(d)
        starts, places, shares = _lists(d, HEIGHT)
        for some in row_blocks(rows.stop - rows.start, HEIGHT):
            block = slice(rows.start + some.start, rows.start + some.stop)
            centre_rows(X[block], factors[block], centred, roots[block], panels, sums)
            list_columns(panels, some.stop - some.start, starts, places, shares)
            accumulate_triangle(starts, places, shares, panels, product)
        return product, sums

    parts = ordered_map(part, _tasks(n, SCATTER_ROWS))
    product, sums = next(parts)
    for more, more_sums in parts:
        product += more
        sums += more_sums
    triangle = np.triu(unpack_rows(product, d))
    about = triangle + np.triu(triangle, 1).T
    # Subtract the part of the mean that was not subtracted from the rows.
    left, size = mean - centred, total(weights, n)
    along = np.outer(left, sums)
    out = about - (along + along.T) + size * np.outer(left, left)
    lossless = np.diag(about) + size * left**2 <= TOO_MUCH * np.diag(out)
    return out if lossless.all() else None


def project(X: FloatMatrix, scale: Column, mean: FloatVector, components: FloatMatrix) -> FloatMatrix:
    """Return (scale * x - mean) @ components.T for each row."""
    n, m = X.shape[0], len(components)
    centred = _centred(X, scale, mean)
    panels = pack_rows(components.T, WIDTH, 1.0, np.float64)
    offset = (centred - mean) @ components.T
    factors = np.array(spread(scale, n))
    out = np.empty((n, m))

    def fill(rows: slice) -> None:
        starts, places, shares = _lists(HEIGHT, WIDTH)
        for some in row_blocks(rows.stop - rows.start, HEIGHT):
            block = slice(rows.start + some.start, rows.start + some.stop)
            height = some.stop - some.start
            product = aligned_zeros((panel_count(m), height * PANEL), np.float64)
            for strip, columns in enumerate(row_blocks(X.shape[1], WIDTH)):
                list_rows(X[block], columns.start, factors[block], centred[columns], starts, places, shares)
                accumulate_rows(starts[: height + 1], places, shares, panels[strip], product)
            np.add(unpack_rows(product, m), offset, out=out[block])

    for_each(fill, _tasks(n, PROJECT_ROWS))
    return out


def _centred(X: FloatMatrix, scale: Column, mean: FloatVector) -> FloatVector:
    """Mean of the columns in which it is large relative to the spread, zero for the others."""
    factors = spread_rows(spread(scale, len(X))[:, None])
    with np.errstate(over="ignore", under="ignore"):
        scaled = spread_rows(X) * factors
        squares = np.square(scaled).sum(axis=0) + len(scaled) * mean**2
        return np.where(squares > MUCH * np.square(scaled - mean).sum(axis=0), mean, 0.0)


def _tasks(n_rows: int, rows: int) -> list[slice]:
    """Row blocks of about the same size."""
    n_tasks = -(-n_rows // rows)
    return row_blocks(n_rows, -(-n_rows // n_tasks))


def _lists(n_lists: int, length: int) -> tuple[IntVector, IntVector, FloatVector]:
    """Memory for `n_lists` lists of at most `length` entries in CSR form: starts, offsets and values."""
    room = n_lists * (length + 1) + 1
    return np.zeros(n_lists + 1, np.int64), np.empty(room, np.int32), np.empty(room)


@compiled
def centre_rows(
    X: FloatMatrix, scale: FloatVector, mean: FloatVector, roots: FloatVector, panels: FloatMatrix, sums: FloatVector
) -> None:
    """Write root * z, z = scale * x - mean, to panels, and add root * root * z to sums."""
    for i in range(len(X)):
        factor, root = scale[i], roots[i]
        for panel in range(len(panels)):
            begin = panel * PANEL
            x, center, added = X[i, begin : begin + PANEL], mean[begin : begin + PANEL], sums[begin : begin + PANEL]
            out = panels[panel, i * PANEL : (i + 1) * PANEL]
            for k in range(len(x)):
                out[k] = root * (factor * x[k] - center[k])
                added[k] += root * out[k]


# Lists are written without a branch per entry: a zero is overwritten by the next entry.
@compiled
def list_rows(
    X: FloatMatrix,
    first: int,
    scale: FloatVector,
    mean: FloatVector,
    starts: IntVector,
    places: IntVector,
    values: FloatVector,
) -> None:
    """List the nonzero values of scale * x - mean in the columns from `first` on, with offsets of the columns."""
    q = np.uint64(0)  # numba tests signed indices for being negative
    for i in range(len(X)):
        row, factor = X[i, first : first + len(mean)], scale[i]
        for j in range(len(row)):
            z = factor * row[j] - mean[j]
            places[q] = j * PANEL
            values[q] = z
            q += np.uint64(z != 0.0)
        q = _filled_up(q, places, values)
        starts[i + 1] = q


@compiled
def list_columns(panels: FloatMatrix, n_rows: int, starts: IntVector, places: IntVector, values: FloatVector) -> None:
    """List the nonzero values of rows packed in panels, column by column, with offsets of the rows."""
    q = np.uint64(0)
    for j in range(len(starts) - 1):
        panel = panels[j // PANEL]
        for i in range(n_rows):
            z = panel[i * PANEL + j % PANEL]
            places[q] = i * PANEL
            values[q] = z
            q += np.uint64(z != 0.0)
        q = _filled_up(q, places, values)
        starts[j + 1] = q


@compiled
def _filled_up(q: np.uint64, places: IntVector, values: FloatVector) -> np.uint64:
    """Pad a list that begins at an even position to an even length with a zero; return its end."""
    if q % np.uint64(2):
        places[q] = 0
        values[q] = 0.0
        q += np.uint64(1)
    return q


@compiled
def accumulate_triangle(
    starts: IntVector, places: IntVector, values: FloatVector, panels: FloatMatrix, product: FloatMatrix
) -> None:
    """`accumulate_rows` for the upper triangle of a symmetric product: a panel takes rows up to its last column."""
    for panel in range(len(panels)):
        n_rows = min((panel + 1) * PANEL, len(starts) - 1)
        one = slice(panel, panel + 1)
        accumulate_rows(starts[: n_rows + 1], places, values, panels[one], product[one])
