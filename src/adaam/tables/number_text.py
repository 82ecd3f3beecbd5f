"""Numbers written as text: detects the decimal and thousands signs of a column, and parses its cells."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from adaam._checks import check_word
from adaam._typing import FloatVector
from adaam.tables.frame import Cells, Frame

LONGEST_NUMBER = 64  # characters; a longer cell is not a number, and is not matched against patterns
SAMPLED_CELLS = 5_000  # of a column, from which its signs are detected

UNITS = re.compile(r"^(?:[$€£¥]\s*|CHF\s*|EUR\s*|USD\s*)|(?:\s*[$€£¥%]|\s*(?:CHF|EUR|USD))$")
MEASURES = re.compile(
    r"(?<=\d)\s*(?P<unit>°[CFNESW]?|[kmµ]?g|[kMG]?t|lbs?|oz|[kcmµ]?m|mi|ft|[mµ]?s|secs?|min|hrs?|h|days?|yrs?|years?|"
    r"[mcd]?l|[mk]?V|mA|A|[kM]?W|[kM]?Wh|[kMG]?Hz|[kKMGT]i?B|m?bar|[hk]?Pa|ppm|rpm|km/h|mph|m/s|px|bpm|mmHg)$"
)  # units that may follow the numbers of a column, the same for all of them
LIMIT = re.compile(r"^([<≤>≥])=?\s*(?=[\d.,])")  # signs before a limit that the value lies below or above
SPACES = "\u00a0\u202f\u2009 "
GROUPED = re.compile(r"[+-]?\d{1,3}(?:([.,' ])\d{2,3}(?:\1\d{2,3})*(?<=\d{3}))(?:([.,])\d+)?")


@dataclass(frozen=True, slots=True)
class NumberSigns:
    """The decimal sign, the sign between groups of three digits ("" for none), and the unit after the number."""

    decimal: str = "."
    thousands: str = ""
    unit: str = ""

    def __str__(self) -> str:
        words = {",": "comma", ".": "point", " ": "space", "'": "apostrophe"}
        told = [] if self.decimal == "." else [f"decimal {words.get(self.decimal, self.decimal)}"]
        told += [f"{words.get(self.thousands, self.thousands)} between thousands"] if self.thousands else []
        told += [f"in {self.unit}"] if self.unit else []
        return ", ".join(told)


@dataclass(frozen=True, slots=True)
class Evidence:
    """How many cells of a column support each reading of points, commas, spaces and apostrophes."""

    decimal_point: int = 0
    decimal_comma: int = 0
    either_point: int = 0  # 1.234: a decimal point, unless points separate thousands
    either_comma: int = 0
    group_point: int = 0
    group_comma: int = 0
    group_space: int = 0
    group_apostrophe: int = 0
    no_sign: int = 0


def evidence_of(cells: Iterable[str]) -> Evidence:
    """Count the evidence that the cells of a column give for its signs."""
    counts = dict.fromkeys(Evidence.__slots__, 0)
    for cell in cells:
        text = LIMIT.sub("", stripped(cell)) if len(cell) <= LONGEST_NUMBER else ""
        if not re.fullmatch(r"[+-]?[\d.,' ]*\d[\d.,' ]*(?:[eE][+-]?\d+)?", text):
            continue
        for sign, name in ((" ", "space"), ("'", "apostrophe")):
            if sign in text and GROUPED.fullmatch(text):
                counts[f"group_{name}"] += 1
        points, commas = text.count("."), text.count(",")
        if points and commas:
            last = "point" if text.rfind(".") > text.rfind(",") else "comma"
            first = "comma" if last == "point" else "point"
            if text.count("." if last == "point" else ",") == 1:
                counts[f"decimal_{last}"] += 1
                counts[f"group_{first}"] += 1
        elif points > 1 or commas > 1:
            counts["group_point" if points else "group_comma"] += bool(GROUPED.fullmatch(text))
        elif points or commas:
            name = "point" if points else "comma"
            grouped = GROUPED.fullmatch(text)
            open_case = grouped and grouped[1] in ".," and not re.match(r"[+-]?0", text)
            counts[f"{'either' if open_case else 'decimal'}_{name}"] += 1
        elif text.strip("+-").isdigit():
            counts["no_sign"] += 1
    return Evidence(**counts)


def table_signs(frame: Frame, decimal: str | None = None, thousands: str | None = None) -> list[NumberSigns]:
    """Return the signs of each column of a table, as given or as detected from its cells."""
    texts = [_sampled_texts(cells) for cells in frame.columns]
    units = [unit_of(each) for each in texts]
    found = [evidence_of(_without(unit, each)) for unit, each in zip(units, texts, strict=True)]
    usual = decimal or table_decimal(found)
    signs = [
        replace(column_signs(each, usual, frame.decimal), unit=unit) for each, unit in zip(found, units, strict=True)
    ]
    if decimal is not None:
        check_word("decimal", decimal, (".", ","))
        signs = [
            replace(each, decimal=decimal, thousands="" if each.thousands == decimal else each.thousands)
            for each in signs
        ]
    if thousands is not None:
        if thousands and thousands == (decimal or "."):
            raise ValueError(f"thousands={thousands!r} is also the decimal sign. Give both, and let them differ.")
        signs = [replace(each, thousands=thousands) for each in signs]
    return signs


def unit_of(texts: Iterable[str]) -> str:
    """Return the unit of measurement after every number of a column, or "" if there is none or several.

    Examples
    --------
    >>> unit_of(["12.5 kg", "9 kg"])
    'kg'
    >>> unit_of(["12.5 kg", "900 g"])
    ''
    """
    unit = ""
    for text in texts:
        if not text.strip():
            continue
        found = MEASURES.search(text.strip()) if len(text) <= LONGEST_NUMBER else None
        if found is None or (unit and found["unit"] != unit):
            return ""
        unit = found["unit"]
    return unit


def _without(unit: str, texts: list[str]) -> list[str]:
    return [text.strip().removesuffix(unit) for text in texts] if unit else texts


def _sampled_texts(cells: Cells) -> list[str]:
    """Return the first cells of a text column."""
    return [] if cells.dtype.kind != "O" else [str(cell) for cell in cells[:SAMPLED_CELLS] if cell is not None]


def table_decimal(found: Iterable[Evidence]) -> str | None:
    """Return the decimal sign that most columns with evidence use, or None for a tie."""
    votes = {".": 0, ",": 0}
    for each in found:
        if each.decimal_point or each.group_comma:
            votes["."] += 1
        if each.decimal_comma or each.group_point:
            votes[","] += 1
    if votes["."] == votes[","]:
        return None
    return max(votes, key=lambda sign: votes[sign])


def column_signs(found: Evidence, usual: str | None, suggested: str | None) -> NumberSigns:
    """Return the signs of a column.

    If its own cells are ambiguous, the table's usual decimal sign decides, then the one that the file's format
    suggests. By the latter alone, points separate thousands only if some cells have no point: 1.234 in every cell is
    more likely a number with three decimals.
    """
    comma = found.decimal_comma + found.group_point
    point = found.decimal_point + found.group_comma
    if comma or point:
        decimal = "," if comma > point else "."
    elif found.either_comma:
        decimal = "," if (usual or suggested) == "," else "."
    else:
        grouped = usual == "," or (usual is None and suggested == "," and found.no_sign)
        decimal = "," if found.either_point and grouped else "."
    if found.group_space or found.group_apostrophe:
        return NumberSigns(decimal, " " if found.group_space >= found.group_apostrophe else "'")
    if decimal == ",":
        return NumberSigns(",", "." if found.group_point or found.either_point else "")
    return NumberSigns(".", "," if found.group_comma or found.either_comma else "")


def parsed_numbers(cells: Cells, signs: NumberSigns, absent: Any) -> tuple[FloatVector, list[int]]:
    """Return the cells as numbers, NaN where absent, and the indices of cells that are not finite numbers."""
    values = np.full(len(cells), np.nan)
    present = np.flatnonzero(~absent)
    if cells.dtype.kind != "O":
        values[present] = cells[present].astype(np.float64)
        return values, np.flatnonzero(np.isinf(values)).tolist()
    if signs == NumberSigns():
        try:  # the common case at once; "1_000" and "inf" are numbers to Python, but not to a table
            plain = cells[present].astype(np.float64)
            if np.isfinite(plain).all() and not any("_" in cell for cell in cells[present]):
                values[present] = plain
                return values, []
        except ValueError:
            pass
    known: dict[str, float | None] = {}
    bad = []
    for i in present.tolist():
        cell = cells[i]
        if cell not in known:
            known[cell] = number(cell, signs)
        worth = known[cell]
        if worth is None:
            bad.append(i)
        else:
            values[i] = worth
    return values, bad


def number(cell: str, signs: NumberSigns) -> float | None:
    """Parse a cell by the signs, or return None if it is not a finite number.

    A value below a detection limit is taken as half the limit, one above a limit as the limit.

    Examples
    --------
    >>> number("1.234,5", NumberSigns(",", "."))
    1234.5
    >>> number("1.23", NumberSigns(",", ".")) is None
    True
    >>> number("<0.5", NumberSigns())
    0.25
    """
    text = stripped(cell.strip().removesuffix(signs.unit)) if len(cell) <= LONGEST_NUMBER else ""
    limit = LIMIT.match(text)
    text = text if limit is None else text[limit.end() :]
    if not _pattern(signs).fullmatch(text):
        return None
    if signs.thousands:
        text = text.replace(signs.thousands, "")
    worth = float(text.replace(signs.decimal, ".")) * (0.5 if limit is not None and limit[1] in "<≤" else 1.0)
    return worth if np.isfinite(worth) else None


@lru_cache(maxsize=32)
def _pattern(signs: NumberSigns) -> re.Pattern[str]:
    whole = r"\d+"
    if signs.thousands:
        sign = re.escape(signs.thousands)
        whole = rf"(?:\d+|\d{{1,3}}(?:{sign}\d{{2,3}})*{sign}\d{{3}})"  # 12,34,567 is how India groups digits
    decimal = re.escape(signs.decimal)
    return re.compile(rf"[+-]?(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?")


def stripped(cell: str) -> str:
    """Return a cell without surrounding blanks, currency and percent signs, and with ASCII for typographic signs."""
    text = cell.strip(SPACES + "\t\r\n").replace("\u2212", "-").replace("\u2019", "'")
    for space in SPACES[:-1]:
        text = text.replace(space, " ")
    if text[:1] == "(" and text[-1:] == ")" and text[-2:-1].isdigit():  # how accountants write negative numbers
        text = f"-{UNITS.sub('', text[1:-1])}"
    return UNITS.sub("", UNITS.sub("", text)) if not text[-1:].isdigit() or not text[:1].isdigit() else text
