"""Rows as the searches for neighbours have them: float32, in the unit ball, and how near two of them can be at most.

A few columns of large variance hold most of a distance. What is left of each row beyond them enters by its length
alone: |x - y| is never less than the difference of the lengths. So a pair that is too far in these columns is too far.
"""

from typing import NamedTuple

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import ordered_map, row_blocks

SMALLEST, LARGEST = 1e-140, 1e140  # entries whose squares neither vanish nor overflow
BLOCK_BYTES = 1 << 22
FRAME_ROWS = 1024  # rows that tell the frame of all
SPLIT_COLUMNS = 32  # columns of largest variance, by which trees split and clusters are made
STEP = 64  # columns that are measured together, as the kernels have it
TELLING_SHARE = 0.75  # of the variance
# What measuring a pair costs, in the time that one column of a product takes: to begin with, and for each column.
MEASURED_PAIR, MEASURED_COLUMN = 600.0, 4.0


class Frame(NamedTuple):
    """Where rows are centred, the length they are measured in, and their columns, those of large variance first.

    None means the origin, and columns as they are: rows that are principal components need neither.
    """

    mean: FloatVector | None
    peak: float
    order: IntVector | None


def common_frame(X: FloatMatrix, *others: FloatMatrix) -> Frame:
    """Frame of the first rows in which no row of the others is longer than 1 either."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, order = _mean_and_order(X)

    def longest(part: tuple[FloatMatrix, slice]) -> float:
        rows = part[0][part[1]] if mean is None else part[0][part[1]] - mean
        return float(np.einsum("ij,ij->i", rows, rows).max())

    parts = [(Y, rows) for Y in (X, *others) for rows in _short_blocks(Y)]
    return Frame(mean, float(np.sqrt(max(ordered_map(longest, parts)))) or 1.0, order)


def _mean_and_order(X: FloatMatrix) -> tuple[FloatVector | None, IntVector | None]:
    """Mean of the rows, unless it is close to the origin, and order of columns, unless theirs is about as good."""
    some = X[:: max(1, len(X) // FRAME_ROWS)]
    mean = some.mean(axis=0, dtype=np.float64)
    spreads = np.square(some - mean).sum(axis=0)
    order = np.argsort(-spreads, kind="stable")
    # What the trees and each step of columns hold of the variance.
    looked_at = [place - 1 for place in (SPLIT_COLUMNS, *range(STEP, len(mean) + 1, STEP)) if place <= len(mean)]
    in_order = (np.cumsum(spreads)[looked_at] >= 0.98 * np.cumsum(spreads[order])[looked_at]).all()
    near_origin = len(some) * float(mean @ mean) <= 0.25 * float(spreads.sum())
    return None if near_origin else mean, None if in_order else order


def _short_blocks(X: FloatMatrix) -> list[slice]:
    return row_blocks(len(X), max(16, BLOCK_BYTES // (8 * X.shape[1])))


def first_columns(X: FloatMatrix, frame: Frame) -> FloatMatrix:
    """Return the columns by which rows are put together, as `NarrowRows` will have them."""
    mean, peak, order = frame
    columns = slice(SPLIT_COLUMNS) if order is None else order[:SPLIT_COLUMNS]
    head = X[:, columns] / peak if mean is None else (X[:, columns] - mean[columns]) / peak
    return np.ascontiguousarray(head, np.float32)


class NarrowRows:
    """Rows in float32, centred and scaled to the unit ball, columns of large variance first.

    `places` tells which row of X comes at each place; None means as they are.
    """

    def __init__(self, X: FloatMatrix, given: Frame | None = None, places: IntVector | None = None) -> None:
        n, d = X.shape
        mean, peak, order = common_frame(X) if given is None else given
        # Filled up with zeros to whole steps, which change no distance.
        self.steps = np.zeros((n, -(-d // STEP), STEP), np.float32)
        self.rows = self.steps.reshape(n, -1)[:, :d]
        self.squares = np.empty(n, np.float32)

        def fill(rows: slice) -> None:
            block = X[rows] if places is None else X[places[rows]]
            block = block / peak if mean is None else (block - mean) / peak
            self.rows[rows] = block if order is None else block[:, order]
            self.squares[rows] = np.einsum("ij,ij->i", self.rows[rows], self.rows[rows])

        for _ in ordered_map(fill, _short_blocks(X)):
            pass
        # Rounding of d products and sums whose terms add up to at most 4, half an eps each, and of the rows themselves.
        self.error = 4.0 * (d + 32) * 2.0**-24

    @property
    def head(self) -> FloatMatrix:
        """Columns by which rows are put together."""
        return self.rows[:, :SPLIT_COLUMNS]

    def __len__(self) -> int:
        return len(self.rows)


class Leading:
    """Squared distances in the leading columns and in the length of the rest, as one product.

    |x - y|² = (-2x, |x|², 1) . (y, 1, |y|²), where x and y are leading columns and length of the rest.
    """

    def __init__(self, narrow: NarrowRows, n_leading: int) -> None:
        n = len(narrow)
        self.n_leading = n_leading
        head, tail = narrow.rows[:, :n_leading], narrow.rows[:, n_leading:]
        # Summed, not left over from |x|²: the root of what a difference loses would be larger than the error allowed.
        self.rest = np.sqrt(np.einsum("ij,ij->i", tail, tail))
        self.right = np.ones((n, n_leading + 3), np.float32)
        self.right[:, :n_leading] = head
        self.right[:, n_leading] = self.rest
        self.right[:, n_leading + 2] = np.einsum("ij,ij->i", head, head) + self.rest**2
        self.left = self.right * np.float32(-2.0)
        self.left[:, -2:] = self.right[:, :-3:-1]


def telling_columns(narrow: NarrowRows) -> int:
    """Number of columns, in whole steps, that hold most of a distance: enough to tell which rows look near."""
    some = narrow.rows[:: max(1, len(narrow) // FRAME_ROWS)]
    held = np.cumsum(np.square(some - some.mean(axis=0)).sum(axis=0))
    n_columns = int(np.searchsorted(held, TELLING_SHARE * held[-1])) + 1
    return min(len(held), -(-n_columns // STEP) * STEP)


def leading_columns(narrow: NarrowRows, bounds: FloatVector) -> int:
    """Number of columns that makes the pass cheapest: few leave many pairs to be measured, many are long products."""
    n, d = narrow.rows.shape
    some, others = (np.linspace(0, n - 1, min(n, size)).astype(np.intp) for size in (128, 2048))
    limits = np.maximum(bounds[some, None], bounds[others])
    so_far = np.zeros(limits.shape, np.float32)
    left = [narrow.squares[part].copy() for part in (some, others)]
    best, least = int(d), d + 3.0
    for n_leading in range(STEP, d, STEP):
        if n_leading + 3 >= least:
            break
        a, b = (narrow.rows[part, n_leading - STEP : n_leading] for part in (some, others))
        squares = [np.einsum("ij,ij->i", part, part) for part in (a, b)]
        so_far += squares[0][:, None] + squares[1] - 2.0 * (a @ b.T)
        left = [np.maximum(rest - square, 0.0) for rest, square in zip(left, squares, strict=True)]
        apart = np.sqrt(left[0])[:, None] - np.sqrt(left[1])
        share = float((so_far + apart**2 <= limits).mean())
        cost = n_leading + 3 + share * (MEASURED_PAIR + MEASURED_COLUMN * (d - n_leading))
        if cost < least:
            best, least = n_leading, cost
    return best
