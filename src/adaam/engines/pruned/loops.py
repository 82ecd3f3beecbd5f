"""Compiled loops over tiles of PP', touching only what is kept.

Entries are made in registers and leave them as bits, two rows at a time; what is kept of a row becomes a list, and the
rows of X that a list names are accumulated panel by panel (`simd.accumulate_rows`).
"""

from typing import Any, NamedTuple

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.compiled import PANEL
from adaam.engines.simd import (
    N_LANES,
    ONES,
    UNROLLED,
    WORD,
    accumulate_rows,
    compiled,
    fma,
    load,
    load_scalar,
    mask_magnitude_ge,
    set_bit_positions,
    store,
    zero_vector,
)


class TileColumns(NamedTuple):
    """Columns of a tile."""

    packed: FloatMatrix  # factor in float32, a column each, in whole words
    n_columns: int
    centers: FloatMatrix  # of balls that hold the columns of a word
    radii: FloatVector
    P: FloatMatrix
    weights: FloatVector
    panels: FloatMatrix  # rows of X, and behind them P'WX of each group
    group: int  # columns of a group
    n_behind: int


class TileRows(NamedTuple):
    """Rows of a tile."""

    rows32: FloatMatrix  # factor in float32
    norms: FloatVector  # of its rows
    P: FloatMatrix
    weights: FloatVector


class ListBuffer(NamedTuple):
    """Memory for the lists of a tile, which its next one finds in cache: where each row's begins, and what it holds."""

    starts: IntVector
    offsets: IntVector
    coefficients: FloatVector

    @classmethod
    def of(cls, height: int, width: int, dtype: type) -> "ListBuffer":
        """Memory for a tile of this shape."""
        most = height * (width + 1)
        return cls(np.empty(height + 1, np.int64), np.empty(most, np.int32), np.empty(most, dtype))


@compiled
def _reachable_words(
    rows: FloatMatrix, norms: FloatVector, i: int, h: int, centers: FloatMatrix, radii: FloatVector, low: np.float32
) -> Any:
    """Bits of the words in which an entry of rows i or h can reach `low`: columns lie in balls, a word in each."""
    a, b = zero_vector(centers), zero_vector(centers)
    for k in range(rows.shape[1]):
        center = load(centers, (k, 0))
        a, b = fma(a, load_scalar(rows, (i, k)), center), fma(b, load_scalar(rows, (h, k)), center)
    radius = load(radii, (0,))
    # An entry is within norm * radius of that of the centre; of its ends one is the farther from zero.
    reached = mask_magnitude_ge(fma(a, norms[i], radius), low) | mask_magnitude_ge(fma(a, -norms[i], radius), low)
    reached |= mask_magnitude_ge(fma(b, norms[h], radius), low) | mask_magnitude_ge(fma(b, -norms[h], radius), low)
    return reached


