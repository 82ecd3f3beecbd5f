"""The exact t-th largest magnitude of PP', found by bracketing and counting instead of sorting n² numbers.

A bracket is guessed from sampled pairs. A pass over all pairs counts what lies above the bracket and keeps the values
inside it, so the answer is read off exactly; a guess that missed costs another pass, never exactness. Who makes the
passes is up to the engine: threads, tasks of a cluster, kernels on a device.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from adaam._typing import FloatMatrix, FloatVector
from adaam.engines.blocks import namespace, ordered_map

MIN_ROWS = 256  # fewer rows have so few pairs that all of them are kept
MAX_SAMPLED = 1 << 23  # pairs sampled for the guess, at most
MAX_DISTINCT = 1 << 22  # distinct magnitudes a pass may keep; a fuller bracket is narrowed by bins first
N_BINS = 1 << 12
MANY_VALUES = 1 << 16  # from here on sorting by bins first is faster


def kept_from(cut: float, dtype: Any) -> float:
    """Magnitude from which entries of a pruned affinity are kept.

    Entries that are equal on paper differ in their last bits; a hair below the cut keeps them together, whatever the
    order of rows or the size of tiles.
    """
    return cut * (1.0 - 16 * float(np.finfo(dtype).eps))


class Bracket(NamedTuple):
    """Magnitudes between which the cut is looked for, both included."""

    low: float
    high: float

    def bin_edges(self) -> FloatVector:
        """Lower edges of bins of equal width."""
        return np.linspace(self.low, self.high, N_BINS + 1)[:-1]

    def bins(self, values: Any) -> Any:
        """Bin of each value inside the bracket; NumPy arrays or tensors."""
        xp = namespace(values)
        places = (values - self.low) / ((self.high - self.low) or 1.0) * N_BINS
        return xp.clip(xp.asarray(places, dtype=xp.int64), 0, N_BINS - 1)

    def around(self, edge: float) -> "Bracket":
        """Bin that begins at an edge, with half a bin more either way: rounding of edges cannot push the cut out."""
        step = (self.high - self.low) / N_BINS
        return Bracket(max(self.low, edge - step / 2), min(self.high, edge + 1.5 * step))


@dataclass(frozen=True, slots=True)
class Tally:
    """Multiplicity above a bracket, and inside it value by value, or where `binned`, for bins by their lower edges.

    Values and counts are NumPy arrays, or tensors where an engine has them on a device.
    """

    above: float
    values: Any
    counts: Any
    binned: bool = False
    inside: float | None = None  # sum of the counts, where it is known: a device is not asked again

    def holds(self, t: float) -> bool:
        """Whether the t-th largest entry lies inside the bracket."""
        return bool(self.above < t <= self.above + (self.counts.sum() if self.inside is None else self.inside))

    def reaching(self, t: float) -> float:
        """Return the largest value with at least `t` entries at or above it."""
        above, values, counts = self.above, self.values, self.counts
        if len(values) > MANY_VALUES and isinstance(values, np.ndarray):
            above, values, counts = self._bin_reaching(t)
        xp = namespace(values)
        order = xp.flip(xp.argsort(values), (0,))
        reached = xp.cumsum(counts[order], 0)
        place = xp.searchsorted(reached, xp.full_like(reached[:1], t - above))
        return float(values[order[xp.clip(place, None, len(values) - 1)]].item())

    def _bin_reaching(self, t: float) -> tuple[float, FloatVector, FloatVector]:
        """Leave only the values of one bin among many of equal width, and add to `above` those of higher bins."""
        bins = Bracket(self.values.min(), self.values.max()).bins(self.values)
        at_or_above = np.append(self.above + np.cumsum(np.bincount(bins, self.counts, N_BINS)[::-1])[::-1], self.above)
        chosen = int(np.flatnonzero(at_or_above >= t)[-1])
        inside = bins == chosen
        return float(at_or_above[chosen + 1]), self.values[inside], self.counts[inside]

    def within(self, bracket: Bracket) -> "Tally":
        """Leave the values inside a bracket, counting those above it; what counts for nothing is left out."""
        inside = (self.values >= bracket.low) & (self.values <= bracket.high) & (self.counts > 0)
        above = float(self.counts[self.values > bracket.high].sum())
        return Tally(self.above + above, self.values[inside], self.counts[inside])

    def in_bins(self, bracket: Bracket) -> "Tally":
        """Count the values by bins of a bracket."""
        counts = np.bincount(bracket.bins(self.values), self.counts, N_BINS)
        return Tally(self.above, bracket.bin_edges(), counts)


def joined(parts: Iterable[Tally]) -> Tally:
    """Put tallies of different entries together."""
    parts = list(parts)
    values, counts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "counts"))
    return Tally(sum(part.above for part in parts), values, counts)


def counted(parts: Iterable[Tally], bracket: Bracket) -> Tally:
    """Put tallies together as they come: value by value, or by bins where there are too many distinct values."""
    kept: list[Tally] = []
    binned = False
    for part in parts:
        kept.append(part.in_bins(bracket) if binned else part)
        if sum(len(one.values) for one in kept) > MAX_DISTINCT:
            every = joined(kept)
            values, where = np.unique(every.values, return_inverse=True)  # equal values share one entry
            kept = [Tally(every.above, values, np.bincount(where, every.counts, len(values)))]
            if len(values) > MAX_DISTINCT // 2:
                binned, kept = True, [kept[0].in_bins(bracket)]
    return replace(joined(kept), binned=binned)


class Entries(Protocol):
    """All entries of PP', each with its multiplicity, as an engine counts them."""

    @property
    def dtype(self) -> Any:
        """Precision of the entries."""
        ...

    def largest(self) -> float:
        """Magnitude that no entry exceeds, rounding included."""
        ...

    def guess(self, t: float) -> Bracket:
        """Bracket the t-th largest entry, most likely."""
        ...

    def tally(self, bracket: Bracket) -> Tally:
        """Count all entries against a bracket: value by value, or by bins where it holds too many values."""
        ...


