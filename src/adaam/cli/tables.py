"""Rows for the commands: an encoded table, an array, or a source too large to load."""

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, issparse
from sklearn.datasets import load_digits
from sklearn.pipeline import Pipeline

from adaam._typing import IntVector
from adaam.cli.outputs import STANDARD
from adaam.estimators.stored_rows import is_large
from adaam.rows import ArrayRows, RowsError, RowSource, open_rows
from adaam.tables import (
    CellError,
    Column,
    Frame,
    TableEncoder,
    TableError,
    TextForm,
    check_names,
    missing_cells,
    numbers_of,
    read_delimited,
    read_frame,
)
from adaam.untrusted import NUMBERS_AND_WORDS, Archive, UnreadableFileError, open_archive, reading

AS_REQUESTED = "id, as requested"
MANY_COLUMNS = 40  # more are listed by treatment, not one by one


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as numbers, with their names, classes and other information from the file."""

    X: Any  # matrix, CSR array or RowSource
    names: list[str] | None = None
    encoder: TableEncoder | None = None  # of a table
    id_name: str = "row"
    ids: Any = None
    classes: Any = None
    image_shape: tuple[int, int] | None = None
    report: tuple[str, ...] = ()
    frame: Frame | None = None  # the table that the rows come from
    kept: Any = None  # boolean mask over the rows of the table, if some were left out

    @property
    def is_encoded(self) -> bool:
        """Whether the numbers differ from those in the table."""
        return self.encoder is not None and not self.encoder.is_identity

    @property
    def n_rows(self) -> int | None:
        """Number of rows, or None if unknown."""
        return self.X.n_rows if isinstance(self.X, RowSource) else int(self.X.shape[0])

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.X.n_features if isinstance(self.X, RowSource) else int(self.X.shape[1])

    def source(self, label: str) -> Any:
        """Return the rows in the form that passes their column names to a fit."""
        if isinstance(self.X, RowSource) or issparse(self.X) or self.is_encoded or self.names is None:
            return self.X
        return ArrayRows(self.X, label, self.names)

    def kept_model(self, model: Any) -> Any:
        """Return a fitted model, with the encoder that new rows need, if any."""
        return Pipeline([("table", self.encoder), ("model", model)]) if self.is_encoded else model


def add_reading_options(command: ArgumentParser) -> None:
    """Add the options on the format of a file."""
    group = command.add_argument_group("format of the file (detected unless given)")
    group.add_argument("--sep", metavar="SIGN", help=r'separator of the cells: "," ";" "|" "\t", or " " for spaces')
    group.add_argument("--encoding", metavar="NAME", help="text encoding, such as utf-8, latin-1 or utf-16")
    group.add_argument("--header", choices=["yes", "no"], help="whether the first row holds the column names")
    group.add_argument("--skip", type=int, default=0, metavar="N", help="skip the first N lines")
    group.add_argument("--comment", default="", metavar="SIGN", help="skip lines that begin with this sign")
    group.add_argument("--sheet", metavar="NAME", help="sheet of an Excel file (default: the first one)")


def add_column_options(command: ArgumentParser) -> None:
    """Add the options on the columns of a table."""
    group = command.add_argument_group("columns of a table (adaam inspect shows the defaults)")
    group.add_argument("--columns", nargs="+", metavar="NAME", help="use these columns and no others")
    group.add_argument("--drop", nargs="+", metavar="NAME", help="leave these columns out")
    group.add_argument("--id", metavar="NAME", help="column that identifies the rows in the output")
    for kind, does in (
        ("number", "use these columns as numbers"),
        ("category", "use these columns as categories"),
        ("date", "use these dates or durations, as numbers of days"),
    ):
        group.add_argument(f"--{kind}", nargs="+", default=[], metavar="NAME", help=does)
    group.add_argument("--text", metavar="NAME", help="cluster by the words of this column alone (TF-IDF)")
    group.add_argument(
        "--missing",
        choices=["impute", "drop-columns", "drop-rows", "error"],
        default="impute",
        help="what to do about missing values: fill them in with the median, or make them a category of their own "
        "(default: impute); leave out the columns or rows that have any; or stop",
    )
    group.add_argument(
        "--na", nargs="+", default=[], metavar="TEXT", help="treat these texts as missing values too, such as -999"
    )
    group.add_argument("--decimal", choices=[".", ","], metavar="SIGN", help='decimal sign of numbers, "." or ","')
    group.add_argument("--thousands", metavar="SIGN", help='sign between thousands, "" for none')
    group.add_argument(
        "--max-categories",
        type=int,
        default=20,
        metavar="N",
        help="leave out text columns with more distinct values (default: 20)",
    )


def read_rows(source: str, arguments: Namespace) -> Rows:
    """Read rows for a fit; rows too large to load are returned as a source."""
    array = array_rows(source)
    if array is not None:
        return replace(array, classes=None) if getattr(arguments, "truth", None) else array
    frame = open_frame(source, arguments)
    try:
        return table_rows(frame, arguments)
    except CellError as error:
        raise located(error, frame, source) from error
    except TableError as error:
        raise TableError(f"{source}: {error}") from error


def array_rows(source: str) -> Rows | None:
    """Return embedded data, the rows of an array file or a source too large to load; None for a table."""
    if source == "digits":
        digits = load_digits()
        return Rows(digits.data, list(digits.feature_names), classes=digits.target, image_shape=(8, 8))
    if source == STANDARD:
        return None
    path, ending = Path(source), Path(source).suffix.lower()
    if not path.exists():
        raise TableError(f'{source}: no such file. (The name "digits" stands for the embedded data set.)')
    if path.is_dir() or ending in (".npy", ".zarr"):
        return Rows(open_rows(source))
    if ending == ".npz":
        return read_npz(path)
    if ending == ".parquet" and path.stat().st_size > 1 << 24:  # smaller ones may hold columns of every kind
        try:
            opened = open_rows(source)
        except RowsError:  # some columns are not numbers
            return None
        return Rows(opened) if is_large(opened) else None
    return None


def read_npz(path: Path) -> Rows:
    """Read an archive of arrays named X, y and image_shape, or a sparse matrix that SciPy saved."""
    with reading(path, ".npz", TableError), open_archive(path) as archive:
        keys = [name.removesuffix(".npy") for name in archive.names]
        if {"format", "data", "shape"} <= set(keys):
            return Rows(_sparse(archive))
        key = "X" if "X" in keys else keys[0] if len(keys) == 1 else None
        if key is None:
            raise TableError(f"{path}: holds arrays {', '.join(keys)}; the rows must be named X.")
        X = archive.array(f"{key}.npy")
        classes = archive.array("y.npy", NUMBERS_AND_WORDS) if "y" in keys else None
        shape = archive.array("image_shape.npy").tolist() if "image_shape" in keys else None
    if X.ndim != 2:
        raise TableError(f"{path}: holds an array of shape {X.shape} and type {X.dtype}, not a table of numbers.")
    is_shape = isinstance(shape, list) and len(shape) == 2 and all(isinstance(side, int) for side in shape)
    return Rows(X, classes=classes, image_shape=(shape[0], shape[1]) if is_shape and shape is not None else None)


def _sparse(archive: Archive) -> Any:
    """Return a sparse matrix whose indices are checked."""
    form = archive.array("format.npy", NUMBERS_AND_WORDS).item()
    form = form.decode() if isinstance(form, bytes) else form
    make = {"csr": csr_array, "csc": csc_array}.get(form)
    if make is None:
        raise UnreadableFileError(f"it holds a sparse matrix of format {form!r}; use CSR or CSC")
    shape = tuple(int(side) for side in archive.array("shape.npy").ravel())
    matrix = make(tuple(archive.array(f"{name}.npy") for name in ("data", "indices", "indptr")), shape=shape)
    matrix.check_format(full_check=True)
    return csr_array(matrix)


def open_frame(source: str, arguments: Namespace, expected: tuple[str, ...] = ()) -> Frame:
    """Read a table in the format that the options describe."""
    sep = arguments.sep.encode().decode("unicode_escape") if arguments.sep else None
    header = None if arguments.header is None else arguments.header == "yes"
    form = TextForm(sep, arguments.encoding, header, arguments.skip, arguments.comment)
    if source == STANDARD:
        return read_delimited(sys.stdin.buffer.read(), "standard input", form, expected)
    return read_frame(Path(source), form, sheet=arguments.sheet, expected=expected)


def table_rows(frame: Frame, arguments: Namespace) -> Rows:
    """Encode the columns of a table by the defaults and the options."""
    encoder, truth = encoder_for(frame, arguments)
    encoder.fit(frame)
    report, kept = list(frame.notes), None
    if arguments.missing == "drop-rows":
        kept = ~encoder.incomplete_rows(frame)
        report.append(f"rows with missing values are left out: {(~kept).sum()} of {len(kept)}")
        frame = frame.take(kept)
        encoder.fit(frame)
    report += column_lines(encoder.columns_)
    id_name, ids = row_names(encoder.columns_, frame)
    if ids is not None:
        report.append(f"the output identifies rows by {id_name} (--id NAME chooses another column)")
    elif kept is not None:
        ids = np.flatnonzero(kept) + 1
    return Rows(
        encoder.transform(frame),
        names=[str(name) for name in encoder.get_feature_names_out()],
        encoder=encoder,
        id_name=id_name,
        ids=ids,
        classes=None if truth is None else frame.column(truth),
        report=tuple(report),
        frame=frame,
        kept=kept,
    )


def encoder_for(frame: Frame, arguments: Namespace) -> tuple[TableEncoder, str | None]:
    """Return the encoder that the options describe, and the column of known classes, if one was named."""
    for option in ("columns", "drop", "number", "category", "date"):
        check_names(f"--{option}", listed(getattr(arguments, option) or [], frame), frame)
    for option in ("id", "text"):
        check_names(f"--{option}", [name] if (name := getattr(arguments, option)) else [], frame)
    kinds = {name: kind for kind in ("number", "category", "date") for name in listed(getattr(arguments, kind), frame)}
    kinds |= {arguments.text: "text"} if arguments.text else {}
    kinds |= {arguments.id: "id"} if arguments.id else {}
    truth = getattr(arguments, "truth", None)
    truth = truth if truth in frame.names else None
    drop = listed(arguments.drop or [], frame) + ([truth] if truth else [])
    encoder = TableEncoder(
        columns=listed(arguments.columns, frame) if arguments.columns else None,
        drop=drop,
        kinds=kinds,
        missing={"drop-columns": "drop", "drop-rows": "impute"}.get(arguments.missing, arguments.missing),
        na_values=list(arguments.na),
        decimal=arguments.decimal,
        thousands=arguments.thousands,
        max_categories=arguments.max_categories,
    )
    return encoder, truth


def listed(names: list[str], frame: Frame) -> list[str]:
    """Return names of columns; one argument may hold several, separated by commas."""
    found = []
    for name in names:
        parts = [part.strip() for part in name.split(",")]
        found += parts if name not in frame.names and len(parts) > 1 else [name]
    return found


def row_names(columns: tuple[Column, ...], frame: Frame) -> tuple[str, Any]:
    """Return name and cells of the id column: the requested one, or the first without missing values."""
    for column in sorted(columns, key=lambda column: column.reason != AS_REQUESTED):
        if column.kind == "id" and column.treatment == "left out" and column.name in frame.names:
            cells = frame.column(column.name)
            if column.reason != AS_REQUESTED and missing_cells(cells).any():
                continue
            whole = cells.dtype.kind == "f" and not np.isnan(cells).any() and (cells == np.round(cells)).all()
            return column.name, cells.astype(np.int64) if whole else cells
    return "row", None


def column_lines(columns: tuple[Column, ...]) -> list[str]:
    """Describe the treatment of each column; if there are many, in one line for each kind and treatment."""
    groups: dict[Any, list[Column]] = {}
    for column in columns:
        alone = len(columns) <= MANY_COLUMNS or column.treatment == "refused"
        key = column.name if alone else (column.kind, column.treatment, column.n_missing > 0)
        groups.setdefault(key, []).append(column)
    lines = []
    for group in groups.values():
        if len(group) <= 3:
            lines += [f"  {column}" for column in group]
            continue
        first, second, last = group[0], group[1], group[-1]
        gaps = " with missing values" if first.n_missing else ""
        told = f"{first.treatment} ({len(group)} columns of kind {first.kind}{gaps}; the first: {first.reason})"
        lines.append(f"  {first.name}, {second.name}, ... {last.name}: {told}")
    return lines


def new_rows(source: str, model: Any, arguments: Namespace) -> Rows:
    """Read rows for a fitted model: the columns it was fitted on, encoded as in the fit."""
    encoder, array = encoder_of(model), array_rows(source)
    if array is not None:
        if encoder is not None:
            wanted = ", ".join(column.name for column in encoder.columns_ if column.is_taken)
            raise TableError(f"{source}: is an array, but the model needs a table with the columns {wanted[:200]}.")
        return array
    names = tuple(str(name) for name in getattr(encoder or model, "feature_names_in_", ()))
    frame = open_frame(source, arguments, names)
    try:
        if encoder is not None:
            id_name, ids = row_names(encoder.columns_, frame)
            return Rows(encoder.transform(frame), None, None, id_name, ids, report=frame.notes)
        return Rows(numbers_of(frame, names or frame.names), list(names or frame.names), report=frame.notes)
    except CellError as error:
        raise located(error, frame, source) from error
    except TableError as error:
        raise TableError(f"{source}: {error}") from error


def encoder_of(model: Any) -> TableEncoder | None:
    """Return the encoder that a model was saved with, or None."""
    first = model[0] if isinstance(model, Pipeline) else None
    return first if isinstance(first, TableEncoder) else None


def read_classes(truth: str, n_rows: int, arguments: Namespace) -> Any:
    """Read known classes of `n_rows` rows from a file of one column."""
    path = Path(truth)
    if not path.exists():
        raise TableError(f"--truth {truth}: is neither a column of the table nor a file.")
    if path.suffix.lower() in (".npy", ".npz"):
        values = read_npz(path).X if path.suffix.lower() == ".npz" else np.load(path, mmap_mode="r", allow_pickle=False)
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if values.ndim != 1:
            raise TableError(f"{truth}: has shape {values.shape}; classes must be one column.")
        return np.asarray(values)
    form = TextForm(encoding=arguments.encoding)
    frame = read_frame(path, form)
    if frame.n_rows == n_rows - 1:  # the first class was taken as a column name
        frame = read_frame(path, replace(form, header=False))
    if len(frame.names) != 1:
        raise TableError(f"{truth}: has the columns {', '.join(frame.names[:12])}; classes must be one column.")
    return frame.columns[0]


def class_numbers(classes: Any) -> tuple[IntVector, Any]:
    """Return known classes as numbers, and which rows have one."""
    cells = np.asarray(classes)
    known = ~missing_cells(cells)
    numbers = np.full(len(cells), -1)
    numbers[known] = np.unique(cells[known].astype(str), return_inverse=True)[1]
    return numbers, known


def located(error: CellError, frame: Frame, source: str) -> TableError:
    """Return the error with the file and the line of the cell."""
    where = "" if frame.lines is None else f" (line {int(frame.lines[error.row])})"
    told = str(error).replace(f"row {error.row + 1}", f"row {error.row + 1}{where}", 1)
    return TableError(f"{source}: {told}")
