"""The nearest-neighbour graph on a device: as `NeighborGraph` has it on the host, and nothing of it leaves unasked."""

from dataclasses import dataclass

import numpy as np
import torch

from adaam._typing import Column, FloatVector, IntVector
from adaam.engines.columns import at, spread, total
from adaam.engines.gpu.arrays import DeviceHalf, Place, host
from adaam.engines.links import Links, links_of
from adaam.engines.neighbors.graph import FittedHeat, NeighborGraph

ROUNDS = 4  # of joining pieces between two looks at whether all are joined, each of which waits for the device


@dataclass(frozen=True, slots=True, eq=False)
class DeviceGraph:
    """Neighbours of each row in compressed rows; see `NeighborGraph`."""

    starts: torch.Tensor  # (n + 1,), int64
    indices: torch.Tensor  # int64
    distances: torch.Tensor  # float64
    shares: Column  # one for each entry; 1.0 where all are whole
    copies: Column
    measured: bool

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.starts) - 1

    def host(self) -> NeighborGraph:
        """Bring the graph to the host."""
        shares, copies = (part if isinstance(part, float) else host(part) for part in (self.shares, self.copies))
        return NeighborGraph(
            host(self.starts),
            host(self.indices),
            host(self.distances),
            spread(shares, len(self.indices)),
            spread(copies, self.n_rows),
            self.measured,
        )

    def rows(self) -> torch.Tensor:
        """Row that each neighbour entry belongs to."""
        rows = torch.arange(self.n_rows, device=self.starts.device)
        return rows.repeat_interleave(self.starts.diff(), output_size=len(self.indices))

    def mean_distance(self, weights: Column) -> float:
        """Mean of all neighbour distances, copies counted."""
        taken = self.shares
        if not isinstance(weights, float):
            taken = taken * weights[self.rows()] * weights[self.indices]
        counted = total(taken, len(self.indices)) + total(weights * self.copies, self.n_rows)
        return float((taken * self.distances).sum()) / counted if counted > 0 else 0.0

    def farthest(self) -> torch.Tensor:
        """Distance of each row to its farthest neighbour; 0 without any."""
        farthest = torch.zeros(self.n_rows, dtype=torch.float64, device=self.starts.device)
        return farthest.scatter_reduce_(0, self.rows(), self.distances, "amax")

    def piece_sizes(self) -> IntVector:
        """Rows in each connected piece, directions ignored, largest first.

        Each row carries the lowest row it is known to be joined with; every edge lowers those of its two ends, and of
        the rows these point to, so that a path of any length is joined in few rounds.
        """
        i, j = self.rows(), self.indices
        lowest = torch.arange(self.n_rows, device=j.device)
        joined = False
        while not joined:
            for _ in range(ROUNDS):
                a, b = lowest[i], lowest[j]
                both = torch.minimum(a, b)
                for ends in (a, b, i, j):
                    lowest = lowest.scatter_reduce(0, ends, both, "amin")
                lowest = lowest[lowest]
                lowest = lowest[lowest]
            done = (lowest[i] == lowest[j]).all() & (lowest == lowest[lowest]).all()
            joined, whole = torch.stack([done, (lowest == 0).all()]).tolist()
        if whole:
            return np.array([self.n_rows])
        sizes = torch.bincount(lowest)
        return host(sizes[sizes > 0].sort(descending=True).values)

    def links(self, weights: FloatVector) -> Links:
        """Links that the neighbours make, averaged over the two directions; see `NeighborGraph.links`."""
        nodes, others = self.rows(), self.indices
        rows = torch.as_tensor(np.array(weights), device=nodes.device)
        given = self.shares * rows[nodes] * rows[others] / 2
        return links_of(
            torch.cat([nodes, others]), torch.cat([others, nodes]), torch.cat([given, given]), rows * self.copies
        )

    def heat_half(self, heat: FittedHeat, weights: Column) -> DeviceHalf:
        """Half H of the affinity H + H' of heat weights, the larger of a pair's two; copies of a row weigh 1."""
        rows, columns, f = self.rows(), self.indices, self.shares
        reverse, mutual = self._reverse(rows)
        values = _heat(heat, rows, columns, self.distances)
        if not self.measured:
            values = torch.where(mutual, torch.maximum(values, values[reverse]), values)
        # Both directions taken: f + g - fg = f(1 - g/2) + g(1 - f/2), one part for either entry.
        g = mutual * at(f, reverse)
        values = values * f * (1.0 - g / 2) * at(weights, rows) * at(weights, columns)
        return DeviceHalf(self.starts, columns, values, weights * self.copies / 2)

    def _reverse(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Position of entry (j, i) for each entry (i, j), and whether there is one."""
        n, columns = self.n_rows, self.indices
        keys, order = (rows * n + columns).sort()
        wanted = columns * n + rows
        place = torch.searchsorted(keys, wanted).clamp_(max=max(len(keys) - 1, 0))
        return order[place], keys[place] == wanted


def on_device(place: Place, graph: NeighborGraph) -> DeviceGraph:
    """Copy a host graph to the device."""
    long = torch.int64
    return DeviceGraph(
        place.vector(graph.starts, long),
        place.vector(graph.indices, long),
        place.vector(graph.distances),
        place.vector(graph.shares) if (graph.shares != 1.0).any() else 1.0,
        place.vector(graph.copies) if graph.copies.any() else 0.0,
        graph.measured,
    )


def _heat(heat: FittedHeat, rows: torch.Tensor, columns: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
    """Weight of each pair, in [0, 1]; coincident rows get 1."""
    bandwidth = heat.bandwidths
    if not isinstance(bandwidth, float):
        bandwidth = bandwidth[rows].sqrt() * bandwidth[columns].sqrt()
    exponent = (distances / bandwidth) ** heat.power
    # 0 / 0: all neighbours coincide, and a bandwidth of zero must not separate them.
    return torch.where(distances == 0, 0.0, exponent).neg_().exp_()
