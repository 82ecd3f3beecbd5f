"""Connected pieces of a graph in row blocks: each block joins its own rows, and a few tasks join the blocks."""

from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from adaam._typing import IntVector
from adaam.engines.cluster.layout import Sizes, starts
from adaam.engines.cluster.workers import Future, Workers

FOLD = 4  # sets of links joined by one task


def piece_sizes(links: tuple[Future, ...], sizes: Sizes, workers: Workers) -> IntVector:
    """Rows in each piece, directions ignored, largest first."""
    stars = [workers.call("pieces", links_to_stars, part, i) for part, i in zip(links, starts(sizes), strict=True)]
    while len(stars) > 1:
        stars = [workers.call("pieces", joined_stars, stars[i : i + FOLD]) for i in range(0, len(stars), FOLD)]
    found: IntVector = workers.fetch([workers.call("pieces", star_sizes, stars[0])])[0]
    return found


def links_to_stars(links: Any, start: int) -> tuple[IntVector, IntVector]:
    """Rows that a block links, each with the lowest row it is joined to."""
    own = np.arange(start, start + len(links.starts) - 1)
    return _stars(np.concatenate([own, links.rows() + start]), np.concatenate([own, links.indices]))


def joined_stars(parts: list[tuple[IntVector, IntVector]]) -> tuple[IntVector, IntVector]:
    """Join what several blocks have joined."""
    return _stars(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def star_sizes(stars: tuple[IntVector, IntVector]) -> IntVector:
    """Rows of each piece, largest first."""
    sizes = np.unique(stars[1], return_counts=True)[1]
    return np.sort(sizes)[::-1]


def _stars(ends: IntVector, others: IntVector) -> tuple[IntVector, IntVector]:
    nodes, where = np.unique(np.concatenate([ends, others]), return_inverse=True)
    i, j = where[: len(ends)], where[len(ends) :]
    edges = coo_array((np.ones(len(i), np.int8), (i, j)), shape=(len(nodes), len(nodes)))
    n_pieces, piece = connected_components(edges, directed=False)
    lowest = np.full(n_pieces, len(nodes))
    np.minimum.at(lowest, piece, np.arange(len(nodes)))
    return nodes, nodes[lowest[piece]]
