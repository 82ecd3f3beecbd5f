"""Rows larger than memory: sources that are read block by block, and results written block by block."""

from adaam.rows.array import ArrayRows
from adaam.rows.blocks import BlockRows
from adaam.rows.npy import NpyRows
from adaam.rows.opening import as_rows, open_rows
from adaam.rows.parquet import ParquetRows
from adaam.rows.protocol import RowsError, RowSource, checked_blocks, counted_rows, n_bytes, read_all
from adaam.rows.writing import WRITERS, map_to_file, write_csv, writer_for

__all__ = [
    "WRITERS",
    "ArrayRows",
    "BlockRows",
    "NpyRows",
    "ParquetRows",
    "RowSource",
    "RowsError",
    "as_rows",
    "checked_blocks",
    "counted_rows",
    "map_to_file",
    "n_bytes",
    "open_rows",
    "read_all",
    "write_csv",
    "writer_for",
]
