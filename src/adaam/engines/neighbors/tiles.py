"""Exact nearest neighbours by NumPy: candidates from float32 tiles, each pair once, ranked in float64.

scikit-learn's brute-force search serves for few rows, and for rows that float32 cannot tell apart.
"""

import numpy as np
from scipy.sparse import coo_array, csr_array
from sklearn.neighbors import NearestNeighbors

from adaam._typing import BoolArray, FloatMatrix, FloatVector, IntMatrix, IntVector, Tall
from adaam.engines.blocks import for_each, ordered_map, row_blocks, short_blocks

FIRST_COLUMNS = 1024  # rows sampled for a first bound on the distance of the k-th neighbour
COLUMN_SHARE = 8  # one row in so many is sampled for the second bound
DIFFERENCE_BYTES = 1 << 16  # bytes of a block of differences: stays in cache and needs no new pages from the system
MAX_CANDIDATES = 64  # mean number of candidates per row, in multiples of k: above it float32 cannot tell rows apart


class Float32Tiles:
    """Rows in float32, scaled to the unit ball, with a bound on the error of their squared distances.

    |x - y|² = (-2x, |x|², 1) . (y, 1, |y|²): with two more columns, a tile of distances is one product.
    """

    def __init__(self, X: FloatMatrix) -> None:
        n, d = X.shape
        with np.errstate(over="ignore"):  # rows whose squares overflow are handled elsewhere
            self.peak = float(np.sqrt(np.einsum("ij,ij->i", X, X).max(initial=0.0))) or 1.0
        self.right = np.ones((n, d + 2), np.float32)
        np.divide(X, self.peak, out=self.right[:, :d], casting="same_kind")
        squares = np.einsum("ij,ij->i", self.right[:, :d], self.right[:, :d])
        self.right[:, d + 1] = squares
        # Rounding of d products and sums, of the squares and of the rows themselves, each at most half an eps.
        self.error = (d + 16) * 2.0**-24 * 2.0 * float(squares.max(initial=0.0))

    def squared_distances(self, rows: slice, columns: slice | IntVector) -> FloatMatrix:
        """Squared distances between two sets of rows, with an error of at most `error`."""
        # (y, 1, |y|²) becomes (-2y, |y|², 1): cheap relative to the product, and half the memory of storing both.
        left = self.right[rows] * np.float32(-2.0)
        left[:, -2:] = self.right[rows, :-3:-1]
        return np.asarray(left @ self.right[columns].T)

    def __len__(self) -> int:
        return len(self.right)


def nearest_others(X: FloatMatrix, k: int, tile_rows: int) -> tuple[IntMatrix, FloatMatrix] | None:
    """Indices and distances of the k nearest others of each row, nearest first; None if float32 is too coarse.

    A sample of rows gives a bound on the k-th distance of each row. One pass over all pairs then keeps those within the
    bound of either of their rows, error of float32 included, so no neighbour is missed. Kept pairs are measured again
    from differences in the precision of X.
    """
    rows32 = Float32Tiles(X)
    bounds = _bounds(rows32, k, tile_rows)
    found = _candidates(rows32, bounds, k, tile_rows)
    return None if found is None else _ranked(X, found, k, rows32.error, tile_rows)


