"""Products of rows with themselves and with components, from the entries that are not zero alone."""

import numpy as np

from adaam._typing import FloatMatrix, FloatVector
from adaam.engines.kernels.adding import add_rows, add_triangle, triangle_place
from adaam.engines.kernels.compiling import compiled
from adaam.engines.kernels.lanes import N_LANES, load, store
from adaam.engines.kernels.listing import list_columns, list_rows
from adaam.engines.kernels.panels import PANEL


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
        add_triangle(starts, places, shares, panels, product)


@compiled
def centred_scatter(
    product: FloatMatrix, sums: FloatVector, mean: FloatVector, size: float, most_lost: float, out: FloatMatrix
) -> bool:
    """Write the scatter about a mean, both triangles, from one triangle of that about the origin, sums and weight.

    Returns whether no sum of squares has become smaller by more than a factor of `most_lost`.
    """
    lossless = True
    for j in range(len(out)):
        place = triangle_place(j // PANEL) + j % PANEL
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
            add_rows(starts[strip, : n_rows + 1], places, shares, panels[strip], product)
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
