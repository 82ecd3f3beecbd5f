"""Rows packed for SIMD loops: tiles of micro-panels, columns side by side as vector loads read them.

Everything begins at a cache line and is filled up with zeros, which change no sum.
"""

import numpy as np

from adaam._typing import FloatMatrix, IntVector
from adaam.engines.blocks import ordered_map, row_blocks

WORD = 64  # entries whose marks are the bits of one word
PANEL = 32  # columns of X whose sums stay in registers
CACHE_LINE = 64
BLOCK_ENTRIES = 1 << 18  # numbers moved at a time


def aligned_zeros(shape: tuple[int, ...], dtype: type) -> FloatMatrix:
    """Zeros that begin at a cache line: a vector of numbers that lies on two takes twice as long to read."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(n_bytes + CACHE_LINE, np.uint8)
    begin = -room.ctypes.data % CACHE_LINE
    return room[begin : begin + n_bytes].view(dtype).reshape(shape)


def pack_columns(narrow: FloatMatrix, width: int) -> FloatMatrix:
    """Rows of a factor as columns, (tiles, rank, columns): `width` of them to a tile, in room for whole words."""
    n, rank = narrow.shape
    tiles = aligned_zeros((-(-n // width), rank, -(-width // WORD) * WORD), np.float32)
    for tile, rows in zip(tiles, row_blocks(n, width), strict=True):
        tile[:, : rows.stop - rows.start] = narrow[rows].T
    return tiles


def pack_rows(X: FloatMatrix, width: int, length: float, dtype: type) -> FloatMatrix:
    """Rows of X over a length, (tiles, panels, rows x columns of a panel): `width` rows to a tile."""
    n, d = X.shape
    panels = aligned_zeros((-(-n // width), panel_count(d), width, PANEL), dtype)

    def fill(tile: int) -> None:
        rows = X[tile * width : (tile + 1) * width]
        _lay_out(rows / length, panels[tile, :, : len(rows)])

    for _ in ordered_map(fill, range(len(panels))):
        pass
    return panels.reshape(*panels.shape[:2], -1)


def pack_groups(
    X: FloatMatrix, order: IntVector, factor: FloatMatrix, width: int, group: int, length: float
) -> FloatMatrix:
    """Rows of X as `pack_rows` has them, in an order and float32; behind those of a tile P'X of each of its groups.

    The factor P is in this order already.
    """
    n, d = X.shape
    n_panels, rank = panel_count(d), factor.shape[1]
    panels = aligned_zeros((-(-n // width), n_panels, width + -(-width // group) * rank, PANEL), np.float32)

    def fill(rows: slice) -> None:
        block = X[order[rows]] / length
        tile, start = divmod(rows.start, width)
        behind = width + start // group * rank
        _lay_out(block, panels[tile, :, start : start + len(block)])
        _lay_out(factor[rows].T @ block, panels[tile, :, behind : behind + rank])

    groups = [
        slice(tile.start + g.start, tile.start + g.stop)
        for tile in row_blocks(n, width)
        for g in row_blocks(tile.stop - tile.start, group)
    ]
    for _ in ordered_map(fill, groups):
        pass
    return panels.reshape(len(panels), n_panels, -1)


def _lay_out(rows: FloatMatrix, panels: FloatMatrix) -> None:
    """Write rows to panels, (panels, rows, columns of a panel)."""
    whole = rows.shape[1] // PANEL
    panels[:whole] = rows[:, : whole * PANEL].reshape(len(rows), whole, PANEL).transpose(1, 0, 2)
    if whole < len(panels):
        panels[whole, :, : rows.shape[1] - whole * PANEL] = rows[:, whole * PANEL :]


def panel_count(d: int) -> int:
    """Panels for so many columns."""
    return -(-d // PANEL)


def unpack_rows(product: FloatMatrix, d: int) -> FloatMatrix:
    """Sums laid out as (panels, rows x columns of a panel), row by row and in float64."""
    rows = product.reshape(len(product), -1, PANEL).transpose(1, 0, 2)
    return np.asarray(rows.reshape(rows.shape[0], -1)[:, :d], np.float64)


def largest_magnitude(X: FloatMatrix) -> float:
    """Return the largest magnitude, or 1 where all are zero."""
    blocks = row_blocks(len(X), max(16, BLOCK_ENTRIES // max(1, X.shape[1])))
    return float(max(ordered_map(lambda rows: max(X[rows].max(), -X[rows].min()), blocks), default=0.0)) or 1.0
