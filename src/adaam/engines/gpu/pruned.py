"""The pruned affinity S(PP') on a device: entries counted for the cut, and kept for the Gram matrix.

Entries come from the fused kernels (`gpu.fused`) or, as here, from tiles in plain PyTorch. The cut is found as on any
engine (`engines.pruned.cut`); change here how a device guesses its bracket and counts.
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

# Entries of PP' right of the diagonal, each computed the same way in every pass, down to the last bit. Magnitudes are
# in the pairs' own unit, `unit` times smaller than those of PP'; weights are None where all are 1.
DevicePairs: TypeAlias = "TilePairs | FusedPairs"

SAMPLED_PAIRS = 1 << 22  # pairs looked at to guess the first bracket, at most
MAX_COLLECTED = 1 << 20  # entries a pass may write out; a fuller bracket is narrowed by bins first


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
    """Cut of PP' to t entries, unless it is known, and X'WSWX and WSw of what that keeps."""
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
    """Multiplicity above a bracket and inside it; the latter also in each bin, or entry by entry.

    All of it stays on the device until it is read at once: each read waits for the passes before it.
    """

    above: torch.Tensor  # float64
    inside: torch.Tensor  # float64
    bins: torch.Tensor | None = None
    values: torch.Tensor | None = None  # (capacity,): entries inside, as far as there was room for them
    shares: torch.Tensor | None = None  # (capacity,), float64: multiplicity of each
    n_found: torch.Tensor | None = None  # how many there are, in room or not


class DeviceEntries:
    """All entries of PP' in the unit of the pairs: `engines.pruned.cut.Entries` of a device."""

    def __init__(self, pairs: DevicePairs, diagonal: torch.Tensor) -> None:
        self.pairs, self.diagonal = pairs, diagonal
        self.dtype = NUMPY_DTYPES[pairs.P.dtype].type
        # Diagonal entries of PP', summed in float64 and rounded to P's precision.
        self.squares = pairs.P.to(torch.float64).square().sum(dim=1).to(pairs.P.dtype)
        self._largest: float | None = None
        self._crowded = False  # whether the bracket is known to hold more than a pass may write out

    def largest(self) -> float:
        """Magnitude that no entry exceeds: |p_i . p_j| is at most the largest |p|², but for rounding."""
        if self._largest is None:
            self._largest = float(self.squares.max())
        return self._largest * (1 + 1e-4)

    def guess(self, t: float) -> Bracket:
        """Bracket the t-th largest entry, most likely."""
        low, high, self._largest, expected = _guess(self.pairs, self.squares, self.diagonal, t).tolist()
        self._crowded = expected > MAX_COLLECTED // 2
        return Bracket(low, high)

    def tally(self, bracket: Bracket) -> Tally:
        """Count all entries against a bracket: one by one, or by bins where they do not fit."""
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
        """Multiplicity above and inside with the diagonal, and how many entries were collected, read at once."""
        above = counts.above + (self.diagonal * (self.squares > high)).sum()
        inside = counts.inside + (self.diagonal * own).sum()
        n_found = torch.zeros_like(above) if counts.n_found is None else counts.n_found.to(torch.float64)
        found: list[float] = torch.stack([above, inside, n_found]).tolist()
        return found


def _guess(pairs: DevicePairs, squares: torch.Tensor, diagonal: torch.Tensor, t: float) -> torch.Tensor:
    """Bracket the cut from sampled pairs and the whole diagonal, four standard errors either way.

    A tensor of its low and high end, the largest magnitude of the diagonal, and about how many entries lie between.
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


@dataclass(frozen=True, slots=True)
class TilePairs:
    """Entries of PP' right of the diagonal, in tiles of fixed shape so that every pass sees the same bits."""

    P: torch.Tensor
    weights: torch.Tensor | None
    tile_rows: int
    unit: float = 1.0

    def tiles(self) -> Iterator[tuple[slice, slice, torch.Tensor]]:
        """Tiles from the diagonal rightwards; on and below the diagonal entries are zero."""
        blocks = row_blocks(len(self.P), self.tile_rows)
        for i, rows in enumerate(blocks):
            for columns in blocks[i:]:
                tile = self.P[rows] @ self.P[columns].T
                yield rows, columns, tile.triu_(1) if columns == rows else tile

    def count(self, low: float, high: float, *, binned: bool = False, capacity: int = 0) -> Counts:
        """Count entries against [low, high], low > 0, each pair for both directions.

        Those inside are also counted by bins where `binned`, exactly but for the edges of bins; `capacity` writes them
        out, as far as there is room for them.
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
        """Multiplicity of the chosen entries of a tile, both directions."""
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
