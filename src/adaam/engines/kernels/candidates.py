"""Pairs of rows that may be nearest neighbours: those within bounds of each other, among all or among clusters asked.

A tile of leading columns proves most pairs too far; the few others are measured in all columns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import NamedTuple, TypeAlias

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.kernels.narrow import STEP, Leading, NarrowRows
from adaam.engines.kernels.near_clusters import Asked, NearClusters

TILE_ROWS = 512
WORD = 64  # columns whose bits the kernels keep together
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
    """Memory for the pairs found in a tile, used for one after another."""

    def __init__(self, n_pairs: int) -> None:
        self.arrays = (*np.empty((2, 2 * n_pairs), np.int32), np.empty(2 * n_pairs, np.float32))

    def found(self, n_found: int) -> Pairs:
        """Copy what was found."""
        return Pairs(*(array[:n_found].copy() for array in self.arrays))


# Makes the pairs of some tiles.
Work: TypeAlias = Callable[[int], Iterator[Pairs]]


def among_all(search: Search, most: int) -> Pairs | None:
    """All pairs within the bound of their first row; None where there are more than `most`."""
    n = len(search.narrow)
    blocks = row_blocks(n, TILE_ROWS)
    nobody, no_lists = np.zeros(n, np.int32), np.empty((n, 0), np.int32)

    def tiles(block: int) -> Iterator[Pairs]:
        return _near(search, np.arange(blocks[block].stop, dtype=np.int32), blocks[block], nobody, no_lists)

    return _gathered(tiles, len(blocks), most)


def among_asked(search: Search, clusters: NearClusters, asked: Asked, most: int) -> Pairs | None:
    """Pairs within the bound of their first row, one of which asks for the cluster of the other."""
    slices, labels = clusters.slices(), clusters.labels()

    def tiles(cluster: int) -> Iterator[Pairs]:
        return _near(search, asked.asking(cluster), slices[cluster], labels, asked.clusters)

    return _gathered(tiles, len(slices), most)


def _near(search: Search, rows: IntVector, places: slice, labels: IntVector, asked: IntMatrix) -> Iterator[Pairs]:
    """Pairs of some rows and those at some places."""
    narrow, leading, bounds, kernels = search
    room = Room(TILE_ROWS * TILE_ROWS)
    for first in range(places.start, places.stop, TILE_ROWS):
        columns = slice(first, min(first + TILE_ROWS, places.stop))
        n_columns = columns.stop - columns.start
        right = _panels(leading.right[columns])
        for part in row_blocks(len(rows), TILE_ROWS):
            n_found = kernels.within_near(
                leading.left,
                rows[part],
                right,
                first,
                n_columns,
                search.n_steps,
                narrow.steps,
                leading.rest,
                bounds,
                labels,
                asked,
                *room.arrays,
            )
            yield room.found(n_found)


def _panels(rows: FloatMatrix) -> FloatMatrix:
    """Rows as columns, so many together as kernels keep the bits of; those missing from the last panel are zero."""
    n, width = rows.shape
    filled = np.zeros((-(-n // WORD), WORD, width), np.float32)
    filled.reshape(-1, width)[:n] = rows
    return np.ascontiguousarray(filled.transpose(0, 2, 1))


def from_some(search: Search, some: IntVector, most: int) -> Pairs | None:
    """Pairs of some rows, numbered among themselves, and any other row within their bound."""
    narrow, leading, bounds, kernels = search
    blocks = row_blocks(len(narrow), TILE_ROWS)
    left, steps, rest, limits = leading.left[some], narrow.steps[some], leading.rest[some], bounds[some]
    nothing = np.full(TILE_ROWS, -np.inf, np.float32)

    def tiles(block: int) -> Iterator[Pairs]:
        columns = blocks[block]
        room = Room(len(some) * TILE_ROWS)
        n_found = kernels.within_bounds(
            left @ leading.right[columns].T,
            False,
            (0, columns.start),
            search.n_steps,
            steps,
            narrow.steps[columns],
            rest,
            leading.rest[columns],
            limits,
            nothing[: columns.stop - columns.start],
            *room.arrays,
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
