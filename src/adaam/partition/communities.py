"""Communities: clusters found by moving rows along links while modularity rises."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from adaam._typing import IntVector
from adaam.engines.links import Links

# All nodes at once would trade places for ever; a random half of them moves in each sweep.
MOVING_SHARE = 0.5
MAX_SWEEPS = 30
# Sweeps end when so small a share of the nodes still moves; the last few change nothing that merging does not.
FEW_MOVES = 0.002
# A gain in modularity below this share of a node's degree is rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Draws:
    """Random halves of the nodes; which numbers a node gets is told by its rank, so not by the order of nodes."""

    rng: np.random.Generator
    ranks: IntVector | None = None

    def singletons(self, n_nodes: int) -> IntVector:
        """Label of each node where every one is a community of its own; ties between labels go to the lowest."""
        return np.arange(n_nodes) if self.ranks is None else self.ranks

    def half(self, n_nodes: int) -> Any:
        """Mask of the nodes that move in a sweep."""
        drawn = self.rng.random(n_nodes, dtype=np.float32) < MOVING_SHARE
        return drawn if self.ranks is None else drawn[self.ranks]


def local_communities(links: Links, resolution: float, draws: Draws) -> tuple[Any, int]:
    """Find many small communities: nodes move, from one community each, while modularity rises.

    This is the first level of the Louvain method (Blondel et al. 2008), with a random half of the nodes moving at
    once. Communities are small, since none moves as a whole; there are more of them at a higher `resolution`.

    Returns
    -------
    labels : array of shape (n_nodes,)
        Community of each node, 0..m-1, where the links are.
    n_labels : int
        Number of communities.
    """
    labels = links.asarray(draws.singletons(links.n_nodes))
    for _ in range(MAX_SWEEPS):
        labels, n_moved = _sweep(links, labels, links.n_nodes, resolution, draws)
        if n_moved <= FEW_MOVES * links.n_nodes:
            break
    found, labels = links.xp.unique(labels, return_inverse=True)
    return labels, len(found)


def refined(links: Links, labels: Any, n_labels: int, draws: Draws, *, resolution: float = 1.0) -> Any:
    """Move single rows between given communities while modularity rises; none of these is emptied."""
    best, highest = labels, _quality(links, labels, n_labels, resolution)
    for _ in range(MAX_SWEEPS):
        labels, n_moved = _sweep(links, labels, n_labels, resolution, draws)
        if n_moved == 0 or int((links.xp.bincount(labels, minlength=n_labels) == 0).sum()):
            break
        quality = _quality(links, labels, n_labels, resolution)
        if quality > highest:
            best, highest = labels, quality
    return best


def _sweep(links: Links, labels: Any, n_labels: int, resolution: float, draws: Draws) -> tuple[Any, int]:
    """Let a random half of the nodes join the community that gains most; return the labels and how many moved."""
    xp, degrees = links.xp, links.degrees
    scale = resolution / degrees.sum()
    totals = xp.bincount(labels, weights=degrees, minlength=n_labels)
    nodes, found, sums = links.sums_by_label(labels, n_labels)
    own = labels[nodes] == found
    gains = sums - scale * degrees[nodes] * (totals[found] - xp.where(own, degrees[nodes], 0.0))
    highest, choice = links.best(gains, nodes, found)
    staying = -scale * degrees * (totals[labels] - degrees)
    staying[nodes[own]] = gains[own]
    movers = links.asarray(draws.half(links.n_nodes))
    moving = movers & (highest > staying + ROUNDING * degrees)
    return xp.where(moving, choice, labels), int(moving.sum())


def _quality(links: Links, labels: Any, n_labels: int, resolution: float) -> float:
    """Modularity at a resolution."""
    xp, degrees = links.xp, links.degrees
    total = degrees.sum()
    nodes, others, weights = links.entries()
    inside = xp.where(labels[nodes] == labels[others], weights, 0.0).sum() + links.loops.sum()
    masses = xp.bincount(labels, weights=degrees, minlength=n_labels) / total
    return float(inside / total - resolution * (masses * masses).sum())
