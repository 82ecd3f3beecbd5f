"""k-means on the workers: starts by k-means||, block sums of every run at once until no centre moves."""

from typing import Any

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector
from adaam.engines.cluster.rows import ClusterRows, Fixed, on_blocks
from adaam.engines.cluster.tasks import Sizes, exchanged
from adaam.engines.cluster.workers import Future, Workers
from adaam.engines.cpu import CPUEngine
from adaam.engines.protocol import ClusterSums

SORTED_ROWS = 2048
SAMPLED = 64  # rows a block that say where to cut

WeightedRows = tuple[FloatMatrix, FloatVector]
N_ROUNDS = 5  # of k-means||, after which its cost hardly falls (Bahmani et al., 2012)
MOST_ROUNDS = 50
OVERSAMPLING = 2  # rows drawn a round, as a multiple of the number of clusters
MAX_ITERATIONS = 300
MOST_NUMBERS = 1 << 25  # coordinates of rows that come to the client; beyond, k-means||


class SortedRows:
    """Blocks of (rows, weights), every row of one before those of the next; rows of weight zero are left out."""

    def __init__(self, Z: ClusterRows, weights: Column) -> None:
        workers = Z.workers
        n_blocks = max(1, min(workers.n_threads(), len(Z) // SORTED_ROWS))
        step = max(1, len(Z) // (SAMPLED * n_blocks))
        sampled = np.sort(np.asarray(Z[np.arange(0, len(Z), step)])[:, 0])
        cuts = sampled[[len(sampled) * (i + 1) // n_blocks for i in range(n_blocks - 1)]]
        held = on_blocks(weights, Z.sizes, workers)
        pieces = Z.each("sort-split", split_rows, held, Fixed(cuts))
        n_bytes = 8.0 * len(Z) * (Z.n_columns + 1)
        blocks = exchanged(workers, "sort", pieces, n_blocks, n_bytes, sorted_block)
        sizes: Sizes = tuple(workers.fetch([workers.call("sort-count", block_length, block) for block in blocks]))
        self.workers: Workers = workers
        self.blocks: list[Future] = [block for block, size in zip(blocks, sizes, strict=True) if size]
        self.sizes = tuple(size for size in sizes if size)

    def each(self, name: str, work: Any, *given: Any) -> list[Any]:
        """What `work` makes of each block, here; it is small."""
        return self.workers.fetch([self.workers.call(name, work, block, *given) for block in self.blocks])


def split_rows(Z: FloatMatrix, weights: Any, cuts: FloatVector) -> list[tuple[FloatMatrix, FloatVector]]:
    """Rows of a block by the interval that their first coordinate is in."""
    place = np.searchsorted(cuts, Z[:, 0], side="right")
    held = np.broadcast_to(np.asarray(weights, dtype=np.float64), (len(Z),))
    return [(Z[chosen], held[chosen]) for chosen in (_of(place, held, i) for i in range(len(cuts) + 1))]


def _of(place: IntVector, held: FloatVector, index: int) -> IntVector:
    return np.flatnonzero((place == index) & (held > 0))


def sorted_block(pieces: list[tuple[FloatMatrix, FloatVector]]) -> tuple[FloatMatrix, FloatVector]:
    """Rows of one interval in the order of their coordinates."""
    Z, weights = (np.concatenate(part) for part in zip(*pieces, strict=True))
    order = np.lexsort(Z.T[::-1])
    return np.asarray(Z[order], dtype=np.float64), weights[order]


def block_length(block: tuple[FloatMatrix, FloatVector]) -> int:
    """Number of rows."""
    return len(block[0])


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


def squared(Z: FloatMatrix, centers: FloatMatrix) -> FloatMatrix:
    """Squared distances (centres, rows), not below zero."""
    squares = np.einsum("ij,ij->i", Z, Z) + np.einsum("ij,ij->i", centers, centers)[:, None]
    return np.asarray(np.maximum(squares - 2.0 * (centers @ Z.T), 0.0))


def largest(block: WeightedRows, mean: FloatVector) -> float:
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


def first_row(block: WeightedRows, mean: FloatVector, scale: float, seed: int) -> tuple[float, FloatVector]:
    """The row that wins a race in which each runs as fast as it weighs."""
    Z = block[0] - mean
    times = -np.log1p(-uniform(Z, scale, (seed, 0))) / block[1]
    winner = int(times.argmin())
    return float(times[winner]), Z[winner]


def block_cost(block: WeightedRows, centers: FloatMatrix, mean: FloatVector) -> float:
    """Cost of the rows of a block."""
    return float(squared(block[0] - mean, centers).min(axis=0) @ block[1])


def drawn_rows(
    block: WeightedRows, centers: FloatMatrix, mean: FloatVector, scale: float, seed: Any, wanted: float
) -> FloatMatrix:
    """Rows drawn by their share of the cost."""
    Z = block[0] - mean
    share = wanted * squared(Z, centers).min(axis=0) * block[1]
    return np.asarray(Z[uniform(Z, scale, seed) < share])


def center_counts(block: WeightedRows, centers: FloatMatrix, mean: FloatVector) -> FloatVector:
    """Weight of the rows nearest to each centre."""
    labels = squared(block[0] - mean, centers).argmin(axis=0)
    return np.bincount(labels, block[1], len(centers))


def kmeans(
    Z: ClusterRows, n_clusters: int, n_init: int, seed: int, weights: Column, starts: str
) -> tuple[FloatMatrix, float]:
    """Centres and inertia of the best run, each run until no label changes.

    Rows that are not very many come to the client, for scikit-learn's k-means++ and iterations there.
    """
    if starts == "k-means++" or (starts == "auto" and len(Z) * Z.n_columns <= MOST_NUMBERS):
        here = weights if isinstance(weights, float) else np.asarray(weights)
        best = CPUEngine().kmeans(np.asarray(Z), n_clusters, n_init, seed, here)
        return best.centers, best.inertia
    rows = SortedRows(Z, weights)
    n_rows = sum(rows.sizes)
    if n_rows < n_clusters:
        raise ValueError(f"n_clusters={n_clusters} exceeds the {n_rows} rows of positive weight.")
    mean = np.sum(rows.each("kmeans-mean", row_sums), axis=0) / n_rows
    return _best(rows, mean, parallel_starts(rows, mean, n_clusters, n_init, seed))


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


def row_sums(block: WeightedRows) -> FloatVector:
    """Sum of the rows."""
    return np.asarray(block[0].sum(axis=0))


def labels_of(Z: FloatMatrix, centers: FloatMatrix) -> IntVector:
    """Nearest centre of each row, the first one on a tie."""
    return np.asarray((np.einsum("ij,ij->i", centers, centers) - 2.0 * (Z @ centers.T)).argmin(axis=1))


def assigned(block: WeightedRows, centers: FloatMatrix, mean: FloatVector) -> tuple[FloatMatrix, FloatMatrix]:
    """For each run and centre, the weighted sum and the weight of its rows."""
    Z, weights = block[0] - mean, block[1]
    sums, counts = np.zeros(centers.shape), np.zeros(centers.shape[:2])
    for run, places in enumerate(centers):
        labels = labels_of(Z, places)
        counts[run] = np.bincount(labels, weights, len(places))
        for column in range(Z.shape[1]):
            sums[run, :, column] = np.bincount(labels, weights * Z[:, column], len(places))
    return sums, counts


def inertias(block: WeightedRows, centers: FloatMatrix, mean: FloatVector) -> FloatVector:
    """Weighted sum of squared distances to the nearest centre, for each run."""
    Z, weights = block[0] - mean, block[1]
    return np.array([weights @ np.square(Z - places[labels_of(Z, places)]).sum(axis=1) for places in centers])


def farthest(
    block: WeightedRows, centers: FloatMatrix, mean: FloatVector, n_rows: int
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
