"""The default treatment of each kind of column, and how options of the user change it."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer

from adaam.tables.columns import MOST_MISSING, Column, Content
from adaam.tables.dates import DURATION, days
from adaam.tables.frame import Cells, TableError, shell_word
from adaam.tables.number_text import MEASURES, NumberSigns

MISSING_CATEGORY = "(missing)"
OTHER_CATEGORY = "(other)"


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for a column: its kind, whether it is to be used, and how to treat missing values."""

    kind: str | None = None
    listed: bool = False
    missing: str = "impute"
    max_categories: int = 20


def treated(name: str, cells: Cells, found: Content, signs: NumberSigns, wish: Wish) -> Column:
    """Return the treatment of a column, with the reason and the option that would change it."""
    column = Column(
        name,
        found.kind,
        "left out",
        found.detail,
        int(found.absent.sum()),
        signs.decimal,
        signs.thousands,
        form=found.form,
        unit=signs.unit,
    )
    kind = wish.kind or _kind_to_take(found, wish)
    if found.kind == "mixed" and kind in (None, "number"):
        return replace(column, treatment="refused", reason=_first_bad(name, cells, found))
    is_mark = found.kind == "constant" and column.n_missing > 0 and wish.kind == "category"
    if kind is None or kind == "id" or (found.kind in ("empty", "constant") and not is_mark):
        return replace(column, kind=kind or found.kind, reason=_why_left_out(name, found, wish))
    share = float(found.absent.mean())
    if column.n_missing and wish.missing != "impute":
        if wish.missing == "error":
            row = int(np.argmax(found.absent)) + 1
            told = (
                f"column {name!r}: {_missing(column, found)}, the first in row {row}; leave it out with "
                f"--drop {shell_word(name)}, or choose another way with --missing"
            )
            return replace(column, treatment="refused", reason=told)
        return replace(column, reason=_missing(column, found))
    if share > MOST_MISSING and not wish.listed and wish.kind is None:
        told = f"{_missing(column, found)}, more than half; --columns uses it anyway"
        return replace(column, reason=told)
    return _MAKERS[kind](replace(column, kind=kind), cells, found, wish)


def _kind_to_take(found: Content, wish: Wish) -> str | None:
    """Return the kind as which a column is used by default, or None if it is not used."""
    if found.kind in ("number", "boolean"):
        return found.kind
    if found.kind == "category":
        return "category" if wish.listed or found.n_distinct <= wish.max_categories else None
    if not wish.listed:
        return None
    if found.kind in ("id", "classes"):
        return "number" if found.numbers is not None else "category"
    if found.kind == "date":
        return "number" if found.numbers is not None else "date"
    if found.kind == "text":
        raise TableError("holds free text, which --columns alone does not use; add --text to use its words.")
    return None


def _why_left_out(name: str, found: Content, wish: Wish) -> str:
    shown = shell_word(name)
    if wish.kind == "id":
        return "id, as requested"
    n_missing = int(found.absent.sum())
    if found.kind not in ("empty", "constant") and n_missing > MOST_MISSING * len(found.absent):
        return f"{n_missing} of {len(found.absent)} values missing, and {found.detail}"
    use = "number" if found.numbers is not None else "category"
    in_one_form = "written in one, " if found.kind == "date" and not found.form and use == "category" else ""
    is_mark = found.kind == "constant" and n_missing > 0
    return {
        "id": f"id: {found.detail}; --{use} {shown} uses it",
        "date": f"{found.detail}; {in_one_form}--date {shown} uses them as days"
        if use == "category"
        else f"timestamps; --number {shown} uses them",
        "text": f"{found.detail}; --text {shown} uses its words",
        "classes": f"named like known classes; --truth {shown} scores against them, --{use} {shown} uses it",
        "category": f"{found.detail}, too many to encode; --category {shown} encodes the most frequent",
        "constant": f"{found.detail} or missing; --category {shown} uses whether it is there"
        if is_mark
        else f"constant: {found.detail}",
        "empty": "no values at all",
    }[found.kind]


def _first_bad(name: str, cells: Cells, found: Content) -> str:
    row = found.bad[0]
    cell = str(cells[row])
    more = f" ({len(found.bad) - 1} more rows hold no number either)" if len(found.bad) > 1 else ""
    shown = shell_word(name)
    units = sorted({match["unit"] for each in found.bad[:1000] if (match := MEASURES.search(str(cells[each]).strip()))})
    if len(units) > 1:
        return (
            f"column {name!r} holds numbers in {' and '.join(units[:3])}, as in row {row + 1}: {cell[:40]!r}; write "
            f"them in one unit, or leave the column out with --drop {shown}"
        )
    if 1 < len(found.bad) == int((~found.absent).sum()):
        return (
            f"column {name!r}: row {row + 1} holds {cell[:40]!r}, which is not one number, and no other cell is; split "
            f"the column, set its signs with --decimal and --thousands, or leave it out with --drop {shown}"
        )
    above = ", leave the column out with --drop {}, or skip lines above the table with --skip N"
    last = above if row < 5 else ", or leave the column out with --drop {}"
    return (
        f"column {name!r} is numeric, but row {row + 1} holds {cell[:40]!r}{more}; correct the cell, treat it as "
        f"missing with --na {shell_word(cell[:40])}{last.format(shown)}"
    )


