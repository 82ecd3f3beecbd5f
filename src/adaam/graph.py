"""The nearest-neighbour graph: found, or taken from the caller, and the pieces it falls into."""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.sample import Sample

# Rows of weight below one fill a neighbourhood slowly; past this many times k neighbours it stays unfilled.
MAX_WIDENING = 16


class DisconnectedGraphWarning(UserWarning):
    """The neighbour graph falls into several pieces."""


@dataclass(frozen=True, slots=True)
class NeighborGraph:
    """Neighbours of each row in compressed rows: self excluded, nearest first.

    `shares` tells which part of a neighbour is taken: 1 but for those tied at the k-th place, who share what is left of
    it. `copies` counts the row's own copies among its neighbours. `measured` says that distances were found between the
    rows themselves, so that both directions of a pair have the same one.
    """

    starts: IntVector  # (n + 1,)
    indices: IntVector
    distances: FloatVector
    shares: FloatVector
    copies: FloatVector  # (n,)
    measured: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    def rows(self) -> IntVector:
        """Row that each neighbour entry belongs to."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.starts))

    def mean_distance(self, weights: FloatVector) -> float:
        """Mean of all neighbour distances, copies counted."""
        taken = self.shares
        if (weights != 1.0).any():
            taken = weights[self.rows()] * taken * weights[self.indices]
        total = taken.sum() + (weights * self.copies).sum()
        return float(taken @ self.distances / total) if total > 0 else 0.0


def neighbor_graph(sample: Sample, n_neighbors: int) -> NeighborGraph:
    """Find the k nearest others of each row; a row of weight w counts as w coincident rows.

    Rows equally far away share the places that are left for them, so that no tie is broken by chance: neither the
    order of rows nor the last bits of a distance decide who is a neighbour.
    """
    n, k = len(sample.weights), n_neighbors
    own = np.clip(sample.weights - 1.0, 0.0, k)
    # Two more than k: a pair tied at the last place, the everyday tie, is then seen whole.
    found = _search(sample, min(k + 2, _widest(sample, k)))
    tolerance = _tie_tolerance(sample)
    settled = _settled(sample.weights, found, k, tolerance)
    if settled.all():
        indices, distances = (part[:, :k].ravel() for part in found)
        return NeighborGraph(np.arange(n + 1) * k, indices, distances, np.ones(n * k), own, measured=True)

    indices, distances = (part[settled, :k].ravel() for part in found)
    shared = _shared_places(sample, found, np.flatnonzero(~settled), k, tolerance)
    counts = np.where(settled, k, 0) + np.bincount(shared.rows, minlength=n)
    starts = np.concatenate([[0], np.cumsum(counts)])
    plain = np.repeat(settled, counts)
    order = np.argsort(shared.rows, kind="stable")

    def merged(settled_part: FloatVector, shared_part: FloatVector) -> FloatVector:
        out = np.empty(len(plain), shared_part.dtype)
        out[plain], out[~plain] = settled_part, shared_part[order]
        return out

    return NeighborGraph(
        starts,
        merged(indices, shared.indices),
        merged(distances, shared.distances),
        merged(np.ones(len(indices)), shared.shares),
        own,
        measured=True,
    )


class _Entries(NamedTuple):
    """Some entries of a graph."""

    rows: IntVector
    indices: IntVector
    distances: FloatVector
    shares: FloatVector


def _settled(weights: FloatVector, found: tuple[Any, Any], k: int, tolerance: float) -> Any:
    """Rows that simply have k neighbours: no copies among them, and a gap behind the k-th."""
    indices, distances = found
    if indices.shape[1] <= k:  # there may be no row more than k to be tied with
        return np.zeros(len(weights), dtype=bool)
    settled = distances[:, k] - distances[:, k - 1] > tolerance
    if (weights != 1.0).any():
        settled &= (weights == 1.0) & (weights[indices[:, :k]] == 1.0).all(axis=1)
    return settled


def _shared_places(sample: Sample, found: tuple[Any, Any], rows: IntVector, k: int, tolerance: float) -> _Entries:
    """Neighbours of rows with ties or copies among them, looked for in widening searches until ties are seen whole."""
    parts: list[_Entries] = []
    indices, distances = (part[rows] for part in found)
    widest = _widest(sample, k)
    while True:
        width = indices.shape[1]
        places = (k - np.clip(sample.weights[rows] - 1.0, 0.0, k))[:, None]
        before, total = _tied_weights(sample.weights[indices], distances, tolerance)
        # The last group is seen whole only if there are no more rows; it must then not be needed.
        whole = (before[:, -1:] >= places).all(axis=1) | (width >= widest)
        shares = np.clip((places - before) / total, 0.0, 1.0)
        taken = (shares > 0) & whole[:, None]
        parts.append(_Entries(np.repeat(rows, taken.sum(axis=1)), indices[taken], distances[taken], shares[taken]))
        rows = rows[~whole]
        if len(rows) == 0:
            return _Entries(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        indices, distances = _search(sample, min(2 * width, widest), rows)


def _widest(sample: Sample, k: int) -> int:
    return min(len(sample.weights) - 1, MAX_WIDENING * k)


def _tied_weights(held: FloatMatrix, distances: FloatMatrix, tolerance: float) -> tuple[FloatMatrix, FloatMatrix]:
    """Weight nearer than each neighbour's group of ties, and weight of that group."""
    n, width = held.shape
    if width == 0:
        return held, held
    apart = np.diff(distances, axis=1) > tolerance
    place = np.arange(width)
    edge = np.ones((n, 1), dtype=bool)
    first = np.maximum.accumulate(np.where(np.hstack([edge, apart]), place, 0), axis=1)
    last = np.minimum.accumulate(np.where(np.hstack([apart, edge]), place, width)[:, ::-1], axis=1)[:, ::-1]
    reached = np.cumsum(held, axis=1)
    before = np.take_along_axis(reached - held, first, axis=1)
    return before, np.take_along_axis(reached, last, axis=1) - before


