"""Tall arrays of the GPU engine: tensors on the device, or host rows that stream to it in blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from torch.nn.functional import embedding_bag

from adaam._typing import FloatMatrix, FloatVector, IntVector, Sparse, Tall
from adaam.engines.blocks import row_blocks

NUMPY_DTYPES: dict[Any, "np.dtype[Any]"] = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}
TORCH_DTYPES = {dtype: kind for kind, dtype in NUMPY_DTYPES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRows:
    """A tensor of rows that shows its shape and precision as a NumPy array does."""

    tensor: torch.Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return tuple(self.tensor.shape)

    @property
    def dtype(self) -> "np.dtype[Any]":
        """Precision, as NumPy names it."""
        return NUMPY_DTYPES[self.tensor.dtype]

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return int(self.tensor.nbytes)

    def __len__(self) -> int:
        return len(self.tensor)

    def __getitem__(self, rows: Any) -> "DeviceRows":
        return DeviceRows(self.tensor[torch.as_tensor(rows) if isinstance(rows, np.ndarray) else rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatMatrix:
        return np.asarray(self.tensor.detach().cpu().numpy(), dtype=dtype)


@dataclass(frozen=True, slots=True)
class Place:
    """A device and the memory that temporaries may take there."""

    device: torch.device
    tile_bytes: int

    def vector(self, values: Any, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """Copy a host vector or small matrix to the device; a tensor of a host device may share its memory."""
        array = np.ascontiguousarray(values)
        # PyTorch warns of read-only arrays and refuses the negative strides that NumPy lets a lone entry keep.
        shared = array.flags.writeable and all(stride >= 0 for stride in array.strides)
        return torch.from_numpy(array if shared else array.copy()).to(device=self.device, dtype=dtype)

    def rows(self, X: Tall, rows: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Dense rows on the device, wherever X lives."""
        if isinstance(X, DeviceRows):
            return X[rows].tensor.to(device=self.device, dtype=dtype)
        part = X[rows]
        dense = part.toarray() if issparse(part) else np.array(part, order="C")
        return torch.from_numpy(dense).to(device=self.device, dtype=dtype)

    def blocks(self, X: Tall, extra_columns: int = 0) -> list[slice]:
        """Row blocks whose float64 copy, with `extra_columns` beside it, stays within the budget."""
        height = self.tile_bytes // (8 * max(1, X.shape[1] + extra_columns))
        return row_blocks(X.shape[0], max(16, height))


def row_norms(place: Place, X: Tall) -> FloatVector:
    """Euclidean lengths in float64; the largest entry is divided out where a square could overflow or vanish."""
    parts = []
    for rows in place.blocks(X):
        block = place.rows(X, rows)
        if block.dtype == torch.float32:
            # Squares of float32 numbers neither overflow nor vanish in float64.
            parts.append(torch.linalg.vector_norm(block, dim=1, dtype=torch.float64))
            continue
        largest = block.abs().amax(dim=1, keepdim=True)
        largest[largest == 0] = 1.0
        parts.append(largest[:, 0] * torch.linalg.vector_norm(block / largest, dim=1))
    return host(torch.cat(parts))


def cross(place: Place, A: Tall, B: Tall, weights: FloatVector | None) -> FloatMatrix:
    """Sum over rows of weight * a b', in float64."""
    total = torch.zeros((A.shape[1], B.shape[1]), dtype=torch.float64, device=place.device)
    for rows in place.blocks(A, B.shape[1]):
        right = place.rows(B, rows, torch.float64)
        left = right if A is B else place.rows(A, rows, torch.float64)
        if weights is not None:
            left = left * place.vector(weights[rows])[:, None]
        total += left.T @ right
    return host(total)


def scatter(place: Place, X: Tall, scale: FloatVector, mean: FloatVector, weights: FloatVector) -> FloatMatrix:
    """Sum over rows of weight * z z' with z = scale * x - mean, in float64."""
    d = X.shape[1]
    total = torch.zeros((d, d), dtype=torch.float64, device=place.device)
    centre = place.vector(mean)
    for rows in place.blocks(X, d):
        block = place.rows(X, rows, torch.float64) * place.vector(scale[rows])[:, None]
        block -= centre
        block *= place.vector(np.sqrt(weights[rows]))[:, None]
        total += block.T @ block
    return host(total)


