"""Entries of PP' between one row block and others, screened in float32 by compiled kernels (`kernels.screened`).

Blocks share one unit of length, so that the bound on the error of a float32 product is the same for all of them.
"""

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import row_blocks
from adaam.engines.columns import spread
from adaam.engines.kernels.kept import KEPT
from adaam.engines.kernels.screened import MAX_TILE_ROWS, TILE_COLUMNS, BlockTally


class Strip(NamedTuple):
    """A float32 tile of PP', its rows in the first block and its columns in another one."""

    rows: slice
    columns: slice
    ahead: int  # places by which the first column comes after the first row; after all rows in another block
    tile: FloatMatrix


class Screens:
    """Factors of row blocks, and their float32 copies scaled to the unit ball with a bound on the error of products.

    Arrays are made anew: what came over a network cannot be written to, and numba compiles once more for such arrays.
    """

    def __init__(self, factors: Sequence[FloatMatrix]) -> None:
        self.factors = [np.array(P, np.float64, order="C") for P in factors]
        largest = max(float(np.abs(P).max(initial=0.0)) for P in self.factors) or 1.0
        longest = max(float(np.square(P / largest).sum(axis=1).max(initial=0.0)) for P in self.factors)
        self.peak = largest * float(np.sqrt(longest)) or 1.0
        self.narrow = (self.factors[0] / self.peak).astype(np.float32)
        self.error = (self.factors[0].shape[1] + 16) * 2.0**-24

    def strips(self, block: int) -> Iterator[Strip]:
        """Tiles between the first block and another one; of the first with itself, from the diagonal rightwards."""
        n, width = len(self.factors[0]), len(self.factors[block])
        turned = np.ascontiguousarray((self.factors[block] / self.peak).astype(np.float32).T)
        room = np.empty(MAX_TILE_ROWS * TILE_COLUMNS, np.float32)
        for rows in row_blocks(n, MAX_TILE_ROWS):
            height = rows.stop - rows.start
            for start in range(rows.start if block == 0 else 0, width, TILE_COLUMNS):
                columns = slice(start, min(start + TILE_COLUMNS, width))
                tile = room[: height * (columns.stop - start)].reshape(height, -1)
                np.matmul(self.narrow[rows], turned[:, columns], out=tile)
                yield Strip(rows, columns, start - rows.start if block == 0 else n, tile)

    def screen(self, magnitude: float, room: float) -> np.float32:
        """Bring a magnitude to the units of the tiles, moved by `room` times the error."""
        return np.float32(min(magnitude / self.peak / self.peak, 4.0) + room * self.error)


class Listed(NamedTuple):
    """Entries inside a bracket, between the first block and another one; rows and columns within their blocks."""

    rows: IntVector
    columns: IntVector
    values: FloatVector

    def from_magnitude(self, threshold: float) -> "Listed":
        """Those of magnitude at least `threshold`."""
        kept = np.abs(self.values) >= threshold
        return Listed(self.rows[kept], self.columns[kept], self.values[kept])


