"""Rows of a .npy file, read by plain reads: no page of the file stays in the process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix
from adaam.rows.protocol import RowsError, check_numbers, rows_per_block


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
        try:
            header = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise RowsError(f"{self.label}: cannot be read as .npy: {error}") from error
        if not isinstance(header, np.memmap) or header.ndim != 2:
            raise RowsError(f"{self.label}: holds an array of shape {header.shape}, not a table of rows.")
        self.n_rows: int | None = header.shape[0]
        self.n_features: int = header.shape[1]
        self.dtype = check_numbers(self.label, header.dtype)
        self._offset: int = header.offset
        self._by_rows = header.flags.c_contiguous

    def blocks(self) -> Iterator[FloatMatrix]:
        """Yield the rows in order."""
        n_rows, height = self.n_rows or 0, rows_per_block(self.n_features)
        if not self._by_rows:  # written column by column: each block gathers from all over the file
            array = np.load(self.path, mmap_mode="r", allow_pickle=False)
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
