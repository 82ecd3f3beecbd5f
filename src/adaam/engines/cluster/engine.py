"""The cluster engine: row blocks on Dask workers; small matrices, columns and graphs on the client."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, Tall
from adaam.engines.cluster.rows import (
    ByRow,
    ClusterRows,
    LazyRows,
    between_all,
    first_equal,
    host_rows,
    lazy_rows,
    planned_sizes,
    projected,
)
from adaam.engines.cluster.workers import HOST, Workers, as_dask_array, connected, is_dask, mapped_array
from adaam.engines.cpu import CPUEngine
from adaam.engines.equal_rows import merged_weights
from adaam.engines.neighbors.graph import HostHalf, NeighborGraph
from adaam.engines.protocol import Clusters, ClusterSums, Half, Result
from adaam.linalg import eigh


class ClientHalf(HostHalf):
    """Half of an affinity on the client, which fetches rows to multiply with it."""

    def gram(self, X: Any) -> FloatMatrix:
        """Return X' H X, in float64."""
        return super().gram(gathered(X))


@dataclass(frozen=True, slots=True)
class DaskEngine:
    """Work on the workers of a Dask cluster; needs the extra `adaam[dask]`.

    A fit lets the workers read Dask arrays and DataFrames, and splits NumPy rows among them. For a Dask collection,
    `transform` and `predict` return a lazy Dask array; rows of this process are mapped in this process. All pairs of
    rows are processed in this process, to which prepared rows are sent; pairs within row blocks (`adaam.RowBlocks`) by
    the workers.

    Parameters
    ----------
    client : distributed.Client or str, default=None
        The client to use, or the address of a scheduler, such as "tcp://127.0.0.1:8786", to which one connection is
        kept; None means the current client.
    block_rows : int, default=None
        Rows of a block. None means two blocks for each thread of the workers, or more if blocks would be large, up to
        96 or two for each thread. Results agree to rounding.
    task_bytes : int, default=None
        Bytes of rows that a task may hold; None means 256 MiB, or a tenth of a worker's memory if that is less.
    in_flight : int, default=None
        Most tasks on row blocks that are running, or finished but not yet added up; None means three for each thread.
    starts : str, default="auto"
        Not used: the CPU engine runs k-means in this process. Kept for settings and model files of earlier versions.
    patience : float, default=60.0
        Seconds to wait for a worker when none is left, or when only paused ones have tasks.
    progress : bool, default=False
        Show how many tasks on row blocks are done, on standard error.
    kernels : {"auto", "numba", "numpy"}, default="auto"
        Implementation of passes over pairs of rows, here and on the workers: loops that numba compiles on first use
        (`pip install adaam[fast]`), or NumPy. "auto" is numba if it is installed and there are thousands of rows;
        results agree to rounding, also between workers with and without numba. Neighbours are always exact.
    """

    client: Any = None
    block_rows: int | None = None
    task_bytes: int | None = None
    in_flight: int | None = None
    starts: str = "auto"
    patience: float = 60.0
    progress: bool = False
    kernels: str = "auto"
    name: str = "dask"

    def own(self, X: Any, at_least: int | None = None) -> Any | None:
        """Return a Dask collection or rows on the workers, checked as far as possible without reading; else None."""
        if is_dask(X):
            return X if at_least is None else lazy_rows(X, at_least)  # whose blocks are checked when read
        return X if isinstance(X, ClusterRows | LazyRows) else None

    def each(self, work: Callable[[int], Result], items: Sequence[int]) -> Iterator[Result]:
        """Apply `work` to one item after the other: the workers share each one."""
        return map(work, items)

    def asarray(self, value: Any) -> Any:
        """Send rows to the workers, in row blocks; columns, graphs and halves stay on the client."""
        if isinstance(value, float | NeighborGraph | ClientHalf):
            return value
        if isinstance(value, HostHalf):
            return ClientHalf(value.matrix)
        if getattr(value, "ndim", 2) == 1:
            return np.asarray(self.to_host(as_dask_array(value)) if is_dask(value) else value, dtype=np.float64)
        return self._rows(value)

    def _rows(self, X: Tall) -> Tall:
        """Send rows to the workers, in row blocks."""
        if isinstance(X, ClusterRows):
            return X
        workers, (n, d) = self._workers(), X.shape
        sizes = planned_sizes(int(n), 8 * int(d), workers.n_threads, workers.task_bytes, self.block_rows)
        if not (isinstance(X, LazyRows) or is_dask(X)):
            return host_rows(X, sizes, workers)
        array = (X if isinstance(X, LazyRows) else lazy_rows(X, 1)).array
        parts = workers.blocks_of(array.rechunk((sizes, -1)))
        return ClusterRows(tuple(parts), sizes, int(d), np.dtype(array.dtype), workers)

    def to_host(self, value: Any, like: Any = None) -> Any:
        """Fetch rows or labels to the client; if `like` is a Dask collection, return a Dask array on the workers."""
        if is_dask(like) or isinstance(like, LazyRows):
            return value.dask() if isinstance(value, ClusterRows) else value
        if issparse(value):
            return value
        array = value.array if isinstance(value, LazyRows) else value
        return self._workers().computed(array) if is_dask(array) else np.asarray(array)

    def distinct(self, X: Tall, weights: Column) -> tuple[Tall, Column]:
        """Return the distinct rows of positive weight, in order of first appearance, and the total weight of each."""
        rows = self.asarray(X)
        kept, totals = merged_weights(first_equal(rows), weights)
        return rows if len(kept) == len(rows) else rows[kept], totals

    def row_norms(self, X: Tall) -> Column:
        """Euclidean length of each row, in float64 and safe from overflow; a lazy Dask array for lazy rows."""
        if isinstance(X, LazyRows):
            return mapped_array(X.array, HOST.row_norms, None, np.float64, "adaam-norms")
        return X.norms if isinstance(X, ClusterRows) else HOST.row_norms(X)

    def cross(self, A: Tall | None, B: Tall, weights: Column = 1.0) -> FloatMatrix:
        """Return the sum over rows of weight * a b', in float64; None stands for a column of ones."""
        if A is None:
            return np.asarray(self.asarray(B).total("weighted-sum", partial(HOST.cross, None), ByRow(weights)))
        rows = self.asarray(A)
        return np.asarray(rows.total("cross", HOST.cross, ByRow(rows if B is A else B), ByRow(weights)))

    def scatter(
        self, X: Tall, scale: Column, mean: FloatVector, weights: Column, *, between_rows: bool = False
    ) -> FloatMatrix:
        """Return the d x d sum over rows of weight * z z' with z = scale * x - mean, or n x n `between_rows`."""
        rows = self.asarray(X)
        if between_rows:
            # Few rows of very many columns: one task gathers all of them and returns only their products.
            task = rows.workers.call("row-scatter", between_all, list(rows.parts), scale, mean, weights)
            return np.asarray(rows.workers.fetch([task])[0])
        return np.asarray(rows.total("scatter", HOST.scatter, ByRow(scale), mean, ByRow(weights)))

    def project(self, X: Tall, scale: Column, mean: FloatVector, components: FloatMatrix) -> Any:
        """Return (scale * x - mean) @ components.T for each row, in the wider precision of X and components."""
        dtype = np.result_type(X.dtype, components.dtype)
        if isinstance(X, LazyRows):
            work = partial(projected, mean=mean, components=components)
            if isinstance(scale, float):
                return mapped_array(X.array, partial(work, scale=scale), len(components), dtype, "adaam-map")
            return mapped_array(X.array, work, len(components), dtype, "adaam-map", scale[:, None])
        if not isinstance(X, ClusterRows):
            return HOST.project(X, scale, mean, components)
        return X.with_parts(X.each("project", HOST.project, ByRow(scale), mean, components), len(components), dtype)

    def neighbor_graph(self, X: Tall, n_neighbors: int, weights: Column) -> NeighborGraph:
        """Return the nearest-neighbour graph, on the client; rows tied at the last place share it."""
        return client_engine(self).neighbor_graph(gathered(X), n_neighbors, weights)

    def eigh(self, A: FloatMatrix) -> tuple[FloatVector, FloatMatrix]:
        """All eigenpairs of a small symmetric matrix, values ascending."""
        return eigh(A)

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
        """Prune PP' to t entries; return the cut, the Laplacian and the row sums of what it keeps; on the client."""
        engine, rows = client_engine(self), gathered(X)
        return engine.cut_laplacian(gathered(P), t, rows, weights, diagonal, half, cut=cut)

    def kmeans(self, Z: Tall, n_clusters: int, n_init: int, seed: int, weights: Column) -> Clusters:
        """Best of `n_init` k-means++ runs by inertia; independent of the order of rows; on the client."""
        return client_engine(self).kmeans(gathered(Z), n_clusters, n_init, seed, weights)

    def nearest_known(self, Z: Tall, known: FloatMatrix, n_nearest: int) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the known points nearest to each row, nearest first; returned on the client."""
        if not isinstance(Z, ClusterRows):
            return HOST.nearest_known(Z, known, n_nearest)
        found = Z.workers.fetch(Z.each("nearest", HOST.nearest_known, known, n_nearest))
        return np.concatenate([part[0] for part in found]), np.concatenate([part[1] for part in found])

    def cluster_sums(
        self, Z: Tall, labels: Any, weights: Column, n_clusters: int, center: FloatVector | None = None
    ) -> ClusterSums:
        """Sums, weights and extent of labelled rows."""
        rows = self.asarray(Z)
        given = (ByRow(self.to_host(labels)), ByRow(weights), n_clusters, center)
        found = zip(*rows.workers.fetch(rows.each("cluster-sums", HOST.cluster_sums, *given)), strict=True)
        sums, counts, squares, largest = found
        return ClusterSums(np.sum(sums, axis=0), np.sum(counts, axis=0), np.sum(squares, axis=0), max(largest))

    def _workers(self) -> Workers:
        return connected(self.client, self.in_flight, self.patience, self.progress, self.task_bytes)

    def __deepcopy__(self, memo: Any) -> "DaskEngine":
        """Return the engine itself: it is immutable, and a client is one connection."""
        return self

    def __reduce__(self) -> Any:
        """Pickle an address, but not a client object: where it is unpickled, the current client is used."""
        client = self.client if isinstance(self.client, str) else None
        given = (client, self.block_rows, self.task_bytes, self.in_flight, self.starts, self.patience, self.progress)
        return DaskEngine, (*given, self.kernels)


def client_engine(engine: DaskEngine) -> CPUEngine:
    """Return the engine of this process, which processes all pairs of rows."""
    return CPUEngine(kernels=engine.kernels)


def gathered(X: Any) -> Any:
    """Rows in this process: those on workers are fetched."""
    return X.gathered if isinstance(X, ClusterRows) else X
