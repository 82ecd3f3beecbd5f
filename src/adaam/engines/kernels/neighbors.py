"""Exact nearest neighbours by compiled kernels: a good guess of them bounds their distances, one pass proves it.

The guess comes from the leaves of two trees. The pass then looks at all pairs in a few
columns of large variance. What is left of each row beyond them enters by its length alone: |x - y| is never less than
the difference of the lengths. So a pair that is too far in these columns is too far, and only the few others are
measured in all.
"""

from types import ModuleType

import numpy as np
from scipy.sparse import coo_array, csr_array

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.blocks import ordered_map, row_blocks

SMALLEST, LARGEST = 1e-140, 1e140  # entries whose squares neither vanish nor overflow
BLOCK_BYTES = 1 << 22
N_TREES = 2  # each turned another way
LEAF_ROWS = 1024  # rows of a leaf, at most
SPLIT_COLUMNS = 32  # columns of largest variance, by which the tree splits
MAX_NEIGHBORS = 256  # past it lists are too long to be kept by insertion
TILE_ROWS = 512
STEP = 64  # columns that are measured together, as the kernels have it
MAX_CANDIDATES = 64  # times k, on average a row: past it float32 cannot tell rows apart
# What measuring a pair costs, in the time that one column of a product takes: to begin with, and for each column.
MEASURED_PAIR, MEASURED_COLUMN = 600.0, 4.0


