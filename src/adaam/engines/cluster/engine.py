"""The cluster engine: rows in blocks on Dask workers; what is small, or has few numbers a row, is on the client."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, issparse

from adaam._checks import check_word
from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, IntVector, Tall
from adaam.engines.cluster.plan import ClusterPlan, cluster_plan
from adaam.engines.cluster.rows import (
    ByRow,
    ClusterRows,
    LazyRows,
    between_all,
    dealt,
    first_equal,
    host_rows,
    lazy_rows,
    planned_sizes,
    projected,
)
from adaam.engines.cluster.workers import (
    HOST,
    TASK_BYTES,
    TASK_SHARE,
    Future,
    Workers,
    as_dask_array,
    connected,
    dask_array,
    is_dask,
    mapped_array,
)
from adaam.engines.compiled import uses_numba
from adaam.engines.equal_rows import merged_weights
from adaam.engines.neighbors.graph import HostHalf, NeighborGraph
from adaam.engines.neighbors.ties import measured_graph
from adaam.engines.protocol import Clusters, ClusterSums, Graph, Half, Result, pruned_laplacian
from adaam.engines.pruned.cut import exact_cut, kept_from
from adaam.linalg import eigh

if TYPE_CHECKING:
    from adaam.engines.cluster.pairs import TaskKernels

MOST_NUMBERS = 1 << 25  # coordinates of rows that come to the client for k-means++; beyond, k-means||


@dataclass(frozen=True, slots=True)
class DaskEngine:
    """Work on the workers of a Dask cluster; needs the extra `adaam[dask]`.

    Dask arrays and DataFrames are read by the workers, NumPy rows are split among them. What `transform` and `predict`
    return of a Dask collection is a lazy Dask array. Rows of this process that are mapped and not learned from are
    mapped here.

    Parameters
    ----------
    client : distributed.Client or str, default=None
        The client to work with, or the address of a scheduler, as "tcp://127.0.0.1:8786", to which one connection is
        kept; None means the current client.
    block_rows : int, default=None
        Rows of a block. None means two blocks for each thread of the workers, more where blocks would be large, and
        at most 96. Results agree to rounding.
    task_bytes : int, default=None
        Bytes of rows that a task may hold; None means 256 MiB, or a tenth of a worker's memory where that is less.
    in_flight : int, default=None
        Tasks of a pass over block pairs that may be under way or done and not yet added up; None means three for each
        thread and two more.
    starts : {"auto", "k-means++", "k-means||"}, default="auto"
        Starts of k-means. "k-means++" is the CPU engine's k-means, for which mapped rows come to this process;
        "k-means||" works on the workers. "auto" is the first for rows up to 256 MB.
    patience : float, default=60.0
        Seconds to wait for a worker when none is left, or none but paused ones have anything to do.
    progress : bool, default=False
        Show how far each pass over block pairs is, on standard error.
    kernels : {"auto", "numba", "numpy"}, default="auto"
        What runs the passes over block pairs on the workers: kernels that numba compiles on first use
        (`pip install adaam[fast]`, there and here), or NumPy. "auto" is numba where this process and the worker have it
        and there are thousands of rows; results agree to rounding, as those of workers with and without it do.
        Neighbours are exact always.
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

    def plan(
        self,
        shape: tuple[int, int],
        n_clusters: int = 8,
        *,
        workers: int | None = None,
        memory: float | None = None,
        threads: int | None = None,
        itemsize: int = 8,
        row_blocks: tuple[int, int] | None = None,
    ) -> ClusterPlan:
        """Tell what a fit of rows of this shape costs, on the client's workers or on so many of so much memory each."""
        if workers is None:
            at = self._workers()
            given = (at.n_workers(), at.n_threads, at.task_bytes)
        else:
            task_bytes = int(min(TASK_BYTES, (memory or np.inf) / TASK_SHARE))
            given = (workers, threads or workers, task_bytes if self.task_bytes is None else self.task_bytes)
        return cluster_plan(shape, n_clusters, *given, self.block_rows, itemsize, row_blocks)

    def accepts(self, X: Any) -> bool:
        """Whether X is a Dask collection, or rows on the workers."""
        return is_dask(X) or isinstance(X, ClusterRows | LazyRows)

    def check_rows(self, X: Any, at_least: int) -> Any:
        """Check a Dask array or DataFrame, as far as can be told without reading it; blocks are checked when read."""
        return X if isinstance(X, ClusterRows | LazyRows) else lazy_rows(X, at_least)

    def each(self, work: Callable[[int], Result], items: Sequence[int]) -> Iterator[Result]:
        """Do work for each item in turn: the workers share each one."""
        return map(work, items)

    def asarray(self, value: Any) -> Any:
        """Bring rows to the workers, in row blocks; what has few numbers a row stays on the client."""
        from adaam.engines.cluster.pairs import ClientHalf

        if isinstance(value, float | NeighborGraph | ClientHalf):
            return value
        if isinstance(value, HostHalf):
            return ClientHalf(csr_array(value.matrix))
        if getattr(value, "ndim", 2) == 1:
            return np.asarray(self.to_host(as_dask_array(value)) if is_dask(value) else value, dtype=np.float64)
        return self._rows(value)

    def _rows(self, X: Tall) -> Tall:
        """Bring rows to the workers, in row blocks."""
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
        """Bring rows or labels to the client; as a Dask array, on the workers, if `like` is a Dask collection."""
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
        """Euclidean length of each row, in float64 and safe from overflow; of lazy rows a lazy Dask array."""
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
            # Few rows of very many columns: all of them meet in one task, which sends their products alone.
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

    def neighbors(self, X: Tall, n_neighbors: int, rows: IntVector | None = None) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the nearest others of each row, or of chosen rows, nearest first; on the client."""
        from adaam.engines.cluster import pairs

        found = self.asarray(X)
        if n_neighbors == 0:
            n = len(found) if rows is None else len(rows)
            return np.empty((n, 0), np.intp), np.empty((n, 0))
        if rows is not None:
            return pairs.nearest_of(found, np.asarray(rows), n_neighbors)
        return pairs.nearest_others(found, n_neighbors, self.task_kernels(len(found)))

    def neighbor_graph(self, X: Tall, n_neighbors: int, weights: Column) -> Graph:
        """Return the graph of nearest others, rows tied at the last place sharing it; on the client."""
        rows = self.asarray(X)
        return measured_graph(partial(self.neighbors, rows), rows.norms, weights, n_neighbors, rows.dtype)

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
        """Prune PP' to t entries; return the cut, the Laplacian and the row sums of what it keeps."""
        from adaam.engines.cluster.pairs import PrunedPairs

        factor = self.asarray(P)
        rows = factor if X is P else self.asarray(X)
        pairs = PrunedPairs(factor, rows, weights, diagonal, self.task_kernels(len(rows)))
        if cut is None:
            cut = exact_cut(pairs, t)
        gram, degrees = pairs.sums(kept_from(cut, factor.dtype))
        links = None if half is None else self.asarray(half)
        return cut, pruned_laplacian(self, gram, degrees, rows, links), degrees

    def kmeans(self, Z: Tall, n_clusters: int, n_init: int, seed: int, weights: Column) -> Clusters:
        """Best of `n_init` runs by inertia; independent of the order of rows; labels are on the client."""
        from adaam.engines.cluster.kmeans import parallel_kmeans

        check_word("starts", self.starts, ("auto", "k-means++", "k-means||"))
        rows = self.asarray(Z)
        if self.starts == "k-means++" or (self.starts == "auto" and len(rows) * rows.n_columns <= MOST_NUMBERS):
            return HOST.kmeans(np.asarray(rows), n_clusters, n_init, seed, weights)
        centers, inertia = parallel_kmeans(rows, n_clusters, n_init, seed, weights)
        return Clusters(centers, self.nearest(rows, centers), inertia)

    def nearest(self, Z: Tall, centers: FloatMatrix) -> Any:
        """Index of the nearest centre of each row, the first one on a tie; lazy for a Dask array."""
        if is_dask(Z):
            return self.row_labels(Z, partial(HOST.nearest, centers=centers))
        return Z.column("nearest", HOST.nearest, centers) if isinstance(Z, ClusterRows) else HOST.nearest(Z, centers)

    def nearest_known(self, Z: Tall, known: FloatMatrix, n_nearest: int) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the nearest known points of host rows; blocks on workers ask by `row_labels`."""
        return HOST.nearest_known(Z, known, n_nearest)

    def row_labels(self, Z: Any, work: Callable[[Any], IntVector]) -> Any:
        """Label that `work` gives each row of a block: a Dask array, lazy where Z is one."""
        if is_dask(Z):
            return mapped_array(Z, work, None, np.intp, "adaam-predict")
        return dask_array(Z.each("labels", work), [(size,) for size in Z.sizes], np.intp)

    def cluster_sums(self, Z: Tall, labels: Any, weights: Column, n_clusters: int) -> ClusterSums:
        """Sums, weights and extent of labelled rows."""
        rows = self.asarray(Z)
        given = (ByRow(self.to_host(labels)), ByRow(weights), n_clusters)
        found = zip(*rows.workers.fetch(rows.each("cluster-sums", HOST.cluster_sums, *given)), strict=True)
        sums, counts, squares, largest = found
        return ClusterSums(np.sum(sums, axis=0), np.sum(counts, axis=0), np.sum(squares, axis=0), max(largest))

    def dealt(
        self, X: Tall, weights: Column, places: Callable[[IntVector], IntVector], edges: tuple[int, ...]
    ) -> list[Future]:
        """Send rows to groups by the places that their numbers have."""
        return dealt(self.asarray(X), weights, places, edges)

    def group_results(
        self, groups: Sequence[Future], work: Callable[..., Any], own: Sequence[Any], given: Any
    ) -> Iterator[Any]:
        """What `work` makes of each group of `dealt` rows, an argument of its own and one of all, in order and here."""
        workers = self._workers()
        shared = workers.share("shared", given)
        tasks = (workers.call("row-blocks", work, group, mine, shared) for group, mine in zip(groups, own, strict=True))
        for done in workers.in_turn("row-blocks", tasks, len(groups)):
            yield workers.fetch([done])[0]

    def task_kernels(self, n_rows: int) -> "TaskKernels":
        """Decide the kernels of tasks on so many rows, the same for all workers."""
        from adaam.engines.cluster.pairs import TaskKernels

        return TaskKernels(self.kernels if uses_numba(self.kernels, n_rows) else "numpy", n_rows)

    def _workers(self) -> Workers:
        return connected(self.client, self.in_flight, self.patience, self.progress, self.task_bytes)

    def __deepcopy__(self, memo: Any) -> "DaskEngine":
        """Return the engine itself: it is fixed, and a client is one connection."""
        return self

    def __reduce__(self) -> Any:
        """Leave the client behind, but not an address: elsewhere the current one is used."""
        client = self.client if isinstance(self.client, str) else None
        given = (client, self.block_rows, self.task_bytes, self.in_flight, self.starts, self.patience, self.progress)
        return DaskEngine, (*given, self.kernels)