def _tie_tolerance(sample: Sample) -> float:
    """Differences of distances that are rounding: of each coordinate, and of the sums made from them in float64."""
    rms_length = np.sqrt((sample.engine.row_norms(sample.X) ** 2).mean())
    rounding = 2 * np.finfo(sample.X.dtype).eps + 64 * np.finfo(np.float64).eps
    return float(rounding * rms_length)


def _search(sample: Sample, width: int, rows: IntVector | None = None) -> tuple[Any, Any]:
    if width == 0:
        n_rows = len(sample.weights if rows is None else rows)
        return np.empty((n_rows, 0), np.intp), np.empty((n_rows, 0))
    return sample.engine.neighbors(sample.X, width, rows)


def given_graph(neighbors: Any, n_rows: int, n_neighbors: int) -> NeighborGraph:
    """Read a neighbour graph the caller computed.

    Parameters
    ----------
    neighbors : tuple, sparse array or fitted neighbours object
        (indices, distances), each of shape (n, k); or a sparse n x n array of distances, as `kneighbors_graph` and
        `KNeighborsTransformer` make it; or an object fitted on the same rows with scikit-learn's `kneighbors`.
    n_rows : int
        Number of rows of X.
    n_neighbors : int
        Asked of a fitted object; the other two forms bring their own number.
    """
    if issparse(neighbors):
        graph = csr_array(neighbors)
        if graph.shape != (n_rows, n_rows):
            raise ValueError(f"neighbors has shape {graph.shape}, but X has {n_rows} rows.")
        return _tidy(graph.indptr, graph.indices, graph.data, n_rows)
    if hasattr(neighbors, "kneighbors"):
        fitted_rows = getattr(neighbors, "n_samples_fit_", n_rows)
        if fitted_rows != n_rows:
            raise ValueError(
                f"neighbors was fitted on {fitted_rows} rows, but X has {n_rows}. Fit it on the same rows."
            )
        distances, indices = neighbors.kneighbors(n_neighbors=n_neighbors)
        return given_graph((indices, distances), n_rows, n_neighbors)
    if not (isinstance(neighbors, tuple | list) and len(neighbors) == 2):
        raise TypeError(
            f"neighbors={type(neighbors).__name__} is not a neighbour graph. Pass (indices, distances), a sparse "
            "array of distances, or a fitted object with kneighbors()."
        )
    indices, distances = np.asarray(neighbors[0]), np.asarray(neighbors[1], dtype=np.float64)
    if indices.ndim != 2 or indices.shape != distances.shape or len(indices) != n_rows:
        raise ValueError(
            f"neighbors holds indices of shape {indices.shape} and distances of shape {distances.shape}; "
            f"both must be ({n_rows}, k) for X of {n_rows} rows."
        )
    starts = np.arange(n_rows + 1) * indices.shape[1]
    return _tidy(starts, indices.ravel(), distances.ravel(), n_rows)


