"""The exact t-th largest magnitude of PP' on a device: bracketed from samples, narrowed by bins, then read off."""

from typing import NamedTuple, Protocol

import numpy as np
import torch

from adaam._typing import FloatVector
from adaam.engines.gpu.rows import host

SAMPLED_PAIRS = 1 << 22  # pairs looked at to guess the first bracket, at most
MAX_COLLECTED = 1 << 20  # entries a pass may write out; a fuller bracket is narrowed by bins first
N_BINS = 1 << 12


class Tally(NamedTuple):
    """Multiplicity above a bracket and inside it; the latter also in each bin, or entry by entry.

    All of it stays on the device until it is read at once: each look waits for the passes before it.
    """

    above: torch.Tensor  # float64
    inside: torch.Tensor  # float64
    bins: torch.Tensor | None = None
    entries: "Entries | None" = None


class Entries(NamedTuple):
    """Entries inside a bracket, as far as there was room for them."""

    values: torch.Tensor  # (capacity,)
    shares: torch.Tensor  # (capacity,), float64: multiplicity of each
    n_found: torch.Tensor  # how many there are, in room or not


class Pairs(Protocol):
    """Entries of PP' right of the diagonal, each computed the same way in every pass, down to the last bit.

    All magnitudes are in the pairs' own unit, `unit` times smaller than those of PP'.
    """

    P: torch.Tensor  # (n, r), in the unit's square root
    weights: torch.Tensor | None  # float64; None means 1 each
    unit: float

    def count(self, low: float, high: float) -> Tally:
        """Count entries against [low, high], low > 0, each pair for both directions."""
        ...

    def bin(self, low: float, high: float, n_bins: int) -> Tally:
        """Count entries against [low, high] and its n_bins equal parts, exactly but for the edges of the parts."""
        ...

    def collect(self, low: float, high: float, capacity: int) -> Tally:
        """Count entries against [low, high] and write out those inside, as far as there is room for them."""
        ...


def exact_cut(pairs: Pairs, t: float, diagonal: torch.Tensor) -> float:
    """Return the magnitude of the t-th largest entry, or 0 where there are fewer than t non-zero ones.

    The first bracket comes from sampled pairs; a guess that missed costs another pass, never exactness.
    """
    kind = np.float32 if pairs.P.dtype == torch.float32 else np.float64
    squares = _squares(pairs.P)
    guess = _guess(pairs, squares, diagonal, t)
    # |p_i . p_j| never exceeds the largest |p|², but for rounding.
    *bracket, largest, expected = guess.tolist()
    floor, ceiling = np.nextafter(kind(0), kind(1)), kind(largest * (1 + 1e-4))
    if ceiling <= floor:
        return 0.0
    low, high = kind(bracket[0]), kind(bracket[1])
    low, high = max(low, floor), max(low, floor, high)
    while True:
        if low == high:
            tally = pairs.count(float(low), float(high))
        elif expected <= MAX_COLLECTED // 2:
            tally = pairs.collect(float(low), float(high), MAX_COLLECTED)
        else:
            tally = pairs.bin(float(low), float(high), N_BINS)
        tally = _with_diagonal(tally, squares, diagonal, float(low), float(high))
        n_found = torch.zeros_like(tally.above) if tally.entries is None else tally.entries.n_found
        above, inside, found = torch.stack([tally.above, tally.inside, n_found.to(torch.float64)]).tolist()
        if above >= t:
            floor = low = np.nextafter(high, kind(np.inf))
            high, expected = max(ceiling, low), np.inf
        elif above + inside < t:
            if low <= floor:
                return 0.0
            ceiling = high = np.nextafter(low, kind(0))
            low, expected = floor, np.inf
        elif low == high:
            return float(low) * pairs.unit
        elif tally.bins is not None:
            low, high, expected = _narrowed(host(tally.bins), above, t, low, high, kind)
        elif tally.entries is not None and found <= MAX_COLLECTED:
            kept = tally.entries
            inside_ones = _inside(squares, diagonal, float(low), float(high))
            values = torch.cat([kept.values[: int(found)], squares[inside_ones]])
            shares = torch.cat([kept.shares[: int(found)], diagonal[inside_ones]])
            return _reaching(values, shares, t - above) * pairs.unit
        else:  # the collected entries did not fit
            expected = np.inf


def _squares(P: torch.Tensor) -> torch.Tensor:
    """Diagonal entries of PP', summed in float64 and rounded to P's precision."""
    return P.to(torch.float64).square().sum(dim=1).to(P.dtype)


