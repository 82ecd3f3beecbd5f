"""Tall arrays of the GPU engine: tensors on the device, or host rows that stream to it in blocks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse

from adaam._typing import Column, FloatMatrix, FloatVector, Tall
from adaam.engines.blocks import row_blocks
from adaam.engines.columns import beside

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

    def column(self, values: Any) -> Column:
        """One number a row on the device, in float64; a float stays one."""
        if isinstance(values, float):
            return values
        if isinstance(values, torch.Tensor):
            return values.detach().to(device=self.device, dtype=torch.float64)
        return self.vector(values)

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


def row_norms(place: Place, X: Tall) -> torch.Tensor:
    """Euclidean lengths in float64; the largest entry is divided out where a square could overflow or vanish."""
    parts = []
    for rows in place.blocks(X):
        block = place.rows(X, rows)
        if block.dtype == torch.float32:
            # Squares of float32 numbers neither overflow nor vanish in float64.
            parts.append(torch.linalg.vector_norm(block, dim=1, dtype=torch.float64))
            continue
        largest = block.abs().amax(dim=1, keepdim=True)
        largest = largest + (largest == 0)
        parts.append(largest[:, 0] * torch.linalg.vector_norm(block / largest, dim=1))
    return torch.cat(parts)


def weighted_sum(place: Place, X: Tall, weights: Column) -> FloatVector:
    """Sum over rows of weight * x, in float64."""
    total = torch.zeros(X.shape[1], dtype=torch.float64, device=place.device)
    for rows in place.blocks(X):
        total += _times(place.rows(X, rows, torch.float64), weights, rows).sum(dim=0)
    return host(total)


def cross(place: Place, A: Tall, B: Tall, weights: Column) -> FloatMatrix:
    """Sum over rows of weight * a b', in float64."""
    total = torch.zeros((A.shape[1], B.shape[1]), dtype=torch.float64, device=place.device)
    for rows in place.blocks(A, B.shape[1]):
        right = place.rows(B, rows, torch.float64)
        left = right if A is B else place.rows(A, rows, torch.float64)
        total += _times(left, weights, rows).T @ right
    return host(total)


def scatter(place: Place, X: Tall, scale: Column, mean: FloatVector, weights: Column) -> FloatMatrix:
    """Sum over rows of weight * z z' with z = scale * x - mean, in float64."""
    d = X.shape[1]
    total = torch.zeros((d, d), dtype=torch.float64, device=place.device)
    centre, root = place.vector(mean), weights**0.5
    for rows in place.blocks(X, d):
        block = _times(place.rows(X, rows, torch.float64), scale, rows) - centre
        block = _times(block, root, rows)
        total += block.T @ block
    return host(total)


def row_scatter(place: Place, X: Tall, scale: Column, mean: FloatVector) -> FloatMatrix:
    """Inner products of scale * x - mean between all rows, of which there are few."""
    n, d = X.shape
    total = torch.zeros((n, n), dtype=torch.float64, device=place.device)
    for columns in row_blocks(d, max(16, place.tile_bytes // (8 * n))):
        block = place.rows(X[:, columns], slice(None), torch.float64)
        centred = _times(block, scale, slice(None)) - place.vector(mean[columns])
        total += centred @ centred.T
    return host(total)


def project(
    place: Place, X: Tall, scale: Column, mean: FloatVector, components: FloatMatrix, dtype: "np.dtype[Any]"
) -> DeviceRows:
    """(scale * x - mean) @ components.T for each row, computed in float64 and kept in the given precision."""
    out = torch.empty((X.shape[0], len(components)), dtype=TORCH_DTYPES[dtype], device=place.device)
    centre, turned = place.vector(mean), place.vector(components).T
    for rows in place.blocks(X, X.shape[1] + len(components)):
        out[rows] = (_times(place.rows(X, rows, torch.float64), scale, rows) - centre) @ turned
    return DeviceRows(out)


def _times(block: torch.Tensor, column: Column, rows: slice) -> torch.Tensor:
    """Rows of a block, each times its own number; the block itself, never to be written to, where that is 1."""
    return block if isinstance(column, float) and column == 1.0 else block * beside(column, rows)


def host(tensor: torch.Tensor) -> "np.ndarray[Any, Any]":
    """Bring a small tensor to the host."""
    return np.asarray(tensor.cpu())
