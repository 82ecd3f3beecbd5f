"""The GPU engine: exact, on one device, without storing n x n arrays; the same code runs on host tensors."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from importlib.util import find_spec
from typing import Any, Literal, ParamSpec, TypeVar, cast

import numpy as np
from scipy.sparse import issparse

from adaam._checks import check_word
from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, IntVector, Tall
from adaam.engines import equal_rows
from adaam.engines.neighbors.graph import HostHalf, NeighborGraph, neighborhoods, tie_tolerance
from adaam.engines.protocol import Clusters, ClusterSums, Graph, Half, Result, pruned_laplacian
from adaam.linalg import eigh

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
# From this many rows on, a fit of float32 rows works in float32 and on the tensor cores.
FAST_ROWS = 1 << 15
DEVICE_EIGH_SIZE = 128  # smaller eigenproblems are solved on the host, faster than they could be transferred


def verb(work: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Decorate a verb: run it on its device in full float32 precision, and explain out-of-memory errors."""

    @wraps(work)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
        engine, torch = cast(Any, args[0]), _torch()
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")  # float32 products are not rounded to tf32
        try:
            with engine._place().current():
                return work(*args, **kwargs)
        except Exception as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            raise MemoryError(engine._memory_message(work.__name__, args[1:], error)) from error
        finally:
            torch.set_float32_matmul_precision(before)

    return run


