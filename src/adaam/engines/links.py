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

    def neighbors(self, nodes: Any) -> Any:
        """Return the nodes that some are linked to, in any order; they may repeat."""
        ...

    def contracted(self, labels: Any, n_labels: int) -> "Links":
        """Merge nodes of equal label into one."""
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
    """Links on the host, as a sparse matrix without its diagonal."""

    matrix: csr_array
    loops: FloatVector
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

    def neighbors(self, nodes: IntVector) -> IntVector:
        """Return the nodes that some are linked to, in any order; they may repeat."""
        return np.asarray(self.matrix[nodes].indices)

    def contracted(self, labels: IntVector, n_labels: int) -> "HostLinks":
        """Merge nodes of equal label into one."""
        members = _indicator(labels, n_labels)
        between = csr_array(members.T @ (self.matrix @ members))
        loops = between.diagonal() + np.bincount(labels, self.loops, minlength=n_labels)
        return HostLinks(without_diagonal(between), loops)

    def induced(self, nodes: IntVector) -> "HostLinks":
        """Return the links among some nodes, given in ascending order."""
        return HostLinks(csr_array(self.matrix[nodes][:, nodes]), self.loops[nodes])

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
