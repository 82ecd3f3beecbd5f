"""What an affinity learner is: the one method to write to add your own."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from adaam.affinity.values import Affinity
from adaam.engines import Graph
from adaam.sample import Sample

# Gives the graph of k nearest neighbours of the sample: found on demand, or the one the caller brought. It is where the
# engine works; its `host()` has the neighbours of each row as NumPy arrays.
NeighborSource: TypeAlias = Callable[[int], Graph]


class AffinityLearner(Protocol):
    """Settings that turn a sample into an affinity."""

    def learn(self, sample: Sample, neighbors: NeighborSource) -> Affinity:
        """Return an affinity on the rows of the sample, weights included."""
        ...
