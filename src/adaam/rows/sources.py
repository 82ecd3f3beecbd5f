"""Row sources: rows that are read block by block, as often as a fit needs, and never held all at once."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from adaam._typing import FloatMatrix
from adaam.untrusted import NUMBERS, UnreadableFileError

BLOCK_BYTES = 1 << 25  # of rows in float64, read at a time
MAX_FEATURES = 1 << 24  # rows of more are refused
MAX_BLOCK_BYTES = 1 << 30  # largest block of whole chunks of an array


@runtime_checkable
class RowSource(Protocol):
    """Rows that can be read in order, several times.

    `n_rows` is None if it is not known before a first pass; `names` are those of the columns, or None.
    """

    label: str
    n_rows: int | None
    n_features: int
    dtype: np.dtype[Any]
    names: list[str] | None

    def blocks(self) -> Iterator[FloatMatrix]:
        """Yield the rows in order, as matrices of a bounded number of rows; each call starts anew."""
        ...


class RowsError(UnreadableFileError):
    """Rows cannot be read: not a table of numbers, or numbers that are not finite."""


def rows_per_block(n_features: int) -> int:
    """Number of rows to read at a time."""
    return max(1, BLOCK_BYTES // (8 * max(1, n_features)))


def n_bytes(source: RowSource) -> int | None:
    """Memory that all rows would take, or None if their number is not known."""
    return None if source.n_rows is None else source.n_rows * source.n_features * source.dtype.itemsize


def checked_blocks(source: RowSource) -> Iterator[tuple[int, FloatMatrix]]:
    """Yield (first row, rows in floating point), block by block.

    Raises
    ------
    RowsError
        At the first block whose shape does not fit, or that holds NaN or infinity; the message names the row.
    """
    start = 0
    for block in source.blocks():
        if block.ndim != 2 or block.shape[1] != source.n_features:
            raise RowsError(
                f"{source.label}: the block that starts at row {start} has shape {block.shape}; "
                f"rows have {source.n_features} features."
            )
        if len(block) == 0:
            continue
        rows = block if block.dtype in (np.float32, np.float64) else block.astype(np.float64)
        # A finite sum proves every entry finite, and takes no mask of the block's size.
        with np.errstate(over="ignore", invalid="ignore"):
            is_finite = np.isfinite(rows.sum())
        if not is_finite:
            _check_finite(rows, start, source)
        yield start, rows
        start += len(block)
    if source.n_rows is not None and start != source.n_rows:
        raise RowsError(f"{source.label}: holds {start} rows, but {source.n_rows} were announced.")


def counted_rows(source: RowSource) -> int:
    """Number of rows, by reading all of them if it is not known."""
    return sum(len(block) for _, block in checked_blocks(source)) if source.n_rows is None else source.n_rows


def read_all(source: RowSource) -> FloatMatrix:
    """Read all rows into memory, in their own dtype; the caller checks them."""
    return np.vstack([np.empty((0, source.n_features), source.dtype), *source.blocks()])


def check_table(label: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the shape of a table of numbers; refuse other arrays, and rows of too many features."""
    if len(shape) != 2 or min(shape) < 0:
        raise RowsError(f"{label}: holds an array of shape {shape}, not a table of rows.")
    if shape[1] > MAX_FEATURES:
        raise RowsError(f"{label}: has rows of {shape[1]} features; {MAX_FEATURES} are the most that are read.")
    check_numbers(label, dtype)
    return int(shape[0]), int(shape[1])


def check_numbers(label: str, dtype: np.dtype[Any]) -> None:
    """Refuse dtypes that are not numeric."""
    if dtype.kind not in NUMBERS:
        raise RowsError(f"{label}: holds {dtype}, not numbers.")


def _check_finite(rows: FloatMatrix, start: int, source: RowSource) -> None:
    for row, column in np.argwhere(~np.isfinite(rows))[:1]:  # none if a sum of finite numbers overflowed
        where = f"column {column}" if source.names is None else f"column {source.names[column]!r}"
        raise RowsError(
            f"{source.label}: row {start + row} holds {rows[row, column]} in {where}. Rows must be finite: "
            "drop such rows or fill them in."
        )


class ArrayRows:
    """Rows of any array with `shape`, `dtype` and slices that NumPy can convert.

    Parameters
    ----------
    array : array of two dimensions
        Sliced by rows. If it has `chunks`, blocks are whole chunks.
    label : str, default="X"
        Its name in messages.
    names : list of str, default=None
        Names of the columns.
    """

    def __init__(self, array: Any, label: str = "X", names: list[str] | None = None) -> None:
        self.array, self.label, self.names = array, label, names
        self.dtype: np.dtype[Any] = np.dtype(array.dtype)
        self.n_rows: int | None
        self.n_rows, self.n_features = check_table(label, tuple(array.shape), self.dtype)

    def blocks(self) -> Iterator[FloatMatrix]:
        """Yield the rows in order."""
        height = rows_per_block(self.n_features)
        chunks = getattr(self.array, "chunks", None)
        if chunks and chunks[0] * self.n_features * 8 <= MAX_BLOCK_BYTES:
            # Chunks are decompressed whole: one that is read in parts would be decompressed several times.
            height = max(1, height // chunks[0]) * chunks[0]
        for start in range(0, self.n_rows or 0, height):
            yield np.asarray(self.array[start : start + height])


class BlockRows:
    """Rows from a function that returns a new iterator over the row blocks at each call.

    Parameters
    ----------
    make : callable
        Returns an iterable of arrays of shape (some rows, n_features), the same ones each time. A fit calls it once
        for each pass over the rows, and once more to look at the first block.
    n_rows : int, default=None
        Total number of rows; None means that they are counted in the first pass.

    Examples
    --------
    >>> import numpy as np
    >>> from adaam.rows import BlockRows
    >>> rows = BlockRows(lambda: (np.full((2, 3), i) for i in range(4)))
    >>> rows.n_features, sum(len(block) for block in rows.blocks())
    (3, 8)
    """

    names: list[str] | None = None
    label = "row blocks"

    def __init__(self, make: Callable[[], Iterable[Any]], n_rows: int | None = None) -> None:
        if not callable(make):
            raise TypeError(
                f"make={make!r} is a {type(make).__name__}; a fit reads rows more than once, so pass a function that "
                "returns a new iterator at each call."
            )
        self.make = make
        self.n_rows = n_rows
        first = next((block for block in self.blocks() if len(block)), None)
        if first is None or first.ndim != 2:
            raise RowsError(f"{self.label}: the first block is {first!r}; blocks must be tables of rows.")
        self.n_features: int = first.shape[1]
        self.dtype: np.dtype[Any] = first.dtype
        check_numbers(self.label, self.dtype)

    def blocks(self) -> Iterator[FloatMatrix]:
        """Yield the blocks as the function gives them."""
        yield from map(np.asarray, self.make())


def as_rows(X: Any) -> RowSource | None:
    """Return X as a row source, or None if it is an ordinary array for scikit-learn's own checks.

    Memory maps and Zarr arrays count as row sources: they must not be loaded by accident.
    """
    if isinstance(X, np.ndarray):
        return ArrayRows(X) if isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in NUMBERS else None
    if type(X).__module__.partition(".")[0] == "zarr" and hasattr(X, "shape"):  # without importing zarr
        return ArrayRows(X)
    return X if isinstance(X, RowSource) else None
