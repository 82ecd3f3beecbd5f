"""The CPU engine: exact, in row blocks on all cores, without storing any n x n matrix."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.neighbors import NearestNeighbors

from adaam._typing import Column, FloatMatrix, FloatVector, HostRows, IntMatrix, IntVector
from adaam.engines.blocks import (
    BLOCK_BYTES,
    at,
    beside,
    blas_threads,
    coordinate_order,
    for_each,
    ordered_map,
    short_blocks,
    spread,
    total,
)
from adaam.engines.compiled import MANY_ROWS, PANEL, few_filled, panel_count, uses_numba
from adaam.engines.equal_rows import distinct
from adaam.engines.neighbors import tiles as neighbor_tiles
from adaam.engines.neighbors.graph import HostHalf, NeighborGraph, measured_graph
from adaam.engines.protocol import Clusters, ClusterSums, Half, Result, pruned_laplacian
from adaam.engines.pruned import tiles as pruned_tiles
from adaam.engines.pruned.cut import Bracket, Tally, counted, exact_cut, guess_bracket, kept_from, largest_entry
from adaam.linalg import eigh

# Bytes per entry: a tile, its magnitudes, its mask and the positions of kept entries, about four tiles in float64.
BYTES_PER_TILE_ENTRY = 32

# Sums of squares between these have neither overflowed nor lost digits to underflow.
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-280, 1e280

# Rows whose scale (to unit length) is below this are scaled before any product, which would overflow otherwise.
LONG_ROWS_SCALE = 1e-290


@dataclass(frozen=True, slots=True)
class CPUEngine:
    """Engine for NumPy and CSR arrays, with as many threads as BLAS would use.

    Parameters
    ----------
    tile_bytes : int, default=32 MiB
        Memory for the temporaries of one thread. Smaller is slower and uses less memory; results agree to rounding.
    kernels : {"auto", "numba", "numpy"}, default="auto"
        Implementation of the passes over all pairs and of products of rows with many zeros: loops that numba compiles
        on first use (`pip install adaam[fast]`), or NumPy and SciPy. "auto" is numba if it is installed and there are
        thousands of rows; results agree to rounding.
    recall : float, default=1.0
        Share of true neighbours that must be found. Has no effect: all of them are found, since an approximate search
        saved at most a fifth of a fit (decision 0021). Kept for existing settings and model files.
    """

    tile_bytes: int = 1 << 25
    kernels: str = "auto"
    recall: float = 1.0
    name: str = "cpu"

    def own(self, X: Any, at_least: int | None = None) -> None:
        """Return None: scikit-learn can check all host arrays."""

    def each(self, work: Callable[[int], Result], items: Sequence[int]) -> Iterator[Result]:
        """Call `work` for each item, one thread per item; the last few may run one by one, each on all threads."""
        n_threads = blas_threads()
        n_left = len(items) % n_threads
        alone = n_left if n_left <= max(1, n_threads // 4) else 0
        yield from ordered_map(work, items[: len(items) - alone])
        yield from map(work, items[len(items) - alone :])

    def asarray(self, value: Any) -> Any:
        """Return the value itself, a vector converted to float64: validated rows are on the host already."""
        return np.asarray(value, dtype=np.float64) if getattr(value, "ndim", 2) == 1 else value

    def to_host(self, value: Any, like: Any = None) -> Any:
        """Return the value itself, which is on the host already, as NumPy or sparse."""
        return value if issparse(value) else np.asarray(value)

    def distinct(self, X: HostRows, weights: Column) -> tuple[HostRows, Column]:
        """Return the distinct rows of positive weight, in order of first appearance, and the total weight of each."""
        return distinct(X, weights)

    def row_norms(self, X: HostRows) -> FloatVector:
        """Euclidean length of each row, in float64 and safe from overflow."""
        return np.concatenate(list(ordered_map(lambda rows: _row_norms(X[rows]), self._blocks(X))))

    def cross(self, A: HostRows | None, B: HostRows, weights: Column = 1.0) -> FloatMatrix:
        """Return the sum over rows of weight * a b', in float64; None stands for a column of ones."""
        if A is None:
            return self.cross(spread(weights, B.shape[0])[:, None], B)
        if issparse(B) and not issparse(A):
            # The result has a row per sparse column, maybe very many: one product, not a sum over row blocks.
            return np.asarray(B.T @ (_float64(A) * beside(weights, slice(None)))).T

        def part(rows: slice) -> FloatMatrix:
            if A is B and not issparse(A):
                return _weighted_gram(_float64(A[rows]), at(weights, rows))
            return np.asarray((_float64(A[rows]) * beside(weights, rows)).T @ _float64(B[rows]))

        return np.asarray(sum(ordered_map(part, self._blocks(A, B.shape[1]))))

    def scatter(
        self, X: HostRows, scale: Column, mean: FloatVector, weights: Column, *, between_rows: bool = False
    ) -> FloatMatrix:
        """Return the d x d sum over rows of weight * z z', z = scale * x - mean; `between_rows`, see `Engine`."""
        n, d = X.shape
        if between_rows:
            root = np.sqrt(spread(weights, n))
            return _row_products(X, scale, mean) * root[:, None] * root
        # A panel computes rows of the sum up to its last column, a dense symmetric product those up to each column.
        if uses_numba(self.kernels, n) and few_filled(X, d, PANEL * (panel_count(d) + 1)):
            from adaam.engines import zeros

            found = zeros.scatter(X, scale, mean, weights)
            if found is not None:
                return found

        def part(rows: slice) -> FloatMatrix:
            root = np.sqrt(beside(weights, rows))
            if issparse(X):
                block = X[rows].astype(np.float64).multiply(beside(scale, rows) * root).tocsr()
                return np.asarray((block.T @ block).toarray())
            block = _float64(X[rows]) * beside(scale, rows)
            block -= mean
            if not isinstance(weights, float) or weights != 1.0:
                block *= root
            return np.asarray(block.T @ block)

        sums = np.asarray(sum(ordered_map(part, self._blocks(X))))
        if issparse(X):
            # Centring would make sparse rows dense; the mean is subtracted from the sum instead.
            return sums - total(weights, n) * np.outer(mean, mean)
        return sums

    def project(self, X: HostRows, scale: Column, mean: FloatVector, components: FloatMatrix) -> HostRows:
        """Return (scale * x - mean) @ components.T for each row, in the wider precision of X and components.

        Preparations are float64, so a fit on float32 rows works in float64 too: tiles are as fast in it, and the weakly
        determined last directions need it.
        """
        m = len(components)
        if uses_numba(self.kernels, X.shape[0]) and few_filled(X, m, PANEL * panel_count(m)):
            from adaam.engines import zeros

            if np.result_type(X.dtype, components.dtype) == np.float64:
                return zeros.project(X, scale, mean, components)
        offset = mean @ components.T
        out = np.empty((X.shape[0], len(components)), dtype=np.result_type(X.dtype, components.dtype))

        # Products of rows this long would overflow before they are scaled.
        long = not isinstance(scale, float) and not issparse(X) and bool(np.min(scale, initial=1.0) < LONG_ROWS_SCALE)

        def fill(rows: slice) -> None:
            if isinstance(scale, float) and not issparse(X):
                # Rows may lie far from the origin, and would lose digits if the mean were subtracted afterwards.
                np.matmul(_moved(X[rows], scale, mean), components.T, out=out[rows])
            elif long:
                np.matmul(X[rows] * beside(scale, rows) - mean, components.T, out=out[rows])
            else:
                out[rows] = X[rows] @ components.T
                out[rows] *= beside(scale, rows)
                out[rows] -= offset

        for_each(fill, self._blocks(X))
        return out

    def _neighbors(self, X: HostRows, n_neighbors: int, rows: IntVector | None = None) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the nearest others of each row, or of chosen rows, nearest first.

        With thousands of rows, a float32 pass over each pair once is faster than scikit-learn's search (decision 0004),
        which is used for fewer rows, for chosen rows, and for rows that float32 cannot tell apart.
        """
        if n_neighbors == 0:
            n = X.shape[0] if rows is None else len(rows)
            return np.empty((n, 0), np.intp), np.empty((n, 0))
        if rows is not None:
            found = neighbor_tiles.brute_force(X, n_neighbors + 1, X[rows])
            return _others(*found, rows)
        nearest = None
        if X.shape[0] >= MANY_ROWS:
            if self._uses_search(X, n_neighbors):
                from adaam.engines.neighbors import search

                nearest = search.nearest_others(X, n_neighbors)
            else:
                nearest = neighbor_tiles.nearest_others(X, n_neighbors, self._tile_rows())
        return neighbor_tiles.brute_force(X, n_neighbors) if nearest is None else nearest

    def _uses_search(self, X: FloatMatrix, k: int) -> bool:
        """Whether compiled loops search for neighbours: lists must be short enough for insertion sort."""
        short = 4 * k < min(len(X), 1024)
        return short and bool(X.flags.c_contiguous) and uses_numba(self.kernels, len(X))

    def neighbor_graph(self, X: HostRows, n_neighbors: int, weights: Column) -> NeighborGraph:
        """Return the graph of the nearest other rows; rows tied at the k-th place share it."""
        found = measured_graph(partial(self._neighbors, X), self.row_norms(X), weights, n_neighbors, X.dtype)
        return replace(found, kernels=self.kernels)

    def eigh(self, A: FloatMatrix) -> tuple[FloatVector, FloatMatrix]:
        """All eigenpairs of a small symmetric matrix, values ascending."""
        return eigh(A)

    def cut_laplacian(
        self,
        P: HostRows,
        t: float,
        X: HostRows,
        weights: Column,
        diagonal: Column,
        half: Half | None = None,
        *,
        cut: float | None = None,
    ) -> tuple[float, FloatMatrix, FloatVector]:
        """Prune PP' to t entries; return the cut, the Laplacian and the row sums of the kept entries."""
        n = P.shape[0]
        w, own = spread(weights, n), spread(diagonal, n)
        if self._screens(P, X):
            from adaam.engines.pruned import screened

            found = screened.cut_laplacian(P, t, X, w, own, cast(HostHalf | None, half), cut)
            if found is not None:
                return found
        if cut is None:
            cut = exact_cut(_Entries(P, w, own, self._tile_rows(), self._screens(P)), t)
            return self.cut_laplacian(P, t, X, weights, diagonal, half, cut=cut)
        gram, degrees = pruned_tiles.pruned_gram(P, kept_from(cut, P.dtype), X, w, self._tile_rows())
        return cut, pruned_laplacian(self, gram, degrees, X, half), degrees

    def _screens(self, *factors: FloatMatrix) -> bool:
        """Whether compiled loops make the passes over pairs; they take only float64 in C order."""
        takes = all(A.dtype == np.float64 and A.flags.c_contiguous for A in factors)
        return takes and uses_numba(self.kernels, factors[0].shape[0])

    def kmeans(self, Z: HostRows, n_clusters: int, n_init: int, seed: int, weights: Column) -> Clusters:
        """Best of `n_init` k-means++ runs by inertia.

        Rows are sorted by their coordinates, so that equal rows are adjacent, and runs iterate until no label changes:
        the result depends neither on the order of rows nor on writing a weight as repeated rows.
        """
        weights = spread(weights, Z.shape[0])
        present = np.flatnonzero(weights)
        order = present[coordinate_order(Z[present])]
        best = KMeans(n_clusters, n_init=n_init, random_state=seed, tol=0.0).fit(Z[order], sample_weight=weights[order])
        labels, _ = self.nearest_known(Z, best.cluster_centers_, 1)
        return Clusters(best.cluster_centers_, labels[:, 0], float(best.inertia_))

    def cluster_sums(
        self, Z: HostRows, labels: IntVector, weights: Column, n_clusters: int, center: FloatVector | None = None
    ) -> ClusterSums:
        """Return the sums behind centres, sizes and spreads of clusters, in float64; sparse rows are not centred."""
        n, d = Z.shape
        held = spread(weights, n)
        member = csr_array((held, (np.asarray(labels), np.arange(n))), shape=(n_clusters, n))
        sizes = np.bincount(labels, held, minlength=n_clusters)
        if issparse(Z):
            sums, squares = csr_array(member @ Z).toarray(), csr_array(Z.multiply(Z)).T @ held
            return ClusterSums(sums, sizes, squares, float(np.abs(Z.data).max(initial=0.0)))
        sums, squares, largest = np.zeros((n_clusters, d)), np.zeros(d), 0.0
        for rows in self._blocks(Z):
            block = _float64(Z[rows]) if center is None else _float64(Z[rows]) - center
            sums += member[:, rows] @ block
            squares += np.einsum("i,ij,ij->j", held[rows], block, block)
            largest = max(largest, float(np.abs(block).max(initial=0.0)))
        return ClusterSums(sums, sizes, squares, largest)

    def nearest_known(self, Z: HostRows, known: FloatMatrix, n_nearest: int) -> tuple[IntMatrix, FloatMatrix]:
        """Indices and distances of the known points nearest to each row, nearest first."""
        if n_nearest == 1:
            indices, distances = pairwise_distances_argmin_min(Z, known)
            return indices[:, None], distances[:, None]
        distances, indices = NearestNeighbors(n_neighbors=min(n_nearest, len(known))).fit(known).kneighbors(Z)
        return indices, distances

    def _tile_rows(self) -> int:
        """Number of rows and columns of a tile within `tile_bytes`, a multiple of 64 for aligned products."""
        return max(64, int(np.sqrt(self.tile_bytes / BYTES_PER_TILE_ENTRY)) // 64 * 64)

    def _blocks(self, X: HostRows, extra_columns: int = 0) -> list[slice]:
        """Row blocks whose float64 copy, with `extra_columns` more columns, stays within `tile_bytes`."""
        return short_blocks(X.shape[0], X.shape[1] + extra_columns, min(self.tile_bytes, BLOCK_BYTES))


@dataclass(frozen=True, slots=True)
class _Entries:
    """All entries of PP', with multiplicity weights[i] * weights[j] off the diagonal and diagonal[i] on it."""

    P: FloatMatrix
    weights: FloatVector
    diagonal: FloatVector
    tile_rows: int
    screened: bool  # in float32 by compiled loops

    @property
    def dtype(self) -> Any:
        """Precision of the entries."""
        return self.P.dtype

    def largest(self) -> float:
        """Magnitude that no entry exceeds."""
        return largest_entry(self.P)

    def guess(self, t: float) -> Bracket:
        """Bracket that most likely encloses the t-th largest entry."""
        return guess_bracket(self.P, t, self.weights, self.diagonal)

    def tally(self, bracket: Bracket) -> Tally:
        """Count the entries above a bracket and list those inside."""
        return counted(self._parts(bracket), bracket)

    def _parts(self, bracket: Bracket) -> Iterator[Tally]:
        yield Tally(0.0, np.einsum("ij,ij->i", self.P, self.P), self.diagonal).within(bracket)
        if self.screened:
            from adaam.engines.pruned.screened import screened_tallies

            yield from screened_tallies(self.P, self.weights, bracket)
        else:
            yield from pruned_tiles.tile_tallies(self.P, self.weights, bracket, self.tile_rows)


def _others(indices: IntMatrix, distances: FloatMatrix, rows: IntVector) -> tuple[IntMatrix, FloatMatrix]:
    """Drop each row itself from its neighbours, or the last one if equal rows took its place."""
    kept = indices != rows[:, None]
    kept[kept.all(axis=1), -1] = False
    return indices[kept].reshape(len(rows), -1), distances[kept].reshape(len(rows), -1)


def _row_products(X: HostRows, scale: Column, mean: FloatVector) -> FloatMatrix:
    """Inner products of scale * x - mean between all pairs of rows, for few rows."""
    factors = beside(scale, slice(None))
    if issparse(X):
        scaled = X.astype(np.float64).multiply(factors).tocsr()
        along = np.asarray(scaled @ mean)
        return np.asarray((scaled @ scaled.T).toarray() - along[:, None] - along + mean @ mean)
    centred = _float64(X) * factors - mean
    return np.asarray(centred @ centred.T)


def _weighted_gram(block: FloatMatrix, weights: Any) -> FloatMatrix:
    """Sum over rows of weight * x x', as a symmetric rank-k update: half the time of a general product."""
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


def _row_norms(block: HostRows) -> FloatVector:
    """Euclidean norms; if squares might overflow or underflow, each row is divided by its largest entry first."""
    with np.errstate(over="ignore", under="ignore"):  # a norm beyond the largest float is infinite
        squares = _row_squares(block)
        if ((squares > SMALLEST_SQUARE) & (squares < LARGEST_SQUARE)).all():
            return np.asarray(np.sqrt(squares))
        largest = abs(block).max(axis=1)
        largest = np.asarray(largest.toarray() if issparse(largest) else largest, np.float64).ravel()
        safe = np.where(largest == 0, 1.0, largest)
        scaled = block.astype(np.float64)
        if issparse(scaled):
            scaled.data /= np.repeat(safe, np.diff(scaled.indptr))
        else:
            scaled /= safe[:, None]
        return np.asarray(safe * np.sqrt(_row_squares(scaled)))


def _row_squares(block: HostRows) -> FloatVector:
    """Sum of the squares of each row, in float64."""
    if issparse(block):
        return np.asarray(block.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", block, block, dtype=np.float64))


def _float64(block: HostRows) -> HostRows:
    """Return a block as a dense float64 array."""
    return np.asarray(block.toarray() if issparse(block) else block, dtype=np.float64)
