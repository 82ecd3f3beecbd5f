"""Links of a neighbour graph: symmetric weights between rows, and the sums that partitions are computed from.

The same code works on NumPy arrays and on PyTorch tensors, on the device of the engine.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from adaam._typing import IntVector
from adaam.engines.blocks import namespace

# Table size per key up to which counting into a dense table is faster than sorting the keys.
TABLE_SHARE = 16
# Largest dense table of nodes x labels, in entries, on the host and on a device; beyond it, links are sorted.
TABLE_ENTRIES = 1 << 20
DEVICE_TABLE_ENTRIES = 1 << 25
# Multipliers of a hash in int64 arithmetic, which NumPy, PyTorch and compiled loops have in common.
MIX = (0x1E3779B97F4A7C15, 0x3F58476D1CE4E5B9)
# A gain in modularity below this share of a node's degree counts as a rounding error.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Links:
    """Symmetric links between nodes, stored in both directions, sorted by node and other node; loops separately.

    A node is a row, or a cluster of rows after `contracted`.

    Attributes
    ----------
    nodes, others : integer arrays of shape (n_links,)
        Ends of each link.
    weights : array of shape (n_links,)
        Weight of each link, in float64.
    loops : array of shape (n_nodes,)
        Link of each node with itself: copies of a row, or links inside a cluster.
    compiled : bool
        Whether passes over links on the host use compiled loops.
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
    def starts(self) -> Any:
        """Index of the first link of each node, followed by the number of links."""
        ends = self.xp.cumsum(self.xp.bincount(self.nodes, minlength=self.n_nodes), 0)
        return self.xp.concatenate([ends[:1] * 0, ends])

    @cached_property
    def _fused(self) -> bool:
        """Whether Triton kernels on the device compute the moves."""
        if self.on_host:
            return False
        from adaam.engines.gpu.fused import available

        return available(self.weights.device)

    def sums_of(self, labels: Any, n_labels: int) -> Any:
        """Sum of the degrees of each label."""
        return self.xp.bincount(labels, weights=self.degrees, minlength=n_labels)

    def weight_within(self, labels: Any) -> float:
        """Total weight of the links between nodes of equal label, both directions and loops."""
        together = labels[self.nodes] == labels[self.others]
        return float(self.xp.where(together, self.weights, 0.0).sum() + self.loops.sum())

    def sums_by_label(self, labels: Any, n_labels: int, nodes: Any = None) -> tuple[Any, Any, Any]:
        """Sum the links of each node by the label of the other node; return place, label and sum, sorted.

        The place is the index of the node in `nodes`, which ascend; without `nodes`, it is the node itself.
        """
        places, some = self._places_of(nodes)
        n_places = self.n_nodes if nodes is None else len(nodes)
        keys = places * n_labels + labels[self.others[some]]
        keys, sums = summed(keys, self.weights[some], n_places * n_labels)
        return keys // n_labels, keys % n_labels, sums

    def _places_of(self, nodes: Any) -> tuple[Any, Any]:
        """For each link of some nodes: the place of its node in `nodes`, and the index of the link."""
        if nodes is None:
            return self.nodes, slice(None)
        chosen = self.xp.zeros_like(self.loops, dtype=bool)
        chosen[nodes] = True
        some = self.xp.where(chosen[self.nodes])[0]
        return (self.xp.cumsum(chosen, 0) - 1)[self.nodes[some]], some

    def best(self, values: Any, places: Any, choices: Any, n_places: int) -> tuple[Any, Any]:
        """Return the largest value at each place and its choice, the lowest on a tie; -inf and 0 without values.

        `places` must be in ascending order.
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

    def labels_after(
        self, labels: Any, n_labels: int, resolution: float, ranks: IntVector, salts: IntVector, few_moves: int | None
    ) -> Any:
        """Move nodes to the label of largest gain, a random half of them at a time, in several sweeps.

        A node is examined again only after a node that it is linked to has moved (the queue of Traag et al. 2019), so
        late sweeps cost little.

        Parameters
        ----------
        labels : array of shape (n_nodes,)
            Labels before.
        n_labels : int
            Number of labels.
        resolution : float
            Resolution of modularity.
        ranks, salts : integer arrays on the host, of shapes (n_nodes,) and (n_sweeps,)
            Hashed together, they select the half of the nodes that may move in a sweep.
        few_moves : int or None
            Sweeps end after one in which at most so many nodes move. With None they end when a label is emptied, and
            the labels of highest modularity are returned.
        """
        scale = resolution / (float(self.degrees.sum()) or 1.0)
        keep_best, few_moves = few_moves is None, few_moves or 0
        graph = self.starts, self.others, self.weights, self.degrees
        if self.compiled and self.on_host:
            from adaam.engines import link_loops

            labels = np.asarray(labels, dtype=np.intp)
            return link_loops.labels_after(*graph, ranks, salts, labels, n_labels, scale, few_moves, keep_best)
        if self._fused:
            from adaam.engines.gpu import sweeps

            drawn = self.asarray(ranks), self.asarray(salts)
            return sweeps.labels_after(*graph, *drawn, labels, n_labels, scale, few_moves, keep_best)
        ranks, waiting = self.asarray(ranks), self.asarray(np.ones(self.n_nodes, dtype=bool))
        best, highest = labels, self._excess(labels, n_labels, scale) if keep_best else np.inf
        for salt in salts.tolist():
            # If all nodes moved at once, linked nodes could swap labels forever.
            looked_at = random_half(ranks, salt) & waiting
            if not bool(looked_at.any()):
                if not bool(waiting.any()):
                    break
                continue
            labels, n_moved = self.sweep(labels, n_labels, scale, looked_at, waiting)
            if not keep_best:
                if n_moved <= few_moves:
                    break
            elif n_moved:
                if int((self.xp.bincount(labels, minlength=n_labels) == 0).sum()):
                    break
                excess = self._excess(labels, n_labels, scale)
                if excess > highest:
                    best, highest = labels, excess
        return best if keep_best else labels

    def _excess(self, labels: Any, n_labels: int, scale: float) -> float:
        """Links between nodes of equal label minus those expected: modularity, not normalized."""
        totals = self.sums_of(labels, n_labels)
        return self.weight_within(labels) - scale * float((totals * totals).sum())

    def sweep(self, labels: Any, n_labels: int, scale: float, looked_at: Any, waiting: Any) -> tuple[Any, int]:
        """Move some nodes, all at once, to the label of largest gain; return the labels and how many changed.

        `waiting` marks the nodes to be examined: it is cleared for those in `looked_at`, then set for those linked to
        a node that moved. `scale` is the resolution divided by the sum of all degrees.
        """
        nodes = self.xp.where(looked_at)[0]
        highest, choices, staying = self.moves(labels, self.sums_of(labels, n_labels), scale, nodes)
        moving = highest > staying + ROUNDING * self.degrees[nodes]
        moved = nodes[moving]
        shifts = self.xp.zeros_like(labels)
        shifts[moved] = choices[moving] - labels[moved]
        waiting[nodes] = False
        waiting[self.others[self._places_of(moved)[1]]] = True
        return labels + shifts, len(moved)

    def moves(self, labels: Any, totals: Any, scale: Any, nodes: Any) -> tuple[Any, Any, Any]:
        """Find the label of largest gain for some nodes.

        The gain in modularity is the sum of a node's links to the other nodes of a label, minus `scale` times its
        degree times the sum of the degrees of those nodes (`totals`, without the node itself).

        Returns
        -------
        highest, choices, staying : array of shape (n_nodes,)
            Highest gain and its label, the lowest on a tie; the gain of the node's present label.
        """
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
            # A node cannot move to a label that it has no links with.
            gains = xp.where(table > 0, gains, -np.inf)
            highest = xp.amax(gains, 1)
            return highest, xp.argmax(1 * (gains == highest[:, None]), 1), staying
        place, found, sums = self.sums_by_label(labels, n_labels, nodes)
        inside = own[place] == found
        gains = sums - scale * mine[place] * (totals[found] - xp.where(inside, mine[place], 0.0))
        staying[place[inside]] = gains[inside]
        return *self.best(gains, place, found, len(nodes)), staying

    def contracted(self, labels: Any, n_labels: int) -> "Links":
        """Merge nodes of equal label into one."""
        loops = self.xp.bincount(labels, weights=self.loops, minlength=n_labels)
        if self.compiled and self.on_host:
            from adaam.engines.link_loops import contract, in_order

            m = len(self.weights)
            starts, others, weights = np.empty(n_labels + 1, dtype=np.intp), np.empty(m, dtype=np.intp), np.empty(m)
            n = contract(self.starts, self.others, self.weights, labels, loops, starts, others, weights)
            nodes = np.repeat(np.arange(n_labels), np.diff(starts))
            return Links(nodes, *in_order(starts, others[:n], weights[:n]), loops, self.compiled)
        return links_of(labels[self.nodes], labels[self.others], self.weights, loops, compiled=self.compiled)

    def scaled(self, factors: Any) -> "Links":
        """Multiply the weight of every link by its factor."""
        return replace(self, weights=exactly_summable(self.weights * factors))

    def smoothed(self, values: Any) -> Any:
        """Weighted mean of the values of the nodes linked to each node; a node without links keeps its own."""
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
        """Bring a host vector to the device of the links; its dtype is kept."""
        if self.on_host:
            return np.asarray(values)
        return self.xp.as_tensor(np.ascontiguousarray(values), device=self.weights.device)

    def to_host(self, values: Any) -> Any:
        """Bring a vector to the host as NumPy."""
        return np.asarray(values) if isinstance(values, np.ndarray) else values.cpu().numpy()


def random_half(ranks: Any, salt: int) -> Any:
    """Mask of a random half of the nodes, from a hash of their ranks; on the device of the ranks."""
    mixed = (ranks + salt) * MIX[0]
    mixed = (mixed ^ (mixed >> 32)) * MIX[1]
    return (mixed >> 40) & 1 == 1


def exactly_summable(weights: Any) -> Any:
    """Round weights to multiples of a unit such that their sums are exact, in whatever order they are added."""
    xp = namespace(weights)
    unit = 2.0 ** (np.frexp(float(weights.sum()))[1] - 51)
    return xp.round(weights / unit) * unit


def links_of(nodes: Any, others: Any, weights: Any, loops: Any, *, compiled: bool = False) -> Links:
    """Build links from entries in any order; repeated ones are summed, those of a node with itself join its loop."""
    xp, n = namespace(weights), len(loops)
    weights = exactly_summable(weights)
    apart = nodes != others
    inside = ~apart
    loops = loops + xp.bincount(nodes[inside], weights=weights[inside], minlength=n)
    keys, sums = summed(nodes[apart] * n + others[apart], weights[apart], n * n)
    return Links(keys // n, keys % n, sums, loops, compiled)


def summed(keys: Any, values: Any, n_keys: int) -> tuple[Any, Any]:
    """Sum the values, all positive, of equal keys; return the distinct keys, ascending, and their sums."""
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
