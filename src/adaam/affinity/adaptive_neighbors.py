"""Adaptive neighbours: rows of a probability graph in closed form, given squared distances."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.blocks import ordered_map, row_blocks

# Nie's code takes eigenvalue sums below this for zero; an edge this weak adds no more, so it links nothing.
WEAKEST_EDGE = 1e-11

BLOCK_BYTES = 1 << 25  # memory for the distances of one block of rows to all others


class NearestRows(NamedTuple):
    """A graph with exactly k neighbours a row, and the regularisation of each row that makes it so."""

    weights: FloatMatrix  # (n, k)
    gammas: FloatVector  # (n,)


def nearest_rows(squared_distances: FloatMatrix) -> NearestRows:
    """Weigh the k nearest neighbours so that the (k+1)-th is the first to get nothing.

    s_j = (d_{k+1} - d_j) / (k d_{k+1} - sum of d_1..d_k), which solves the row problem for
    gamma = (k d_{k+1} - sum of d_1..d_k) / 2.

    Parameters
    ----------
    squared_distances : array of shape (n, k + 1)
        To the k + 1 nearest others, ascending.

    Returns
    -------
    NearestRows
        Weights non-negative, each row of sum 1; uniform where all k + 1 are equally far.
    """
    k = squared_distances.shape[1] - 1
    gaps = squared_distances[:, k:] - squared_distances[:, :k]
    total = gaps.sum(axis=1)
    level = total == 0
    weights = np.where(level[:, None], 1.0 / k, gaps / np.where(level, 1.0, total)[:, None])
    return NearestRows(weights, total / 2)


def simplex_rows(squared_distances: FloatMatrix, gamma: float) -> FloatMatrix:
    """Minimise sum_j (d_j s_j + gamma s_j²) over the probability simplex, row by row.

    The minimiser is s_j = max(0, t - d_j) / (2 gamma) with t such that the row sums to 1: the projection of
    -d / (2 gamma) onto the simplex.

    Parameters
    ----------
    squared_distances : array of shape (r, m)
        Each row ascending.
    gamma : float
        Non-negative; at 0 the nearest share the row equally.

    Returns
    -------
    array of shape (r, m)
        Non-negative rows of sum 1, descending.
    """
    # Counted from the nearest, a small gamma is not lost beside large distances.
    beyond = squared_distances - squared_distances[:, :1]
    reach = (2.0 * gamma + np.cumsum(beyond, axis=1)) / np.arange(1, beyond.shape[1] + 1)
    n_taken = np.count_nonzero(reach > beyond, axis=1)
    reach = reach[np.arange(len(reach)), np.maximum(n_taken, 1) - 1]
    # Nothing reaches beyond the nearest when gamma is 0 or lost in rounding.
    weights = np.where((n_taken > 0)[:, None], np.maximum(reach[:, None] - beyond, 0.0), beyond == 0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def neighbors_among(candidates: IntMatrix, squared_distances: FloatMatrix, gamma: float) -> csr_array:
    """Rows that spread over given candidates alone; all arrays of shape (n, k)."""
    order = np.argsort(squared_distances, axis=1, kind="stable")
    weights = simplex_rows(np.take_along_axis(squared_distances, order, axis=1), gamma)
    return _graph(np.take_along_axis(candidates, order, axis=1), weights, len(candidates))


def neighbors_among_all(Y: FloatMatrix, gamma: float, *, n_candidates: int = 64) -> csr_array:
    """Rows that spread over all rows, themselves included, by squared distance between the rows of Y.

    Exact without an n x n array: the neighbours of a row are its nearest rows, so the m nearest hold them all as soon
    as the row's reach stops short of the next one; rows where it does not are looked at again with twice as many.

    Parameters
    ----------
    Y : array of shape (n, r)
        Coordinates in float64.
    gamma : float
        Regularisation; larger spreads wider.
    n_candidates : int, default=64
        Nearest rows looked at first; affects speed alone.

    Returns
    -------
    csr_array of shape (n, n)
        Non-negative rows of sum 1 up to the weakest edges, which are left out; not symmetric.
    """
    squares = np.einsum("ij,ij->i", Y, Y)
    # Distances below the rounding of the product are zero: coincident rows must coincide.
    floor = 32 * float(np.finfo(np.float64).eps) * float(squares.max())

    def block_graph(rows: slice) -> csr_array:
        distances = squares[rows, None] + squares - 2.0 * (Y[rows] @ Y.T)
        distances[distances < floor] = 0.0
        return _spread(distances, gamma, n_candidates)

    height = max(1, BLOCK_BYTES // (8 * len(Y)))
    return csr_array(vstack(list(ordered_map(block_graph, row_blocks(len(Y), height)))))


def _spread(distances: FloatMatrix, gamma: float, n_candidates: int) -> csr_array:
    """Rows of the graph for a block of squared distances to all n rows."""
    n = distances.shape[1]
    parts: list[csr_array] = []
    done: list[IntVector] = []
    pending = np.arange(len(distances))
    width = n_candidates
    while len(pending):
        near = distances[pending]
        columns = (
            np.argpartition(near, width, axis=1)[:, : width + 1]
            if width < n - 1
            else np.broadcast_to(np.arange(n), near.shape)
        )
        near = np.take_along_axis(near, columns, axis=1)
        order = np.argsort(near, axis=1, kind="stable")
        weights = simplex_rows(np.take_along_axis(near, order, axis=1), gamma)
        # A last candidate that gets nothing proves that no farther row would get anything.
        complete = (weights[:, -1] == 0) | (width >= n - 1)
        found = _graph(np.take_along_axis(columns, order, axis=1)[complete], weights[complete], n)
        parts.append(found)
        done.append(pending[complete])
        pending = pending[~complete]
        width *= 2
    return csr_array(vstack(parts))[np.argsort(np.concatenate(done))]


def _graph(columns: IntMatrix, weights: FloatMatrix, n_columns: int) -> csr_array:
    """Sparse rows from columns and weights of equal shape, the weakest edges left out."""
    kept = weights > WEAKEST_EDGE
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    graph = csr_array((weights[kept], columns[kept], starts), shape=(len(columns), n_columns))
    graph.sort_indices()
    return graph
