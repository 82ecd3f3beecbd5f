"""Links of a neighbour graph on a device: sums over equal keys by sorting, so that nothing leaves it."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from adaam._typing import IntVector
from adaam.engines.links import HostLinks, generic_moves


@dataclass(frozen=True, eq=False)
class DeviceLinks:
    """Links as entries ordered by node, loops apart; see `adaam.engines.links.Links`."""

    nodes: torch.Tensor  # int64, ascending
    others: torch.Tensor  # int64
    weights: torch.Tensor  # float64
    loops: torch.Tensor  # (n,)
    xp: Any = torch

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.loops)

    @cached_property
    def degrees(self) -> torch.Tensor:
        """Sum of the links of each node, its loop counted once."""
        return self._sums + self.loops

    @cached_property
    def _sums(self) -> torch.Tensor:
        return torch.bincount(self.nodes, self.weights, self.n_nodes)

    def entries(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return node, other node and weight of every link, both directions, ordered by node; loops left out."""
        return self.nodes, self.others, self.weights

    def sums_by_label(
        self, labels: torch.Tensor, n_labels: int, nodes: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return place, label and the sum of a node's links to others of that label, ordered by place."""
        if nodes is None:
            return _summed(self.nodes, labels[self.others], self.weights, n_labels)
        entries, places = self._entries_of(nodes)
        return _summed(places, labels[self.others[entries]], self.weights[entries], n_labels)

    def _entries_of(self, nodes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the entries of some nodes, in ascending order, and the place of each entry's node among them."""
        counts = self._starts[nodes + 1] - self._starts[nodes]
        places = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), counts)
        first = self._starts[nodes] - (counts.cumsum(0) - counts)
        return first[places] + torch.arange(len(places), device=nodes.device), places

    @cached_property
    def _starts(self) -> torch.Tensor:
        """First entry of each node."""
        return torch.searchsorted(self.nodes, torch.arange(self.n_nodes + 1, device=self.nodes.device))

    def best(
        self, values: torch.Tensor, places: torch.Tensor, choices: torch.Tensor, n_places: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the largest value at each place and its choice, the lowest of ties; -inf and 0 where there is none."""
        largest = torch.full((n_places,), -torch.inf, dtype=values.dtype, device=values.device)
        largest = largest.scatter_reduce_(0, places, values, "amax")
        none = torch.iinfo(torch.int64).max
        ties = torch.where(values == largest[places], choices, none)
        chosen = torch.full((n_places,), none, dtype=torch.int64, device=values.device)
        chosen = chosen.scatter_reduce_(0, places, ties, "amin")
        return largest, torch.where(chosen == none, 0, chosen)

    def moves(
        self, labels: torch.Tensor, totals: torch.Tensor, scale: float, nodes: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Look at what some nodes would gain by another label."""
        found: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = generic_moves(self, labels, totals, scale, nodes)
        return found

    def neighbors(self, nodes: torch.Tensor) -> torch.Tensor:
        """Return the nodes that some are linked to, in any order; they may repeat."""
        return self.others[self._entries_of(nodes)[0]]

    def contracted(self, labels: torch.Tensor, n_labels: int) -> "DeviceLinks":
        """Merge nodes of equal label into one."""
        loops = torch.bincount(labels, self.loops, n_labels)
        return device_links(labels[self.nodes], labels[self.others], self.weights, loops)

    def scaled(self, factors: torch.Tensor) -> "DeviceLinks":
        """Multiply the weight of every link by its factor, in the order of `entries`."""
        return replace(self, weights=self.weights * factors)

    def induced(self, nodes: IntVector) -> "DeviceLinks":
        """Return the links among some nodes, given in ascending order on the host."""
        chosen = torch.as_tensor(nodes, device=self.loops.device)
        place = torch.full((self.n_nodes,), -1, dtype=torch.int64, device=self.loops.device)
        place[chosen] = torch.arange(len(chosen), device=self.loops.device)
        a, b = place[self.nodes], place[self.others]
        kept = (a >= 0) & (b >= 0)
        return DeviceLinks(a[kept], b[kept], self.weights[kept], self.loops[chosen])

    def smoothed(self, values: torch.Tensor) -> torch.Tensor:
        """Mean over each node's linked others of one number a node; a node without links keeps its own."""
        sums = torch.bincount(self.nodes, self.weights * values[self.others], self.n_nodes)
        return torch.where(self._sums > 0, sums / torch.where(self._sums > 0, self._sums, 1.0), values)

    def host(self) -> HostLinks:
        """Bring the links to the host."""
        n, (nodes, others, weights, loops) = self.n_nodes, map(self.to_host, (*self.entries(), self.loops))
        return HostLinks(csr_array((weights, (nodes, others)), shape=(n, n)), loops)

    def asarray(self, values: Any) -> torch.Tensor:
        """Bring a host vector to the device, in its own type."""
        return torch.as_tensor(np.ascontiguousarray(values), device=self.loops.device)

    def to_host(self, values: Any) -> Any:
        """Bring a vector to the host as NumPy."""
        return values.cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def device_links(nodes: torch.Tensor, others: torch.Tensor, weights: torch.Tensor, loops: torch.Tensor) -> DeviceLinks:
    """Links from entries in any order, some of which may repeat; entries of a node with itself join its loop."""
    n = len(loops)
    inside = nodes == others
    loops = loops + torch.bincount(nodes[inside], weights[inside], n)
    apart = ~inside
    return DeviceLinks(*_summed(nodes[apart], others[apart], weights[apart], n), loops)


def _summed(
    rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, n_columns: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Add the values of equal (row, column), ordered by row and column."""
    keys, order = (rows * n_columns + columns).sort(stable=True)
    found, place = torch.unique_consecutive(keys, return_inverse=True)
    sums = torch.bincount(place, values[order], len(found))
    return found // n_columns, found % n_columns, sums
