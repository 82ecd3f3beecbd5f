"""Starts of k-means on the workers: k-means++ as scikit-learn draws it, or k-means|| for very many rows or clusters."""

from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.cluster.sorted_rows import SortedRows
from adaam.engines.cpu import CPUEngine
from adaam.engines.kmeans import start_draws, trials_per_center

Block = tuple[FloatMatrix, FloatVector]

N_ROUNDS = 5  # of k-means||, after which its cost hardly falls (Bahmani et al., 2012)
MOST_ROUNDS = 50
OVERSAMPLING = 2  # rows drawn a round, as a multiple of the number of clusters


def plus_plus_starts(rows: SortedRows, mean: FloatVector, n_clusters: int, n_init: int, seed: int) -> FloatMatrix:
    """Centres (n_init, c, m) by k-means++: each further centre is the best of several drawn by squared distance.

    All starts go step by step together. A step asks the blocks twice: for the rows that random numbers fall on, and
    for the cost that each of them would leave.
    """
    call, n_trials = rows.workers.call, trials_per_center(n_clusters)
    U = start_draws(n_clusters, n_init, seed)
    masses = np.array(rows.each("kmeans-start", block_mass))[:, None] * np.ones(n_init)
    first = _drawn(rows, [None] * len(rows.blocks), masses, U[:, :1] * masses.sum(axis=0)[:, None], mean)[:, 0]
    chosen = [first]
    closest = [call("kmeans-start", nearer, block, None, first, mean) for block in rows.blocks]
    masses = np.array(
        rows.workers.fetch([call("kmeans-start", costs, b, d) for b, d in zip(rows.blocks, closest, strict=True)])
    )
    runs = np.arange(n_init)
    for c in range(n_clusters - 1):
        targets = U[:, 1 + c * n_trials : 1 + (c + 1) * n_trials] * masses.sum(axis=0)[:, None]
        candidates = _drawn(rows, closest, masses, targets, mean)
        left = rows.workers.fetch(
            [
                call("kmeans-start", trial_costs, b, d, candidates, mean)
                for b, d in zip(rows.blocks, closest, strict=True)
            ]
        )
        best = np.sum(left, axis=0).argmin(axis=1)
        masses = np.array([cost[runs, best] for cost in left])
        centers = candidates[runs, best]
        chosen.append(centers)
        closest = [call("kmeans-start", nearer, b, d, centers, mean) for b, d in zip(rows.blocks, closest, strict=True)]
    return np.stack(chosen, axis=1)


def _drawn(
    rows: SortedRows, closest: list[Any], masses: FloatMatrix, targets: FloatMatrix, mean: FloatVector
) -> FloatMatrix:
    """Rows (s, trials, m) at which the running cost of each start reaches its targets."""
    reached = np.cumsum(masses, axis=0)  # (blocks, s)
    owner = np.minimum((reached[:, :, None] < targets).sum(axis=0), len(masses) - 1)  # (s, trials)
    before = (reached - masses)[owner, np.arange(len(targets))[:, None]]
    asked = [np.nonzero(owner == i) for i in range(len(masses))]
    out = np.empty((*targets.shape, len(mean)))
    futures = [
        rows.workers.call("kmeans-start", rows_at, block, distances, run, (targets - before)[run, trial])
        for block, distances, (run, trial) in zip(rows.blocks, closest, asked, strict=True)
    ]
    for found, place in zip(rows.workers.fetch(futures), asked, strict=True):
        out[place] = found - mean
    return out


def parallel_starts(rows: SortedRows, mean: FloatVector, n_clusters: int, n_init: int, seed: int) -> FloatMatrix:
    """Centres (n_init, c, m) by k-means||: rows drawn in a few rounds by distance, clustered here by their counts.

    As many clusterings of the drawn rows as starts are wanted go on to all rows.

    Which rows are drawn depends on their coordinates and the seed, not on their order or block.
    """
    scale = float(np.max(rows.each("kmeans-scale", largest, mean))) or 1.0
    first = min(rows.each("kmeans-start", first_row, mean, scale, seed), key=lambda found: found[0])[1]
    candidates = first[None]
    for turn in range(1, MOST_ROUNDS):
        cost = float(np.sum(rows.each("kmeans-start", block_cost, candidates, mean)))
        if cost == 0 or (turn > N_ROUNDS and len(candidates) >= n_clusters):
            break
        wanted = OVERSAMPLING * n_clusters / cost
        drawn = rows.each("kmeans-start", drawn_rows, candidates, mean, scale, (seed, turn), wanted)
        candidates = np.concatenate([candidates, *drawn])
    counts = np.sum(rows.each("kmeans-start", center_counts, candidates, mean), axis=0)
    if len(candidates) < n_clusters:
        raise ValueError(f"n_clusters={n_clusters} exceeds the {len(candidates)} different rows of positive weight.")
    host = CPUEngine()
    return np.stack([host.kmeans(candidates, n_clusters, 1, seed + i, counts).centers for i in range(n_init)])


