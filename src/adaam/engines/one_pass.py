"""Cut and Laplacian of what it keeps from one pass over the tiles of PP'.

Where a bracket of the cut is known, entries above it are kept whatever the cut turns out to be, and can be added at
once; the few inside are listed, and those that the cut keeps are added afterwards. Then the row sums D are known, and
(D/2 - S)X, with S above the diagonal alone, is one product away from half of X'(D - S - S')X.
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, Sparse
from adaam.engines.blocks import ordered_map
from adaam.engines.bracket import guess_bracket
from adaam.engines.cut import MAX_DISTINCT, MIN_ROWS, Tally, joined
from adaam.engines.kernels.panels import from_panels
from adaam.engines.kernels.screened import Listed, Survivors
from adaam.engines.protocol import kept_from


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
    n, d = X.shape
    if n <= MIN_ROWS:
        return None
    low, high = guess_bracket(P, t, weights, diagonal)
    # What is kept starts a hair below the cut, which may be the lower end itself.
    low *= 1.0 - 64 * float(np.finfo(np.float64).eps)
    survivors = Survivors(P, X, weights, (low, high), kernels)
    panels, w = survivors.panels, survivors.weights

    def strip(rows: slice) -> tuple[Strip, FloatVector]:
        product = survivors.no_product(rows)
        sums = np.zeros(n)
        places = np.empty((2, (rows.stop - rows.start) * survivors.screened.width), np.int32)
        values = np.empty(places.shape[1])
        above, parts = 0.0, []
        for tile in survivors.screened.tiles(rows):
            reached, n_inside = survivors.add(rows, tile, product, sums, (places[0], places[1], values))
            above += reached
            found = places[:, :n_inside]
            parts.append(Listed(found[0].copy(), found[1] + tile[1].start, values[:n_inside].copy()))
        listed = Listed(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        tally = Tally(above, np.abs(listed.values), 2.0 * w[rows][listed.rows] * w[listed.columns])
        return Strip(rows, product.astype(panels.dtype, copy=False), listed, tally), sums[rows.start :]

    squares = np.einsum("ij,ij->i", P, P)
    inside = (squares >= low) & (squares <= high)
    on_diagonal = Tally(float(diagonal[squares > high].sum()), squares[inside], diagonal[inside])
    strips: list[Strip] = []
    degrees = np.zeros(n)
    n_listed = 0
    for found, sums in ordered_map(strip, survivors.screened.row_blocks()):
        strips.append(found)
        degrees[found.rows.start :] += sums
        n_listed += len(found.listed.values)
        if n_listed > MAX_DISTINCT:
            return None
    tally = joined([on_diagonal, *(strip.tally for strip in strips)])
    if tally.above >= t or tally.above + tally.counts.sum() < t:
        return None
    cut = tally.reaching(t)
    threshold = kept_from(cut, P.dtype)
    if threshold < low:
        return None

    def complete(strip: Strip) -> FloatVector:
        listed = strip.listed.from_magnitude(threshold)
        weighted = listed.values * w[listed.columns]
        kernels.add_listed(listed.rows, listed.columns, weighted, 1.0 / survivors.unit, panels, strip.product)
        sums = np.bincount(listed.columns, listed.values * w[strip.rows][listed.rows], n)
        sums[strip.rows] += np.bincount(listed.rows, weighted, strip.rows.stop - strip.rows.start)
        return sums

    for sums in ordered_map(complete, strips):
        degrees += sums
    degrees *= weights
    halves = degrees / 2 if half is None else (degrees + half_degrees(half)) / 2

    def part(strip: Strip) -> FloatMatrix:
        rows = strip.rows
        away = X[rows] * halves[rows, None]
        away -= from_panels(strip.product, d) * (survivors.scale * w[rows, None])
        if half is not None:
            away -= half[rows] @ X
        return np.asarray(X[rows].T @ away)

    laplacian = np.asarray(sum(ordered_map(part, strips)))
    return cut, laplacian + laplacian.T, degrees


def half_degrees(half: Sparse) -> FloatVector:
    """Row sums of H + H'."""
    along = np.asarray(half.sum(axis=1)).ravel()
    return np.asarray(along + np.bincount(half.indices, half.data, len(along)))
