"""Rows of which most entries are zero: their scatter and their projection from the other entries alone.

Rows are not centred, which would fill them: with z = scale * x - mean, what the mean adds to sums is added afterwards.
That costs digits of columns whose mean is large beside their spread, as it is in none with many zeros. The few columns
of such rows in which it is are centred like dense ones.

Compiled loops list the entries that are not zero, by rows or by columns, in lists of even lengths
(`simd.accumulate_rows`). Rows z = scale * x + offset are made on the way, sixteen numbers at a time; offsets are filled
up to whole panels.
"""

from typing import Any

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.columns import spread, total
from adaam.engines.compiled import PANEL, panel_count, spread_rows
from adaam.engines.simd import (
    N_LANES,
    accumulate_rows,
    accumulate_triangle,
    add,
    aligned_zeros,
    compiled,
    count_trailing_zeros,
    fma,
    load,
    load_scalar,
    mask_nonzero,
    pack_rows,
    store,
    triangle_offset,
    zero_vector,
)

# Squares about the origin over those about the mean. Columns with more, on the rows that are looked at, are centred
# first; should the sums of all rows have more, the product is left to dense rows.
MUCH, TOO_MUCH = 8.0, 64.0

# Rows of a task; each task of a scatter has a d x d sum of its own.
SCATTER_ROWS = 4096
PROJECT_ROWS = 1024

# Rows whose panels stay in the first-level cache, and columns whose components nearly do.
HEIGHT = 128
WIDTH = 192


