"""Rows larger than memory: sources that are read block by block, and results written block by block."""

from adaam.rows.files import NpyRows, ParquetRows, open_rows
from adaam.rows.sources import (
    ArrayRows,
    BlockRows,
    RowsError,
    RowSource,
    as_rows,
    checked_blocks,
    counted_rows,
    n_bytes,
    read_all,
)
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
