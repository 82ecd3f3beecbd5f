"""The exact t-th largest magnitude of PP', found by bracketing and counting instead of sorting n² numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from adaam._typing import FloatMatrix, FloatVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.bracket import guess_bracket
from adaam.engines.kernels import screened
from adaam.engines.tiles import upper_tiles

MIN_ROWS = 256  # fewer rows have so few pairs that all of them are kept
MAX_DISTINCT = 1 << 22  # distinct magnitudes a pass may keep; a fuller bracket is narrowed by bins first
N_BINS = 1 << 12
MANY_VALUES = 1 << 16  # from here on sorting by bins first is faster


@dataclass(frozen=True, slots=True)
class Pairs:
    """All entries of PP' with their multiplicities: weights[i] * weights[j] off the diagonal, diagonal[i] on it."""

    P: FloatMatrix
    weights: FloatVector
    diagonal: FloatVector
    tile_rows: int
    kernels: ModuleType | None = None  # compiled ones, for factors in float64

    def squares(self) -> FloatVector:
        """Diagonal entries of PP'."""
        return np.asarray(np.einsum("ij,ij->i", self.P, self.P))

    def off_diagonal_weight(self) -> float:
        """Total multiplicity of the off-diagonal entries."""
        return float(self.weights.sum()) ** 2 - float((self.weights**2).sum())

    def at_least(self, low: float, rows: slice) -> Iterator[tuple[FloatVector, FloatVector]]:
        """Positive magnitudes >= low right of the diagonal in a row block, each pair counted for both directions."""
        uniform = bool(np.all(self.weights == 1.0))
        for columns, tile in upper_tiles(self.P, rows, self.tile_rows):
            np.abs(tile, out=tile)
            # Zeros stand for the lower triangle of a diagonal tile, and never decide a cut above zero.
            found = np.flatnonzero(tile >= low) if low > 0 else np.flatnonzero(tile)
            if uniform:
                yield tile.ravel()[found], np.full(len(found), 2.0)
            else:
                row, column = np.divmod(found, tile.shape[1])
                yield tile.ravel()[found], 2.0 * self.weights[rows][row] * self.weights[columns][column]


@dataclass(frozen=True, slots=True)
class Tally:
    """Multiplicity above a bracket, and value by value inside it."""

    above: float
    values: FloatVector
    counts: FloatVector

    def reaching(self, t: float) -> float:
        """Return the largest value with at least `t` entries at or above it."""
        above, values, counts = self.above, self.values, self.counts
        if len(values) > MANY_VALUES:
            above, values, counts = self._bin_reaching(t)
        order = np.argsort(values)
        at_or_above = above + np.cumsum(counts[order][::-1])[::-1]
        return float(values[order[np.flatnonzero(at_or_above >= t)[-1]]])

    def _bin_reaching(self, t: float) -> tuple[float, FloatVector, FloatVector]:
        """Leave only the values of one bin among many of equal width, and add to `above` those of higher bins."""
        low, high = float(self.values.min()), float(self.values.max())
        bins = ((self.values - low) / ((high - low) or 1.0) * (N_BINS - 1)).astype(np.intp)
        at_or_above = np.append(self.above + np.cumsum(np.bincount(bins, self.counts, N_BINS)[::-1])[::-1], self.above)
        chosen = int(np.flatnonzero(at_or_above >= t)[-1])
        inside = bins == chosen
        return float(at_or_above[chosen + 1]), self.values[inside], self.counts[inside]


def joined(parts: list[Tally]) -> Tally:
    """Put tallies of different entries together."""
    values, counts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "counts"))
    return Tally(sum(part.above for part in parts), values, counts)


def merged(parts: list[Tally]) -> Tally:
    """Put tallies together; equal values share one entry."""
    every = joined(parts)
    values, where = np.unique(every.values, return_inverse=True)
    return Tally(every.above, values, np.bincount(where, every.counts, len(values)))


