"""Rows of a Parquet file, or of all Parquet files in a folder in the order of their names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix
from adaam.rows.protocol import RowsError, check_numbers, rows_per_block
from adaam.untrusted import reading


class ParquetRows:
    """Rows of Parquet files whose columns are all numbers; missing values are NaN, which a fit refuses.

    Parameters
    ----------
    path : path-like
        A file, or a folder of files with the same columns.
    """

    def __init__(self, path: Any) -> None:
        self._open = _parquet_file()
        self.label = str(path)
        folder = Path(path)
        self.files = sorted(folder.rglob("*.parquet")) if folder.is_dir() else [folder]
        if not self.files:
            raise RowsError(f"{self.label}: the folder holds no .parquet file.")
        with reading(self.label, ".parquet", RowsError):
            opened = [self._opened(file) for file in self.files]
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
            with reading(file, ".parquet", RowsError), self._opened(file) as opened:
                for batch in opened.iter_batches(batch_size=rows_per_block(self.n_features)):
                    columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
                    yield np.column_stack(columns)

    def _opened(self, file: Path) -> Any:
        with reading(file, ".parquet", RowsError):
            return self._open(file)

    def _column_type(self, schema: Any) -> np.dtype[Any]:
        kinds = []
        for field in schema:
            try:
                kind = np.dtype(field.type.to_pandas_dtype())
            except (NotImplementedError, TypeError) as error:
                raise RowsError(f"{self.label}: column {field.name!r} holds {field.type}, not numbers.") from error
            kinds.append(check_numbers(f"{self.label}: column {field.name!r}", kind))
        return np.result_type(*kinds)


def _parquet_file() -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow. Install it with: pip install adaam[parquet]") from error
    return pq.ParquetFile
