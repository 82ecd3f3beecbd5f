"""Sums of listed rows: panel by panel, so that sums stay in registers (`kernels.panels`)."""

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.kernels.compiling import compiled
from adaam.engines.kernels.lanes import N_LANES, add, add_product, load, nothing, number, store
from adaam.engines.kernels.panels import PANEL


@compiled
def add_rows(
    starts: IntVector, places: IntVector, shares: FloatVector, panels: FloatMatrix, product: FloatMatrix
) -> None:
    """Add share * row of X to each row of the product, for those in its list; lists have even lengths.

    What lists add to a row is summed in the precision of the panels, and added in float64.
    """
    for panel in range(len(panels)):
        _add_panel(starts, places, shares, panels, panel, len(starts) - 1, product, panel, 0)


@compiled
def add_triangle(
    starts: IntVector, places: IntVector, shares: FloatVector, panels: FloatMatrix, product: FloatMatrix
) -> None:
    """Add as `add_rows`, where the product is symmetric: of each panel only rows up to its own last column.

    The product has one row, in which these parts of panels follow each other.
    """
    for panel in range(len(panels)):
        n_rows = min((panel + 1) * PANEL, len(starts) - 1)
        _add_panel(starts, places, shares, panels, panel, n_rows, product, 0, triangle_place(panel))


@compiled
def triangle_place(panel: int) -> int:
    """Place of a panel's part of a triangle."""
    return panel * (panel + 1) // 2 * PANEL * PANEL


@compiled
def _add_panel(
    starts: IntVector,
    places: IntVector,
    shares: FloatVector,
    panels: FloatMatrix,
    panel: int,
    n_rows: int,
    product: FloatMatrix,
    row: int,
    place: int,
) -> None:
    """Add one panel's part to some rows of the product, which begin at a place of it."""
    for i in range(n_rows):
        q, end = starts[i], starts[i + 1]
        if q == end:
            continue
        a0, a1, b0, b1 = nothing(panels), nothing(panels), nothing(panels), nothing(panels)
        while q < end:
            a, j = number(shares, (q,)), number(places, (q,))
            a0 = add_product(a0, a, load(panels, (panel, j)))
            a1 = add_product(a1, a, load(panels, (panel, j + N_LANES)))
            b, h = number(shares, (q + 1,)), number(places, (q + 1,))
            b0 = add_product(b0, b, load(panels, (panel, h)))
            b1 = add_product(b1, b, load(panels, (panel, h + N_LANES)))
            q += 2
        out = place + i * PANEL
        store(product, (row, out), add(load(product, (row, out)), add(a0, b0)))
        store(product, (row, out + N_LANES), add(load(product, (row, out + N_LANES)), add(a1, b1)))