class Survivors(NamedTuple):
    """What a pass adds for entries above a bracket, and the entries inside it."""

    product: FloatMatrix  # SWX for the rows of the first block
    scale: float  # of the product: what it must be multiplied with
    sums: list[FloatVector]  # Sw of each block
    above: float  # multiplicity of what was added
    listed: list[Listed]  # for each block


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
    near = (screens.screen(bracket[0], -1.0), sure)
    most = MAX_TILE_ROWS * TILE_COLUMNS if bracket[0] <= bracket[1] else 0
    places, values = np.empty((2, most), np.int32), np.empty(most)
    weights = [np.array(spread(w, len(P))) for P, _, w in blocks]
    used = range(0 if with_own else 1, len(blocks))
    length = max((largest_entry(blocks[index][1]) for index in used), default=1.0)
    heaviest = max(float(w.max(initial=0.0)) for w in weights)
    unit = max(screens.peak * screens.peak * heaviest, float(np.finfo(np.float64).tiny))
    product = np.zeros(blocks[0][1].shape)
    sums = [np.zeros(len(w)) for w in weights]
    nothing = Listed(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))
    listed = [nothing] * len(blocks)
    above, n_listed = 0.0, 0
    for index in used:
        X = scaled_rows(blocks[index][1], narrow)
        scale = largest_entry(blocks[index][1]) / length / unit
        parts = [nothing]
        for rows, columns, ahead, tile in screens.strips(index):
            reached, n_inside = kernels.add_survivors(
                tile,
                near,
                bracket,
                screens.peak * screens.peak,
                ahead,
                screens.factors[0][rows],
                screens.factors[index][columns],
                X[columns],
                weights[0][rows],
                weights[index][columns],
                scale,
                product[rows],
                sums[0][rows],
                sums[index][columns],
                places[0],
                places[1],
                values,
            )
            above += reached
            n_listed += n_inside
            if n_listed > most_listed:
                return None
            if n_inside:
                row, column = places[:, :n_inside] + np.array([[rows.start], [columns.start]], np.int32)
                parts.append(Listed(row, column, values[:n_inside].copy()))
        listed[index] = Listed(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    return Survivors(product, unit * length, sums, above, listed)


def largest_entry(X: FloatMatrix) -> float:
    """Largest magnitude in a block, 1 where all are zero."""
    return KEPT.made(X, "largest", lambda: max(float(X.max(initial=0.0)), -float(X.min(initial=0.0))) or 1.0, 8)


def scaled_rows(X: FloatMatrix, narrow: type) -> FloatMatrix:
    """Rows of a block over their largest magnitude, in the precision that they are multiplied in."""

    def make() -> FloatMatrix:
        rows: FloatMatrix = np.empty(X.shape, narrow)
        np.divide(X, largest_entry(X), out=rows, casting="same_kind")
        return rows

    return KEPT.made(X, ("scaled", narrow), make, X.size * np.dtype(narrow).itemsize)


def completed(
    found: Survivors, threshold: float, blocks: Sequence[Block], kernels: ModuleType | None
) -> tuple[FloatMatrix, list[FloatVector]]:
    """Half of X'WSWX and the sums Sw of each block, with the listed entries of magnitude at least `threshold`.

    Where this process has no compiled kernels, SciPy adds them.
    """
    product = np.multiply(found.product, found.scale, dtype=np.float64)
    sums = [part.copy() for part in found.sums]
    weights = [spread(w, len(P)) for P, _, w in blocks]
    for index, listed in enumerate(found.listed):
        row, column, values = listed.from_magnitude(threshold)
        if len(values) == 0:
            continue
        weighted = values * weights[index][column]
        X = blocks[index][1]
        if kernels is None:
            product += csr_array((weighted, (row, column)), shape=(len(product), len(X))) @ X
        else:
            kernels.add_listed(row, column, weighted, 1.0, unwritable(np.ascontiguousarray(X)), product)
        sums[0] += np.bincount(row, weighted, len(sums[0]))
        sums[index] += np.bincount(column, values * weights[0][row], len(sums[index]))
    own = blocks[0][1] if (weights[0] == 1.0).all() else blocks[0][1] * weights[0][:, None]
    return np.asarray(own.T @ product), sums


def pruned_strips(
    threshold: float, blocks: Sequence[Block], with_own: bool, narrow: type, kernels: ModuleType
) -> tuple[FloatMatrix, list[FloatVector]]:
    """Half of X'WSWX and the sums Sw of each block, from entries of magnitude at least `threshold`."""
    bracket = (threshold, float(np.nextafter(threshold, -1.0)))
    found = surviving_strips(bracket, blocks, with_own, narrow, kernels)
    assert found is not None
    return completed(found, threshold, blocks, kernels)


def unwritable(array: FloatMatrix) -> FloatMatrix:
    """View that cannot be written to, as of blocks that came over a network: numba compiles for one kind alone."""
    view = array.view()
    view.flags.writeable = False
    return view


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
        for rows, columns, ahead, tile in screens.strips(index):
            above, n_inside = kernels.tally_tile(
                tile,
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
