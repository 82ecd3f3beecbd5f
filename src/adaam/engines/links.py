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

    def sums_by_label(self, labels: Any, n_labels: int) -> tuple[Any, Any, Any]:
        """Return node, label and the sum of the node's links to others of that label, ordered by node."""
        ...

    def best(self, values: Any, nodes: Any, choices: Any) -> tuple[Any, Any]:
        """Return the largest value of each node and its choice, the lowest of ties; -inf and 0 for nodes without."""
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

    def sums_by_label(self, labels: IntVector, n_labels: int) -> tuple[IntVector, IntVector, FloatVector]:
        """Return node, label and the sum of the node's links to others of that label, ordered by node."""
        sums = self.matrix @ _indicator(labels, n_labels)
        return np.repeat(np.arange(self.n_nodes, dtype=np.int32), np.diff(sums.indptr)), sums.indices, sums.data

    def best(self, values: FloatVector, nodes: IntVector, choices: IntVector) -> tuple[FloatVector, IntVector]:
        """Return the largest value of each node and its choice, the lowest of ties; -inf and 0 for nodes without."""
        largest = np.full(self.n_nodes, -np.inf)
        chosen = np.zeros(self.n_nodes, dtype=np.intp)
        if len(nodes):
            first = np.flatnonzero(np.concatenate([[True], nodes[1:] != nodes[:-1]]))
            present = nodes[first]
            largest[present] = np.maximum.reduceat(values, first)
            ties = np.where(values == largest[nodes], choices, np.iinfo(np.int32).max)
            chosen[present] = np.minimum.reduceat(ties, first)
        return largest, chosen

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
