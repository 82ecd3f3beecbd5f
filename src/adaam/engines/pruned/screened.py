"""The pruned affinity S(PP') by compiled loops: screened in float32, decided in float64.

A float32 tile takes half the time of a float64 one, and its rounding error is bounded. Entries within that error of a
threshold are recomputed from their two rows in float64, so which entries are kept or counted is decided in float64.

Cut and Laplacian come from a single pass if a bracket of the cut is known. Entries above the bracket are kept whatever
the cut is, and are added at once; the few inside are listed, and those that the cut keeps are added afterwards. The row
sums D are then known. With S the entries above the diagonal, X'(D/2 - S)X plus its transpose is X'(D - S - S')X, which
takes one product.

Entries of a tile are computed and compared in registers, two rows at a time. The kept entries of a tile, found by
bitmasks, form a CSR matrix, which is multiplied with rows of X panel by panel (`simd.accumulate_rows`).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from adaam._checks import largest_magnitude
from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.compiled import MANY_ROWS, PANEL
from adaam.engines.neighbors.graph import HostHalf
from adaam.engines.neighbors.search import kd_leaves
from adaam.engines.pruned.cut import MAX_DISTINCT, Bracket, Tally, cut_inside, guess_bracket, kept_from
from adaam.engines.simd import (
    UNROLLED,
    WORD,
    accumulate_rows,
    aligned_zeros,
    compiled,
    fma,
    load,
    load_scalar,
    mask_magnitude_ge,
    pack_columns,
    pack_rows,
    set_bit_positions,
    store,
    unpack_rows,
    zero_vector,
)

# Columns of a tile: a panel of their rows of X stays in the private cache of a core (decision 0016). Tiles with more
# rows reuse it more often, but there must be enough tiles for many threads.
TILE_COLUMNS = 384  # whole words
MAX_TILE_ROWS = 2048
FEW_ROWS = 256  # rows whose temporaries stay in the private cache of a core
SORTED_ROWS = 1 << 15  # number of rows from which they are sorted so that similar ones are adjacent


class BracketEntries(NamedTuple):
    """Entries that lie inside a bracket."""

    rows: IntVector
    columns: IntVector
    values: FloatVector


class RowBlockPass(NamedTuple):
    """Result of a pass over a row block: sums over entries above the bracket, and the entries inside it."""

    rows: slice
    product: FloatMatrix  # SWX, packed, divided by `PrunedPass.scale`
    sums: FloatVector  # Sw
    inside: BracketEntries
    tally: Tally


class PrunedPass:
    """A pass over PP' above the diagonal, which sums the entries above a bracket and lists those inside it.

    Entries are scaled to at most 1, so that those of many rows can be multiplied in float32 (`dtype`), which is twice
    as fast: in short sums, which are added up in float64. Rounding errors of many rows cancel, to less than 1e-9 of
    the result. Rows are processed, and results returned, in `order`, if given.
    """

    def __init__(
        self,
        P: FloatMatrix,
        weights: FloatVector,
        X: FloatMatrix,
        bracket: Bracket,
        dtype: type,
        order: IntVector | None = None,
    ) -> None:
        if order is not None:
            P, weights = P[order], weights[order]
        # Writable: numba compiles a second version for read-only arrays, such as those received over a network.
        self.P, self.weights = np.require(P, np.float64, ["C", "W"]), np.array(weights)
        self.bracket, self.dtype = bracket, dtype
        largest = float(np.abs(P).max(initial=0.0)) or 1.0  # divided out first: no square overflows
        peak = largest * float(np.sqrt(np.square(P / largest).sum(axis=1).max(initial=0.0))) or 1.0
        self.square = peak * peak  # the unit of products in float32
        self.rows32 = (P / peak).astype(np.float32)
        self.width = min(TILE_COLUMNS, max(1, len(P)))
        self.packed = pack_columns(self.rows32)
        length = largest_magnitude(X) or 1.0
        self.unit = max(self.square * float(weights.max(initial=0.0)), float(np.finfo(np.float64).tiny))
        self.scale = self.unit * length  # factor from `product` to SWX
        self.panels = pack_rows(X, self.width, length, dtype, order)
        # Rounding of both rows and of r products and sums, half an eps each, and a margin for that of the thresholds.
        error = (self.P.shape[1] + 16) * 2.0**-24
        # In these units no entry exceeds 1; much larger thresholds are clipped, as they may not fit into float32.
        low, high = (min(magnitude / peak / peak, 4.0) for magnitude in bracket)
        # Entries below the first threshold are below the bracket. Those above the second are taken from the float32
        # tile, except with few rows, for which rounding errors do not cancel.
        self._screen = (np.float32(low - error), np.float32(high + error if dtype is np.float32 else np.inf))

    def row_blocks(self) -> list[slice]:
        """Row blocks, one per task; their length is the height of the tiles."""
        return row_blocks(len(self.P), min(MAX_TILE_ROWS, max(384, len(self.P) // 24)))

    def run(self, rows: slice) -> RowBlockPass:
        """Pass over the tiles of a row block that have entries above the diagonal."""
        w, n = self.weights, len(self.P)
        height, most = rows.stop - rows.start, (rows.stop - rows.start) * self.width
        product = aligned_zeros((self.panels.shape[1], height * PANEL), np.float64)
        sums = np.zeros(n)
        inside = BracketEntries(np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most))
        # Memory for lists is reused, so the next tile finds it in cache.
        room = most + height
        lists = RowLists(np.zeros(height + 1, np.int64), np.empty(room, np.int32), np.empty(room, self.panels.dtype))
        above, parts = 0.0, [BracketEntries(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))]
        for tile in range(rows.start // self.width, len(self.panels)):
            columns = slice(tile * self.width, min((tile + 1) * self.width, n))
            packed = self.packed[columns.start // WORD : -(-columns.stop // WORD)]
            counted, n_inside = accumulate_tile(
                TileRows(self.rows32[rows], self.P[rows], w[rows]),
                TileColumns(packed, self.P[columns], w[columns], self.panels[tile]),
                self._screen,
                (self.bracket.low, self.bracket.high),
                self.square,
                columns.start - rows.start,
                1.0 / self.unit,
                product,
                sums[rows],
                sums[columns],
                inside,
                lists,
            )
            above += counted
            if n_inside:
                row, column, values = (part[:n_inside] for part in inside)
                starts = np.int32(rows.start), np.int32(columns.start)
                parts.append(BracketEntries(row + starts[0], column + starts[1], values.copy()))
        listed = BracketEntries(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        tally = Tally(above, np.abs(listed.values), 2.0 * w[listed.rows] * w[listed.columns])
        return RowBlockPass(rows, product.astype(self.dtype, copy=False), sums, listed, tally)


def product_dtype(n_rows: int) -> type:
    """Precision of the products of entries and rows of X: float32 if there are enough rows for errors to cancel."""
    return np.float32 if n_rows >= MANY_ROWS else np.float64


def screened_tallies(P: FloatMatrix, weights: FloatVector, bracket: Bracket) -> Iterator[Tally]:
    """Tallies of the off-diagonal magnitudes of PP' for a bracket, one per row block, in order."""
    # X is empty; the precision is that of the pass that follows, so that one set of loops is compiled.
    work = PrunedPass(P, weights, np.empty((len(P), 0)), bracket, product_dtype(len(P)))
    return ordered_map(lambda rows: work.run(rows).tally, work.row_blocks())


