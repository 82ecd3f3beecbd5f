"""Diffusion coordinates: where a walk along the links is likely to be, after some steps."""

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import LinearOperator, eigsh

from adaam._typing import FloatMatrix, FloatVector
from adaam.linalg import Eigenpairs
from adaam.spectrum import FEWEST_ROWS, ROWS_PER_PAIR, graph_pieces

# Error of an eigenvalue, all of which are at most 1: within what float32 holds, and Lanczos steps take half the time.
TOLERANCE = 1e-6


def diffusion_coordinates(links: csr_array, n_vectors: int, n_steps: float) -> FloatMatrix:
    """Coordinates of rows after a walk of `n_steps` along the links, each row scaled to unit length.

    The leading eigenvectors of the links, scaled by degrees on both sides, each weighted by its eigenvalue to the
    power `n_steps` (Coifman, Lafon 2006), and rows brought to unit length (Ng, Jordan, Weiss 2001). Slow directions
    keep their weight, fast ones fade, so the number of vectors need not be known well.
    """
    pairs = walk_eigenpairs(links, min(n_vectors, links.shape[0]))
    coordinates = pairs.vectors * np.clip(pairs.values, 0.0, 1.0) ** n_steps
    lengths = np.linalg.norm(coordinates, axis=1, keepdims=True)
    return np.asarray(coordinates / np.where(lengths > 0, lengths, 1.0))


def walk_eigenpairs(links: csr_array, n_pairs: int) -> Eigenpairs:
    """Largest eigenpairs of D^-1/2 W D^-1/2 for symmetric links W of degrees D, values descending.

    A graph of several pieces has the eigenvalue 1 as many times; those vectors are written down (see
    `laplacian_eigenpairs`), the largest pieces first, and Lanczos steps look for the others alone.
    """
    degrees = np.asarray(links.sum(axis=1)).ravel()
    root = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    walk = diags_array(1.0 / root) @ links @ diags_array(1.0 / root)
    piece = graph_pieces(links)
    masses = np.bincount(piece, root**2)
    largest = np.argsort(-masses, kind="stable")[:n_pairs]
    still = (piece[:, None] == largest) * (root[:, None] / np.sqrt(masses[largest]))
    n_missing = n_pairs - len(largest)
    if n_missing == 0:
        return Eigenpairs(np.ones(n_pairs), still)
    moving = _moving_eigenpairs(csr_array(walk), still, n_missing)
    return Eigenpairs(np.concatenate([np.ones(len(largest)), moving.values]), np.hstack([still, moving.vectors]))


def _moving_eigenpairs(walk: csr_array, still: FloatMatrix, n_pairs: int) -> Eigenpairs:
    """Largest eigenpairs orthogonal to the vectors of the pieces."""
    n = walk.shape[0]
    if n <= max(FEWEST_ROWS, ROWS_PER_PAIR * n_pairs):
        values, vectors = eigh(walk.toarray() - 3.0 * still @ still.T)
        return Eigenpairs(values[::-1][:n_pairs], vectors[:, ::-1][:, :n_pairs])

    walk, still = walk.astype(np.float32), still.astype(np.float32)

    def multiply(v: FloatVector) -> FloatVector:
        v = v.ravel()
        # No eigenvalue is below -1, so the vectors of the pieces, at -2, are the last to be found.
        return np.asarray(walk @ v - np.float32(3.0) * (still @ (still.T @ v)))

    operator = LinearOperator((n, n), matvec=multiply, dtype=np.float32)
    # A fixed start makes the result the same from run to run.
    start = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    values, vectors = eigsh(operator, k=n_pairs, v0=start, tol=TOLERANCE, which="LA", maxiter=100 * n)
    order = np.argsort(-values, kind="stable")
    return Eigenpairs(values[order].astype(np.float64), vectors[:, order].astype(np.float64))
