"""Links of a neighbour graph: symmetric weights between rows, and the sums that partitions are made from."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array, diags_array

from adaam._typing import FloatVector, IntVector


class Links(Protocol):
    """Symmetric links between nodes, where the engine works.

    A node is a row, or a cluster of rows after `contracted`. Vectors are NumPy arrays or tensors, as the links
    themselves; algorithms written against this protocol run on both.
    """

    @property
    def xp(self) -> Any:
        """NumPy or torch: `bincount`, `where` and `unique` have the same meaning in both."""
        ...

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        ...

    @property
    def degrees(self) -> Any:
        """Sum of the links of each node, its loop counted once."""
        ...

    @property
    def loops(self) -> Any:
        """Link of each node with itself: copies of a row, or what is inside a cluster."""
        ...

    def entries(self) -> tuple[Any, Any, Any]:
        """Return node, other node and weight of every link, both directions, ordered by node; loops left out."""
        ...

    def sums_by_label(self, labels: Any, n_labels: int, nodes: Any = None) -> tuple[Any, Any, Any]:
        """Return place, label and the sum of a node's links to others of that label, ordered by place.

        The place is that in `nodes`, some nodes in ascending order; it is the node itself where these are all.
        """
        ...

    def best(self, values: Any, places: Any, choices: Any, n_places: int) -> tuple[Any, Any]:
        """Return the largest value at each place and its choice, the lowest of ties; -inf and 0 where there is none."""
        ...

    def moves(self, labels: Any, totals: Any, scale: float, nodes: Any) -> tuple[Any, Any, Any]:
        """Look at what some nodes would gain by another label.

        The gain is that of modularity: the sum of the links of a node to others of a label, less `scale` times its
        degree times those of the label in `totals`, its own left out.

        Returns
        -------
        highest, choices, staying : array of shape (n_nodes,)
            Highest gain and its label, the lowest of ties; the gain of the label that the node has.
        """
        ...

    def neighbors(self, nodes: Any) -> Any:
        """Return the nodes that some are linked to, in any order; they may repeat."""
        ...

    def contracted(self, labels: Any, n_labels: int) -> "Links":
        """Merge nodes of equal label into one."""
        ...

    def scaled(self, factors: Any) -> "Links":
        """Multiply the weight of every link by its factor, in the order of `entries`."""
        ...

    def induced(self, nodes: IntVector) -> "Links":
        """Return the links among some nodes, given in ascending order on the host."""
        ...

    def smoothed(self, values: Any) -> Any:
        """Mean over each node's linked others of one number a node; a node without links keeps its own."""
        ...

    def host(self) -> "HostLinks":
        """Bring the links to the host."""
        ...

    def asarray(self, values: Any) -> Any:
        """Bring a host vector to where the links are, in its own type."""
        ...

    def to_host(self, values: Any) -> Any:
        """Bring a vector to the host as NumPy."""
        ...


