"""Products PP' on a device, tile by tile in plain PyTorch: counted for the cut, pruned for the Gram matrix."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from adaam.engines.blocks import row_blocks
from adaam.engines.gpu.cut import Entries, Tally, bin_of


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

    def count(self, low: float, high: float) -> Tally:
        """Count entries against [low, high]."""
        return self._pass(low, high, lambda values, shares: None)

    def bin(self, low: float, high: float, n_bins: int) -> Tally:
        """Count entries against [low, high] and its parts."""
        bins = torch.zeros(n_bins, dtype=torch.float64, device=self.P.device)

        def add(values: torch.Tensor, shares: torch.Tensor) -> None:
            bins.index_add_(0, bin_of(values, low, high, n_bins), shares)

        return self._pass(low, high, add)._replace(bins=bins)

    def collect(self, low: float, high: float, capacity: int) -> Tally:
        """Count entries against [low, high] and write out those inside, as far as there is room for them."""
        empty = torch.zeros(0, dtype=self.P.dtype, device=self.P.device)
        parts = [(empty, empty.to(torch.float64))]
        n_held = 0

        def add(values: torch.Tensor, shares: torch.Tensor) -> None:
            nonlocal n_held
            n_held += len(values)
            if n_held <= capacity:
                parts.append((values, shares))

        tally = self._pass(low, high, add)
        values, shares = (torch.cat(part) for part in zip(*parts, strict=True))
        return tally._replace(entries=Entries(values, shares, torch.full_like(tally.above, n_held)))

    def _pass(self, low: float, high: float, add: Callable[[torch.Tensor, torch.Tensor], None]) -> Tally:
        above = torch.zeros((), dtype=torch.float64, device=self.P.device)
        inside = torch.zeros_like(above)
        for rows, columns, tile in self.tiles():
            tile.abs_()
            above += self._total(tile > high, rows, columns)
            row, column = torch.nonzero((tile >= low) & (tile <= high), as_tuple=True)
            shares = torch.full((len(row),), 2.0, dtype=torch.float64, device=tile.device)
            if self.weights is not None:
                shares *= self.weights[rows][row] * self.weights[columns][column]
            inside += shares.sum()
            add(tile[row, column], shares)
        return Tally(above, inside)

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
