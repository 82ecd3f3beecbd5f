"""Modularity: how much more often links stay inside clusters than chance would have it."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatVector, IntVector


class Gain(NamedTuple):
    """Modularity of one partition above another's, and its standard error over the rows."""

    value: float
    standard_error: float

    def exceeds(self, n_errors: float) -> bool:
        """Whether the gain is more than so many standard errors."""
        return self.value > n_errors * self.standard_error


def row_modularity(links: csr_array, labels: IntVector) -> FloatVector:
    """What each row adds to the modularity: its share of links within its cluster, less the expected share.

    Expected is what rows of the same degrees would have if links fell at random (Newman, Girvan 2004).
    """
    degrees = np.asarray(links.sum(axis=1)).ravel()
    total = degrees.sum()
    rows = np.repeat(np.arange(len(labels)), np.diff(links.indptr))
    inside = labels[rows] == labels[links.indices]
    within = np.bincount(rows[inside], links.data[inside], len(labels))
    expected = degrees * np.bincount(labels, degrees)[labels] / total
    return np.asarray((within - expected) / total)


def modularity(links: csr_array, labels: IntVector) -> float:
    """Modularity of a partition, at most 1 - 1/c for c clusters; 0 for one cluster."""
    return float(row_modularity(links, labels).sum())


def modularity_gain(rows: FloatVector, than: FloatVector) -> Gain:
    """Gain of one partition over another, each by what the same rows add to its modularity on its own graph."""
    difference = rows - than
    return Gain(float(difference.sum()), float(np.sqrt(len(difference)) * difference.std()))