def exact_cut(pairs: Pairs, t: float) -> float:
    """Return the magnitude of the t-th largest entry, or 0 where there are fewer than t non-zero ones.

    A bracket is guessed from sampled pairs. A pass over all pairs counts what lies above the bracket and keeps the
    values inside it, so the answer is read off exactly; a guess that missed costs another pass, never exactness.
    """
    # |p_i . p_j| never exceeds the largest |p|², but for rounding, which the room above it covers.
    room = (64 + pairs.P.shape[1]) * float(np.finfo(pairs.P.dtype).eps)
    floor, ceiling = 0.0, float(pairs.squares().max()) * (1.0 + room)
    low, high = (
        guess_bracket(pairs.P, t, pairs.weights, pairs.diagonal) if len(pairs.P) > MIN_ROWS else (floor, ceiling)
    )
    while True:
        kept = count_values(pairs, low, high)
        tally = count_bins(pairs, low, high) if kept is None else kept
        if tally.above >= t:
            low, high = float(np.nextafter(high, np.inf)), ceiling
            floor = low
        elif tally.above + tally.counts.sum() < t:
            if low <= floor:
                return 0.0
            low, high = floor, float(np.nextafter(low, -np.inf))
            ceiling = high
        elif kept is not None:
            return kept.reaching(t)
        else:
            # Two bins wide, so that rounding of the edges cannot push the answer out.
            step = (high - low) / N_BINS
            low = tally.reaching(t)
            high = min(high, low + 2 * step)
            floor, ceiling = low, high


def tallies(pairs: Pairs, low: float, tally: Callable[[FloatVector, FloatVector], Tally]) -> Iterator[Tally]:
    """Pass over all entries: the diagonal, then the row blocks in order, each tallied by the thread that made it."""
    yield tally(pairs.squares(), pairs.diagonal)

    def row_tally(rows: slice) -> Tally:
        found = list(pairs.at_least(low, rows))
        return tally(np.concatenate([v for v, _ in found]), np.concatenate([c for _, c in found]))

    yield from ordered_map(row_tally, row_blocks(len(pairs.P), pairs.tile_rows))


def value_tallies(
    pairs: Pairs, low: float, high: float, tally: Callable[[FloatVector, FloatVector], Tally]
) -> Iterator[Tally]:
    """Pass over all entries as `tallies` does, by compiled kernels where the pairs have them."""
    if pairs.kernels is None or pairs.P.dtype != np.float64:
        yield from tallies(pairs, low, tally)
        return
    yield tally(pairs.squares(), pairs.diagonal)
    for part in screened.tallies(pairs.P, pairs.weights, low, high, pairs.kernels):
        yield Tally(*part)


def count_values(pairs: Pairs, low: float, high: float) -> Tally | None:
    """Count all entries against [low, high], value by value; None when it holds too many distinct ones to keep."""

    def tally(values: FloatVector, counts: FloatVector) -> Tally:
        inside = (values >= low) & (values <= high)
        return Tally(float(counts[values > high].sum()), values[inside], counts[inside])

    parts: list[Tally] = []
    for part in value_tallies(pairs, low, high, tally):
        parts.append(part)
        if sum(len(part.values) for part in parts) > MAX_DISTINCT:
            parts = [merged(parts)]
            if len(parts[0].values) > MAX_DISTINCT // 2:
                return None
    return joined(parts)


def count_bins(pairs: Pairs, low: float, high: float) -> Tally:
    """Count all entries against [low, high], by bins that are reported as their lower edges."""
    edges = np.linspace(low, high, N_BINS + 1)[:-1]

    def tally(values: FloatVector, counts: FloatVector) -> Tally:
        inside = (values >= low) & (values <= high)
        bins = np.searchsorted(edges, values[inside], side="right") - 1
        return Tally(float(counts[values > high].sum()), edges, np.bincount(bins, counts[inside], len(edges)))

    parts = list(tallies(pairs, low, tally))
    return Tally(sum(part.above for part in parts), edges, np.sum([part.counts for part in parts], axis=0))