def block_mass(block: Block) -> float:
    """Total weight."""
    return float(block[1].sum())


def squared(Z: FloatMatrix, centers: FloatMatrix) -> FloatMatrix:
    """Squared distances (centres, rows), not below zero."""
    squares = np.einsum("ij,ij->i", Z, Z) + np.einsum("ij,ij->i", centers, centers)[:, None]
    return np.asarray(np.maximum(squares - 2.0 * (centers @ Z.T), 0.0))


def nearer(block: Block, closest: FloatMatrix | None, centers: FloatMatrix, mean: FloatVector) -> FloatMatrix:
    """Squared distance of each row to the nearest centre of each start, one more centre taken in."""
    distances = squared(block[0] - mean, centers)
    return distances if closest is None else np.minimum(closest, distances)


def costs(block: Block, closest: FloatMatrix) -> FloatVector:
    """Cost of each start."""
    return np.asarray(closest @ block[1])


def trial_costs(block: Block, closest: FloatMatrix, candidates: FloatMatrix, mean: FloatVector) -> FloatMatrix:
    """Cost (s, trials) that each candidate would leave."""
    n_init, n_trials, m = candidates.shape
    distances = squared(block[0] - mean, candidates.reshape(-1, m)).reshape(n_init, n_trials, -1)
    return np.asarray(np.minimum(distances, closest[:, None]) @ block[1])


def rows_at(block: Block, closest: FloatMatrix | None, runs: IntVector, targets: FloatVector) -> FloatMatrix:
    """Rows at which the running cost of a start reaches a target; the running weight where there is no cost yet."""
    Z, weights = block
    found = np.empty(len(runs), np.intp)
    for run in np.unique(runs):
        mine = runs == run
        if closest is None:
            found[mine] = np.searchsorted(np.cumsum(weights), targets[mine], side="right")
        else:
            found[mine] = np.searchsorted(np.cumsum(closest[run] * weights), targets[mine])
    return Z[np.minimum(found, len(Z) - 1)]


def largest(block: Block, mean: FloatVector) -> float:
    """Largest coordinate, as the length that others are measured by."""
    return float(np.abs(block[0] - mean).max(initial=0.0))


def uniform(Z: FloatMatrix, scale: float, seed: Any) -> FloatVector:
    """A number in [0, 1) for each row, from its coordinates up to rounding."""
    keys = np.random.SeedSequence(seed).generate_state(Z.shape[1] + 1, np.uint64)
    mixed = np.full(len(Z), keys[-1])
    for column, key in zip(np.rint(Z.T / scale * 2.0**24).astype(np.int64), keys, strict=False):
        mixed = (mixed ^ column.view(np.uint64)) * (key | np.uint64(1))
        mixed ^= mixed >> np.uint64(31)
        mixed *= np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(29)
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)


def first_row(block: Block, mean: FloatVector, scale: float, seed: int) -> tuple[float, FloatVector]:
    """The row that wins a race in which each runs as fast as it weighs."""
    Z = block[0] - mean
    times = -np.log1p(-uniform(Z, scale, (seed, 0))) / block[1]
    winner = int(times.argmin())
    return float(times[winner]), Z[winner]


def block_cost(block: Block, centers: FloatMatrix, mean: FloatVector) -> float:
    """Cost of the rows of a block."""
    return float(squared(block[0] - mean, centers).min(axis=0) @ block[1])


def drawn_rows(
    block: Block, centers: FloatMatrix, mean: FloatVector, scale: float, seed: Any, wanted: float
) -> FloatMatrix:
    """Rows drawn by their share of the cost."""
    Z = block[0] - mean
    share = wanted * squared(Z, centers).min(axis=0) * block[1]
    return np.asarray(Z[uniform(Z, scale, seed) < share])


def center_counts(block: Block, centers: FloatMatrix, mean: FloatVector) -> FloatVector:
    """Weight of the rows nearest to each centre."""
    labels = squared(block[0] - mean, centers).argmin(axis=0)
    return np.bincount(labels, block[1], len(centers))
