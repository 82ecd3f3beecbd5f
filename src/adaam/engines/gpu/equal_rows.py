"""Equal rows on a device: found by hashing, compared entry by entry before it is believed, then merged."""

from collections.abc import Iterator

import numpy as np
import torch

from adaam._typing import Column, Tall
from adaam.engines.blocks import row_blocks
from adaam.engines.gpu.rows import DeviceRows, Place, host
from adaam.engines.gpu.sparse import segment_sums


def distinct(place: Place, X: Tall, weights: Column) -> tuple[Tall, Column]:
    """Distinct rows of positive weight, in order of first appearance, and the total weight of each."""
    n = X.shape[0]
    for hashes in _row_hashes(place, X):
        ordered, order = hashes.sort(stable=True)
        again = torch.cat([torch.zeros(1, dtype=torch.bool, device=place.device), ordered[1:] == ordered[:-1]])
        if not again.any():
            return _present(X, weights)
        starts = torch.nonzero(~again)[:, 0]
        group = (~again).cumsum(dim=0) - 1
        first = order[starts]  # the sort is stable, so each group begins with its first row
        if _all_equal(place, X, order[again], first[group[again]]):
            break
    starts = torch.cat([starts, torch.tensor([n], device=place.device)])
    counts = (
        torch.full((n,), weights, dtype=torch.float64, device=place.device) if isinstance(weights, float) else weights
    )
    totals = segment_sums(counts[order], starts)
    first, appearance = first.sort()
    return _present(_picked(X, first), totals[appearance])


def _present(X: Tall, weights: Column) -> tuple[Tall, Column]:
    """Rows of positive weight; where all weights are 1, that is all there is to say of them."""
    if isinstance(weights, float):
        return X, weights
    positive = weights > 0
    one_each, all_positive = torch.stack([(weights == 1).all(), positive.all()]).tolist()
    if all_positive:
        return X, 1.0 if one_each else weights
    kept = torch.nonzero(positive)[:, 0]
    return _present(_picked(X, kept), weights[kept])


def _picked(X: Tall, rows: torch.Tensor) -> Tall:
    """Rows by index, of a tensor or of host rows."""
    return X[rows] if isinstance(X, DeviceRows) else X[host(rows)]


def _row_hashes(place: Place, X: Tall) -> Iterator[torch.Tensor]:
    """One independent hash of all rows after the other; a second one is needed once in 2^24 fits of a million rows."""
    rng = np.random.default_rng(0)  # any factors will do: a collision is noticed and costs time alone
    while True:
        factors = place.vector(rng.integers(1 << 62, size=X.shape[1]) * 2 + 1, torch.int64)
        yield torch.cat([_hash(place.rows(X, rows), factors) for rows in place.blocks(X, 2 * X.shape[1])])


def _hash(block: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    kind = torch.int32 if block.dtype == torch.float32 else torch.int64
    bits = (block + 0.0).view(kind).to(torch.int64)  # adding zero turns -0.0 into 0.0
    # Whole numbers end in many zero bits; mixing brings the high bits down before the factors act.
    bits = bits * 0x9E3779B97F4A7C1
    bits ^= bits >> 29
    return (bits * factors).sum(dim=1)


def _all_equal(place: Place, X: Tall, rows: torch.Tensor, others: torch.Tensor) -> bool:
    height = max(1, place.tile_bytes // (16 * max(1, X.shape[1])))
    return all(
        torch.equal(place.rows(_picked(X, rows[part]), slice(None)), place.rows(_picked(X, others[part]), slice(None)))
        for part in row_blocks(len(rows), height)
    )
