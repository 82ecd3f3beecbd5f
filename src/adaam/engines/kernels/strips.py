"""Entries of PP' between one row block and others, screened in float32 by compiled kernels (`kernels.screened`).

Blocks share one unit of length, so that the bound on the error of a float32 product is the same for all of them.
"""

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector
from adaam.engines.blocks import row_blocks
from adaam.engines.columns import spread
from adaam.engines.kernels.panels import PANEL, factor_tiles, from_panels, n_panels_of, row_panels, zeros
from adaam.engines.kernels.screened import MAX_TILE_ROWS, TILE_COLUMNS, BlockTally


class Strip(NamedTuple):
    """A tile of PP', its rows in the first block and its columns in another one."""

    rows: slice
    columns: slice
    ahead: int  # places by which the first column comes after the first row; after all rows in another block
    tile: int
    factor: FloatMatrix  # of the columns, in float32


class Screens:
    """Factors of row blocks, and their float32 copies scaled to the unit ball with a bound on the error of products.

    Arrays are made anew: what came over a network cannot be written to, and numba compiles once more for such arrays.
    """

    def __init__(self, factors: Sequence[FloatMatrix]) -> None:
        self.factors = [np.array(P, np.float64, order="C") for P in factors]
        largest = max(float(np.abs(P).max(initial=0.0)) for P in self.factors) or 1.0
        longest = max(float(np.square(P / largest).sum(axis=1).max(initial=0.0)) for P in self.factors)
        self.peak = largest * float(np.sqrt(longest)) or 1.0
        self.narrow = self._narrow(0)
        self.error = (self.factors[0].shape[1] + 16) * 2.0**-24

    def _narrow(self, block: int) -> FloatMatrix:
        return np.asarray((self.factors[block] / self.peak).astype(np.float32))

    def strips(self, block: int) -> Iterator[Strip]:
        """Tiles between the first block and another one; of the first with itself, those right of the diagonal."""
        n, width = len(self.factors[0]), len(self.factors[block])
        factors = factor_tiles(self._narrow(block), TILE_COLUMNS)
        for rows in row_blocks(n, MAX_TILE_ROWS):
            for tile in range(rows.start // TILE_COLUMNS if block == 0 else 0, len(factors)):
                columns = slice(tile * TILE_COLUMNS, min((tile + 1) * TILE_COLUMNS, width))
                yield Strip(rows, columns, columns.start - rows.start if block == 0 else n, tile, factors[tile])

    def screen(self, magnitude: float, room: float) -> np.float32:
        """Bring a magnitude to the units of the tiles, moved by `room` times the error."""
        return np.float32(min(magnitude / self.peak / self.peak, 4.0) + room * self.error)


def pruned_strips(
    threshold: float,
    blocks: Sequence[tuple[FloatMatrix, FloatMatrix, Column]],
    with_own: bool,
    narrow: type,
    kernels: ModuleType,
) -> tuple[FloatMatrix, list[FloatVector]]:
    """Half of X'WSWX and the sums Sw of each block, from the entries of PP' between the first block and all others.

    Blocks are P, X and weights of the same rows. Entries of magnitude at least `threshold` count; those within the
    first block do `with_own`. Rows of X are multiplied in the precision `narrow`, sums are in float64.
    """
    screens = Screens([P for P, _, _ in blocks])
    bracket = (threshold, float(np.nextafter(threshold, -1.0)))
    # Entries far above the threshold come from the tiles, unless rows are so few that rounding does not cancel.
    sure = screens.screen(threshold, 1.0) if narrow is np.float32 else np.float32(np.inf)
    near = (screens.screen(threshold, -1.0), sure)
    nowhere = (np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))
    weights = [np.array(spread(w, len(P))) for P, _, w in blocks]
    length = max(max(float(X.max(initial=0.0)), -float(X.min(initial=0.0))) for _, X, _ in blocks) or 1.0
    heaviest = max(float(w.max(initial=0.0)) for w in weights)
    unit = max(screens.peak * screens.peak * heaviest, float(np.finfo(np.float64).tiny))
    n, d = blocks[0][1].shape
    half = np.zeros((d, d))
    products = [
        zeros((n_panels_of(d), (rows.stop - rows.start) * PANEL), np.float64) for rows in row_blocks(n, MAX_TILE_ROWS)
    ]
    sums = [np.zeros(len(w)) for w in weights]
    for index in range(0 if with_own else 1, len(blocks)):
        panels = row_panels(blocks[index][1], TILE_COLUMNS, length, narrow)
        for rows, columns, ahead, tile, factor in screens.strips(index):
            kernels.add_survivors(
                screens.narrow[rows],
                factor,
                columns.stop - columns.start,
                near,
                bracket,
                screens.peak * screens.peak,
                ahead,
                screens.factors[0][rows],
                screens.factors[index][columns],
                panels[tile],
                weights[0][rows],
                weights[index][columns],
                1.0 / unit,
                products[rows.start // MAX_TILE_ROWS],
                sums[0][rows],
                sums[index][columns],
                *nowhere,
            )
    own = blocks[0][1] if (weights[0] == 1.0).all() else blocks[0][1] * weights[0][:, None]
    for rows, product in zip(row_blocks(n, MAX_TILE_ROWS), products, strict=True):
        half += own[rows].T @ from_panels(product, d)
    return half * (unit * length), sums


def tallied_strips(
    low: float,
    high: float,
    blocks: Sequence[tuple[FloatMatrix, Column]],
    with_own: bool,
    kernels: ModuleType,
) -> Iterator[BlockTally]:
    """Count the entries of PP' between the first block and all others against [low, high]; the diagonal is left out."""
    screens = Screens([P for P, _ in blocks])
    near = (screens.screen(low, -1.0), screens.screen(high, 1.0))
    weights = [np.array(spread(w, len(P))) for P, w in blocks]
    room = np.empty((2, MAX_TILE_ROWS * TILE_COLUMNS))
    for index in range(0 if with_own else 1, len(blocks)):
        for rows, columns, ahead, _, factor in screens.strips(index):
            above, n_inside = kernels.tally_tile(
                screens.narrow[rows],
                factor,
                columns.stop - columns.start,
                near,
                (low, high),
                ahead,
                screens.factors[0][rows],
                screens.factors[index][columns],
                weights[0][rows],
                weights[index][columns],
                room[0],
                room[1],
            )
            yield BlockTally(above, *room[:, :n_inside].copy())
