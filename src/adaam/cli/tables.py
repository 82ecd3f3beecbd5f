"""Rows and labels in and out of files, by their ending: .npy, .npz, .csv, .parquet."""

import csv
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from adaam._typing import FloatMatrix, IntVector
from adaam.files import atomic_file

ENDINGS = (".npy", ".npz", ".csv", ".parquet")


class TableError(ValueError):
    """A file cannot be read or written as a table."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, and what came with them: classes for scoring, column names, the shape of the image a row draws."""

    X: FloatMatrix
    classes: Any = None
    names: list[str] | None = None
    image_shape: tuple[int, int] | None = None


def read_table(source: str) -> Table:
    """Read rows from a file, or scikit-learn's digits by the name "digits"."""
    if source == "digits":
        digits = load_digits()
        return Table(digits.data, digits.target, list(digits.feature_names), (8, 8))
    path = Path(source)
    ending = check_ending(source)
    if not path.is_file():
        raise TableError(f'{source}: no such file. (The name "digits" stands for the embedded data set.)')
    try:
        if ending == ".npy":
            return Table(np.load(path, mmap_mode="r", allow_pickle=False))
        if ending == ".npz":
            return _read_npz(path)
        return _read_csv(path) if ending == ".csv" else _read_parquet(path)
    except (ValueError, OSError, EOFError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{source}: cannot be read as {ending}: {error}") from error


def read_labels(source: str) -> Any:
    """Read one column of classes."""
    table = read_table(source)
    values = np.asarray(table.X)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise TableError(f"{source}: has shape {values.shape}; classes must be one column.")
    return values


def write_rows(target: str, Z: FloatMatrix, names: list[str]) -> None:
    """Write rows to a file, whole or not at all; "-" is standard output as CSV."""
    if target == "-":
        sys.stdout.write(_csv_text(Z, names))
        return
    ending = check_ending(target)
    if not Path(target).resolve().parent.is_dir():
        raise TableError(f"{target}: its folder does not exist.")
    with atomic_file(target) as stream:
        if ending == ".npy":
            np.save(stream, Z, allow_pickle=False)
        elif ending == ".npz":
            np.savez(stream, X=Z)
        elif ending == ".csv":
            stream.write(_csv_text(Z, names).encode())
        else:
            parquet, table = _pyarrow()
            columns = {name: Z[:, j] for j, name in enumerate(names)}
            parquet.write_table(table(columns), stream)


def write_labels(target: str, labels: IntVector) -> None:
    """Write one column of cluster numbers; in .npy it is a vector."""
    if target.endswith(".npy"):
        with atomic_file(target) as stream:
            np.save(stream, labels, allow_pickle=False)
    else:
        write_rows(target, labels[:, None], ["cluster"])


def check_ending(source: str) -> str:
    """Return the file's ending if it is one we know."""
    ending = Path(source).suffix.lower()
    if ending not in ENDINGS:
        raise TableError(f"{source}: ending {ending!r} is not known; use one of {', '.join(ENDINGS)}.")
    return ending


def _read_npz(path: Path) -> Table:
    with np.load(path, allow_pickle=False) as archive:
        keys = list(archive.keys())
        key = "X" if "X" in keys else keys[0] if len(keys) == 1 else None
        if key is None:
            raise TableError(f"{path}: holds arrays {', '.join(keys)}; the rows must be named X.")
        shape = tuple(int(side) for side in archive["image_shape"]) if "image_shape" in keys else None
        image_shape = shape if shape is not None and len(shape) == 2 else None
        return Table(archive[key], archive["y"] if "y" in keys else None, None, image_shape)


def _read_csv(path: Path) -> Table:
    """Read numbers separated by commas; a first line that is not all numbers names the columns."""
    with path.open(newline="", encoding="utf-8-sig") as stream:
        first = next(csv.reader(stream), None)
    if not first:
        raise TableError(f"{path}: is empty.")
    names = None if all(map(_is_number, first)) else first
    try:
        rows = np.loadtxt(
            path, delimiter=",", skiprows=int(names is not None), ndmin=2, encoding="utf-8-sig", quotechar='"'
        )
    except ValueError as error:
        raise TableError(f"{path}: every cell below the column names must be a number: {error}") from error
    return Table(rows, None, names)


def _read_parquet(path: Path) -> Table:
    parquet, _ = _pyarrow()
    try:
        table = parquet.read_table(path)
    except Exception as error:  # pyarrow's errors share no base with ValueError
        raise TableError(f"{path}: cannot be read as .parquet: {error}") from error
    columns = [column.to_numpy() for column in table.columns]
    for name, column in zip(table.column_names, columns, strict=True):
        if column.dtype.kind not in "fiub":
            raise TableError(f"{path}: column {name!r} holds {column.dtype}, not numbers. Drop or encode it.")
    return Table(np.column_stack(columns), None, list(table.column_names))


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TableError("Parquet files need pyarrow. Install it with: pip install adaam[parquet]") from error
    return pq, pa.table


def _csv_text(Z: FloatMatrix, names: list[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(Z.tolist())
    return text.getvalue()


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
