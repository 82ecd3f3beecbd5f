"""Row sources in files: .npy, Parquet and Zarr."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix
from adaam.rows.sources import (
    MAX_BLOCK_BYTES,
    ArrayRows,
    RowsError,
    RowSource,
    check_numbers,
    check_table,
    rows_per_block,
)
from adaam.untrusted import array_header, reading

MAX_DESCRIPTION_BYTES = 1 << 20

# Chunks that hold only the fill value are not stored. Arrays are refused if fewer than 1 / MOST_MISSING of theirs are.
MOST_MISSING = 1000

# Codecs that only compress or reorder bytes. Others, such as "pickle", run code in a chunk, or unpack without a limit.
CODECS = frozenset(
    {"blosc", "bytes", "crc32", "crc32c", "delta", "endian", "fixedscaleoffset", "gzip", "lz4", "sharding_indexed"}
    | {"shuffle", "transpose", "zlib", "zstd"}
)


def open_rows(path: str | os.PathLike[str]) -> RowSource:
    """Open a file of rows without reading them.

    Parameters
    ----------
    path : path-like
        A .npy file, a .zarr folder, a .parquet file, or a folder of .parquet files.

    Returns
    -------
    RowSource
        For `AdaAM.fit`, for `transform` and for `map_to_file`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from adaam.rows import open_rows
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.npy"
    >>> np.save(path, np.zeros((5, 3)))
    >>> rows = open_rows(path)
    >>> rows.n_rows, rows.n_features
    (5, 3)
    """
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"{path}: no such file.")
    ending = place.suffix.lower()
    if ending == ".npy":
        return NpyRows(place)
    if ending == ".zarr":
        return ZarrRows(place)
    if ending == ".parquet" or place.is_dir():
        return ParquetRows(place)
    raise RowsError(
        f"{path}: ending {ending!r} is not known; use .npy, .zarr, .parquet or a folder of .parquet files. Other rows "
        "can be read by adaam.rows.BlockRows."
    )


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
        self.dtype = dtype
        self.n_rows: int | None
        self.n_rows, self.n_features = check_table(self.label, shape, dtype)
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes > n_there:
            raise RowsError(
                f"{self.label}: cannot be read as .npy: it is truncated, with {n_there} of the {n_bytes} bytes that "
                f"shape {shape} takes."
            )
        self._by_rows = not by_columns or 1 in shape

    def blocks(self) -> Iterator[FloatMatrix]:
        """Yield the rows in order."""
        n_rows, height = self.n_rows or 0, rows_per_block(self.n_features)
        if not self._by_rows:  # stored column by column: each block is gathered from the whole file
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


class ParquetRows:
    """Rows of Parquet files whose columns are all numbers; missing values are NaN, which a fit refuses.

    Parameters
    ----------
    path : path-like
        A file, or a folder of files with the same columns.
    """

    def __init__(self, path: Any) -> None:
        self._open = pyarrow()[1].ParquetFile
        self.label = str(path)
        folder = Path(path)
        self.files = sorted(folder.rglob("*.parquet")) if folder.is_dir() else [folder]
        if not self.files:
            raise RowsError(f"{self.label}: the folder holds no .parquet file.")
        opened = []
        for file in self.files:
            with reading(file, ".parquet", RowsError):
                opened.append(self._open(file))
        with reading(self.label, ".parquet", RowsError):
            self.names: list[str] | None = list(opened[0].schema_arrow.names)
            for file, parts in zip(self.files, opened, strict=True):
                if list(parts.schema_arrow.names) != self.names:
                    raise RowsError(f"{file}: its columns are not those of {self.files[0]}.")
            if not self.names:
                raise RowsError(f"{self.label}: has no columns.")
            self.dtype = np.result_type(*(self._column_type(part.schema_arrow) for part in opened))
            self.n_rows: int | None = sum(part.metadata.num_rows for part in opened)
            self.n_features = len(self.names)

    def blocks(self) -> Iterator[FloatMatrix]:
        """Yield the rows in order."""
        for file in self.files:
            with reading(file, ".parquet", RowsError), self._open(file) as opened:
                for batch in opened.iter_batches(batch_size=rows_per_block(self.n_features)):
                    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
                    yield np.column_stack(columns)

    def _column_type(self, schema: Any) -> np.dtype[Any]:
        kinds = []
        for field in schema:
            try:
                kind = np.dtype(field.type.to_pandas_dtype())
            except (NotImplementedError, TypeError) as error:
                raise RowsError(f"{self.label}: column {field.name!r} holds {field.type}, not numbers.") from error
            check_numbers(f"{self.label}: column {field.name!r}", kind)
            kinds.append(kind)
        return np.result_type(*kinds)


def pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its Parquet module."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow. Install it with: pip install adaam[parquet]") from error
    return pa, pq


class ZarrRows(ArrayRows):
    """Rows of a Zarr array of two dimensions in a folder, or of the array "X" of a group; blocks are whole chunks.

    Parameters
    ----------
    path : path-like
        The folder; it must stay as it is while it is read.
    """

    def __init__(self, path: Any) -> None:
        try:
            import zarr
        except ImportError as error:
            raise ImportError("Zarr arrays need zarr. Install it with: pip install adaam[zarr]") from error
        with reading(path, "Zarr array", RowsError):
            folder = array_folder(Path(path))
            # The array itself and not the group, whose consolidated metadata could describe it differently.
            array = zarr.open_array(str(folder), mode="r")
            super().__init__(array, str(path))
            check_chunks(folder, array)

    def blocks(self) -> Iterator[FloatMatrix]:
        """Yield the rows in order."""
        with reading(self.label, "Zarr array", RowsError):
            yield from super().blocks()


def array_folder(folder: Path) -> Path:
    """Return the folder of the array, or of the array "X" if it is a group.

    Codecs other than `CODECS` are refused.
    """
    told = _description(folder)
    if told is None or told.get("node_type", "array") != "array":
        folder = folder / "X"
        told = _description(folder)
    if told is None:
        raise RowsError(f"{folder.parent}: is a Zarr group without an array named X.")
    pending = [told.get("compressor"), *(told.get("filters") or ()), *(told.get("codecs") or ())]
    while pending:
        codec = pending.pop()
        if codec is None:
            continue
        name = str(codec.get("id", codec.get("name"))).removeprefix("numcodecs.")
        if name not in CODECS:
            raise RowsError(f"{folder}: its chunks are packed by {name!r}; use one of {', '.join(sorted(CODECS))}.")
        inner = codec.get("configuration") or {}
        pending += [*(inner.get("codecs") or ()), *(inner.get("index_codecs") or ())]
    return folder


def check_chunks(folder: Path, array: Any) -> None:
    """Refuse chunks above `MAX_BLOCK_BYTES`, and arrays of which almost no chunk is stored."""
    if math.prod(array.chunks) * array.dtype.itemsize > MAX_BLOCK_BYTES:
        raise RowsError(f"{folder}: has chunks of shape {array.chunks}, more than {MAX_BLOCK_BYTES} bytes each.")
    outer = getattr(array, "shards", None) or array.chunks
    n_chunks = math.prod(-(-side // step) for side, step in zip(array.shape, outer, strict=True))
    needed = n_chunks // MOST_MISSING
    stored = sum(1 for _, path in zip(range(needed + 1), folder.rglob("*"), strict=False) if path.is_file())
    if stored < needed:
        raise RowsError(f"{folder}: claims shape {array.shape} in {n_chunks} chunks, but stores {stored} files.")


def _description(folder: Path) -> dict[str, Any] | None:
    for path in (folder / "zarr.json", folder / ".zarray"):
        if path.is_file():
            if path.stat().st_size > MAX_DESCRIPTION_BYTES:
                raise RowsError(f"{path}: has more than {MAX_DESCRIPTION_BYTES} bytes.")
            told = json.loads(path.read_bytes())
            if not isinstance(told, dict):
                raise RowsError(f"{path}: describes no array.")
            return told
    return None
