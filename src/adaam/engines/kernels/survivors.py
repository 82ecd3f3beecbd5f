"""Entries of PP' that survive pruning, added to SWX and Sw tile by tile.

Very many rows are laid out so that those that point alike are side by side. What survives of a row is then in few
groups of columns: others are passed over, and of groups that survive almost whole the missing entries are what costs.
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import ordered_map
from adaam.engines.kernels.balls import everywhere, word_balls
from adaam.engines.kernels.ordering import by_likeness
from adaam.engines.kernels.panels import PANEL, from_panels, group_panels, largest, row_panels, zeros
from adaam.engines.kernels.screened import Screened, are_many

GROUPED_ROWS = 1 << 15  # below it the order takes as long as it saves (decision 0016)
# Columns of a tile that is made of groups, two words each; its balls are as many as vector code has numbers.
GROUPED_COLUMNS = 1024
GROUP_COLUMNS = 128


class Tile(NamedTuple):
    """Columns of a tile as the kernel takes them."""

    narrow: FloatMatrix  # factor in float32, a column each, in whole words
    n_columns: int
    centers: FloatMatrix  # of balls that hold the columns of a word
    radii: FloatVector
    P: FloatMatrix
    weights: FloatVector
    panels: FloatMatrix  # rows of X, and behind them P'WX of each group
    group: int  # columns of a group
    n_behind: int


class TileRows(NamedTuple):
    """Rows of a tile as the kernel takes them."""

    narrow: FloatMatrix  # factor in float32
    lengths: FloatVector  # of its rows
    P: FloatMatrix
    weights: FloatVector


class Listed(NamedTuple):
    """Entries of a row block inside a bracket."""

    rows: IntVector  # within the block
    columns: IntVector
    values: FloatVector

    def from_magnitude(self, threshold: float) -> "Listed":
        """Those of magnitude at least `threshold`."""
        kept = np.abs(self.values) >= threshold
        return Listed(self.rows[kept], self.columns[kept], self.values[kept])


class Room(NamedTuple):
    """Memory for the lists of a tile, which its next one finds warm: where each row's begins, places and shares."""

    starts: IntVector
    places: IntVector
    shares: FloatVector

    @classmethod
    def of(cls, height: int, width: int, dtype: type) -> "Room":
        """Room for a tile of this shape."""
        most = height * (width + 1)
        return cls(np.empty(height + 1, np.int64), np.empty(most, np.int32), np.empty(most, dtype))


class Survivors:
    """What a pass adds to SWX and Sw: entries of PP' above a bracket, beside those inside it, which it lists.

    Rows and columns are places in `order`. With entries at most 1, those of many rows can be multiplied in float32,
    which is twice as fast: a few at a time, their sums in float64. Rounding errors of many rows cancel; less than 1e-9
    of the result is left.
    """

    def __init__(
        self, P: FloatMatrix, X: FloatMatrix, weights: FloatVector, bracket: tuple[float, float], kernels: ModuleType
    ) -> None:
        grouped = are_many(len(X)) and len(X) >= GROUPED_ROWS
        self.order = by_likeness(P) if grouped else np.arange(len(X))
        self.screened = Screened(P[self.order], GROUPED_COLUMNS if grouped else None)
        self.weights = weights[self.order]
        self.bracket = bracket
        self.kernels = kernels
        length = largest(X)
        self.unit = max(self.screened.square * float(weights.max(initial=0.0)), float(np.finfo(np.float64).tiny))
        self.scale = self.unit * length  # what products must be multiplied with
        screened, width = self.screened, self.screened.width
        self._lengths = np.sqrt(np.einsum("ij,ij->i", screened.narrow, screened.narrow)) * np.float32(1.0 + 1e-6)
        self._near = screened.near(*bracket)
        if grouped:
            # Rows of P are in units of the peak; so is what they are multiplied with.
            factor = screened.P * (self.weights * (screened.peak / self.unit))[:, None]
            self.panels = group_panels(X, self.order, factor, width, GROUP_COLUMNS, length)
            self._balls, self._group = word_balls(screened.narrow, width), GROUP_COLUMNS
            self._n_behind = self.panels.shape[2] // PANEL - width
        else:
            self.panels = row_panels(X, width, length, np.float32 if are_many(len(X)) else np.float64)
            self._balls, self._group = everywhere(len(screened.columns), P.shape[1]), width
            self._n_behind = 0

    def no_product(self, rows: slice) -> FloatMatrix:
        """Room for SWX of a row block, by panels, in which nothing has been added yet."""
        return zeros((self.panels.shape[1], (rows.stop - rows.start) * PANEL), np.float64)

    def room(self, rows: slice, *, listed: bool) -> tuple[Listed, Room]:
        """Memory for what `add` lists, and for its own lists; reused from tile to tile of a row block."""
        height, width = rows.stop - rows.start, self.screened.width
        most = height * width if listed else 0
        entries = Listed(np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most))
        return entries, Room.of(height, width, self.panels.dtype.type)

    def add(
        self,
        rows: slice,
        tile: tuple[int, slice],
        product: FloatMatrix,
        sums: FloatVector,
        room: tuple[Listed, Room],
    ) -> tuple[float, int]:
        """Add a tile; return the multiplicity of what was added, and how many entries were listed."""
        screened = self.screened
        index, columns = tile
        above, n_listed = self.kernels.add_survivors(
            TileRows(screened.narrow[rows], self._lengths[rows], screened.P[rows], self.weights[rows]),
            Tile(
                screened.columns[index],
                columns.stop - columns.start,
                self._balls.centers[index],
                self._balls.radii[index],
                screened.P[columns],
                self.weights[columns],
                self.panels[index],
                self._group,
                self._n_behind,
            ),
            self._near,
            self.bracket,
            screened.square,
            columns.start - rows.start,
            1.0 / self.unit,
            product,
            sums[rows],
            sums[columns],
            *room,
        )
        return above, n_listed

    def add_listed(self, listed: Listed, product: FloatMatrix) -> None:
        """Add entries of a list to the product of their row block."""
        weighted = listed.values * self.weights[listed.columns]
        given = (1.0 / self.unit, self.screened.width, self.panels, product)
        self.kernels.add_listed(listed.rows, listed.columns, weighted, *given)


def pruned_gram(
    P: FloatMatrix, threshold: float, X: FloatMatrix, weights: FloatVector, kernels: ModuleType
) -> tuple[FloatMatrix, FloatVector]:
    """X'WSWX and WSw over the off-diagonal entries of PP' of magnitude at least `threshold`."""
    n, d = X.shape
    # A bracket with nothing inside: what reaches its lower end is above its upper one.
    survivors = Survivors(P, X, weights, (threshold, float(np.nextafter(threshold, -1.0))), kernels)

    def row_gram(rows: slice) -> tuple[slice, FloatMatrix, FloatVector]:
        product = survivors.no_product(rows)
        sums, room = np.zeros(n), survivors.room(rows, listed=False)
        for tile in survivors.screened.tiles(rows):
            survivors.add(rows, tile, product, sums, room)
        left = X[survivors.order[rows]] * survivors.weights[rows, None]
        return rows, np.asarray(left.T @ from_panels(product, d)) * survivors.scale, sums[rows.start :]

    half = np.zeros((d, d))
    degrees = np.zeros(n)
    for rows, part, sums in ordered_map(row_gram, survivors.screened.row_blocks()):
        half += part
        degrees[rows.start :] += sums
    degrees[survivors.order] = degrees * survivors.weights
    return half + half.T, degrees
