"""The nearest-neighbour graph: found, or taken from the caller, and the pieces it falls into."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.sparse.csgraph import connected_components

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
    it. `copies` counts the row's own copies among its neighbours.
    """

    starts: IntVector  # (n + 1,)
    indices: IntVector
    distances: FloatVector
    shares: FloatVector
    copies: FloatVector  # (n,)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    def rows(self) -> IntVector:
        """Row that each neighbour entry belongs to."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.starts))

    def mean_distance(self, weights: FloatVector) -> float:
        """Mean of all neighbour distances, copies counted."""
        rows = self.rows()
        taken = weights[rows] * self.shares * weights[self.indices]
        total = taken.sum() + (weights * self.copies).sum()
        return float((taken * self.distances).sum() / total) if total > 0 else 0.0


def neighbor_graph(sample: Sample, n_neighbors: int) -> NeighborGraph:
    """Find the k nearest others of each row; a row of weight w counts as w coincident rows.

    Rows equally far away share the places that are left for them, so that no tie is broken by chance: neither the
    order of rows nor the last bits of a distance decide who is a neighbour.
    """
    n, k = len(sample.weights), n_neighbors
    own = np.clip(sample.weights - 1.0, 0.0, k)
    places = (k - own)[:, None]
    widest = min(n - 1, MAX_WIDENING * k)
    width = min(k + 1, widest)
    while True:
        indices, distances = _search(sample, width)
        held = sample.weights[indices]
        before, total = _tied_weights(held, distances, _tie_tolerance(sample))
        # The last group is seen whole only if there are no more rows; it must then not be needed.
        needed = (before[:, -1:] < places) if width else np.zeros((n, 0), bool)
        if width >= widest or not needed.any():
            break
        width = min(2 * width, widest)
    shares = np.clip((places - before) / total, 0.0, 1.0)
    taken = shares > 0
    starts = np.concatenate([[0], np.cumsum(taken.sum(axis=1))])
    return NeighborGraph(starts, indices[taken], distances[taken], shares[taken], own)


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
    """Differences of distances that are rounding: a few last bits of a typical row's length."""
    rms_length = np.sqrt((sample.engine.row_norms(sample.X) ** 2).mean())
    return float(64 * np.finfo(sample.X.dtype).eps * rms_length)


def _search(sample: Sample, width: int) -> tuple[Any, Any]:
    if width == 0:
        return np.empty((len(sample.weights), 0), np.intp), np.empty((len(sample.weights), 0))
    return sample.engine.neighbors(sample.X, width)


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
    """Check a given graph, drop self entries and sort each row by distance."""
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
    counts = np.bincount(rows[order], minlength=n_rows)
    new_starts = np.concatenate([[0], np.cumsum(counts)])
    found = indices[order].astype(np.intp)
    return NeighborGraph(new_starts, found, distances[order], np.ones(len(order)), np.zeros(n_rows))


def warn_if_disconnected(graph: NeighborGraph) -> int:
    """Count the connected pieces of the graph and warn with their sizes if there are several."""
    entries = (np.ones(len(graph.indices), np.int8), graph.indices, graph.starts)
    n_pieces, piece = connected_components(csr_array(entries, shape=(graph.n_rows, graph.n_rows)), directed=False)
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
