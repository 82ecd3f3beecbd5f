"""Arrays of the GPU engine: rows as tensors or streamed from the host, sums over rows, sparse affinities."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array, issparse
from torch.nn.functional import embedding_bag, pad

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector, Sparse, Tall
from adaam.engines.blocks import beside, row_blocks, short_blocks, spread
from adaam.engines.protocol import ClusterSums

NUMPY_DTYPES: dict[Any, "np.dtype[Any]"] = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}
TORCH_DTYPES = {dtype: kind for kind, dtype in NUMPY_DTYPES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRows:
    """A tensor of rows with the `shape` and `dtype` attributes of a NumPy array."""

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


def checked_rows(place: "Place", X: Any, at_least: int) -> DeviceRows:
    """Check a tensor of rows and move it to the device; integers become float64."""
    tensor = X.tensor if isinstance(X, DeviceRows) else X.detach()
    if tensor.ndim != 2:
        raise ValueError(f"X is a tensor of {tensor.ndim} dimension(s); pass one row a sample, one column a feature.")
    if tensor.shape[0] < at_least or tensor.shape[1] < 1:
        raise ValueError(f"X has shape {tuple(tensor.shape)}; at least {at_least} row(s) and 1 feature are needed.")
    if tensor.is_complex():
        raise ValueError("X is a complex tensor, and complex data is not supported.")
    if tensor.dtype not in NUMPY_DTYPES:
        tensor = tensor.to(torch.float32 if tensor.dtype in (torch.float16, torch.bfloat16) else torch.float64)
    tensor = tensor.to(place.device)
    # A finite sum proves every entry finite; if it is not, it may have overflowed, and the entries are checked.
    if not torch.isfinite(tensor.sum(dtype=torch.float64)) and not torch.isfinite(tensor).all():
        raise ValueError("X contains NaN or infinity. Remove or impute such rows first.")
    return DeviceRows(tensor)


@dataclass(frozen=True, slots=True)
class Place:
    """A device, and the memory that a temporary may take on it."""

    device: torch.device
    tile_bytes: int

    def current(self) -> AbstractContextManager[Any]:
        """Context in which this is the current CUDA device, on which kernels are launched."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()

    def vector(self, values: Any, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """Copy a host vector or small matrix to the device; a tensor on device "cpu" may share its memory."""
        array = np.ascontiguousarray(values)
        # PyTorch warns about read-only arrays and rejects negative strides, which arrays of one entry may have.
        shared = array.flags.writeable and all(stride >= 0 for stride in array.strides)
        return torch.from_numpy(array if shared else array.copy()).to(device=self.device, dtype=dtype)

    def column(self, values: Any) -> Column:
        """Column on the device, in float64; a plain float is returned as it is."""
        if isinstance(values, float):
            return values
        if isinstance(values, torch.Tensor):
            return values.detach().to(device=self.device, dtype=torch.float64)
        return self.vector(values)

    def spread(self, column: Column, n_rows: int) -> torch.Tensor:
        """Column as a tensor, also if it is a plain float."""
        if isinstance(column, float):
            return torch.full((n_rows,), column, dtype=torch.float64, device=self.device)
        return self.column(column)

    def rows(self, X: Tall, rows: Any = slice(None), dtype: torch.dtype | None = None) -> torch.Tensor:
        """Dense rows on the device, wherever X is stored."""
        if isinstance(X, DeviceRows):
            return X[rows].tensor.to(device=self.device, dtype=dtype)
        part = X[rows]
        dense = part.toarray() if issparse(part) else np.array(part, order="C")
        return torch.from_numpy(dense).to(device=self.device, dtype=dtype)

    def blocks(self, X: Tall, extra_columns: int = 0) -> list[slice]:
        """Row blocks whose float64 copy, with `extra_columns` further columns, fits into `tile_bytes`."""
        return short_blocks(X.shape[0], X.shape[1] + extra_columns, self.tile_bytes)


def row_norms(place: Place, X: Tall) -> torch.Tensor:
    """Euclidean lengths in float64; the largest entry is divided out if squares could overflow or underflow."""
    parts = []
    for rows in place.blocks(X):
        block = place.rows(X, rows)
        if block.dtype == torch.float32:
            # Squares of float32 numbers neither overflow nor underflow in float64.
            parts.append(torch.linalg.vector_norm(block, dim=1, dtype=torch.float64))
            continue
        largest = block.abs().amax(dim=1, keepdim=True)
        largest = largest + (largest == 0)
        parts.append(largest[:, 0] * torch.linalg.vector_norm(block / largest, dim=1))
    return torch.cat(parts)


def cross(place: Place, A: Tall | None, B: Tall, weights: Column) -> FloatMatrix:
    """Sum over rows of weight * a b', in float64; None stands for a column of ones."""
    if A is None:
        sums = torch.zeros(B.shape[1], dtype=torch.float64, device=place.device)
        for rows in place.blocks(B):
            sums += _times(place.rows(B, rows, torch.float64), weights, rows).sum(dim=0)
        return np.asarray(host(sums)[None])
    total = torch.zeros((A.shape[1], B.shape[1]), dtype=torch.float64, device=place.device)
    for rows in place.blocks(A, B.shape[1]):
        right = place.rows(B, rows, torch.float64)
        left = right if A is B else place.rows(A, rows, torch.float64)
        total += _times(left, weights, rows).T @ right
    return np.asarray(host(total))


def scatter(place: Place, X: Tall, scale: Column, mean: FloatVector, weights: Column) -> FloatMatrix:
    """Sum over rows of weight * z z' with z = scale * x - mean, in float64."""
    d = X.shape[1]
    total = torch.zeros((d, d), dtype=torch.float64, device=place.device)
    centre, root = place.vector(mean), weights**0.5
    for rows in place.blocks(X, d):
        block = _times(place.rows(X, rows, torch.float64), scale, rows) - centre
        block = _times(block, root, rows)
        total += block.T @ block
    return np.asarray(host(total))


def row_scatter(place: Place, X: Tall, scale: Column, mean: FloatVector, weights: Column) -> FloatMatrix:
    """Inner products of sqrt(weight) * (scale * x - mean) between all rows, for few rows."""
    n, d = X.shape
    total = torch.zeros((n, n), dtype=torch.float64, device=place.device)
    for columns in row_blocks(d, max(16, place.tile_bytes // (8 * n))):
        block = place.rows(X[:, columns], slice(None), torch.float64)
        centred = _times(block, scale, slice(None)) - place.vector(mean[columns])
        centred = _times(centred, weights**0.5, slice(None))
        total += centred @ centred.T
    return np.asarray(host(total))


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
    """Multiply each row by its number; if all are 1, return the block itself, which must not be modified."""
    return block if isinstance(column, float) and column == 1.0 else block * beside(column, rows)


def host(value: Any) -> Any:
    """Copy a small tensor to the host; a plain float is returned as it is."""
    return value if isinstance(value, float) else np.asarray(value.cpu())


@dataclass(frozen=True, slots=True, eq=False)
class DeviceHalf:
    """Half H of an affinity H + H': off-diagonal entries in CSR form, and the diagonal as a column."""

    starts: torch.Tensor  # (n + 1,), int64
    indices: torch.Tensor  # int64
    values: torch.Tensor  # float64
    diagonal: Column
    tile_bytes: int = 1 << 28  # for temporaries

    def gram(self, X: Tall) -> FloatMatrix:
        """X' H X: the rows of H X are summed in X's precision, their products with X in float64."""
        place = Place(self.values.device, self.tile_bytes)
        with place.current():
            return self._gram(place, place.rows(X))

    def _gram(self, place: Place, X: torch.Tensor) -> FloatMatrix:
        n, d = X.shape
        total = torch.zeros((d, d), dtype=torch.float64, device=place.device)
        kind = torch.int32 if len(self.indices) < np.iinfo(np.int32).max else torch.int64
        starts, columns, values = self.starts.to(kind), self.indices.to(kind), self.values.to(X.dtype)
        blocks = row_blocks(n, max(16, place.tile_bytes // (24 * max(1, d))))
        edges = self.starts[[rows.start for rows in blocks]].tolist() + [len(columns)]
        for rows, first, last in zip(blocks, edges, edges[1:], strict=False):
            part = starts[rows.start : rows.stop + 1] - first
            product = gathered_sums(columns[first:last], values[first:last], part, X).to(torch.float64)
            block = X[rows].to(torch.float64)
            if not self._loopless:
                product += block * beside(self.diagonal, rows)
            total += block.T @ product
        return np.asarray(host(total))

    @property
    def _loopless(self) -> bool:
        return isinstance(self.diagonal, float) and self.diagonal == 0.0

    def host(self) -> csr_array:
        """Copy H to the host."""
        n = len(self.starts) - 1
        entries = csr_array((host(self.values), host(self.indices), host(self.starts)), shape=(n, n))
        return entries if self._loopless else csr_array(entries + diags_array(spread(host(self.diagonal), n)))

    def degrees(self) -> torch.Tensor:
        """Row sums of H + H', bitwise reproducible, which scatter-add would not be."""
        by_column, order = self.indices.sort(stable=True)
        edges = torch.arange(len(self.starts), device=by_column.device)
        down = segment_sums(self.values[order], torch.searchsorted(by_column, edges))
        return segment_sums(self.values, self.starts) + down + 2.0 * self.diagonal


def half_on_device(place: Place, H: Sparse) -> DeviceHalf:
    """Copy a host matrix to the device."""
    starts, indices = (place.vector(part, torch.int64) for part in (H.indptr, H.indices))
    return DeviceHalf(starts, indices, place.vector(H.data), 0.0)


def segment_sums(values: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Sum of each segment of values; `starts` holds the start of each and, as its last entry, their end."""
    one = torch.ones((1, 1), dtype=values.dtype, device=values.device)
    return gathered_sums(torch.zeros_like(values, dtype=torch.int64), values, starts, one)[:, 0]


def gathered_sums(columns: torch.Tensor, values: torch.Tensor, starts: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
    """Weighted sums of rows of X: the product of a sparse and a dense matrix, deterministic on every device."""
    return embedding_bag(columns, X, starts, mode="sum", per_sample_weights=values, include_last_offset=True)


def cluster_sums(
    place: Place, Z: torch.Tensor, labels: IntVector, weights: torch.Tensor, n_clusters: int, center: FloatVector | None
) -> ClusterSums:
    """Sums, weights and extent of labelled rows in float64; a few columns at a time."""
    by_label, order = place.vector(labels, torch.int64).sort(stable=True)
    starts = torch.searchsorted(by_label, torch.arange(n_clusters + 1, device=place.device))
    parts = []
    for columns in row_blocks(Z.shape[1], max(1, place.tile_bytes // (8 * max(1, len(Z))))):
        part = Z[:, columns].to(torch.float64)
        if center is not None:
            part = part - place.vector(center[columns])
        sums = gathered_sums(order, weights[order], starts, part)
        parts.append((sums, weights @ part.square(), part.abs().max()))
    sums, squares, largest = zip(*parts, strict=True)
    sizes, extent = segment_sums(weights[order], starts), torch.stack(largest).max()
    return ClusterSums(host(torch.cat(sums, dim=1)), host(sizes), host(torch.cat(squares)), float(extent))


def distinct(place: Place, X: Tall, weights: Column) -> tuple[Tall, Column]:
    """Distinct rows of positive weight, in order of first appearance, and the total weight of each."""
    n = X.shape[0]
    for hashes in _row_hashes(place, X):
        ordered, order = hashes.sort(stable=True)
        again = pad(ordered[1:] == ordered[:-1], (1, 0))
        if not again.any():
            return _present(X, weights)
        starts = torch.nonzero(~again)[:, 0]
        group = (~again).cumsum(dim=0) - 1
        first = order[starts]  # the sort is stable, so each group begins with its first row
        if _all_equal(place, X, order[again], first[group[again]]):
            break
    totals = segment_sums(place.spread(weights, n)[order], pad(starts, (0, 1), value=n))
    first, appearance = first.sort()
    return _present(_picked(X, first), totals[appearance])


def _present(X: Tall, weights: Column) -> tuple[Tall, Column]:
    """Rows of positive weight, and their weights; the float 1.0 if all weights are 1."""
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
    """Yield independent hashes of all rows; a second one is needed once in 2^24 fits of a million rows."""
    rng = np.random.default_rng(0)  # the seed is arbitrary: a collision is detected and only costs time
    while True:
        factors = place.vector(rng.integers(1 << 62, size=X.shape[1]) * 2 + 1, torch.int64)
        yield torch.cat([_hash(place.rows(X, rows), factors) for rows in place.blocks(X, 2 * X.shape[1])])


def _hash(block: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    kind = torch.int32 if block.dtype == torch.float32 else torch.int64
    bits = (block + 0.0).view(kind).to(torch.int64)  # adding zero turns -0.0 into 0.0
    # Floats of integer value end in many zero bits; mixing moves the high bits down before the multiplication.
    bits = bits * 0x9E3779B97F4A7C1
    bits ^= bits >> 29
    return (bits * factors).sum(dim=1)


def _all_equal(place: Place, X: Tall, rows: torch.Tensor, others: torch.Tensor) -> bool:
    height = max(1, place.tile_bytes // (16 * max(1, X.shape[1])))
    return all(
        torch.equal(place.rows(_picked(X, rows[part])), place.rows(_picked(X, others[part])))
        for part in row_blocks(len(rows), height)
    )