def scatter(X: FloatMatrix, scale: Column, mean: FloatVector, weights: Column) -> FloatMatrix | None:
    """Return the sum over rows of weight * z z' with z = scale * x - mean, or None where dense rows lose less."""
    n, d = X.shape
    n_panels = panel_count(d)
    centred = _centred(X, scale, mean)
    offset = _in_panels(-centred)
    factors, roots = spread(scale, n), np.sqrt(spread(weights, n))

    def part(rows: slice) -> tuple[FloatMatrix, FloatVector]:
        product = aligned_zeros((1, n_panels * (n_panels + 1) // 2 * PANEL * PANEL), np.float64)
        sums = aligned_zeros((n_panels * PANEL,), np.float64)
        room = aligned_zeros((n_panels, HEIGHT * PANEL), np.float64)
        add_scatter(X[rows], np.array(factors[rows]), offset, np.array(roots[rows]), room, product, sums)
        return product, sums

    parts = ordered_map(part, _tasks(n, SCATTER_ROWS))
    product, sums = next(parts)
    for more, more_sums in parts:
        product += more
        sums += more_sums
    out = np.empty((d, d))
    lossless = centred_scatter(product, sums, mean - centred, total(weights, n), TOO_MUCH, out)
    return out if lossless else None


def project(X: FloatMatrix, scale: Column, mean: FloatVector, components: FloatMatrix) -> FloatMatrix:
    """Return (scale * x - mean) @ components.T for each row."""
    n, m = X.shape[0], len(components)
    n_panels = panel_count(m)
    centred = _centred(X, scale, mean)
    offset, begin = _in_panels(-centred), _in_panels((centred - mean) @ components.T)
    panels = pack_rows(components.T, WIDTH, 1.0, np.float64)
    factors = spread(scale, n)
    out = np.empty((n, m))

    def fill(rows: slice) -> None:
        room = aligned_zeros((n_panels, HEIGHT * PANEL), np.float64)
        project_rows(X[rows], np.array(factors[rows]), offset, panels, begin, room, out[rows])

    for _ in ordered_map(fill, _tasks(n, PROJECT_ROWS)):
        pass
    return out


def _centred(X: FloatMatrix, scale: Column, mean: FloatVector) -> FloatVector:
    """Mean of the columns in which it is large beside the spread, zero for the others."""
    factors = spread_rows(spread(scale, len(X))[:, None])
    with np.errstate(over="ignore", under="ignore"):
        scaled = spread_rows(X) * factors
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


@compiled
def list_rows(
    X: FloatMatrix,
    scale: FloatVector,
    offset: FloatVector,
    width: int,
    starts: IntMatrix,
    places: IntVector,
    shares: FloatVector,
) -> None:
    """Columns and values of each row; `width` of the columns, whole panels, are a strip with lists of its own.

    The lists of a strip follow each other, from the first of its `starts` on, which must be even.
    """
    d = X.shape[1]
    values = np.empty((1, PANEL))
    for i in range(len(X)):
        factor = scale[i]
        for strip in range(len(starts)):
            begin = strip * width
            q = np.uint64(starts[strip, i])  # numba asks signed indices whether they count from the end
            for j in range(begin, min(begin + width, d), PANEL):
                bits = _panel_of_row(X, i, j, factor, offset, 1.0, values, 0, 0)
                while bits:
                    c = count_trailing_zeros(bits)
                    bits &= bits - np.uint64(1)
                    places[q] = (j - begin + c) * PANEL
                    shares[q] = load_scalar(values, (0, c))
                    q += np.uint64(1)
            if q % np.uint64(2):
                places[q] = 0
                shares[q] = 0.0
                q += np.uint64(1)
            starts[strip, i + 1] = q


@compiled
def list_columns(
    X: FloatMatrix,
    scale: FloatVector,
    offset: FloatVector,
    roots: FloatVector,
    panels: FloatMatrix,
    sums: FloatVector,
    starts: IntVector,
    places: IntVector,
    shares: FloatVector,
) -> None:
    """Rows and values of each column of root * z, which are laid out in panels; `sums` gain root * root * z."""
    n, d = X.shape
    n_panels = len(panels)
    words = np.empty((n, n_panels), np.uint64)
    ends = np.zeros(n_panels * PANEL, np.uint32)
    for i in range(n):
        place, root = i * PANEL, roots[i]
        for panel in range(n_panels):
            j = panel * PANEL
            words[i, panel] = _panel_of_row(X, i, j, scale[i], offset, root, panels, panel, place)
            z0, z1 = load(panels, (panel, place)), load(panels, (panel, place + N_LANES))
            store(sums, (j,), fma(load(sums, (j,)), root, z0))
            store(sums, (j + N_LANES,), fma(load(sums, (j + N_LANES,)), root, z1))
    for i in range(n):
        for panel in range(n_panels):
            bits = words[i, panel]
            while bits:
                ends[np.uint64(panel * PANEL + count_trailing_zeros(bits))] += np.uint32(1)
                bits &= bits - np.uint64(1)
    starts[0] = 0
    for j in range(d):
        starts[j + 1] = starts[j] + ends[j] + ends[j] % np.uint32(2)
        ends[j] = starts[j]
    for i in range(n):
        for panel in range(n_panels):
            bits = words[i, panel]
            while bits:
                c = count_trailing_zeros(bits)
                bits &= bits - np.uint64(1)
                column = np.uint64(panel * PANEL + c)
                q = ends[column]
                places[q] = i * PANEL
                shares[q] = load_scalar(panels, (panel, i * PANEL + c))
                ends[column] = q + np.uint32(1)
    for j in range(d):
        if ends[j] < starts[j + 1]:
            places[ends[j]] = 0
            shares[ends[j]] = 0.0


@compiled
def _panel_of_row(
    X: FloatMatrix,
    i: int,
    j: int,
    scale: float,
    offset: FloatVector,
    root: float,
    out: FloatMatrix,
    row: int,
    place: int,
) -> Any:
    """Write root * (scale * x + offset) of the columns of a panel, and return bits of those that are not zero."""
    if j + PANEL <= X.shape[1]:
        x0, x1 = add(zero_vector(out), load(X, (i, j))), add(zero_vector(out), load(X, (i, j + N_LANES)))
        z0 = fma(load(offset, (j,)), scale, x0)
        z1 = fma(load(offset, (j + N_LANES,)), scale, x1)
        z0, z1 = fma(zero_vector(out), root, z0), fma(zero_vector(out), root, z1)
        store(out, (row, place), z0)
        store(out, (row, place + N_LANES), z1)
        return mask_nonzero(z0) | (mask_nonzero(z1) << np.uint64(N_LANES))
    for k in range(PANEL):
        out[row, place + k] = root * (scale * X[i, j + k] + offset[j + k]) if j + k < X.shape[1] else 0.0
    return mask_nonzero(load(out, (row, place))) | (
        mask_nonzero(load(out, (row, place + N_LANES))) << np.uint64(N_LANES)
    )


@compiled
def add_scatter(
    X: FloatMatrix,
    scale: FloatVector,
    offset: FloatVector,
    roots: FloatVector,
    panels: FloatMatrix,
    product: FloatMatrix,
    sums: FloatVector,
) -> None:
    """Add root^2 * z z' and root^2 * z of rows z = scale * x + offset to a product, one triangle of it, and to sums.

    `panels` are room for as many rows as are taken at a time, which should stay in the first-level cache panel by
    panel.
    """
    n, d = X.shape
    height = panels.shape[1] // PANEL
    starts = np.empty(d + 1, np.int64)
    places = np.empty(d * (height + 1), np.int32)
    shares = np.empty(d * (height + 1))
    for first in range(0, n, height):
        rows = slice(first, min(first + height, n))
        list_columns(X[rows], scale[rows], offset, roots[rows], panels, sums, starts, places, shares)
        accumulate_triangle(starts, places, shares, panels, product)


@compiled
def centred_scatter(
    product: FloatMatrix, sums: FloatVector, mean: FloatVector, size: float, most_lost: float, out: FloatMatrix
) -> bool:
    """Write the scatter about a mean, both triangles, from one triangle of that about the origin, sums and weight.

    Returns whether no sum of squares has become smaller by more than a factor of `most_lost`.
    """
    lossless = True
    for j in range(len(out)):
        place = triangle_offset(j // PANEL) + j % PANEL
        for i in range(j + 1):
            along = mean[i] * sums[j] + mean[j] * sums[i]
            out[j, i] = product[0, place + i * PANEL] - along + size * mean[i] * mean[j]
            out[i, j] = out[j, i]
        square = product[0, place + j * PANEL] + size * mean[j] * mean[j]
        lossless = lossless and square <= most_lost * out[j, j]
    return lossless


@compiled
def project_rows(
    X: FloatMatrix,
    scale: FloatVector,
    offset: FloatVector,
    panels: FloatMatrix,
    begin: FloatVector,
    product: FloatMatrix,
    out: FloatMatrix,
) -> None:
    """Write begin + (scale * x + offset) @ C, rows of C in panels by strips that should stay in the cache.

    `product` is room for as many rows as are taken at a time.
    """
    n = len(X)
    n_strips, n_panels = panels.shape[:2]
    width, height = panels.shape[2] // PANEL, product.shape[1] // PANEL
    room = height * (width + 2)
    starts = np.empty((n_strips, height + 1), np.int64)
    starts[:, 0] = np.arange(n_strips) * room
    places = np.empty(n_strips * room, np.int32)
    shares = np.empty(n_strips * room)
    for first in range(0, n, height):
        rows = slice(first, min(first + height, n))
        n_rows = rows.stop - first
        list_rows(X[rows], scale[rows], offset, width, starts, places, shares)
        for panel in range(n_panels):
            for i in range(n_rows):
                for k in range(0, PANEL, N_LANES):
                    store(product, (panel, i * PANEL + k), load(begin, (panel * PANEL + k,)))
        for strip in range(n_strips):
            accumulate_rows(starts[strip, : n_rows + 1], places, shares, panels[strip], product)
        _write(product, out[rows])


@compiled
def _write(product: FloatMatrix, out: FloatMatrix) -> None:
    """Take rows out of panels."""
    n, m = out.shape
    for i in range(n):
        for panel in range(len(product)):
            j = panel * PANEL
            if j + PANEL <= m:
                for k in range(0, PANEL, N_LANES):
                    store(out, (i, j + k), load(product, (panel, i * PANEL + k)))
            else:
                for k in range(m - j):
                    out[i, j + k] = product[panel, i * PANEL + k]
