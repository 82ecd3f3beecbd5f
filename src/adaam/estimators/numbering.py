"""Clusters numbered from the largest to the smallest, so that the order of rows does not name them."""

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, FloatVector, IntVector


def numbered(labels: IntVector, weights: FloatVector, Z: FloatMatrix) -> IntVector:
    """Labels from 0 on, those of the largest cluster first."""
    _, labels = np.unique(labels, return_inverse=True)
    centers, _ = centers_and_inertia(Z, labels, weights)
    order = cluster_order(centers, np.bincount(labels, weights), float(np.abs(Z).max(initial=0.0)))
    return np.asarray(np.argsort(order)[labels], dtype=np.intp)


def cluster_order(centers: FloatMatrix, sizes: FloatVector, scale: float) -> IntVector:
    """Order of clusters from the largest to the smallest.

    Equal sizes are told apart by the first coordinates, of which a few are enough; rounding must not decide.
    """
    places = np.round(centers[:, :4] / max(scale, np.finfo(np.float64).tiny), 4)
    return np.lexsort((*places.T[::-1], -np.round(sizes, 9)))


def centers_and_inertia(Z: FloatMatrix, labels: IntVector, weights: FloatVector) -> tuple[FloatMatrix, float]:
    """Mean of each cluster, and the weighted sum of squared distances to it."""
    sizes = np.bincount(labels, weights)
    members = csr_array((weights, (labels, np.arange(len(labels)))), shape=(len(sizes), len(labels)))
    centers = np.asarray((members @ Z.astype(np.float64)) / sizes[:, None])
    inertia = float(weights @ np.square(Z - centers[labels]).sum(axis=1))
    return centers.astype(Z.dtype), inertia
