"""The graph of CAN and PCAN: adaptive neighbours, and exactly c connected pieces.

Rows are probabilities in closed form, given squared distances. The graph is learned together with the smallest
eigenvectors of its Laplacian, which pull its pieces apart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array, diags_array, vstack
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.affinity.values import SparseAffinity, laplacian_gram
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.linalg import Eigenpairs, Projection, unit_columns, whitened_eigenpairs, whitening
from adaam.prepare import Sample

# Nie's code takes eigenvalue sums below this for zero; an edge this weak adds no more, so it links nothing.
WEAKEST_EDGE = 1e-11
BLOCK_BYTES = 1 << 25  # memory for the distances of one block of rows to all others

# Lanczos needs room between the wanted pairs and the number of rows; below it the small matrix is solved whole.
FEWEST_ROWS = 64
ROWS_PER_PAIR = 4

# Error of an eigenvalue as a share of twice the largest degree. Vectors steer a graph that is rebuilt many times.
TOLERANCE = 1e-10


def simplex_rows(squared_distances: FloatMatrix, gamma: Any) -> FloatMatrix:
    """Minimise sum_j (d_j s_j + gamma s_j²) over the probability simplex, row by row; each row of d ascends.

    The minimiser is s_j = max(0, t - d_j) / (2 gamma) with t such that the row sums to 1: the projection of
    -d / (2 gamma) onto the simplex. With a gamma of 0 the nearest share the row equally. Gamma is one number,
    or a column with one for each row.
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
    Rows are non-negative, of sum 1 up to the weakest edges, which are left out; the graph is not symmetric.
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
    width = min(n_candidates + 1, n)
    columns = np.argpartition(distances, width - 1, axis=1)[:, :width]
    near = np.take_along_axis(distances, columns, axis=1)
    order = np.argsort(near, axis=1, kind="stable")
    weights = simplex_rows(np.take_along_axis(near, order, axis=1), gamma)
    graph = _graph(np.take_along_axis(columns, order, axis=1), weights, n)
    # A last candidate that gets nothing proves that no farther row would get anything.
    cut_short = np.flatnonzero(weights[:, -1] > 0)
    if width == n or len(cut_short) == 0:
        return graph
    place = np.arange(len(distances))
    place[cut_short] = len(distances) + np.arange(len(cut_short))
    return csr_array(vstack([graph, _spread(distances[cut_short], gamma, 2 * n_candidates)]))[place]


def _graph(columns: IntMatrix, weights: FloatMatrix, n_columns: int) -> csr_array:
    """Sparse rows from columns and weights of equal shape, the weakest edges left out."""
    kept = weights > WEAKEST_EDGE
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    graph = csr_array((weights[kept], columns[kept], starts), shape=(len(columns), n_columns))
    graph.sort_indices()
    return graph


class Search(NamedTuple):
    """What CAN and PCAN are told; `report` hears of each iteration: its number, the penalty it used, its pieces."""

    n_clusters: int
    n_neighbors: int
    max_iter: int
    report: Callable[[int, float, int], None]


@dataclass(frozen=True, slots=True)
class ClusteredGraph:
    """The last graph of the alternation, the piece of each row, and what was spent on it."""

    weights: csr_array  # symmetric, (n, n)
    pieces: IntVector  # (n,)
    n_pieces: int
    n_iter: int


@dataclass(frozen=True, slots=True)
class Start:
    """The graph of k nearest neighbours the alternation starts from, and the gamma that goes with it."""

    indices: IntMatrix  # (n, k)
    squared_distances: FloatMatrix  # (n, k)
    weights: csr_array  # symmetric, (n, n)
    gamma: float


def nearest_start(sample: Sample, k: int) -> Start:
    """Graph of exactly k neighbours a row and the mean of the rows' gammas.

    A row's own gamma is the one for which the (k+1)-th nearest is the first to get nothing,
    (k d_{k+1} - sum of d_1..d_k) / 2: then s_j = (d_{k+1} - d_j) / (2 gamma).
    """
    n = sample.n_rows
    width = min(k + 1, n - 1)
    graph = sample.engine.neighbor_graph(sample.X, width, 1.0).host()
    nearest = graph.starts[:-1, None] + np.arange(width)  # of rows tied at the last place, the first ones
    indices, squared = graph.indices[nearest], graph.distances[nearest] ** 2
    # Where there is no row beyond the k-th, it stands for the next one itself.
    near, beyond = squared[:, :k], squared[:, -1:]
    gammas = (beyond - near).sum(axis=1, keepdims=True) / 2
    weights = simplex_rows(near, gammas)
    directed = csr_array((weights.ravel(), indices[:, :k].ravel(), np.arange(n + 1) * k), shape=(n, n))
    return Start(indices[:, :k], near, mean_of_directions(directed), float(gammas.mean()))


def mean_of_directions(directed: csr_array) -> csr_array:
    """(S + S') / 2."""
    return csr_array((directed + directed.T) / 2)


def can_graph(sample: Sample, search: Search) -> ClusteredGraph:
    """Clustering with adaptive neighbours: rows spread over their k nearest neighbours."""
    start = nearest_start(sample, search.n_neighbors)

    def rebuild(_: csr_array, F: FloatMatrix, penalty: float) -> csr_array:
        apart = np.column_stack([np.square(F - F[near]).sum(axis=1) for near in start.indices.T])
        return neighbors_among(start.indices, start.squared_distances + penalty * apart, start.gamma)

    return alternate(start, rebuild, search)


