"""The exact t-th largest magnitude of PP', found by bracketing and counting instead of sorting n² numbers.

A bracket is estimated from sampled pairs. A pass over all pairs counts the entries above the bracket and lists the
values inside it, which determines the cut exactly. If the bracket missed the cut, another pass is needed, but the
result is still exact. Engines differ in how they run a pass: threads, tasks of a cluster, kernels on a device.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from adaam._typing import FloatMatrix, FloatVector
from adaam.engines.blocks import namespace, ordered_map

MIN_ROWS = 256  # up to so many rows, all pairs are few enough to be inside the bracket
MAX_SAMPLED = 1 << 23  # largest number of pairs sampled to estimate a bracket
MAX_DISTINCT = 1 << 22  # distinct magnitudes that a pass may list; a bracket with more is narrowed by bins first
N_BINS = 1 << 12  # bins of a bracket
MANY_VALUES = 1 << 16  # number of values from which binning them before sorting is faster


def kept_from(cut: float, dtype: Any) -> float:
    """Return the threshold of a pruned affinity: the smallest magnitude that is kept.

    Entries that are mathematically equal differ in their last bits. A threshold slightly below the cut treats them
    alike, whatever the order of rows or the size of tiles.
    """
    return cut * (1.0 - 16 * float(np.finfo(dtype).eps))


class Bracket(NamedTuple):
    """Interval of magnitudes in which the cut is sought, both ends included."""

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
        """Bin that begins at an edge, widened by half a bin on both sides against rounding of the edges."""
        step = (self.high - self.low) / N_BINS
        return Bracket(max(self.low, edge - step / 2), min(self.high, edge + 1.5 * step))


@dataclass(frozen=True, slots=True)
class Tally:
    """Multiplicity above a bracket, and of each value inside it, or if `binned`, of bins given by their lower edges.

    Values and counts are NumPy arrays, or tensors if the engine has them on a device.
    """

    above: float
    values: Any
    counts: Any
    binned: bool = False
    inside: float | None = None  # sum of the counts, if known: saves a synchronization

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
        """Keep only the values of the bin that holds the t-th largest, and add the counts of higher bins to `above`."""
        bins = Bracket(self.values.min(), self.values.max()).bins(self.values)
        at_or_above = np.append(self.above + np.cumsum(np.bincount(bins, self.counts, N_BINS)[::-1])[::-1], self.above)
        chosen = int(np.flatnonzero(at_or_above >= t)[-1])
        inside = bins == chosen
        return float(at_or_above[chosen + 1]), self.values[inside], self.counts[inside]

    def within(self, bracket: Bracket) -> "Tally":
        """Keep the values inside a bracket and count those above it; values of count zero are dropped."""
        inside = (self.values >= bracket.low) & (self.values <= bracket.high) & (self.counts > 0)
        above = float(self.counts[self.values > bracket.high].sum())
        return Tally(self.above + above, self.values[inside], self.counts[inside])

    def in_bins(self, bracket: Bracket) -> "Tally":
        """Count the values by bins of a bracket."""
        counts = np.bincount(bracket.bins(self.values), self.counts, N_BINS)
        return Tally(self.above, bracket.bin_edges(), counts)


def joined(parts: Iterable[Tally]) -> Tally:
    """Merge tallies of disjoint sets of entries."""
    parts = list(parts)
    values, counts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "counts"))
    return Tally(sum(part.above for part in parts), values, counts)


def counted(parts: Iterable[Tally], bracket: Bracket) -> Tally:
    """Merge tallies as they arrive: value by value, or by bins if there are too many distinct values."""
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
        """Bracket that most likely encloses the t-th largest entry."""
        ...

    def tally(self, bracket: Bracket) -> Tally:
        """Count the entries above a bracket, and those inside value by value, or by bins if there are too many."""
        ...


def exact_cut(entries: Entries, t: float) -> float:
    """Return the magnitude of the t-th largest entry, or 0 if there are fewer than t non-zero ones."""
    kind = np.dtype(entries.dtype).type
    floor, ceiling = kind(0.0), kind(entries.largest())
    bracket = entries.guess(t)
    while True:
        # All values have the precision of the entries, so rounding the ends to it excludes none.
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
    """Cut from tallies of the diagonal and of the other entries; None if it or its threshold is not in the bracket."""
    tally = joined([diagonal.within(bracket), *tallies])
    if not tally.holds(t):
        return None
    cut = tally.reaching(t)
    return cut if kept_from(cut, dtype) >= bracket.low else None


def largest_entry(P: FloatMatrix) -> float:
    """Upper bound on the magnitudes of PP': the largest squared norm of a row, with a margin for rounding."""
    room = 1.0 + (64 + int(P.shape[1])) * float(np.finfo(P.dtype).eps)
    return room * float(np.einsum("ij,ij->i", P, P).max())


def guess_bracket(P: FloatMatrix, t: float, weights: FloatVector, diagonal: FloatVector) -> Bracket:
    """Bracket the t-th largest magnitude of PP' from sampled pairs and the diagonal, by four standard errors each way.

    The bracket includes the threshold of a cut at its lower end; for few rows, it has all magnitudes. Entries have
    multiplicity weights[i] * weights[j] off the diagonal, diagonal[i] on it. Rows are shuffled once, and each is paired
    with the few that follow it: as good as pairs drawn one by one, and memory is read in order.
    """
    n = len(P)
    if n <= MIN_ROWS:
        return Bracket(0.0, largest_entry(P))
    order = np.random.default_rng(0).permutation(n)  # the sample affects only speed: a fixed seed will do
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
    # The threshold `kept_from(cut)` is slightly below the cut.
    return Bracket(float(values[order[low]]) * (1.0 - 64 * float(np.finfo(np.float64).eps)), float(values[order[high]]))
