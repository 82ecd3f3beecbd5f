"""Computes the features of a column from its cells, as decided in fit."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from adaam._checks import warn_caller
from adaam._typing import FloatMatrix
from adaam.tables.columns import FALSE, TRUE, Column
from adaam.tables.dates import SECONDS_PER_DAY, days
from adaam.tables.frame import CellError, Cells, TableError, frame_of, missing_cells
from adaam.tables.number_text import parsed_numbers, table_signs
from adaam.tables.treatment import MISSING_CATEGORY, OTHER_CATEGORY, category_texts

WANTED = {"boolean": "true or false", "date": "a date like the others"}


def features(column: Column, cells: Cells, na_values: tuple[str, ...], missing: str) -> Any:
    """Return the features of a column for some rows.

    Parameters
    ----------
    column : Column
        A column that is used, with its treatment.
    cells : ndarray of shape (n_samples,)
        Its cells.
    na_values : tuple of str
        Further marks of missing values.
    missing : {"impute", "drop", "error"}
        Whether missing values are refused ("error") or filled in.

    Returns
    -------
    features : ndarray, or CSR array for text, of shape (n_samples, n_features)
        Scaled as decided in fit.

    Raises
    ------
    CellError
        At the first cell that does not fit.
    """
    absent = missing_cells(cells, na_values)
    if missing == "error" and absent.any():
        row = int(np.argmax(absent))
        raise CellError(f"column {column.name!r} is empty in row {row + 1}, and missing='error'.", row)
    if column.terms:
        return _word_weights(column, cells, absent)
    if column.categories:
        return (_indicators(column, cells, absent) - column.center) / column.scale
    if column.kind == "boolean":
        values, bad = _truth_values(cells, absent)
    elif column.kind == "date" and cells.dtype.kind in "OM":
        values, bad = days(cells, column.form or "ISO", absent)
    else:
        values, bad = parsed_numbers(cells, column.signs, absent)
    if bad:
        raise CellError(_misfit(column, str(cells[bad[0]])[:40], bad[0] + 1), bad[0])
    values[np.isnan(values)] = np.nan if column.fill is None else float(column.fill)
    return (values[:, None] - column.center) / column.scale


def numbers_of(X: Any, names: Iterable[str]) -> FloatMatrix:
    """Return some columns of a table as numbers, raising an error for any cell that is not one.

    Parameters
    ----------
    X : DataFrame, pyarrow Table or Frame
        The table.
    names : iterable of str
        The columns, in the order wanted.

    Returns
    -------
    numbers : ndarray of shape (n_samples, n_names)
        The numbers.

    Raises
    ------
    TableError
        If a column is missing, or (CellError) if a cell does not hold a number.
    """
    frame, wanted = frame_of(X), list(names)
    gone = [name for name in wanted if name not in frame.names]
    if gone:
        raise TableError(absent_column(gone[0], wanted, frame.names))
    signs = dict(zip(frame.names, table_signs(frame), strict=True))
    numbers = np.empty((frame.n_rows, len(wanted)))
    for j, name in enumerate(wanted):
        cells = frame.column(name)
        absent = missing_cells(cells)
        numbers[:, j], bad = parsed_numbers(cells, signs[name], absent)
        bad = bad or np.flatnonzero(np.isnan(numbers[:, j])).tolist()
        if bad:
            row = bad[0]
            held = "is empty" if absent[row] else f"holds {str(cells[row])[:40]!r}"
            raise CellError(f"column {name!r} {held} in row {row + 1}, but the model needs a number there.", row)
    return numbers


def _misfit(column: Column, cell: str, row: int) -> str:
    """Return why a cell cannot be used, and how to correct it."""
    signs = str(column.signs) or ("decimal point" if set(",'") & set(cell) else "")
    wanted = WANTED.get(column.kind, "a number" + (f" as the others are written ({signs})" if signs else ""))
    way_out = "Correct it" if column.fill is None else "Correct it, or leave the cell empty to have it filled in"
    return f"column {column.name!r} holds {cell!r} in row {row}, which is not {wanted}. {way_out}."


def own_values(column: Column, cells: Cells, na_values: tuple[str, ...]) -> Any:
    """Return the cells of a column for display: numbers in their own units, all others as text.

    Missing values are NaN among numbers and None among texts.
    """
    absent = missing_cells(cells, na_values)
    if column.kind in ("number", "mixed"):
        values, bad = parsed_numbers(cells, column.signs, absent)
        values[bad] = np.nan
        return values
    texts = np.full(len(cells), None, dtype=object)
    if column.kind == "date" and "%d" in column.form:  # written year first, so that text sorts by time
        moments, bad = days(cells, column.form, absent)
        if not bad:
            cells = np.round(moments * SECONDS_PER_DAY).astype("datetime64[s]")
    if cells.dtype.kind == "M":
        present = cells[~absent].astype("datetime64[s]")
        is_day = bool((present == present.astype("datetime64[D]")).all())
        texts[~absent] = np.datetime_as_string(present, unit="D" if is_day else "s")
    elif cells.dtype.kind == "b":
        texts[:] = np.where(cells, "yes", "no")
    else:
        texts[~absent] = category_texts(cells[~absent])
    return texts


def absent_column(name: str, wanted: Sequence[str], names: Sequence[str]) -> str:
    """Return a message that a table lacks a column, and which it has."""
    close = [each for each in names if each.strip().lower() == name.strip().lower()]
    hint = f" Rename {close[0]!r} to {name!r}." if close else ""
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"column {name!r} is missing: the model was fitted on {', '.join(wanted[:12])}; the table has {shown}.{hint}"


def _indicators(column: Column, cells: Cells, absent: npt.NDArray[np.bool_]) -> FloatMatrix:
    """Return one-hot rows; an unknown category is encoded as the other ones together, if there are such, or as 0."""
    places = {name: j for j, name in enumerate(column.categories)}
    texts = np.full(len(cells), MISSING_CATEGORY, dtype=object)
    texts[~absent] = category_texts(cells[~absent])
    rest = places.get(OTHER_CATEGORY, -1)
    found = np.array([places.get(text, -1 if text == MISSING_CATEGORY else rest) for text in texts], dtype=np.intp)
    unknown = list(dict.fromkeys(texts[(found < 0) & ~absent]))
    if unknown:
        shown = ", ".join(repr(text) for text in unknown[:5])
        warn_caller(f"column {column.name!r} holds categories that were not seen in fit: {shown}.", UserWarning)
    block = np.zeros((len(cells), len(places)))
    rows = np.flatnonzero(found >= 0)
    block[rows, found[rows]] = 1.0
    return block


def _truth_values(cells: Cells, absent: npt.NDArray[np.bool_]) -> tuple[Any, list[int]]:
    if cells.dtype.kind in "fiub":
        values = np.where(absent, np.nan, cells.astype(np.float64))
        return values, np.flatnonzero(~absent & ~np.isin(values, (0.0, 1.0))).tolist()
    values, bad = np.full(len(cells), np.nan), []
    for i in np.flatnonzero(~absent).tolist():
        word = str(cells[i]).strip().lower()
        if word in TRUE | {"1"} or word in FALSE | {"0"}:
            values[i] = float(word in TRUE or word == "1")
        else:
            bad.append(i)
    return values, bad


def _word_weights(column: Column, cells: Cells, absent: npt.NDArray[np.bool_]) -> csr_array:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(vocabulary=list(column.terms), sublinear_tf=True)
    vectorizer.idf_ = np.asarray(column.weights)
    texts = ["" if gone else str(cell) for cell, gone in zip(cells, absent, strict=True)]
    return csr_array(vectorizer.transform(texts))
