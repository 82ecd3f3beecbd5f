"""One sweep over a tile of PP', touching only what survives.

Entries are made in registers and leave them as bits, two rows at a time; what survives of a row becomes a list, and the
rows of X that a list names are added panel by panel (`kernels.adding`).
"""

from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.kernels.adding import add_rows
from adaam.engines.kernels.compiling import compiled
from adaam.engines.kernels.lanes import N_LANES, add_product, load, nothing, number, reaching, store
from adaam.engines.kernels.marking import AT_ONCE, ONES, marked
from adaam.engines.kernels.panels import PANEL, WORD
from adaam.engines.kernels.survivors import Listed, Room, Tile, TileRows


@compiled
def _alive(
    rows: FloatMatrix, lengths: FloatVector, i: int, h: int, centers: FloatMatrix, radii: FloatVector, low: float
) -> Any:
    """Bits of the words in which an entry of rows i or h can reach `low`: columns lie in balls, a word in each."""
    a, b = nothing(centers), nothing(centers)
    for k in range(rows.shape[1]):
        center = load(centers, (k, 0))
        a, b = add_product(a, number(rows, (i, k)), center), add_product(b, number(rows, (h, k)), center)
    radius = load(radii, (0,))
    # An entry is within length * radius of that of the centre; of its ends one is the farther from zero.
    reached = reaching(add_product(a, lengths[i], radius), low) | reaching(add_product(a, -lengths[i], radius), low)
    reached |= reaching(add_product(b, lengths[h], radius), low) | reaching(add_product(b, -lengths[h], radius), low)
    return reached