def exact_cut(entries: Entries, t: float) -> float:
    """Return the magnitude of the t-th largest entry, or 0 where there are fewer than t non-zero ones."""
    kind = np.dtype(entries.dtype).type
    floor, ceiling = kind(0.0), kind(entries.largest())
    bracket = entries.guess(t)
    while True:
        # All values have the precision of the entries: rounding the ends to it leaves none out.
        bracket = Bracket(float(kind(bracket.low)), float(kind(bracket.high)))
        tally = entries.tally(bracket)
        if tally.above >= t:
            floor = np.nextafter(kind(bracket.high), kind(np.inf))
            bracket = Bracket(float(floor), float(max(floor, ceiling)))
        elif not tally.holds(t):
            if bracket.low <= floor:
                return 0.0
            ceiling = np.nextafter(kind(bracket.low), kind(-np.inf))
            bracket = Bracket(float(floor), float(ceiling))
        elif tally.binned:
            bracket = bracket.around(tally.reaching(t))
            floor, ceiling = kind(bracket.low), kind(bracket.high)
        else:
            return float(tally.reaching(t))


def cut_inside(bracket: Bracket, diagonal: Tally, tallies: Iterable[Tally], t: float, dtype: Any) -> float | None:
    """Cut from the diagonal and the others inside a bracket; None where it, or what `kept_from` keeps, lies outside."""
    tally = joined([diagonal.within(bracket), *tallies])
    if not tally.holds(t):
        return None
    cut = tally.reaching(t)
    return cut if kept_from(cut, dtype) >= bracket.low else None


def largest_entry(P: FloatMatrix) -> float:
    """Magnitude that no entry of PP' exceeds: that of the longest row with itself, and room for rounding."""
    room = 1.0 + (64 + int(P.shape[1])) * float(np.finfo(P.dtype).eps)
    return room * float(np.einsum("ij,ij->i", P, P).max())


def guess_bracket(P: FloatMatrix, t: float, weights: FloatVector, diagonal: FloatVector) -> Bracket:
    """Bracket the t-th largest magnitude of PP' from sampled pairs and the whole diagonal, four errors either way.

    It also holds what is kept with a cut at its lower end; of few rows, all magnitudes. Entries have multiplicity
    weights[i] * weights[j] off the diagonal, diagonal[i] on it. Rows are shuffled once, and each is then paired with
    the few that follow it: as good as pairs drawn one by one, and read in order.
    """
    n = len(P)
    if n <= MIN_ROWS:
        return Bracket(0.0, largest_entry(P))
    order = np.random.default_rng(0).permutation(n)  # the guess affects speed alone, so its seed is nobody's business
    rows, w = P[order], weights[order]
    uniform = bool(np.all(w == 1.0))
    steps = range(1, max(2, min(MAX_SAMPLED, n * n // 256 + 4096) // n))
    total = float(weights.sum()) ** 2 - float((weights**2).sum())
    n_sampled = sum(n - step for step in steps)
    slack = 4.0 * total * np.sqrt(max(t / total, 1.0 / n_sampled) / n_sampled)

    def sampled(step: int) -> tuple[FloatVector, FloatVector]:
        values = np.abs(np.einsum("ij,ij->i", rows[:-step], rows[step:]))
        return values, w[: n - step] if uniform else w[:-step] * w[step:]

    def largest(step: int) -> tuple[FloatVector, FloatVector, float]:
        values, shares = sampled(step)
        kept = np.flatnonzero(values >= least)
        return values[kept], shares[kept], float(shares.sum())

    first = sampled(1)[0]
    n_top = int(2.0 * n * (t + slack) / total) + 64
    # Only the largest are sorted, unless they weigh so little that the cut lies below them.
    least = float(np.partition(first, -n_top)[-n_top]) if n_top < len(first) else 0.0
    while True:
        parts = list(ordered_map(largest, steps))
        unit = total / sum(share for _, _, share in parts)
        squares = np.einsum("ij,ij->i", P, P)
        above = squares >= least
        values = np.concatenate([*(part[0] for part in parts), squares[above]])
        counts = np.concatenate([*(part[1] * unit for part in parts), diagonal[above]])
        if least == 0.0 or counts.sum() >= t + slack:
            break
        least = 0.0
    order = np.argsort(values)[::-1]
    reached = np.cumsum(counts[order])
    high, low = np.clip(np.searchsorted(reached, [t - slack, t + slack]), 0, len(order) - 1)
    # `kept_from` lies a hair below a cut.
    return Bracket(float(values[order[low]]) * (1.0 - 64 * float(np.finfo(np.float64).eps)), float(values[order[high]]))
