"""A graph of exactly c connected pieces, learned together with the spectral vectors that pull it apart."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.affinity.adaptive_neighbors import nearest_rows, neighbors_among, neighbors_among_all
from adaam.affinity.values import SparseAffinity, laplacian_gram
from adaam.linalg import Eigenpairs, smallest_eigenpairs, unit_columns
from adaam.sample import Sample
from adaam.spectrum import graph_pieces, laplacian_eigenpairs

# Told after each iteration: its number, the penalty it used, the pieces it found.
Report = Callable[[int, float, int], None]


@dataclass(frozen=True, slots=True)
class ClusteredGraph:
    """The last graph of the alternation, the piece of each row, and what was spent on it."""

    weights: csr_array  # symmetric, (n, n)
    pieces: IntVector  # (n,)
    n_pieces: int
    penalty: float
    n_iter: int


@dataclass(frozen=True, slots=True)
class Start:
    """The graph of k nearest neighbours the alternation starts from, and the gamma that goes with it."""

    indices: IntMatrix  # (n, k)
    squared_distances: FloatMatrix  # (n, k)
    weights: csr_array  # symmetric, (n, n)
    gamma: float

    def penalty(self) -> float:
        """Where the penalty starts: at gamma; where that is zero (k + 1 nearest all equally far), at any scale."""
        return self.gamma or float(self.squared_distances.mean()) or 1.0


def nearest_start(sample: Sample, n_neighbors: int) -> Start:
    """Graph of exactly k neighbours a row and the mean of the rows' gammas."""
    n, k = sample.n_rows, n_neighbors
    indices, distances = sample.engine.neighbors(sample.X, min(k + 1, n - 1))
    squared = distances**2
    if squared.shape[1] == k:
        # There is no row beyond the k-th; it stands for the next one itself.
        squared = np.hstack([squared, squared[:, -1:]])
    nearest = nearest_rows(squared)
    directed = csr_array((nearest.weights.ravel(), indices[:, :k].ravel(), np.arange(n + 1) * k), shape=(n, n))
    return Start(indices[:, :k], squared[:, :k], mean_of_directions(directed), float(nearest.gammas.mean()))


def mean_of_directions(directed: csr_array) -> csr_array:
    """(S + S') / 2."""
    return csr_array((directed + directed.T) / 2)


def can_graph(sample: Sample, n_clusters: int, n_neighbors: int, max_iter: int, report: Report) -> ClusteredGraph:
    """Clustering with adaptive neighbours: rows spread over their k nearest neighbours."""
    start = nearest_start(sample, n_neighbors)

    def rebuild(_: csr_array, F: FloatMatrix, penalty: float) -> csr_array:
        apart = np.column_stack([_squared_lengths(F - F[near]) for near in start.indices.T])
        return neighbors_among(start.indices, start.squared_distances + penalty * apart, start.gamma)

    return alternate(start.weights, rebuild, n_clusters, start.penalty(), max_iter, report)


def pcan_graph(
    sample: Sample, n_clusters: int, n_components: int, n_neighbors: int, max_iter: int, report: Report
) -> tuple[ClusteredGraph, Eigenpairs]:
    """Projected clustering with adaptive neighbours: rows spread over all rows, by distance in a learned projection.

    Returns
    -------
    graph : ClusteredGraph
        The last graph.
    projection : Eigenpairs
        The projection learned from it; columns have unit length.
    """
    start = nearest_start(sample, n_neighbors)
    scatter = sample.gram()
    X, engine, n = sample.X, sample.engine, sample.n_rows

    def projection(weights: csr_array) -> Eigenpairs:
        roughness = laplacian_gram(SparseAffinity(weights, engine), X, engine)
        pairs = smallest_eigenpairs(roughness, scatter, n_components, n)
        # Columns orthonormal under the scatter, as the paper writes, shrink distances to 1/n of those gamma was taken
        # from, and the graph would fill up; the authors' code has unit columns.
        return Eigenpairs(pairs.values, unit_columns(pairs.vectors))

    def rebuild(weights: csr_array, F: FloatMatrix, penalty: float) -> csr_array:
        Z = engine.project(X, 1.0, np.zeros(X.shape[1]), projection(weights).vectors.T)
        Y = np.hstack([np.asarray(engine.to_host(Z), np.float64), np.sqrt(penalty) * F])
        # The last graph tells how many neighbours the next one will have.
        return neighbors_among_all(Y, start.gamma, n_candidates=max(64, weights.nnz // n))

    graph = alternate(start.weights, rebuild, n_clusters, start.penalty(), max_iter, report)
    return graph, projection(graph.weights)


def alternate(
    weights: csr_array,
    rebuild: Callable[[csr_array, FloatMatrix, float], csr_array],
    n_clusters: int,
    penalty: float,
    max_iter: int,
    report: Report,
) -> ClusteredGraph:
    """Rebuild the graph from its own spectral vectors until it has exactly c pieces.

    The penalty on distances between spectral vectors is doubled while pieces are too few and halved while they are
    too many. The authors count the zero eigenvalues of the Laplacian, with a tolerance; they are as many as the pieces.

    Parameters
    ----------
    weights : csr_array of shape (n, n)
        Symmetric graph to start from.
    rebuild : callable
        From (last graph, spectral vectors F, penalty) to the rows of the next graph.
    n_clusters : int
        Pieces wanted, and columns of F.
    penalty : float
        Positive.
    max_iter : int
        Graphs built at most.
    report : callable
        Told of each iteration.
    """
    F = laplacian_eigenpairs(weights, n_clusters).vectors
    n_iter = 0
    while True:
        n_iter += 1
        weights = mean_of_directions(rebuild(weights, F, penalty))
        pieces = graph_pieces(weights)
        n_pieces = int(pieces.max()) + 1
        report(n_iter, penalty, n_pieces)
        if n_pieces == n_clusters or n_iter == max_iter:
            return ClusteredGraph(weights, pieces, n_pieces, penalty, n_iter)
        if n_pieces < n_clusters:
            penalty *= 2
            F = laplacian_eigenpairs(weights, n_clusters).vectors
        else:
            # The vectors of too many pieces would keep them apart, so the last good ones stay.
            penalty /= 2


def _squared_lengths(rows: FloatMatrix) -> FloatVector:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
