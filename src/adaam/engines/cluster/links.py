"""Neighbours of the rows of a block, as a task holds them."""

from typing import NamedTuple

import numpy as np

from adaam._typing import FloatVector, IntVector


class Links(NamedTuple):
    """Neighbours of the rows of a block: compressed rows, numbers among all rows, and as in `NeighborGraph`."""

    starts: IntVector
    indices: IntVector
    distances: FloatVector
    shares: FloatVector
    weights: FloatVector | None  # of the neighbours; None where all weigh 1
    copies: FloatVector
    open: IntVector  # rows that are left out, for their ties were not seen whole

    def rows(self) -> IntVector:
        """Row of the block that each entry belongs to."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
