"""Reads tables from text files: detects encoding, separator and header, and names the row that does not fit."""

import codecs
import csv
import io
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from adaam.tables.frame import Cells, Frame, TableError, arranged, counted
from adaam.tables.headers import (
    SAMPLED_ROWS,
    has_header,
    is_number,
    joined_told,
    left_out_told,
    lines_above,
    lines_below,
    two_row_names,
)
from adaam.tables.summary_rows import repeated_headers

SEPARATORS = ("\t", ";", "|", ",")
SIGN_NAMES = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "blanks", "": "nothing"}


@dataclass(frozen=True, slots=True)
class TextForm:
    """How to read a text file; what is None is detected.

    Attributes
    ----------
    sep : str or None
        Separator of cells; " " is any number of blanks.
    encoding : str or None
        Encoding of the text.
    header : bool or None
        Whether the first row names the columns.
    skip : int
        Number of lines to skip before the table.
    comment : str
        Lines that begin with this are skipped; "" for none.
    """

    sep: str | None = None
    encoding: str | None = None
    header: bool | None = None
    skip: int = 0
    comment: str = ""


def read_delimited(data: bytes, label: str, form: TextForm, expected: tuple[str, ...] = ()) -> Frame:
    """Read a table from the bytes of a text file.

    Parameters
    ----------
    data : bytes
        The file.
    label : str
        Name of the file in messages.
    form : TextForm
        What is known of its format.
    expected : tuple of str
        Names that a header is known to hold, if it is one.

    Returns
    -------
    Frame
        Its columns as text, or as numbers if the whole table is plain numbers.

    Raises
    ------
    TableError
        If the file cannot be read, with the line, the cause and the option that helps.
    """
    text, notes = decoded_text(data, label, form.encoding)
    text, first_line = _body(text, form)
    if not text.strip():
        raise TableError(f"{label}: {f'no line is left after --skip {form.skip}' if form.skip else 'is empty'}.")
    if re.match(r"\s*<(?:!doctype html|html|\?xml)\b", text, re.IGNORECASE):
        raise TableError(
            f"{label}: is a web page or XML, not a table. Was it downloaded from a page that asks to log in?"
        )
    sep = form.sep
    if sep is None and (given := re.match(r"sep=(.)\r?\n", text)):  # a line that Excel understands
        sep, text, first_line = given[1], text[given.end() :], first_line + 1
    if sep is None:
        sep = found_separator(text)
    elif len(sep) != 1:
        raise TableError(f"{label}: --sep {sep!r} is not one sign, such as ',' or ';' or '\\t'.")
    plain = _plain_numbers(text, sep, label, form)
    if plain is not None:
        return plain
    rows, lines = _rows(text, sep, label, first_line, form.comment)
    _check_last_quote(text, sep, label, lines, first_line)
    if not sep and form.sep is None and (unlike := _unlike_lines(rows)):
        notes.append(
            f"lines hold different numbers of {SIGN_NAMES[unlike]}, so each line is read as one cell; --sep {unlike!r} "
            "splits them"
        )
    n_empty = _empty_at_end(rows)
    if n_empty == len(rows):
        raise TableError(f"{label}: is empty.")
    if n_empty:
        rows, lines = rows[:-n_empty], lines[:-n_empty]
        notes.append(f"empty rows at the end are left out: {n_empty}")
    n_above = lines_above(rows) if sep else 0
    if n_above:
        notes.append(left_out_told(rows[:n_above], "above", sep))
        rows, lines = rows[n_above:], lines[n_above:]
    n_below = lines_below(rows) if sep else 0
    if n_below:
        notes.append(left_out_told(rows[-n_below:], "below", sep))
        rows, lines = rows[:-n_below], lines[:-n_below]
    joined = two_row_names(rows, expected) if form.header is None else None
    if joined is not None:
        notes.append(joined_told(joined, rows[0]))
        rows, lines = [joined, *rows[2:]], [lines[0], *lines[2:]]
    header = form.header if form.header is not None else joined is not None or has_header(rows, expected)
    names, rows, lines, more = _named(rows, lines, header, label, sep)
    notes += more
    if header and form.header is None and joined is None and sum(map(is_number, names)) > 1:
        notes.append("the first row is taken as column names; if it is data, add --header no")
    if not rows:
        raise TableError(f"{label}: holds column names, but no rows below them.")
    again = set(repeated_headers(rows, names)) if header else set()
    if again:
        notes.append(f"rows that repeat the header are left out: {len(again)}, the first in line {lines[min(again)]}")
        rows = [row for i, row in enumerate(rows) if i not in again]
        lines = [line for i, line in enumerate(lines) if i not in again]
    columns = [_column(rows, j) for j in range(len(names))]
    return arranged(
        names,
        columns,
        lines=np.array(lines),
        notes=[f"{label}: {_form_told(len(rows), len(names), sep, header)}", *notes],
        decimal="," if sep == ";" else None,
    )


