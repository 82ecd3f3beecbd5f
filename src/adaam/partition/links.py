"""Links of a neighbour graph: how many neighbour places two rows give each other."""

import numpy as np
from scipy.sparse import csr_array, diags_array

from adaam._typing import FloatVector
from adaam.engines import NeighborGraph


def neighbor_links(graph: NeighborGraph, weights: FloatVector) -> csr_array:
    """Count the neighbour places rows give each other, averaged over the two directions.

    Every row has the same number of places to give, whatever its distances, so dense and sparse regions count alike.

    Parameters
    ----------
    graph : NeighborGraph
        Neighbours of each distinct row.
    weights : array of shape (n,)
        How many coincident rows each row stands for; copies of a row link it to itself.

    Returns
    -------
    csr_array of shape (n, n)
        Symmetric and non-negative.
    """
    n = graph.n_rows
    given = graph.shares * weights[graph.rows()] * weights[graph.indices]
    directed = csr_array((given, graph.indices, graph.starts), shape=(n, n))
    links = (directed + directed.T) / 2
    if graph.copies.any():
        links = links + diags_array(np.asarray(weights * graph.copies))
    return csr_array(links)
