"""Cut and Laplacian of what it keeps from one pass over the tiles of PP'.

Where a bracket of the cut is known, entries above it are kept whatever the cut turns out to be, and can be added at
once; the few inside are listed, and those that the cut keeps are added afterwards. Then the row sums D are known, and
(D/2 - S)X, with S above the diagonal alone, is one product away from half of X'(D - S - S')X.
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, FloatVector, Sparse
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.bracket import guess_bracket
from adaam.engines.cut import MAX_DISTINCT, MIN_ROWS, Tally, joined
from adaam.engines.kernels.survivors import Listed, Survivors
from adaam.engines.protocol import kept_from

FEW_ROWS = 256  # of which temporaries stay in a core's own cache


class Strip(NamedTuple):
    """A row block after the pass: SWX of its certain entries, and what is left to decide."""

    rows: slice
    product: FloatMatrix
    listed: Listed
    tally: Tally


def cut_laplacian(
    P: FloatMatrix,
    t: float,
    X: FloatMatrix,
    weights: FloatVector,
    diagonal: FloatVector,
    half: Sparse | None,
    kernels: ModuleType,
) -> tuple[float, FloatMatrix, FloatVector] | None:
    """Cut, Laplacian and row sums as `Engine.cut_laplacian` has them; None where the guess of the bracket missed."""
    if len(X) <= MIN_ROWS:
        return None
    low, high = guess_bracket(P, t, weights, diagonal)
    # What is kept starts a hair below the cut, which may be the lower end itself.
    low *= 1.0 - 64 * float(np.finfo(np.float64).eps)
    survivors = Survivors(P, X, weights, (low, high), kernels)
    found = _strips(survivors)
    if found is None:
        return None
    strips, sums = found
    squares = np.einsum("ij,ij->i", P, P)
    inside = (squares >= low) & (squares <= high)
    on_diagonal = Tally(float(diagonal[squares > high].sum()), squares[inside], diagonal[inside])
    tally = joined([on_diagonal, *(strip.tally for strip in strips)])
    if tally.above >= t or tally.above + tally.counts.sum() < t:
        return None
    cut = tally.reaching(t)
    threshold = kept_from(cut, P.dtype)
    if threshold < low:
        return None
    for more in ordered_map(lambda strip: _completed(survivors, strip, threshold), strips):
        sums += more
    degrees = np.empty(len(X))
    degrees[survivors.order] = sums * survivors.weights
    return cut, _laplacian(survivors, strips, X, degrees, half), degrees


def _strips(survivors: Survivors) -> tuple[list[Strip], FloatVector] | None:
    """Pass over all tiles, for strips and row sums Sw so far; None where too much lies inside the bracket."""
    screened, w = survivors.screened, survivors.weights

    def strip(rows: slice) -> tuple[Strip, FloatVector]:
        product = survivors.no_product(rows)
        sums = np.zeros(len(w))
        above, parts = 0.0, []
        room = survivors.room(rows, listed=True)
        for tile in screened.tiles(rows):
            reached, n_inside = survivors.add(rows, tile, product, sums, room)
            above += reached
            found = Listed(*(part[:n_inside] for part in room[0]))
            parts.append(Listed(found.rows.copy(), found.columns + tile[1].start, found.values.copy()))
        listed = Listed(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        tally = Tally(above, np.abs(listed.values), 2.0 * w[rows][listed.rows] * w[listed.columns])
        return Strip(rows, product.astype(survivors.panels.dtype, copy=False), listed, tally), sums[rows.start :]

    strips: list[Strip] = []
    degrees, n_listed = np.zeros(len(w)), 0
    for found, sums in ordered_map(strip, screened.row_blocks()):
        strips.append(found)
        degrees[found.rows.start :] += sums
        n_listed += len(found.listed.values)
        if n_listed > MAX_DISTINCT:
            return None
    return strips, degrees


def _completed(survivors: Survivors, strip: Strip, threshold: float) -> FloatVector:
    """Add the listed entries that are kept to the product of a strip; return what they add to the row sums."""
    w, rows = survivors.weights, strip.rows
    listed = strip.listed.from_magnitude(threshold)
    survivors.add_listed(listed, strip.product)
    sums = np.bincount(listed.columns, listed.values * w[rows][listed.rows], len(w))
    sums[rows] += np.bincount(listed.rows, listed.values * w[listed.columns], rows.stop - rows.start)
    return sums


def _laplacian(
    survivors: Survivors, strips: list[Strip], X: FloatMatrix, degrees: FloatVector, half: Sparse | None
) -> FloatMatrix:
    """X'(D - A)X from SWX of all strips and the row sums WSw, with a half of another affinity beside them."""
    n, d = X.shape
    halves = degrees / 2 if half is None else (degrees + half_degrees(half)) / 2
    links = csr_array((n, n)) if half is None else half

    def part(strip: Strip) -> FloatMatrix:
        places = survivors.order[strip.rows]
        scales = survivors.scale * survivors.weights[strip.rows]
        total, rows, away = np.zeros((d, d)), np.empty((FEW_ROWS, d)), np.empty((FEW_ROWS, d))
        for some in row_blocks(len(places), FEW_ROWS):
            height = some.stop - some.start
            survivors.kernels.rows_away(
                X,
                places[some],
                some.start,
                halves,
                strip.product,
                scales,
                links.indptr,
                links.indices,
                links.data,
                rows,
                away,
            )
            total += rows[:height].T @ away[:height]
        return total

    found = np.asarray(sum(ordered_map(part, strips)))
    return np.asarray(found + found.T)


def half_degrees(half: Sparse) -> FloatVector:
    """Row sums of H + H'."""
    along = np.asarray(half.sum(axis=1)).ravel()
    return np.asarray(along + np.bincount(half.indices, half.data, len(along)))
