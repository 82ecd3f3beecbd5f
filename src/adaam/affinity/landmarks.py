"""Landmarks: each row as a few weights on nearby landmarks, and the spectrum of the graph they imply."""

import warnings

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse, vstack
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances

from adaam._typing import FloatMatrix, Tall
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.equal_rows import first_equal
from adaam.linalg import range_eigenpairs

BLOCK_BYTES = 1 << 25  # memory for the distances of one block of rows to all landmarks

# Centres need only cover the rows, not settle; the authors' code runs this many iterations too.
KMEANS_ITERATIONS = 5


def sampled_landmarks(X: Tall, n_landmarks: int, rng: np.random.Generator) -> FloatMatrix:
    """Draw distinct rows of X, all of them where there are no more."""
    chosen = np.sort(rng.permutation(np.unique(first_equal(X)))[:n_landmarks])
    return np.asarray(X[chosen].toarray() if issparse(X) else X[chosen])


def kmeans_landmarks(X: Tall, n_landmarks: int, rng: np.random.Generator) -> FloatMatrix:
    """Centres of a few k-means iterations from rows drawn at random."""
    start = sampled_landmarks(X, n_landmarks, rng)
    if len(start) < n_landmarks:
        return start
    with warnings.catch_warnings():
        # A centre left without rows is a landmark that nothing is near to, and harmless.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = KMeans(len(start), init=start, n_init=1, max_iter=KMEANS_ITERATIONS).fit(X)
    return np.asarray(search.cluster_centers_)


def mean_distance(X: Tall, landmarks: FloatMatrix, *, squared: bool) -> float:
    """Mean (squared) Euclidean distance from all rows to all landmarks."""

    def total(rows: slice) -> float:
        return float(euclidean_distances(X[rows], landmarks, squared=squared).sum(dtype=np.float64))

    return float(sum(ordered_map(total, _blocks(X, landmarks))) / (X.shape[0] * len(landmarks)))


def landmark_weights(X: Tall, landmarks: FloatMatrix, n_nearest: int, bandwidth: float) -> csr_array:
    """Gaussian weights exp(-d² / (2 bandwidth²)) of each row on its nearest landmarks, made to sum to 1.

    Returns
    -------
    csr_array of shape (n, p)
        Non-negative rows of sum 1 with at most `n_nearest` entries; a bandwidth of 0 leaves the nearest alone.
    """
    n_kept = min(n_nearest, len(landmarks))

    def block_weights(rows: slice) -> csr_array:
        distances = np.asarray(euclidean_distances(X[rows], landmarks, squared=True), np.float64)
        columns = np.argsort(distances, axis=1, kind="stable")[:, :n_kept]
        beyond = np.take_along_axis(distances, columns, axis=1)
        # Counted from the nearest, no row vanishes however far it is from all landmarks; the sum cancels the shift.
        beyond -= beyond[:, :1]
        # Divided twice: a bandwidth that is a mean of squares may have a square that overflows.
        weights = np.exp(-beyond / bandwidth / bandwidth / 2.0) if bandwidth > 0 else (beyond == 0).astype(np.float64)
        weights /= weights.sum(axis=1, keepdims=True)
        starts = np.arange(len(columns) + 1) * n_kept
        return csr_array((weights.ravel(), columns.ravel(), starts), shape=(len(columns), len(landmarks)))

    return csr_array(vstack(list(ordered_map(block_weights, _blocks(X, landmarks)))))


def landmark_directions(Z: csr_array, n_directions: int) -> FloatMatrix:
    """Return the p x r matrix that turns landmark weights Z into spectral vectors of Z S⁻¹ Z', S the column sums of Z.

    They are the leading left singular vectors of Z S^(-1/2), found from its p x p side. The constant vector, which
    always leads, is taken out by name: where the graph falls into pieces it is one of several leading ones.

    Returns
    -------
    array of shape (p, r)
        r is at most `n_directions`, and at least 1; a graph with nothing but the constant vector gives zeros.
    """
    n, p = Z.shape
    sums = np.asarray(Z.sum(axis=0)).ravel()
    scale = np.where(sums > 0, 1.0 / np.sqrt(np.where(sums > 0, sums, 1.0)), 0.0)
    scaled = Z @ diags_array(scale)
    constant = np.sqrt(sums / n)
    pairs = range_eigenpairs((scaled.T @ scaled).toarray() - np.outer(constant, constant), n)
    # The constant's own eigenvalue is 1 - 1 = 0 on paper; rounding may leave it, or all, just above the floor.
    kept = np.flatnonzero(pairs.values > 1e-10)[:n_directions]
    if len(kept) == 0:
        return np.zeros((p, 1))
    return np.asarray(scale[:, None] * pairs.vectors[:, kept] / np.sqrt(pairs.values[kept]))


def _blocks(X: Tall, landmarks: FloatMatrix) -> list[slice]:
    return row_blocks(X.shape[0], max(16, BLOCK_BYTES // (8 * len(landmarks))))
