"""The GPU engine: rows and tiles on one device, exact, nothing n x n; the same code runs on host tensors."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from importlib.util import find_spec
from typing import Any, Literal, ParamSpec, TypeVar, cast

import numpy as np
from scipy.sparse import issparse

from adaam._checks import check_word
from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, IntVector, Tall
from adaam.engines import equal_rows
from adaam.engines.neighbors.graph import HostHalf, NeighborGraph
from adaam.engines.neighbors.ties import neighborhoods, tie_tolerance
from adaam.engines.protocol import Clusters, ClusterSums, Graph, Half, Result, pruned_laplacian
from adaam.engines.pruned.cut import exact_cut, kept_from
from adaam.linalg import eigh

Given = ParamSpec("Given")
Returned = TypeVar("Returned")
# From this many rows on, a fit of float32 rows works in float32 and on the tensor cores.
FAST_ROWS = 1 << 15
DEVICE_EIGH_SIZE = 128  # smaller eigenproblems are solved sooner than sent


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where the rows of a fit live and what they take there, in bytes."""

    rows_bytes: int
    prepared_bytes: int
    work_bytes: int
    available_bytes: float

    @property
    def rows_on_device(self) -> bool:
        """Whether X is copied to the device; otherwise its blocks stream from the host."""
        return self.rows_bytes + self.prepared_bytes + self.work_bytes <= self.available_bytes

    def __str__(self) -> str:
        where = "on the device" if self.rows_on_device else "streamed from the host in blocks"
        return (
            f"rows {where} ({_mib(self.rows_bytes)}), prepared rows at most {_mib(self.prepared_bytes)}, "
            f"temporaries about {_mib(self.work_bytes)}, of {_mib(self.available_bytes)} available"
        )


def _mib(n_bytes: float) -> str:
    return "unlimited" if n_bytes == np.inf else f"{n_bytes / 2**20:.0f} MiB"


