"""The pieces of a sparse graph and the few smallest eigenvectors of its Laplacian."""

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.linalg import Eigenpairs

# Lanczos needs room between the wanted pairs and the number of rows; below it the small matrix is solved whole.
FEWEST_ROWS = 64
ROWS_PER_PAIR = 4

# Error of an eigenvalue as a share of twice the largest degree. Vectors steer a graph that is rebuilt many times.
TOLERANCE = 1e-10


def graph_pieces(weights: csr_array) -> IntVector:
    """Number of the connected piece each row belongs to: 0 for the first row, then in order of first appearance."""
    _, piece = connected_components(weights, directed=False)
    _, first, piece = np.unique(piece, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[piece], dtype=np.intp)


def laplacian_eigenpairs(weights: csr_array, n_pairs: int) -> Eigenpairs:
    """Smallest eigenpairs of D - A for a symmetric, non-negative sparse A with row sums D.

    A graph of several pieces has the eigenvalue zero as many times, which Lanczos steps from one start vector see
    only through rounding. So the null space is written down (a constant on each piece) and the steps look for the
    pairs beyond it alone.

    Parameters
    ----------
    weights : csr_array of shape (n, n)
        The graph; its diagonal does not matter.
    n_pairs : int
        At most n.

    Returns
    -------
    Eigenpairs
        Values ascending, vectors orthonormal, the same from run to run. Where there are more pieces than `n_pairs`,
        the vectors are those of the largest pieces.
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
