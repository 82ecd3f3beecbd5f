"""An estimate of the number of clusters, with its uncertainty."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score

from adaam._typing import FloatMatrix, FloatVector
from adaam.linalg import thread_pools
from adaam.partition.diffusion import diffusion_coordinates
from adaam.partition.heads import N_STEPS, merged_starts
from adaam.partition.merging import MergePath

# Small clusters that merging starts from, at most; no more clusters than half of them can be found.
N_STARTS = 100
N_VECTORS = 60
ROWS_PER_START = 5
# Resamples that tell how firm the estimate is, each a random share of the rows.
N_RESAMPLES = 10
SHARE = 0.8
# A criterion of 1 means separate and always found again; below a half, rows are taken as one cluster.
CONVINCING = 0.5
SAME = 0.01


@dataclass(frozen=True, slots=True)
class ClusterCount:
    """Estimated number of clusters.

    Attributes
    ----------
    n_clusters : int
        The estimate: where modularity, as a share of what is attainable, times reproducibility is highest.
    low, high : int
        Range of the estimates from resampled rows, the lowest and highest tenth left out.
    modularities : ndarray of shape (n_max,)
        Modularity at 1, 2, ... clusters.
    reproducibilities : ndarray of shape (n_max,)
        Mean adjusted Rand index between the partitions of all rows and of resampled ones, at 1, 2, ... clusters.
    """

    n_clusters: int
    low: int
    high: int
    modularities: FloatVector
    reproducibilities: FloatVector

    def __str__(self) -> str:
        return f"{self.n_clusters} clusters found ({self.low} to {self.high} in resamples of {SHARE:.0%} of the rows)."


def count_clusters(links: csr_array, Z: FloatMatrix, weights: FloatVector, seed: int) -> ClusterCount:
    """Estimate the number of clusters from links alone.

    Many small clusters of diffusion coordinates are merged along links. Modularity alone would also split a single
    cloud, since any cloud has parts; but where a cloud is split is chance, and another sample splits it elsewhere. So
    the merges are repeated on the links among random shares of the rows, and modularity at each number of clusters, in
    parts of what is attainable, is multiplied with how far the partitions agree.
    """
    whole = _merges(links, Z, weights, seed)
    n_max = max(1, len(whole.modularities) // 2)
    labels = [whole.labels(c) for c in range(1, n_max + 1)]
    rng = np.random.default_rng(seed)
    agreements = np.zeros((N_RESAMPLES, n_max))
    modularities = np.zeros((N_RESAMPLES, n_max))
    for r in range(N_RESAMPLES):
        rows = np.sort(rng.choice(len(weights), max(2, int(SHARE * len(weights))), replace=False))
        path = _merges(csr_array(links[rows][:, rows]), Z[rows], weights[rows], seed)
        n_common = min(n_max, len(path.modularities))
        modularities[r, :n_common] = path.modularities[:n_common]
        agreements[r, :n_common] = [
            adjusted_rand_score(labels[c - 1][rows], path.labels(c)) for c in range(1, n_common + 1)
        ]
    reproducibilities = agreements.mean(axis=0)
    errors = (attained(modularities) * agreements).std(axis=0) / np.sqrt(N_RESAMPLES)
    found = [_best(attained(q) * a, errors) for q, a in zip(modularities, agreements, strict=True)]
    low, high = np.quantile(found, [0.1, 0.9], method="nearest")
    modularity = whole.modularities[:n_max]
    best = _best(attained(modularity) * reproducibilities, errors)
    return ClusterCount(best, int(low), int(high), modularity, reproducibilities)


def attained(modularities: FloatMatrix) -> FloatMatrix:
    """Modularity at 1, 2, ... clusters as a share of the most that so many can have, 1 - 1/c; 0 for one cluster."""
    counts = np.arange(1, modularities.shape[-1] + 1)
    return np.where(counts > 1, modularities / np.maximum(1.0 - 1.0 / counts, 0.5), 0.0)


def _best(criterion: FloatVector, errors: FloatVector) -> int:
    """Return the largest number of clusters whose criterion is as good as the highest; 1 where none convinces.

    Clusters of clusters are as reproducible as their parts, so of equals the finer one tells more.
    """
    top = int(np.argmax(criterion))
    if criterion[top] < CONVINCING:
        return 1
    good = np.flatnonzero(criterion >= criterion[top] - max(errors[top], SAME))
    return int(good.max()) + 1


def _merges(links: csr_array, Z: FloatMatrix, weights: FloatVector, seed: int) -> MergePath:
    """Merges from small clusters of the rows."""
    n = len(weights)
    n_starts = int(np.clip(n // ROWS_PER_START, 2, N_STARTS))
    with thread_pools().limit(limits=1):
        coordinates = diffusion_coordinates(links, min(N_VECTORS, n), N_STEPS)
    return merged_starts(links, coordinates, Z, weights, min(n_starts, n), seed)