@dataclass(frozen=True, slots=True)
class GPUEngine:
    """Work on PyTorch tensors on one device; needs the extra `adaam[gpu]`.

    NumPy rows are copied to the device, or streamed to it in blocks if they do not fit. Tensors are moved to the device
    if they are elsewhere; of a tensor, `transform` returns a tensor on the same device.

    Parameters
    ----------
    device : str, default=None
        A PyTorch device such as "cuda:1"; None means the current CUDA device, and it is an error if there is none.
        "cpu" runs the same engine on host tensors.
    tile_bytes : int, default=256 MiB
        Memory for one temporary. Smaller values save memory and take longer; results agree to rounding.
    precision : {"fast", "full"}, default="fast"
        "fast": on CUDA, for 32,768 or more rows in float32, tensor cores with the 11 significant bits of tf32 are used
        if results stay within tolerance: to find neighbour candidates, whose exact distances are then computed and
        proven, and for the product of pruned entries and rows. The entries themselves and the cut have the precision
        of float32, all d x d sums that of float64. "full", fewer rows, or rows in float64: everything in float64.
    memory_bytes : int, default=None
        Device memory that a fit may use; None means 90 % of what is free.
    """

    device: str | None = None
    tile_bytes: int = 1 << 28
    precision: Literal["fast", "full"] = "fast"
    memory_bytes: int | None = None
    name: str = "gpu"

    def own(self, X: Any, at_least: int | None = None) -> Any | None:
        """Return X if it is a tensor, with `at_least` as checked rows on the device; None for anything else."""
        if not _is_tensor(X):
            return None
        return X if at_least is None else self._arrays().checked_rows(self._place(), X, at_least)

    def each(self, work: Callable[[int], Result], items: Sequence[int]) -> Iterator[Result]:
        """Apply `work` to one item after the other: a single one fills the device."""
        return map(work, items)

    @verb
    def asarray(self, value: Any) -> Any:
        """Copy a host value to the device; sparse rows, and rows that do not fit, stay on the host."""
        arrays = self._arrays()
        if isinstance(value, NeighborGraph):
            from adaam.engines.gpu.neighbors import on_device

            return on_device(self._place(), value)
        if isinstance(value, HostHalf | arrays.DeviceHalf):
            return arrays.half_on_device(self._place(), value.matrix) if isinstance(value, HostHalf) else value
        is_column = isinstance(value, float) or getattr(value, "ndim", 2) == 1
        return self._place().column(value) if is_column else self._rows(value)

    def _rows(self, X: Any) -> Any:
        """Copy dense host rows to the device if they fit."""
        if _is_tensor(X):
            return X if isinstance(X, self._arrays().DeviceRows) else self.own(X, 1)
        if issparse(X) or not self._fits(X):
            return X
        import torch

        arrays, place = self._arrays(), self._place()
        out = torch.empty(X.shape, dtype=arrays.TORCH_DTYPES[X.dtype], device=place.device)
        for rows in place.blocks(X):
            out[rows] = place.rows(X, rows)
        return arrays.DeviceRows(out)

    def to_host(self, value: Any, like: Any = None) -> Any:
        """Copy a tall array or a column to the host as NumPy; if `like` is a tensor, return a tensor on its device."""
        if _is_tensor(like):
            tensor = _torch().as_tensor(getattr(value, "tensor", value))
            return tensor.to(getattr(like, "device", tensor.device))
        if issparse(value):
            return value
        return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)

    @verb
    def distinct(self, X: Tall, weights: Column) -> tuple[Tall, Column]:
        """Return the distinct rows of positive weight, in order of first appearance, and the total weight of each."""
        place = self._place()
        if issparse(X):
            rows, totals = equal_rows.distinct(X, self.to_host(weights))
            return rows, place.column(totals)
        return cast(tuple[Tall, Column], self._arrays().distinct(place, X, place.column(weights)))

    @verb
    def row_norms(self, X: Tall) -> Column:
        """Euclidean length of each row, in float64 and safe from overflow."""
        return self._arrays().row_norms(self._place(), X)

    @verb
    def cross(self, A: Tall | None, B: Tall, weights: Column = 1.0) -> FloatMatrix:
        """Return the sum over rows of weight * a b', in float64; None stands for a column of ones."""
        place = self._place()
        return cast(FloatMatrix, self._arrays().cross(place, A, B, place.column(weights)))

    @verb
    def scatter(
        self, X: Tall, scale: Column, mean: FloatVector, weights: Column, *, between_rows: bool = False
    ) -> FloatMatrix:
        """Return the d x d sum over rows of weight * z z' with z = scale * x - mean, or n x n `between_rows`."""
        place, arrays = self._place(), self._arrays()
        columns = place.column(scale), mean, place.column(weights)
        return cast(FloatMatrix, (arrays.row_scatter if between_rows else arrays.scatter)(place, X, *columns))

    @verb
    def project(self, X: Tall, scale: Column, mean: FloatVector, components: FloatMatrix) -> Tall:
        """Return (scale * x - mean) @ components.T for each row, in the wider precision of X and components.

        From `FAST_ROWS` on, float32 rows stay float32 if the fused kernels run: errors of single entries average out
        over that many rows, while the last directions of a few thousand rows depend on differences that need float64.
        """
        place = self._place()
        many = X.dtype == np.float32 and X.shape[0] >= FAST_ROWS and self._fused(place)
        dtype = X.dtype if many else np.result_type(X.dtype, components.dtype)
        given = (place.column(scale), mean, components, np.dtype(dtype))
        return cast(Tall, self._arrays().project(place, X, *given))

    @verb
    def neighbor_graph(self, X: Tall, n_neighbors: int, weights: Column) -> Graph:
        """Return the nearest-neighbour graph, on the device; rows tied at the last place share it."""
        from adaam.engines.gpu import neighbors

        place, rows = self._place(), self._place().rows(X)
        tolerance = self.row_norms(X).square().mean().sqrt() * tie_tolerance(1.0, X.dtype)
        search = partial(neighbors.neighbors, place, rows, fused=self._fused(place))
        found = neighborhoods(search, place.column(weights), X.shape[0], n_neighbors, tolerance)
        return neighbors.DeviceGraph(*found, measured=True)

    @verb
    def eigh(self, A: FloatMatrix) -> tuple[FloatVector, FloatMatrix]:
        """All eigenpairs of a small symmetric matrix in float64, values ascending; tiny ones are solved on the host."""
        place = self._place()
        if len(A) < DEVICE_EIGH_SIZE or place.device.type == "cpu":
            return eigh(A)
        values, vectors = _torch().linalg.eigh(place.vector(A))
        return self.to_host(values), self.to_host(vectors)

    @verb
    def cut_laplacian(
        self,
        P: Tall,
        t: float,
        X: Tall,
        weights: Column,
        diagonal: Column,
        half: Half | None = None,
        *,
        cut: float | None = None,
    ) -> tuple[float, FloatMatrix, Column]:
        """Prune PP' to t entries; return the cut, the Laplacian and the row sums of what it keeps."""
        from adaam.engines.gpu import pruned

        place, n = self._place(), P.shape[0]
        counts = None if isinstance(weights, float) and weights == 1.0 else place.spread(weights, n)
        entries = place.rows(P), counts, place.spread(diagonal, n)
        cut, gram, degrees = pruned.cut_gram(place, *entries, t, cut, place.rows(X), fused=self._fused(place))
        return cut, pruned_laplacian(self, self.to_host(gram), degrees, X, half), degrees

    @verb
    def kmeans(self, Z: Tall, n_clusters: int, n_init: int, seed: int, weights: Column) -> Clusters:
        """Best of `n_init` k-means++ runs by inertia, all run as one batch.

        Rows are sorted by their coordinates, so that copies are adjacent, and runs continue until no label changes:
        neither the order of rows nor replacing a weight by copies changes the result.
        """
        from adaam.engines.gpu import kmeans

        place, n = self._place(), Z.shape[0]
        return kmeans.kmeans(place, place.rows(Z), place.spread(weights, n), n_clusters, n_init, seed)

    @verb
    def cluster_sums(
        self, Z: Tall, labels: IntVector, weights: Column, n_clusters: int, center: FloatVector | None = None
    ) -> ClusterSums:
        """Return the sums from which centres, sizes and spreads of clusters follow, in float64."""
        place = self._place()
        given = place.rows(Z), labels, place.spread(weights, Z.shape[0]), n_clusters, center
        return cast(ClusterSums, self._arrays().cluster_sums(place, *given))

    @verb
    def nearest_known(self, Z: Tall, known: FloatMatrix, n_nearest: int) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the known points nearest to each row, nearest first; on the host."""
        from adaam.engines.gpu import neighbors

        place, rows = self._place(), self._place().rows(Z)
        found = neighbors.nearest_known(place, rows, place.vector(known, rows.dtype), min(n_nearest, len(known)))
        return self.to_host(found[0]), self.to_host(found[1])

    def _place(self) -> Any:
        """Resolve the device; raise if it is not available, rather than fall back to another one."""
        torch = _torch()
        check_word("precision", self.precision, ("fast", "full"))
        device = torch.device("cuda" if self.device is None else self.device)
        if device.type == "cuda" and not torch.cuda.is_available():
            asked = 'engine="gpu"' if self.device is None else f"GPUEngine(device={self.device!r})"
            raise RuntimeError(
                f"{asked} needs a CUDA device, and PyTorch {torch.__version__} finds none. "
                'Use engine="cpu", or GPUEngine(device="cpu") to run the same engine on host tensors.'
            )
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        return self._arrays().Place(device, self.tile_bytes)

    def _fused(self, place: Any) -> bool:
        from adaam.engines.gpu import fused

        return self.precision == "fast" and fused.available(place.device)

    def _arrays(self) -> Any:
        _torch()
        from adaam.engines.gpu import arrays

        return arrays

    def _fits(self, X: Tall) -> bool:
        """Whether X is copied to the device; otherwise its blocks stream from the host."""
        available = self.memory_bytes
        if available is None:
            device = self._place().device
            if device.type != "cuda":
                return True
            available = 0.9 * _torch().cuda.mem_get_info(device)[0]
        n, d = X.shape
        # Half-precision copies, neighbour candidates and sums take less than the rows once more and 2 KiB per row.
        return 2 * n * d * X.dtype.itemsize + 6 * self.tile_bytes + 2048 * n <= available

    def _memory_message(self, verb: str, given: tuple[Any, ...], error: Exception) -> str:
        held = ", ".join(
            f"{tuple(a.shape)} ({a.nbytes} bytes)" for a in given if getattr(a, "ndim", 2) == 2 and hasattr(a, "nbytes")
        )
        reason = str(error).split(". If")[0]
        return (
            f'engine="gpu" ran out of device memory in {verb} of {held or "its rows"} with '
            f"tile_bytes={self.tile_bytes}: {reason}. Use GPUEngine(tile_bytes={self.tile_bytes // 4}), pass X as a "
            'NumPy array with a memory_bytes to keep to (its blocks then stream from the host), or use engine="cpu".'
        )


def _is_tensor(X: Any) -> bool:
    """Whether X is a tensor or rows on a device; does not import PyTorch."""
    if "torch" not in sys.modules:
        return False
    from adaam.engines.gpu.arrays import DeviceRows

    return isinstance(X, sys.modules["torch"].Tensor | DeviceRows)


def _torch() -> Any:
    """PyTorch, imported at first use."""
    if find_spec("torch") is None:
        raise ImportError('engine="gpu" needs PyTorch, which is not installed. Install it with: pip install adaam[gpu]')
    import torch

    return torch
