"""Reads tables from files by their ending: text (.csv, .tsv, .txt) and JSON, also gzipped, Parquet and Excel."""

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from adaam.tables.delimited import TextForm, read_delimited, size_told
from adaam.tables.frame import Frame, TableError, arranged, cells_of, frame_of, listed_cells
from adaam.tables.headers import (
    SAMPLED_ROWS,
    has_header,
    joined_told,
    left_out_told,
    lines_above,
    lines_below,
    two_row_names,
)
from adaam.tables.nested import record_columns
from adaam.tables.summary_rows import repeated_headers, without_totals
from adaam.untrusted import open_archive, reading

TEXT_ENDINGS = (".csv", ".tsv", ".txt")
JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
MAX_EXCEL_BYTES = 1 << 29  # unpacked; a sheet of a million rows and twenty columns takes about as much
MAX_UNPACKED_BYTES = 1 << 32  # of a gzipped file
ENDINGS = (*TEXT_ENDINGS, *JSON_ENDINGS, ".parquet", ".xlsx", ".xlsm")


def read_frame(
    path: Path, form: TextForm | None = None, *, sheet: str | None = None, expected: tuple[str, ...] = ()
) -> Frame:
    """Read a table from a file.

    Parameters
    ----------
    path : Path
        The file; its ending determines the format.
    form : TextForm or None
        What is known of the format of a text file; `header` and `skip` apply to Excel files too.
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
        If the file cannot be read, with the place in it and the cause.
    """
    form = form or TextForm()
    ending = path.suffix.lower()
    with reading(path, ending or "a table", TableError):
        return _read(path, ending, form, sheet, expected)


def _read(path: Path, ending: str, form: TextForm, sheet: str | None, expected: tuple[str, ...]) -> Frame:
    inner = path.with_suffix("").suffix.lower() if ending == ".gz" else ending
    if inner in TEXT_ENDINGS:
        return without_totals(read_delimited(_content(path, ending), str(path), form, expected))
    if inner in JSON_ENDINGS:
        return _read_json(path, _content(path, ending))
    if ending == ".parquet":
        return _read_parquet(path)
    if ending in (".xlsx", ".xlsm"):
        return without_totals(_read_excel(path, form, sheet, expected))
    if ending in (".xls", ".ods"):
        raise TableError(f"{path}: {ending} files are not read. Save the table as .xlsx or .csv.")
    if ending in (".feather", ".arrow"):  # a damaged one can crash the process, since its reader checks nothing
        raise TableError(f"{path}: {ending} files are not read. Save the table as .parquet.")
    if ending in (".zip", ".bz2", ".xz", ".zst", ".7z"):
        raise TableError(f"{path}: {ending} files are not read. Unpack it first; .csv.gz is read as it is.")
    raise TableError(f"{path}: ending {ending!r} is not known; use one of {', '.join(ENDINGS)}, .csv.gz, .npy, .npz.")


def _content(path: Path, ending: str) -> bytes:
    """Return the bytes of a file, unpacked; one that unpacks to more than MAX_UNPACKED_BYTES is refused."""
    if ending != ".gz":
        return path.read_bytes()
    with gzip.open(path) as stream:
        data = stream.read(MAX_UNPACKED_BYTES + 1)
    if len(data) > MAX_UNPACKED_BYTES:
        raise TableError(f"{path}: unpacks to more than {MAX_UNPACKED_BYTES >> 30} GiB. Unpack it, and take a part.")
    return data


