"""Recognises what a column holds from its cells and name, and describes how it is treated."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from adaam._typing import FloatVector
from adaam.tables.dates import DURATION, are_durations, date_form, looks_like_dates
from adaam.tables.frame import Cells, missing_cells
from adaam.tables.number_text import MEASURES, NumberSigns, parsed_numbers

KINDS = ("number", "category", "boolean", "date", "text", "id")  # that a user can name
MOST_MISSING = 0.5  # share of missing values; above it, most of a column would be imputed
MOSTLY_NUMBERS = 0.9

TRUE = frozenset(["true", "t", "yes", "y", "ja", "j", "wahr", "w", "oui", "vrai", "si", "on"])
FALSE = frozenset(["false", "f", "no", "n", "nein", "falsch", "non", "faux", "off"])

ID_NAME = re.compile(
    r"(?:(?:.*[_\W])?(?:[iI][dD]|[iI]ds|uuid|UUID|guid|GUID)|.*[a-z](?:Id|ID))"
    r"|(?i:zip|zip[_ ]?code|plz|post(?:al)?[_ ]?code|phone(?:[_ ]?number)?|telephone|iban|ssn|isbn|ean)"
)
ROW_NAME = re.compile(
    r"(?i)(?:.*[_\W])?(?:index|idx|key|nr|no|num|number|code|ref|row|rownames?|row[_ ]names?|unnamed.*|column_1)\.?"
)
CLASS_NAME = re.compile(
    r"(?i)class|classes|label|labels|target|truth|ground[_ ]?truth|species|variety|outcome|diagnosis|survived|cluster"
)
TIME_NAME = re.compile(r"(?i)(?:.*[_\W])?(?:timestamp|time|ts|epoch|unixtime|unix)")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table and its treatment: plain data, stored with a model and applied to new rows.

    Attributes
    ----------
    name : str
        Its name.
    kind : str
        What it holds: "number", "boolean", "category", "date", "text", "id", "classes", "constant", "empty" or "mixed".
    treatment : str
        "used", "encoded", "left out" or, where the user has to decide, "refused".
    reason : str
        Why, with the option that changes it.
    n_missing : int
        Missing values in the rows that were fitted.
    decimal, thousands, unit : str
        Signs in numbers that are written as text, and the unit after them.
    fill : float or str or None
        Value imputed for a missing one.
    categories : tuple of str
        Values of a category column, one output column each.
    form : str
        Format of dates.
    center, scale : float
        Subtracted from the values, and divided by.
    terms : tuple of str
        Words of a text column, one output column each.
    weights : ndarray or None
        Inverse document frequency of each word.
    """

    name: str
    kind: str
    treatment: str
    reason: str
    n_missing: int = 0
    decimal: str = "."
    thousands: str = ""
    fill: float | str | None = None
    categories: tuple[str, ...] = ()
    form: str = ""
    center: float = 0.0
    scale: float = 1.0
    terms: tuple[str, ...] = ()
    weights: Any = None
    unit: str = ""

    @property
    def is_taken(self) -> bool:
        """Whether it takes part."""
        return self.treatment in ("used", "encoded")

    @property
    def signs(self) -> NumberSigns:
        """Signs in its numbers."""
        return NumberSigns(self.decimal, self.thousands, self.unit)

    def __str__(self) -> str:
        imputed = self.is_taken and self.n_missing and self.fill is not None
        word = self.treatment + (", imputed" if imputed else "")
        return f"{self.name}: {word} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Content:
    """Content of a column, as recognised from its cells."""

    kind: str
    detail: str
    absent: npt.NDArray[np.bool_]
    numbers: FloatVector | None = None  # NaN if missing; None if the cells are not numbers
    bad: tuple[int, ...] = ()  # indices of the cells of a numeric column that are not numbers
    form: str = ""
    n_distinct: int = 0  # number of distinct texts
    note: str = ""  # a further remark for the user