@compiled
def _screen(
    rows: FloatMatrix,
    i: int,
    h: int,
    columns: FloatMatrix,
    begin: int,
    reachable: Any,
    low: np.float32,
    entries: FloatMatrix,
    words: IntMatrix,
) -> None:
    """Entries of rows i and h against all columns from word `begin` on, and a bit for each that reaches `low`.

    Words that are not reachable are taken to have none.
    """
    for w in range(begin, columns.shape[1] // WORD):
        if not (reachable >> np.uint64(w)) & np.uint64(1):
            words[0, w] = 0
            words[1, w] = 0
            continue
        j = w * WORD
        a0, a1, a2, a3 = zero_vector(rows), zero_vector(rows), zero_vector(rows), zero_vector(rows)
        b0, b1, b2, b3 = zero_vector(rows), zero_vector(rows), zero_vector(rows), zero_vector(rows)
        for k in range(rows.shape[1]):
            a, b = load_scalar(rows, (i, k)), load_scalar(rows, (h, k))
            c0, c1 = load(columns, (k, j)), load(columns, (k, j + N_LANES))
            c2, c3 = load(columns, (k, j + 2 * N_LANES)), load(columns, (k, j + 3 * N_LANES))
            a0, a1, a2, a3 = fma(a0, a, c0), fma(a1, a, c1), fma(a2, a, c2), fma(a3, a, c3)
            b0, b1, b2, b3 = fma(b0, b, c0), fma(b1, b, c1), fma(b2, b, c2), fma(b3, b, c3)
        words[0, w] = _store_word(entries, 0, j, a0, a1, a2, a3, low)
        words[1, w] = _store_word(entries, 1, j, b0, b1, b2, b3, low)


@compiled
def _store_word(entries: FloatMatrix, row: int, j: int, e0: Any, e1: Any, e2: Any, e3: Any, low: np.float32) -> Any:
    """Write 64 entries, and return their bits."""
    store(entries, (row, j), e0)
    store(entries, (row, j + N_LANES), e1)
    store(entries, (row, j + 2 * N_LANES), e2)
    store(entries, (row, j + 3 * N_LANES), e3)
    near = mask_magnitude_ge(e0, low) | (mask_magnitude_ge(e1, low) << np.uint64(N_LANES))
    far = mask_magnitude_ge(e2, low) | (mask_magnitude_ge(e3, low) << np.uint64(N_LANES))
    return near | (far << np.uint64(2 * N_LANES))


@compiled
def _product(P: FloatMatrix, i: int, Q: FloatMatrix, j: int) -> float:
    """Inner product of two rows in the order of their entries: the same bits in every tile."""
    total = 0.0
    for k in range(P.shape[1]):
        total += P[i, k] * Q[j, k]
    return total


@compiled
def accumulate_tile(
    rows: TileRows,
    columns: TileColumns,
    screen: tuple[np.float32, np.float32, np.float32],
    bracket: tuple[float, float],
    square: float,
    ahead: int,
    scale: float,
    product: FloatMatrix,
    row_sums: FloatVector,
    column_sums: FloatVector,
    listed_rows: IntVector,
    listed_columns: IntVector,
    listed_values: FloatVector,
    lists: ListBuffer,
) -> tuple[float, int]:
    """Add a tile's part of SWX and Sw: entries right of the diagonal above a bracket; and list those inside it.

    Factors in float32 have products that are entries in units of `square`; nothing below screen[0] can reach the
    bracket, what lies above screen[1] is above it for certain and taken as it is, and all between is computed again
    from its two rows. The tile's first column is `ahead` of its first row. Entries times `scale` and the rows of X in
    panels are at most 1, so that these may come in float32. Columns lie in balls, 64 in each; one whose entries stay
    below screen[2] is passed over.

    An entry is the product of two rows of P, so that all of a row's entries for a group of columns together add its row
    of P times P'WX of the group. Where panels end with the rows of these matrices, a row of which more entries are
    added than are not adds them, and takes away what is not added.

    Returns the multiplicity of what was added, each pair counted for both its directions, and how many entries were
    listed. A bracket whose upper end is the number just below its lower one lists none, and adds what reaches the lower
    end.
    """
    inside, above = bracket
    low, certain, far = screen
    n_rows, rank = rows.rows32.shape
    n_columns, group, panels = columns.n_columns, columns.group, columns.panels
    row_weights, column_weights = rows.weights, columns.weights
    behind = panels.shape[1] // PANEL - columns.n_behind
    entries = np.empty((2, columns.packed.shape[1]), np.float32)
    words = np.empty((2, columns.packed.shape[1] // WORD), np.uint64)
    positions = np.empty(n_columns + UNROLLED, np.uint32)  # numba asks signed indices whether they count from the end
    starts, offsets, coefficients = lists
    starts[0] = 0
    weight_above = 0.0
    n_inside = 0
    n_found = 0
    reachable = ONES
    for i in range(n_rows):
        start = max(0, i + 1 - ahead)
        if i % 2 == 0:
            h = min(i + 1, n_rows - 1)
            reachable = _reachable_words(rows.rows32, rows.norms, i, h, columns.centers, columns.radii, far)
            _screen(rows.rows32, i, h, columns.packed, start // WORD, reachable, low, entries, words)
        total = 0.0
        reached = 0.0
        for begin in range(start // group * group, n_columns, group):
            end = min(begin + group, n_columns)
            span = (ONES >> np.uint64(63 - (end - begin - 1) // WORD)) << np.uint64(begin // WORD)
            if not reachable & span:
                continue
            first = n_found
            for q in range(set_bit_positions(words[i % 2], max(start, begin), end, positions)):
                j = positions[q]
                entry32 = entries[i % 2, j]
                entry = square * entry32
                if abs(entry32) <= certain:
                    entry = _product(rows.P, i, columns.P, j)
                    if abs(entry) <= above:
                        words[i % 2, j // WORD] ^= np.uint64(1) << np.uint64(j % WORD)
                        if abs(entry) >= inside:
                            listed_rows[n_inside] = i
                            listed_columns[n_inside] = j
                            listed_values[n_inside] = entry
                            n_inside += 1
                        continue
                weighted = entry * column_weights[j]
                offsets[n_found] = j * PANEL
                coefficients[n_found] = weighted * scale
                n_found += 1
                total += weighted
                reached += column_weights[j]
                column_sums[j] += entry * row_weights[i]
            most = 2 * (n_found - first) > end - begin + rank
            if most and columns.n_behind > 0 and start <= begin and reachable & span == span:
                n_found = first
                for k in range(rank):
                    offsets[n_found] = (behind + begin // group * rank + k) * PANEL
                    coefficients[n_found] = rows.rows32[i, k]
                    n_found += 1
                for w in range(begin // WORD, (end + WORD - 1) // WORD):
                    words[i % 2, w] ^= ONES
                for q in range(set_bit_positions(words[i % 2], begin, end, positions)):
                    j = positions[q]
                    offsets[n_found] = j * PANEL
                    coefficients[n_found] = -(square * entries[i % 2, j]) * column_weights[j] * scale
                    n_found += 1
        if n_found % 2:
            offsets[n_found] = 0
            coefficients[n_found] = 0.0
            n_found += 1
        starts[i + 1] = n_found
        row_sums[i] += total
        weight_above += 2.0 * row_weights[i] * reached
    accumulate_rows(starts[: n_rows + 1], offsets, coefficients, panels, product)
    return weight_above, n_inside


@compiled
def accumulate_entries(
    rows: IntVector,
    columns: IntVector,
    values: FloatVector,
    scale: float,
    width: int,
    panels: FloatMatrix,
    product: FloatMatrix,
) -> None:
    """Add value * scale * row of X to rows of the product, for entries in a list; `panels` are those of all tiles."""
    for q in range(len(rows)):
        coefficient = values[q] * scale
        tile, j, out = columns[q] // width, columns[q] % width * PANEL, rows[q] * PANEL
        for panel in range(panels.shape[1]):
            for k in range(0, PANEL, N_LANES):
                sums = fma(load(product, (panel, out + k)), coefficient, load(panels, (tile, panel, j + k)))
                store(product, (panel, out + k), sums)


@compiled
def count_tile(
    rows: FloatMatrix,
    columns: FloatMatrix,
    n_columns: int,
    screen: tuple[np.float32, np.float32],
    bracket: tuple[float, float],
    ahead: int,
    P_rows: FloatMatrix,
    P_columns: FloatMatrix,
    row_weights: FloatVector,
    column_weights: FloatVector,
    values: FloatVector,
    counts: FloatVector,
) -> tuple[float, int]:
    """Weight of the entries above a bracket, and how many inside it were written to `values` and `counts`.

    The tile is that of `accumulate_tile`: what lies above screen[1] is above the bracket for certain, and what lies
    between is computed again from its two rows. Each pair counts for both its directions.
    """
    low, high = bracket
    n_rows = len(rows)
    entries = np.empty((2, columns.shape[1]), np.float32)
    words = np.empty((2, columns.shape[1] // WORD), np.uint64)
    positions = np.empty(n_columns + UNROLLED, np.uint32)
    above = 0.0
    n_inside = 0
    for i in range(n_rows):
        start = max(0, i + 1 - ahead)
        if i % 2 == 0:
            _screen(rows, i, min(i + 1, n_rows - 1), columns, start // WORD, ONES, screen[0], entries, words)
        reached = 0.0
        for q in range(set_bit_positions(words[i % 2], start, n_columns, positions)):
            j = positions[q]
            if abs(entries[i % 2, j]) > screen[1]:
                reached += column_weights[j]
                continue
            entry = abs(_product(P_rows, i, P_columns, j))
            if entry > high:
                reached += column_weights[j]
            elif entry >= low and entry > 0.0:
                values[n_inside] = entry
                counts[n_inside] = 2.0 * row_weights[i] * column_weights[j]
                n_inside += 1
        above += 2.0 * row_weights[i] * reached
    return above, n_inside


@compiled
def laplacian_rows(
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
    products: FloatMatrix,
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
            products[i, k] = halves[place] * X[place, k]
        scale = scales[first + i]
        for panel in range(len(product)):
            for k in range(min(PANEL, d - panel * PANEL)):
                products[i, panel * PANEL + k] -= scale * product[panel, (first + i) * PANEL + k]
        for q in range(starts[place], starts[place + 1]):
            j, value = columns[q], values[q]
            for k in range(d):
                products[i, k] -= value * X[j, k]
