"""Dates written as text: recognises them, finds their format, and converts them to a number of days."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from adaam._typing import FloatVector
from adaam.tables.frame import Cells

TIME = r"(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\s*(?:[AaPp][Mm])?(?:Z|[+-]\d{2}:?\d{2})?)?"
PATTERN = re.compile(
    rf"(?:\d{{4}}-\d{{1,2}}(?:-\d{{1,2}})?{TIME}"  # 2024-05-12 10:30:00
    rf"|\d{{4}}[/.]\d{{1,2}}[/.]\d{{1,2}}{TIME}"
    rf"|\d{{1,2}}([./-])\d{{1,2}}\1(?:\d{{4}}|\d{{2}}){TIME}"  # 12.05.2024, 5/12/24
    rf"|\d{{1,2}}[ .-]+[A-Za-z]{{3,9}}\.?[ ,-]+\d{{2,4}}{TIME}"  # 12 May 2024
    rf"|[A-Za-z]{{3,9}}\.? \d{{1,2}},? \d{{4}}{TIME}"  # May 12, 2024
    r"|\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:[AaPp][Mm])?)"  # 10:30
)
# Formats, tried in this order; the first that reads every cell is used. "ISO" is `datetime.fromisoformat`.
FORMS = (
    "ISO",
    *(
        f"{day}{time}"
        for day in (
            "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d",
            "%Y.%m.%d", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%Y-%m",
        )
        for time in ("", " %H:%M", " %H:%M:%S", " %I:%M %p")
    ),
    "%H:%M", "%H:%M:%S",
)  # fmt: skip
SECONDS_PER_DAY = 86_400.0
DURATION = "duration"  # a further format, for durations
DURATIONS = (
    r"(?:(\d+) days?,?\s+)?(\d+):(\d{2})(?::(\d{2}(?:\.\d+)?))?",  # 36:05:00, 1 days 12:05:00
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?",  # PT36H5M
    r"(?:(\d+) ?d(?:ays?)? ?)?(\d+) ?h(?:rs?|ours?)? ?(\d+) ?m(?:ins?|inutes?)?(?: ?(\d+) ?s(?:ecs?|econds?)?)?",
)
LONGEST_DATE = 64  # characters; a longer cell is not a date


def looks_like_dates(cells: Iterable[str]) -> bool:
    """Whether at least 95 % of the cells are written as dates."""
    texts = [cell.strip()[:LONGEST_DATE] for cell in cells]
    if not any(PATTERN.fullmatch(text) for text in texts[:20]):
        return False
    hits = sum(bool(PATTERN.fullmatch(text)) for text in texts)
    return bool(texts) and hits >= 0.95 * len(texts)


def are_durations(cells: Iterable[str]) -> bool:
    """Whether every cell is a duration, such as 36:05:00, 1 days 12:05:00, PT36H5M or 36 h 5 min."""
    return all(_seconds(cell.strip()) is not None for cell in cells)


def date_form(cells: Iterable[str]) -> str | None:
    """Return the format in which every cell can be read, or None.

    Examples
    --------
    >>> date_form(["12.05.2024", "31.12.2024"])
    '%d.%m.%Y'
    """
    distinct = list(dict.fromkeys(cell.strip() for cell in cells))
    return next((form for form in FORMS if all(_moment(cell, form) is not None for cell in distinct)), None)


def days(cells: Cells, form: str, absent: Any) -> tuple[FloatVector, list[int]]:
    """Return days since 1970, or of duration, NaN where absent, and the indices of cells that cannot be read."""
    values = np.full(len(cells), np.nan)
    if cells.dtype.kind == "M":
        values[~absent] = cells[~absent].astype("datetime64[ms]").astype(np.float64) / (1000 * SECONDS_PER_DAY)
        return values, []
    bad = []
    for i in np.flatnonzero(~absent).tolist():
        text = str(cells[i]).strip()
        moment = _seconds(text) if form == DURATION else _moment(text, form)
        if moment is None:
            bad.append(i)
        else:
            values[i] = moment / SECONDS_PER_DAY
    return values, bad


def _seconds(text: str) -> float | None:
    """Return a duration in seconds, or None if the text is not one."""
    if len(text) > LONGEST_DATE:
        return None
    found = next((found for form in DURATIONS if (found := re.fullmatch(form, text))), None)
    if found is None or not any(found.groups()):
        return None
    return sum(
        float(part or 0) * unit for part, unit in zip(found.groups(), (SECONDS_PER_DAY, 3600, 60, 1), strict=True)
    )


def _moment(text: str, form: str) -> float | None:
    """Return seconds since 1970, or None if the text is not in this format."""
    try:
        moment = datetime.fromisoformat(text) if form == "ISO" else datetime.strptime(text, form)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