def _read_json(path: Path, data: bytes) -> Frame:
    """Read one object per line, or one list of objects."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: is not UTF-8 text ({error}).") from error
    if not text.strip():
        raise TableError(f"{path}: is empty.")
    lines = None
    if text.lstrip()[0] == "[":
        try:
            records = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise TableError(f"{path}: is not JSON ({error}).") from error
        for number, record in enumerate(records, start=1):
            if not isinstance(record, dict):
                raise TableError(f"{path}: entry {number} of the list is not an object of names and values.")
    else:
        records, lines = _json_lines(path, text)
    if not records:
        raise TableError(f"{path}: is empty.")
    columns = record_columns(records)
    note = f"{path}: {size_told(len(records), len(columns))}"
    more = {} if lines is None else {"lines": np.array(lines)}
    return arranged(columns, [listed_cells(values) for values in columns.values()], notes=[note], **more)


def _json_lines(path: Path, text: str) -> tuple[list[Any], list[int]]:
    records, lines = [], []
    for number, line in enumerate(io.StringIO(text), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise TableError(f"{path}: line {number} is not JSON ({error}). Each line must hold one object.") from error
        if not isinstance(record, dict):
            raise TableError(f"{path}: line {number} holds no object of names and values.")
        records.append(record)
        lines.append(number)
    return records, lines


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
        pass  # only checks the unpacked size
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
    hint = f" Choose another sheet with --sheet NAME: {', '.join(others)}." if others else ""
    if not kept:
        raise TableError(f"{path}: sheet {name!r} is empty.{hint}")
    sampled = [_texts(row) for _, row in kept[: 2 * SAMPLED_ROWS]]
    n_above = lines_above(sampled)
    if n_above:
        notes.append(left_out_told(sampled[:n_above], "above", ","))
        kept, sampled = kept[n_above:], sampled[n_above:]
    last = [_texts(row) for _, row in kept[-SAMPLED_ROWS:]]
    n_below = lines_below(last)
    if n_below:
        notes.append(left_out_told(last[-n_below:], "below", ","))
        kept = kept[:-n_below]
        sampled = sampled[: len(kept)]
    joined = two_row_names(sampled, expected) if form.header is None else None
    if joined is not None:
        notes.append(joined_told(joined, sampled[0]))
        kept = [(kept[0][0], joined), *kept[2:]]
    header = form.header if form.header is not None else joined is not None or has_header(sampled, expected)
    first = kept[0][1]
    body = kept[1:] if header else kept
    if not body:
        raise TableError(f"{path}: sheet {name!r} holds column names, but no rows below them.{hint}")
    filled = [j for j in range(len(first)) if any(_is_filled(row[j]) for _, row in kept)]
    names = ["" if first[j] is None else str(first[j]) for j in filled] if header else [f"x{j}" for j in filled]
    again = set(repeated_headers([[row[j] for j in filled] for _, row in body], names)) if header else set()
    if again:
        notes.append(f"rows that repeat the header are left out: {len(again)}")
        body = [each for i, each in enumerate(body) if i not in again]
    columns = []
    for j in filled:
        cells = np.empty(len(body), dtype=object)
        cells[:] = [row[j] for _, row in body]
        columns.append(cells_of(cells))
    empty = {name: j for name, j in zip(names, filled, strict=True) if not any(_is_filled(row[j]) for _, row in body)}
    notes += [
        f"column {each!r} holds formulas without stored values; open the file in a spreadsheet and save it to use them"
        for each in _formula_columns(path, name, empty, body[0][0])
    ]
    size = size_told(len(body), len(names))
    note = f"{path}: sheet {name!r}, {size}, {'with' if header else 'without'} a header"
    return arranged(names, columns, lines=np.array([i for i, _ in body]), notes=[note, *notes])


def _formula_columns(path: Path, sheet: str, empty: dict[str, int], line: int) -> list[str]:
    """Return the empty columns whose cells are formulas without stored values."""
    if not empty:
        return []
    import openpyxl

    book = openpyxl.load_workbook(path, read_only=True)
    (row,) = book[sheet].iter_rows(line, line, values_only=True)
    book.close()
    return [name for name, j in empty.items() if j < len(row) and str(row[j]).startswith("=")]


def _texts(row: list[Any]) -> list[str]:
    """Return the cells of a row as text, up to the last that is not blank."""
    texts = ["" if cell is None else str(cell) for cell in row]
    while texts and not texts[-1].strip():
        texts.pop()
    return texts


def _is_filled(cell: Any) -> bool:
    return cell is not None and str(cell).strip() != ""