def _bounds(rows32: Float32Tiles, k: int, tile_rows: int) -> FloatVector:
    """Squared distance within which each row has k others, float32 error included.

    A first bound from few rows makes a second one from many rows cheap: few distances are within the first.
    """
    n = len(rows32)
    bounds = np.full(n, np.inf, np.float32)
    columns = np.empty(0, np.intp)
    for size in (max(FIRST_COLUMNS, 4 * k), n // COLUMN_SHARE):
        if size < 4 * k or size <= 2 * len(columns) or size > n // 2:
            continue
        # Nested samples: the rows that gave the first bound are also in the second sample.
        columns = np.union1d(columns, np.linspace(0, n - 1, size).astype(np.intp))
        place = np.full(n, -1)
        place[columns] = np.arange(len(columns))

        def bound(
            rows: slice, columns: IntVector = columns, place: IntVector = place, outer: FloatVector = bounds
        ) -> FloatVector:
            tile = rows32.squared_distances(rows, columns)
            own = np.flatnonzero(place[rows] >= 0)
            tile[own, place[rows][own]] = np.inf
            if np.isinf(outer[0]):
                return np.asarray(np.partition(tile, k - 1, axis=1)[:, k - 1])
            row, column = _where(tile <= outer[rows, None])
            values, _ = _padded(row, tile[row, column], len(tile))
            return np.asarray(np.partition(values, k - 1, axis=1)[:, k - 1])

        bounds = np.concatenate(list(ordered_map(bound, row_blocks(n, tile_rows)))) + np.float32(2.0 * rows32.error)
    return bounds


def _candidates(rows32: Float32Tiles, bounds: FloatVector, k: int, tile_rows: int) -> csr_array | None:
    """All pairs within the bound of their first row, with their squared distances; each tile serves both directions."""
    n = len(rows32)
    blocks = row_blocks(n, tile_rows)

    def within(rows: slice) -> tuple[IntVector, IntVector, FloatVector]:
        parts = []
        for columns in blocks:
            if columns.start < rows.start:
                continue
            tile = rows32.squared_distances(rows, columns)
            if columns.start == rows.start:
                np.fill_diagonal(tile, np.inf)
            row, column = _where(tile <= bounds[rows, None])
            parts.append((row + rows.start, column + columns.start, tile[row, column]))
            if columns.start > rows.start:
                row, column = _where(tile <= bounds[columns])
                parts.append((column + columns.start, row + rows.start, tile[row, column]))
        row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        return row.astype(np.int32), column.astype(np.int32), value

    found: list[tuple[IntVector, IntVector, FloatVector]] = []
    n_found = 0
    for part in ordered_map(within, blocks):
        found.append(part)
        n_found += len(part[0])
        if n_found > MAX_CANDIDATES * k * n:
            return None
    row, column, value = (np.concatenate(part) for part in zip(*found, strict=True))
    return csr_array(coo_array((value, (row, column)), shape=(n, n)))


def _ranked(X: FloatMatrix, found: csr_array, k: int, error: float, tile_rows: int) -> tuple[IntMatrix, FloatMatrix]:
    """The k nearest of the candidates by distances in float64, the lower index first on a tie."""
    n = X.shape[0]
    indices = np.empty((n, k), np.intp)
    distances = np.empty((n, k))

    def rank(rows: slice) -> None:
        part = slice(found.indptr[rows.start], found.indptr[rows.stop])
        row = np.repeat(np.arange(rows.stop - rows.start), np.diff(found.indptr[rows.start : rows.stop + 1]))
        values, _ = _padded(row, found.data[part], rows.stop - rows.start)
        kth = np.partition(values, k - 1, axis=1)[:, k - 1]
        close = found.data[part] <= kth[row] + 2.0 * error
        row, column = row[close], found.indices[part][close]
        exact = pair_squares(X, row + rows.start, column, tile_rows)
        order = np.lexsort((column, exact, row))
        row, column, exact = row[order], column[order], exact[order]
        values, place = _padded(row, exact, rows.stop - rows.start)
        names = np.zeros(values.shape, np.intp)
        names[row, place] = column
        indices[rows] = names[:, :k]
        distances[rows] = np.sqrt(values[:, :k])

    for_each(rank, row_blocks(n, tile_rows))
    return indices, distances


def brute_force(X: Tall, k: int, queries: Tall | None = None) -> tuple[IntMatrix, FloatMatrix]:
    """Indices and distances of the k nearest rows of each query, nearest first; by default the nearest others in X.

    Distances are measured again from differences, so that coincident rows are at distance 0 and not at the square root
    of a rounding error.
    """
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X)
    indices = search.kneighbors(queries, return_distance=False)
    asked = X if queries is None else queries
    distances = np.empty(indices.shape, dtype=np.float64)

    def measure(part: slice) -> None:
        for place in range(k):
            difference = asked[part] - X[indices[part, place]]
            distances[part, place] = np.sqrt(np.einsum("ij,ij->i", difference, difference))

    for_each(measure, short_blocks(len(indices), X.shape[1], DIFFERENCE_BYTES))
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1)


def pair_squares(X: FloatMatrix, row: IntVector, column: IntVector, tile_rows: int) -> FloatVector:
    """Squared distances of pairs, from differences."""
    squares = np.empty(len(row))
    for some in row_blocks(len(row), tile_rows * 8):
        difference = X[row[some]] - X[column[some]]
        squares[some] = np.einsum("ij,ij->i", difference, difference)
    return squares


def _where(mask: BoolArray) -> tuple[IntVector, IntVector]:
    """Row and column of each true entry, row by row; much faster than `numpy.nonzero` if few are true."""
    row, column = np.divmod(np.flatnonzero(mask), mask.shape[1])
    return row, column


def _padded(row: IntVector, values: FloatVector, n_rows: int) -> tuple[FloatMatrix, IntVector]:
    """Table of values that are grouped by row, padded with infinity, and the column of each value in it."""
    counts = np.bincount(row, minlength=n_rows)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.full((n_rows, int(counts.max(initial=1))), np.inf, values.dtype)
    table[row, place] = values
    return table, place