def content_of(name: str, cells: Cells, signs: NumberSigns, na_values: tuple[str, ...], most: int) -> Content:
    """Return what a column holds; a category has at most `most` values."""
    absent = missing_cells(cells, na_values)
    present = cells[~absent]
    if len(present) == 0:
        return Content("empty", "no values", absent)
    if cells.dtype.kind == "M":
        return Content("date", "dates", absent, form="ISO")
    if cells.dtype.kind == "b":
        return Content("boolean", "true as 1, false as 0", absent, cells.astype(np.float64))
    numbers, bad = parsed_numbers(cells, signs, absent)
    if not bad and cells.dtype.kind == "O" and (code := _why_code(present)):
        return Content("id", code, absent, numbers)
    limits = _limited_cells(cells, absent)
    if 2 * len(limits) > len(present):
        bad = sorted({*bad, *limits})  # categories such as <18 and >65 rather than measurements
    if not bad:
        found = _number_content(name, numbers, absent, most)
        return (
            replace(found, note=_limits_told([str(cells[i]).strip() for i in limits], len(cells))) if limits else found
        )
    told = None if cells.dtype.kind != "O" else _text_content(name, cells, absent, bad, most)
    return told or Content("mixed", "numbers and other things", absent, numbers, tuple(bad))


def _why_code(texts: Cells) -> str:
    """Return why digits are a code rather than a number, or ""."""
    if any(re.fullmatch(r"\s*0\d+\s*", text) for text in texts):
        return "digits with leading zeros"
    return "numbers of 16 digits and more" if any(re.fullmatch(r"\s*\d{16,}\s*", text) for text in texts) else ""


def _number_content(name: str, numbers: FloatVector, absent: npt.NDArray[np.bool_], most: int) -> Content:
    present = numbers[~absent]
    distinct = np.unique(present)
    kind, detail, note = "number", "number", ""
    if len(distinct) == 1 and len(numbers) > 1:
        kind, detail = "constant", f"always {distinct[0]:g}"
    elif CLASS_NAME.fullmatch(name) and len(distinct) <= most and _are_whole(present):
        kind, detail = "classes", f"{len(distinct)} values"
    elif _are_whole(present):
        why = _why_id(name, present, len(distinct))
        if why:
            kind, detail = ("date" if why == "moments" else "id"), why
    elif len(distinct) > 10 and (mark := _missing_mark(present, distinct)) is not None:
        note = f"{mark:g} occurs {int((present == mark).sum())} times: if it marks missing values, add --na {mark:g}"
    return Content(kind, detail, absent, numbers, note=note)


def _limited_cells(cells: Cells, absent: npt.NDArray[np.bool_]) -> list[int]:
    """Return the indices of cells that give a limit, such as <0.5, instead of a value."""
    signs = tuple("<≤>≥")
    text = "" if cells.dtype.kind != "O" else "".join(map(str, cells[~absent]))
    if not any(sign in text for sign in signs):
        return []
    return [i for i in np.flatnonzero(~absent).tolist() if str(cells[i]).lstrip().startswith(signs)]


def _limits_told(limits: list[str], n_rows: int) -> str:
    """Say how values are read that are given by a limit."""
    told = []
    for signs, where, worth in (("<≤", "below", "half of it"), (">≥", "above", "the limit")):
        cells = [cell for cell in limits if cell[0] in signs]
        if cells:
            told.append(f"{len(cells)} of {n_rows} values {where} a limit, such as {cells[0]}, are taken as {worth}")
    return f"{'; '.join(told)}; --na '{limits[0]}' treats those as missing"


def _missing_mark(values: FloatVector, distinct: FloatVector) -> float | None:
    """Return a value such as -999 that lies far from all others and occurs repeatedly, or None."""
    for mark, others in ((distinct[0], distinct[1:]), (distinct[-1], distinct[:-1])):
        nines = re.fullmatch(r"-?9{2,}(?:\.0)?", str(float(mark)))
        far = min(abs(mark - others[0]), abs(mark - others[-1])) > others[-1] - others[0]
        if nines and far and (values == mark).sum() >= max(2, 0.01 * len(values)):
            return float(mark)
    return None


