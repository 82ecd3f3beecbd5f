"""The nearest-neighbour graph on the host, the affinity of a heat kernel on its edges, and ties among neighbours.

Rows tied at the k-th place share it. A row of weight w counts as w equal rows. `neighborhoods` works on NumPy arrays
and on tensors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector, Sparse, Tall
from adaam.engines.blocks import at, beside, namespace, ordered_map, short_blocks, spread, total
from adaam.engines.compiled import uses_numba
from adaam.engines.links import Links, exactly_summable

# Limit of the neighbours searched, in multiples of k; with rows of weight below one, places may then stay unfilled.
MAX_WIDENING = 16

# Starts, indices, distances, shares and copies, as in a `NeighborGraph`; a float if all are the same.
Neighborhoods: TypeAlias = tuple[Any, Any, Any, Column, Column]

# (width, rows) -> indices and distances, (n, width): nearest others of all rows (None) or of some; NumPy or tensors.
Search: TypeAlias = Callable[[int, Any], tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class FittedHeat:
    """A heat kernel with fitted bandwidths, which gives the weight of any pair of rows.

    The bandwidth of a pair is the geometric mean of those of its rows, which are all equal unless the kernel is
    self-tuning.
    """

    bandwidths: Column
    power: int

    def weights(self, rows: Any, columns: Any, distances: Any) -> Any:
        """Weight of each pair, in [0, 1]; coincident rows get 1. NumPy arrays or tensors."""
        xp, bandwidth = namespace(distances), self.bandwidths
        if not isinstance(bandwidth, float):
            bandwidth = bandwidth[rows] ** 0.5 * bandwidth[columns] ** 0.5
        with np.errstate(invalid="ignore", divide="ignore"):
            exponent = distances / bandwidth
        if self.power != 1:
            exponent **= self.power
        # 0 / 0: all neighbours coincide, and a bandwidth of zero must not separate them.
        exponent = xp.where(distances == 0, 0.0, exponent)  # indexing by a mask would synchronize with the device
        return xp.exp(xp.negative(exponent, out=exponent), out=exponent)


@dataclass(frozen=True, slots=True, eq=False)
class HostHalf:
    """Half H of an affinity H + H' on the host: each edge of a graph, stored in the row where it was found."""

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

        return np.asarray(sum(ordered_map(part, short_blocks(X.shape[0], 2 * X.shape[1]))))


