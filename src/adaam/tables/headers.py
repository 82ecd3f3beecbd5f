"""Recognises the rows around the data of a table: titles, one or two rows of column names, notes below."""

import re

import numpy as np

from adaam.tables.frame import counted, missing_cells
from adaam.tables.number_text import LIMIT, LONGEST_NUMBER, MEASURES

SAMPLED_ROWS = 100
MOSTLY_NUMBERS = 0.9

NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,' ]\d{3})*(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?\s*[%€$£]?")


def lines_above(rows: list[list[str]]) -> int:
    """Return the number of first rows that are above a table, such as a title or remarks of an export.

    Such a row has text in one cell, or at most half as many cells as the rows of the table.
    """
    widths = [len(row) for row in rows[:SAMPLED_ROWS]]
    width = max(set(widths), key=widths.count)
    for i, row in enumerate(rows[:-1]):
        filled = [cell for cell in row if cell.strip()]
        is_short = len(row) <= width / 2
        if all(map(is_number, filled)) or not (is_short or (len(filled) == 1 and width > 2)):
            return i
    return 0


def lines_below(rows: list[list[str]]) -> int:
    """Return the number of last rows that are notes below a table: one cell alone, or a sentence."""
    widths = [len(row) for row in rows[:SAMPLED_ROWS]]
    width = max(set(widths), key=widths.count)
    if width <= 2:
        return 0
    for i, row in enumerate(reversed(rows)):
        filled = [cell.strip() for cell in row if cell.strip()]
        # A cell of several lines, or of numbers, holds the rows after a quote that was never closed.
        is_words = len(filled) == 1 and any(map(str.isalpha, filled[0])) and "\n" not in filled[0]
        if not (is_words and (" " in filled[0] or len(row) == 1)):
            return i
    return 0


def left_out_told(rows: list[list[str]], where: str, sep: str) -> str:
    """Return a note on the rows above or below a table that are left out."""
    shown = [f"{sep} ".join(cell.strip() for cell in row if cell.strip())[:60] for row in (rows[0], rows[-1])]
    return f"{counted(len(rows), 'line')} {where} the table left out: " + " to ".join(map(repr, shown[: len(rows)]))


def two_row_names(rows: list[list[str]], expected: tuple[str, ...]) -> list[str] | None:
    """Return the names of columns that two header rows form, or None if the second row is not a header.

    Parameters
    ----------
    rows : list of list of str
        The rows from the first header on.
    expected : tuple of str
        Names that a header is known to hold, if it is one.

    Returns
    -------
    list of str or None
        Names with units, as in "a (kg)", if the first row names each column; names after those of their group, as in
        "2024 sales", if it names groups of columns.
    """
    if len(rows) < 3:
        return None
    first, second, rest = rows[0], rows[1], rows[2 : SAMPLED_ROWS + 2]
    if len(first) > len(second):
        return None
    top = [*(cell.strip() for cell in first), *[""] * (len(second) - len(first))]
    low = [cell.strip() for cell in second]
    names = _joined(top, low)
    if set(expected) & (set(names) - set(top)):
        return names
    is_grouped = any(below and not above for above, below in zip(top[1:], low[1:], strict=True))
    is_word = []  # for each column of numbers
    for j, cell in enumerate(low):
        below = [row[j] for row in rest if j < len(row) and not is_missing(row[j])]
        if sum(map(is_number, below)) < MOSTLY_NUMBERS * max(1, len(below)):
            continue
        is_year_of_group = is_grouped and _is_year(cell) and not any(map(_is_year, below))
        if (is_number(LIMIT.sub("", cell)) and not is_year_of_group) or cell in below:
            return None
        is_word.append(not is_missing(cell))
    has_unit = any(MEASURES.fullmatch(f"1{cell.strip('[]()')}", 1) for cell in low if cell)
    if sum(is_word) < (1 if has_unit else 2) or 2 * sum(is_word) < len(is_word):
        return None
    return names if has_header([first, *rest], expected) else None