def pcan_graph(sample: Sample, n_components: int, search: Search) -> tuple[ClusteredGraph, Projection]:
    """Projected clustering with adaptive neighbours: rows spread over all rows, by distance in a learned projection.

    The projection comes with the last graph, which it is learned from; its components have unit length.
    """
    start = nearest_start(sample, search.n_neighbors)
    X, engine, n = sample.X, sample.engine, sample.n_rows
    white = whitening(sample.gram, n)

    def projection(weights: csr_array) -> Projection:
        roughness = laplacian_gram(SparseAffinity(weights, engine), X, engine)
        pairs = whitened_eigenpairs(roughness, white, n_components)
        # Components orthonormal under the scatter, as the paper writes, shrink distances to 1/n of those that gamma was
        # taken from, and the graph would fill up; those of the authors' code have unit length.
        return Projection(np.ascontiguousarray(unit_columns(pairs.vectors).T), pairs.values)

    def rebuild(weights: csr_array, F: FloatMatrix, penalty: float) -> csr_array:
        Z = engine.project(X, 1.0, np.zeros(X.shape[1]), projection(weights).components)
        Y = np.hstack([np.asarray(engine.to_host(Z), np.float64), np.sqrt(penalty) * F])
        # The last graph tells how many neighbours the next one will have.
        return neighbors_among_all(Y, start.gamma, n_candidates=max(64, weights.nnz // n))

    graph = alternate(start, rebuild, search)
    return graph, projection(graph.weights)


def alternate(
    start: Start, rebuild: Callable[[csr_array, FloatMatrix, float], csr_array], search: Search
) -> ClusteredGraph:
    """Rebuild a symmetric graph from its own spectral vectors until it has exactly c pieces.

    `rebuild` turns the last graph, c spectral vectors and the penalty on distances between them into the rows of the
    next graph. The penalty is doubled while pieces are too few and halved while they are too many. The authors count
    the zero eigenvalues of the Laplacian, with a tolerance; they are as many as the pieces.
    """
    weights, n_clusters = start.weights, search.n_clusters
    # Where gamma is zero (k + 1 nearest all equally far), the penalty starts at any scale.
    penalty = start.gamma or float(start.squared_distances.mean()) or 1.0
    F = laplacian_eigenpairs(weights, n_clusters).vectors
    for n_iter in count(1):
        weights = mean_of_directions(rebuild(weights, F, penalty))
        pieces = graph_pieces(weights)
        n_pieces = int(pieces.max()) + 1
        search.report(n_iter, penalty, n_pieces)
        if n_pieces == n_clusters or n_iter == search.max_iter:
            break
        if n_pieces < n_clusters:
            penalty *= 2
            F = laplacian_eigenpairs(weights, n_clusters).vectors
        else:
            # The vectors of too many pieces would keep them apart, so the last good ones stay.
            penalty /= 2
    return ClusteredGraph(weights, pieces, n_pieces, n_iter)


def graph_pieces(weights: csr_array) -> IntVector:
    """Number of the connected piece each row belongs to: 0 for the first row, then in order of first appearance."""
    _, piece = connected_components(weights, directed=False)
    _, first, piece = np.unique(piece, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[piece], dtype=np.intp)


def laplacian_eigenpairs(weights: csr_array, n_pairs: int) -> Eigenpairs:
    """Smallest eigenpairs of D - A for a symmetric, non-negative sparse A with row sums D.

    A graph of several pieces has the eigenvalue zero as many times, which Lanczos steps from one start vector see
    only through rounding. So the null space is written down (a constant on each piece) and the steps look for the
    pairs beyond it alone. Where there are more pieces than `n_pairs`, the vectors are those of the largest pieces.
    """
    piece = graph_pieces(weights)
    sizes = np.bincount(piece)
    largest = np.argsort(-sizes, kind="stable")[:n_pairs]
    constant = (piece[:, None] == largest) / np.sqrt(sizes[largest])
    n_missing = n_pairs - len(largest)
    if n_missing == 0:
        return Eigenpairs(np.zeros(n_pairs), constant)
    beyond = _pairs_beyond_pieces(weights, piece, sizes, n_missing)
    values = np.concatenate([np.zeros(len(largest)), np.maximum(beyond.values, 0.0)])
    return Eigenpairs(values, np.hstack([constant, beyond.vectors]))


def _pairs_beyond_pieces(weights: csr_array, piece: IntVector, sizes: IntVector, n_pairs: int) -> Eigenpairs:
    """Smallest eigenpairs orthogonal to the constants on the pieces."""
    n = weights.shape[0]
    degrees = np.asarray(weights.sum(axis=1)).ravel()
    # No eigenvalue exceeds twice the largest degree. Counted down from there, the smallest are the largest, and the
    # constants, moved to the far end, stay out of the way.
    bound = 2.0 * float((degrees - weights.diagonal()).max())
    if n <= max(FEWEST_ROWS, ROWS_PER_PAIR * n_pairs):
        same = (piece[:, None] == piece) / sizes[piece]
        values, vectors = eigh((diags_array(degrees) - weights).toarray() + 2.0 * bound * same)
        return Eigenpairs(values[:n_pairs], vectors[:, :n_pairs])

    def without_constants(v: FloatVector) -> FloatVector:
        return np.asarray(v - (np.bincount(piece, v) / sizes)[piece])

    def multiply(v: FloatVector) -> FloatVector:
        u = without_constants(v.ravel())
        return without_constants(bound * u - degrees * u + weights @ u)

    operator = LinearOperator((n, n), matvec=multiply, dtype=np.float64)
    # A fixed start makes the result the same from run to run.
    start = without_constants(np.random.default_rng(0).standard_normal(n))
    n_steps = min(n, max(4 * n_pairs, 48))
    values, vectors = eigsh(operator, k=n_pairs, ncv=n_steps, v0=start, tol=TOLERANCE, maxiter=100 * n, which="LA")
    order = np.argsort(-values, kind="stable")
    found: FloatMatrix = vectors[:, order]
    return Eigenpairs(bound - values[order], found)
