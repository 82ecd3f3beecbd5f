"""Columns: one number a row, or a plain float where all rows have the same one, which then is stored nowhere."""

import sys
from typing import Any

import numpy as np

from adaam._typing import Column, FloatVector


def total(column: Column, n_rows: int) -> float:
    """Sum over the rows."""
    return column * n_rows if isinstance(column, float) else float(column.sum())


def at(column: Column, rows: Any) -> Any:
    """Numbers of some rows, chosen by a slice or by indices."""
    return column if isinstance(column, float) else column[rows]


def beside(column: Column, rows: slice) -> Any:
    """Numbers of a row block, laid out so that they multiply the rows."""
    return column if isinstance(column, float) else column[rows, None]


def spread(column: Column, n_rows: int) -> FloatVector:
    """Host column as a vector, also where all rows have the same number."""
    return np.broadcast_to(np.asarray(column, dtype=np.float64), (n_rows,))


def namespace(array: Any) -> Any:
    """NumPy or PyTorch, whichever an array is of."""
    return sys.modules[type(array).__module__.partition(".")[0]]