@dataclass(frozen=True, slots=True)
class NeighborGraph:
    """Neighbours of each row in CSR form: self excluded, nearest first; NumPy arrays, or tensors on a device.

    `shares` is the fraction with which each neighbour counts: 1 except for those tied at the k-th place, which share
    what remains of it. `copies` counts the row's own copies among its neighbours. `measured` means that distances were
    computed between the rows themselves, so that both directions of a pair have the same one; `kernels` is that of
    `CPUEngine`, for work on the links.
    """

    starts: IntVector  # (n + 1,)
    indices: IntVector
    distances: FloatVector
    shares: Column
    copies: Column  # (n,)
    measured: bool = False
    kernels: str = "auto"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    def host(self) -> "NeighborGraph":
        """Bring the graph to the host, for learners that look at single neighbours."""
        return self

    def rows(self) -> IntVector:
        """Row that each neighbour entry belongs to."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.starts))

    def pair_weights(self, weights: Column) -> Column:
        """Product of the weights of the two rows of each entry."""
        return weights**2 if isinstance(weights, float) else weights[self.rows()] * weights[self.indices]

    def mean_distance(self, weights: Column) -> float:
        """Mean of all neighbour distances, copies included."""
        taken = self.shares * self.pair_weights(weights)
        counted = total(taken, len(self.indices)) + total(weights * self.copies, self.n_rows)
        return float((taken * self.distances).sum()) / counted if counted > 0 else 0.0

    def farthest(self) -> Column:
        """Distance of each row to its farthest neighbour; 0 if it has none."""
        xp, ends = namespace(self.distances), self.starts[1:]
        none = xp.zeros(1, dtype=self.distances.dtype, device=self.distances.device)
        return xp.concatenate([self.distances, none])[xp.where(ends > self.starts[:-1], ends - 1, -1)]

    def piece_sizes(self) -> IntVector:
        """Number of rows in each connected component, directions ignored, largest first."""
        edges = self._matrix(self.shares)
        if _in_one_piece(edges):
            return np.array([self.n_rows])
        _, piece = connected_components(edges, directed=False)
        return np.sort(np.bincount(piece))[::-1]

    def links(self, weights: FloatVector) -> Links:
        """Link rows with the share that each has in the other's neighbour places, averaged over both directions.

        Every row has the same number of places, whatever its distances, so dense and sparse regions count alike. Copies
        of a row link it to itself.
        """
        n = self.n_rows
        directed = self._matrix(self.shares * self.pair_weights(weights))
        both = csr_array((directed + directed.T) / 2)
        both.sort_indices()
        nodes, others = np.repeat(np.arange(n), np.diff(both.indptr)), both.indices.astype(np.intp)
        values, loops = exactly_summable(both.data), np.asarray(weights * self.copies)
        return Links(nodes, others, values, loops, uses_numba(self.kernels, n))

    def heat_half(self, heat: FittedHeat, weights: Column) -> Any:
        """Half H of the affinity H + H' of heat weights, the larger of a pair's two; 1 for copies of a row."""
        # With a single bandwidth, row indices are not used.
        rows = self.indices if isinstance(heat.bandwidths, float) else self.rows()
        values = heat.weights(rows, self.indices, self.distances)
        return HostHalf(self.half(values, weights, same_both_ways=self.measured))

    def half(self, values: FloatVector, weights: Column, *, same_both_ways: bool) -> csr_array:
        """CSR matrix of the larger value of each pair, split between the entries of its two directions."""
        taken, larger = self._matrix(self.shares), self._matrix(values * self.pair_weights(weights))
        if not same_both_ways:
            larger = larger.maximum(larger.T)
        # Shares f and g of the two directions: f + g - fg = (f - fg/2) + (g - fg/2), one part for either entry.
        half = larger.multiply(taken - taken.multiply(taken.T) / 2)
        if self.copies.any():
            half = half + diags_array(weights * self.copies / 2)
        return csr_array(half)

    def _matrix(self, values: FloatVector) -> csr_array:
        """CSR matrix of values on the entries, with int32 indices, which SciPy does not copy again."""
        entries = (values, self.indices.astype(np.int32), self.starts.astype(np.int32))
        return csr_array(entries, shape=(self.n_rows, self.n_rows))


def _in_one_piece(edges: csr_array) -> bool:
    """Whether each row is reached from the first one or points to one that is: the usual case, and a quick test."""
    reached = np.zeros(edges.shape[0], dtype=bool)
    reached[breadth_first_order(edges, 0, return_predecessors=False)] = True
    rest = np.flatnonzero(~reached)
    return len(rest) == 0 or bool((edges[rest] @ reached.astype(np.float64) > 0).all())


class SharedPlaces(NamedTuple):
    """Entries of rows with ties or copies among their neighbours, sorted by row, nearest first."""

    rows: Any
    indices: Any
    distances: Any
    shares: Any


def widest(n: int, k: int) -> int:
    """Largest number of neighbours that a search may request."""
    return min(n - 1, MAX_WIDENING * k)


def tie_tolerance(rms_length: float, dtype: Any) -> float:
    """Difference of distances that rounding can cause: of coordinates in `dtype`, and of their sums in float64."""
    return float((2 * np.finfo(dtype).eps + 64 * np.finfo(np.float64).eps) * rms_length)


def own_copies(weights: Column, k: int) -> Column:
    """Number of own copies that are among the k nearest of each row."""
    if isinstance(weights, float):
        return min(max(weights - 1.0, 0.0), float(k))
    return namespace(weights).clip(weights - 1.0, 0.0, k)


def neighborhoods(search: Search, weights: Column, n: int, k: int, tolerance: Any) -> Neighborhoods:
    """Find the k nearest others of each of n rows; distances that differ by at most `tolerance` are tied."""
    copies = own_copies(weights, k)
    # Two more than k: the most common tie, a pair at the k-th place, is then complete.
    indices, distances = search(min(k + 2, widest(n, k)), None)
    xp, device = namespace(indices), indices.device
    settled = _settled(weights, indices, distances, k, tolerance)
    if bool(settled.all()):
        starts = xp.arange(n + 1, device=device) * k
        return starts, indices[:, :k].reshape(-1), distances[:, :k].reshape(-1), 1.0, copies
    chosen, open_rows = xp.nonzero(settled), xp.nonzero(~settled)
    chosen, open_rows = (part[0] if isinstance(part, tuple) else part[:, 0] for part in (chosen, open_rows))
    found = indices[open_rows], distances[open_rows]
    shared = _shared_places(search, found, weights, open_rows, n, k, tolerance)
    counts = settled * k + xp.bincount(shared.rows, minlength=n)
    starts = xp.concatenate([xp.zeros(1, dtype=counts.dtype, device=device), xp.cumsum(counts, axis=0)])
    plain = (starts[chosen, None] + xp.arange(k, device=device)).reshape(-1)
    within = xp.arange(len(shared.rows), device=device) - xp.searchsorted(shared.rows, shared.rows)
    tied = starts[shared.rows] + within

    def merged(settled_part: Any, shared_part: Any) -> Any:
        out = xp.empty(len(plain) + len(tied), dtype=shared_part.dtype, device=device)
        out[plain], out[tied] = settled_part, shared_part
        return out

    return (
        starts,
        merged(indices[chosen, :k].reshape(-1), shared.indices),
        merged(distances[chosen, :k].reshape(-1), shared.distances),
        merged(1.0, shared.shares),
        copies,
    )


def measured_graph(search: Search, norms: FloatVector, weights: Column, k: int, dtype: Any) -> NeighborGraph:
    """Graph of the k nearest others of each row on the host, from a search there and the norms of the rows."""
    n = len(norms)
    tolerance = tie_tolerance(float(np.sqrt(np.square(norms).mean())), dtype)
    starts, indices, distances, shares, copies = neighborhoods(search, spread(weights, n), n, k, tolerance)
    return NeighborGraph(starts, indices, distances, spread(shares, len(indices)), copies, measured=True)


def _settled(weights: Column, indices: Any, distances: Any, k: int, tolerance: Any) -> Any:
    """Mask of rows with exactly k neighbours: no copies among them, and a gap after the k-th."""
    n, width = indices.shape
    if width <= k or (isinstance(weights, float) and weights != 1.0):  # no (k + 1)-th neighbour, or no weight is 1
        return namespace(indices).zeros(n, dtype=bool, device=indices.device)
    settled = distances[:, k] - distances[:, k - 1] > tolerance
    if isinstance(weights, float):
        return settled
    single = weights == 1.0
    return settled if bool(single.all()) else settled & single & single[indices[:, :k]].all(axis=1)


def _shared_places(
    search: Search, found: tuple[Any, Any], weights: Column, rows: Any, n: int, k: int, tolerance: Any
) -> SharedPlaces:
    """Neighbours of rows with ties or copies among them; the search is widened until their ties are complete."""
    parts: list[SharedPlaces] = []
    indices, distances = found
    xp = namespace(indices)
    limit = widest(n, k)
    while True:
        width = indices.shape[1]
        held = xp.ones_like(distances) * at(weights, indices)
        places = xp.ones_like(distances[:, :1]) * (k - beside(own_copies(weights, k), rows))
        shares, whole = tied_shares(held, distances, places, tolerance, width >= limit)
        taken = (shares > 0) & whole[:, None]
        owners = xp.broadcast_to(rows[:, None], taken.shape)
        parts.append(SharedPlaces(owners[taken], indices[taken], distances[taken], shares[taken]))
        rows = rows[~whole]
        if len(rows) == 0:
            break
        indices, distances = search(min(2 * width, limit), rows)
    if len(parts) == 1:
        return parts[0]
    together = SharedPlaces(*(xp.concatenate(part) for part in zip(*parts, strict=True)))
    order = xp.argsort(together.rows, stable=True)
    return SharedPlaces(*(part[order] for part in together))


def tied_shares(held: Any, distances: Any, places: Any, tolerance: Any, last: bool) -> tuple[Any, Any]:
    """Share with which each neighbour counts, and a mask of the rows whose ties are complete.

    Parameters
    ----------
    held : array of shape (n, width)
        Weights of the neighbours.
    distances : array of shape (n, width)
        Ascending; infinite if a row has fewer neighbours.
    places : array of shape (n, 1)
        Places to be filled.
    tolerance : float
        Distances that differ by at most this are tied.
    last : bool
        Whether there are no more neighbours, so that the last group of ties is complete.
    """
    xp, width = namespace(held), held.shape[1]
    if width == 0:
        return held, xp.ones(len(held), dtype=bool, device=held.device)
    reached = xp.cumsum(held, axis=1)
    # Cumulative weight before a neighbour's group of ties, and at its end: both are propagated through the group.
    before, end = reached - held, xp.ones_like(reached) * reached
    for place in range(1, width):
        tied = ~(distances[:, place] - distances[:, place - 1] > tolerance)
        before[:, place] = xp.where(tied, before[:, place - 1], before[:, place])
    for place in range(width - 2, -1, -1):
        tied = ~(distances[:, place + 1] - distances[:, place] > tolerance)
        end[:, place] = xp.where(tied, end[:, place + 1], end[:, place])
    # The last group may be incomplete; unless there are no more rows, all places must be filled before it.
    whole = (before[:, -1:] >= places).all(axis=1) | last
    known = xp.isfinite(distances) & (end > before)
    shares = (places - before) / xp.where(known, end - before, 1.0)
    return xp.clip(xp.where(known, shares, 0.0), 0.0, 1.0), whole