@dataclass(frozen=True)
class HostLinks:
    """Links on the host, as a sparse matrix without its diagonal; moves along them are compiled where that is asked."""

    matrix: csr_array
    loops: FloatVector
    compiled: bool = False
    xp: Any = np

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.matrix.shape[0])

    @cached_property
    def degrees(self) -> FloatVector:
        """Sum of the links of each node, its loop counted once."""
        return np.asarray(self.matrix.sum(axis=1)).ravel() + self.loops

    @cached_property
    def _nodes(self) -> IntVector:
        return np.repeat(np.arange(self.n_nodes, dtype=np.int32), np.diff(self.matrix.indptr))

    def entries(self) -> tuple[IntVector, IntVector, FloatVector]:
        """Return node, other node and weight of every link, both directions, ordered by node; loops left out."""
        return self._nodes, self.matrix.indices, self.matrix.data

    def sums_by_label(
        self, labels: IntVector, n_labels: int, nodes: IntVector | None = None
    ) -> tuple[IntVector, IntVector, FloatVector]:
        """Return place, label and the sum of a node's links to others of that label, ordered by place."""
        sums = (self.matrix if nodes is None else self.matrix[nodes]) @ _indicator(labels, n_labels)
        return np.repeat(np.arange(sums.shape[0], dtype=np.int32), np.diff(sums.indptr)), sums.indices, sums.data

    def best(
        self, values: FloatVector, places: IntVector, choices: IntVector, n_places: int
    ) -> tuple[FloatVector, IntVector]:
        """Return the largest value at each place and its choice, the lowest of ties; -inf and 0 where there is none."""
        largest = np.full(n_places, -np.inf)
        chosen = np.zeros(n_places, dtype=np.intp)
        if len(places):
            first = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
            present = places[first]
            largest[present] = np.maximum.reduceat(values, first)
            ties = np.where(values == largest[places], choices, np.iinfo(np.int32).max)
            chosen[present] = np.minimum.reduceat(ties, first)
        return largest, chosen

    def moves(
        self, labels: IntVector, totals: FloatVector, scale: float, nodes: IntVector
    ) -> tuple[FloatVector, IntVector, FloatVector]:
        """Look at what some nodes would gain by another label."""
        if not self.compiled:
            return generic_moves(self, labels, totals, scale, nodes)
        from adaam.engines.link_loops import best_moves

        n = len(nodes)
        found = np.empty(n), np.empty(n, dtype=np.int64), np.empty(n)
        starts, others = self._places
        whole = np.asarray(labels, dtype=np.int64), np.asarray(nodes, dtype=np.int64)
        best_moves(starts, others, self.matrix.data, self.degrees, whole[0], totals, float(scale), whole[1], *found)
        return found

    @cached_property
    def _places(self) -> tuple[IntVector, IntVector]:
        return self.matrix.indptr.astype(np.int64, copy=False), self.matrix.indices.astype(np.int32, copy=False)

    def neighbors(self, nodes: IntVector) -> IntVector:
        """Return the nodes that some are linked to, in any order; they may repeat."""
        return np.asarray(self.matrix[nodes].indices)

    def contracted(self, labels: IntVector, n_labels: int) -> "HostLinks":
        """Merge nodes of equal label into one."""
        members = _indicator(labels, n_labels)
        between = csr_array(members.T @ (self.matrix @ members))
        loops = between.diagonal() + np.bincount(labels, self.loops, minlength=n_labels)
        return HostLinks(without_diagonal(between), loops, self.compiled)

    def scaled(self, factors: FloatVector) -> "HostLinks":
        """Multiply the weight of every link by its factor, in the order of `entries`."""
        matrix = self.matrix
        return HostLinks(
            csr_array((matrix.data * factors, matrix.indices, matrix.indptr), matrix.shape), self.loops, self.compiled
        )

    def induced(self, nodes: IntVector) -> "HostLinks":
        """Return the links among some nodes, given in ascending order."""
        return HostLinks(csr_array(self.matrix[nodes][:, nodes]), self.loops[nodes], self.compiled)

    def smoothed(self, values: FloatVector) -> FloatVector:
        """Mean over each node's linked others of one number a node; a node without links keeps its own."""
        sums = np.asarray(self.matrix.sum(axis=1)).ravel()
        return np.where(sums > 0, (self.matrix @ values) / np.where(sums > 0, sums, 1.0), values)

    def host(self) -> "HostLinks":
        """Return the links themselves."""
        return self

    def asarray(self, values: Any) -> Any:
        """Return the vector itself."""
        return np.asarray(values)

    def to_host(self, values: Any) -> Any:
        """Return the vector itself."""
        return np.asarray(values)


def generic_moves(links: Links, labels: Any, totals: Any, scale: float, nodes: Any) -> tuple[Any, Any, Any]:
    """Look at what some nodes would gain by another label, with what NumPy and torch have in common."""
    mine, own = links.degrees[nodes], labels[nodes]
    place, found, sums = links.sums_by_label(labels, len(totals), nodes)
    staying = -(scale * mine * (totals[own] - mine))
    inside = own[place] == found
    gains = sums - scale * mine[place] * (totals[found] - links.xp.where(inside, mine[place], 0.0))
    staying[place[inside]] = gains[inside]
    highest, choices = links.best(gains, place, found, len(nodes))
    return highest, choices, staying


def without_diagonal(matrix: csr_array) -> csr_array:
    """Return a sparse matrix with an empty diagonal."""
    rest = csr_array(matrix - diags_array(matrix.diagonal()))
    rest.eliminate_zeros()
    rest.sort_indices()
    return rest


def _indicator(labels: IntVector, n_labels: int) -> csr_array:
    """Matrix with a 1 at each node's label."""
    n = len(labels)
    entries = (np.ones(n), np.asarray(labels, dtype=np.int32), np.arange(n + 1, dtype=np.int32))
    return csr_array(entries, shape=(n, n_labels))
