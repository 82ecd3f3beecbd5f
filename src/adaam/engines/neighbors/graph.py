"""The nearest-neighbour graph on the host, and the affinity that a heat kernel gives to its edges."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from adaam._typing import Column, FloatMatrix, FloatVector, IntMatrix, IntVector, Sparse, Tall
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.columns import spread
from adaam.engines.compiled import uses_numba
from adaam.engines.links import Links

BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class FittedHeat:
    """A heat kernel with its bandwidths, ready to weigh any pair of rows.

    The bandwidth of a pair is the geometric mean of those of its rows, which are all equal unless the kernel is
    self-tuning.
    """

    bandwidths: Column
    power: int

    def weights(self, rows: IntMatrix, columns: IntMatrix, distances: FloatMatrix) -> FloatMatrix:
        """Weight of each pair, in [0, 1]; coincident rows get 1. Bandwidths and pairs are on the host."""
        bandwidth = self.bandwidths
        if not isinstance(bandwidth, float):
            bandwidth = np.sqrt(bandwidth[rows]) * np.sqrt(bandwidth[columns])
        return pair_weights(distances, bandwidth, self.power)


def pair_weights(distances: FloatMatrix, bandwidth: Column, power: int) -> FloatMatrix:
    """Weights of pairs whose bandwidths are known: one each, or one for all."""
    with np.errstate(invalid="ignore", divide="ignore"):
        exponent = distances / bandwidth
    if power != 1:
        exponent **= power
    # 0 / 0: all neighbours coincide, and a bandwidth of zero must not separate them.
    exponent[distances == 0] = 0.0
    return np.asarray(np.exp(np.negative(exponent, out=exponent), out=exponent))


def reverse_entries(starts: IntVector, indices: IntVector) -> IntVector:
    """Position of entry (j, i) for each entry (i, j) of compressed rows without repeated entries; -1 if absent.

    Turning a matrix over sorts it by counting, so that two turns leave one list of keys for the entries and one for
    their partners, both ascending: looking one up in the other then walks through memory in order.
    """
    n, n_entries = len(starts) - 1, len(indices)
    narrow = np.int32 if max(n, n_entries) < np.iinfo(np.int32).max else np.int64
    positions = np.arange(n_entries, dtype=narrow)
    by_rows = csr_array((positions, indices.astype(narrow), starts.astype(narrow)), shape=(n, n))
    by_columns = csr_array(by_rows.T)
    by_rows = csr_array(by_columns.T)
    forward, backward = _keys(by_rows), _keys(by_columns)
    at = np.minimum(np.searchsorted(forward, backward), max(n_entries - 1, 0))
    reverse = np.full(n_entries, -1, dtype=np.intp)
    # by_columns holds at (j, i) where entry (i, j) stands; its partner is the entry (j, i) itself.
    reverse[by_columns.data] = np.where(forward[at] == backward, by_rows.data[at], -1) if n_entries else -1
    return reverse


def _keys(matrix: csr_array) -> IntVector:
    """Row and column of each entry as one number."""
    n = matrix.shape[0]
    rows = np.repeat(np.arange(n, dtype=np.int64) * n, np.diff(matrix.indptr))
    return np.asarray(rows + matrix.indices)


@dataclass(frozen=True, slots=True, eq=False)
class HostHalf:
    """Half H of an affinity H + H' on the host: each edge of a graph at the row where it was found."""

    matrix: Sparse

    def host(self) -> Sparse:
        """Return the entries of H."""
        return self.matrix

    def degrees(self) -> FloatVector:
        """Row sums of H + H'."""
        along = np.asarray(self.matrix.sum(axis=1)).ravel()
        return np.asarray(along + np.bincount(self.matrix.indices, self.matrix.data, len(along)))

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X' H X, in float64."""

        def part(rows: slice) -> FloatMatrix:
            block = X[rows].toarray() if issparse(X) else X[rows]
            product = self.matrix[rows] @ X
            dense = product.toarray() if issparse(product) else product
            return np.asarray(np.asarray(block, np.float64).T @ dense.astype(np.float64))

        blocks = row_blocks(X.shape[0], max(16, BLOCK_BYTES // (16 * max(1, X.shape[1]))))
        return np.asarray(sum(ordered_map(part, blocks)))


@dataclass(frozen=True, slots=True)
class NeighborGraph:
    """Neighbours of each row in compressed rows: self excluded, nearest first.

    `shares` tells which part of a neighbour is taken: 1 but for those tied at the k-th place, who share what is left of
    it. `copies` counts the row's own copies among its neighbours. `measured` says that distances were found between the
    rows themselves, so that both directions of a pair have the same one; `kernels`, whether work on the links may be
    compiled.
    """

    starts: IntVector  # (n + 1,)
    indices: IntVector
    distances: FloatVector
    shares: FloatVector
    copies: FloatVector  # (n,)
    measured: bool = False
    kernels: str = "auto"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    def host(self) -> "NeighborGraph":
        """Return the graph itself: it is on the host."""
        return self

    def rows(self) -> IntVector:
        """Row that each neighbour entry belongs to."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.starts))

    def mean_distance(self, weights: Column) -> float:
        """Mean of all neighbour distances, copies counted."""
        weights = spread(weights, self.n_rows)
        taken = self.shares
        if (weights != 1.0).any():
            taken = weights[self.rows()] * taken * weights[self.indices]
        total = taken.sum() + (weights * self.copies).sum()
        return float(taken @ self.distances / total) if total > 0 else 0.0

    def farthest(self) -> FloatVector:
        """Distance of each row to its farthest neighbour; 0 without any."""
        farthest = np.zeros(self.n_rows)
        np.maximum.at(farthest, self.rows(), self.distances)
        return farthest

    def piece_sizes(self) -> IntVector:
        """Rows in each connected piece, directions ignored, largest first."""
        # In the precision and width of indices that SciPy works in, nothing is copied.
        entries = (self.shares, self.indices.astype(np.int32), self.starts.astype(np.int32))
        edges = csr_array(entries, shape=(self.n_rows, self.n_rows))
        if _in_one_piece(edges):
            return np.array([self.n_rows])
        _, piece = connected_components(edges, directed=False)
        return np.sort(np.bincount(piece))[::-1]

    def links(self, weights: FloatVector) -> Links:
        """Count the neighbour places that rows give each other, averaged over the two directions.

        Every row has the same number of places to give, whatever its distances, so dense and sparse regions count
        alike. Copies of a row link it to itself.
        """
        n = self.n_rows
        given = self.shares * weights[self.rows()] * weights[self.indices]
        directed = csr_array((given, self.indices.astype(np.int32), self.starts.astype(np.int32)), shape=(n, n))
        both = csr_array((directed + directed.T) / 2)
        both.sort_indices()
        nodes, others = np.repeat(np.arange(n), np.diff(both.indptr)), both.indices.astype(np.intp)
        return Links(nodes, others, both.data, np.asarray(weights * self.copies), uses_numba(self.kernels, n))

    def heat_half(self, heat: FittedHeat, weights: Column) -> HostHalf:
        """Half H of the affinity H + H' of heat weights, the larger of a pair's two; copies of a row weigh 1."""
        # One bandwidth for all asks for no row.
        rows = self.indices if isinstance(heat.bandwidths, float) else self.rows()
        values = heat.weights(rows, self.indices, self.distances)
        return HostHalf(self.half(values, weights, same_both_ways=self.measured))

    def half(self, values: FloatVector, weights: Column, *, same_both_ways: bool) -> csr_array:
        """Values on the entries, each pair's larger one split between the entries of its two directions."""
        n, f, w = self.n_rows, self.shares, spread(weights, self.n_rows)
        reverse = reverse_entries(self.starts, self.indices)
        mutual = reverse >= 0
        larger = values if same_both_ways else np.where(mutual, np.maximum(values, values[reverse]), values)
        # Both directions taken: f + g - fg = f(1 - g/2) + g(1 - f/2), one part for either entry. Few shares are not 1.
        data = np.multiply(larger, 0.5, out=larger.copy(), where=mutual)
        partial = np.flatnonzero(f != 1.0)
        partial = np.union1d(partial, reverse[partial[mutual[partial]]])
        g = np.where(mutual[partial], f[reverse[partial]], 0.0)
        data[partial] = larger[partial] * f[partial] * (1.0 - g / 2)
        if (w != 1.0).any():
            data *= w[self.rows()] * w[self.indices]
        half = csr_array((data, self.indices, self.starts), shape=(n, n))
        if self.copies.any():
            half = csr_array(half + diags_array(w * self.copies / 2))
        return half


def _in_one_piece(edges: csr_array) -> bool:
    """Whether each row is reached from the first along edges or points to one that is: everyday, and soon proven."""
    reached = np.zeros(edges.shape[0], dtype=bool)
    reached[breadth_first_order(edges, 0, return_predecessors=False)] = True
    rest = np.flatnonzero(~reached)
    return len(rest) == 0 or bool((edges[rest] @ reached.astype(np.float64) > 0).all())
