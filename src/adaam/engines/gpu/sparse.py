"""Sparse affinities on a device: compressed rows, and a diagonal apart."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array
from torch.nn.functional import embedding_bag

from adaam._typing import Column, FloatMatrix, Sparse
from adaam.engines.blocks import row_blocks
from adaam.engines.columns import beside, spread
from adaam.engines.gpu.rows import Place, host


@dataclass(frozen=True, slots=True, eq=False)
class DeviceHalf:
    """Half H of an affinity H + H': compressed rows without a diagonal, and the diagonal beside them."""

    starts: torch.Tensor  # (n + 1,), int64
    indices: torch.Tensor  # int64
    values: torch.Tensor  # float64
    diagonal: Column

    def host(self) -> csr_array:
        """Bring it to the host."""
        n = len(self.starts) - 1
        entries = csr_array((host(self.values), host(self.indices), host(self.starts)), shape=(n, n))
        if _is_zero(self.diagonal):
            return entries
        diagonal = self.diagonal if isinstance(self.diagonal, float) else host(self.diagonal)
        return csr_array(entries + diags_array(spread(diagonal, n)))

    def degrees(self) -> torch.Tensor:
        """Row sums of H + H', the same bits from run to run, which scattered additions would not give."""
        by_column, order = self.indices.sort(stable=True)
        edges = torch.arange(len(self.starts), device=by_column.device)
        down = segment_sums(self.values[order], torch.searchsorted(by_column, edges))
        return segment_sums(self.values, self.starts) + down + 2.0 * self.diagonal


def _is_zero(column: Column) -> bool:
    return isinstance(column, float) and column == 0.0


def on_device(place: Place, entries: Sparse) -> DeviceHalf:
    """Copy a host matrix to the device."""
    long = torch.int64
    return DeviceHalf(
        place.vector(entries.indptr, long), place.vector(entries.indices, long), place.vector(entries.data), 0.0
    )


def segment_sums(values: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Sum of each run of values, runs being told by where they start; the last entry of `starts` is their end."""
    one = torch.ones((1, 1), dtype=values.dtype, device=values.device)
    return gathered_sums(torch.zeros_like(values, dtype=torch.int64), values, starts, one)[:, 0]


def sparse_gram(place: Place, half: DeviceHalf, X: torch.Tensor) -> FloatMatrix:
    """X' H X: rows of H X gathered and summed in X's precision, their products with X in float64."""
    n, d = X.shape
    total = torch.zeros((d, d), dtype=torch.float64, device=place.device)
    kind = torch.int32 if len(half.indices) < np.iinfo(np.int32).max else torch.int64
    starts, columns, values = half.starts.to(kind), half.indices.to(kind), half.values.to(X.dtype)
    blocks = row_blocks(n, max(16, place.tile_bytes // (24 * max(1, d))))
    edges = half.starts[[rows.start for rows in blocks]].tolist() + [len(columns)]
    for rows, first, last in zip(blocks, edges, edges[1:], strict=False):
        part = starts[rows.start : rows.stop + 1] - first
        product = gathered_sums(columns[first:last], values[first:last], part, X).to(torch.float64)
        block = X[rows].to(torch.float64)
        if not _is_zero(half.diagonal):
            product += block * beside(half.diagonal, rows)
        total += block.T @ product
    return host(total)


def gathered_sums(columns: torch.Tensor, values: torch.Tensor, starts: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
    """Weighted sums of rows of X: the product of a sparse and a dense matrix, deterministic on every device."""
    return embedding_bag(columns, X, starts, mode="sum", per_sample_weights=values, include_last_offset=True)