def cut_laplacian(
    P: FloatMatrix,
    t: float,
    X: FloatMatrix,
    weights: FloatVector,
    diagonal: FloatVector,
    half: HostHalf | None,
    cut: float | None = None,
) -> tuple[float, FloatMatrix, FloatVector] | None:
    """Cut, Laplacian and row sums of `Engine.cut_laplacian`; None if the bracket missed the cut or is too full."""
    n, d = X.shape
    if cut is None:
        bracket = guess_bracket(P, t, weights, diagonal)
    else:  # an empty bracket: entries that reach its lower end are above its upper end
        bracket = Bracket(kept_from(cut, P.dtype), float(np.nextafter(kept_from(cut, P.dtype), -1.0)))
    # Kept entries are then concentrated in few rows of few tiles: the pass takes an eighth less time.
    order = np.concatenate(kd_leaves(P.astype(np.float32), FEW_ROWS)) if n >= SORTED_ROWS else None
    work = PrunedPass(P, weights, X, bracket, product_dtype(n), order)
    found: list[RowBlockPass] = []
    sums, none = np.zeros(n), np.empty(0)
    for part in ordered_map(work.run, work.row_blocks()):
        sums += part.sums
        found.append(part._replace(sums=none))
        if sum(len(one.inside.values) for one in found) > MAX_DISTINCT:
            return None
    if cut is None:
        own = Tally(0.0, np.einsum("ij,ij->i", P, P), diagonal)
        cut = cut_inside(bracket, own, (part.tally for part in found), t, P.dtype)
    if cut is None:
        return None
    # Kept entries inside the bracket; they are subtracted below, as is `half`.
    rows, columns, values = (np.concatenate(part) for part in zip(*(part.inside for part in found), strict=True))
    kept = np.abs(values) >= kept_from(cut, P.dtype)
    rows, columns, values = rows[kept], columns[kept], values[kept]
    degrees = sums * work.weights
    if order is not None:
        rows, columns = order[rows], order[columns]
        degrees[order] = degrees.copy()
    inside = HostHalf(csr_array((values * weights[rows] * weights[columns], (rows, columns)), shape=(n, n)))
    degrees += inside.degrees()
    halves = degrees / 2 if half is None else (degrees + half.degrees()) / 2
    beside = [inside.matrix] if half is None else [inside.matrix, half.matrix]
    beside = beside if order is None else [matrix[order] for matrix in beside]

    def half_laplacian(block: RowBlockPass) -> FloatMatrix:
        """Part of a row block in X'(D/2 - A)X, where A is WSW above the diagonal, plus `half`."""
        total = np.zeros((d, d))
        for some in row_blocks(block.rows.stop - block.rows.start, FEW_ROWS):
            own = slice(block.rows.start + some.start, block.rows.start + some.stop)
            above = unpack_rows(block.product[:, some.start * PANEL : some.stop * PANEL], d)
            taken = own if order is None else order[own]
            mine = X[taken]
            rest = halves[taken, None] * mine - (work.scale * weights[taken, None]) * above
            for part in beside:
                subtract_product(part.indptr[own.start : own.stop + 1], part.indices, part.data, X, rest)
            total += mine.T @ rest
        return total

    total = np.asarray(sum(ordered_map(half_laplacian, found)))
    return cut, total + total.T, degrees


