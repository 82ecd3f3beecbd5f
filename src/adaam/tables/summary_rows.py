"""Rows of a table that are not data: repeated headers, and totals below it."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from adaam.tables.frame import Frame, missing_cells
from adaam.tables.number_text import parsed_numbers, table_signs

TOTAL = re.compile(r"(?i)\W*(?:grand |sub)?(?:totals?|sum|summe|gesamt|insgesamt|somme|average|mean|durchschnitt)\W*")
ROUNDING = 1e-3  # relative tolerance, for sums of rounded numbers


def repeated_headers(rows: Sequence[Sequence[Any]], names: Sequence[Any]) -> list[int]:
    """Return the indices of rows that repeat the column names, as in concatenated files."""
    wanted = [str(name).strip() for name in names]
    if not any(wanted):
        return []
    first = wanted[0]
    return [
        i
        for i, row in enumerate(rows)
        if str(row[0]).strip() == first and ["" if cell is None else str(cell).strip() for cell in row] == wanted
    ]


def without_totals(frame: Frame) -> Frame:
    """Leave out a last row that says "Total" and holds the sums or means of its columns, and add a note."""
    last = frame.n_rows - 1
    words = [cells[last] for cells in frame.columns if cells.dtype.kind == "O" and cells[last] is not None]
    marks = [str(word).strip() for word in words if TOTAL.fullmatch(str(word))]
    if last < 2 or not marks:
        return frame
    n_right = n_numbers = 0
    body = np.arange(last)
    for cells, signs in zip(frame.columns, table_signs(frame), strict=True):
        absent = missing_cells(cells)
        values, bad = parsed_numbers(cells, signs, absent)
        if absent[last] or last in bad or np.isnan(values[body]).all():
            continue
        n_numbers += 1
        sums = np.array([np.nansum(values[body]), np.nanmean(values[body])])
        size = np.nanmax(np.abs(values[body])) or 1.0
        n_right += bool((np.abs(values[last] - sums) <= ROUNDING * size).any())
    if n_right == 0 or 2 * n_right < n_numbers:
        return frame
    line = "" if frame.lines is None else f" (line {int(frame.lines[last])})"
    note = f"the last row{line} says {marks[0]!r} and sums up the others: left out"
    kept = frame.take(body)
    return Frame(kept.names, kept.columns, kept.lines, (*kept.notes, note), kept.decimal)
