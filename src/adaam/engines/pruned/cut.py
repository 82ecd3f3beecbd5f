"""The exact t-th largest magnitude of PP', found by bracketing and counting instead of sorting n² numbers.

A bracket is guessed from sampled pairs. A pass over all pairs counts what lies above the bracket and keeps the values
inside it, so the answer is read off exactly; a guess that missed costs another pass, never exactness. Who makes the
passes is up to the engine: threads, tasks of a cluster, kernels on a device.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector, Tall
from adaam.engines.blocks import ordered_map

MIN_ROWS = 256  # fewer rows have so few pairs that all of them are kept
MAX_SAMPLED = 1 << 22  # pairs sampled for the guess, at most
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

    def widened(self) -> "Bracket":
        """Bracket that also holds what is kept with a cut at the lower end: `kept_from` lies a hair below a cut."""
        return Bracket(self.low * (1.0 - 64 * float(np.finfo(np.float64).eps)), self.high)

    def bin_edges(self) -> FloatVector:
        """Lower edges of bins of equal width."""
        return np.linspace(self.low, self.high, N_BINS + 1)[:-1]

    def bins(self, values: FloatVector) -> IntVector:
        """Bin of each value inside the bracket."""
        steps = N_BINS / (self.high - self.low) if self.high > self.low else 0.0
        return np.minimum(((values - self.low) * steps).astype(np.intp), N_BINS - 1)

    def around(self, edge: float) -> "Bracket":
        """Bin that begins at an edge, with half a bin more either way: rounding of edges cannot push the cut out."""
        step = (self.high - self.low) / N_BINS
        return Bracket(max(self.low, edge - step / 2), min(self.high, edge + 1.5 * step))


@dataclass(frozen=True, slots=True)
class Tally:
    """Multiplicity above a bracket, and inside it value by value, or where `binned`, for bins by their lower edges."""

    above: float
    values: FloatVector
    counts: FloatVector
    binned: bool = False

    def holds(self, t: float) -> bool:
        """Whether the t-th largest entry lies inside the bracket."""
        return bool(self.above < t <= self.above + self.counts.sum())

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

    def within(self, bracket: Bracket) -> "Tally":
        """Leave the values inside a bracket, counting those above it; what counts for nothing is left out."""
        inside = (self.values >= bracket.low) & (self.values <= bracket.high) & (self.counts > 0)
        above = float(self.counts[self.values > bracket.high].sum())
        return Tally(self.above + above, self.values[inside], self.counts[inside])

    def in_bins(self, bracket: Bracket) -> "Tally":
        """Count the values by bins of a bracket."""
        counts = np.bincount(bracket.bins(self.values), self.counts, N_BINS)
        return Tally(self.above, bracket.bin_edges(), counts, binned=True)


def joined(parts: Iterable[Tally]) -> Tally:
    """Put tallies of different entries together."""
    parts = list(parts)
    values, counts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "counts"))
    return Tally(sum(part.above for part in parts), values, counts)


def merged(parts: Iterable[Tally]) -> Tally:
    """Put tallies together; equal values share one entry."""
    every = joined(parts)
    values, where = np.unique(every.values, return_inverse=True)
    return Tally(every.above, values, np.bincount(where, every.counts, len(values)))


def added_bins(parts: Iterable[Tally]) -> Tally:
    """Add up tallies of the same bins."""
    parts = list(parts)
    counts = np.sum([part.counts for part in parts], axis=0)
    return Tally(sum(part.above for part in parts), parts[0].values, counts, binned=True)


def counted(parts: Iterable[Tally], bracket: Bracket) -> Tally:
    """Put tallies together as they come: value by value, or by bins where there are too many distinct values."""
    kept: list[Tally] = []
    n_values = 0
    for part in parts:
        if part.binned or (kept and kept[0].binned):
            kept = [added_bins(one if one.binned else one.in_bins(bracket) for one in (*kept, part))]
            continue
        kept.append(part)
        n_values += len(part.values)
        if n_values > MAX_DISTINCT:
            kept = [merged(kept)]
            n_values = len(kept[0].values)
            if n_values > MAX_DISTINCT // 2:
                kept = [kept[0].in_bins(bracket)]
    return kept[0] if len(kept) == 1 else joined(kept)


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

    def tally(self, bracket: Bracket) -> "Counted":
        """Count all entries against a bracket: value by value, or by bins where it holds too many values."""
        ...


class Counted(Protocol):
    """What `exact_cut` asks of a tally."""

    @property
    def above(self) -> float:
        """Multiplicity above the bracket."""
        ...

    @property
    def binned(self) -> bool:
        """Whether entries were counted by bins alone."""
        ...

    def holds(self, t: float) -> bool:
        """Whether the t-th largest entry lies inside the bracket."""
        ...

    def reaching(self, t: float) -> float:
        """Largest value, or edge of a bin, with at least `t` entries at or above it."""
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


def cut_inside(bracket: Bracket, tallies: Iterable[Tally], t: float, dtype: Any) -> float | None:
    """Cut from the entries listed inside a guessed bracket; None where it, or what `kept_from` keeps, lies outside."""
    tally = joined(tallies)
    if not tally.holds(t):
        return None
    cut = tally.reaching(t)
    return cut if kept_from(cut, dtype) >= bracket.low else None


def rounding_room(P: Tall) -> float:
    """Factor by which rounding may let |p_i . p_j| exceed the largest |p|²."""
    return 1.0 + (64 + int(P.shape[1])) * float(np.finfo(P.dtype).eps)


def guess_bracket(P: FloatMatrix, t: float, weights: FloatVector, diagonal: FloatVector, room: float = 0.0) -> Bracket:
    """Bracket the t-th largest magnitude of PP' from sampled pairs and the whole diagonal, four errors either way.

    Entries have multiplicity weights[i] * weights[j] off the diagonal, diagonal[i] on it. Rows are shuffled once, and
    each is then paired with the few that follow it: as good as pairs drawn one by one, and read in order. Where the
    rows of P are themselves a sample, `room` is the error of t that comes from them, as a share of it.
    """
    n = len(P)
    order = np.random.default_rng(0).permutation(n)  # the guess affects speed alone, so its seed is nobody's business
    rows, w = P[order], weights[order]
    uniform = bool(np.all(w == 1.0))
    steps = range(1, max(2, min(MAX_SAMPLED, n * n // 512 + 4096) // n))
    total = float(weights.sum()) ** 2 - float((weights**2).sum())
    n_sampled = sum(n - step for step in steps)
    slack = 4.0 * total * np.sqrt(max(t / total, 1.0 / n_sampled) / n_sampled) + room * t

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
    return Bracket(float(values[order[low]]), float(values[order[high]]))
