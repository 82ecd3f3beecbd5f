"""An estimate of the number of clusters, with its uncertainty."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

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


@dataclass(frozen=True, slots=True)
class ClusterCount:
    """Estimated number of clusters.

    Attributes
    ----------
    n_clusters : int
        The estimate: where modularity is highest along the merges.
    low, high : int
        Range of the estimates from resampled rows, the lowest and highest tenth left out.
    modularities : ndarray of shape (n_max,)
        Modularity at 1, 2, ... clusters.
    """

    n_clusters: int
    low: int
    high: int
    modularities: FloatVector

    def __str__(self) -> str:
        return f"{self.n_clusters} clusters found ({self.low} to {self.high} in resamples of {SHARE:.0%} of the rows)."


def count_clusters(links: csr_array, Z: FloatMatrix, weights: FloatVector, seed: int) -> ClusterCount:
    """Estimate the number of clusters from links alone.

    Many small clusters of diffusion coordinates are merged along links; the number at which modularity is highest is
    the estimate. Resamples repeat this on the links among a random share of the rows.
    """
    path = _merges(links, Z, weights, seed)
    n_max = max(1, len(path.modularities) // 2)
    rng = np.random.default_rng(seed)
    n = len(weights)
    found = []
    for _ in range(N_RESAMPLES):
        rows = np.sort(rng.choice(n, max(2, int(SHARE * n)), replace=False))
        found.append(_best(_merges(csr_array(links[rows][:, rows]), Z[rows], weights[rows], seed), n_max))
    low, high = np.quantile(found, [0.1, 0.9], method="nearest")
    return ClusterCount(_best(path, n_max), int(low), int(high), path.modularities[:n_max])


def _best(path: MergePath, n_max: int) -> int:
    return int(np.argmax(path.modularities[:n_max])) + 1


def _merges(links: csr_array, Z: FloatMatrix, weights: FloatVector, seed: int) -> MergePath:
    n = len(weights)
    n_starts = int(np.clip(n // ROWS_PER_START, 2, N_STARTS))
    with thread_pools().limit(limits=1):
        coordinates = diffusion_coordinates(links, min(N_VECTORS, n), N_STEPS)
    return merged_starts(links, coordinates, Z, weights, min(n_starts, n), seed)