def verb(work: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Run a verb on its device in full float32 precision; for want of memory, name the number and the remedy."""

    @wraps(work)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
        engine = cast(Any, args[0])
        try:
            with _full_precision(engine._place().device):
                return work(*args, **kwargs)
        except Exception as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            raise MemoryError(engine._memory_message(work.__name__, args[1:], error)) from error

    return run


@contextmanager
def _full_precision(device: Any) -> Iterator[None]:
    """Work on a device without rounding float32 products to tf32, whatever the caller has set."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
            yield
    finally:
        torch.set_float32_matmul_precision(before)


@dataclass(frozen=True, slots=True)
class GPUEngine:
    """Work on PyTorch tensors on one device; needs the extra `adaam[gpu]`.

    NumPy rows are copied to the device, or streamed to it in blocks where they do not fit. Tensors are taken where they
    are, and what `transform` returns stays there.

    Parameters
    ----------
    device : str, default=None
        A PyTorch device such as "cuda:1"; None means the current CUDA device, and it is an error if there is none.
        "cpu" runs the same engine on host tensors.
    tile_bytes : int, default=256 MiB
        Memory for one temporary. Smaller means slower and leaner; results agree to rounding.
    precision : {"fast", "full"}, default="fast"
        "fast": on CUDA, 32,768 or more rows in float32 pass the tensor cores with the 11 bits of tf32 where results
        stay within tolerance: to find candidates of the neighbour search, which are then measured in full and proven,
        and as the rows that pruned entries are multiplied with. The entries themselves and the cut have the precision
        of float32, all d x d sums that of float64. "full", fewer rows, or rows in float64: everything in float64.
    memory_bytes : int, default=None
        Device memory a fit may plan with; None means what is free.
    """

    device: str | None = None
    tile_bytes: int = 1 << 28
    precision: Literal["fast", "full"] = "fast"
    memory_bytes: int | None = None
    name: str = "gpu"

    def plan(self, shape: tuple[int, int], itemsize: int = 4) -> MemoryPlan:
        """Tell where the rows of a fit of this shape would live."""
        rows_bytes = shape[0] * shape[1] * itemsize
        # Half-precision copies, candidates of neighbours and sums take less than the rows again at 2 KiB a row.
        return MemoryPlan(rows_bytes, rows_bytes, 6 * self.tile_bytes + 2048 * shape[0], self._available_bytes())

    def accepts(self, X: Any) -> bool:
        """Whether X is a tensor."""
        if find_spec("torch") is None:
            return False
        import torch

        return isinstance(X, torch.Tensor | self._arrays().DeviceRows)

    def check_rows(self, X: Any, at_least: int) -> Tall:
        """Check a tensor of rows and wrap it; whole numbers become float64."""
        import torch

        arrays = self._arrays()
        tensor = X.tensor if isinstance(X, arrays.DeviceRows) else X.detach()
        if tensor.ndim != 2:
            raise ValueError(
                f"X is a tensor of {tensor.ndim} dimension(s); pass one row a sample, one column a feature."
            )
        if tensor.shape[0] < at_least or tensor.shape[1] < 1:
            raise ValueError(f"X has shape {tuple(tensor.shape)}; at least {at_least} row(s) and 1 feature are needed.")
        if tensor.is_complex():
            raise ValueError("X is a complex tensor, and complex data is not supported.")
        if tensor.dtype not in arrays.NUMPY_DTYPES:
            tensor = tensor.to(torch.float32 if tensor.dtype in (torch.float16, torch.bfloat16) else torch.float64)
        place = self._place()
        if tensor.device != place.device:
            tensor = tensor.to(place.device)
        # A sum is finite only if every term is, but for overflow, which a second look rules out.
        if not torch.isfinite(tensor.sum(dtype=torch.float64)) and not torch.isfinite(tensor).all():
            raise ValueError("X contains NaN or infinity. Remove or impute such rows first.")
        return cast(Tall, arrays.DeviceRows(tensor))

    @verb
    def each(self, work: Callable[[int], Result], items: Sequence[int]) -> Iterator[Result]:
        """Do work for each item in turn: one is enough to fill the device."""
        return map(work, items)

    @verb
    def asarray(self, value: Any) -> Any:
        """Copy a host value to the device; sparse rows, and those that do not fit, stay."""
        arrays = self._arrays()
        if isinstance(value, NeighborGraph):
            from adaam.engines.gpu.neighbors import on_device

            return on_device(self._place(), value)
        if isinstance(value, HostHalf | arrays.DeviceHalf):
            return arrays.half_on_device(self._place(), value.matrix) if isinstance(value, HostHalf) else value
        is_column = isinstance(value, float) or getattr(value, "ndim", 2) == 1
        return self._place().column(value) if is_column else self._rows(value)

    def _rows(self, X: Any) -> Any:
        """Copy dense host rows to the device where they fit."""
        if self.accepts(X):
            return X if isinstance(X, self._arrays().DeviceRows) else self.check_rows(X, 1)
        if issparse(X) or not self.plan(X.shape, X.dtype.itemsize).rows_on_device:
            return X
        import torch

        arrays, place = self._arrays(), self._place()
        out = torch.empty(X.shape, dtype=arrays.TORCH_DTYPES[X.dtype], device=place.device)
        for rows in place.blocks(X):
            out[rows] = place.rows(X, rows)
        return arrays.DeviceRows(out)

    def to_host(self, value: Any, like: Any = None) -> Any:
        """Bring a tall array or a column to the host as NumPy; as a tensor, where it is, if `like` is one."""
        if like is not None and self.accepts(like):
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

        Many float32 rows stay float32 where the fused kernels take them on: errors of single entries then average out,
        while a few thousand rows decide their last directions by entries that only float64 tells apart.
        """
        place = self._place()
        many = X.dtype == np.float32 and X.shape[0] >= FAST_ROWS and self._fused(place)
        dtype = X.dtype if many else np.result_type(X.dtype, components.dtype)
        given = (place.column(scale), mean, components, np.dtype(dtype))
        return cast(Tall, self._arrays().project(place, X, *given))

    @verb
    def neighbors(self, X: Tall, n_neighbors: int, rows: IntVector | None = None) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the nearest others of each row, or of chosen rows, nearest first; on the host."""
        from adaam.engines.gpu import neighbors

        place = self._place()
        chosen = None if rows is None else place.vector(rows, _torch().int64)
        found = neighbors.neighbors(place, self._dense(X), n_neighbors, chosen, fused=self._fused(place))
        # 32 bits name a row of any sample that fits on a device, in half the bytes to move.
        return self.to_host(found[0].int()), self.to_host(found[1])

    @verb
    def neighbor_graph(self, X: Tall, n_neighbors: int, weights: Column) -> Graph:
        """Return the graph of nearest others, rows tied at the last place sharing it; it stays on the device."""
        from adaam.engines.gpu import neighbors

        place, rows = self._place(), self._dense(X)
        tolerance = self.row_norms(X).square().mean().sqrt() * tie_tolerance(1.0, X.dtype)

        def search(width: int, chosen: Any) -> Any:
            return neighbors.neighbors(place, rows, width, chosen, fused=self._fused(place))

        found = neighborhoods(search, place.column(weights), X.shape[0], n_neighbors, tolerance)
        return neighbors.DeviceGraph(*found, measured=True)

    @verb
    def eigh(self, A: FloatMatrix) -> tuple[FloatVector, FloatMatrix]:
        """All eigenpairs of a small symmetric matrix in float64, values ascending; tiny ones stay on the host."""
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
        from adaam.engines.gpu import fused, pruned

        pairs, rows = self._pairs(P, weights), self._dense(X)
        if cut is None:
            cut = exact_cut(pruned.DeviceEntries(pairs, self._vector(diagonal, P)), t) * float(pairs.unit)
        threshold = kept_from(cut, P.dtype)
        if isinstance(pairs, fused.FusedPairs) and fused.holds_range(pairs, threshold):
            gram, degrees = fused.pruned_gram(pairs, threshold, rows)
        else:
            gram, degrees = pruned.pruned_gram(self._tile_pairs(P, weights), threshold, rows)
        return cut, pruned_laplacian(self, self.to_host(gram), degrees, X, half), degrees

    @verb
    def kmeans(self, Z: Tall, n_clusters: int, n_init: int, seed: int, weights: Column) -> Clusters:
        """Best of `n_init` k-means++ runs by inertia, all run as one batch.

        Rows enter in the order of their coordinates, copies side by side, and runs go on until no label changes: so
        neither the order of rows nor writing a weight as copies moves the result.
        """
        from adaam.engines.gpu import kmeans

        place, rows = self._place(), self._dense(Z)
        counts = self._vector(weights, Z)
        present = _torch().nonzero(counts)[:, 0]
        if len(present) < n_clusters:
            raise ValueError(f"n_clusters={n_clusters} exceeds the {len(present)} rows of positive weight.")
        chosen = present[kmeans.coordinate_order(rows[present])]
        runs = kmeans.kmeans_runs(place, rows[chosen], counts[chosen], n_clusters, n_init, [seed])
        best = int(runs.inertia.argmin())
        labels = kmeans.nearest(place, rows, runs.centers[best][None])[:, 0]
        centers = self.to_host(runs.centers[best])
        return Clusters(centers, self.to_host(labels.contiguous()), float(runs.inertia[best]))

    @verb
    def cluster_sums(self, Z: Tall, labels: IntVector, weights: Column, n_clusters: int) -> ClusterSums:
        """Return what centres, sizes and inertia of a partition follow from, in float64."""
        arrays, place, rows = self._arrays(), self._place(), self._dense(Z).to(_torch().float64)
        held = self._vector(weights, Z)
        by_label, order = place.vector(labels, _torch().int64).sort(stable=True)
        starts = _torch().searchsorted(by_label, _torch().arange(n_clusters + 1, device=place.device))
        sums = arrays.gathered_sums(order, held[order], starts, rows)
        squares = arrays.segment_sums((held * rows.square().sum(dim=1))[order], starts)
        sizes = arrays.segment_sums(held[order], starts)
        return ClusterSums(self.to_host(sums), self.to_host(sizes), self.to_host(squares), float(rows.abs().max()))

    @verb
    def nearest_known(self, Z: Tall, known: FloatMatrix, n_nearest: int) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the nearest of some known points of each row, nearest first; on the host."""
        from adaam.engines.gpu import neighbors

        place, rows = self._place(), self._dense(Z)
        found = neighbors.nearest_known(place, rows, place.vector(known, rows.dtype), min(n_nearest, len(known)))
        return self.to_host(found[0]), self.to_host(found[1])

    @verb
    def nearest(self, Z: Tall, centers: FloatMatrix) -> IntVector:
        """Index of the nearest centre of each row, the first one on a tie."""
        from adaam.engines.gpu import kmeans

        place, rows = self._place(), self._dense(Z)
        labels = kmeans.nearest(place, rows, place.vector(centers, rows.dtype)[None])[:, 0]
        return cast(IntVector, self.to_host(labels.contiguous()))

    def _place(self) -> Any:
        """Return the device, resolved: the engine that was asked for is the one that runs."""
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

    def _dense(self, X: Tall) -> Any:
        """All rows as a tensor on the device."""
        return self._place().rows(X, slice(None))

    def _fused(self, place: Any) -> bool:
        from adaam.engines.gpu import fused

        return self.precision == "fast" and fused.available(place.device)

    def _pairs(self, P: Tall, weights: Column) -> Any:
        """Entries of PP': from the fused kernels where they apply, else from tiles."""
        from adaam.engines.gpu import fused

        place = self._place()
        if P.dtype == np.float32 and self._fused(place):
            pairs = fused.fused_pairs(self._dense(P), self._multiplicities(weights, P))
            if pairs is not None:
                return pairs
        return self._tile_pairs(P, weights)

    def _tile_pairs(self, P: Tall, weights: Column) -> Any:
        from adaam.engines.gpu.pruned import TilePairs

        tile_rows = max(64, int(np.sqrt(self.tile_bytes / P.dtype.itemsize)) // 64 * 64)
        return TilePairs(self._dense(P), self._multiplicities(weights, P), tile_rows)

    def _multiplicities(self, weights: Column, P: Tall) -> Any:
        """Weights on the device, None where all are 1."""
        return None if isinstance(weights, float) and weights == 1.0 else self._vector(weights, P)

    def _vector(self, column: Column, X: Tall) -> Any:
        """Column as a tensor, also where all rows of X have the same number."""
        place = self._place()
        if isinstance(column, float):
            return _torch().full((X.shape[0],), column, dtype=_torch().float64, device=place.device)
        return place.column(column)

    def _arrays(self) -> Any:
        _torch()
        from adaam.engines.gpu import arrays

        return arrays

    def _available_bytes(self) -> float:
        if self.memory_bytes is not None:
            return self.memory_bytes
        device = self._place().device
        return 0.9 * _torch().cuda.mem_get_info(device)[0] if device.type == "cuda" else np.inf

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


def _torch() -> Any:
    """PyTorch, imported at first use."""
    if find_spec("torch") is None:
        raise ImportError('engine="gpu" needs PyTorch, which is not installed. Install it with: pip install adaam[gpu]')
    import torch

    return torch
