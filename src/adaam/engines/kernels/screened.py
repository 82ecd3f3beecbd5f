"""Entries of PP' screened in float32 and made again in float64 where it matters, by compiled kernels.

A float32 tile takes half the time of a float64 one, and its rounding is bounded: whatever lies within it of a
threshold is computed again from its two rows, so that what is kept or counted is decided in float64 alone.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import numpy as np

from adaam._typing import FloatMatrix, FloatVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.kernels.panels import factor_tiles

# Columns of a tile: a panel of their rows of X stays in a core's own cache (decision 0016). Higher tiles use them more
# often, but there must be enough of them for many threads.
TILE_COLUMNS = 384
MAX_TILE_ROWS = 2048
MANY_ROWS = 4096


def are_many(n_rows: int) -> bool:
    """Whether rounding errors of so many rows cancel."""
    return n_rows >= MANY_ROWS


class Screened:
    """The factor P, and its float32 copy scaled to the unit ball with a bound on the error of its products."""

    def __init__(self, P: FloatMatrix, width: int | None = None) -> None:
        self.P = np.ascontiguousarray(P, np.float64)
        largest = float(np.abs(self.P).max(initial=0.0)) or 1.0
        peak = largest * float(np.sqrt((np.square(self.P / largest).sum(axis=1)).max(initial=0.0))) or 1.0
        self.peak = peak
        self.square = peak * peak
        self.width = min(width or TILE_COLUMNS, max(1, len(self.P)))
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

    def near(self, low: float, high: float) -> tuple[np.float32, np.float32, np.float32]:
        """Bounds in the units of the tiles: below the first nothing reaches `low`, above the second all exceeds `high`.

        Entries above the second are taken from the tiles; of few rows, for which rounding does not cancel, none are.
        The third is for bounds on entries, which are rounded once more.
        """
        sure = self.screen(high, 1.0) if are_many(len(self.P)) else np.float32(np.inf)
        return self.screen(low, -1.0), sure, self.screen(low, -2.0)

    def screen(self, magnitude: float, room: float) -> np.float32:
        """Bring a magnitude to the units of the tiles, moved by `room` times the error."""
        # No entry exceeds one of these units; what lies far above them need not fit into float32.
        return np.float32(min(magnitude / self.peak / self.peak, 4.0) + room * self.error)


class BlockTally(NamedTuple):
    """Multiplicity above a bracket in a row block, and the values inside it with theirs."""

    above: float
    values: FloatVector
    counts: FloatVector


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
