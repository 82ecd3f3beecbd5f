"""Rows of (D/2 - S - H)X, from what a pass over the pairs found and a sparse half H."""

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.kernels.compiling import compiled
from adaam.engines.kernels.panels import PANEL


@compiled
def rows_away(
    X: FloatMatrix,
    places: IntVector,
    first: int,
    halves: FloatVector,
    product: FloatMatrix,
    scales: FloatVector,
    starts: IntVector,
    columns: IntVector,
    values: FloatVector,
    rows: FloatMatrix,
    away: FloatMatrix,
) -> None:
    """Write rows of X, and of halves * X - scales * SX - HX.

    `places` names the rows of X; the product SX has them by panels, from its row `first` on, in an order of its own
    that `scales` follows as well. `halves` and H, whose rows begin at `starts`, are in the order of X.
    """
    d = X.shape[1]
    for i in range(len(places)):
        place = places[i]
        for k in range(d):
            rows[i, k] = X[place, k]
            away[i, k] = halves[place] * X[place, k]
        scale = scales[first + i]
        for panel in range(len(product)):
            for k in range(min(PANEL, d - panel * PANEL)):
                away[i, panel * PANEL + k] -= scale * product[panel, (first + i) * PANEL + k]
        for q in range(starts[place], starts[place + 1]):
            j, value = columns[q], values[q]
            for k in range(d):
                away[i, k] -= value * X[j, k]