def _plain_numbers(text: str, sep: str, label: str, form: TextForm) -> Frame | None:
    """Read a table of nothing but plain numbers in one step, or return None for any other.

    With semicolons, 1.234 may mean 1234, so such tables are not read here.
    """
    if sep not in SEPARATORS or sep == ";" or form.comment or form.skip or form.header is False:
        return None
    names, *below = islice(_parsed(text, sep), 4)
    whole = bool(below) and all(
        row and all(re.fullmatch(r"-?[\d.]+(?:[eE][+-]?\d+)?", cell) for cell in row) for row in below
    )
    if not whole or len(names) < 2 or any(is_number(name) or not name.strip() or "\n" in name for name in names):
        return None
    try:
        values = np.loadtxt(io.StringIO(text), delimiter=sep, skiprows=1, ndmin=2, comments=None)
    except ValueError:  # the general reader reports the cause
        return None
    n_lines = len(text.rstrip("\r\n").splitlines())
    if values.shape != (n_lines - 1, len(names)) or not np.isfinite(values).all():
        return None
    names[0] = re.sub(r"^#\s*", "", names[0])
    note = f"{label}: {_form_told(len(values), len(names), sep, True)}"
    return arranged(names, list(values.T), lines=np.arange(2, n_lines + 1), notes=[note])


def decoded_text(data: bytes, label: str, encoding: str | None) -> tuple[str, list[str]]:
    """Return the text of a file, and a note if its encoding was a guess."""
    if encoding is not None:
        try:
            return data.decode(encoding), []
        except LookupError:
            raise TableError(f"{label}: encoding {encoding!r} is not known; use utf-8, latin-1, cp1252, ...") from None
        except UnicodeError as error:
            raise TableError(f"{label}: cannot be read with --encoding {encoding}: {error}.") from error
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark):
            return decoded_text(data, label, name)
    if b"\0" in data:
        raise TableError(f"{label}: is not text. If it is, give its encoding, such as --encoding utf-16.")
    try:
        return data.decode("utf-8"), []
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        text = data.decode("cp1252", errors="replace")
        return text, [
            f"line {line} is not UTF-8, so the file is read as Windows-1252; if that is wrong, set --encoding"
        ]


def found_separator(text: str) -> str:
    """Return the separator that splits the first lines into equally many cells, or "" if there is one column."""
    best, most = "", 1
    for sep in SEPARATORS:
        counts = [len(row) for row in islice(_parsed(text, sep), SAMPLED_ROWS) if row]
        usual = max(set(counts), key=counts.count) if counts else 0
        counts = counts[next((i for i, n in enumerate(counts) if n >= usual), 0) :]  # below titles
        agree = counts.count(usual) / max(1, len(counts))
        if usual > most and agree >= 0.8:
            best, most = sep, usual
            if sep != ",":  # others are rarely in every line by chance; commas are, as decimal signs
                return sep
    if best:
        return best
    counts = [len(line.split()) for line in text.splitlines()[:SAMPLED_ROWS] if line.strip()]
    numbers = [cell for line in text.splitlines()[1:SAMPLED_ROWS] for cell in line.split()]
    blanks = len(set(counts)) == 1 and counts[0] > 1 and numbers
    return " " if blanks and sum(map(is_number, numbers)) >= 0.5 * len(numbers) else ""


def _body(text: str, form: TextForm) -> tuple[str, int]:
    """Return the text after the lines to skip, and the number of its first line."""
    parts = text.split("\n", form.skip)
    return (parts[-1] if len(parts) > form.skip else "", form.skip + 1)


def _parsed(text: str, sep: str) -> Any:
    if sep == " ":
        return (line.split() for line in text.splitlines())
    return csv.reader(io.StringIO(text, newline=""), delimiter=sep or "\x1f", skipinitialspace=True)


def _rows(text: str, sep: str, label: str, first_line: int, comment: str) -> tuple[list[list[str]], list[int]]:
    """Return the rows and the line each begins on, without comments and, if there are several columns, empty lines."""
    rows: list[list[str]] = []
    lines: list[int] = []
    line = first_line
    reader = _parsed(text, sep)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise TableError(
                f"{label}: line {line} cannot be read ({error}); is a quote opened there and not closed?"
            ) from error
        if row is None:
            return rows, lines
        blank = not row or (len(row) == 1 and not row[0].strip())
        if (not blank or not sep) and not (comment and row and row[0].startswith(comment)):
            rows.append(row or [""])
            lines.append(line)
        line = first_line + (reader.line_num if sep != " " else line - first_line + 1)


