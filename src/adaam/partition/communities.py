"""Communities: clusters found by moving rows along links while modularity rises."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from adaam._typing import IntVector
from adaam.engines.links import Links

MAX_SWEEPS = 30
# Sweeps end once no more than this share of the nodes moves; merging would make up for the remaining moves.
FEW_MOVES = 0.002


@dataclass(frozen=True, slots=True)
class Draws:
    """Random halves of the nodes; the numbers a node gets depend on its rank, not on the order of nodes."""

    rng: np.random.Generator
    ranks: IntVector | None = None

    def singletons(self, n_nodes: int) -> IntVector:
        """Label each node as a community of its own, by its rank, since ties between labels go to the lowest."""
        return np.arange(n_nodes) if self.ranks is None else self.ranks

    def halves(self, n_nodes: int) -> tuple[IntVector, IntVector]:
        """Return the ranks of the nodes, and a salt for each sweep that selects the half that moves in it."""
        return self.singletons(n_nodes), self.rng.integers(1 << 62, size=MAX_SWEEPS)


def local_communities(links: Links, resolution: float, draws: Draws) -> tuple[Any, int]:
    """Find many small communities: nodes start as communities of their own and move while modularity rises.

    This is the first level of the Louvain method (Blondel et al. 2008), with a random half of the nodes moving at
    once. Communities are small, since none moves as a whole; there are more of them at a higher `resolution`.

    Returns
    -------
    labels : array of shape (n_nodes,)
        Community of each node, 0..m-1, stored like the links.
    n_labels : int
        Number of communities.
    """
    labels = links.asarray(draws.singletons(links.n_nodes))
    few_moves = int(FEW_MOVES * links.n_nodes)
    labels = links.labels_after(labels, links.n_nodes, resolution, *draws.halves(links.n_nodes), few_moves)
    found, labels = links.xp.unique(labels, return_inverse=True)
    return labels, len(found)


def refined(links: Links, labels: Any, n_labels: int, draws: Draws) -> Any:
    """Move single rows between given communities while modularity rises; none of these is emptied."""
    return links.labels_after(labels, n_labels, 1.0, *draws.halves(links.n_nodes), None)