@compiled
def _screen(
    rows: FloatMatrix,
    i: int,
    h: int,
    columns: FloatMatrix,
    begin: int,
    alive: Any,
    low: float,
    entries: FloatMatrix,
    words: IntMatrix,
) -> None:
    """Entries of rows i and h against all columns from word `begin` on, and a bit for each that reaches `low`.

    Words that are not alive are taken to have none.
    """
    for w in range(begin, columns.shape[1] // WORD):
        if not (alive >> np.uint64(w)) & np.uint64(1):
            words[0, w] = 0
            words[1, w] = 0
            continue
        j = w * WORD
        a0, a1, a2, a3 = nothing(rows), nothing(rows), nothing(rows), nothing(rows)
        b0, b1, b2, b3 = nothing(rows), nothing(rows), nothing(rows), nothing(rows)
        for k in range(rows.shape[1]):
            a, b = number(rows, (i, k)), number(rows, (h, k))
            c0, c1 = load(columns, (k, j)), load(columns, (k, j + N_LANES))
            c2, c3 = load(columns, (k, j + 2 * N_LANES)), load(columns, (k, j + 3 * N_LANES))
            a0, a1, a2, a3 = (
                add_product(a0, a, c0),
                add_product(a1, a, c1),
                add_product(a2, a, c2),
                add_product(a3, a, c3),
            )
            b0, b1, b2, b3 = (
                add_product(b0, b, c0),
                add_product(b1, b, c1),
                add_product(b2, b, c2),
                add_product(b3, b, c3),
            )
        words[0, w] = _keep(entries, 0, j, a0, a1, a2, a3, low)
        words[1, w] = _keep(entries, 1, j, b0, b1, b2, b3, low)


@compiled
def _keep(entries: FloatMatrix, row: int, j: int, e0: Any, e1: Any, e2: Any, e3: Any, low: float) -> Any:
    """Write 64 entries, and return their bits."""
    store(entries, (row, j), e0)
    store(entries, (row, j + N_LANES), e1)
    store(entries, (row, j + 2 * N_LANES), e2)
    store(entries, (row, j + 3 * N_LANES), e3)
    near = reaching(e0, low) | (reaching(e1, low) << np.uint64(N_LANES))
    far = reaching(e2, low) | (reaching(e3, low) << np.uint64(N_LANES))
    return near | (far << np.uint64(2 * N_LANES))


@compiled
def _product(P: FloatMatrix, i: int, Q: FloatMatrix, j: int) -> float:
    """Inner product of two rows in the order of their entries: the same bits in every tile."""
    total = 0.0
    for k in range(P.shape[1]):
        total += P[i, k] * Q[j, k]
    return total


@compiled
def add_survivors(
    rows: TileRows,
    columns: Tile,
    near: tuple[float, float, float],
    bracket: tuple[float, float],
    square: float,
    ahead: int,
    scale: float,
    product: FloatMatrix,
    row_sums: FloatVector,
    column_sums: FloatVector,
    listed: Listed,
    room: Room,
) -> tuple[float, int]:
    """Add a tile's part of SWX and Sw: entries right of the diagonal above a bracket; and list those inside it.

    Factors in float32 have products that are entries in units of `square`; nothing below near[0] can reach the bracket,
    what lies above near[1] is above it for certain and taken as it is, and all between is computed again from its two
    rows. The tile's first column is `ahead` of its first row. Entries times `scale` and the rows of X in panels are at
    most 1, so that these may come in float32. Columns lie in balls, 64 in each; one whose entries stay below near[2] is
    passed over.

    An entry is the product of two rows of P, so that all of a row's entries for a group of columns together add its row
    of P times P'WX of the group. Where panels end with the rows of these matrices, a row of which more entries are
    added than are not adds them, and takes away what is not added.

    Returns the multiplicity of what was added, each pair counted for both its directions, and how many entries were
    listed. A bracket whose upper end is the number just below its lower one lists none, and adds what reaches the lower
    end.
    """
    inside, above = bracket
    low, sure, far = near
    n_rows, rank = rows.narrow.shape
    n_columns, group, panels = columns.n_columns, columns.group, columns.panels
    row_weights, column_weights = rows.weights, columns.weights
    behind = panels.shape[1] // PANEL - columns.n_behind
    entries = np.empty((2, columns.narrow.shape[1]), np.float32)
    words = np.empty((2, columns.narrow.shape[1] // WORD), np.uint64)
    near_places = np.empty(n_columns + AT_ONCE, np.uint32)  # numba asks signed indices whether they count from the end
    starts, places, shares = room
    starts[0] = 0
    weight_above = 0.0
    n_inside = 0
    n_found = 0
    alive = ONES
    for i in range(n_rows):
        start = max(0, i + 1 - ahead)
        if i % 2 == 0:
            h = min(i + 1, n_rows - 1)
            alive = _alive(rows.narrow, rows.lengths, i, h, columns.centers, columns.radii, far)
            _screen(rows.narrow, i, h, columns.narrow, start // WORD, alive, low, entries, words)
        total = 0.0
        reached = 0.0
        for begin in range(start // group * group, n_columns, group):
            end = min(begin + group, n_columns)
            span = (ONES >> np.uint64(63 - (end - begin - 1) // WORD)) << np.uint64(begin // WORD)
            if not alive & span:
                continue
            first = n_found
            for q in range(marked(words[i % 2], max(start, begin), end, near_places)):
                j = near_places[q]
                narrow = entries[i % 2, j]
                entry = square * narrow
                if abs(narrow) <= sure:
                    entry = _product(rows.P, i, columns.P, j)
                    if abs(entry) <= above:
                        words[i % 2, j // WORD] ^= np.uint64(1) << np.uint64(j % WORD)
                        if abs(entry) >= inside:
                            listed.rows[n_inside] = i
                            listed.columns[n_inside] = j
                            listed.values[n_inside] = entry
                            n_inside += 1
                        continue
                weighted = entry * column_weights[j]
                places[n_found] = j * PANEL
                shares[n_found] = weighted * scale
                n_found += 1
                total += weighted
                reached += column_weights[j]
                column_sums[j] += entry * row_weights[i]
            most = 2 * (n_found - first) > end - begin + rank
            if most and columns.n_behind > 0 and start <= begin and alive & span == span:
                n_found = first
                for k in range(rank):
                    places[n_found] = (behind + begin // group * rank + k) * PANEL
                    shares[n_found] = rows.narrow[i, k]
                    n_found += 1
                for w in range(begin // WORD, (end + WORD - 1) // WORD):
                    words[i % 2, w] ^= ONES
                for q in range(marked(words[i % 2], begin, end, near_places)):
                    j = near_places[q]
                    places[n_found] = j * PANEL
                    shares[n_found] = -(square * entries[i % 2, j]) * column_weights[j] * scale
                    n_found += 1
        if n_found % 2:
            places[n_found] = 0
            shares[n_found] = 0.0
            n_found += 1
        starts[i + 1] = n_found
        row_sums[i] += total
        weight_above += 2.0 * row_weights[i] * reached
    add_rows(starts[: n_rows + 1], places, shares, panels, product)
    return weight_above, n_inside


@compiled
def add_listed(
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
        share = values[q] * scale
        tile, j, out = columns[q] // width, columns[q] % width * PANEL, rows[q] * PANEL
        for panel in range(panels.shape[1]):
            for k in range(0, PANEL, N_LANES):
                sums = add_product(load(product, (panel, out + k)), share, load(panels, (tile, panel, j + k)))
                store(product, (panel, out + k), sums)


@compiled
def magnitudes(P: FloatMatrix, rows: IntVector, columns: IntVector, out: FloatVector) -> None:
    """Magnitudes of chosen entries of PP'."""
    for q in range(len(rows)):
        out[q] = abs(_product(P, rows[q], P, columns[q]))


@compiled
def tally_tile(
    rows: FloatMatrix,
    columns: FloatMatrix,
    n_columns: int,
    near: tuple[float, float],
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

    The tile is that of `add_survivors`: what lies above near[1] is above the bracket for certain, and what lies between
    is computed again from its two rows. Each pair counts for both its directions.
    """
    low, high = bracket
    n_rows = len(rows)
    entries = np.empty((2, columns.shape[1]), np.float32)
    words = np.empty((2, columns.shape[1] // WORD), np.uint64)
    places = np.empty(n_columns + AT_ONCE, np.uint32)
    above = 0.0
    n_inside = 0
    for i in range(n_rows):
        start = max(0, i + 1 - ahead)
        if i % 2 == 0:
            _screen(rows, i, min(i + 1, n_rows - 1), columns, start // WORD, ONES, near[0], entries, words)
        reached = 0.0
        for q in range(marked(words[i % 2], start, n_columns, places)):
            j = places[q]
            if abs(entries[i % 2, j]) > near[1]:
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