@compiled
def subtract_product(
    starts: IntVector, columns: IntVector, values: FloatVector, X: FloatMatrix, out: FloatMatrix
) -> None:
    """Subtract the product of rows of a CSR matrix and X from `out`, faster than SciPy computes it."""
    for i in range(len(out)):
        for q in range(starts[i], starts[i + 1]):
            j, value = columns[q], values[q]
            for k in range(X.shape[1]):
                out[i, k] -= value * X[j, k]


class TileRows(NamedTuple):
    """Rows of a tile."""

    rows32: FloatMatrix  # factor in float32
    P: FloatMatrix
    weights: FloatVector


class TileColumns(NamedTuple):
    """Columns of a tile."""

    packed: FloatMatrix  # factor in float32, in words
    P: FloatMatrix
    weights: FloatVector
    panels: FloatMatrix  # rows of X


class RowLists(NamedTuple):
    """Kept entries of a tile in CSR form: starts of the rows, offsets of rows of X in a panel, coefficients."""

    starts: IntVector
    offsets: IntVector
    coefficients: FloatVector


@compiled
def _screen(
    rows: FloatMatrix,
    i: int,
    h: int,
    columns: FloatMatrix,
    begin: int,
    low: np.float32,
    entries: FloatMatrix,
    words: IntMatrix,
) -> None:
    """Entries of rows i and h in all columns from word `begin` on, and bitmasks of those that reach `low`."""
    for w in range(begin, len(columns)):
        a, b = zero_vector(rows, WORD), zero_vector(rows, WORD)
        for k in range(rows.shape[1]):
            column = load(columns, (w, k, 0), WORD)
            a, b = fma(a, load_scalar(rows, (i, k)), column), fma(b, load_scalar(rows, (h, k)), column)
        store(entries, (0, w * WORD), a)
        store(entries, (1, w * WORD), b)
        words[0, w] = mask_magnitude_ge(a, low)
        words[1, w] = mask_magnitude_ge(b, low)


