"""The nearest-neighbour graph in row blocks on the workers."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from adaam._typing import Column, FloatVector, IntVector
from adaam.engines.cluster.columns import ClusterColumn, at_block, on_blocks
from adaam.engines.cluster.half import ClusterHalf, heat_half
from adaam.engines.cluster.layout import Sizes
from adaam.engines.cluster.pieces import piece_sizes
from adaam.engines.cluster.workers import Future, Workers
from adaam.engines.neighbors.graph import FittedHeat, NeighborGraph


class Links(NamedTuple):
    """Neighbours of the rows of a block: compressed rows, numbers among all rows, and as in `NeighborGraph`."""

    starts: IntVector
    indices: IntVector
    distances: FloatVector
    shares: FloatVector
    weights: FloatVector  # of the neighbours
    copies: FloatVector
    open: IntVector  # rows that are left out, for their ties were not seen whole

    def rows(self) -> IntVector:
        """Row of the block that each entry belongs to."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


@dataclass(frozen=True, slots=True, eq=False)
class ClusterGraph:
    """Neighbours of each row; see `NeighborGraph`. What leaves the workers unasked is free of n."""

    parts: tuple[Future, ...]
    sizes: Sizes
    workers: Workers
    n_entries: int
    weights: Column  # of the rows it was made of
    distances: tuple[float, float]  # their sum and number, with these weights and copies counted

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.sizes)

    def host(self) -> NeighborGraph:
        """Bring the graph to the client."""
        blocks: list[Links] = self.workers.fetch(self.parts)
        counts = np.concatenate([np.diff(block.starts) for block in blocks])
        indices, distances, shares, copies = (
            np.concatenate([getattr(block, name) for block in blocks])
            for name in ("indices", "distances", "shares", "copies")
        )
        return NeighborGraph(
            np.concatenate([[0], np.cumsum(counts)]), indices, distances, shares, copies, measured=True
        )

    def mean_distance(self, weights: Column) -> float:
        """Mean of all neighbour distances, copies counted."""
        distance, counted = self.distances if weights is self.weights else self._distances(weights)
        return float(distance / counted) if counted > 0 else 0.0

    def _distances(self, weights: Column) -> tuple[float, float]:
        held = on_blocks(weights, self.sizes, self.workers)
        parts = [
            self.workers.call("mean-distance", distance_sums, part, at_block(held, i))
            for i, part in enumerate(self.parts)
        ]
        return added_sums(self.workers.fetch(parts))

    def farthest(self) -> ClusterColumn:
        """Distance of each row to its farthest neighbour; 0 without any."""
        parts = tuple(self.workers.call("farthest", farthest, part) for part in self.parts)
        return ClusterColumn(parts, self.sizes, self.workers)

    def piece_sizes(self) -> IntVector:
        """Rows in each connected piece, directions ignored, largest first."""
        return piece_sizes(self.parts, self.sizes, self.workers)

    def heat_half(self, heat: FittedHeat, weights: Column) -> ClusterHalf:
        """Half of the affinity of heat weights, the larger of a pair's two; copies of a row weigh 1."""
        return heat_half(self.parts, self.sizes, self.n_entries, heat, weights, self.workers)


def added_sums(parts: list[tuple[float, float]]) -> tuple[float, float]:
    """Add up sums and numbers of distances, in the order of blocks."""
    distance, counted = (sum(numbers) for numbers in zip(*parts, strict=True))
    return distance, counted


def distance_sums(links: Links, weights: Any) -> tuple[float, float]:
    """Sum of the distances of a block, and number of neighbours, copies counted."""
    taken = links.shares
    if not isinstance(weights, float):
        taken = taken * weights[links.rows()] * links.weights
    return float(taken @ links.distances), float(taken.sum() + (weights * links.copies).sum())


def farthest(links: Links) -> FloatVector:
    """Distance to the farthest neighbour."""
    out = np.zeros(len(links.starts) - 1)
    np.maximum.at(out, links.rows(), links.distances)
    return out
