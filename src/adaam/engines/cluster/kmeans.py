"""k-means of very many rows on the workers: starts by k-means||, block sums of every run until no centre moves."""

from functools import partial
from typing import Any

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector
from adaam.engines.cluster.rows import ByRow, ClusterRows
from adaam.engines.cluster.workers import HOST
from adaam.engines.columns import spread, total
from adaam.engines.cpu import CPUEngine

N_ROUNDS = 5  # of k-means||, after which its cost hardly falls (Bahmani et al., 2012)
MOST_ROUNDS = 50
OVERSAMPLING = 2  # rows drawn a round, as a multiple of the number of clusters
MAX_ITERATIONS = 300


def parallel_kmeans(
    Z: ClusterRows, n_clusters: int, n_init: int, seed: int, weights: Column
) -> tuple[FloatMatrix, float]:
    """Centres and inertia of the best of several runs, the first on a tie; a centre that loses its rows stays.

    Rows are told apart by their coordinates and not by their places, so that their order does not matter.
    """
    centers = _starts(Z, n_clusters, n_init, seed, weights)
    for _ in range(MAX_ITERATIONS):
        sums, counts, inertia = Z.total("kmeans", assigned, ByRow(weights), centers)
        moved = np.where(counts[:, :, None] > 0, sums / np.maximum(counts, 1e-300)[:, :, None], centers)
        # The same labels make the same sums, bit for bit: a centre that stays says that its labels do.
        if (moved == centers).all():
            break
        centers = moved
    best = int(inertia.argmin())
    return centers[best], float(inertia[best])


def _starts(Z: ClusterRows, n_clusters: int, n_init: int, seed: int, weights: Column) -> FloatMatrix:
    """Centres (n_init, c, m) by k-means||: the mean and rows drawn in a few rounds by their cost, clustered here."""

    def each(work: Any, *given: Any) -> list[Any]:
        return Z.workers.fetch(Z.each("kmeans-start", work, ByRow(weights), *given))

    candidates = np.asarray(sum(each(partial(HOST.cross, None)))) / total(weights, len(Z))
    for turn in range(1, MOST_ROUNDS):
        cost = sum(each(total_cost, candidates))
        if cost == 0 or (turn > N_ROUNDS and len(candidates) > n_clusters):
            break
        wanted = OVERSAMPLING * n_clusters / cost
        candidates = np.concatenate([candidates, *each(drawn_rows, candidates, [seed, turn], wanted)])
    counts = np.sum(each(center_counts, candidates), axis=0)
    n_different = int(np.count_nonzero(counts))
    if n_different < n_clusters:
        raise ValueError(f"n_clusters={n_clusters} exceeds the {n_different} different rows of positive weight.")
    run = partial(CPUEngine().kmeans, candidates, n_clusters, 1, weights=counts)
    return np.stack([run(seed=seed + i).centers for i in range(n_init)])


def assigned(Z: FloatMatrix, weights: Column, centers: FloatMatrix) -> list[FloatMatrix]:
    """For each run: weighted sum and weight of the rows nearest to each centre, and their weighted squared distance."""
    held, wide = spread(weights, len(Z)), np.asarray(Z, np.float64)
    sums, counts, inertia = np.zeros(centers.shape), np.zeros(centers.shape[:2]), np.zeros(len(centers))
    for run, places in enumerate(centers):
        labels = HOST.nearest(wide, places)
        sums[run], counts[run], *_ = HOST.cluster_sums(wide, labels, held, len(places))
        inertia[run] = held @ np.square(wide - places[labels]).sum(axis=1)
    return [sums, counts, inertia]


def uniform(Z: FloatMatrix, seed: Any) -> FloatVector:
    """A number in [0, 1) for each row, from its coordinates up to rounding."""
    keys = np.random.SeedSequence(seed).generate_state(Z.shape[1] + 1, np.uint64)
    mixed = np.full(len(Z), keys[-1])
    for column, key in zip((Z.T.astype(np.float32) + 0.0).view(np.uint32), keys, strict=False):  # -0.0 turns into 0.0
        mixed = (mixed ^ column) * (key | np.uint64(1))
        mixed ^= mixed >> np.uint64(31)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(29)
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)


def costs(Z: FloatMatrix, weights: Column, centers: FloatMatrix) -> FloatVector:
    """Weighted squared distance of each row to its nearest centre."""
    return np.asarray(spread(weights, len(Z)) * np.square(Z - centers[HOST.nearest(Z, centers)]).sum(axis=1))


def total_cost(Z: FloatMatrix, weights: Column, centers: FloatMatrix) -> float:
    """Cost of the rows of a block."""
    return float(costs(Z, weights, centers).sum())


def drawn_rows(Z: FloatMatrix, weights: Column, centers: FloatMatrix, seed: Any, wanted: float) -> FloatMatrix:
    """Rows drawn by their share of the cost."""
    return np.asarray(Z[uniform(Z, seed) < wanted * costs(Z, weights, centers)], np.float64)


def center_counts(Z: FloatMatrix, weights: Column, centers: FloatMatrix) -> FloatVector:
    """Weight of the rows nearest to each centre."""
    return np.bincount(HOST.nearest(Z, centers), spread(weights, len(Z)), len(centers))
