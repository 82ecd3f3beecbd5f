"""Rows in the order of their coordinates, a few blocks of them: neither order nor blocks of the caller remain."""

from typing import Any

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector
from adaam.engines.cluster.columns import on_blocks
from adaam.engines.cluster.layout import Sizes
from adaam.engines.cluster.rows import ClusterRows, Fixed
from adaam.engines.cluster.tasks import exchanged
from adaam.engines.cluster.workers import Future, Workers

LEAST_ROWS = 2048
SAMPLED = 64  # rows a block that say where to cut


class SortedRows:
    """Blocks of (rows, weights), every row of one before those of the next; rows of weight zero are left out."""

    def __init__(self, Z: ClusterRows, weights: Column) -> None:
        workers = Z.workers
        n_blocks = max(1, min(workers.n_threads(), len(Z) // LEAST_ROWS))
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
