"""A good guess of nearest neighbours, which bounds their distances: from leaves of trees, or from clusters around."""

from collections.abc import Iterable, Iterator
from itertools import chain
from types import ModuleType
from typing import TypeAlias

import numpy as np

from adaam._typing import FloatMatrix, IntMatrix, IntVector
from adaam.engines.blocks import ordered_map
from adaam.engines.kernels.narrow import STEP, Leading, NarrowRows
from adaam.engines.kernels.near_clusters import NearClusters

N_TREES = 2  # each turned another way
LEAF_ROWS = 1024  # rows of a leaf, at most
AROUND_ROWS = 640  # rows around a cluster that are looked at, at least
SPREAD_ROWS = 256  # rows of a part that tell in which column it is widest, about

# Rows, and others among which those near them are looked for; a look has each row in one group.
Group: TypeAlias = tuple[IntVector, IntVector]
Look: TypeAlias = list[Group]


def guessed(
    narrow: NarrowRows, leading: Leading, looks: Iterable[Look], k: int, spare: int, kernels: ModuleType
) -> tuple[IntMatrix, FloatMatrix]:
    """Lists of k others of each row, near it, with their squared distances in float32, ascending.

    A look is at the leading columns, and those that are nearest in them are measured in all: k, and some to spare.
    """
    n = len(narrow)
    indices = np.full((n, k), -1, np.int32)
    distances = np.full((n, k), np.inf, np.float32)
    n_steps = -(-leading.n_leading // STEP)

    def keep(group: Group) -> None:
        rows, others = group
        tile = leading.left[rows] @ leading.right[others].T
        kernels.keep_nearest(tile, rows, others, k + spare, n_steps, narrow.steps, leading.rest, indices, distances)

    for look in looks:
        for _ in ordered_map(keep, look):
            pass
    return indices, distances


def trees(head: FloatMatrix, first: list[IntVector], leaf_rows: int) -> Iterator[Look]:
    """Look within the leaves of trees; rows lie in the order of the leaves of the first one, which are known."""
    ends = np.cumsum([len(leaf) for leaf in first])
    whole = [np.arange(end - len(leaf), end, dtype=np.int32) for leaf, end in zip(first, ends, strict=True)]
    yield [(leaf, leaf) for leaf in whole]
    rng = np.random.default_rng(0)  # the guess affects speed alone, so its seed is nobody's business
    for _ in range(N_TREES - 1):
        yield [(leaf, leaf) for leaf in leaves(head @ _rotation(rng, head.shape[1]), leaf_rows)]


def around(clusters: NearClusters, k: int) -> Look:
    """Look around each cluster."""
    return [
        (np.arange(rows.start, rows.stop, dtype=np.int32), clusters.around(block, max(AROUND_ROWS, 4 * k)))
        for block, rows in enumerate(clusters.slices())
    ]


def _rotation(rng: np.random.Generator, size: int) -> FloatMatrix:
    return np.asarray(np.linalg.qr(rng.standard_normal((size, size)))[0], np.float32)


def leaves(rows: FloatMatrix, leaf_rows: int) -> list[IntVector]:
    """Split at the median of the column of largest variance, until no part is larger than a leaf."""

    def halves(part: IntVector) -> list[IntVector]:
        some = rows[part[:: max(1, len(part) // SPREAD_ROWS)]]
        column = rows[part, some.var(axis=0).argmax()]
        order = np.argpartition(column, len(part) // 2)
        return [part[order[: len(part) // 2]], part[order[len(part) // 2 :]]]

    parts = [np.arange(len(rows), dtype=np.int32)]
    while len(parts[0]) > leaf_rows:
        parts = list(chain.from_iterable(ordered_map(halves, parts)))
    return parts
