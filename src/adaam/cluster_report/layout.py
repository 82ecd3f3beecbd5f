"""Two layouts of rows of the learned space in the plane."""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors

from adaam._typing import FloatMatrix, IntVector
from adaam.linalg import thread_pools

N_LANDMARKS = 2000  # rows laid out by t-SNE; the others are placed by their nearest landmarks
N_NEAREST = 5
PERPLEXITY = 30.0
MAX_COLUMNS = 50  # leading principal components in which neighbours are searched
N_ITERATIONS = 600


def discriminant_plane(Z: FloatMatrix, labels: IntVector) -> FloatMatrix:
    """Project rows onto the plane in which the means of their clusters spread most.

    The projection is orthogonal: distances in the plane are projected distances of the learned metric. With fewer than
    three clusters, the rows' principal plane is used. Signs are fixed: each axis's largest coordinate is positive.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Rows in the learned space.
    labels : ndarray of shape (n_samples,)
        Their clusters; -1 for rows in none.

    Returns
    -------
    ndarray of shape (n_samples, 2)
        Coordinates around the mean of the cluster means.
    """
    found = np.unique(labels[labels >= 0])
    spread = np.array([Z[labels == each].mean(axis=0) for each in found]) if len(found) > 2 else Z
    plane = PCA(min(2, Z.shape[1], len(spread)), svd_solver="full").fit(spread).transform(Z)
    if plane.shape[1] == 1:
        plane = np.column_stack([plane, np.zeros(len(plane))])
    signs = np.sign(plane[np.abs(plane).argmax(axis=0), [0, 1]])
    return np.asarray(plane * np.where(signs < 0, -1.0, 1.0))


def neighbor_map(Z: FloatMatrix, labels: IntVector, plane: FloatMatrix, rng: np.random.Generator) -> FloatMatrix:
    """Lay rows out so that near rows stay near: t-SNE of at most 2,000 landmarks, and all other rows placed by these.

    t-SNE starts from `plane`, so that the same rows give the same map. Each further row is placed at the mean of its
    five nearest landmarks, weighted towards the nearest.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Rows in the learned space.
    labels : ndarray of shape (n_samples,)
        Their clusters, each with its share of the landmarks.
    plane : ndarray of shape (n_samples, 2)
        Initial layout.
    rng : Generator
        Draws landmarks.

    Returns
    -------
    ndarray of shape (n_samples, 2)
        Coordinates; only neighbourhoods in them are meaningful, distances are not.
    """
    if len(Z) < 8:
        return plane
    if Z.shape[1] > MAX_COLUMNS:
        Z = PCA(MAX_COLUMNS, svd_solver="randomized", random_state=0).fit_transform(Z)
    landmarks = spread_draw(labels, N_LANDMARKS, rng)
    start = plane[landmarks] / (plane[landmarks, 0].std() or 1.0) * 1e-4
    perplexity = min(PERPLEXITY, (len(landmarks) - 1) / 4)
    tsne = TSNE(perplexity=perplexity, init=start.astype(np.float32), max_iter=N_ITERATIONS, random_state=0)
    # Its loops are short: on a busy machine, synchronizing threads would take several times as long.
    with thread_pools().limit(limits=1):
        placed: FloatMatrix = tsne.fit_transform(Z[landmarks].astype(np.float32))
    if len(landmarks) == len(Z):
        return placed
    distances, nearest = NearestNeighbors(n_neighbors=N_NEAREST).fit(Z[landmarks]).kneighbors(Z)
    scale = np.maximum(distances[:, -1:], np.finfo(np.float64).tiny)
    weights = np.exp(-4.0 * (distances / scale) ** 2)
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("ij,ijk->ik", weights, placed[nearest]))


def spread_draw(labels: IntVector, n_rows: int, rng: np.random.Generator) -> IntVector:
    """Draw rows, from each cluster in proportion but at least 20 if it has them; returned in ascending order."""
    n = len(labels)
    if n <= n_rows:
        return np.arange(n)
    order = rng.permutation(n)
    clusters, place = np.unique(labels[order], return_inverse=True)
    # Rank of each row within its cluster, in random order: the first `at_least` of each cluster are drawn.
    by_cluster = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[by_cluster], np.arange(len(clusters)))
    rank = np.empty(n, dtype=np.int64)
    rank[by_cluster] = np.arange(n) - starts[place[by_cluster]]
    at_least = min(20, max(1, n_rows // len(clusters)))
    first = order[rank < at_least]
    others = order[rank >= at_least]
    return np.sort(np.concatenate([first, others[: max(0, n_rows - len(first))]]))
