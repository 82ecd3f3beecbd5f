"""Entries of PP' screened in float32 and made again in float64 where it matters, by compiled kernels.

A float32 tile takes half the time of a float64 one, and its rounding is bounded: whatever lies within it of a
threshold is computed again from its two rows, so that what is kept or counted is decided in float64 alone.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.kernels.panels import PANEL, factor_tiles, from_panels, largest, row_panels, zeros

# Columns of a tile: a panel of their rows of X stays in a core's own cache (decision 0016). Higher tiles use them more
# often, but there must be enough of them for many threads.
TILE_COLUMNS = 384
MAX_TILE_ROWS = 2048
MANY_ROWS = 4096


class Screened:
    """The factor P, and its float32 copy scaled to the unit ball with a bound on the error of its products."""

    def __init__(self, P: FloatMatrix) -> None:
        self.P = np.ascontiguousarray(P, np.float64)
        largest = float(np.abs(self.P).max(initial=0.0)) or 1.0
        peak = largest * float(np.sqrt((np.square(self.P / largest).sum(axis=1)).max(initial=0.0))) or 1.0
        self.peak = peak
        self.square = peak * peak
        self.width = min(TILE_COLUMNS, max(1, len(self.P)))
        self.narrow = (self.P / peak).astype(np.float32)
        self.columns = factor_tiles(self.narrow, self.width)
        # Rounding of both rows and of r products and sums, half an eps each, and room for that of the screen itself.
        self.error = (self.P.shape[1] + 16) * 2.0**-24

    def row_blocks(self) -> list[slice]:
        """Row blocks, the height of the tiles."""
        return row_blocks(len(self.P), min(MAX_TILE_ROWS, max(384, len(self.P) // 24)))

    def tiles(self, rows: slice) -> Iterator[tuple[int, slice]]:
        """Numbers and columns of the tiles that have entries right of the diagonal."""
        for tile in range(rows.start // self.width, len(self.columns)):
            yield tile, slice(tile * self.width, min((tile + 1) * self.width, len(self.P)))

    def near(self, low: float, high: float) -> tuple[np.float32, np.float32]:
        """Bounds in the units of the tiles: below the first nothing reaches `low`, above the second all exceeds `high`.

        Entries above the second are taken from the tiles; of few rows, for which rounding does not cancel, none are.
        """
        sure = self.screen(high, 1.0) if len(self.P) >= MANY_ROWS else np.float32(np.inf)
        return self.screen(low, -1.0), sure

    def screen(self, magnitude: float, room: float) -> np.float32:
        """Bring a magnitude to the units of the tiles, moved by `room` times the error."""
        # No entry exceeds one of these units; what lies far above them need not fit into float32.
        return np.float32(min(magnitude / self.peak / self.peak, 4.0) + room * self.error)


class Listed(NamedTuple):
    """Entries of a row block inside a bracket."""

    rows: IntVector  # within the block
    columns: IntVector
    values: FloatVector

    def from_magnitude(self, threshold: float) -> "Listed":
        """Those of magnitude at least `threshold`."""
        kept = np.abs(self.values) >= threshold
        return Listed(self.rows[kept], self.columns[kept], self.values[kept])


class Survivors:
    """What a pass adds to SWX and Sw: entries of PP' above a bracket, beside those inside it, which it lists.

    With entries at most 1, those of many rows can be multiplied in float32, which is twice as fast: a few at a time,
    their sums in float64. Rounding errors of many rows cancel; less than 1e-9 of the result is left.
    """

    def __init__(
        self, P: FloatMatrix, X: FloatMatrix, weights: FloatVector, bracket: tuple[float, float], kernels: ModuleType
    ) -> None:
        self.screened = Screened(P)
        self.bracket = bracket
        self.kernels = kernels
        self.weights = np.ascontiguousarray(weights)
        length = largest(X)
        narrow = np.float32 if len(X) >= MANY_ROWS else np.float64
        self.panels = row_panels(X, self.screened.width, length, narrow)
        self.unit = max(self.screened.square * float(weights.max(initial=0.0)), float(np.finfo(np.float64).tiny))
        self.scale = self.unit * length  # what products must be multiplied with
        self._near = self.screened.near(*bracket)

    def no_product(self, rows: slice) -> FloatMatrix:
        """Room for SWX of a row block, by panels, in which nothing has been added yet."""
        return zeros((self.panels.shape[1], (rows.stop - rows.start) * PANEL), np.float64)

    def add(
        self,
        rows: slice,
        tile: tuple[int, slice],
        product: FloatMatrix,
        sums: FloatVector,
        listed: tuple[IntVector, IntVector, FloatVector],
    ) -> tuple[float, int]:
        """Add a tile; return the multiplicity of what was added, and how many entries were listed."""
        P, w = self.screened.P, self.weights
        index, columns = tile
        above, n_listed = self.kernels.add_survivors(
            self.screened.narrow[rows],
            self.screened.columns[index],
            columns.stop - columns.start,
            self._near,
            self.bracket,
            self.screened.square,
            columns.start - rows.start,
            P[rows],
            P[columns],
            self.panels[index],
            w[rows],
            w[columns],
            1.0 / self.unit,
            product,
            sums[rows],
            sums[columns],
            *listed,
        )
        return above, n_listed


class BlockTally(NamedTuple):
    """Multiplicity above a bracket in a row block, and the values inside it with theirs."""

    above: float
    values: FloatVector
    counts: FloatVector


def pruned_gram(
    P: FloatMatrix, threshold: float, X: FloatMatrix, weights: FloatVector, kernels: ModuleType
) -> tuple[FloatMatrix, FloatVector]:
    """X'WSWX and WSw over the off-diagonal entries of PP' of magnitude at least `threshold`."""
    n, d = X.shape
    # A bracket with nothing inside: what reaches its lower end is above its upper one.
    survivors = Survivors(P, X, weights, (threshold, float(np.nextafter(threshold, -1.0))), kernels)
    uniform = bool(np.all(weights == 1.0))
    nowhere = (np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))

    def row_gram(rows: slice) -> tuple[slice, FloatMatrix, FloatVector]:
        product = survivors.no_product(rows)
        sums = np.zeros(n)
        for tile in survivors.screened.tiles(rows):
            survivors.add(rows, tile, product, sums, nowhere)
        left = X[rows] if uniform else X[rows] * weights[rows, None]
        return rows, np.asarray(left.T @ from_panels(product, d)) * survivors.scale, sums[rows.start :]

    half = np.zeros((d, d))
    degrees = np.zeros(n)
    for rows, part, sums in ordered_map(row_gram, survivors.screened.row_blocks()):
        half += part
        degrees[rows.start :] += sums
    return half + half.T, degrees * weights


def tallies(P: FloatMatrix, weights: FloatVector, low: float, high: float, kernels: ModuleType) -> Iterator[BlockTally]:
    """Count the off-diagonal entries of PP' against [low, high], a row block at a time, in order."""
    screened = Screened(P)
    near = (screened.screen(low, -1.0), screened.screen(high, 1.0))
    w = np.ascontiguousarray(weights)

    def row_tally(rows: slice) -> BlockTally:
        room = np.empty((2, (rows.stop - rows.start) * screened.width))
        above = 0.0
        parts = []
        for tile, columns in screened.tiles(rows):
            reached, n_inside = kernels.tally_tile(
                screened.narrow[rows],
                screened.columns[tile],
                columns.stop - columns.start,
                near,
                (low, high),
                columns.start - rows.start,
                screened.P[rows],
                screened.P[columns],
                w[rows],
                w[columns],
                room[0],
                room[1],
            )
            above += reached
            parts.append(room[:, :n_inside].copy())
        values, counts = np.concatenate(parts, axis=1)
        return BlockTally(above, values, counts)

    yield from ordered_map(row_tally, screened.row_blocks())