def _why_id(name: str, values: FloatVector, n_distinct: int) -> str:
    """Return why whole numbers identify rows rather than measure something, or ""."""
    n = len(values)
    unlike = n_distinct >= 0.95 * n
    if ID_NAME.fullmatch(name) and n_distinct > 2:
        return "by its name"
    if TIME_NAME.fullmatch(name) and values.min() >= 1e8:
        return "moments"
    if ROW_NAME.fullmatch(name) and unlike and n >= 5:
        return "by its name, with hardly any value repeated"
    if n_distinct < n or n < 5:
        return ""
    span = values.max() - values.min()
    if span == n - 1:
        return "it numbers the rows"
    steps = np.diff(values)
    if n >= 20 and (steps > 0).all() and span <= 10 * n:
        return "it rises from row to row"
    digits = {len(str(int(value))) for value in values}
    if len(digits) == 1 and min(digits) >= 8:
        return f"{min(digits)}-digit numbers, no value twice"
    return ""


def _text_content(name: str, cells: Cells, absent: npt.NDArray[np.bool_], bad: list[int], most: int) -> Content | None:
    """Return what cells of text hold, or None if nearly all of them are numbers."""
    present = [str(cell).strip() for cell in cells[~absent]]
    counts = Counter(present)
    words = {text.lower() for text in counts}
    if len(words) == 2 and words & TRUE and words & FALSE:
        numbers = np.array([np.nan if cell is None else float(str(cell).strip().lower() in TRUE) for cell in cells])
        numbers[absent] = np.nan
        true, false = sorted(counts, key=lambda text: text.lower() not in TRUE)[:: len(counts) - 1]
        return Content("boolean", f"{true} as 1, {false} as 0", absent, numbers)
    is_date = looks_like_dates(counts)
    form = date_form(counts) if is_date else None
    if form is None and are_durations(counts):
        return Content("date", "durations", absent, form=DURATION)
    if is_date:
        told = "dates in more than one form" if form is None else "times" if form.startswith("%H") else "dates"
        return Content("date", told, absent, form=form or "")
    few = {str(cells[i]).strip() for i in bad}
    n, n_distinct = len(present), len(counts)
    share = 1 - len(bad) / n
    if sum({".", ","} < set(text) <= set("0123456789.,+-") for text in present) >= 0.5 * n:
        return None  # numbers with inconsistent signs
    if all(MEASURES.search(text) for text in counts):
        return None  # numbers in several units
    codes = n_distinct <= min(12, most) and all(counts[text] >= max(3, 0.02 * n) for text in few)
    if not codes and (share >= MOSTLY_NUMBERS or (share >= 0.5 and (len(few) <= 3 or all(map(_is_near_number, few))))):
        return None
    if n_distinct == 1 and len(cells) > 1:
        return Content("constant", f"always {present[0]!r}"[:60], absent)
    if n_distinct <= most and (n_distinct <= n / 2 or n_distinct < n < 10):
        kind = "classes" if CLASS_NAME.fullmatch(name) else "category"
        return Content(kind, f"{n_distinct} categories", absent, n_distinct=n_distinct)
    n_words = sum(any(map(str.isalpha, word)) for text in present for word in text.split()) / n
    if n_words >= 3:
        return Content("text", f"free text, {n_words:.0f} words on average", absent)
    if n_distinct >= 0.95 * n:
        return Content("id", f"{n_distinct} distinct values in {n} rows", absent)
    return Content("category", f"{n_distinct} categories", absent, n_distinct=n_distinct)


def _is_near_number(text: str) -> bool:
    """Whether a text is a number with one extra sign, such as ~0.5 or 12*."""
    return bool(re.fullmatch(r"[~±*†#]\s*[\d.,]+|[\d.,]+\s*[*†#+]", text))


def _are_whole(values: FloatVector) -> bool:
    return bool((values == np.round(values)).all())
