"""k-means on the workers: block sums of every run at once, added up in order until no centre moves."""

from typing import Any, NamedTuple

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cluster.sorted_rows import SortedRows
from adaam.engines.cluster.starts import Block, parallel_starts, plus_plus_starts

MAX_ITERATIONS = 300
MOST_STEPS = 1 << 12  # tasks that k-means++ may take, and
MOST_NUMBERS = 1 << 28  # distances that it may keep; beyond, k-means||


class ClusterSums(NamedTuple):
    """Of labelled rows: weighted sums and weights of clusters, weighted sum of squares, and largest coordinate."""

    sums: FloatMatrix
    weights: FloatVector
    squares: FloatVector
    largest: float


def kmeans(
    Z: ClusterRows, n_clusters: int, n_init: int, seed: int, weights: Column, starts: str
) -> tuple[FloatMatrix, float]:
    """Centres and inertia of the best run, each run until no label changes."""
    rows = SortedRows(Z, weights)
    n_rows = sum(rows.sizes)
    if n_rows < n_clusters:
        raise ValueError(f"n_clusters={n_clusters} exceeds the {n_rows} rows of positive weight.")
    if starts == "auto":
        many = 3 * n_clusters * len(rows.blocks) > MOST_STEPS or n_init * n_rows > MOST_NUMBERS
        starts = "k-means||" if many else "k-means++"
    begin = parallel_starts if starts == "k-means||" else plus_plus_starts
    mean = np.sum(rows.each("kmeans-mean", row_sums), axis=0) / n_rows
    return _best(rows, mean, begin(rows, mean, n_clusters, n_init, seed))


def _best(rows: SortedRows, mean: FloatVector, centers: FloatMatrix) -> tuple[FloatMatrix, float]:
    """Lloyd's iterations for all runs together; the run of least inertia, the first on a tie."""
    final, running = centers.copy(), np.arange(len(centers))
    for _ in range(MAX_ITERATIONS):
        parts = rows.each("kmeans", assigned, centers, mean)
        sums, counts = (np.sum(part, axis=0) for part in zip(*parts, strict=True))
        moved = np.where(counts[:, :, None] > 0, sums / np.maximum(counts, 1e-300)[:, :, None], centers)
        for run in np.flatnonzero((counts == 0).any(axis=1)):
            moved[run] = _refilled(rows, mean, centers[run], sums[run], counts[run])
        final[running] = moved
        # The same labels make the same sums, bit for bit: a centre that stays says that its labels do.
        going = (moved != centers).any(axis=(1, 2))
        if not going.any():
            break
        running, centers = running[going], moved[going]
    inertia = np.sum(rows.each("kmeans-inertia", inertias, final, mean), axis=0)
    best = int(inertia.argmin())
    return final[best] + mean, float(inertia[best])


def _refilled(
    rows: SortedRows, mean: FloatVector, centers: FloatMatrix, sums: FloatMatrix, counts: FloatVector
) -> FloatMatrix:
    """Means of the rows of each centre, where empty ones have taken over the rows farthest from theirs."""
    empty = np.flatnonzero(counts == 0)
    found = rows.each("kmeans-empty", farthest, centers, mean, len(empty))
    distances, labels, weights, Z = (np.concatenate(part) for part in zip(*found, strict=True))
    sums, counts = sums.copy(), counts.copy()
    for place, row in zip(empty, np.argsort(-distances, kind="stable"), strict=False):
        taken = Z[row] * weights[row]
        sums[labels[row]] -= taken
        counts[labels[row]] -= weights[row]
        sums[place], counts[place] = taken, weights[row]
    return np.where(counts[:, None] > 0, sums / np.maximum(counts, 1e-300)[:, None], centers)


def row_sums(block: Block) -> FloatVector:
    """Sum of the rows."""
    return np.asarray(block[0].sum(axis=0))


def labels_of(Z: FloatMatrix, centers: FloatMatrix) -> IntVector:
    """Nearest centre of each row, the first one on a tie."""
    return np.asarray((np.einsum("ij,ij->i", centers, centers) - 2.0 * (Z @ centers.T)).argmin(axis=1))


def assigned(block: Block, centers: FloatMatrix, mean: FloatVector) -> tuple[FloatMatrix, FloatMatrix]:
    """For each run and centre, the weighted sum and the weight of its rows."""
    Z, weights = block[0] - mean, block[1]
    sums, counts = np.zeros(centers.shape), np.zeros(centers.shape[:2])
    for run, places in enumerate(centers):
        labels = labels_of(Z, places)
        counts[run] = np.bincount(labels, weights, len(places))
        for column in range(Z.shape[1]):
            sums[run, :, column] = np.bincount(labels, weights * Z[:, column], len(places))
    return sums, counts


def inertias(block: Block, centers: FloatMatrix, mean: FloatVector) -> FloatVector:
    """Weighted sum of squared distances to the nearest centre, for each run."""
    Z, weights = block[0] - mean, block[1]
    return np.array([weights @ np.square(Z - places[labels_of(Z, places)]).sum(axis=1) for places in centers])


def farthest(
    block: Block, centers: FloatMatrix, mean: FloatVector, n_rows: int
) -> tuple[FloatVector, IntVector, FloatVector, FloatMatrix]:
    """Rows farthest from their centre: squared distance, label, weight and the row."""
    Z, weights = block[0] - mean, block[1]
    labels = labels_of(Z, centers)
    distances = np.square(Z - centers[labels]).sum(axis=1)
    far = np.argsort(-distances, kind="stable")[:n_rows]
    return distances[far], labels[far], weights[far], Z[far]


def cluster_sums(Z: ClusterRows, labels: Any, weights: Column, n_clusters: int) -> ClusterSums:
    """What centres, sizes and inertia of a partition follow from."""
    found = Z.workers.fetch(Z.each("cluster-sums", block_sums, labels, weights, n_clusters))
    sums, counts, squares, largest = zip(*found, strict=True)
    return ClusterSums(np.sum(sums, axis=0), np.sum(counts, axis=0), np.sum(squares, axis=0), max(largest))


def block_sums(Z: FloatMatrix, labels: IntVector, weights: Any, n_clusters: int) -> ClusterSums:
    """Sums over the rows of a block."""
    held = np.broadcast_to(np.asarray(weights, dtype=np.float64), (len(Z),))
    member = np.zeros((n_clusters, len(Z)))
    member[labels, np.arange(len(Z))] = held
    wide = np.asarray(Z, np.float64)
    lengths = np.einsum("ij,ij->i", wide, wide)
    return ClusterSums(member @ wide, member.sum(axis=1), member @ lengths, float(np.abs(wide).max(initial=0.0)))
