"""Rows of two blocks within bounds of each other, by compiled kernels (see `kernels.neighbors`); none is missed."""

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import row_blocks
from adaam.engines.kernels.candidates import TILE_ROWS
from adaam.engines.kernels.kept import KEPT
from adaam.engines.kernels.narrow import (
    LARGEST,
    SMALLEST,
    STEP,
    Frame,
    Leading,
    NarrowRows,
    common_frame,
    leading_columns,
)


class Near(NamedTuple):
    """Pairs of a row of one block and a row of the other, with their squared distance."""

    rows: IntVector
    others: IntVector
    squares: FloatVector


def block_frame(X: FloatMatrix, longest: float) -> Frame:
    """Frame of some rows, for blocks whose rows are no longer than `longest`."""
    if not SMALLEST < longest < LARGEST:
        return Frame(None, longest, None)
    frame = common_frame(X)
    shift = 0.0 if frame.mean is None else float(np.sqrt(frame.mean @ frame.mean))
    return frame._replace(peak=longest + shift)


def are_measurable(blocks: Sequence[FloatMatrix], bounds: Sequence[FloatVector], frame: Frame) -> bool:
    """Whether compiled kernels take these rows: in float64, squares neither vanish nor overflow, every row bounded."""
    if not all(X.dtype == np.float64 and X.flags.c_contiguous and len(X) for X in blocks):
        return False
    return SMALLEST < frame.peak < LARGEST and all(np.isfinite(bound).all() for bound in bounds)


def narrow_rows(X: FloatMatrix, frame: Frame) -> NarrowRows:
    """Rows of a block in float32, kept for other tasks."""
    n_bytes = 4 * len(X) * (-(-X.shape[1] // STEP) * STEP + 1)
    return KEPT.made(X, ("narrow", *_key(frame)), lambda: NarrowRows(X, frame), n_bytes)


def leading(X: FloatMatrix, frame: Frame, n_leading: int) -> Leading:
    """Leading columns of a block, kept for other tasks."""
    kind = ("leading", n_leading, *_key(frame))
    return KEPT.made(X, kind, lambda: Leading(narrow_rows(X, frame), n_leading), 8 * len(X) * (n_leading + 4))


def _key(frame: Frame) -> tuple[float, bytes, bytes]:
    mean, peak, order = frame
    return peak, b"" if mean is None else mean.tobytes(), b"" if order is None else order.tobytes()


def near_blocks(
    blocks: Sequence[FloatMatrix], bounds: Sequence[FloatVector], frame: Frame, kernels: ModuleType
) -> Iterator[tuple[Near, Near]]:
    """For each other block: its rows near those of the first, and rows of the first near its own.

    A pair is given if its squared distance, measured from differences in float64, is within the bound of the row that
    it is given for.
    """
    own = narrow_rows(blocks[0], frame)
    limits = [(bound / frame.peak**2).astype(np.float32) + np.float32(2.0 * own.error) for bound in bounds]
    n_leading = leading_columns(own, limits[0])
    ours = leading(blocks[0], frame, n_leading)
    for X, bound, limit in zip(blocks[1:], bounds[1:], limits[1:], strict=True):
        other, theirs = narrow_rows(X, frame), leading(X, frame, n_leading)
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


def unwritable(array: FloatMatrix) -> FloatMatrix:
    """View that cannot be written to, as of blocks that came over a network: numba compiles for one kind alone."""
    view = array.view()
    view.flags.writeable = False
    return view
