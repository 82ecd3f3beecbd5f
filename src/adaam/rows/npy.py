"""Rows of a .npy file, read by plain reads: no page of the file stays in the process."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix
from adaam.rows.protocol import RowsError, check_numbers, check_width, rows_per_block
from adaam.untrusted import array_header, reading


class NpyRows:
    """Rows of a two-dimensional array in a .npy file.

    Parameters
    ----------
    path : path-like
        The file; it must stay as it is while it is read.
    """

    names: list[str] | None = None

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        self.label = str(path)
        with reading(self.label, ".npy", RowsError), self.path.open("rb") as stream:
            shape, by_columns, dtype = array_header(stream)
            self._offset: int = stream.tell()
            n_there = os.fstat(stream.fileno()).st_size - self._offset
        if len(shape) != 2 or min(shape) < 0:
            raise RowsError(f"{self.label}: holds an array of shape {shape}, not a table of rows.")
        self.dtype = check_numbers(self.label, dtype)
        check_width(self.label, shape[1])
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes > n_there:
            raise RowsError(
                f"{self.label}: cannot be read as .npy: it is truncated, with {n_there} of the {n_bytes} bytes that "
                f"shape {shape} takes."
            )
        self.n_rows: int | None = shape[0]
        self.n_features: int = shape[1]
        self._by_rows = not by_columns or 1 in shape

    def blocks(self) -> Iterator[FloatMatrix]:
        """Yield the rows in order."""
        n_rows, height = self.n_rows or 0, rows_per_block(self.n_features)
        if not self._by_rows:  # written column by column: each block gathers from all over the file
            array = np.memmap(self.path, self.dtype, "r", self._offset, (n_rows, self.n_features), "F")
            for start in range(0, n_rows, height):
                yield np.ascontiguousarray(array[start : start + height])
            return
        with self.path.open("rb") as stream:
            stream.seek(self._offset)
            for start in range(0, n_rows, height):
                shape = (min(height, n_rows - start), self.n_features)
                block = np.fromfile(stream, self.dtype, shape[0] * shape[1])
                if block.size < shape[0] * shape[1]:
                    raise RowsError(f"{self.label}: ends before row {start + shape[0]} of {n_rows}; it is truncated.")
                yield block.reshape(shape)
