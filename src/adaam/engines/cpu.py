"""The CPU engine: row blocks on all cores, exact, nothing n x n."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import NearestNeighbors

from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, IntVector, Sparse, Tall
from adaam.engines import mostly_zeros, one_pass
from adaam.engines.blocks import blas_threads, ordered_map, row_blocks
from adaam.engines.columns import at, beside, spread, total
from adaam.engines.cut import Pairs, exact_cut
from adaam.engines.equal_rows import distinct
from adaam.engines.kernels import compiled_kernels
from adaam.engines.nearest import nearest_others
from adaam.engines.neighbor_graph import NeighborGraph
from adaam.engines.neighborhoods import neighborhoods, tie_tolerance
from adaam.engines.protocol import Clusters, ClusterSums, Result, laplacian_beside, two_passes
from adaam.engines.tiles import pruned_gram
from adaam.linalg import eigh

# A tile, its magnitudes, its mask and the positions of the survivors: about four times the tile in float64.
BYTES_PER_TILE_ENTRY = 32

# Row blocks of this size are short enough for their temporaries to be reused by the allocator, and to stay in cache.
BLOCK_BYTES = 1 << 22

# Below this share of columns that are zero in all rows, none are left out.
FEW_ZEROS = 1 / 32

# Sums of squares between these have lost nothing.
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-280, 1e280

# From here on candidates in float32, each pair once, are found faster than scikit-learn's search (decision 0004).
MANY_ROWS = 4096


@dataclass(frozen=True, slots=True)
class CPUEngine:
    """Work on NumPy and CSR arrays with as many threads as BLAS would use.

    Parameters
    ----------
    tile_bytes : int, default=32 MiB
        Memory for the temporaries of one thread. Smaller means slower and leaner; results agree to rounding.
    kernels : {"auto", "numba", "numpy"}, default="auto"
        What runs the passes over all pairs, and products of rows with many zeros: kernels that numba compiles on first
        use (`pip install adaam[fast]`), or NumPy and SciPy. "auto" is numba where it is installed and there are
        thousands of rows; results agree to rounding, up to `recall`.
    recall : float, default=0.985
        Share of true neighbours that is enough. From 32,768 rows on numba's search looks into clusters near each row
        alone, as many as sampled neighbours need, measures on 200 other rows what that finds, and searches all pairs
        where it is less. 1.0 means all pairs, so that neighbours are exact; NumPy's are exact always.
    """

    tile_bytes: int = 1 << 25
    kernels: str = "auto"
    recall: float = 0.985
    name: str = "cpu"

    def accepts(self, X: Any) -> bool:
        """No array needs a check of this engine's own."""
        return False

    def check_rows(self, X: Any, at_least: int) -> Tall:
        """Never asked for."""
        raise TypeError(f"X={type(X).__name__} is no array of the CPU engine's own.")

    def like(self, Z: Tall, X: Any) -> FloatMatrix:
        """Return Z itself: everything here is NumPy."""
        return np.asarray(Z)

    def each(self, work: Callable[[int], Result], items: Sequence[int]) -> Iterator[Result]:
        """Do work for each item, an item a thread; one left over at the end has all threads for the maps within it."""
        n_threads = blas_threads()
        n_left = len(items) % n_threads
        alone = n_left if n_left <= max(1, n_threads // 4) else 0
        yield from ordered_map(work, items[: len(items) - alone])
        yield from map(work, items[len(items) - alone :])

    def asarray(self, X: Tall) -> Tall:
        """Return X itself: validated rows are already where this engine works."""
        return X

    def column(self, values: Any) -> Column:
        """Return a float itself, a vector in float64."""
        return values if isinstance(values, float) else np.asarray(values, dtype=np.float64)

    def to_host(self, value: Any) -> Any:
        """Return the value itself, all numbers being NumPy's."""
        return value if issparse(value) else np.asarray(value)

    def distinct(self, X: Tall, weights: Column) -> tuple[Tall, Column]:
        """Return the distinct rows of positive weight, in order of first appearance, and the total weight of each."""
        return distinct(X, weights)

    def row_norms(self, X: Tall) -> FloatVector:
        """Euclidean length of each row, in float64 and safe from overflow."""
        return np.concatenate(list(ordered_map(lambda rows: _row_norms(X[rows]), self._blocks(X))))

    def weighted_sum(self, X: Tall, weights: Column) -> FloatVector:
        """Return the sum over rows of weight * x, in float64."""
        return np.asarray(self.cross(spread(weights, X.shape[0])[:, None], X)[0])

    def cross(self, A: Tall, B: Tall, weights: Column = 1.0) -> FloatMatrix:
        """Return the sum over rows of weight * a b', in float64."""

        def part(rows: slice) -> FloatMatrix:
            if A is B and not issparse(A):
                return _weighted_gram(_float64(A[rows]), at(weights, rows))
            return np.asarray((_float64(A[rows]) * beside(weights, rows)).T @ _float64(B[rows]))

        return np.asarray(sum(ordered_map(part, self._blocks(A, B.shape[1]))))

    def scatter(self, X: Tall, scale: Column, mean: FloatVector, weights: Column) -> FloatMatrix:
        """Return the d x d sum over rows of weight * z z' with z = scale * x - mean."""
        n, d = X.shape
        found = mostly_zeros.scatter(X, scale, mean, weights, self.kernels)
        if found is not None:
            return found
        used = np.arange(d) if issparse(X) else self._used_columns(X, mean)

        def part(rows: slice) -> FloatMatrix:
            root = np.sqrt(beside(weights, rows))
            if issparse(X):
                block = X[rows].astype(np.float64).multiply(beside(scale, rows) * root).tocsr()
                return np.asarray((block.T @ block).toarray())
            block = _float64(X[rows] if len(used) == d else X[rows][:, used]) * beside(scale, rows)
            block -= mean[used]
            if not isinstance(weights, float) or weights != 1.0:
                block *= root
            return np.asarray(block.T @ block)

        sums = np.asarray(sum(ordered_map(part, self._blocks(X))))
        if issparse(X):
            # Sparse rows are not centred, which would fill them; the mean leaves the sum instead.
            return sums - total(weights, n) * np.outer(mean, mean)
        if len(used) == d:
            return sums
        whole = np.zeros((d, d))
        whole[np.ix_(used, used)] = sums
        return whole

    def row_scatter(self, X: Tall, scale: Column, mean: FloatVector) -> FloatMatrix:
        """Return the n x n inner products of scale * x - mean; asked for only when n < d."""
        factors = beside(scale, slice(None))
        if issparse(X):
            scaled = X.astype(np.float64).multiply(factors).tocsr()
            along = np.asarray(scaled @ mean)
            return np.asarray((scaled @ scaled.T).toarray() - along[:, None] - along + mean @ mean)
        centred = _float64(X) * factors - mean
        return np.asarray(centred @ centred.T)

    def project(self, X: Tall, scale: Column, mean: FloatVector, components: FloatMatrix) -> Tall:
        """Return (scale * x - mean) @ components.T for each row, in the wider precision of X and components.

        Preparations are float64, so a fit works in float64 also on float32 rows: tiles are as fast in it, and the
        weakly determined last directions need it.
        """
        found = mostly_zeros.project(X, scale, mean, components, self.kernels)
        if found is not None:
            return found
        offset = mean @ components.T
        out = np.empty((X.shape[0], len(components)), dtype=np.result_type(X.dtype, components.dtype))

        def fill(rows: slice) -> None:
            if isinstance(scale, float) and not issparse(X):
                # Rows as they are may lie far from the origin, and lose digits unless they are centred first.
                np.matmul(_moved(X[rows], scale, mean), components.T, out=out[rows])
            else:
                out[rows] = X[rows] @ components.T
                out[rows] *= beside(scale, rows)
                out[rows] -= offset

        for _ in ordered_map(fill, self._blocks(X)):
            pass
        return out

    def neighbors(self, X: Tall, n_neighbors: int, rows: IntVector | None = None) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the nearest others of each row, or of chosen rows, nearest first.

        Few rows, and rows that float32 cannot tell apart, are left to scikit-learn's brute-force search; its distances
        are measured again from differences, so that coincident rows are at distance 0 and not at the square root of a
        rounding error.
        """
        if rows is None and X.shape[0] >= MANY_ROWS:
            found = nearest_others(X, n_neighbors, self._tile_rows(), self._kernels(X.shape[0]), self.recall)
            if found is not None:
                return found
        queries = X if rows is None else X[rows]
        if rows is None:
            search = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(X)
            indices = search.kneighbors(return_distance=False)
        else:
            search = NearestNeighbors(n_neighbors=n_neighbors + 1, algorithm="brute").fit(X)
            indices = _others(search.kneighbors(queries, return_distance=False), rows)
        distances = np.empty(indices.shape, dtype=np.float64)

        def measure(part: slice) -> None:
            for place in range(n_neighbors):
                difference = queries[part] - X[indices[part, place]]
                distances[part, place] = np.sqrt(np.einsum("ij,ij->i", difference, difference))

        for _ in ordered_map(measure, self._blocks(queries, X.shape[1])):
            pass
        order = np.argsort(distances, axis=1, kind="stable")
        return np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1)

    def neighbor_graph(self, X: Tall, n_neighbors: int, weights: Column) -> NeighborGraph:
        """Return the graph of nearest others, rows tied at the last place sharing it."""
        rms_length = float(np.sqrt((self.row_norms(X) ** 2).mean()))

        def search(width: int, rows: IntVector | None) -> tuple[IntMatrix, FloatMatrix]:
            return self.neighbors(X, width, rows)

        return neighborhoods(search, spread(weights, X.shape[0]), n_neighbors, tie_tolerance(rms_length, X.dtype))

    def asgraph(self, graph: NeighborGraph) -> NeighborGraph:
        """Return the graph itself."""
        return graph

    def eigh(self, A: FloatMatrix) -> tuple[FloatVector, FloatMatrix]:
        """All eigenpairs of a small symmetric matrix, values ascending."""
        return eigh(A)

    def sparse_gram(self, entries: Sparse, X: Tall) -> FloatMatrix:
        """Return X' H X for a sparse H, in float64."""

        def part(rows: slice) -> FloatMatrix:
            return np.asarray(_float64(X[rows]).T @ (entries[rows] @ X).astype(np.float64))

        return np.asarray(sum(ordered_map(part, self._blocks(X, X.shape[1]))))

    def half_degrees(self, half: Sparse) -> FloatVector:
        """Row sums of H + H'."""
        return one_pass.half_degrees(half)

    def cut(self, P: Tall, t: float, weights: Column, diagonal: Column) -> float:
        """Return the t-th largest magnitude of PP', counted with multiplicity."""
        n = P.shape[0]
        return exact_cut(Pairs(P, spread(weights, n), spread(diagonal, n), self._tile_rows(), self._kernels(n)), t)

    def pruned_gram(self, P: Tall, threshold: float, X: Tall, weights: Column) -> tuple[FloatMatrix, FloatVector]:
        """Return X'WSWX and WSw, where S holds the off-diagonal entries of PP' of magnitude >= threshold."""
        n = P.shape[0]
        return pruned_gram(P, threshold, X, spread(weights, n), self._tile_rows(), self._kernels(n))

    def cut_laplacian(
        self, P: Tall, t: float, X: Tall, weights: Column, diagonal: Column, half: Sparse | None
    ) -> tuple[float, FloatMatrix, FloatVector]:
        """Return the cut for t entries, and Laplacian and row sums of what it keeps."""
        n = P.shape[0]
        kernels = self._kernels(n)
        if kernels is not None and P.dtype == X.dtype == np.float64 and X.flags.c_contiguous:
            found = one_pass.cut_laplacian(P, t, X, spread(weights, n), spread(diagonal, n), half, kernels)
            if found is not None:
                return found
        return laplacian_beside(self, two_passes(self, P, t, X, weights, diagonal), X, half)

    def kmeans(self, Z: Tall, n_clusters: int, n_init: int, seed: int, weights: Column) -> Clusters:
        """Best of `n_init` k-means++ runs by inertia.

        Rows enter in the order of their coordinates, copies side by side, and runs go on until no label changes: so
        neither the order of rows nor writing a weight as copies moves the result.
        """
        weights = spread(weights, Z.shape[0])
        present = np.flatnonzero(weights)
        order = present[_by_coordinates(Z[present])]
        best = KMeans(n_clusters, n_init=n_init, random_state=seed, tol=0.0).fit(Z[order], sample_weight=weights[order])
        labels = self.nearest(Z, best.cluster_centers_)
        return Clusters(best.cluster_centers_, labels, float(best.inertia_))

    def kmeans_rounds(
        self, Z: Tall, n_clusters: int, n_init: int, seeds: Sequence[int], weights: Column
    ) -> list[Clusters]:
        """Return what `kmeans` gives for each seed."""
        return [self.kmeans(Z, n_clusters, n_init, seed, weights) for seed in seeds]

    def cluster_sums(self, Z: Tall, labels: IntVector, weights: Column, n_clusters: int) -> ClusterSums:
        """Return what centres, sizes and inertia of a partition follow from, in float64."""
        n = Z.shape[0]
        held = spread(weights, n)
        member = csr_array((held, (np.asarray(labels), np.arange(n))), shape=(n_clusters, n))
        sums, squares, largest = np.zeros((n_clusters, Z.shape[1])), np.zeros(n_clusters), 0.0
        for rows in self._blocks(Z):
            block = _float64(Z[rows])
            sums += member[:, rows] @ block
            squares += member[:, rows] @ np.einsum("ij,ij->i", block, block)
            largest = max(largest, float(np.abs(block).max(initial=0.0)))
        return ClusterSums(sums, np.bincount(labels, held, minlength=n_clusters), squares, largest)

    def nearest_known(self, Z: Tall, known: FloatMatrix, n_nearest: int) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the nearest of some known points of each row, nearest first."""
        distances, indices = NearestNeighbors(n_neighbors=min(n_nearest, len(known))).fit(known).kneighbors(Z)
        return indices, distances

    def nearest(self, Z: Tall, centers: FloatMatrix) -> IntVector:
        """Index of the nearest centre of each row, the first one on a tie."""
        return np.asarray(pairwise_distances_argmin(Z, centers))

    def _used_columns(self, X: Tall, mean: FloatVector) -> IntVector:
        """Columns that are not zero in all rows, as far as leaving the others out is worth it."""
        candidates = np.flatnonzero(mean == 0.0)
        every = np.arange(X.shape[1])
        if len(candidates) < FEW_ZEROS * X.shape[1]:
            return every
        zero = not any(ordered_map(lambda rows: bool(X[rows][:, candidates].any()), self._blocks(X)))
        return np.delete(every, candidates) if zero else every

    def _kernels(self, n_rows: int) -> ModuleType | None:
        return compiled_kernels(self.kernels, n_rows)

    def _tile_rows(self) -> int:
        """Rows and columns of a tile within the budget, in steps of 64 for aligned products."""
        return max(64, int(np.sqrt(self.tile_bytes / BYTES_PER_TILE_ENTRY)) // 64 * 64)

    def _blocks(self, X: Tall, extra_columns: int = 0) -> list[slice]:
        """Row blocks whose float64 copy, with `extra_columns` beside it, stays within the budget."""
        rows = min(self.tile_bytes, BLOCK_BYTES) // (8 * max(1, X.shape[1] + extra_columns))
        return row_blocks(X.shape[0], max(16, rows))


def _others(indices: IntMatrix, rows: IntVector) -> IntMatrix:
    """Drop each row itself from its neighbours, or the last of them where copies have crowded it out."""
    kept = indices != rows[:, None]
    kept[kept.all(axis=1), -1] = False
    return np.asarray(indices[kept].reshape(len(rows), -1))


def _weighted_gram(block: FloatMatrix, weights: Any) -> FloatMatrix:
    """Sum over rows of weight * x x'; a matrix times itself turned over takes half the time of another product."""
    if isinstance(weights, float):
        return np.asarray(block.T @ block) * weights
    root = block * np.sqrt(np.abs(weights))[:, None]
    negative = np.flatnonzero(weights < 0)
    gram = np.asarray(root.T @ root)
    if len(negative):
        away = root[negative]
        gram -= 2.0 * (away.T @ away)
    return gram


def _moved(block: FloatMatrix, scale: float, mean: FloatVector) -> FloatMatrix:
    """Return scale * x - mean for each row."""
    moved = block if scale == 1.0 else block * scale
    return moved - mean if mean.any() else moved


def _by_coordinates(Z: FloatMatrix) -> IntVector:
    """Order of rows by their first column, among equals by the second, and so on."""
    order = np.argsort(Z[:, 0], kind="stable")
    first = Z[order, 0]
    # Where no two rows are equal in it, the first column decides alone, and the others need no sorting.
    return order if (first[1:] > first[:-1]).all() else np.lexsort(Z.T[::-1])


def _row_norms(block: Tall) -> FloatVector:
    """Euclidean lengths; where squares might overflow or vanish, the largest entry is divided out first."""
    if issparse(block):
        starts, entries = block.indptr[:-1], np.diff(block.indptr)
        filled = entries > 0
        largest = np.zeros(block.shape[0])
        lengths = np.zeros(block.shape[0])
        data = np.abs(block.data.astype(np.float64))
        # reduceat reads past empty rows, so only the filled ones are given to it.
        largest[filled] = np.maximum.reduceat(data, starts[filled]) if filled.any() else 0.0
        safe = np.where(largest == 0, 1.0, largest)
        scaled = data / np.repeat(safe, entries)
        lengths[filled] = np.add.reduceat(scaled**2, starts[filled]) if filled.any() else 0.0
        with np.errstate(over="ignore"):
            return np.asarray(safe * np.sqrt(lengths))
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", block, block, dtype=np.float64)
    if ((squares > SMALLEST_SQUARE) & (squares < LARGEST_SQUARE)).all():
        return np.asarray(np.sqrt(squares))
    largest = np.abs(block).max(axis=1).astype(np.float64)
    safe = np.where(largest == 0, 1.0, largest)
    scaled = block / safe[:, None]
    with np.errstate(over="ignore"):  # a length beyond the largest number is infinite
        return np.asarray(safe * np.sqrt(np.einsum("ij,ij->i", scaled, scaled)))


def _float64(block: Tall) -> Tall:
    """Return a dense block as it is or widened, a sparse one filled."""
    return np.asarray(block.toarray() if issparse(block) else block, dtype=np.float64)
