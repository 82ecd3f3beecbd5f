"""From a table of columns of every kind to a matrix of numbers, by a plan that is plain data and serves new rows."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, hstack
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from adaam._checks import check_whole, check_word
from adaam._typing import FloatMatrix
from adaam._warnings import warn_caller
from adaam.tables.columns import FALSE, KINDS, TRUE, Column, content_of
from adaam.tables.dates import days
from adaam.tables.frame import CellError, Cells, Frame, TableError, frame_of, missing_cells
from adaam.tables.number_text import NumberSigns, column_signs, evidence_of, parsed_numbers, table_decimal
from adaam.tables.treatment import MISSING_CATEGORY, OTHER_CATEGORY, Wish, category_texts, treated

SAMPLED_CELLS = 5_000  # of a column, to find its signs by


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn a table with columns of every kind into numbers, by stated defaults.

    Numbers are used, also where they are written as text with any decimal and thousands signs. Categories become one
    column for each value, booleans 0 and 1, and missing values are filled in. Ids, dates, free text, known classes,
    constants and columns without values are left out. `columns_` holds what is done with each column and why.

    Parameters
    ----------
    columns : list of str, default=None
        The columns to use, and no others; also ids and dates, if they are named. None: all that the defaults take.
    drop : list of str, default=None
        Columns to leave out.
    kinds : dict of str to str, default=None
        Kinds of columns where the recognised one is not meant: "number", "category", "boolean", "date" (used as days),
        "text" (used as TF-IDF weights of its words, in place of all other columns unless `columns` names them) or "id".
    missing : {"impute", "drop", "error"}, default="impute"
        Missing values: "impute" fills in the median, or makes them a category of their own; "drop" leaves the column
        out; "error" refuses them.
    na_values : list of str, default=()
        Further marks of missing values, such as "-999"; "", "NA", "NaN", "null", "?" and their like are known.
    decimal : {",", "."}, default=None
        Decimal sign of numbers that are written as text. None: found from the cells.
    thousands : str, default=None
        Sign between thousands, "" for none. None: found from the cells.
    max_categories : int, default=20
        A column of text with more values than this is left out; where `kinds` or `columns` asks for it, its most
        frequent values are encoded and the others together.

    Attributes
    ----------
    columns_ : tuple of Column
        Each column's kind, treatment and reason, in the order of the table; printing one tells it in words.
    n_features_in_ : int
        Number of columns seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of columns seen in fit, when X has names that are all strings.

    Notes
    -----
    Where every column that takes part is a number, numbers keep their units, and what follows chooses their scale.
    Where others join them, numbers are standardized, and the columns of a category or boolean are scaled to a total
    variance of 1, so that each column of the table counts the same.

    Rows to transform are matched to the plan by column names, in any order; columns that the plan does not use may be
    absent. A category that was not seen in fit is encoded as zeros, with a warning.

    Examples
    --------
    >>> import pandas as pd
    >>> from adaam import TableEncoder
    >>> table = pd.DataFrame({"id": [1, 2, 3, 4], "age": [22, None, 35, 58], "port": ["S", "C", "S", "S"]})
    >>> encoder = TableEncoder().fit(table)
    >>> print(*encoder.columns_, sep="\n")
    id: left out (id: named like an id; --id id carries it along, --number id uses it)
    age: used, imputed (number; 1 of 4 values missing, filled with the median 35)
    port: encoded (2 categories, one column each)
    >>> encoder.transform(table).round(2)
    array([[-1.19,  0.  ,  1.63],
           [-0.19,  1.63,  0.  ],
           [-0.19,  0.  ,  1.63],
           [ 1.58,  0.  ,  1.63]])
    >>> encoder.get_feature_names_out()
    array(['age', 'port=C', 'port=S'], dtype=object)
    """

    def __init__(
        self,
        *,
        columns: Iterable[str] | None = None,
        drop: Iterable[str] | None = None,
        kinds: dict[str, str] | None = None,
        missing: str = "impute",
        na_values: Iterable[str] = (),
        decimal: str | None = None,
        thousands: str | None = None,
        max_categories: int = 20,
    ) -> None:
        self.columns = columns
        self.drop = drop
        self.kinds = kinds
        self.missing = missing
        self.na_values = na_values
        self.decimal = decimal
        self.thousands = thousands
        self.max_categories = max_categories

    def fit(self, X: Any, y: Any = None) -> "TableEncoder":
        """Recognise the columns and decide what is done with each.

        Parameters
        ----------
        X : DataFrame, pyarrow Table or array-like of shape (n_samples, n_features)
            The table.
        y : None
            Ignored.

        Returns
        -------
        self : TableEncoder
            The fitted encoder.
        """
        frame = self._frame(X, reset=True)
        self.columns_ = self.plan(frame)
        for column in self.columns_:
            if column.treatment == "refused":
                raise CellError(column.reason, _row_in(column, frame, self._na_values()))
        if not any(column.is_taken for column in self.columns_):
            told = "; ".join(str(column) for column in self.columns_[:5])
            raise TableError(f"no column is left to use, of {len(self.columns_)} with n_samples={frame.n_rows}: {told}.")
        self.columns_ = tuple(self._scaled(column, frame) for column in self.columns_)
        return self

    def plan(self, X: Any) -> tuple[Column, ...]:
        """Return what would be done with each column of a table, fitting nothing.

        Parameters
        ----------
        X : DataFrame, pyarrow Table or array-like of shape (n_samples, n_features)
            The table.

        Returns
        -------
        columns : tuple of Column
            Kind, treatment and reason of each column. A treatment "refused" is one that `fit` would raise.
        """
        frame = frame_of(X)
        check_word("missing", self.missing, ("impute", "drop", "error"))
        most = check_whole("max_categories", self.max_categories, at_least=2)
        kinds = dict(self.kinds or {})
        listed = None if self.columns is None else list(self.columns)
        dropped = list(self.drop or ())
        for option, names in (("columns", listed or ()), ("drop", dropped), ("kinds", kinds)):
            _check_names(option, names, frame)
        for kind in kinds.values():
            check_word("kinds", kind, KINDS)
        texts = [name for name, kind in kinds.items() if kind == "text"]
        signs = self._signs(frame)
        found = []
        for name, cells, each in zip(frame.names, frame.columns, signs, strict=True):
            content = content_of(name, cells, each, self._na_values(), most)
            asked_for = name in kinds or (name in listed if listed is not None else not texts)
            if name in dropped:
                found.append(Column(name, "dropped", "left out", "as asked"))
            elif not asked_for:
                why = "not among the columns asked for" if listed is not None else f"the words of {texts[0]} are asked for"
                found.append(Column(name, content.kind, "left out", why))
            else:
                wish = Wish(kinds.get(name), listed is not None and name in listed, self.missing, most)
                try:
                    found.append(treated(name, cells, content, each, wish))
                except TableError as error:
                    raise TableError(f"column {name!r} {error}") from error
        return tuple(found)

    def transform(self, X: Any) -> Any:
        """Turn rows into numbers by the plan.

        Parameters
        ----------
        X : DataFrame, pyarrow Table or array-like of shape (n_samples, n_features)
            Rows with the columns that the plan uses.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_features_out), or CSR array where a text column is used
            The numbers, under the names of `get_feature_names_out`.
        """
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        taken = [column for column in self.columns_ if column.is_taken]
        absent = [column.name for column in taken if column.name not in frame.names]
        if absent:
            raise TableError(
                f"column {absent[0]!r} is missing: the model was fitted on {', '.join(c.name for c in taken[:12])}."
            )
        blocks = [self._block(column, frame.column(column.name)) for column in taken]
        if any(isinstance(block, csr_array) for block in blocks):
            return csr_array(hstack(blocks, format="csr"))
        return np.hstack(blocks)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """Return the names of the output columns.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Ignored: the names are those of the table.

        Returns
        -------
        names : ndarray of str
            The column's name for a number, "column=value" for a category, "column:word" for text.
        """
        check_is_fitted(self)
        names: list[str] = []
        for column in self.columns_:
            if column.is_taken:
                parts = [f"{column.name}={value}" for value in column.categories]
                parts += [f"{column.name}:{term}" for term in column.terms]
                names += parts or [column.name]
        return np.array(names, dtype=object)

    @property
    def is_identity(self) -> bool:
        """Whether a table of numbers comes out as it went in."""
        check_is_fitted(self)
        return all(
            column.treatment == "used" and not column.n_missing and column.signs == NumberSigns() and column.scale == 1
            for column in self.columns_
        )

    def incomplete_rows(self, X: Any) -> npt.NDArray[np.bool_]:
        """Tell which rows lack a value in a column that takes part.

        Parameters
        ----------
        X : DataFrame, pyarrow Table or array-like of shape (n_samples, n_features)
            Rows with the columns that the plan uses.

        Returns
        -------
        incomplete : ndarray of bool of shape (n_samples,)
            True where something is missing.
        """
        check_is_fitted(self)
        frame = frame_of(X)
        incomplete = np.zeros(frame.n_rows, dtype=bool)
        for column in self.columns_:
            if column.is_taken:
                incomplete |= missing_cells(frame.column(column.name), self._na_values())
        return incomplete

    def __sklearn_tags__(self) -> Any:
        """Tell what input is understood."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _frame(self, X: Any, *, reset: bool) -> Frame:
        if isinstance(X, Frame):
            if reset:
                self.n_features_in_ = len(X.names)
                self.feature_names_in_ = np.array(X.names, dtype=object)
            return X
        named = hasattr(X, "columns") or hasattr(X, "column_names")
        frame = frame_of(X)
        if reset or not named:
            kept = X if named else np.empty((frame.n_rows, len(frame.names)))
            if frame.n_rows == 0:
                raise TableError(f"the table has 0 rows (shape=(0, {len(frame.names)})) while a minimum of 1 is required.")
            validate_data(self, kept, reset=reset, skip_check_array=True)
        if not named and not reset and hasattr(self, "feature_names_in_"):
            names = tuple(str(name) for name in self.feature_names_in_)
            return replace(frame, names=names)
        return frame

    def _na_values(self) -> tuple[str, ...]:
        return tuple(str(value) for value in self.na_values)

    def _signs(self, frame: Frame) -> list[NumberSigns]:
        """Find the signs in numbers that are written as text, column by column."""
        found = [evidence_of(_sampled_texts(cells)) for cells in frame.columns]
        usual = self.decimal or table_decimal(found) or frame.decimal
        signs = [column_signs(each, usual) for each in found]
        if self.decimal is not None:
            check_word("decimal", self.decimal, (".", ","))
            signs = [replace(each, decimal=self.decimal) for each in signs]
            signs = [replace(each, thousands="") if each.thousands == each.decimal else each for each in signs]
        if self.thousands is not None:
            if self.thousands and self.thousands == (self.decimal or "."):
                raise ValueError(f"thousands={self.thousands!r} is also the decimal sign. Give both, and let them differ.")
            signs = [replace(each, thousands=self.thousands) for each in signs]
        return signs

    def _scaled(self, column: Column, frame: Frame) -> Column:
        """Standardize a column where columns of several kinds take part."""
        plain = all(each.kind == "number" and each.treatment == "used" for each in self.columns_ if each.is_taken)
        if plain or not column.is_taken or column.terms:
            return column
        block = self._block(column, frame.column(column.name))
        scale = float(np.sqrt(block.var(axis=0).sum())) or 1.0
        center = 0.0 if column.categories else float(block.mean())
        return replace(column, center=center, scale=scale)

    def _block(self, column: Column, cells: Cells) -> Any:
        """Return the output columns that a column of the table gives."""
        absent = missing_cells(cells, self._na_values())
        if self.missing == "error" and absent.any():
            row = int(np.argmax(absent))
            raise CellError(f"column {column.name!r} holds nothing in row {row + 1}, and missing='error'.", row)
        if column.terms:
            return _word_weights(column, cells, absent)
        if column.categories:
            return (_indicators(column, cells, absent) - column.center) / column.scale
        if column.kind == "boolean":
            values, bad = _truth_values(cells, absent)
        elif column.kind == "date" and cells.dtype.kind in "OM":
            values, bad = days(cells, column.form or "ISO", self._na_values())
        else:
            values, bad = parsed_numbers(cells, column.signs, self._na_values())
        if bad:
            kind = {"boolean": "true or false", "date": "a date"}.get(column.kind, "a number")
            cell = str(cells[bad[0]])[:40]
            raise CellError(f"column {column.name!r} holds {cell!r} in row {bad[0] + 1}, which is not {kind}.", bad[0])
        values = np.where(np.isnan(values), column.fill, values).astype(np.float64)
        return (values[:, None] - column.center) / column.scale


def numbers_of(X: Any, names: Iterable[str]) -> FloatMatrix:
    """Return some columns of a table as numbers, where nothing but numbers will do.

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
        Where a column is missing, or (CellError) where a cell holds no number.
    """
    frame, wanted = frame_of(X), list(names)
    absent = [name for name in wanted if name not in frame.names]
    if absent:
        raise TableError(f"column {absent[0]!r} is missing: the model was fitted on {', '.join(wanted[:12])}.")
    signs = dict(zip(frame.names, TableEncoder()._signs(frame), strict=True))
    numbers = np.empty((frame.n_rows, len(wanted)))
    for j, name in enumerate(wanted):
        cells = frame.column(name)
        numbers[:, j], bad = parsed_numbers(cells, signs[name])
        bad = bad or np.flatnonzero(np.isnan(numbers[:, j])).tolist()
        if bad:
            held = "nothing" if np.isnan(numbers[bad[0], j]) and missing_cells(cells)[bad[0]] else repr(str(cells[bad[0]])[:40])
            raise CellError(f"column {name!r} holds {held} in row {bad[0] + 1}, and the model needs a number there.", bad[0])
    return numbers


def _sampled_texts(cells: Cells) -> list[str]:
    """Return some cells that are text."""
    return [] if cells.dtype.kind != "O" else [cell for cell in cells[:SAMPLED_CELLS] if cell is not None]


def _indicators(column: Column, cells: Cells, absent: npt.NDArray[np.bool_]) -> FloatMatrix:
    """Return 1 in the column of each row's category; an unknown one is the rest, where there is one, or nothing."""
    places = {name: j for j, name in enumerate(column.categories)}
    texts = np.full(len(cells), MISSING_CATEGORY, dtype=object)
    texts[~absent] = category_texts(cells[~absent])
    rest = places.get(OTHER_CATEGORY, -1)
    found = np.array([places.get(text, -1 if text == MISSING_CATEGORY else rest) for text in texts], dtype=np.intp)
    unknown = list(dict.fromkeys(texts[(found < 0) & ~absent]))
    if unknown:
        shown = ", ".join(repr(text) for text in unknown[:5])
        warn_caller(f"column {column.name!r} holds categories that were not seen in fit, counted as none: {shown}.", UserWarning)
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


def _check_names(option: str, names: Iterable[str], frame: Frame) -> None:
    for name in names:
        if name not in frame.names:
            close = [each for each in frame.names if each.lower() == name.lower()]
            hint = f" Do you mean {close[0]!r}?" if close else ""
            shown = ", ".join(map(repr, frame.names[:12])) + (", ..." if len(frame.names) > 12 else "")
            raise TableError(f"{option} names {name!r}, but the table has the columns {shown}.{hint}")


def _row_in(column: Column, frame: Frame, na_values: tuple[str, ...]) -> int:
    """Return the first row that made a column be refused."""
    cells = frame.column(column.name)
    if column.kind == "mixed":
        return parsed_numbers(cells, column.signs, na_values)[1][0]
    return int(np.argmax(missing_cells(cells, na_values)))
