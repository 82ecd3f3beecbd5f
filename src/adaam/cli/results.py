"""Writes results of a command as columns, in the format of the file's ending: .csv, .tsv, .npy, .npz, .parquet."""

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix
from adaam.cli.outputs import STANDARD
from adaam.cli.tables import Rows
from adaam.estimators import AdaAMClustering
from adaam.estimators.membership import own_shares
from adaam.files import atomic_file, spreadsheet_text
from adaam.rows import WRITERS
from adaam.rows.files import pyarrow
from adaam.tables import TableError

ENDINGS = (".csv", ".tsv", ".npy", ".npz", ".parquet")
MAPPED = (*WRITERS, ".npz")  # of mapped rows

Columns = dict[str, Any]  # names and arrays of equal length


def fitted_columns(rows: Rows, model: Any, *, layers: bool) -> Columns:
    """Return the results of a fit for each row: name, cluster, strength, outlier score and, on request, layers.

    Strength and outlier score are left out for rows that do not fit in memory.
    """
    told = {"cluster": model.labels_, "strength": model.probabilities_, "outlier_score": model.outlier_scores_}
    if layers:
        told |= {f"layer_{i}": layer.labels for i, layer in enumerate(model.cluster_layers_, start=1)}
    return _named(rows, told)


def predicted_columns(rows: Rows, model: Any, X: Any, *, layers: bool) -> Columns:
    """Return the same for new rows; a model other than AdaAMClustering gives only their clusters."""
    told = {"cluster": model.predict(X)}
    if isinstance(model, AdaAMClustering):
        told["strength"] = own_shares(model.membership_vectors(X), told["cluster"])
        told["outlier_score"] = model.outlier_scores(X)
    if layers:
        if not hasattr(model, "cluster_layers_"):
            raise TableError(f"--layers: a model of {type(model).__name__} has no layers of clusters. Leave it out.")
        told |= {f"layer_{i + 1}": model.predict(X, layer=i) for i in range(len(model.cluster_layers_))}
    return _named(rows, told)


def _named(rows: Rows, told: dict[str, Any]) -> Columns:
    """Put the names of the rows before the other columns, and leave out columns that are None."""
    known = {name: np.asarray(values) for name, values in told.items() if values is not None}
    id_name = f"{rows.id_name}_of_row" if rows.id_name in known else rows.id_name
    ids = np.arange(1, len(known["cluster"]) + 1) if rows.ids is None else rows.ids
    return {id_name: ids, **known}


def write_columns(target: str, columns: Columns) -> None:
    """Write columns to a file, or as CSV to standard output; a .npy file holds the clusters alone."""
    if target == STANDARD:
        sys.stdout.write(_text(columns, ","))
        return
    ending = check_ending(target, ENDINGS)
    with atomic_file(target) as stream:
        if ending == ".npy":
            np.save(stream, columns["cluster"], allow_pickle=False)
        elif ending == ".npz":
            arrays: dict[str, Any] = {name: _plain(values) for name, values in columns.items()}
            np.savez(stream, **arrays)
        elif ending == ".parquet":
            pa, pq = pyarrow()
            pq.write_table(pa.table({name: pa.array(np.asarray(values)) for name, values in columns.items()}), stream)
        else:
            stream.write(_text(columns, "\t" if ending == ".tsv" else ",").encode())


def write_blocks(target: str, blocks: Iterator[FloatMatrix], names: list[str]) -> int:
    """Write mapped rows block by block; only an .npz archive is assembled in memory."""
    if target == STANDARD:
        return WRITERS[".csv"](sys.stdout.buffer, blocks, names)
    ending = check_ending(target, MAPPED)
    with atomic_file(target) as stream:
        if ending != ".npz":
            return WRITERS[ending](stream, blocks, names)
        Z = np.vstack([*blocks])
        np.savez(stream, X=Z)
    return len(Z)


def check_ending(target: str, known: tuple[str, ...]) -> str:
    """Return a file's ending if it is a known one that can be written here; devices and pipes get CSV."""
    if Path(target).exists() and not Path(target).is_file():
        return ".csv"
    ending = Path(target).suffix.lower()
    if ending not in known:
        raise TableError(f"{target}: ending {ending!r} is not known; use one of {', '.join(known)}.")
    if ending == ".parquet":
        pyarrow()
    return ending


def _text(columns: Columns, sep: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=sep, lineterminator="\n")
    writer.writerow(map(spreadsheet_text, columns))
    arrays = map(np.asarray, columns.values())
    cells = ([f"{value:.4f}" for value in each] if each.dtype.kind == "f" else each.tolist() for each in arrays)
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue()


def _plain(values: Any) -> Any:
    """Return an array that can be stored without pickle."""
    array = np.asarray(values)
    return np.array(["" if value is None else str(value) for value in array]) if array.dtype.kind == "O" else array
