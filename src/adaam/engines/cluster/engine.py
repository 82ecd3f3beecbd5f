"""The cluster engine: rows in blocks on Dask workers, exact, small matrices alone travel to the client."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, issparse

from adaam._checks import check_word
from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, IntVector, Sparse, Tall
from adaam.engines.cluster.plan import ClusterPlan, cluster_plan
from adaam.engines.cluster.workers import (
    TASK_BYTES,
    TASK_SHARE,
    Workers,
    as_dask_array,
    connected,
    dask_array,
    is_dask,
    mapped_array,
)
from adaam.engines.neighbors.graph import NeighborGraph
from adaam.engines.neighbors.ties import tie_tolerance
from adaam.engines.protocol import Clusters, ClusterSums, Graph, Half, Result, pruned_laplacian
from adaam.engines.pruned.cut import kept_from
from adaam.linalg import eigh

if TYPE_CHECKING:
    from adaam.engines.cluster.rows import ClusterColumn, ClusterRows
    from adaam.engines.cluster.shuffle import Groups
    from adaam.engines.cluster.tasks import TaskKernels


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
            given = (at.n_workers(), at.n_threads(), at.task_bytes())
        else:
            task_bytes = int(min(TASK_BYTES, (memory or np.inf) / TASK_SHARE))
            given = (workers, threads or workers, task_bytes if self.task_bytes is None else self.task_bytes)
        return cluster_plan(shape, n_clusters, *given, self.block_rows, itemsize, row_blocks)

    def accepts(self, X: Any) -> bool:
        """Whether X is a Dask collection, or rows on the workers."""
        from adaam.engines.cluster import lazy
        from adaam.engines.cluster.rows import ClusterColumn, ClusterRows

        return is_dask(X) or isinstance(X, ClusterRows | ClusterColumn | lazy.LazyRows)

    def check_rows(self, X: Any, at_least: int) -> Tall:
        """Check a Dask array or DataFrame, as far as can be told without reading it; blocks are checked when read."""
        from adaam.engines.cluster import lazy
        from adaam.engines.cluster.rows import ClusterRows

        return X if isinstance(X, ClusterRows | lazy.LazyRows) else lazy.lazy_rows(X, at_least)

    def like(self, Z: Tall, X: Any) -> Any:
        """Return Z as the kind of array that X is: a Dask array for a Dask collection, else NumPy."""
        from adaam.engines.cluster import lazy
        from adaam.engines.cluster.rows import ClusterColumn, ClusterRows

        if not (is_dask(X) or isinstance(X, lazy.LazyRows)):
            return self.to_host(Z)
        if isinstance(Z, ClusterRows):
            return Z.dask()
        if isinstance(Z, ClusterColumn):
            return dask_array(Z.parts, [(size,) for size in Z.sizes], Z.dtype)
        return Z

    def each(self, work: Callable[[int], Result], items: Sequence[int]) -> Iterator[Result]:
        """Do work for each item in turn: the workers share each one."""
        return map(work, items)

    def asarray(self, X: Tall) -> Tall:
        """Bring rows to the workers, in row blocks."""
        from adaam.engines.cluster import lazy
        from adaam.engines.cluster.rows import ClusterRows, host_rows

        if isinstance(X, ClusterRows):
            return X
        workers = self._workers()
        sizes = self._sizes(X, workers)
        if not (isinstance(X, lazy.LazyRows) or is_dask(X)):
            return host_rows(X, sizes, workers)
        array = (X if isinstance(X, lazy.LazyRows) else lazy.lazy_rows(X, 1)).array
        blocks = workers.blocks_of(array.rechunk((sizes, -1)))
        parts = tuple(workers.call("rows", lazy.finite, block) for block in blocks)
        return ClusterRows(parts, sizes, int(array.shape[1]), np.dtype(array.dtype), workers)

    def column(self, values: Any) -> Column:
        """Return a float itself, numbers on the workers as a column, others as a vector that is split when used."""
        from adaam.engines.cluster.rows import ClusterColumn

        if isinstance(values, float | ClusterColumn):
            return values
        if not is_dask(values):
            return np.asarray(values, dtype=np.float64)
        array = as_dask_array(values).astype(np.float64)
        workers = self._workers()
        return ClusterColumn(tuple(workers.blocks_of(array)), tuple(map(int, array.chunks[0])), workers)

    def to_host(self, value: Any) -> Any:
        """Bring rows, a column or a half affinity to the client."""
        from adaam.engines.cluster import lazy
        from adaam.engines.cluster.graph import ClusterHalf

        if issparse(value):
            return value
        if isinstance(value, ClusterHalf):
            return value.host()
        if isinstance(value, lazy.LazyRows):
            value = value.array
        return value.compute() if is_dask(value) else np.asarray(value)

    def distinct(self, X: Tall, weights: Column) -> tuple[Tall, Column]:
        """Return the distinct rows of positive weight, in order of first appearance, and the total weight of each."""
        from adaam.engines.cluster import shuffle

        return shuffle.distinct(self.asarray(X), weights)

    def row_norms(self, X: Tall) -> Column:
        """Euclidean length of each row, in float64 and safe from overflow."""
        from adaam.engines.cluster import lazy
        from adaam.engines.cluster.rows import HOST, ClusterRows

        if isinstance(X, lazy.LazyRows):
            return lazy.lazy_norms(X.array)
        return X.norms() if isinstance(X, ClusterRows) else HOST.row_norms(X)

    def cross(self, A: Tall | None, B: Tall, weights: Column = 1.0) -> FloatMatrix:
        """Return the sum over rows of weight * a b', in float64; None stands for a column of ones."""
        from adaam.engines.cluster.rows import beside, block_cross, block_sum

        if A is None:
            return np.asarray(self.asarray(B).total("weighted-sum", block_sum, weights))
        rows = self.asarray(A)
        return np.asarray(rows.total("cross", block_cross, rows if B is A else beside(rows, B), weights))

    def scatter(
        self, X: Tall, scale: Column, mean: FloatVector, weights: Column, *, between_rows: bool = False
    ) -> FloatMatrix:
        """Return the d x d sum over rows of weight * z z' with z = scale * x - mean, or n x n `between_rows`."""
        from adaam.engines.cluster.rows import Fixed, block_scatter, centred, row_products

        if between_rows:
            # Few rows of very many columns: all of them meet in one task, which sends their products alone.
            rows = self.asarray(X)
            blocks = rows.each("centred", centred, scale, weights, Fixed(mean))
            products = rows.workers.fetch([rows.workers.call("row-scatter", row_products, blocks)])
            return np.asarray(products[0])
        return np.asarray(self.asarray(X).total("scatter", block_scatter, scale, weights, Fixed(mean)))

    def project(self, X: Tall, scale: Column, mean: FloatVector, components: FloatMatrix) -> Tall:
        """Return (scale * x - mean) @ components.T for each row, in the wider precision of X and components."""
        from adaam.engines.cluster import lazy
        from adaam.engines.cluster.rows import HOST, ClusterRows, Fixed, block_project

        if isinstance(X, lazy.LazyRows):
            return lazy.lazy_project(X.array, scale, mean, components)
        if not isinstance(X, ClusterRows):
            return HOST.project(X, scale, mean, components)
        parts = X.each("project", block_project, scale, Fixed(mean), Fixed(components))
        return X.with_parts(parts, len(components), np.result_type(X.dtype, components.dtype))

    def neighbors(self, X: Tall, n_neighbors: int, rows: IntVector | None = None) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the nearest others of each row, or of chosen rows, nearest first; on the client."""
        from adaam.engines.cluster import neighbors

        found = self.asarray(X)
        given = (n_neighbors, 1.0, found.workers.task_bytes())
        if rows is None:
            tables = found.workers.fetch(neighbors.nearest_tables(found, *given, self.task_kernels(len(found))))
            return np.concatenate([t.others for t in tables]), np.sqrt(np.concatenate([t.squares for t in tables]))
        return neighbors.tables_of(found, np.asarray(rows), *given)

    def neighbor_graph(self, X: Tall, n_neighbors: int, weights: Column) -> Graph:
        """Return the graph of nearest others, rows tied at the last place sharing it; it stays on the workers."""
        from adaam.engines.cluster import neighbors

        rows = self.asarray(X)
        length = float(np.sqrt(sum(found.square for found in rows.workers.fetch(rows.lengths())) / len(rows)))
        given = (tie_tolerance(length, rows.dtype), rows.workers.task_bytes(), self.task_kernels(len(rows)))
        return neighbors.neighbor_graph(rows, n_neighbors, weights, *given)

    def asgraph(self, graph: NeighborGraph) -> Graph:
        """Return the graph itself: what it is made into is split when it meets rows."""
        return graph

    def eigh(self, A: FloatMatrix) -> tuple[FloatVector, FloatMatrix]:
        """All eigenpairs of a small symmetric matrix, values ascending."""
        return eigh(A)

    def ashalf(self, half: Sparse | Half) -> Half:
        """Return a half affinity on the workers itself; entries of the client's are split when they meet rows."""
        from adaam.engines.cluster.graph import ClientHalf, ClusterHalf

        if isinstance(half, ClusterHalf):
            return half
        return ClientHalf(csr_array(half if issparse(half) else half.host()))

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
        from adaam.engines.cluster import pruned
        from adaam.engines.cluster.rows import beside

        factor = self.asarray(P)
        rows = factor if X is P else beside(factor, X)
        given = (rows.workers.task_bytes(), self.task_kernels(len(rows)))
        if cut is None:
            cut, gram, degrees = pruned.cut_gram(factor, t, rows, weights, diagonal, *given)
        else:
            gram, degrees = pruned.pruned_gram(factor, kept_from(cut, factor.dtype), rows, weights, *given)
        links = None if half is None else self.ashalf(half)
        return cut, pruned_laplacian(self, gram, degrees, rows, links), degrees

    def kmeans(self, Z: Tall, n_clusters: int, n_init: int, seed: int, weights: Column) -> Clusters:
        """Best of `n_init` runs by inertia; independent of the order of rows. Labels stay on the workers, a column."""
        from adaam.engines.cluster import kmeans

        check_word("starts", self.starts, ("auto", "k-means++", "k-means||"))
        rows = self.asarray(Z)
        centers, inertia = kmeans.kmeans(rows, n_clusters, n_init, seed, weights, self.starts)
        return Clusters(centers, self.nearest(rows, centers), inertia)

    def nearest(self, Z: Tall, centers: FloatMatrix) -> Any:
        """Index of the nearest centre of each row, the first one on a tie: a column for rows on the workers."""
        from adaam.engines.cluster import lazy
        from adaam.engines.cluster.rows import HOST, ClusterRows, Fixed, block_nearest

        if is_dask(Z):
            return lazy.lazy_nearest(Z, centers)
        if not isinstance(Z, ClusterRows):
            return HOST.nearest(Z, centers)
        return Z.column(Z.each("nearest", block_nearest, Fixed(centers)), np.intp)

    def nearest_known(self, Z: Tall, known: FloatMatrix, n_nearest: int) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the nearest known points of host rows; blocks on workers ask by `row_labels`."""
        from adaam.engines.cluster.rows import HOST

        return HOST.nearest_known(Z, known, n_nearest)

    def row_labels(self, Z: Tall, work: Callable[[Any], IntVector]) -> Any:
        """Label that `work` gives each row of a block: a column for rows on the workers, lazy for a Dask array."""
        if is_dask(Z):
            return mapped_array(Z, work, None, np.intp, "adaam-predict")
        return Z.column(Z.each("labels", work), np.intp)

    def cluster_sums(self, Z: "ClusterRows", labels: Any, weights: Column, n_clusters: int) -> ClusterSums:
        """Sums, weights and extent of labelled rows."""
        from adaam.engines.cluster import kmeans

        return kmeans.cluster_sums(Z, labels, weights, n_clusters)

    def shared(self, value: Any) -> Any:
        """Send a value once, for many tasks."""
        return self._workers().share("shared", value)

    def n_groups(self, X: Tall) -> int:
        """Row blocks that rows on the workers are in."""
        return len(self.asarray(X).sizes)

    def dealt(
        self, X: Tall, weights: Column, places: Callable[[IntVector], IntVector], edges: tuple[int, ...]
    ) -> "Groups":
        """Send rows to groups by the places that their numbers have."""
        from adaam.engines.cluster import shuffle

        return shuffle.dealt(self.asarray(X), weights, places, edges)

    def weights_below(
        self, X: Tall, weights: Column, places: Callable[[IntVector], IntVector], n_used: int
    ) -> "ClusterColumn":
        """Weights of the rows whose numbers have places below `n_used`, zeros for the others."""
        from adaam.engines.cluster import shuffle

        return shuffle.weights_below(self.asarray(X), weights, places, n_used)

    def n_threads(self) -> int:
        """Threads of all workers."""
        return self._workers().n_threads()

    def task_kernels(self, n_rows: int) -> "TaskKernels":
        """Tell the kernels of tasks on so many rows, the same for all workers."""
        from adaam.engines.cluster.rows import HOST
        from adaam.engines.cluster.tasks import task_kernels

        return task_kernels(self.kernels, n_rows, HOST._tile_rows())

    def _workers(self) -> Workers:
        return connected(self.client, self.in_flight, self.patience, self.progress, self.task_bytes)

    def _sizes(self, X: Any, workers: Workers) -> tuple[int, ...]:
        from adaam.engines.cluster.tasks import planned_sizes

        n, d = X.shape
        return planned_sizes(int(n), 8 * int(d), workers.n_threads(), workers.task_bytes(), self.block_rows)

    def __deepcopy__(self, memo: Any) -> "DaskEngine":
        """Return the engine itself: it is fixed, and a client is one connection."""
        return self

    def __reduce__(self) -> Any:
        """Leave the client behind, but not an address: elsewhere the current one is used."""
        client = self.client if isinstance(self.client, str) else None
        given = (client, self.block_rows, self.task_bytes, self.in_flight, self.starts, self.patience, self.progress)
        return DaskEngine, (*given, self.kernels)
