"""Links of a neighbour graph: symmetric weights between rows, and the sums that partitions are made from.

The same code works on NumPy arrays and on tensors, where the engine has its rows.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from adaam._typing import IntVector
from adaam.engines.columns import namespace

# A table of all keys is filled sooner than they are sorted where it has up to so many places a key.
TABLE_SHARE = 16
# Sums of so many nodes for every label fit a table; more are sorted.
TABLE_ENTRIES = 1 << 20
DEVICE_TABLE_ENTRIES = 1 << 25


@dataclass(frozen=True, eq=False)
class Links:
    """Symmetric links between nodes, both directions, ordered by node and other node; loops apart.

    A node is a row, or a cluster of rows after `contracted`.

    Attributes
    ----------
    nodes, others : integer arrays of shape (n_links,)
        Ends of each link.
    weights : array of shape (n_links,)
        Its weight, in float64.
    loops : array of shape (n_nodes,)
        Link of each node with itself: copies of a row, or what is inside a cluster.
    compiled : bool
        Whether moves along the links are compiled, once they are on the host.
    """

    nodes: Any
    others: Any
    weights: Any
    loops: Any
    compiled: bool = False

    @property
    def xp(self) -> Any:
        """NumPy or torch."""
        return namespace(self.weights)

    @property
    def on_host(self) -> bool:
        """Whether the links are NumPy arrays."""
        return self.xp is np

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.loops)

    @cached_property
    def degrees(self) -> Any:
        """Sum of the links of each node, its loop counted once."""
        return self._sums + self.loops

    @cached_property
    def _sums(self) -> Any:
        return self.xp.bincount(self.nodes, weights=self.weights, minlength=self.n_nodes)

    @cached_property
    def _starts(self) -> IntVector:
        """First link of each node, of links on the host."""
        return np.searchsorted(self.nodes, np.arange(self.n_nodes + 1))

    def sums_by_label(self, labels: Any, n_labels: int, nodes: Any = None) -> tuple[Any, Any, Any]:
        """Return place, label and the sum of a node's links to others of that label, ordered by place and label.

        The place is that in `nodes`, some nodes in ascending order; it is the node itself where these are all.
        """
        places, some = self._places_of(nodes)
        n_places = self.n_nodes if nodes is None else len(nodes)
        keys = places * n_labels + labels[self.others[some]]
        keys, sums = _summed(keys, self.weights[some], n_places * n_labels)
        return keys // n_labels, keys % n_labels, sums

    def _places_of(self, nodes: Any) -> tuple[Any, Any]:
        """Links of some nodes, and the place among these of each."""
        if nodes is None:
            return self.nodes, slice(None)
        chosen = self.xp.zeros_like(self.loops, dtype=bool)
        chosen[nodes] = True
        some = self.xp.where(chosen[self.nodes])[0]
        return (self.xp.cumsum(chosen, 0) - 1)[self.nodes[some]], some

    def best(self, values: Any, places: Any, choices: Any, n_places: int) -> tuple[Any, Any]:
        """Return the largest value at each place and its choice, the lowest of ties; -inf and 0 where there is none.

        Values are given with their places in ascending order.
        """
        if not self.on_host:
            largest = values.new_full((n_places,), -np.inf).scatter_reduce_(0, places, values, "amax")
            ties = self.xp.where(values == largest[places], choices, self.xp.iinfo(choices.dtype).max)
            return largest, choices.new_zeros(n_places).scatter_reduce_(0, places, ties, "amin", include_self=False)
        largest, lowest = np.full(n_places, -np.inf), np.zeros(n_places, dtype=choices.dtype)
        if len(places) == 0:
            return largest, lowest
        first = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
        present = places[first]
        largest[present] = np.maximum.reduceat(values, first)
        ties = np.where(values == largest[places], choices, np.iinfo(choices.dtype).max)
        lowest[present] = np.minimum.reduceat(ties, first)
        return largest, lowest

    def moves(self, labels: Any, totals: Any, scale: Any, nodes: Any) -> tuple[Any, Any, Any]:
        """Look at what some nodes would gain by another label.

        The gain is that of modularity: the sum of the links of a node to others of a label, less `scale` times its
        degree times those of the label in `totals`, its own left out.

        Returns
        -------
        highest, choices, staying : array of shape (n_nodes,)
            Highest gain and its label, the lowest of ties; the gain of the label that the node has.
        """
        if self.compiled and self.on_host:
            return self._compiled_moves(labels, totals, scale, nodes)
        xp, n_labels = self.xp, len(totals)
        mine, own = self.degrees[nodes], labels[nodes]
        staying = -(scale * mine * (totals[own] - mine))
        if len(nodes) * n_labels <= (TABLE_ENTRIES if self.on_host else DEVICE_TABLE_ENTRIES):
            places, some = self._places_of(nodes)
            keys = places * n_labels + labels[self.others[some]]
            table = xp.bincount(keys, weights=self.weights[some], minlength=len(nodes) * n_labels)
            table = table.reshape(len(nodes), n_labels)
            gains = table - (scale * mine)[:, None] * totals
            each = xp.arange(len(nodes)) if self.on_host else xp.arange(len(nodes), device=own.device)
            gains[each, own] = table[each, own] + staying
            staying = gains[each, own]
            # A label that a node has no links with is no choice.
            gains = xp.where(table > 0, gains, -np.inf)
            highest = xp.amax(gains, 1)
            return highest, xp.argmax(1 * (gains == highest[:, None]), 1), staying
        place, found, sums = self.sums_by_label(labels, n_labels, nodes)
        inside = own[place] == found
        gains = sums - scale * mine[place] * (totals[found] - xp.where(inside, mine[place], 0.0))
        staying[place[inside]] = gains[inside]
        return *self.best(gains, place, found, len(nodes)), staying

    def _compiled_moves(self, labels: IntVector, totals: Any, scale: float, nodes: IntVector) -> tuple[Any, Any, Any]:
        from adaam.engines.link_loops import best_moves

        n = len(nodes)
        found = np.empty(n), np.empty(n, dtype=np.intp), np.empty(n)
        links = self._starts, self.others, self.weights, self.degrees
        best_moves(*links, np.asarray(labels, dtype=np.intp), totals, float(scale), nodes, *found)
        return found

    def neighbors(self, nodes: Any) -> Any:
        """Return the nodes that some are linked to, in any order; they may repeat."""
        return self.others[self._places_of(nodes)[1]]

    def contracted(self, labels: Any, n_labels: int) -> "Links":
        """Merge nodes of equal label into one."""
        a, b = labels[self.nodes], labels[self.others]
        loops = self.xp.bincount(labels, weights=self.loops, minlength=n_labels)
        return links_of(a, b, self.weights, loops, compiled=self.compiled)

    def scaled(self, factors: Any) -> "Links":
        """Multiply the weight of every link by its factor."""
        return replace(self, weights=self.weights * factors)

    def induced(self, nodes: IntVector) -> "Links":
        """Return the links among some nodes, given in ascending order on the host."""
        chosen = self.asarray(nodes)
        places = self.asarray(np.full(self.n_nodes, -1))
        places[chosen] = self.asarray(np.arange(len(nodes)))
        a, b = places[self.nodes], places[self.others]
        kept = (a >= 0) & (b >= 0)
        return Links(a[kept], b[kept], self.weights[kept], self.loops[chosen], self.compiled)

    def smoothed(self, values: Any) -> Any:
        """Mean over each node's linked others of one number a node; a node without links keeps its own."""
        xp = self.xp
        sums = xp.bincount(self.nodes, weights=self.weights * values[self.others], minlength=self.n_nodes)
        return xp.where(self._sums > 0, sums / xp.where(self._sums > 0, self._sums, 1.0), values)

    def host(self) -> "Links":
        """Bring the links to the host."""
        if self.on_host:
            return self
        nodes, others, weights, loops = map(self.to_host, (self.nodes, self.others, self.weights, self.loops))
        return Links(nodes, others, weights, loops, self.compiled)

    def asarray(self, values: Any) -> Any:
        """Bring a host vector to where the links are, in its own type."""
        if self.on_host:
            return np.asarray(values)
        return self.xp.as_tensor(np.ascontiguousarray(values), device=self.weights.device)

    def to_host(self, values: Any) -> Any:
        """Bring a vector to the host as NumPy."""
        return np.asarray(values) if isinstance(values, np.ndarray) else values.cpu().numpy()


