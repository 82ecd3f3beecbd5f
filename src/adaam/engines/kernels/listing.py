"""Lists of the entries of a row block that are not zero, by rows or by columns; lengths are even (`kernels.adding`).

Rows z = scale * x + offset are made on the way, sixteen numbers at a time; offsets are filled up to whole panels.
"""

from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.kernels.compiling import compiled
from adaam.engines.kernels.lanes import N_LANES, add, add_product, load, lowest_bit, nonzero, nothing, number, store
from adaam.engines.kernels.panels import PANEL


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
                    c = lowest_bit(bits)
                    bits &= bits - np.uint64(1)
                    places[q] = (j - begin + c) * PANEL
                    shares[q] = number(values, (0, c))
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
            store(sums, (j,), add_product(load(sums, (j,)), root, z0))
            store(sums, (j + N_LANES,), add_product(load(sums, (j + N_LANES,)), root, z1))
    for i in range(n):
        for panel in range(n_panels):
            bits = words[i, panel]
            while bits:
                ends[np.uint64(panel * PANEL + lowest_bit(bits))] += np.uint32(1)
                bits &= bits - np.uint64(1)
    starts[0] = 0
    for j in range(d):
        starts[j + 1] = starts[j] + ends[j] + ends[j] % np.uint32(2)
        ends[j] = starts[j]
    for i in range(n):
        for panel in range(n_panels):
            bits = words[i, panel]
            while bits:
                c = lowest_bit(bits)
                bits &= bits - np.uint64(1)
                column = np.uint64(panel * PANEL + c)
                q = ends[column]
                places[q] = i * PANEL
                shares[q] = number(panels, (panel, i * PANEL + c))
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
        x0, x1 = add(nothing(out), load(X, (i, j))), add(nothing(out), load(X, (i, j + N_LANES)))
        z0 = add_product(load(offset, (j,)), scale, x0)
        z1 = add_product(load(offset, (j + N_LANES,)), scale, x1)
        z0, z1 = add_product(nothing(out), root, z0), add_product(nothing(out), root, z1)
        store(out, (row, place), z0)
        store(out, (row, place + N_LANES), z1)
        return nonzero(z0) | (nonzero(z1) << np.uint64(N_LANES))
    for k in range(PANEL):
        out[row, place + k] = root * (scale * X[i, j + k] + offset[j + k]) if j + k < X.shape[1] else 0.0
    return nonzero(load(out, (row, place))) | (nonzero(load(out, (row, place + N_LANES))) << np.uint64(N_LANES))
