"""The exact t-th largest magnitude of PP' on a device: bracketed from samples, narrowed by bins, then read off."""

from typing import NamedTuple, Protocol

import numpy as np
import torch

from adaam.engines.gpu.rows import host

SAMPLED_PAIRS = 1 << 22  # pairs looked at to guess the first bracket, at most
MAX_COLLECTED = 1 << 20  # entries a pass may write out; a fuller bracket is narrowed by bins first
N_BINS = 1 << 12


class Tally(NamedTuple):
    """Multiplicity above a bracket, and inside it: in all, in each bin, or value by value."""

    above: float
    inside: float
    bins: torch.Tensor | None = None
    values: torch.Tensor | None = None
    shares: torch.Tensor | None = None


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
        """Count entries against [low, high] and write out those inside, which must be no more than `capacity`."""
        ...


def exact_cut(pairs: Pairs, t: float, diagonal: torch.Tensor) -> float:
    """Return the magnitude of the t-th largest entry, or 0 where there are fewer than t non-zero ones.

    The first bracket comes from sampled pairs; a guess that missed costs another pass, never exactness.
    """
    kind = np.float32 if pairs.P.dtype == torch.float32 else np.float64
    squares = _squares(pairs.P)
    # |p_i . p_j| never exceeds the largest |p|², but for rounding.
    floor, ceiling = np.nextafter(kind(0), kind(1)), kind(float(squares.max()) * (1 + 1e-4))
    if ceiling <= floor:
        return 0.0
    low, high, expected = _guess(pairs, squares, diagonal, t, kind)
    low, high = max(low, floor), max(low, floor, high)
    while True:
        if low == high:
            tally = pairs.count(float(low), float(high))
        elif expected <= MAX_COLLECTED // 2:
            tally = pairs.collect(float(low), float(high), MAX_COLLECTED)
        else:
            tally = pairs.bin(float(low), float(high), N_BINS)
        tally = _with_diagonal(tally, squares, diagonal, low, high)
        if tally.above >= t:
            floor = low = np.nextafter(high, kind(np.inf))
            high, expected = max(ceiling, low), np.inf
        elif tally.above + tally.inside < t:
            if low <= floor:
                return 0.0
            ceiling = high = np.nextafter(low, kind(0))
            low, expected = floor, np.inf
        elif low == high:
            return float(low) * pairs.unit
        elif tally.values is not None and tally.shares is not None:
            return _reaching(tally.values, tally.shares, t - tally.above) * pairs.unit
        elif tally.bins is not None:
            low, high, expected = _narrowed(tally, t, low, high, kind)
        else:  # the collected entries did not fit
            expected = np.inf


def _squares(P: torch.Tensor) -> torch.Tensor:
    """Diagonal entries of PP', summed in float64 and rounded to P's precision."""
    return P.to(torch.float64).square().sum(dim=1).to(P.dtype)


def _with_diagonal(
    tally: Tally, squares: torch.Tensor, diagonal: torch.Tensor, low: np.floating, high: np.floating
) -> Tally:
    """Add the diagonal entries, each with its own multiplicity."""
    inside = (squares >= float(low)) & (squares <= float(high)) & (diagonal > 0)
    above = tally.above + float(diagonal[squares > float(high)].sum())
    total = tally.inside + float(diagonal[inside].sum())
    if tally.bins is not None:
        where = bin_of(squares[inside], float(low), float(high), len(tally.bins))
        return Tally(above, total, bins=tally.bins.index_add(0, where, diagonal[inside]))
    if tally.values is not None and tally.shares is not None:
        values = torch.cat([tally.values, squares[inside]])
        return Tally(above, total, values=values, shares=torch.cat([tally.shares, diagonal[inside]]))
    return Tally(above, total)


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
    place = torch.searchsorted(reached, torch.tensor([t], dtype=reached.dtype, device=reached.device))
    return float(values[min(int(place), len(values) - 1)])


def _narrowed(
    tally: Tally, t: float, low: np.floating, high: np.floating, kind: type
) -> tuple[np.floating, np.floating, float]:
    """Bracket around the bin that holds the cut, one bin of room on either side for the rounding of edges."""
    counts = host(tally.bins)
    reached = tally.above + np.cumsum(counts[::-1])[::-1]
    place = int(np.flatnonzero(reached >= t)[-1])
    step = 1.0 / bins_per_unit(float(low), float(high), len(counts))
    below = max(kind(float(low) + (place - 1) * step), low)
    above = min(kind(float(low) + (place + 2) * step), high)
    expected = counts[max(place - 1, 0) : place + 2].sum() / 2
    return below, above, float(expected)


def _guess(
    pairs: Pairs, squares: torch.Tensor, diagonal: torch.Tensor, t: float, kind: type
) -> tuple[np.floating, np.floating, float]:
    """Bracket the cut from sampled pairs and the whole diagonal, four standard errors either way."""
    P, weights = pairs.P, pairs.weights
    n = len(P)
    if n < 2:
        return kind(0), kind(float(squares.max())), 0.0
    rng = np.random.default_rng(0)  # the guess affects speed alone, so its seed is nobody's business
    # One pair in 4096 costs about as much as it saves in the pass that follows; few rows can spare more.
    n_sampled = min(SAMPLED_PAIRS, max(1 << 12, min(n * n // 16, 1 << 16), n * n // 4096))
    source = torch.Generator(device=P.device).manual_seed(int(rng.integers(1 << 31)))
    row = torch.randint(n, (n_sampled,), generator=source, device=P.device)
    column = (row + torch.randint(1, n, (n_sampled,), generator=source, device=P.device)) % n
    magnitudes = torch.zeros(n_sampled, dtype=P.dtype, device=P.device)
    for k in range(P.shape[1]):
        magnitudes += P[row, k] * P[column, k]
    total, squared = (float(n), float(n)) if weights is None else (float(weights.sum()), float((weights**2).sum()))
    off_diagonal = total**2 - squared
    shares = torch.ones_like(magnitudes, dtype=torch.float64) if weights is None else weights[row] * weights[column]
    shares = shares * (off_diagonal / shares.sum())
    values, order = torch.sort(torch.cat([magnitudes.abs_(), squares]), descending=True)
    reached = torch.cumsum(torch.cat([shares, diagonal])[order], dim=0)
    slack = 4.0 * off_diagonal * np.sqrt(max(min(t / off_diagonal, 1.0), 1.0 / n_sampled) / n_sampled)
    targets = torch.tensor([t + slack, t - slack], dtype=reached.dtype, device=reached.device)
    places = torch.searchsorted(reached, targets).clamp_(max=len(reached) - 1)
    low, high = values[places].tolist()
    return kind(low), kind(high), slack
