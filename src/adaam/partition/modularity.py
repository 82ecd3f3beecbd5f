"""Modularity: the share of links that stay inside clusters, minus the share expected by chance."""

from typing import Any, NamedTuple

import numpy as np

from adaam._typing import FloatVector
from adaam.engines.links import Links

# Standard errors that a gain must exceed to be clear.
N_ERRORS = 2.0


class Gain(NamedTuple):
    """Difference in modularity between two partitions, and its standard error over the rows."""

    value: float
    standard_error: float

    @property
    def is_clear(self) -> bool:
        """Whether the gain exceeds two standard errors."""
        return self.value > N_ERRORS * self.standard_error


def row_modularity(links: Links, labels: Any) -> FloatVector:
    """Contribution of each row to the modularity: its share of links within its cluster, minus the expected share.

    The expected share is that of random links between rows of the same degrees (Newman, Girvan 2004).
    """
    degrees = links.degrees
    total = degrees.sum()
    nodes, others, weights = links.nodes, links.others, links.weights
    inside = links.xp.where(labels[nodes] == labels[others], weights, 0.0)
    within = links.xp.bincount(nodes, weights=inside, minlength=links.n_nodes) + links.loops
    expected = degrees * links.xp.bincount(labels, weights=degrees)[labels] / total
    return np.asarray(links.to_host((within - expected) / total))


def modularity(links: Links, labels: Any) -> float:
    """Modularity of a partition, at most 1 - 1/c for c clusters; 0 for one cluster."""
    total = float(links.degrees.sum()) or 1.0
    masses = links.sums_of(labels, 0) / total
    return links.weight_within(labels) / total - float((masses * masses).sum())


def modularity_gain(rows: FloatVector, than: FloatVector) -> Gain:
    """Gain of one partition over another, from the `row_modularity` of the same rows, each on its own graph."""
    difference = rows - than
    return Gain(float(difference.sum()), float(np.sqrt(len(difference)) * difference.std()))