def joined_told(names: list[str], first: list[str]) -> str:
    """Return a note that two rows are taken as names, with an example."""
    new = next(name for name in names if name not in first)
    return f"the first two rows are taken as column names, such as {new!r}; --header yes takes the first alone"


def _joined(top: list[str], low: list[str]) -> list[str]:
    if len(set(top)) == len(top) and all(above or not below for above, below in zip(top, low, strict=True)):
        bare = [below.strip("[]()") for below in low]
        return [f"{above} ({unit})" if unit else above for above, unit in zip(top, bare, strict=True)]
    names, group = [], ""
    for above, below in zip(top, low, strict=True):
        group = above or group
        names.append(f"{group} {below}".strip() if below else above)
    return names


def has_header(rows: list[list[str]], expected: tuple[str, ...]) -> bool:
    """Whether the first row names the columns.

    Parameters
    ----------
    rows : list of list of str
        The rows, of which the first hundred or so are examined.
    expected : tuple of str
        Names that a header is known to hold, if it is one.

    Returns
    -------
    bool
        True for words above numbers, years or positions above other numbers, or distinct words above words.
    """
    first, rest = rows[0], rows[1 : SAMPLED_ROWS + 1]
    if not rest:
        return not all(is_number(cell) or not cell.strip() for cell in first)
    if {name.lower() for name in expected} & {cell.strip().lower() for cell in first}:
        return True
    for_names = for_data = 0
    years: list[int] = []  # columns of numbers under a number
    for j, cell in enumerate(first):
        below = [row[j] for row in rest if j < len(row) and not is_missing(row[j])]
        numbers = sum(map(is_number, below)) > 0.5 * len(below) if below else False
        if is_missing(cell):
            continue
        if numbers and not is_number(cell):
            for_names += 1
        elif numbers:
            for_data += 1
            years.append(j)
        elif cell in below:
            for_data += 1
    if for_names and for_names >= for_data:
        return True
    if for_data:
        return len(years) == for_data and _are_names(
            [first[j] for j in years], [[row[j] for j in years if j < len(row)] for row in rest]
        )
    filled = [cell.strip() for cell in first if cell.strip()]
    return len(set(filled)) == len(filled) and not any(is_number(cell) for cell in filled)


def _are_names(first: list[str], rest: list[list[str]]) -> bool:
    """Whether numbers in the first row are names: evenly spaced years, or 0, 1, 2, ... above other values."""
    cells = [cell.strip() for cell in first]
    if len(cells) < 2 or not all(cell.isdigit() for cell in cells):
        return False
    counted = len(cells) >= 3 and [int(cell) - int(cells[0]) for cell in cells] == list(range(len(cells)))
    below = [cell.strip() for row in rest for cell in row if cell.strip()]
    alike = sum(cell.isdigit() and 1800 <= int(cell) <= 2200 for cell in below) > 0.5 * len(below)
    whole = all(cell.isdigit() for cell in below)
    return (_are_years(cells) and not alike) or (counted and int(cells[0]) <= 1 and not whole)


def _is_year(cell: str) -> bool:
    return cell.strip().isdigit() and 1800 <= int(cell) <= 2200


def _are_years(cells: list[str]) -> bool:
    years = [int(cell) for cell in cells if cell.strip().isdigit()]
    if len(years) != len(cells) or len(years) < 2 or not all(1800 <= year <= 2200 for year in years):
        return False
    steps = set(np.diff(years).tolist())
    return len(steps) == 1 and steps != {0}


def is_number(cell: str) -> bool:
    """Whether a cell holds a number in any of the usual formats."""
    return len(cell) <= LONGEST_NUMBER and bool(NUMBER.fullmatch(cell.strip()))


def is_missing(cell: str) -> bool:
    """Whether a cell marks a missing value."""
    return bool(missing_cells(np.array([cell], dtype=object))[0])