class NarrowRows:
    """Rows in float32, centred and scaled to the unit ball, columns of large variance first."""

    def __init__(self, X: FloatMatrix) -> None:
        n, d = X.shape
        mean = X.mean(axis=0, dtype=np.float64)
        blocks = row_blocks(n, max(16, BLOCK_BYTES // (8 * d)))

        def lengths(rows: slice) -> tuple[float, FloatVector]:
            squares = np.square(X[rows] - mean)
            return float(squares.sum(axis=1).max()), squares.sum(axis=0)

        longest, spreads = zip(*ordered_map(lengths, blocks), strict=True)
        peak = float(np.sqrt(max(longest))) or 1.0
        order = np.argsort(-np.sum(spreads, axis=0), kind="stable")
        # Filled up with zeros to whole steps, which change no distance.
        self.steps = np.zeros((n, -(-d // STEP), STEP), np.float32)
        self.rows = self.steps.reshape(n, -1)[:, :d]
        self.squares = np.empty(n, np.float32)

        def fill(rows: slice) -> None:
            self.rows[rows] = ((X[rows] - mean) / peak)[:, order]
            self.squares[rows] = np.einsum("ij,ij->i", self.rows[rows], self.rows[rows])

        for _ in ordered_map(fill, blocks):
            pass
        # Rounding of d products and sums whose terms add up to at most 4, half an eps each, and of the rows themselves.
        self.error = 4.0 * (d + 32) * 2.0**-24

    def squared_distances(self, members: IntVector) -> FloatMatrix:
        """Squared distances among some rows, wrong by at most `error`."""
        rows, squares = self.rows[members], self.squares[members]
        tile = rows @ rows.T
        tile *= np.float32(-2.0)
        tile += squares
        tile += squares[:, None]
        return np.asarray(tile)

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


def nearest_others(X: FloatMatrix, k: int, kernels: ModuleType) -> tuple[IntMatrix, FloatMatrix] | None:
    """Indices and distances of the k nearest others of each row, nearest first; None where float32 is too coarse."""
    if not SMALLEST < max(abs(float(X.min())), abs(float(X.max()))) < LARGEST:
        return None
    narrow = NarrowRows(X)
    bounds = _guessed(narrow, k, kernels)[1][:, -1] + np.float32(2.0 * narrow.error)
    leading = Leading(narrow, _leading_columns(narrow, bounds))
    found = _candidates(narrow, leading, bounds, k, kernels)
    return None if found is None else _ranked(X, found, k, narrow.error, kernels)


def _guessed(narrow: NarrowRows, k: int, kernels: ModuleType) -> tuple[IntMatrix, FloatMatrix]:
    """Lists of k others of each row, near it, with their squared distances in float32, ascending."""
    n = len(narrow)
    indices = np.full((n, k), -1, np.int32)
    distances = np.full((n, k), np.inf, np.float32)

    def within_leaf(members: IntVector) -> None:
        kernels.keep_nearest(narrow.squared_distances(members), members, indices, distances)

    rng = np.random.default_rng(0)  # the guess affects speed alone, so its seed is nobody's business
    head = narrow.rows[:, :SPLIT_COLUMNS]
    for tree in range(N_TREES):
        turned = head if tree == 0 else head @ _rotation(rng, head.shape[1])
        for _ in ordered_map(within_leaf, _leaves(turned, max(LEAF_ROWS, 4 * k))):
            pass
    return indices, distances


def _rotation(rng: np.random.Generator, size: int) -> FloatMatrix:
    return np.asarray(np.linalg.qr(rng.standard_normal((size, size)))[0], np.float32)


def _leaves(rows: FloatMatrix, leaf_rows: int) -> list[IntVector]:
    """Split at the median of the column of largest variance, until no part is larger than a leaf."""
    parts = [np.arange(len(rows), dtype=np.int32)]
    while len(parts[0]) > leaf_rows:
        halves = []
        for part in parts:
            column = rows[part, rows[part].var(axis=0).argmax()]
            order = np.argpartition(column, len(part) // 2)
            halves += [part[order[: len(part) // 2]], part[order[len(part) // 2 :]]]
        parts = halves
    return parts


def _leading_columns(narrow: NarrowRows, bounds: FloatVector) -> int:
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


def _candidates(
    narrow: NarrowRows, leading: Leading, bounds: FloatVector, k: int, kernels: ModuleType
) -> csr_array | None:
    """All pairs within the bound of their first row, with their squared distances; each tile serves both its sides."""
    n = len(narrow)
    blocks = row_blocks(n, TILE_ROWS)

    def within(rows: slice) -> tuple[IntVector, IntVector, FloatVector]:
        height = rows.stop - rows.start
        room = np.empty(height * min(TILE_ROWS, n), np.float32)
        row, column = np.empty((2, 2 * len(room)), np.int32)
        value = np.empty(2 * len(room), np.float32)
        parts = []
        for columns in blocks:
            if columns.start < rows.start:
                continue
            tile = room[: height * (columns.stop - columns.start)].reshape(height, -1)
            np.matmul(leading.left[rows], leading.right[columns].T, out=tile)
            n_found = kernels.within_bounds(
                tile,
                columns.start == rows.start,
                (rows.start, columns.start),
                -(-leading.n_leading // STEP),
                narrow.steps[rows],
                narrow.steps[columns],
                leading.rest[rows],
                leading.rest[columns],
                bounds[rows],
                bounds[columns],
                row,
                column,
                value,
            )
            parts.append((row[:n_found].copy(), column[:n_found].copy(), value[:n_found].copy()))
        merged = [np.concatenate(part) for part in zip(*parts, strict=True)]
        return merged[0], merged[1], merged[2]

    found: list[tuple[IntVector, IntVector, FloatVector]] = []
    n_found = 0
    for part in ordered_map(within, blocks):
        found.append(part)
        n_found += len(part[0])
        if n_found > MAX_CANDIDATES * k * n:
            return None
    row, column, value = (np.concatenate(part) for part in zip(*found, strict=True))
    return csr_array(coo_array((value, (row, column)), shape=(n, n)))


def _ranked(
    X: FloatMatrix, found: csr_array, k: int, error: float, kernels: ModuleType
) -> tuple[IntMatrix, FloatMatrix]:
    """Return the k nearest of the candidates by exact distance, the lower index first on a tie."""
    n = X.shape[0]
    indices = np.full((n, k), n, np.intp)
    distances = np.full((n, k), np.inf)

    def rank(rows: slice) -> None:
        kernels.rank(X, rows.start, rows.stop, found.indptr, found.indices, found.data, error, indices, distances)

    for _ in ordered_map(rank, row_blocks(n, 1024)):
        pass
    return indices, distances