def _with_diagonal(tally: Tally, squares: torch.Tensor, diagonal: torch.Tensor, low: float, high: float) -> Tally:
    """Add the diagonal entries, each with its own multiplicity; those inside are not written out."""
    inside = _inside(squares, diagonal, low, high)
    bins = tally.bins
    if bins is not None:
        where = bin_of(squares, low, high, len(bins))
        bins = bins.index_add(0, where, diagonal * inside)
    above = tally.above + (diagonal * (squares > high)).sum()
    return Tally(above, tally.inside + (diagonal * inside).sum(), bins, tally.entries)


def _inside(squares: torch.Tensor, diagonal: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Diagonal entries that count and lie in [low, high]."""
    return (squares >= low) & (squares <= high) & (diagonal > 0)


def bin_of(magnitudes: torch.Tensor, low: float, high: float, n_bins: int) -> torch.Tensor:
    """Bin of each magnitude inside [low, high]."""
    return ((magnitudes - low) * bins_per_unit(low, high, n_bins)).long().clamp_(0, n_bins - 1)


def bins_per_unit(low: float, high: float, n_bins: int) -> float:
    """How many bins a magnitude of 1 spans; finite however narrow the bracket."""
    return min(n_bins / (high - low), float(np.finfo(np.float32).max))


def _reaching(values: torch.Tensor, shares: torch.Tensor, t: float) -> float:
    """Largest value with a total share of at least `t` at or above it."""
    values, order = torch.sort(values, descending=True, stable=True)
    reached = torch.cumsum(shares[order], dim=0)
    place = torch.searchsorted(reached, torch.full((1,), t, dtype=reached.dtype, device=reached.device))
    return float(values[place.clamp_(max=len(values) - 1)])


def _narrowed(
    counts: FloatVector, counted_above: float, t: float, low: np.floating, high: np.floating, kind: type
) -> tuple[np.floating, np.floating, float]:
    """Bracket around the bin that holds the cut, one bin of room on either side for the rounding of edges."""
    reached = counted_above + np.cumsum(counts[::-1])[::-1]
    place = int(np.flatnonzero(reached >= t)[-1])
    step = 1.0 / bins_per_unit(float(low), float(high), len(counts))
    below = max(kind(float(low) + (place - 1) * step), low)
    above = min(kind(float(low) + (place + 2) * step), high)
    expected = counts[max(place - 1, 0) : place + 2].sum() / 2
    return below, above, float(expected)


def _guess(pairs: Pairs, squares: torch.Tensor, diagonal: torch.Tensor, t: float) -> torch.Tensor:
    """Bracket the cut from sampled pairs and the whole diagonal, four standard errors either way.

    Returns
    -------
    tensor of shape (4,)
        Low and high end, largest magnitude of the diagonal, and how many entries lie between the ends, about.
    """
    P, weights = pairs.P, pairs.weights
    n = len(P)
    largest = squares.max().to(torch.float64)
    if n < 2:
        return torch.stack([torch.zeros_like(largest), largest, largest, torch.zeros_like(largest)])
    rng = np.random.default_rng(0)  # the guess affects speed alone, so its seed is nobody's business
    # One pair in 4096 costs about as much as it saves in the pass that follows; few rows can spare more.
    n_sampled = min(SAMPLED_PAIRS, max(1 << 12, min(n * n // 16, 1 << 16), n * n // 4096))
    source = torch.Generator(device=P.device).manual_seed(int(rng.integers(1 << 31)))
    row = torch.randint(n, (n_sampled,), generator=source, device=P.device)
    column = (row + torch.randint(1, n, (n_sampled,), generator=source, device=P.device)) % n
    magnitudes = torch.zeros(n_sampled, dtype=P.dtype, device=P.device)
    for k in range(P.shape[1]):
        magnitudes += P[row, k] * P[column, k]
    counts = torch.ones_like(diagonal) if weights is None else weights
    off_diagonal = counts.sum() ** 2 - counts.square().sum()
    shares = torch.ones_like(magnitudes, dtype=torch.float64) if weights is None else weights[row] * weights[column]
    shares = shares * (off_diagonal / shares.sum())
    values, order = torch.sort(torch.cat([magnitudes.abs_(), squares]), descending=True)
    reached = torch.cumsum(torch.cat([shares, diagonal])[order], dim=0)
    share = (t / off_diagonal).clamp(1.0 / n_sampled, 1.0)
    slack = 4.0 * off_diagonal * (share / n_sampled).sqrt()
    places = torch.searchsorted(reached, torch.stack([t + slack, t - slack])).clamp_(max=len(reached) - 1)
    low, high = values[places].to(torch.float64)
    return torch.stack([low, high, largest, slack])