def _missing(column: Column, found: Content) -> str:
    return f"{column.n_missing} of {len(found.absent)} values missing"


def _number(column: Column, cells: Cells, found: Content, wish: Wish) -> Column:
    values = found.numbers
    if values is None:
        row = int(np.argmax(~found.absent))
        raise TableError(f"should be a number, but row {row + 1} holds {str(cells[row])[:40]!r}.")
    return _filled(column, values, found, found.detail if found.kind == "number" else "number")


def _date(column: Column, cells: Cells, found: Content, wish: Wish) -> Column:
    if found.numbers is not None:
        return _filled(replace(column, kind="number"), found.numbers, found, "timestamps as numbers")
    values, bad = days(cells, column.form or "ISO", found.absent)
    if bad:
        shown = str(cells[bad[0]])[:40]
        raise TableError(
            f"should be dates, but row {bad[0] + 1} holds {shown!r}, which cannot be read like the others "
            f"({column.form or 'ISO'}). Write all dates in one form, such as 2024-05-31, or leave the column out."
        )
    form = "" if column.form in ("ISO", "") else f", read as {column.form}"
    words = "durations as days" if column.form == DURATION else f"{found.detail} as days since 1970{form}"
    told = _filled(column, values, found, words)
    return replace(told, treatment="encoded")


def _filled(column: Column, values: Any, found: Content, told: str) -> Column:
    """A column of numbers, with its median for missing values."""
    fill = float(SimpleImputer(strategy="median").fit(values[:, None]).statistics_[0])
    if str(column.signs):
        told += f", {column.signs}"
    if found.note:
        told += f"; {found.note}"
    if column.n_missing:
        told += f"; {_missing(column, found)}, filled with the median {fill:g}"
    return replace(column, treatment="used", reason=told, fill=fill)


def _boolean(column: Column, cells: Cells, found: Content, wish: Wish) -> Column:
    values = found.numbers
    if values is None or not set(np.unique(values[~found.absent])) <= {0.0, 1.0}:
        raise TableError(f"should be boolean, but holds {found.detail}.")
    fill = float(np.mean(values[~found.absent]) >= 0.5)
    told = f"boolean, {found.detail}"
    if column.n_missing:
        told += f"; {_missing(column, found)}, filled with the more frequent {fill:g}"
    return replace(column, treatment="encoded", reason=told, fill=fill)


def _category(column: Column, cells: Cells, found: Content, wish: Wish) -> Column:
    counts = Counter(category_texts(cells[~found.absent]))
    names = sorted(counts)
    told = f"{len(names)} categories"
    if len(names) > wish.max_categories:
        kept = {name for name, _ in counts.most_common(wish.max_categories - 1)}
        names = [name for name in names if name in kept]
        told += f", the {len(names)} most frequent and the others together"
        names.append(OTHER_CATEGORY)
    if column.n_missing:
        told += f"; {_missing(column, found)}, a category of their own"
        names.append(MISSING_CATEGORY)
    told += ", one column each"
    fill = MISSING_CATEGORY if column.n_missing else None
    return replace(column, treatment="encoded", reason=told, categories=tuple(names), fill=fill)


def _text(column: Column, cells: Cells, found: Content, wish: Wish) -> Column:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = ["" if gone else str(cell) for cell, gone in zip(cells, found.absent, strict=True)]
    # A word of a single row does not relate any rows; one of most rows does not separate them.
    vectorizer = TfidfVectorizer(min_df=2, max_df=0.5, sublinear_tf=True, max_features=20_000)
    try:
        vectorizer.fit(texts)
    except ValueError as error:
        raise TableError("holds no word that occurs in two rows and in at most half of them.") from error
    terms = tuple(str(term) for term in vectorizer.get_feature_names_out())
    told = f"text: {len(terms)} words, weighted by TF-IDF"
    return replace(column, treatment="encoded", reason=told, terms=terms, weights=vectorizer.idf_, fill=None)


def category_texts(cells: Cells) -> list[str]:
    """Return cells as names of categories; whole numbers are written without a decimal point."""
    if cells.dtype.kind in "OM":
        return [str(cell).strip() for cell in cells]
    return [f"{value:.0f}" if value == round(value) else f"{value:g}" for value in cells.astype(np.float64)]


_MAKERS = {"number": _number, "date": _date, "boolean": _boolean, "category": _category, "text": _text}
