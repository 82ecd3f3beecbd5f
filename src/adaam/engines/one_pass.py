"""Cut and pruned Gram matrix from one pass over the tiles of PP'.

Where a bracket of the cut is known, entries above it are kept whatever the cut turns out to be, and can be added at
once; the few inside are listed, and those that the cut keeps are added afterwards.
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import ordered_map
from adaam.engines.cut import MAX_DISTINCT, MIN_ROWS, Pairs, Tally, guess_bracket
from adaam.engines.kernels.panels import from_panels
from adaam.engines.kernels.screened import Survivors
from adaam.engines.protocol import kept_from


class Listed(NamedTuple):
    """Entries of a row block inside the bracket."""

    rows: IntVector
    columns: IntVector
    values: FloatVector

    def from_magnitude(self, threshold: float) -> "Listed":
        """Those of magnitude at least `threshold`."""
        kept = np.abs(self.values) >= threshold
        return Listed(self.rows[kept], self.columns[kept], self.values[kept])


class Strip(NamedTuple):
    """A row block after the pass: SWX of its certain entries, and what is left to decide."""

    rows: slice
    product: FloatMatrix
    listed: Listed


def cut_gram(
    P: FloatMatrix,
    t: float,
    X: FloatMatrix,
    weights: FloatVector,
    diagonal: FloatVector,
    kernels: ModuleType,
) -> tuple[float, FloatMatrix, FloatVector] | None:
    """Cut for t entries, X'WSWX and WSw as `pruned_gram` has them; None where the guess of the bracket missed."""
    n, d = X.shape
    if n <= MIN_ROWS:
        return None
    low, high = guess_bracket(Pairs(P, weights, diagonal, 0, kernels), t)
    # What is kept starts a hair below the cut, which may be the lower end itself.
    low *= 1.0 - 64 * float(np.finfo(np.float64).eps)
    survivors = Survivors(P, X, weights, (low, high), kernels)
    panels, w = survivors.panels, survivors.weights

    def strip(rows: slice) -> tuple[Strip, float, FloatVector]:
        height = rows.stop - rows.start
        product = survivors.no_product(rows)
        sums = np.zeros(n)
        places = np.empty((2, height * survivors.screened.width), np.int32)
        values = np.empty(places.shape[1])
        above, parts = 0.0, []
        for tile in survivors.screened.tiles(rows):
            reached, n_inside = survivors.add(rows, tile, product, sums, (places[0], places[1], values))
            above += reached
            found = places[:, :n_inside]
            parts.append(Listed(found[0].copy(), found[1] + tile[1].start, values[:n_inside].copy()))
        listed = Listed(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        return Strip(rows, product.astype(panels.dtype, copy=False), listed), above, sums[rows.start :]

    squares = np.einsum("ij,ij->i", P, P)
    above = float(diagonal[squares > high].sum())
    strips: list[Strip] = []
    degrees = np.zeros(n)
    n_listed = 0
    for found, reached, sums in ordered_map(strip, survivors.screened.row_blocks()):
        strips.append(found)
        above += reached
        degrees[found.rows.start :] += sums
        n_listed += len(found.listed.values)
        if above >= t or n_listed > MAX_DISTINCT:
            return None
    cut = _reached(strips, squares, (low, high), w, diagonal, above, t)
    if cut is None or kept_from(cut, P.dtype) < low:
        return None
    threshold = kept_from(cut, P.dtype)
    uniform = bool(np.all(w == 1.0))

    def part(strip: Strip) -> FloatMatrix:
        rows, product, listed = strip.rows, strip.product, strip.listed.from_magnitude(threshold)
        weighted = listed.values if uniform else listed.values * w[listed.columns]
        kernels.add_listed(listed.rows, listed.columns, weighted, 1.0 / survivors.unit, panels, product)
        left = X[rows] if uniform else X[rows] * w[rows, None]
        return np.asarray(left.T @ from_panels(product, d))

    half = np.zeros((d, d))
    for gram in ordered_map(part, strips):
        half += gram
    half *= survivors.scale
    for rows, _, listed in strips:
        row, column, values = listed.from_magnitude(threshold)
        degrees += np.bincount(column, values * w[rows][row], n)
        degrees[rows] += np.bincount(row, values * w[column], rows.stop - rows.start)
    return cut, half + half.T, degrees * weights


def _reached(
    strips: list[Strip],
    squares: FloatVector,
    bracket: tuple[float, float],
    weights: FloatVector,
    diagonal: FloatVector,
    above: float,
    t: float,
) -> float | None:
    """Return the cut, read off the listed entries and the diagonal; None where it lies below the bracket."""
    on_diagonal = (squares >= bracket[0]) & (squares <= bracket[1])
    values = [np.abs(strip.listed.values) for strip in strips]
    counts = [2.0 * weights[strip.rows][strip.listed.rows] * weights[strip.listed.columns] for strip in strips]
    tally = Tally(
        above, np.concatenate([*values, squares[on_diagonal]]), np.concatenate([*counts, diagonal[on_diagonal]])
    )
    return None if above + tally.counts.sum() < t else tally.reaching(t)
