"""Pairs of rows that may be nearest neighbours: those within bounds of each other, among all or among clusters asked.

A tile of leading columns proves most pairs too far; the few others are measured in all columns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import NamedTuple, TypeAlias

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.kernels.narrow import STEP, Leading, NarrowRows
from adaam.engines.kernels.near_clusters import Asked, NearClusters

TILE_ROWS = 512
MAX_CANDIDATES = 64  # times k, on average a row: past it float32 cannot tell rows apart


class Pairs(NamedTuple):
    """Pairs of rows and their squared distances."""

    row: IntVector
    column: IntVector
    value: FloatVector


class Search(NamedTuple):
    """What candidates are looked for with: rows, their leading columns, and how far a neighbour is at most."""

    narrow: NarrowRows
    leading: Leading
    bounds: FloatVector
    kernels: ModuleType

    @property
    def n_steps(self) -> int:
        """Steps of columns that are leading ones."""
        return -(-self.leading.n_leading // STEP)


class Room:
    """Memory for a tile and the pairs found in it, used for one after another."""

    def __init__(self, height: int, width: int) -> None:
        self.tile = np.empty(height * width, np.float32)
        self.row, self.column = np.empty((2, 2 * height * width), np.int32)
        self.value = np.empty(2 * height * width, np.float32)

    def product(self, left: FloatMatrix, right: FloatMatrix) -> FloatMatrix:
        """Product of two sets of rows."""
        tile = self.tile[: len(left) * len(right)].reshape(len(left), len(right))
        return np.matmul(left, right.T, out=tile)

    def found(self, n_found: int) -> Pairs:
        """Copy what was found."""
        return Pairs(self.row[:n_found].copy(), self.column[:n_found].copy(), self.value[:n_found].copy())


# Makes the pairs of some tiles.
Work: TypeAlias = Callable[[int], Iterator[Pairs]]


def among_all(search: Search, most: int) -> Pairs | None:
    """All pairs within the bound of their first row; None where there are more than `most`."""
    narrow, leading, bounds, kernels = search
    blocks = row_blocks(len(narrow), TILE_ROWS)

    def tiles(block: int) -> Iterator[Pairs]:
        rows = blocks[block]
        room = Room(TILE_ROWS, TILE_ROWS)
        for columns in blocks[block:]:
            n_found = kernels.within_bounds(
                room.product(leading.left[rows], leading.right[columns]),
                columns.start == rows.start,
                (rows.start, columns.start),
                search.n_steps,
                narrow.steps[rows],
                narrow.steps[columns],
                leading.rest[rows],
                leading.rest[columns],
                bounds[rows],
                bounds[columns],
                room.row,
                room.column,
                room.value,
            )
            yield room.found(n_found)

    return _gathered(tiles, len(blocks), most)


def among_asked(search: Search, clusters: NearClusters, asked: Asked, most: int) -> Pairs | None:
    """Pairs within the bound of their first row, one of which asks for the cluster of the other."""
    narrow, leading, bounds, kernels = search
    slices, labels = clusters.slices(), clusters.labels()

    def tiles(cluster: int) -> Iterator[Pairs]:
        asking, places = asked.asking(cluster), slices[cluster]
        room = Room(TILE_ROWS, TILE_ROWS)
        for rows in row_blocks(len(asking), TILE_ROWS):
            left = leading.left[asking[rows]]
            for first in range(places.start, places.stop, TILE_ROWS):
                n_found = kernels.within_asked(
                    room.product(left, leading.right[first : min(first + TILE_ROWS, places.stop)]),
                    asking[rows],
                    first,
                    search.n_steps,
                    narrow.steps,
                    leading.rest,
                    bounds,
                    labels,
                    asked.clusters,
                    room.row,
                    room.column,
                    room.value,
                )
                yield room.found(n_found)

    return _gathered(tiles, len(slices), most)


def from_some(search: Search, some: IntVector, most: int) -> Pairs | None:
    """Pairs of some rows, numbered among themselves, and any other row within their bound."""
    narrow, leading, bounds, kernels = search
    blocks = row_blocks(len(narrow), TILE_ROWS)
    left, steps, rest, limits = leading.left[some], narrow.steps[some], leading.rest[some], bounds[some]
    nothing = np.full(TILE_ROWS, -np.inf, np.float32)

    def tiles(block: int) -> Iterator[Pairs]:
        columns = blocks[block]
        room = Room(len(some), TILE_ROWS)
        n_found = kernels.within_bounds(
            room.product(left, leading.right[columns]),
            False,
            (0, columns.start),
            search.n_steps,
            steps,
            narrow.steps[columns],
            rest,
            leading.rest[columns],
            limits,
            nothing[: columns.stop - columns.start],
            room.row,
            room.column,
            room.value,
        )
        pairs = room.found(n_found)
        other = some[pairs.row] != pairs.column
        yield Pairs(*(part[other] for part in pairs))

    return _gathered(tiles, len(blocks), most)


def _gathered(work: Work, n_items: int, most: int) -> Pairs | None:
    found: list[Pairs] = []
    n_found = 0
    for part in ordered_map(lambda item: joined(list(work(item))), range(n_items)):
        found.append(part)
        n_found += len(part.row)
        if n_found > most:
            return None
    return joined(found)


def joined(parts: Sequence[Pairs] | Iterable[Pairs]) -> Pairs:
    """Pairs of several parts, one part after the other."""
    row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Pairs(row, column, value)
