"""Entries of PP' between one row block and others, screened in float32 by compiled kernels (`kernels.screened`).

Blocks share one unit of length, so that the bound on the error of a float32 product is the same for all of them.
"""

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import Column, FloatMatrix, FloatVector
from adaam.engines.blocks import row_blocks
from adaam.engines.columns import spread
from adaam.engines.kernels.balls import everywhere
from adaam.engines.kernels.kept import KEPT
from adaam.engines.kernels.panels import PANEL, factor_tiles, from_panels, n_panels_of, row_panels, zeros
from adaam.engines.kernels.screened import MAX_TILE_ROWS, TILE_COLUMNS, BlockTally
from adaam.engines.kernels.survivors import Listed, Room, Tile, TileRows


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
        for rows in _heights(n):
            for tile in range(rows.start // TILE_COLUMNS if block == 0 else 0, len(factors)):
                columns = slice(tile * TILE_COLUMNS, min((tile + 1) * TILE_COLUMNS, width))
                yield Strip(rows, columns, columns.start - rows.start if block == 0 else n, tile, factors[tile])

    def screen(self, magnitude: float, room: float) -> np.float32:
        """Bring a magnitude to the units of the tiles, moved by `room` times the error."""
        return np.float32(min(magnitude / self.peak / self.peak, 4.0) + room * self.error)


def _heights(n_rows: int) -> list[slice]:
    return row_blocks(n_rows, MAX_TILE_ROWS)


class Survivors(NamedTuple):
    """What a pass adds for entries above a bracket, and the entries inside it."""

    product: FloatMatrix  # SWX for the rows of the first block, by panels
    scale: float  # of the product: what it must be multiplied with
    sums: list[FloatVector]  # Sw of each block
    above: float  # multiplicity of what was added
    listed: list[Listed]  # for each block, columns within it


Block = tuple[FloatMatrix, FloatMatrix, Column]  # P, X and weights of the same rows


def surviving_strips(
    bracket: tuple[float, float],
    blocks: Sequence[Block],
    with_own: bool,
    narrow: type,
    kernels: ModuleType,
    most_listed: int = 0,
) -> Survivors | None:
    """Pass over the entries of PP' between the first block and all others; those within it count `with_own`.

    Entries above the bracket are added, those inside are listed; None where these are more than `most_listed`. A
    bracket whose upper end is the number just below its lower one has nothing inside. Rows of X are multiplied in the
    precision `narrow`, sums are in float64.
    """
    screens = Screens([P for P, _, _ in blocks])
    # Entries far above the bracket come from the tiles, unless rows are so few that rounding does not cancel.
    sure = screens.screen(bracket[1], 1.0) if narrow is np.float32 else np.float32(np.inf)
    low = screens.screen(bracket[0], -1.0)
    near, lengths = (low, sure, low), np.ones(len(screens.narrow), np.float32)
    centers, radii = (part[0] for part in everywhere(1, screens.narrow.shape[1]))
    most = MAX_TILE_ROWS * TILE_COLUMNS if bracket[0] <= bracket[1] else 0
    inside = Listed(np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most))
    room = Room.of(min(MAX_TILE_ROWS, len(screens.narrow)), TILE_COLUMNS, narrow)
    weights = [np.array(spread(w, len(P))) for P, _, w in blocks]
    used = range(0 if with_own else 1, len(blocks))
    length = max((largest_entry(blocks[index][1]) for index in used), default=1.0)
    heaviest = max(float(w.max(initial=0.0)) for w in weights)
    unit = max(screens.peak * screens.peak * heaviest, float(np.finfo(np.float64).tiny))
    n, d = blocks[0][1].shape
    products = [zeros((n_panels_of(d), (rows.stop - rows.start) * PANEL), np.float64) for rows in _heights(n)]
    sums = [np.zeros(len(w)) for w in weights]
    nothing = Listed(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))
    listed = [nothing] * len(blocks)
    above, n_listed = 0.0, 0
    for index in used:
        panels = panels_of(blocks[index][1], narrow)
        scale = largest_entry(blocks[index][1]) / length / unit
        parts = [nothing]
        for rows, columns, ahead, tile, factor in screens.strips(index):
            own = TileRows(screens.narrow[rows], lengths[rows], screens.factors[0][rows], weights[0][rows])
            factors = (screens.factors[index][columns], weights[index][columns])
            reached, n_inside = kernels.add_survivors(
                own,
                Tile(factor, columns.stop - columns.start, centers, radii, *factors, panels[tile], TILE_COLUMNS, 0),
                near,
                bracket,
                screens.peak * screens.peak,
                ahead,
                scale,
                products[rows.start // MAX_TILE_ROWS],
                sums[0][rows],
                sums[index][columns],
                inside,
                room,
            )
            above += reached
            n_listed += n_inside
            if n_listed > most_listed:
                return None
            if n_inside:
                row, column, value = (part[:n_inside] for part in inside)
                parts.append(Listed(row + np.int32(rows.start), column + np.int32(columns.start), value.copy()))
        listed[index] = Listed(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    return Survivors(np.concatenate(products, axis=1), unit * length, sums, above, listed)


def largest_entry(X: FloatMatrix) -> float:
    """Largest magnitude in a block, 1 where all are zero."""
    return KEPT.made(X, "largest", lambda: max(float(X.max(initial=0.0)), -float(X.min(initial=0.0))) or 1.0, 8)


def panels_of(X: FloatMatrix, narrow: type) -> FloatMatrix:
    """Rows of a block over their largest magnitude, by panels, in the precision that they are multiplied in."""

    def make() -> FloatMatrix:
        return row_panels(X, TILE_COLUMNS, largest_entry(X), narrow)

    return KEPT.made(X, ("panels", narrow), make, X.size * np.dtype(narrow).itemsize)


def completed(
    found: Survivors, threshold: float, blocks: Sequence[Block], kernels: ModuleType | None
) -> tuple[FloatMatrix, list[FloatVector]]:
    """Half of X'WSWX and the sums Sw of each block, with the listed entries of magnitude at least `threshold`.

    Where this process has no compiled kernels, SciPy adds them.
    """
    product = np.array(found.product)
    sparse = np.zeros(())
    sums = [part.copy() for part in found.sums]
    weights = [spread(w, len(P)) for P, _, w in blocks]
    for index, listed in enumerate(found.listed):
        row, column, values = listed.from_magnitude(threshold)
        if len(values) == 0:
            continue
        weighted = values * weights[index][column]
        X = blocks[index][1]
        if kernels is None:
            sparse = sparse + csr_array((weighted, (row, column)), shape=(len(sums[0]), len(X))) @ X
        else:
            panels = panels_of(X, product.dtype.type)
            kernels.add_listed(row, column, weighted, largest_entry(X) / found.scale, TILE_COLUMNS, panels, product)
        sums[0] += np.bincount(row, weighted, len(sums[0]))
        sums[index] += np.bincount(column, values * weights[0][row], len(sums[index]))
    own = blocks[0][1] if (weights[0] == 1.0).all() else blocks[0][1] * weights[0][:, None]
    return np.asarray(own.T @ (from_panels(product, own.shape[1]) * found.scale + sparse)), sums


def pruned_strips(
    threshold: float, blocks: Sequence[Block], with_own: bool, narrow: type, kernels: ModuleType
) -> tuple[FloatMatrix, list[FloatVector]]:
    """Half of X'WSWX and the sums Sw of each block, from entries of magnitude at least `threshold`."""
    bracket = (threshold, float(np.nextafter(threshold, -1.0)))
    found = surviving_strips(bracket, blocks, with_own, narrow, kernels)
    assert found is not None
    return completed(found, threshold, blocks, kernels)


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
