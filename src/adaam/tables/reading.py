"""Tables from files, by their ending: text (.csv, .tsv, .txt), Parquet, Excel and JSON lines."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from adaam.tables.delimited import SAMPLED_ROWS, TextForm, has_header, read_delimited, size_told
from adaam.tables.frame import Frame, TableError, arranged, cells_of, counted, frame_of
from adaam.untrusted import open_archive, reading

TEXT_ENDINGS = (".csv", ".tsv", ".txt")
MAX_EXCEL_BYTES = 1 << 29  # unpacked; a sheet of a million rows and twenty columns takes about as much
ENDINGS = (*TEXT_ENDINGS, ".parquet", ".xlsx", ".xlsm", ".jsonl", ".ndjson")


def read_frame(
    path: Path, form: TextForm | None = None, *, sheet: str | None = None, expected: tuple[str, ...] = ()
) -> Frame:
    """Read a table from a file.

    Parameters
    ----------
    path : Path
        The file; its ending tells its kind.
    form : TextForm or None
        What is known of the form of a text file; `header` and `skip` are heeded in Excel files too.
    sheet : str or None
        Sheet of an Excel file; None is the first.
    expected : tuple of str
        Names that a header is known to hold, if it is one.

    Returns
    -------
    Frame
        The columns.

    Raises
    ------
    TableError
        With the file, the place in it and the cause.
    """
    form = form or TextForm()
    ending = path.suffix.lower()
    with reading(path, ending or "a table", TableError):
        return _read(path, ending, form, sheet, expected)


def _read(path: Path, ending: str, form: TextForm, sheet: str | None, expected: tuple[str, ...]) -> Frame:
    if ending in TEXT_ENDINGS:
        return read_delimited(path.read_bytes(), str(path), form, expected)
    if ending in (".jsonl", ".ndjson"):
        return _read_json_lines(path)
    if ending == ".parquet":
        return _read_parquet(path)
    if ending in (".xlsx", ".xlsm"):
        return _read_excel(path, form, sheet, expected)
    if ending in (".xls", ".ods"):
        raise TableError(f"{path}: {ending} files are not read. Save the table as .xlsx or .csv.")
    raise TableError(f"{path}: ending {ending!r} is not known; use one of {', '.join(ENDINGS)}, .npy, .npz.")


def _read_json_lines(path: Path) -> Frame:
    records, lines = [], []
    with path.open(encoding="utf-8-sig") as stream:
        try:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    record = json.loads(line)
                    if not isinstance(record, dict):
                        raise TableError(f"{path}: line {number} holds no object of names and values.")
                    records.append(record)
                    lines.append(number)
        except UnicodeDecodeError as error:
            raise TableError(f"{path}: is not UTF-8 text ({error}).") from error
        except (json.JSONDecodeError, RecursionError) as error:
            raise TableError(f"{path}: line {number} is not JSON ({error}). Each line must hold one object.") from error
    if not records:
        raise TableError(f"{path}: is empty.")
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = []
    for name in names:
        cells = np.empty(len(records), dtype=object)
        cells[:] = [_flat(record.get(name)) for record in records]
        columns.append(cells_of(cells))
    note = f"{path}: {size_told(len(records), len(names))}"
    return arranged(names, columns, lines=np.array(lines), notes=[note])


def _flat(value: Any) -> Any:
    """A nested value is kept as its text."""
    return json.dumps(value) if isinstance(value, dict | list) else value


def _read_parquet(path: Path) -> Frame:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TableError(f"{path}: Parquet files need pyarrow. Install it with: pip install 'adaam[tables]'") from error
    try:
        table = pq.read_table(path)
    except Exception as error:  # pyarrow's errors share no base with ValueError
        raise TableError(f"{path}: cannot be read as .parquet: {error}") from error
    frame = frame_of(table)
    note = f"{path}: {size_told(frame.n_rows, len(frame.names))}"
    return Frame(frame.names, frame.columns, notes=(note, *frame.notes))


def _read_excel(path: Path, form: TextForm, sheet: str | None, expected: tuple[str, ...]) -> Frame:
    try:
        import openpyxl
    except ImportError as error:
        raise TableError(f"{path}: Excel files need openpyxl. Install it with: pip install 'adaam[tables]'") from error
    with reading(path, "an Excel file", TableError), open_archive(path, MAX_EXCEL_BYTES):
        pass  # it unpacks to no more than that
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        name = book.sheetnames[0] if sheet is None else sheet
        if name not in book.sheetnames:
            raise TableError(f"{path}: has no sheet {name!r}; it has {', '.join(book.sheetnames)}.")
        rows = [list(row) for row in book[name].iter_rows(values_only=True)]
        others = [each for each in book.sheetnames if each != name]
        book.close()
    except TableError:
        raise
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, EOFError) as error:
        raise TableError(f"{path}: cannot be read as an Excel file: {error}") from error
    notes = [f"other sheets are left out: {', '.join(others)}; --sheet NAME reads one"] if others and not sheet else []
    kept = [(i + 1, row) for i, row in enumerate(rows) if i >= form.skip and any(_is_filled(cell) for cell in row)]
    if not kept:
        raise TableError(f"{path}: sheet {name!r} is empty.")
    # Titles above a table fill one cell; a table of one column has no such lines.
    width = max(sum(map(_is_filled, row)) for _, row in kept)
    start = next(i for i, (_, row) in enumerate(kept) if sum(map(_is_filled, row)) > min(1, width - 1))
    if start:
        notes.append(f"{counted(start, 'line')} above the table left out")
    kept = kept[start:]
    first = kept[0][1]
    sampled = [["" if cell is None else str(cell) for cell in row] for _, row in kept[:SAMPLED_ROWS]]
    header = has_header(sampled, expected) if form.header is None else form.header
    body = kept[1:] if header else kept
    if not body:
        raise TableError(f"{path}: sheet {name!r} holds column names, but no rows below them.")
    filled = [j for j in range(len(first)) if any(_is_filled(row[j]) for _, row in kept)]
    names = ["" if first[j] is None else str(first[j]) for j in filled] if header else [f"x{j}" for j in filled]
    columns = []
    for j in filled:
        cells = np.empty(len(body), dtype=object)
        cells[:] = [row[j] for _, row in body]
        columns.append(cells_of(cells))
    size = size_told(len(body), len(names))
    note = f"{path}: sheet {name!r}, {size}, {'with' if header else 'without'} a header"
    return arranged(names, columns, lines=np.array([i for i, _ in body]), notes=[note, *notes])


def _is_filled(cell: Any) -> bool:
    return cell is not None and str(cell).strip() != ""
