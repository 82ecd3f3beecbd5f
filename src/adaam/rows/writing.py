"""Rows written block by block to a file that appears whole or not at all."""

import csv
import io
import os
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.lib import format as npy

from adaam._typing import FloatMatrix
from adaam.files import atomic_file, spreadsheet_text
from adaam.rows.files import pyarrow
from adaam.rows.sources import RowsError, as_rows, checked_blocks

# Writes blocks to a stream under column names; returns the number of rows.
Writer: TypeAlias = Callable[[BinaryIO, Iterable[FloatMatrix], list[str]], int]


def map_to_file(model: Any, rows: Any, path: str | os.PathLike[str]) -> int:
    """Map rows by a fitted model into a file, with one block of them in memory at a time.

    Parameters
    ----------
    model : estimator
        Any fitted estimator with `transform` and `get_feature_names_out`.
    rows : RowSource, memory map or Zarr array
        Rows to map, read once.
    path : path-like
        A .npy, .csv or .parquet file. It takes this name when it is complete; a crash or an interrupt leaves what was
        there before.

    Returns
    -------
    n_rows : int
        Number of rows written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAM
    >>> from adaam.rows import map_to_file, open_rows
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "rows.npy", load_digits().data)
    >>> rows = open_rows(folder / "rows.npy")
    >>> map_to_file(AdaAM(10).fit(rows), rows, folder / "mapped.npy")
    1797
    """
    source = as_rows(rows)
    if source is None:
        raise TypeError(f"rows={type(rows).__name__} is no row source; use adaam.rows.open_rows(path).")
    write = writer_for(path)
    names = [str(name) for name in model.get_feature_names_out()]
    mapped = (np.asarray(model.transform(block)) for _, block in checked_blocks(source))
    with atomic_file(path) as stream:
        return write(stream, mapped, names)


def writer_for(path: str | os.PathLike[str]) -> Writer:
    """Return the writer for the ending of the file name."""
    ending = Path(path).suffix.lower()
    if ending not in WRITERS:
        raise RowsError(f"{path}: ending {ending!r} cannot be written in blocks; use one of {', '.join(WRITERS)}.")
    if not Path(path).resolve().parent.is_dir():
        raise RowsError(f"{path}: its folder does not exist.")
    return WRITERS[ending]


def write_npy(stream: BinaryIO, blocks: Iterable[FloatMatrix], names: list[str]) -> int:
    """Write a .npy file; its header is padded, so that the number of rows can be filled in at the end."""
    dtype: np.dtype[Any] = np.dtype(np.float64)

    def write_header(n_rows: int) -> None:
        fields = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (n_rows, len(names))}
        npy.write_array_header_1_0(stream, fields)

    n_rows = 0
    write_header(0)
    for block in blocks:
        if n_rows == 0:  # the length of a header does not depend on the dtype
            dtype = block.dtype
        stream.write(np.ascontiguousarray(block, dtype).data)
        n_rows += len(block)
    stream.seek(0)
    write_header(n_rows)
    return n_rows


def write_csv(stream: BinaryIO, blocks: Iterable[FloatMatrix], names: list[str]) -> int:
    """Write comma-separated values under a header line, whose names are escaped if they look like formulas."""

    def write(rows: list[list[Any]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        stream.write(text.getvalue().encode())

    n_rows = 0
    write([[spreadsheet_text(name) for name in names]])
    for block in blocks:
        write(block.tolist())
        n_rows += len(block)
    return n_rows


def write_parquet(stream: BinaryIO, blocks: Iterable[FloatMatrix], names: list[str]) -> int:
    """Write a Parquet file, one row group per block."""
    pa, pq = pyarrow()

    def table(block: FloatMatrix) -> Any:
        return pa.Table.from_arrays([pa.array(np.ascontiguousarray(column)) for column in block.T], names=names)

    filled = (block for block in blocks if len(block))
    first = next(filled, np.empty((0, len(names))))
    n_rows = 0
    with pq.ParquetWriter(stream, table(first).schema) as writer:
        for block in chain([first], filled):
            writer.write_table(table(block))
            n_rows += len(block)
    return n_rows


WRITERS: dict[str, Writer] = {".npy": write_npy, ".csv": write_csv, ".parquet": write_parquet}