def row_scatter(place: Place, X: Tall, scale: FloatVector, mean: FloatVector) -> FloatMatrix:
    """Inner products of scale * x - mean between all rows, of which there are few."""
    n, d = X.shape
    total = torch.zeros((n, n), dtype=torch.float64, device=place.device)
    factors = place.vector(scale)[:, None]
    for columns in row_blocks(d, max(16, place.tile_bytes // (8 * n))):
        centred = place.rows(X[:, columns], slice(None), torch.float64) * factors - place.vector(mean[columns])
        total += centred @ centred.T
    return host(total)


def project(
    place: Place, X: Tall, scale: FloatVector, mean: FloatVector, components: FloatMatrix, dtype: "np.dtype[Any]"
) -> DeviceRows:
    """(scale * x - mean) @ components.T for each row, computed in float64 and kept in the given precision."""
    out = torch.empty((X.shape[0], len(components)), dtype=TORCH_DTYPES[dtype], device=place.device)
    centre, turned = place.vector(mean), place.vector(components).T
    for rows in place.blocks(X, X.shape[1] + len(components)):
        block = place.rows(X, rows, torch.float64) * place.vector(scale[rows])[:, None]
        block -= centre
        out[rows] = block @ turned
    return DeviceRows(out)


def sparse_gram(place: Place, weights: Sparse, X: torch.Tensor) -> FloatMatrix:
    """X' W X: rows of W X gathered and summed in X's precision, their products with X in float64."""
    n, d = X.shape
    total = torch.zeros((d, d), dtype=torch.float64, device=place.device)
    kind = torch.int32 if weights.nnz < np.iinfo(np.int32).max else torch.int64
    starts, columns = place.vector(weights.indptr, kind), place.vector(weights.indices, kind)
    entries = place.vector(weights.data, X.dtype)
    for rows in row_blocks(n, max(16, place.tile_bytes // (24 * max(1, d)))):
        first, last = int(weights.indptr[rows.start]), int(weights.indptr[rows.stop])
        # The product of a sparse and a dense matrix under another name, deterministic on every device.
        product = embedding_bag(
            columns[first:last],
            X,
            starts[rows.start : rows.stop + 1] - first,
            mode="sum",
            per_sample_weights=entries[first:last],
            include_last_offset=True,
        )
        total += X[rows].to(torch.float64).T @ product.to(torch.float64)
    return host(total)


def reverse_entries(place: Place, starts: IntVector, indices: IntVector, widest: int) -> IntVector:
    """Position of entry (j, i) for each entry (i, j), by comparing i with each entry of row j; -1 if absent."""
    first, columns = place.vector(starts, torch.int32), place.vector(indices, torch.int32)
    rows = torch.arange(len(starts) - 1, dtype=torch.int32, device=place.device)
    rows = rows.repeat_interleave(first.diff(), output_size=len(indices))
    reverse = torch.full_like(columns, -1)
    for part in row_blocks(len(indices), max(1, place.tile_bytes // 64)):
        at, stop = first[columns[part]], first[columns[part] + 1]
        for _ in range(widest):
            here = (at < stop) & (columns[at.clamp(max=len(indices) - 1)] == rows[part])
            reverse[part] = torch.where(here, at, reverse[part])
            at += 1
    return host(reverse)


def first_equal(place: Place, X: Tall) -> IntVector:
    """First row equal to each row: rows with equal 64-bit hashes, compared entry by entry before it is believed."""
    n = X.shape[0]
    order = torch.arange(n, device=place.device)
    for hashes in _row_hashes(place, X):
        _, group = torch.unique(hashes, return_inverse=True)
        first = torch.full((n,), n, device=place.device).scatter_reduce_(0, group, order, "amin")
        owner = first[group]
        copies = host(torch.nonzero(owner != order)[:, 0])
        if _all_equal(place, X, copies, host(owner[owner != order])):
            return host(owner)
    raise AssertionError("hashes never end")


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


def _all_equal(place: Place, X: Tall, rows: IntVector, others: IntVector) -> bool:
    height = max(1, place.tile_bytes // (16 * max(1, X.shape[1])))
    return all(
        torch.equal(place.rows(X, rows[part]), place.rows(X, others[part])) for part in row_blocks(len(rows), height)
    )


def host(tensor: torch.Tensor) -> "np.ndarray[Any, Any]":
    """Bring a small tensor to the host."""
    return np.asarray(tensor.cpu())
