"""Slow, dense, plain float64 versions of every numeric routine, written straight from the formulas.

Nothing here imports adaam. Arrays are n x n on purpose: these are what the library is compared with.
"""

import numpy as np
from scipy.linalg import eigh, svd
from scipy.spatial.distance import cdist


def prepare(X, *, row_scaling="unit", variance=0.99):
    """Scale rows, centre, keep the leading principal components; return scores, mean and basis (d x d')."""
    X = np.asarray(X, dtype=np.float64)
    if row_scaling == "unit":
        norms = np.sqrt((X**2).sum(axis=1, keepdims=True))
        X = X / np.where(norms == 0, 1.0, norms)
    mean = X.mean(axis=0)
    _, s, Vt = svd(X - mean, full_matrices=False)
    share = np.cumsum(s**2) / np.sum(s**2)
    kept = int(np.searchsorted(share, variance) + 1)
    kept = min(kept, int(np.sum(s > s[0] * 1e-7)))
    return (X - mean) @ Vt[:kept].T, mean, Vt[:kept].T


def neighbors(X, k):
    """Indices and distances of the k nearest others, nearest first."""
    distances = cdist(X, X)
    np.fill_diagonal(distances, np.inf)
    indices = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return indices, np.take_along_axis(distances, indices, axis=1)


def heat_weights(X, k, *, factor=10.0):
    """Dense W = max(W, W') of exp(-distance / (factor * mean neighbour distance))."""
    indices, distances = neighbors(X, k)
    bandwidth = factor * distances.mean()
    W = np.zeros((len(X), len(X)))
    for i in range(len(X)):
        W[i, indices[i]] = np.exp(-distances[i] / bandwidth) if bandwidth > 0 else 1.0
    return np.maximum(W, W.T)


def cut(S, t):
    """The t-th largest magnitude among all entries of S."""
    magnitudes = np.sort(np.abs(S).ravel())[::-1]
    return magnitudes[t - 1]


def prune(S, t, *, diagonal="keep"):
    """Keep the t entries of largest magnitude, ties included; entries equal on paper differ by rounding."""
    S = (S + S.T) / 2
    if diagonal == "drop":
        S = S - np.diag(np.diag(S))
    return np.where(np.abs(S) >= cut(S, t) * (1 - 1e-12), S, 0.0)


def left_vectors(X, r):
    """The r leading left singular vectors."""
    U, s, _ = svd(X, full_matrices=False)
    return U[:, : min(r, int(np.sum(s > s[0] * 1e-10)))]


def laplacian(A):
    """D(A) - A."""
    return np.diag(A.sum(axis=1)) - A


def smallest(A, B, m):
    """The m smallest generalised eigenvectors of A a = lambda B a for positive definite B."""
    values, vectors = eigh(A, B)
    return values[:m], vectors[:, :m]


def lpp(X, A, m, *, scaling="unit"):
    """LPP on a dense affinity: smallest eigenvectors of X'LX a = lambda X'DX a."""
    values, vectors = smallest(X.T @ laplacian(A) @ X, X.T @ np.diag(A.sum(axis=1)) @ X, m)
    if scaling == "unit":
        vectors = vectors / np.linalg.norm(vectors, axis=0)
    return values, vectors


def adaptive_affinity(
    X,
    c,
    k,
    *,
    alphas=(2.5, 5.0),
    rank=1.0,
    projection_rank=1.0,
    factor=10.0,
    diagonal="keep",
    constraint="gram",
    n_iter=1,
):
    """Delta + D of the reference interpretation as one dense matrix."""
    n = len(X)
    W = heat_weights(X, k, factor=factor)
    D = np.diag(W.sum(axis=1))
    P = left_vectors(X, round(rank * c))
    first = prune(P @ P.T, int(n * n / (alphas[0] * c)), diagonal=diagonal)
    total = laplacian(W) + laplacian(first)
    bound = X.T @ X if constraint == "gram" else X.T @ D @ X
    for _ in range(n_iter):
        _, A = smallest(X.T @ total @ X, bound, round(projection_rank * c))
        P = left_vectors(X @ A, A.shape[1])
        delta = prune(P @ P.T, int(n * n / (alphas[1] * c)), diagonal=diagonal)
        total = laplacian(W) + laplacian(first) + laplacian(delta)
    return delta + D


def adaam(X, c, *, k=None, preparation="unit", m=None, **options):
    """Components (m x d) and mean of the whole method on raw rows."""
    if preparation == "linear":
        options = {"rank": 2.0, "constraint": "degrees", "diagonal": "drop"} | options
        Z, mean, basis = prepare(X, row_scaling="none", variance=0.98)
    else:
        Z, mean, basis = prepare(X)
    k = k or max(1, round(np.log2(len(X) / c)))
    A = adaptive_affinity(Z, c, k, **options)
    values, vectors = lpp(Z, A, m or c)
    return values, (basis @ vectors).T, mean
