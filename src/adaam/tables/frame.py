"""Internal representation of tables: named columns of numbers, booleans, dates, or text with None for missing."""

import numbers
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array

from adaam.tables.nested import spread_column
from adaam.untrusted import UnreadableFileError

Cells = npt.NDArray[Any]  # one column: numbers, booleans, datetime64, or objects that are str or None

# Marks of missing values, in lower case: those that pandas knows, and signs alone in a cell, such as "-".
MISSING_TEXTS = frozenset(
    ("na", "n/a", "#n/a", "#na", "nan", "-nan", "null", "none", "nil", "<na>", "nat")
    + ("#null!", "#div/0!", "#value!", "#ref!", "-", "--", "?", ".")
)


class TableError(UnreadableFileError):
    """A table cannot be read, or cannot be used as it is."""


class CellError(TableError):
    """A cell cannot be used; `row` counts the rows of data from 0, so that readers can name its line."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


@dataclass(frozen=True, slots=True)
class Frame:
    """Named columns of equal length.

    `lines` are the lines of the file that the rows begin on, if there is one, and `notes` state what a reader assumed.
    `decimal` is the decimal sign that the file's format suggests if its cells are ambiguous.
    """

    names: tuple[str, ...]
    columns: tuple[Cells, ...]
    lines: Cells | None = None
    notes: tuple[str, ...] = ()
    decimal: str | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> Cells:
        """Return a column by its name."""
        return self.columns[self.names.index(name)]

    def take(self, rows: Any) -> "Frame":
        """Return some of the rows."""
        lines = None if self.lines is None else self.lines[rows]
        return Frame(self.names, tuple(column[rows] for column in self.columns), lines, self.notes, self.decimal)


def frame_of(X: Any) -> Frame:
    """Return a pandas or polars DataFrame, a pyarrow Table or an array as a frame."""
    if isinstance(X, Frame):
        return X
    if hasattr(X, "column_names") and hasattr(X, "schema"):  # pyarrow
        return _arrow_frame(X)
    if hasattr(X, "iloc"):  # pandas, where names may occur twice
        return arranged(X.columns, [_pandas_cells(X.iloc[:, j]) for j in range(X.shape[1])])
    if hasattr(X, "get_columns"):  # polars
        return arranged(X.columns, [_polars_cells(column) for column in X.get_columns()])
    array = check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
    names = [f"x{j}" for j in range(array.shape[1])]
    return arranged(names, [cells_of(array[:, j]) for j in range(array.shape[1])])


def arranged(names: Iterable[Any], columns: Sequence[Cells], **more: Any) -> Frame:
    """Return a frame whose names are text, not empty and distinct; changed names are noted."""
    given = [str(name).strip() for name in names]
    taken, notes = set(given), list(more.pop("notes", ()))
    found: list[str] = []
    for j, name in enumerate(given):
        fresh = name or f"column_{j + 1}"
        if fresh in found:
            fresh = next(f"{fresh}_{i}" for i in range(2, len(given) + 2) if f"{fresh}_{i}" not in taken | set(found))
            first = given.index(name) + 1
            notes.append(f"columns {first} and {j + 1} are both named {name!r}; the second is called {fresh!r} here")
        found.append(fresh)
    return Frame(tuple(found), tuple(columns), notes=tuple(notes), **more)


def cells_of(values: Any) -> Cells:
    """Return one column in its simplest type: numbers, booleans, dates, or text with None for missing."""
    array = np.asarray(values)
    if array.dtype.kind in "fiubM":
        return array
    if array.dtype.kind == "m":
        return np.asarray(array / np.timedelta64(1, "D"))  # durations are numbers of days
    present = [_plain(value) for value in array.tolist()]
    kinds = {type(value) for value in present if value is not None}
    if kinds and kinds <= {bool} and None not in present:
        return np.array(present, dtype=bool)
    if kinds and kinds <= {int, float}:
        return np.array([np.nan if value is None else float(value) for value in present])
    if kinds and kinds <= {datetime}:
        moments = [None if value is None else value.replace(tzinfo=None) for value in present]
        return np.array(moments, dtype="datetime64[us]")
    cells = np.empty(len(present), dtype=object)
    cells[:] = [None if value is None else str(value) for value in present]
    return cells


def missing_cells(cells: Cells, na_values: Iterable[str] = ()) -> npt.NDArray[np.bool_]:
    """Return which cells of a column are empty or hold a mark of missing values."""
    if cells.dtype.kind == "M":
        return np.isnat(cells)
    given = {str(value).strip() for value in na_values}
    if cells.dtype.kind in "fiub":
        marks = [float(value) for value in given if _is_float(value)]
        absent = np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), dtype=bool)
        return np.asarray(absent | np.isin(cells, marks)) if marks else np.asarray(absent)
    if given:
        return np.array([_marks_nothing(cell, given) for cell in cells], dtype=bool)
    # No mark ends in a digit, so most cells are decided here, without a call.
    marked = [cell is None or (not cell[-1:].isdigit() and _marks_nothing(cell, given)) for cell in cells.tolist()]
    return np.array(marked, dtype=bool)


def shell_word(text: str) -> str:
    """Return a text as one word of a command line, quoted if a shell would split or expand it."""
    return text if re.fullmatch(r"[\w@%+=:,./-]+", text) else shlex.quote(text)


def counted(n: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _marks_nothing(cell: str | None, given: set[str]) -> bool:
    if cell is None:
        return True
    text = cell.strip()
    return not text or text.lower() in MISSING_TEXTS or text in given


def _plain(value: Any) -> Any:
    """Return a value as bool, int, float, datetime, str or None."""
    if value is None or isinstance(value, str | bool | int | datetime):
        return value
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, numbers.Number) or type(value).__name__ == "Decimal":
        number = float(value)
        return None if np.isnan(number) else number
    if isinstance(value, timedelta):
        return value / timedelta(days=1)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return str(value)


def _pandas_cells(series: Any) -> Cells:
    values = series.to_numpy()
    if values.dtype.kind in "fiubMm":
        return cells_of(values)
    cells = np.asarray(series.astype(object).to_numpy(), dtype=object).copy()
    cells[series.isna().to_numpy()] = None
    return cells_of(cells)


def _polars_cells(series: Any) -> Cells:
    if series.null_count() == 0 and (series.dtype.is_numeric() or str(series.dtype) == "Boolean"):
        return np.asarray(series.to_numpy())
    return listed_cells(series.to_list())


def _arrow_frame(table: Any) -> Frame:
    names, columns = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if str(column.type).startswith(("list", "large_list", "fixed_size_list", "struct")):
            parts = spread_column(str(name), column.to_pylist())
            names += list(parts)
            columns += [listed_cells(values) for values in parts.values()]
        else:
            names.append(name)
            columns.append(_arrow_cells(column))
    return arranged(names, columns)


def _arrow_cells(column: Any) -> Cells:
    if column.null_count == 0:
        values = np.asarray(column.to_numpy())
        if values.dtype.kind in "fiubM":
            return values
    return listed_cells(column.to_pylist())


def listed_cells(values: list[Any]) -> Cells:
    """Return a list of values, None for missing, as one column."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return cells_of(cells)


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