def _tidy(starts: IntVector, indices: IntVector, distances: FloatVector, n_rows: int) -> NeighborGraph:
    """Check a given graph, drop self entries and repeated ones (the nearest stays), and sort each row by distance."""
    if not np.issubdtype(indices.dtype, np.integer):
        raise TypeError(f"neighbors has indices of type {indices.dtype}; they must be integers.")
    if len(indices) and (indices.min() < 0 or indices.max() >= n_rows):
        raise ValueError(
            f"neighbors names row {indices.min() if indices.min() < 0 else indices.max()}, but rows are "
            f"0..{n_rows - 1}. Approximate searches mark missing neighbours by -1: ask them for higher accuracy."
        )
    if not (np.isfinite(distances).all() and (distances >= 0).all()):
        raise ValueError("neighbors holds distances that are negative or not finite.")
    rows = np.repeat(np.arange(n_rows), np.diff(starts))
    order = np.lexsort((distances, rows))
    order = order[rows[order] != indices[order]]
    _, first = np.unique(rows[order] * n_rows + indices[order], return_index=True)
    order = order[np.sort(first)]
    counts = np.bincount(rows[order], minlength=n_rows)
    new_starts = np.concatenate([[0], np.cumsum(counts)])
    found = indices[order].astype(np.intp)
    return NeighborGraph(new_starts, found, distances[order], np.ones(len(order)), np.zeros(n_rows))


def warn_if_disconnected(graph: NeighborGraph) -> int:
    """Count the connected pieces of the graph and warn with their sizes if there are several."""
    # In the precision and width of indices that SciPy works in, nothing is copied.
    entries = (graph.shares, graph.indices.astype(np.int32), graph.starts.astype(np.int32))
    edges = csr_array(entries, shape=(graph.n_rows, graph.n_rows))
    if _in_one_piece(edges):
        return 1
    n_pieces, piece = connected_components(edges, directed=False)
    if n_pieces > 1:
        sizes = np.sort(np.bincount(piece))[::-1]
        shown = ", ".join(str(size) for size in sizes[:8]) + (", ..." if n_pieces > 8 else "")
        warnings.warn(
            f"The neighbour graph falls into {n_pieces} pieces of {shown} distinct rows. The map stays well "
            "defined, but no neighbour edge links the pieces; a larger n_neighbors would join them.",
            DisconnectedGraphWarning,
            stacklevel=2,
        )
    return int(n_pieces)


def _in_one_piece(edges: csr_array) -> bool:
    """Whether each row is reached from the first along edges or points to one that is: everyday, and soon proven."""
    reached = np.zeros(edges.shape[0], dtype=bool)
    reached[breadth_first_order(edges, 0, return_predecessors=False)] = True
    rest = np.flatnonzero(~reached)
    return len(rest) == 0 or bool((edges[rest] @ reached.astype(np.float64) > 0).all())
