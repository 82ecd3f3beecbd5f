"""The pruned affinity S(PP') by compiled loops: screened in float32, decided in float64.

A float32 tile takes half the time of a float64 one, and its rounding is bounded: whatever lies within it of a threshold
is computed again from its two rows, so that what is kept or counted is decided in float64 alone.

Cut and Laplacian come from one pass where a bracket of the cut is known. Entries above it are kept whatever the cut
turns out to be, and are added at once; the few inside are listed, and those that the cut keeps are added afterwards.
Then the row sums D are known, and (D/2 - S)X, with S above the diagonal alone, is one product away from half of
X'(D - S - S')X.

Very many rows are sorted so that similar ones are side by side. What is kept of a row is then in few groups of columns:
others are passed over, and of groups that are kept almost whole the missing entries are what costs.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.compiled import MANY_ROWS, PANEL
from adaam.engines.neighbors.cells import kd_leaves, nearest_center
from adaam.engines.neighbors.graph import HostHalf
from adaam.engines.pruned import loops
from adaam.engines.pruned.cut import MAX_DISTINCT, MIN_ROWS, Bracket, Tally, cut_inside, guess_bracket, kept_from
from adaam.engines.pruned.tiles import PairBlock, PrunedSums, all_pairs, summed_rows
from adaam.engines.simd import (
    WORD,
    aligned_zeros,
    largest_magnitude,
    pack_columns,
    pack_groups,
    pack_rows,
    unpack_rows,
)

# Columns of a tile: a panel of their rows of X stays in a core's own cache (decision 0016). Higher tiles use them more
# often, but there must be enough of them for many threads.
TILE_COLUMNS = 384
MAX_TILE_ROWS = 2048
# Below it sorting takes as long as it saves (decision 0016).
SORTED_ROWS = 1 << 15
# Columns of a tile that is made of groups, two words each; its balls are as many as a vector has numbers.
GROUPED_COLUMNS = 1024
GROUP_COLUMNS = 128
MOST_WORDS = 16  # of a tile, side by side as vector loads read them
CELL_ROWS = 192  # rows of a cell of similar rows, about
FEW_ROWS = 256  # whose temporaries stay in a core's own cache


class ScreenedFactor:
    """Rows and columns of a part of PP', and float32 copies of them in the unit ball with a bound on their products.

    `width` is that of a tile; None means one whose panels stay in cache.
    """

    def __init__(self, block: PairBlock, width: int | None = None) -> None:
        # Writable: numba compiles once more for arrays that are not, such as those that came over a network.
        same = block.column_P is block.P
        self.P = np.require(block.P, np.float64, ["C", "W"])
        self.column_P = self.P if same else np.require(block.column_P, np.float64, ["C", "W"])
        self.offset = block.offset
        self.peak = _longest(*([self.P] if same else [self.P, self.column_P]))
        self.square = self.peak * self.peak
        self.width = min(width or TILE_COLUMNS, max(1, len(self.column_P)))
        self.rows32 = (self.P / self.peak).astype(np.float32)
        self.columns32 = self.rows32 if same else (self.column_P / self.peak).astype(np.float32)
        self.packed = pack_columns(self.columns32, self.width)
        # Rounding of both rows and of r products and sums, half an eps each, and room for that of the screen itself.
        self.error = (self.P.shape[1] + 16) * 2.0**-24

    def row_blocks(self) -> list[slice]:
        """Row blocks, the height of the tiles."""
        return row_blocks(len(self.P), min(MAX_TILE_ROWS, max(384, len(self.column_P) // 24)))

    def tiles(self, rows: slice) -> Iterator[tuple[int, slice]]:
        """Numbers and columns of the tiles that have entries right of the diagonal."""
        for tile in range(max(0, rows.start - self.offset) // self.width, len(self.packed)):
            yield tile, slice(tile * self.width, min((tile + 1) * self.width, len(self.column_P)))

    def ahead(self, rows: slice, columns: slice) -> int:
        """Places by which the first column comes after the first row."""
        return int(self.offset + columns.start - rows.start)

    def screen(self, magnitude: float, room: float) -> np.float32:
        """Bring a magnitude to the units of the tiles, moved by `room` times the error."""
        # No entry exceeds one of these units; what lies far above them need not fit into float32.
        return np.float32(min(magnitude / self.peak / self.peak, 4.0) + room * self.error)


def _longest(*factors: FloatMatrix) -> float:
    """Length of the longest row, safe from overflow; 1 where all are zero."""
    largest = max(float(np.abs(P).max(initial=0.0)) for P in factors) or 1.0
    return largest * float(np.sqrt(max(np.square(P / largest).sum(axis=1).max(initial=0.0) for P in factors))) or 1.0


def screened_tallies(block: PairBlock, bracket: Bracket) -> Iterator[Tally]:
    """Count the positive magnitudes of a part of PP' against a bracket, a row block at a time, in order."""
    factor = ScreenedFactor(block)
    screen = (factor.screen(bracket.low, -1.0), factor.screen(bracket.high, 1.0))
    w, v = np.array(block.weights), np.array(block.column_weights)

    def row_tally(rows: slice) -> Tally:
        buffer = np.empty((2, (rows.stop - rows.start) * factor.width))
        above = 0.0
        parts = [np.empty((2, 0))]
        for tile, columns in factor.tiles(rows):
            counted, n_inside = loops.count_tile(
                factor.rows32[rows],
                factor.packed[tile],
                columns.stop - columns.start,
                screen,
                (bracket.low, bracket.high),
                factor.ahead(rows, columns),
                factor.P[rows],
                factor.column_P[columns],
                w[rows],
                v[columns],
                buffer[0],
                buffer[1],
            )
            above += counted
            parts.append(buffer[:, :n_inside].copy())
        values, counts = np.concatenate(parts, axis=1)
        return Tally(above, values, counts)

    yield from ordered_map(row_tally, factor.row_blocks())


