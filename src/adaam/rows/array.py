"""Rows of an array that is sliced on demand: a memory map, a Zarr array, an HDF5 data set."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix
from adaam.rows.protocol import RowsError, check_numbers, check_width, rows_per_block

MAX_BLOCK_BYTES = 1 << 30


class ArrayRows:
    """Rows of anything with `shape`, `dtype` and slices that give NumPy arrays.

    Parameters
    ----------
    array : array of two dimensions
        Sliced by rows. Where it tells its `chunks`, blocks are whole chunks.
    label : str, default="X"
        What messages call it.
    names : list of str, default=None
        Names of the columns.
    """

    def __init__(self, array: Any, label: str = "X", names: list[str] | None = None) -> None:
        if len(array.shape) != 2:
            raise RowsError(f"{label}: holds an array of shape {tuple(array.shape)}, not a table of rows.")
        self.array = array
        self.label = label
        self.names = names
        self.n_rows: int | None = int(array.shape[0])
        self.n_features = int(array.shape[1])
        self.dtype: np.dtype[Any] = check_numbers(label, np.dtype(array.dtype))
        check_width(label, self.n_features)

    def blocks(self) -> Iterator[FloatMatrix]:
        """Yield the rows in order."""
        height = rows_per_block(self.n_features)
        chunks = getattr(self.array, "chunks", None)
        if chunks and chunks[0] * self.n_features * 8 <= MAX_BLOCK_BYTES:
            # A chunk is unpacked whole, so one that is read in parts is unpacked several times.
            height = max(1, height // chunks[0]) * chunks[0]
        for start in range(0, self.n_rows or 0, height):
            yield np.asarray(self.array[start : start + height])
