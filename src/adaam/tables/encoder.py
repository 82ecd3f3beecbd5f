"""Encodes a table with columns of every kind as a matrix of numbers; the plan is plain data and serves new rows."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, hstack
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from adaam._checks import check_whole, check_word
from adaam.tables.columns import KINDS, Column, content_of
from adaam.tables.features import absent_column, features, own_values
from adaam.tables.frame import CellError, Frame, TableError, frame_of, missing_cells
from adaam.tables.number_text import NumberSigns, parsed_numbers, table_signs
from adaam.tables.treatment import Wish, treated

# Standard deviation of a category, if that of a number is 1: the weight of one half in k-prototypes (Huang, 1998).
CATEGORY_DEVIATION = 0.5


@dataclass(eq=False, repr=False, kw_only=True)
class TableEncoder(TransformerMixin, BaseEstimator):
    r"""Encode a table with columns of every kind as numbers, by stated defaults.

    Numbers are used, also if written as text with any decimal and thousands signs. Categories become one column for
    each value, booleans 0 and 1, and missing values are imputed. Ids, dates, free text, known classes, constants and
    columns without values are left out. `columns_` states what is done with each column and why.

    Parameters
    ----------
    columns : list of str, default=None
        The columns to use, and no others; also ids and dates, if they are named. None: those used by default.
    drop : list of str, default=None
        Columns to leave out.
    kinds : dict of str to str, default=None
        Kinds that override the recognised ones: "number", "category", "boolean", "date" (used as days), "text" (used
        as TF-IDF weights of its words, in place of all other columns unless `columns` names them) or "id".
    missing : {"impute", "drop", "error"}, default="impute"
        Missing values: "impute" fills in the median, or makes them a separate category; "drop" leaves the column out;
        "error" raises an error.
    na_values : list of str, default=()
        Further marks of missing values, such as "-999"; "", "NA", "NaN", "null", "?" and their like are known.
    decimal : {",", "."}, default=None
        Decimal sign of numbers that are written as text. None: found from the cells.
    thousands : str, default=None
        Sign between thousands, "" for none. None: found from the cells.
    max_categories : int, default=20
        A column of text with more values than this is left out; if `kinds` or `columns` names it, its most frequent
        values are encoded, and the others as one.

    Attributes
    ----------
    columns_ : tuple of Column
        Kind, treatment and reason of each column, in the order of the table; `print` shows one in words.
    n_features_in_ : int
        Number of columns seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of columns seen in fit, when X has names. A repeated name gets a number appended.

    Notes
    -----
    If every column used is a number, numbers keep their units, and later steps choose their scale. Otherwise, numbers
    are standardized, and the columns of a category or boolean are scaled to half the standard deviation of a number,
    as k-prototypes weighs them: rows differ in a category entirely or not at all, so that at full weight an unrelated
    one can split every cluster.

    Rows to transform are matched to the plan by column names, in any order; columns that the plan does not use may be
    absent. A category that was not seen in fit is encoded as zeros, with a warning.

    Examples
    --------
    >>> import pandas as pd
    >>> from adaam import TableEncoder
    >>> table = pd.DataFrame({"id": [1, 2, 3, 4], "age": [22, None, 35, 58], "port": ["S", "C", "S", "S"]})
    >>> encoder = TableEncoder().fit(table)
    >>> print(*encoder.columns_, sep="\n")
    id: left out (id: by its name; --number id uses it)
    age: used, imputed (number; 1 of 4 values missing, filled with the median 35)
    port: encoded (2 categories, one column each)
    >>> encoder.transform(table).round(2)
    array([[-1.19,  0.  ,  0.82],
           [-0.19,  0.82,  0.  ],
           [-0.19,  0.  ,  0.82],
           [ 1.58,  0.  ,  0.82]])
    >>> encoder.get_feature_names_out()
    array(['age', 'port=C', 'port=S'], dtype=object)
    """

    columns: Iterable[str] | None = None
    drop: Iterable[str] | None = None
    kinds: dict[str, str] | None = None
    missing: str = "impute"
    na_values: Iterable[str] = ()
    decimal: str | None = None
    thousands: str | None = None
    max_categories: int = 20

    def fit(self, X: Any, y: Any = None) -> Self:
        """Recognise the columns and decide how each is treated.

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
            raise TableError(f"no column is left to use: {told}.")
        self.columns_ = tuple(self._scaled(column, frame) for column in self.columns_)
        return self

    def plan(self, X: Any) -> tuple[Column, ...]:
        """Return how each column of a table would be treated, without fitting.

        Parameters
        ----------
        X : DataFrame, pyarrow Table or array-like of shape (n_samples, n_features)
            The table.

        Returns
        -------
        columns : tuple of Column
            Kind, treatment and reason of each column. For a treatment "refused", `fit` would raise an error.
        """
        frame = frame_of(X)
        check_word("missing", self.missing, ("impute", "drop", "error"))
        most = check_whole("max_categories", self.max_categories, at_least=2)
        kinds = dict(self.kinds or {})
        listed = None if self.columns is None else list(self.columns)
        dropped = list(self.drop or ())
        for option, names in (("columns", listed or ()), ("drop", dropped), ("kinds", kinds)):
            check_names(option, names, frame)
        for kind in kinds.values():
            check_word("kinds", kind, KINDS)
        texts = [name for name, kind in kinds.items() if kind == "text"]
        signs = table_signs(frame, self.decimal, self.thousands)
        found = []
        for name, cells, each in zip(frame.names, frame.columns, signs, strict=True):
            content = content_of(name, cells, each, self._na_values(), most)
            asked_for = name in kinds or (name in listed if listed is not None else not texts)
            if name in dropped:
                found.append(Column(name, "dropped", "left out", "as requested"))
            elif not asked_for:
                why = "not among the requested columns" if listed else f"only the words of {texts[0]} are used"
                found.append(Column(name, content.kind, "left out", why))
            else:
                wish = Wish(kinds.get(name), listed is not None and name in listed, self.missing, most)
                try:
                    found.append(treated(name, cells, content, each, wish))
                except TableError as error:
                    raise TableError(f"column {name!r} {error}") from error
        return tuple(found)

    def transform(self, X: Any) -> Any:
        """Encode rows as numbers by the fitted plan.

        Parameters
        ----------
        X : DataFrame, pyarrow Table or array-like of shape (n_samples, n_features)
            Rows with the columns that the plan uses.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_features_out), or CSR array if a text column is used
            The numbers; `get_feature_names_out` names their columns.
        """
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        taken = [column for column in self.columns_ if column.is_taken]
        absent = [column.name for column in taken if column.name not in frame.names]
        if absent:
            raise TableError(absent_column(absent[0], [column.name for column in taken], frame.names))
        blocks = [features(column, frame.column(column.name), self._na_values(), self.missing) for column in taken]
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
        """Whether `transform` returns a table of numbers unchanged."""
        check_is_fitted(self)
        return all(
            column.treatment == "used" and not column.n_missing and column.signs == NumberSigns() and column.scale == 1
            for column in self.columns_
        )

    def own_units(self, X: Any) -> dict[str, Any]:
        """Return the columns of a table in their own units, for a report of its clusters.

        Parameters
        ----------
        X : DataFrame, pyarrow Table or array-like of shape (n_samples, n_features)
            Rows of the table.

        Returns
        -------
        columns : dict of str to ndarray of shape (n_samples,)
            Numbers in their own units, NaN if missing; all other columns as text, None if missing. Columns that are
            dropped, constant or empty are left out.
        """
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        told = (each for each in self.columns_ if each.kind not in ("dropped", "constant", "empty"))
        return {
            each.name: own_values(each, frame.column(each.name), self._na_values())
            for each in told
            if each.name in frame.names
        }

    def incomplete_rows(self, X: Any) -> npt.NDArray[np.bool_]:
        """Return which rows lack a value in a column that is used.

        Parameters
        ----------
        X : DataFrame, pyarrow Table or array-like of shape (n_samples, n_features)
            Rows with the columns that the plan uses.

        Returns
        -------
        incomplete : ndarray of bool of shape (n_samples,)
            True for rows with a missing value.
        """
        check_is_fitted(self)
        frame = frame_of(X)
        incomplete = np.zeros(frame.n_rows, dtype=bool)
        for column in self.columns_:
            if column.is_taken:
                incomplete |= missing_cells(frame.column(column.name), self._na_values())
        return incomplete

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the input that is accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _frame(self, X: Any, *, reset: bool) -> Frame:
        frame = frame_of(X)
        if frame.n_rows == 0:
            raise TableError(f"the table has 0 rows (shape=(0, {len(frame.names)})) while a minimum of 1 is required.")
        if isinstance(X, Frame) or hasattr(X, "columns"):  # of a DataFrame or a pyarrow Table
            if reset:
                self.n_features_in_ = len(frame.names)
                self.feature_names_in_ = np.array(frame.names, dtype=object)
            return frame
        validate_data(self, np.empty((frame.n_rows, len(frame.names))), reset=reset, skip_check_array=True)
        return frame if reset else replace(frame, names=tuple(column.name for column in self.columns_))

    def _check_loaded(self) -> None:
        """Refuse a model file whose number of columns contradicts `n_features_in_`."""
        columns = getattr(self, "columns_", None)
        if columns is None or getattr(self, "n_features_in_", None) != len(columns):
            raise ValueError("the columns of a TableEncoder are not those that it was fitted to")

    def _na_values(self) -> tuple[str, ...]:
        return tuple(str(value) for value in self.na_values)

    def _scaled(self, column: Column, frame: Frame) -> Column:
        """Standardize a column if columns of several kinds are used."""
        plain = all(each.kind == "number" and each.treatment == "used" for each in self.columns_ if each.is_taken)
        if plain or not column.is_taken or column.terms:
            return column
        block = features(column, frame.column(column.name), self._na_values(), self.missing)
        largest = float(np.abs(block).max()) or 1.0
        deviation = largest * float(np.sqrt((block / largest).var(axis=0).sum()))
        discrete = bool(column.categories) or column.kind == "boolean"
        scale = (deviation or 1.0) / (CATEGORY_DEVIATION if discrete else 1.0)
        center = 0.0 if column.categories else float(block.mean())
        return replace(column, center=center, scale=scale)


def check_names(option: str, names: Iterable[str], frame: Frame) -> None:
    """Refuse names that are not columns of the table."""
    for name in names:
        if name not in frame.names:
            close = [each for each in frame.names if each.lower() == name.lower()]
            hint = f" Do you mean {close[0]!r}?" if close else ""
            shown = ", ".join(map(repr, frame.names[:12])) + (", ..." if len(frame.names) > 12 else "")
            raise TableError(f"{option} names {name!r}, but the table has the columns {shown}.{hint}")


def _row_in(column: Column, frame: Frame, na_values: tuple[str, ...]) -> int:
    """Return the first row for which a column was refused."""
    cells = frame.column(column.name)
    absent = missing_cells(cells, na_values)
    if column.kind == "mixed":
        return parsed_numbers(cells, column.signs, absent)[1][0]
    return int(np.argmax(absent))