class BoundingBalls(NamedTuple):
    """Balls that hold the columns of a tile, a word in each: centres (tiles, rank, balls) and radii (tiles, balls)."""

    centers: FloatMatrix
    radii: FloatVector


def unbounded_balls(n_tiles: int, rank: int) -> BoundingBalls:
    """Balls that hold all columns there can be: none is passed over."""
    radii = aligned_zeros((n_tiles, MOST_WORDS), np.float32)
    radii[:] = np.finfo(np.float32).max
    return BoundingBalls(aligned_zeros((n_tiles, rank, MOST_WORDS), np.float32), radii)


def word_balls(columns32: FloatMatrix, width: int) -> BoundingBalls:
    """Smallest balls around the means of the columns of each word."""
    n, rank = columns32.shape
    n_tiles, n_words = -(-n // width), -(-width // WORD)
    centers = aligned_zeros((n_tiles, rank, MOST_WORDS), np.float32)
    radii = aligned_zeros((n_tiles, MOST_WORDS), np.float32)
    starts = np.concatenate([np.arange(tile.start, tile.stop, WORD) for tile in row_blocks(n, width)])
    sizes = np.diff(np.append(starts, n))
    means = (np.add.reduceat(columns32, starts, axis=0, dtype=np.float64) / sizes[:, None]).astype(np.float32)
    squares = np.square(columns32.astype(np.float64) - np.repeat(means, sizes, axis=0)).sum(axis=1)
    tile, word = np.divmod(np.arange(len(starts)), n_words)
    centers[tile, :, word] = means
    radii[tile, word] = np.sqrt(np.maximum.reduceat(squares, starts)) * (1.0 + 1e-6)
    return BoundingBalls(centers, radii)


def similarity_order(P: FloatMatrix) -> IntVector:
    """Sort rows by the k-d tree leaf whose mean is nearest; near leaves follow one another."""
    rows32 = (P / (np.abs(P).max(initial=0.0) or 1.0)).astype(np.float32)
    centers = np.array([rows32[leaf].mean(axis=0) for leaf in kd_leaves(rows32, CELL_ROWS)])
    return np.argsort(nearest_center(rows32, centers), kind="stable")


class BracketEntries(NamedTuple):
    """Entries of a row block that lie inside a bracket; rows count within the block."""

    rows: IntVector
    columns: IntVector
    values: FloatVector

    def from_magnitude(self, threshold: float) -> "BracketEntries":
        """Those of magnitude at least `threshold`."""
        kept = np.abs(self.values) >= threshold
        return BracketEntries(self.rows[kept], self.columns[kept], self.values[kept])


class RowBlockPass(NamedTuple):
    """What a pass found in a row block: sums over entries above the bracket, and the entries inside it."""

    rows: slice
    product: FloatMatrix  # SWX, packed, over `PrunedPass.scale`
    row_sums: FloatVector
    column_sums: FloatVector
    inside: BracketEntries
    tally: Tally

    def stored(self, dtype: type) -> "RowBlockPass":
        """What is kept until the cut is known, the product in the precision of the panels."""
        return self._replace(product=self.product.astype(dtype, copy=False))


class PrunedPass:
    """A pass over a part of PP', which adds up entries above a bracket and lists those inside it.

    With entries at most 1, those of many rows can be multiplied in float32 (`dtype`), which is twice as fast: a few at
    a time, their sums in float64. Rounding errors of many rows cancel; less than 1e-9 of the result is left.

    With an `order`, that by similarity in which factor and weights come, while X has an order of its own, columns are
    taken in groups, and panels end with P'WX of each group.
    """

    def __init__(self, block: PairBlock, bracket: Bracket, dtype: type, order: IntVector | None = None) -> None:
        assert block.X is not None
        self.factor = factor = ScreenedFactor(block, TILE_COLUMNS if order is None else GROUPED_COLUMNS)
        self.weights, self.column_weights = np.array(block.weights), np.array(block.column_weights)
        self.bracket, self.dtype = bracket, dtype
        heaviest = max(self.weights.max(initial=0.0), self.column_weights.max(initial=0.0))
        length = largest_magnitude(block.X)
        self.unit = max(factor.square * float(heaviest), float(np.finfo(np.float64).tiny))
        self.scale = self.unit * length  # what products must be multiplied with
        self._norms = np.sqrt(np.einsum("ij,ij->i", factor.rows32, factor.rows32)) * np.float32(1.0 + 1e-6)
        # Below the first nothing reaches the bracket. What lies above the second is taken from the tiles; of few rows,
        # for which rounding does not cancel, nothing is. The third is for bounds on entries, which are rounded once
        # more.
        above = factor.screen(bracket.high, 1.0) if dtype is np.float32 else np.float32(np.inf)
        self._screen = (factor.screen(bracket.low, -1.0), above, factor.screen(bracket.low, -2.0))
        if order is None:
            self.panels = pack_rows(block.X, factor.width, length, dtype)
            self._balls, self._group = unbounded_balls(len(factor.packed), factor.P.shape[1]), factor.width
            self._n_behind = 0
        else:
            # Rows of P are in units of the peak; so is what they are multiplied with.
            weighted = factor.column_P * (self.column_weights * (factor.peak / self.unit))[:, None]
            self.panels = pack_groups(block.X, order, weighted, factor.width, GROUP_COLUMNS, length)
            self._balls, self._group = word_balls(factor.columns32, factor.width), GROUP_COLUMNS
            self._n_behind = self.panels.shape[2] // PANEL - factor.width

    def row_blocks(self) -> list[slice]:
        """Row blocks that a thread takes at a time."""
        return self.factor.row_blocks()

    def run(self, rows: slice) -> RowBlockPass:
        """Pass over the tiles of a row block."""
        factor, w, v = self.factor, self.weights, self.column_weights
        height = rows.stop - rows.start
        product = aligned_zeros((self.panels.shape[1], height * PANEL), np.float64)
        row_sums, column_sums = np.zeros(height), np.zeros(len(v))
        most = height * factor.width if self.bracket.low <= self.bracket.high else 0
        inside = BracketEntries(np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most))
        lists = loops.ListBuffer.of(height, factor.width, self.panels.dtype.type)
        above, parts = 0.0, [BracketEntries(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))]
        for tile, columns in factor.tiles(rows):
            counted, n_inside = loops.accumulate_tile(
                loops.TileRows(factor.rows32[rows], self._norms[rows], factor.P[rows], w[rows]),
                loops.TileColumns(
                    factor.packed[tile],
                    columns.stop - columns.start,
                    self._balls.centers[tile],
                    self._balls.radii[tile],
                    factor.column_P[columns],
                    v[columns],
                    self.panels[tile],
                    self._group,
                    self._n_behind,
                ),
                self._screen,
                (self.bracket.low, self.bracket.high),
                factor.square,
                factor.ahead(rows, columns),
                1.0 / self.unit,
                product,
                row_sums,
                column_sums[columns],
                *inside,
                lists,
            )
            above += counted
            if n_inside:
                row, column, values = (part[:n_inside] for part in inside)
                parts.append(BracketEntries(row.copy(), column + np.int32(columns.start), values.copy()))
        listed = BracketEntries(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        tally = Tally(above, np.abs(listed.values), 2.0 * w[rows][listed.rows] * v[listed.columns])
        return RowBlockPass(rows, product, row_sums, column_sums, listed, tally)

    def complete(self, found: RowBlockPass, threshold: float) -> tuple[FloatVector, FloatVector]:
        """Add the entries inside the bracket that are kept to a stored product; return what rows and columns gain."""
        w, v = self.weights[found.rows], self.column_weights
        rows, columns, values = found.inside.from_magnitude(threshold)
        weighted = values * v[columns]
        given = (1.0 / self.unit, self.factor.width, self.panels, found.product)
        loops.accumulate_entries(rows, columns, weighted, *given)
        return np.bincount(rows, weighted, len(w)), np.bincount(columns, values * w[rows], len(v))

    def sums(self, found: RowBlockPass, X: FloatMatrix) -> PrunedSums:
        """What a row block adds to X'WSWX, where X are its rows."""
        own = X * self.weights[found.rows, None]
        gram = np.asarray(own.T @ unpack_rows(found.product, X.shape[1])) * self.scale
        return PrunedSums(gram, found.row_sums, found.column_sums)


def nothing_inside(threshold: float) -> Bracket:
    """Bracket with nothing inside: what reaches its lower end is above its upper one."""
    return Bracket(threshold, float(np.nextafter(threshold, -1.0)))


def product_dtype(n_rows: int) -> type:
    """Precision in which rows are multiplied with entries: float32 where rounding errors of so many rows cancel."""
    return np.float32 if n_rows >= MANY_ROWS else np.float64


def screened_sums(block: PairBlock, X: FloatMatrix, threshold: float, dtype: type) -> PrunedSums:
    """Sums over the entries of a part of PP' of magnitude at least `threshold`, where X are the rows of its rows."""
    work = PrunedPass(block, nothing_inside(threshold), dtype)
    parts = ordered_map(lambda rows: work.sums(work.run(rows), X[rows]), work.row_blocks())
    return summed_rows(parts)


def whole_pass(P: FloatMatrix, X: FloatMatrix, weights: FloatVector, bracket: Bracket) -> tuple[PrunedPass, IntVector]:
    """Set up a pass over all of PP', and tell the order of rows in it: by similarity where they are very many."""
    dtype = product_dtype(len(X))
    if len(X) < SORTED_ROWS:
        return PrunedPass(all_pairs(P, weights, X), bracket, dtype), np.arange(len(X))
    order = similarity_order(P)
    return PrunedPass(all_pairs(P[order], weights[order], X), bracket, dtype, order), order


def cut_laplacian(
    P: FloatMatrix, t: float, X: FloatMatrix, weights: FloatVector, diagonal: FloatVector, half: HostHalf | None
) -> tuple[float, FloatMatrix, FloatVector] | None:
    """Cut, Laplacian and row sums as `Engine.cut_laplacian` has them; None where the guess of the bracket missed."""
    if len(X) <= MIN_ROWS:
        return None
    bracket = guess_bracket(P, t, weights, diagonal).widened()
    work, order = whole_pass(P, X, weights, bracket)
    found: list[RowBlockPass] = []
    sums, none = np.zeros(len(X)), np.empty(0)
    for part in ordered_map(work.run, work.row_blocks()):
        sums[part.rows] += part.row_sums
        sums += part.column_sums
        found.append(part.stored(work.dtype)._replace(row_sums=none, column_sums=none))
        if sum(len(one.inside.values) for one in found) > MAX_DISTINCT:
            return None
    squares = np.einsum("ij,ij->i", P, P)
    own = Tally(0.0, squares, diagonal).within(bracket)
    cut = cut_inside(bracket, [own, *(part.tally for part in found)], t, P.dtype)
    if cut is None:
        return None
    threshold = kept_from(cut, P.dtype)
    for part, (along, down) in zip(found, ordered_map(lambda one: work.complete(one, threshold), found), strict=True):
        sums[part.rows] += along
        sums += down
    degrees = np.empty(len(X))
    degrees[order] = sums * work.weights
    return cut, _laplacian(work, found, order, X, degrees, half), degrees


def _laplacian(
    work: PrunedPass,
    found: list[RowBlockPass],
    order: IntVector,
    X: FloatMatrix,
    degrees: FloatVector,
    half: HostHalf | None,
) -> FloatMatrix:
    """X'(D - A)X from SWX of all row blocks and the row sums WSw, with a half of another affinity beside them."""
    n, d = X.shape
    halves = degrees / 2 if half is None else (degrees + half.degrees()) / 2
    links = csr_array((n, n)) if half is None else half.matrix

    def part(block: RowBlockPass) -> FloatMatrix:
        places = order[block.rows]
        scales = work.scale * work.weights[block.rows]
        total, rows, products = np.zeros((d, d)), np.empty((FEW_ROWS, d)), np.empty((FEW_ROWS, d))
        for some in row_blocks(len(places), FEW_ROWS):
            height = some.stop - some.start
            given = (X, places[some], some.start, halves, block.product, scales)
            loops.laplacian_rows(*given, links.indptr, links.indices, links.data, rows, products)
            total += rows[:height].T @ products[:height]
        return total

    total = np.asarray(sum(ordered_map(part, found)))
    return np.asarray(total + total.T)


def pruned_gram(
    P: FloatMatrix, threshold: float, X: FloatMatrix, weights: FloatVector
) -> tuple[FloatMatrix, FloatVector]:
    """X'WSWX and WSw over the off-diagonal entries of PP' of magnitude at least `threshold`."""
    work, order = whole_pass(P, X, weights, nothing_inside(threshold))
    parts = ordered_map(lambda rows: work.sums(work.run(rows), X[order[rows]]), work.row_blocks())
    half, along, down = summed_rows(parts)
    degrees = np.empty(len(X))
    degrees[order] = (along + down) * work.weights
    return half + half.T, degrees
