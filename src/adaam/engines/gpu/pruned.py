"""The pruned affinity S(PP') on a device: counts of entries to find the cut, and the Gram matrix of those kept.

Entries come from the fused kernels (`gpu.fused`) or, as here, from tiles in plain PyTorch. All engines share the search
for the cut (`engines.pruned.cut`); this file has the device's first bracket and its counting.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import torch

from adaam.engines.blocks import row_blocks
from adaam.engines.gpu.arrays import NUMPY_DTYPES, Place, host
from adaam.engines.pruned import cut
from adaam.engines.pruned.cut import Bracket, Tally

if TYPE_CHECKING:
    from adaam.engines.gpu.fused import FusedPairs

# Entries of PP' in the upper triangle, bitwise identical in every pass. Magnitudes are in the pairs' own unit: times
# `unit` they are those of PP'. Weights are None if all are 1.
DevicePairs: TypeAlias = "TilePairs | FusedPairs"

SAMPLED_PAIRS = 1 << 22  # most pairs sampled for the first bracket
MAX_COLLECTED = 1 << 20  # most entries that a pass writes out; a fuller bracket is narrowed by bins first


def cut_gram(
    place: Place,
    P: torch.Tensor,
    weights: torch.Tensor | None,
    diagonal: torch.Tensor,
    t: float,
    known_cut: float | None,
    X: torch.Tensor,
    *,
    fused: bool,
) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Cut of PP' to t entries, unless it is known, and X'WSWX and WSw of the entries it keeps."""
    tiles = TilePairs(P, weights, max(64, int((place.tile_bytes / P.element_size()) ** 0.5) // 64 * 64))
    split = None
    if fused and P.dtype == torch.float32:
        from adaam.engines.gpu import fused as kernels

        split = kernels.fused_pairs(P, weights)
    found: float | None = known_cut
    pairs: DevicePairs = tiles if split is None else split
    if found is None:
        found = cut.exact_cut(DeviceEntries(pairs, diagonal), t) * float(pairs.unit)
    threshold = cut.kept_from(found, NUMPY_DTYPES[P.dtype])
    if split is not None and kernels.holds_range(split, threshold):
        return found, *kernels.pruned_gram(split, threshold, X)
    return found, *pruned_gram(tiles, threshold, X)


class Counts(NamedTuple):
    """Multiplicity above a bracket and inside it; the latter also by bins, or entry by entry.

    Everything stays on the device until it is read in one go: each read waits for the passes before it.
    """

    above: torch.Tensor  # float64
    inside: torch.Tensor  # float64
    bins: torch.Tensor | None = None
    values: torch.Tensor | None = None  # (capacity,): the entries inside, except those beyond the capacity
    shares: torch.Tensor | None = None  # (capacity,), float64: multiplicity of each
    n_found: torch.Tensor | None = None  # number of entries inside, including those beyond the capacity


class DeviceEntries:
    """All entries of PP' in the unit of the pairs; implements `engines.pruned.cut.Entries` on a device."""

    def __init__(self, pairs: DevicePairs, diagonal: torch.Tensor) -> None:
        self.pairs, self.diagonal = pairs, diagonal
        self.dtype = NUMPY_DTYPES[pairs.P.dtype].type
        # Diagonal entries of PP', summed in float64 and rounded to P's precision.
        self.squares = pairs.P.to(torch.float64).square().sum(dim=1).to(pairs.P.dtype)
        self._largest: float | None = None
        self._crowded = False  # whether the next bracket is expected to hold more than a pass writes out

    def largest(self) -> float:
        """Upper bound on all magnitudes: |p_i . p_j| is at most the largest |p|², up to rounding."""
        if self._largest is None:
            self._largest = float(self.squares.max())
        return self._largest * (1 + 1e-4)

    def guess(self, t: float) -> Bracket:
        """Return a bracket that most likely contains the t-th largest entry."""
        low, high, self._largest, expected = _guess(self.pairs, self.squares, self.diagonal, t).tolist()
        self._crowded = expected > MAX_COLLECTED // 2
        return Bracket(low, high)

    def tally(self, bracket: Bracket) -> Tally:
        """Count all entries against a bracket; list those inside, or count them by bins if they are too many."""
        tiny = float(np.nextafter(self.dtype(0), self.dtype(1)))
        low, high = max(bracket.low, tiny), bracket.high
        if high < low:
            return Tally(0.0, np.empty(0), np.empty(0))
        crowded, self._crowded = self._crowded, False
        own = (self.squares >= low) & (self.squares <= high) & (self.diagonal > 0)
        if low == high:
            above, inside, _ = self._read(self.pairs.count(low, high), own, high)
            return Tally(above, np.array([low]), np.array([inside]))
        if not crowded:
            counts = self.pairs.count(low, high, capacity=MAX_COLLECTED)
            above, inside, n_found = self._read(counts, own, high)
            if n_found <= MAX_COLLECTED and counts.values is not None and counts.shares is not None:
                values = torch.cat([counts.values[: int(n_found)], self.squares[own]])
                shares = torch.cat([counts.shares[: int(n_found)], self.diagonal[own]])
                return Tally(above, values, shares, inside=inside)
        counts = self.pairs.count(low, high, binned=True)
        above, _, _ = self._read(counts, own, high)
        assert counts.bins is not None
        counted = Bracket(low, high)
        bins = counts.bins.index_add(0, counted.bins(self.squares), self.diagonal * own)
        return Tally(above, counted.bin_edges(), host(bins), binned=True)

    def _read(self, counts: Counts, own: torch.Tensor, high: float) -> list[float]:
        """Multiplicity above and inside, with the diagonal, and the number of entries found, in a single read."""
        above = counts.above + (self.diagonal * (self.squares > high)).sum()
        inside = counts.inside + (self.diagonal * own).sum()
        n_found = torch.zeros_like(above) if counts.n_found is None else counts.n_found.to(torch.float64)
        found: list[float] = torch.stack([above, inside, n_found]).tolist()
        return found


def _guess(pairs: DevicePairs, squares: torch.Tensor, diagonal: torch.Tensor, t: float) -> torch.Tensor:
    """Bracket the cut by sampled pairs and the whole diagonal, four standard errors to either side.

    Returns a tensor: low end, high end, largest entry of the diagonal, and roughly the number of entries between.
    """
    P, weights = pairs.P, pairs.weights
    n = len(P)
    largest = squares.max().to(torch.float64)
    if n < 2:
        return torch.stack([torch.zeros_like(largest), largest, largest, torch.zeros_like(largest)])
    rng = np.random.default_rng(0)  # the guess affects only speed, so the seed is arbitrary
    # Sampling one pair in 4096 costs about as much as it saves in the next pass; for few rows, more are affordable.
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


@dataclass(frozen=True, slots=True)
class TilePairs:
    """Entries of PP' in the upper triangle, in tiles of fixed shape so that every pass sees the same bits."""

    P: torch.Tensor
    weights: torch.Tensor | None
    tile_rows: int
    unit: float = 1.0

    def tiles(self) -> Iterator[tuple[slice, slice, torch.Tensor]]:
        """Yield the tiles of the upper triangle; entries on and below the diagonal are zero."""
        blocks = row_blocks(len(self.P), self.tile_rows)
        for i, rows in enumerate(blocks):
            for columns in blocks[i:]:
                tile = self.P[rows] @ self.P[columns].T
                yield rows, columns, tile.triu_(1) if columns == rows else tile

    def count(self, low: float, high: float, *, binned: bool = False, capacity: int = 0) -> Counts:
        """Count entries against [low, high], low > 0, each pair for both directions.

        With `binned`, those inside are also counted by bins, exactly except at the edges of bins; with `capacity`, they
        are written out, except those beyond the capacity.
        """
        above = torch.zeros((), dtype=torch.float64, device=self.P.device)
        inside, n_held = torch.zeros_like(above), 0
        bins = torch.zeros(cut.N_BINS, dtype=torch.float64, device=self.P.device)
        empty = torch.zeros(0, dtype=self.P.dtype, device=self.P.device)
        parts = [(empty, empty.to(torch.float64))]
        for rows, columns, tile in self.tiles():
            tile.abs_()
            above += self._total(tile > high, rows, columns)
            row, column = torch.nonzero((tile >= low) & (tile <= high), as_tuple=True)
            shares = torch.full((len(row),), 2.0, dtype=torch.float64, device=tile.device)
            if self.weights is not None:
                shares *= self.weights[rows][row] * self.weights[columns][column]
            inside += shares.sum()
            n_held += len(row)
            if binned:
                bins.index_add_(0, Bracket(low, high).bins(tile[row, column]), shares)
            elif n_held <= capacity:
                parts.append((tile[row, column], shares))
        if binned:
            return Counts(above, inside, bins)
        if not capacity:
            return Counts(above, inside)
        values, shares = (torch.cat(part) for part in zip(*parts, strict=True))
        return Counts(above, inside, None, values, shares, torch.full_like(above, n_held))

    def _total(self, chosen: torch.Tensor, rows: slice, columns: slice) -> torch.Tensor:
        """Multiplicity of the chosen entries of a tile, counted in both directions."""
        if self.weights is None:
            return 2.0 * torch.count_nonzero(chosen)
        return 2.0 * (self.weights[rows] @ (chosen.to(torch.float64) @ self.weights[columns]))


def pruned_gram(pairs: TilePairs, threshold: float, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """X'WSWX and WSw over the off-diagonal entries of PP' of magnitude at least `threshold`."""
    n, d = X.shape
    w = torch.ones(n, dtype=X.dtype, device=X.device) if pairs.weights is None else pairs.weights.to(X.dtype)
    half = torch.zeros((d, d), dtype=torch.float64, device=X.device)
    degrees = torch.zeros(n, dtype=torch.float64, device=X.device)
    product: torch.Tensor | None = None
    for rows, columns, tile in pairs.tiles():
        tile.masked_fill_(tile.abs() < threshold, 0.0)
        part = tile @ (X[columns] * w[columns, None])
        product = part if product is None else product + part
        degrees[rows] += tile @ w[columns]
        degrees[columns] += w[rows] @ tile
        if columns.stop == n:  # the row block is complete
            half += (X[rows] * w[rows, None]).to(torch.float64).T @ product.to(torch.float64)
            product = None
    return half + half.T, degrees * w