def links_of(nodes: Any, others: Any, weights: Any, loops: Any, *, compiled: bool = False) -> Links:
    """Links from entries in any order, some of which may repeat; entries of a node with itself join its loop."""
    xp, n = namespace(weights), len(loops)
    apart = nodes != others
    inside = ~apart
    loops = loops + xp.bincount(nodes[inside], weights=weights[inside], minlength=n)
    keys, sums = _summed(nodes[apart] * n + others[apart], weights[apart], n * n)
    return Links(keys // n, keys % n, sums, loops, compiled)


def _summed(keys: Any, values: Any, n_keys: int) -> tuple[Any, Any]:
    """Add the values of equal keys, all positive; return each key once, in ascending order."""
    xp = namespace(values)
    if n_keys <= TABLE_SHARE * len(keys):
        sums = xp.bincount(keys, weights=values, minlength=n_keys)
        found = xp.where(sums > 0)[0]
        return found, sums[found]
    if len(keys) == 0:
        return keys, values
    order = keys.argsort()
    keys = keys[order]
    new = keys[1:] != keys[:-1]
    places = xp.zeros_like(keys)
    places[1:] = xp.cumsum(new, 0)
    return keys[xp.concatenate([places[:1] == 0, new])], xp.bincount(places, weights=values[order])