def _check_last_quote(text: str, sep: str, label: str, lines: list[int], first_line: int) -> None:
    """Refuse a last row with a quote that is never closed: it contains all rows below."""
    if sep == " " or not lines:
        return
    last = "".join(text.splitlines(keepends=True)[lines[-1] - first_line :])
    try:
        list(csv.reader(io.StringIO(last, newline=""), delimiter=sep or "\x1f", skipinitialspace=True, strict=True))
    except csv.Error as error:
        if "end of data" in str(error):
            raise TableError(
                f"{label}: line {lines[-1]} opens a quote that is never closed, so the lines below it are taken for "
                "one cell. Close or remove it."
            ) from error


def _unlike_lines(rows: list[list[str]]) -> str:
    """Return the separator that the first line and most others contain, though not equally often, or ""."""
    cells = [row[0] for row in rows[:SAMPLED_ROWS]]
    first, *rest = cells
    return next((sep for sep in SEPARATORS if sep in first and sum(sep in cell for cell in rest) > 0.5 * len(rest)), "")


def _empty_at_end(rows: list[list[str]]) -> int:
    """Return the number of last rows without a value, which exports leave below a table."""
    filled = (i for i, row in enumerate(reversed(rows)) if any(cell.strip() for cell in row))
    return next(filled, len(rows))


def _named(
    rows: list[list[str]], lines: list[int], header: bool, label: str, sep: str
) -> tuple[list[str], list[list[str]], list[int], list[str]]:
    """Return names, rows, their lines and notes; refuse rows that do not fit."""
    notes = []
    data, data_lines = (rows[1:], lines[1:]) if header else (rows, lines)
    widths = [len(row) for row in data]
    width = max(set(widths), key=widths.count) if widths else len(rows[0])
    names = list(rows[0]) if header else []
    if header:
        names[0] = re.sub(r"^#\s*", "", names[0])
        if len(names) == width - 1 and all(len(row) < width or not row[-1].strip() for row in data):
            names.append("")  # rows end in a separator
        elif len(names) == width - 1 and _are_row_names([row[0].strip() for row in data]):
            names.insert(0, "row_names")
            notes.append("the header names one column fewer than rows have, so the first column is taken as row names")
        elif len(names) == width + 1 and not names[-1].strip():
            names.pop()
        if len(names) != width:
            raise TableError(
                f"{label}: the header (line {lines[0]}) names {len(names)} columns, but rows have {width} cells "
                f"(line {data_lines[0]}). Correct it, skip lines above the table with --skip N{_sep_hint(sep)}."
            )
    bad = [i for i, row in enumerate(data) if len(row) != width]
    if bad:
        i = bad[0]
        more = f" ({len(bad) - 1} more rows do not fit either)" if len(bad) > 1 else ""
        shown = sep.join(data[i])[:60]
        raise TableError(
            f"{label}: line {data_lines[i]} has {counted(len(data[i]), 'cell')}, other rows have {width}{more}: "
            f"{shown!r}. "
            "Correct it, skip lines above the table with --skip N or comments with --comment SIGN"
            f"{_sep_hint(sep)}."
        )
    return names or [f"x{j}" for j in range(width)], data, data_lines, notes


def _are_row_names(cells: list[str]) -> bool:
    """Whether a first column without a name holds names, as R writes them: all distinct, words or 1, 2, 3, ..."""
    counted = cells == [str(i) for i in range(1, len(cells) + 1)]
    return counted or (len(set(cells)) == len(cells) and not any(map(is_number, cells)))


def _sep_hint(sep: str) -> str:
    return f", or set the separator with --sep (found: {SIGN_NAMES.get(sep, sep)})"


def _column(rows: list[list[str]], j: int) -> Cells:
    cells = np.empty(len(rows), dtype=object)
    cells[:] = [row[j] for row in rows]
    return cells


def _form_told(n_rows: int, n_columns: int, sep: str, header: bool) -> str:
    parted = f"separated by {SIGN_NAMES.get(sep, repr(sep))}, " if sep else ""
    return f"{size_told(n_rows, n_columns)}, {parted}{'with' if header else 'without'} a header"


def size_told(n_rows: int, n_columns: int) -> str:
    """Return the size of a table in words."""
    return f"{counted(n_rows, 'row')}, {counted(n_columns, 'column')}"
