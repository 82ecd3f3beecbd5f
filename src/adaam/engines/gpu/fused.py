"""Host side of the fused kernels: padded half-precision copies, launch grids that fill the GPU, final sums."""

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch.nn.functional import pad

from adaam.engines.gpu.pruned import Counts
from adaam.engines.pruned import cut

MAX_SPLIT_COLUMNS = 256  # three for each column of P; wider tiles do not fit beside the other operands
MAX_MAGNITUDE_RATIO = 2.0**28  # largest over smallest kept entry for which half precision loses none of its bits
PROGRAMS = 1056  # programs in a grid: eight for each multiprocessor of a large GPU
STRIP_BYTES = 1 << 28  # memory for the product S X of one strip of rows
TILE = (128, 64, 128, 8, 3)  # rows, columns and features of a tile of the accumulating kernel, its warps and stages


def available(device: torch.device) -> bool:
    """Whether fused kernels can run on the device."""
    return device.type == "cuda" and find_spec("triton") is not None


@dataclass(frozen=True, slots=True)
class FusedPairs:
    """Entries of PP' in the upper triangle, from a P split into two half-precision parts."""

    P: torch.Tensor  # scaled by a power of two
    weights: torch.Tensor | None
    left: torch.Tensor  # (padded n, K): hi, hi, lo
    right: torch.Tensor  # (padded n, K): hi, lo, hi
    padded_weights: torch.Tensor
    unit: float
    largest_square: float  # bound on the magnitude of all entries, in the unit

    def count(self, low: float, high: float, *, binned: bool = False, capacity: int = 0) -> Counts:
        """Count entries against [low, high], as `TilePairs.count` does."""
        from adaam.engines.gpu.kernels import BM, BN, count_kernel

        n_bins, weighted = cut.N_BINS if binned else 0, self.weights is not None
        # Bins per unit, finite in the float32 of the kernels however narrow the bracket is.
        per_unit = min(n_bins / (high - low), torch.finfo(torch.float32).max) if binned else 0.0
        kind = torch.float64 if weighted else torch.int64
        device = self.P.device
        n_rows, K = self.left.shape
        segments = _segments(n_rows // BM)
        above = torch.zeros(n_rows // BM * segments, dtype=kind, device=device)
        inside = torch.zeros_like(above)
        bins = torch.zeros(max(1, n_bins), dtype=kind, device=device)
        values = torch.empty(max(1, capacity), dtype=torch.float32, device=device)
        shares = torch.ones(max(1, capacity if weighted else 1), dtype=torch.float64, device=device)
        cursor = torch.zeros(1, dtype=torch.int32, device=device)
        count_kernel[(n_rows // BM, segments)](
            self.left, self.right, self.padded_weights, low, high, per_unit,
            above, inside, bins, values, shares, cursor, capacity, n_rows // BN, -(-(n_rows // BN) // segments),
            N_BINS=n_bins, WEIGHTED=weighted, COLLECT=capacity > 0, K=K, BM=BM, BN=BN, num_warps=8,
        )  # fmt: skip
        counts = Counts(2.0 * above.sum().to(torch.float64), 2.0 * inside.sum().to(torch.float64))
        if binned:
            return counts._replace(bins=2.0 * bins.to(torch.float64))
        if not capacity:
            return counts
        return counts._replace(values=values, shares=2.0 * shares.expand(capacity), n_found=cursor[0])


def fused_pairs(P: torch.Tensor, weights: torch.Tensor | None) -> FusedPairs | None:
    """Split P for the tensor cores; None if its rank or its range is too large."""
    from adaam.engines.gpu.kernels import BM

    n, r = P.shape
    largest, longest = torch.stack([P.abs().max(), torch.linalg.vector_norm(P, dim=1).max()]).tolist()
    K = max(32, 1 << (3 * r - 1).bit_length())
    if K > MAX_SPLIT_COLUMNS or not 0 < largest < 2.0**100:
        return None
    scale = power_of_two(2.0**13 / largest)
    scaled = P * scale
    hi = scaled.half()
    lo = (scaled - hi).half()
    padded = -(-n // BM) * BM
    shape = (0, K - 3 * r, 0, padded - n)
    left = pad(torch.cat([hi, hi, lo], dim=1), shape)
    right = pad(torch.cat([hi, lo, hi], dim=1), shape)
    padded_weights = torch.ones(1, dtype=torch.float64, device=P.device) if weights is None else pad(weights, shape[2:])
    largest_square = max((longest * scale) ** 2 * 1.001, 1e-30)
    return FusedPairs(scaled, weights, left, right, padded_weights, scale**-2, largest_square)


def holds_range(pairs: FusedPairs, threshold: float) -> bool:
    """Whether half precision holds every kept entry."""
    return threshold > 0 and pairs.largest_square * pairs.unit <= threshold * MAX_MAGNITUDE_RATIO


def pruned_gram(
    pairs: FusedPairs, threshold: float, X: torch.Tensor, shape: tuple[int, ...] = TILE
) -> tuple[torch.Tensor, torch.Tensor]:
    """X'WSWX and WSw over the off-diagonal entries of PP' of magnitude at least `threshold`.

    The product takes entries and rows in half precision, with 11 significant bits as in tf32; it is summed in float32
    along a row of S and in float64 from there on. Row sums are in float32 throughout.
    """
    from adaam.engines.gpu.kernels import accumulate_kernel

    BM, BN, DC, num_warps, num_stages = shape
    n, d = X.shape
    n_rows, K = pairs.left.shape
    weighted = X if pairs.weights is None else X * pairs.weights[:, None].to(X.dtype)
    rows, x_scale = half_rows(weighted, n_rows, DC, 2.0**10)
    shrink = power_of_two(2.0**15 / pairs.largest_square)
    stride = rows.shape[1]
    tall = max(BM, STRIP_BYTES // (4 * stride) // BM * BM)
    half = torch.zeros((d, d), dtype=torch.float64, device=X.device)
    for first in range(0, n_rows, tall):
        blocks = min(tall, n_rows - first) // BM
        # Several segments also limit the number of successive float32 additions.
        segments = max(_segments(blocks * (stride // DC)), 4 if n_rows > 1 << 18 else 1)
        out = torch.empty((segments, blocks * BM, stride), dtype=torch.float32, device=X.device)
        accumulate_kernel[(blocks, stride // DC, segments)](
            pairs.left, pairs.right, rows, out, threshold / pairs.unit, shrink,
            first // BM, n_rows // BN, -(-(n_rows // BN) // segments), stride,
            K=K, BM=BM, BN=BN, DC=DC, num_warps=num_warps, num_stages=num_stages,
        )  # fmt: skip
        part = slice(first, min(first + blocks * BM, n))
        product = out.sum(dim=0, dtype=torch.float64)[: part.stop - part.start, :d]
        half += weighted[part].to(torch.float64).T @ product
    half *= pairs.unit / (shrink * x_scale)
    degrees, _ = row_sums(pairs, threshold)
    return half + half.T, degrees[:n]


def row_sums(pairs: FusedPairs, threshold: float) -> tuple[torch.Tensor, torch.Tensor]:
    """WSw of the padded rows, and the number of entries kept in the upper triangle, both on the device."""
    from adaam.engines.gpu.kernels import BM, BN, column_sum_kernel, row_sum_kernel

    weighted = pairs.weights is not None
    n_rows, K = pairs.left.shape
    along = torch.empty(n_rows, dtype=torch.float32, device=pairs.P.device)
    down = torch.empty_like(along)
    counts = torch.empty(n_rows // BM, dtype=torch.int64, device=pairs.P.device)
    inputs = (pairs.left, pairs.right, pairs.padded_weights)
    shapes: dict[str, Any] = {"WEIGHTED": weighted, "K": K, "BM": BM, "BN": BN, "num_warps": 8}
    limit = threshold / pairs.unit  # the unit is a power of two, so that this is exact
    row_sum_kernel[(n_rows // BM,)](*inputs, along, counts, limit, n_rows // BN, **shapes)
    column_sum_kernel[(n_rows // BN,)](*inputs, down, limit, n_rows // BN, **shapes)
    total = (along.to(torch.float64) + down) * pairs.unit
    return (total * pairs.padded_weights if weighted else total), counts.sum()


def half_rows(X: torch.Tensor, n_rows: int, width: int, largest: float) -> tuple[torch.Tensor, float]:
    """Rows in half precision, scaled by a power of two; zero-padded to `n_rows` and a multiple of `width`."""
    n, d = X.shape
    scale = power_of_two(largest / max(float(X.abs().max()), 1e-30))
    out = torch.zeros((n_rows, -(-d // width) * width), dtype=torch.float16, device=X.device)
    out[:n, :d] = X * scale
    return out, scale


def power_of_two(number: float) -> float:
    """Largest power of two not above a positive number."""
    return 2.0 ** math.floor(math.log2(number))


def _segments(programs: int) -> int:
    """Number of segments to split the columns into, so that the grid fills the GPU."""
    return max(1, min(32, PROGRAMS // max(1, programs)))
