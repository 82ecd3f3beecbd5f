"""Pairs of rows beyond the neighbour graph: their distances, and the affinity that chosen ones make."""

import numpy as np
from scipy.sparse import csr_array, diags_array, triu

from adaam._typing import BoolArray, FloatMatrix, FloatVector, IntVector
from adaam.affinity.heat import HeatKernel, linked_share
from adaam.affinity.values import SparseAffinity
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.neighbors.graph import NeighborGraph
from adaam.sample import Sample

# Memory for the temporaries of one thread, as the engines have it.
BLOCK_BYTES = 1 << 25


def pair_distances(X: FloatMatrix, rows: IntVector, columns: IntVector) -> FloatVector:
    """Euclidean distance of each pair of rows, from differences: coincident rows are at distance 0."""
    distances = np.empty(len(rows))

    def measure(pairs: slice) -> None:
        difference = np.asarray(X[rows[pairs]], np.float64) - X[columns[pairs]]
        distances[pairs] = np.sqrt(np.einsum("ij,ij->i", difference, difference))

    blocks = row_blocks(len(rows), max(16, BLOCK_BYTES // (24 * max(1, X.shape[1]))))
    for _ in ordered_map(measure, blocks):
        pass
    return distances


def edge_affinity(
    sample: Sample, graph: NeighborGraph, taken: csr_array, own: BoolArray, heat: HeatKernel
) -> SparseAffinity:
    """Heat weights on chosen edges, both directions; a row left without any keeps its nearest neighbours.

    Parameters
    ----------
    sample : Sample
        Rows and their weights.
    graph : NeighborGraph
        Sets the bandwidth, and names the nearest neighbours (more than one where they are equally near).
    taken : csr_array of shape (n, n)
        Entry (i, j): the share of j that row i takes, as in a `NeighborGraph`; zero diagonal.
    own : array of bool of shape (n,)
        Rows whose copies are linked among themselves.
    heat : HeatKernel
        Weights of the edges.

    Returns
    -------
    SparseAffinity
        Symmetric and non-negative. Its diagonal is zero but for rows that stand for several copies.
    """
    n, weights = graph.n_rows, sample.weights
    alone = (linked_share(taken).sum(axis=1) == 0) & ~(own & (graph.copies > 0))
    nearest = _nearest_entries(graph, alone & (graph.copies == 0))
    kept = csr_array((graph.shares[nearest], (graph.rows()[nearest], graph.indices[nearest])), shape=(n, n))

    upper = triu(linked_share(csr_array(taken + kept)), k=1, format="coo")
    rows, columns = upper.row, upper.col
    distances = pair_distances(sample.engine.to_host(sample.X), rows, columns)
    values = heat.fitted(graph, weights).weights(rows, columns, distances)
    half = csr_array((values * upper.data * weights[rows] * weights[columns], (rows, columns)), shape=(n, n))
    diagonal = np.where(own | alone, weights * graph.copies, 0.0)
    return SparseAffinity(csr_array(half + half.T + diags_array(diagonal)), sample.engine)


def _nearest_entries(graph: NeighborGraph, wanted: BoolArray) -> IntVector:
    """Entries of the graph that hold the nearest neighbours of the wanted rows, all of them on a tie."""
    rows = graph.rows()
    nearest = np.full(graph.n_rows, np.inf)
    np.minimum.at(nearest, rows, graph.distances)
    return np.flatnonzero(wanted[rows] & (graph.distances == nearest[rows]))
