"""Nearest neighbours by compiled kernels: a good guess of them bounds their distances, one pass proves it.

The guess comes from the leaves of two trees, or from the clusters around a row's own. The pass then looks at all pairs
in a few columns of large variance. What is left of each row beyond them enters by its length alone: |x - y| is never
less than the difference of the lengths. So a pair that is too far in these columns is too far, and only the few others
are measured in all.

Of many rows the pass looks at pairs of near clusters alone. How many neighbours that finds is measured on some rows;
where they are too few, the pass goes over all pairs after all.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from types import ModuleType
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import coo_array, csr_array

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.kernels.near_clusters import CLUSTER_ROWS, AllPairs, Layout, NearClusters, near_clusters

SMALLEST, LARGEST = 1e-140, 1e140  # entries whose squares neither vanish nor overflow
BLOCK_BYTES = 1 << 22
N_TREES = 2  # each turned another way
LEAF_ROWS = 1024  # rows of a leaf, at most
AROUND_ROWS = 640  # rows around a cluster that are looked at, at least
FRAME_ROWS = 1024  # rows that tell the frame of all
SPLIT_COLUMNS = 32  # columns of largest variance, by which the tree splits
MAX_NEIGHBORS = 256  # past it lists are too long to be kept by insertion
TILE_ROWS = 512
MANY_ROWS = 1 << 15  # from here on near clusters are searched in place of all rows
RECALL_BLOCK = 1024  # others looked at together
RECALL_ROWS = 200  # rows whose neighbours are looked for among all others, to measure what was missed
STEP = 64  # columns that are measured together, as the kernels have it
MAX_CANDIDATES = 64  # times k, on average a row: past it float32 cannot tell rows apart
# What measuring a pair costs, in the time that one column of a product takes: to begin with, and for each column.
MEASURED_PAIR, MEASURED_COLUMN = 600.0, 4.0


class Pairs(NamedTuple):
    """Pairs of rows and their squared distances."""

    row: IntVector
    column: IntVector
    value: FloatVector


# Rows, and others among which those near them are looked for; a look has each row in one group.
Group: TypeAlias = tuple[IntVector, IntVector]
Look: TypeAlias = list[Group]


class Frame(NamedTuple):
    """Where rows are centred, the length they are measured in, and their columns, those of large variance first.

    None means the origin, and columns as they are: rows that are principal components need neither.
    """

    mean: FloatVector | None
    peak: float
    order: IntVector | None


def common_frame(X: FloatMatrix, *others: FloatMatrix) -> Frame:
    """Frame of the first rows in which no row of the others is longer than 1 either."""
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


class NarrowRows:
    """Rows in float32, centred and scaled to the unit ball, columns of large variance first."""

    def __init__(self, X: FloatMatrix, given: Frame | None = None) -> None:
        n, d = X.shape
        mean, peak, order = common_frame(X) if given is None else given
        # Filled up with zeros to whole steps, which change no distance.
        self.steps = np.zeros((n, -(-d // STEP), STEP), np.float32)
        self.rows = self.steps.reshape(n, -1)[:, :d]
        self.squares = np.empty(n, np.float32)

        def fill(rows: slice) -> None:
            block = X[rows] / peak if mean is None else (X[rows] - mean) / peak
            self.rows[rows] = block if order is None else block[:, order]
            self.squares[rows] = np.einsum("ij,ij->i", self.rows[rows], self.rows[rows])

        for _ in ordered_map(fill, _short_blocks(X)):
            pass
        # Rounding of d products and sums whose terms add up to at most 4, half an eps each, and of the rows themselves.
        self.error = 4.0 * (d + 32) * 2.0**-24

    def squared_distances(self, some: IntVector, others: IntVector) -> FloatMatrix:
        """Squared distances of some rows from others, wrong by at most `error`."""
        rows = self.rows[some]
        # A product of rows with themselves takes half the time.
        tile = rows @ (rows if some is others else self.rows[others]).T
        tile *= np.float32(-2.0)
        tile += self.squares[others]
        tile += self.squares[some, None]
        return np.asarray(tile)

    def reorder(self, order: IntVector) -> None:
        """Lay the rows out in another order."""
        d = self.rows.shape[1]
        before, self.steps = self.steps, np.empty_like(self.steps)

        def move(rows: slice) -> None:
            self.steps[rows] = before[order[rows]]

        for _ in ordered_map(move, _short_blocks(self.rows)):
            pass
        self.rows = self.steps.reshape(len(order), -1)[:, :d]
        self.squares = self.squares[order]

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


def nearest_others(X: FloatMatrix, k: int, kernels: ModuleType, recall: float) -> tuple[IntMatrix, FloatMatrix] | None:
    """Indices and distances of the k nearest others of each row, nearest first; None where float32 is too coarse.

    At least a share `recall` of them are true ones, as far as some rows tell; 1.0 means all, proven.
    """
    if not SMALLEST < max(abs(float(X.min())), abs(float(X.max()))) < LARGEST:
        return None
    narrow = NarrowRows(X)
    n = len(narrow)
    order = np.arange(n)
    layouts: list[Layout] = [AllPairs(n, TILE_ROWS)]
    if n >= MANY_ROWS and recall < 1.0:
        head = narrow.rows[:, :SPLIT_COLUMNS]
        clusters = near_clusters(head, _leaves(head, CLUSTER_ROWS))
        order = clusters.order
        narrow.reorder(order)
        layouts.insert(0, clusters)
        guessed = _guessed(narrow, [_around(clusters, k)], k, kernels)
    else:
        guessed = _guessed(narrow, _trees(narrow, k), k, kernels)
    bounds = guessed[1][:, -1] + np.float32(2.0 * narrow.error)
    leading = Leading(narrow, leading_columns(narrow, bounds))
    found: tuple[IntMatrix, FloatMatrix] | None = None
    for layout in layouts:
        pairs = _candidates(narrow, leading, bounds, layout, k, kernels)
        if pairs is None:
            return None
        pairs = _completed(pairs, *guessed)
        found = _ranked(X, _in_order(pairs, order), k, narrow.error, kernels)
        if isinstance(layout, AllPairs) or _recall(narrow, order, found[0]) >= recall:
            break
    return found


def _guessed(narrow: NarrowRows, looks: Iterable[Look], k: int, kernels: ModuleType) -> tuple[IntMatrix, FloatMatrix]:
    """Lists of k others of each row, near it, with their squared distances in float32, ascending."""
    n = len(narrow)
    indices = np.full((n, k), -1, np.int32)
    distances = np.full((n, k), np.inf, np.float32)

    def keep(group: Group) -> None:
        kernels.keep_nearest(narrow.squared_distances(*group), *group, indices, distances)

    for look in looks:
        for _ in ordered_map(keep, look):
            pass
    return indices, distances


def _trees(narrow: NarrowRows, k: int) -> Iterator[Look]:
    """Look within the leaves of trees."""
    rng = np.random.default_rng(0)  # the guess affects speed alone, so its seed is nobody's business
    head = narrow.rows[:, :SPLIT_COLUMNS]
    for tree in range(N_TREES):
        turned = head if tree == 0 else head @ _rotation(rng, head.shape[1])
        yield [(leaf, leaf) for leaf in _leaves(turned, max(LEAF_ROWS, 4 * k))]


def _around(clusters: NearClusters, k: int) -> Look:
    """Look around each cluster."""
    return [
        (np.arange(rows.start, rows.stop, dtype=np.int32), clusters.around(block, max(AROUND_ROWS, 4 * k)))
        for block, rows in enumerate(clusters.slices())
    ]


def _rotation(rng: np.random.Generator, size: int) -> FloatMatrix:
    return np.asarray(np.linalg.qr(rng.standard_normal((size, size)))[0], np.float32)


def _leaves(rows: FloatMatrix, leaf_rows: int) -> list[IntVector]:
    """Split at the median of the column of largest variance, until no part is larger than a leaf."""

    def halves(part: IntVector) -> list[IntVector]:
        column = rows[part, rows[part].var(axis=0).argmax()]
        order = np.argpartition(column, len(part) // 2)
        return [part[order[: len(part) // 2]], part[order[len(part) // 2 :]]]

    parts = [np.arange(len(rows), dtype=np.int32)]
    while len(parts[0]) > leaf_rows:
        parts = list(chain.from_iterable(ordered_map(halves, parts)))
    return parts


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


def _candidates(
    narrow: NarrowRows, leading: Leading, bounds: FloatVector, layout: Layout, k: int, kernels: ModuleType
) -> Pairs | None:
    """Pairs within the bound of their first row, with their squared distances; each tile serves both its sides."""
    n = len(narrow)
    blocks = layout.slices()

    def within(block: int) -> Pairs:
        rows = blocks[block]
        height = rows.stop - rows.start
        room = np.empty(height * max(TILE_ROWS, height), np.float32)
        row, column = np.empty((2, 2 * len(room)), np.int32)
        value = np.empty(2 * len(room), np.float32)
        parts = []
        for columns in layout.columns(block, TILE_ROWS):
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
        return _joined(parts)

    found: list[Pairs] = []
    n_found = 0
    for part in ordered_map(within, range(len(blocks))):
        found.append(part)
        n_found += len(part.row)
        if n_found > MAX_CANDIDATES * k * n:
            return None
    return _joined(found)


def _joined(parts: Sequence[tuple[IntVector, IntVector, FloatVector]]) -> Pairs:
    row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Pairs(row, column, value)


def _completed(pairs: Pairs, indices: IntMatrix, distances: FloatMatrix) -> Pairs:
    """Add the guess for rows that have fewer candidates than neighbours: it may lie in clusters not searched."""
    n, k = indices.shape
    short = np.flatnonzero(np.bincount(pairs.row, minlength=n) < k)
    if len(short) == 0:
        return pairs
    known = np.isin(pairs.row, short)
    keys = pairs.row[known].astype(np.int64) * n + pairs.column[known]
    row, column = np.repeat(short, k), indices[short].ravel()
    new = ~np.isin(row * n + column, keys)
    guess = Pairs(row[new].astype(np.int32), column[new], distances[short].ravel()[new])
    return _joined([pairs, guess])


def _in_order(pairs: Pairs, order: IntVector) -> csr_array:
    """Pairs by the rows of X, of which `order` tells the place."""
    n = len(order)
    return csr_array(coo_array((pairs.value, (order[pairs.row], order[pairs.column])), shape=(n, n)))


def _recall(narrow: NarrowRows, order: IntVector, indices: IntMatrix) -> float:
    """Share of true neighbours among those found, by a look at all others from some rows."""
    n, k = indices.shape
    some = np.linspace(0, n - 1, min(n, RECALL_ROWS)).astype(np.intp)
    place = np.empty(n, np.intp)
    place[order] = np.arange(n)
    found = place[indices[order[some]]]

    def look(rows: slice) -> tuple[FloatMatrix, FloatMatrix]:
        """Shortest squared distances to a block of rows, but for |x|²; and those to neighbours found in it."""
        tile = narrow.rows[some] @ narrow.rows[rows].T
        tile *= np.float32(-2.0)
        tile += narrow.squares[rows]
        own = (some >= rows.start) & (some < rows.stop)
        tile[own, some[own] - rows.start] = np.inf
        here = (found >= rows.start) & (found < rows.stop)
        reached = np.take_along_axis(tile, np.where(here, found - rows.start, 0), axis=1)
        shortest = np.partition(tile, k - 1, axis=1)[:, :k] if tile.shape[1] > k else tile
        return shortest, np.where(here, reached, np.float32(np.inf))

    looked = list(ordered_map(look, row_blocks(n, RECALL_BLOCK)))
    limits = np.partition(np.concatenate([shortest for shortest, _ in looked], axis=1), k - 1, axis=1)[:, k - 1]
    lengths = np.min([reached for _, reached in looked], axis=0)
    return float((lengths <= limits[:, None] + 2.0 * narrow.error).mean())


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
