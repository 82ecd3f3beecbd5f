"""Communities: clusters found by moving rows along links while modularity rises."""

from collections.abc import Iterator
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
    for moved, n_moved in _sweeps(links, labels, links.n_nodes, resolution, draws):
        labels = moved
        if n_moved <= FEW_MOVES * links.n_nodes:
            break
    found, labels = links.xp.unique(labels, return_inverse=True)
    return labels, len(found)


def refined(links: Links, labels: Any, n_labels: int, draws: Draws, *, resolution: float = 1.0) -> Any:
    """Move single rows between given communities while modularity rises; none of these is emptied."""
    best, highest = labels, _quality(links, labels, n_labels, resolution)
    for moved, n_moved in _sweeps(links, labels, n_labels, resolution, draws):
        if n_moved == 0:
            continue
        if int((links.xp.bincount(moved, minlength=n_labels) == 0).sum()):
            break
        quality = _quality(links, moved, n_labels, resolution)
        if quality > highest:
            best, highest = moved, quality
    return best


def _sweeps(links: Links, labels: Any, n_labels: int, resolution: float, draws: Draws) -> Iterator[tuple[Any, int]]:
    """Move nodes to the community that gains most, a random half of them at once; yield labels and how many moved.

    A node that had no reason to move is looked at again only after one that it is linked to has moved (the queue of
    Traag et al. 2019), so late sweeps cost little.
    """
    xp, degrees = links.xp, links.degrees
    scale = resolution / degrees.sum()
    waiting = links.asarray(np.ones(links.n_nodes, dtype=bool))
    for _ in range(MAX_SWEEPS):
        nodes = xp.where(links.asarray(draws.half(links.n_nodes)) & waiting)[0]
        if len(nodes) == 0:
            if not bool(waiting.any()):
                return
            continue
        totals = xp.bincount(labels, weights=degrees, minlength=n_labels)
        highest, choices, staying = links.moves(labels, totals, scale, nodes)
        moving = highest > staying + ROUNDING * degrees[nodes]
        moved = nodes[moving]
        shifts = xp.zeros_like(labels)
        shifts[moved] = choices[moving] - labels[moved]
        labels = labels + shifts
        waiting[nodes] = False
        waiting[links.neighbors(moved)] = True
        yield labels, len(moved)


def _quality(links: Links, labels: Any, n_labels: int, resolution: float) -> float:
    """Modularity at a resolution."""
    xp, degrees = links.xp, links.degrees
    total = degrees.sum()
    nodes, others, weights = links.nodes, links.others, links.weights
    inside = xp.where(labels[nodes] == labels[others], weights, 0.0).sum() + links.loops.sum()
    masses = xp.bincount(labels, weights=degrees, minlength=n_labels) / total
    return float(inside / total - resolution * (masses * masses).sum())
