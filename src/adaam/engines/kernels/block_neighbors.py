"""Rows of two blocks within bounds of each other, by compiled kernels (see `kernels.neighbors`); none is missed."""

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import row_blocks
from adaam.engines.kernels.neighbors import (
    LARGEST,
    SMALLEST,
    STEP,
    TILE_ROWS,
    Leading,
    NarrowRows,
    common_frame,
    leading_columns,
)
from adaam.engines.kernels.strips import unwritable


class Near(NamedTuple):
    """Pairs of a row of one block and a row of the other, with their squared distance."""

    rows: IntVector
    others: IntVector
    squares: FloatVector


def are_measurable(blocks: Sequence[FloatMatrix], bounds: Sequence[FloatVector]) -> bool:
    """Whether compiled kernels take these rows: in float64, squares neither vanish nor overflow, every row bounded."""
    if not all(X.dtype == np.float64 and X.flags.c_contiguous and len(X) for X in blocks):
        return False
    largest = max(max(abs(float(X.min())), abs(float(X.max()))) for X in blocks)
    return SMALLEST < largest < LARGEST and all(np.isfinite(bound).all() for bound in bounds)


def near_blocks(
    blocks: Sequence[FloatMatrix], bounds: Sequence[FloatVector], kernels: ModuleType
) -> Iterator[tuple[Near, Near]]:
    """For each other block: its rows near those of the first, and rows of the first near its own.

    A pair is given if its squared distance, measured from differences in float64, is within the bound of the row that
    it is given for.
    """
    frame = common_frame(*blocks)
    own = NarrowRows(blocks[0], frame)
    limits = [(bound / frame.peak**2).astype(np.float32) + np.float32(2.0 * own.error) for bound in bounds]
    n_leading = leading_columns(own, limits[0])
    ours = Leading(own, n_leading)
    for X, bound, limit in zip(blocks[1:], bounds[1:], limits[1:], strict=True):
        other = NarrowRows(X, frame)
        theirs = Leading(other, n_leading)
        found = []
        row, column = np.empty((2, 2 * TILE_ROWS**2), np.int32)
        near, value = np.empty(2 * TILE_ROWS**2, np.float32), np.empty(2 * TILE_ROWS**2)
        room = np.empty(TILE_ROWS**2, np.float32)
        measured = tuple(unwritable(array) for array in (blocks[0], X, bounds[0], bound))
        for rows in row_blocks(len(own), TILE_ROWS):
            for columns in row_blocks(len(X), TILE_ROWS):
                height, width = rows.stop - rows.start, columns.stop - columns.start
                tile = room[: height * width].reshape(height, width)
                np.matmul(ours.left[rows], theirs.right[columns].T, out=tile)
                n_near = kernels.within_bounds(
                    tile,
                    False,
                    (rows.start, len(own) + columns.start),
                    -(-n_leading // STEP),
                    own.steps[rows],
                    other.steps[columns],
                    ours.rest[rows],
                    theirs.rest[columns],
                    limits[0][rows],
                    limit[columns],
                    row,
                    column,
                    near,
                )
                n_kept = kernels.measure_pairs(*measured, n_near, row, column, value)
                found.append(Near(row[:n_kept].copy(), column[:n_kept].copy(), value[:n_kept].copy()))
        yield _apart(found, len(own))


def _apart(found: list[Near], n_rows: int) -> tuple[Near, Near]:
    """Pairs given for rows of the first block, and those given for rows of the other, numbered within their blocks."""
    row, other, squares = (np.concatenate(part) for part in zip(*found, strict=True))
    first = row < n_rows
    mine = Near(row[first].astype(np.intp), other[first].astype(np.intp) - n_rows, squares[first])
    return mine, Near(row[~first].astype(np.intp) - n_rows, other[~first].astype(np.intp), squares[~first])