@compiled
def _product(P: FloatMatrix, i: int, Q: FloatMatrix, j: int) -> float:
    """Inner product of two rows, summed in the order of columns: the same bits in every tile."""
    total = 0.0
    for k in range(P.shape[1]):
        total += P[i, k] * Q[j, k]
    return total


@compiled
def accumulate_tile(
    rows: TileRows,
    columns: TileColumns,
    screen: tuple[np.float32, np.float32],
    bracket: tuple[float, float],
    square: float,
    ahead: int,
    scale: float,
    product: FloatMatrix,
    row_sums: FloatVector,
    column_sums: FloatVector,
    listed: BracketEntries,
    lists: RowLists,
) -> tuple[float, int]:
    """Add a tile's part of SWX and Sw, from upper-triangle entries above a bracket; list those inside the bracket.

    Products of the float32 factors are entries in units of `square`. Those below screen[0] are below the bracket, those
    above screen[1] are above it and used as they are, and those between are recomputed from their two rows in float64.
    The index of the tile's first column is that of its first row plus `ahead`. Entries times `scale` and the rows of X
    in panels are at most 1, so that panels may be float32.

    Returns the multiplicity of the added entries, both directions of each pair counted, and the number of listed
    entries. If the upper end of the bracket is the float just below its lower end, none are listed, and those that
    reach the lower end are added.
    """
    n_rows, n_columns = len(rows.P), len(columns.P)
    entries = np.empty((2, len(columns.packed) * WORD), np.float32)
    words = np.empty((2, len(columns.packed)), np.uint64)
    positions = np.empty(n_columns + UNROLLED, np.uint32)  # numba tests signed indices for being negative
    starts, offsets, coefficients = lists
    weight_above = 0.0
    n_inside = 0
    n_found = 0
    for i in range(n_rows):
        start = max(0, i + 1 - ahead)
        if i % 2 == 0:
            h = min(i + 1, n_rows - 1)
            _screen(rows.rows32, i, h, columns.packed, start // WORD, screen[0], entries, words)
        total = 0.0
        reached = 0.0
        for q in range(set_bit_positions(words[i % 2], start, n_columns, positions)):
            j = positions[q]
            entry32 = entries[i % 2, j]
            entry = square * entry32
            if abs(entry32) <= screen[1]:
                entry = _product(rows.P, i, columns.P, j)
                if abs(entry) <= bracket[1]:
                    if abs(entry) >= bracket[0]:
                        listed.rows[n_inside] = i
                        listed.columns[n_inside] = j
                        listed.values[n_inside] = entry
                        n_inside += 1
                    continue
            weighted = entry * columns.weights[j]
            offsets[n_found] = j * PANEL
            coefficients[n_found] = weighted * scale
            n_found += 1
            total += weighted
            reached += columns.weights[j]
            column_sums[j] += entry * rows.weights[i]
        if n_found % 2:
            offsets[n_found] = 0
            coefficients[n_found] = 0.0
            n_found += 1
        starts[i + 1] = n_found
        row_sums[i] += total
        weight_above += 2.0 * rows.weights[i] * reached
    accumulate_rows(starts, offsets, coefficients, columns.panels, product)
    return weight_above, n_inside
