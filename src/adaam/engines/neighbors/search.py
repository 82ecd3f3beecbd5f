"""Exact nearest neighbours by compiled loops: approximate neighbours give bounds for one pass over all pairs.

The pass computes lower bounds of squared distances in float32, from a few leading columns of large variance. Of the
other columns of a row only their norm is used: |x - y| is at least the difference of the norms. Only the few pairs
whose lower bound is small enough are measured in all columns, in float32 and then in float64.

Compiled loops index rows in place: a view of a row would cost more than the work on it. Loops that are to be vectorised
count from zero, which tells the compiler that no index is negative.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import coo_array, csr_array

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.blocks import for_each, ordered_map, row_blocks, short_blocks
from adaam.engines.simd import (
    ONES,
    WORD,
    compiled,
    compiled_reordered,
    count_trailing_zeros,
    fma,
    load,
    load_scalar,
    mask_le_either,
    pack_columns,
    store,
    zero_vector,
)

SMALLEST, LARGEST = 1e-140, 1e140  # norms whose squares neither underflow nor overflow
SAMPLED_ROWS = 1024  # rows from which the mean and the order of columns are estimated
TREE_COLUMNS = 32  # columns of largest variance, along which k-d trees split
VARIANCE_ROWS = 256  # rows from which the column of largest variance in a tree node is estimated, approximately
GUESS_SHARE = 0.75  # share of the variance in the columns used to find approximate neighbours
# Cost of measuring a pair: fixed, and per column, in units of the time that a product takes per pair and column.
MEASURED_PAIR, MEASURED_COLUMN = 600.0, 4.0
N_TREES = 2  # k-d trees; all but the first are randomly rotated
LEAF_ROWS = 1024  # largest number of rows in a leaf; more for large k
TILE_ROWS = 512  # rows and columns of a tile
STEP = 64  # columns between two tests whether a distance is too large already; constant, so the loop is vectorised
QUEUE = 1024  # pairs that are collected before they are measured
MAX_CANDIDATES = 64  # mean number of candidates per row, in multiples of k: above it float32 cannot tell rows apart

Found: TypeAlias = tuple[IntMatrix, FloatMatrix]


class Normalization(NamedTuple):
    """Mean of the rows, largest norm of a centred row, and the columns in order of decreasing variance."""

    mean: FloatVector
    peak: float
    order: IntVector


def normalization(X: FloatMatrix) -> Normalization:
    """Estimate mean and order of columns from a sample of rows; the norm is that of the longest row."""
    some = X[:: max(1, len(X) // SAMPLED_ROWS)]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = some.mean(axis=0, dtype=np.float64)
        order = np.argsort(-np.square(some - mean).sum(axis=0), kind="stable")

    def longest(part: slice) -> float:
        rows = X[part] - mean
        return float(np.einsum("ij,ij->i", rows, rows).max())

    return Normalization(mean, float(np.sqrt(max(ordered_map(longest, short_blocks(*X.shape))))) or 1.0, order)


def tree_columns(X: FloatMatrix, scaling: Normalization) -> FloatMatrix:
    """Columns along which k-d trees split, normalized as in `Float32Rows`."""
    columns = scaling.order[:TREE_COLUMNS]
    return np.ascontiguousarray((X[:, columns] - scaling.mean[columns]) / scaling.peak, np.float32)


class Float32Rows:
    """Rows in float32, centred and scaled to the unit ball, columns of large variance first.

    Row i is row `places[i]` of X.
    """

    def __init__(self, X: FloatMatrix, scaling: Normalization, places: IntVector) -> None:
        n, d = X.shape
        # Padded to whole steps with zeros, which change no distance.
        self.steps = np.zeros((n, -(-d // STEP), STEP), np.float32)
        self.rows = self.steps.reshape(n, -1)[:, :d]
        self.squares = np.empty(n, np.float32)

        def fill(rows: slice) -> None:
            block = X[places[rows]]
            block -= scaling.mean
            block /= scaling.peak
            self.rows[rows] = block.astype(np.float32).take(scaling.order, axis=1)
            self.squares[rows] = np.einsum("ij,ij->i", self.rows[rows], self.rows[rows])

        for_each(fill, short_blocks(*X.shape))
        # Rounding of d products and sums, half an eps each, in a distance of at most 4, and of the rows themselves.
        self.error = 4.0 * (d + 32) * 2.0**-24


def kd_leaves(rows: FloatMatrix, leaf_rows: int) -> list[IntVector]:
    """Leaves of a k-d tree: split at the median of the column of largest variance, until no part is too large."""

    def halves(part: IntVector) -> list[IntVector]:
        some = rows[part[:: max(1, len(part) // VARIANCE_ROWS)]]
        column = rows[part, some.var(axis=0).argmax()]
        order = np.argpartition(column, len(part) // 2)
        return [part[order[: len(part) // 2]], part[order[len(part) // 2 :]]]

    parts: list[IntVector] = [np.arange(len(rows), dtype=np.int32)]
    while len(parts[0]) > leaf_rows:
        parts = list(chain.from_iterable(ordered_map(halves, parts)))
    return parts


class LeadingColumns(NamedTuple):
    """Factors whose product is the squared distances in the leading columns and the norm of the others.

    |x - y|² = (-2x, |x|², 1) . (y, 1, |y|²), where x and y hold the leading columns and the norm of the others.
    """

    left: FloatMatrix
    right: FloatMatrix
    rest: FloatVector  # norm of the other columns of each row
    steps: FloatMatrix  # all columns, (rows, steps, STEP)
    n_steps: int  # number of steps that are leading columns


def leading_columns(rows32: Float32Rows, n_leading: int) -> LeadingColumns:
    """Compute the factors for `n_leading` leading columns."""
    head, tail = rows32.rows[:, :n_leading], rows32.rows[:, n_leading:]
    # Summed, not as a difference from |x|²: the root of the cancellation error would exceed the error bound.
    rest = np.sqrt(np.einsum("ij,ij->i", tail, tail))
    right = np.ones((len(rows32.rows), n_leading + 3), np.float32)
    right[:, :n_leading] = head
    right[:, n_leading] = rest
    right[:, n_leading + 2] = np.einsum("ij,ij->i", head, head) + rest**2
    left = right * np.float32(-2.0)
    left[:, -2:] = right[:, :-3:-1]
    return LeadingColumns(left, right, rest, rows32.steps, -(-n_leading // STEP))


def guess_columns(rows32: Float32Rows) -> int:
    """Number of columns, in whole steps, that hold most of the variance: enough to find approximate neighbours."""
    some = rows32.rows[:: max(1, len(rows32.rows) // SAMPLED_ROWS)]
    held = np.cumsum(np.square(some - some.mean(axis=0)).sum(axis=0))
    n_columns = int(np.searchsorted(held, GUESS_SHARE * held[-1])) + 1
    return min(len(held), -(-n_columns // STEP) * STEP)


def cheapest_leading(rows32: Float32Rows, bounds: FloatVector) -> int:
    """Number of leading columns of least cost: few leave many pairs to be measured, many make products long."""
    n, d = rows32.rows.shape
    queries, others = (np.linspace(0, n - 1, min(n, size)).astype(np.intp) for size in (128, 2048))
    limits = np.maximum(bounds[queries, None], bounds[others])
    so_far = np.zeros(limits.shape, np.float32)
    left = [rows32.squares[part].copy() for part in (queries, others)]
    best, least = int(d), d + 3.0
    for n_leading in range(STEP, d, STEP):
        if n_leading + 3 >= least:
            break
        a, b = (rows32.rows[part, n_leading - STEP : n_leading] for part in (queries, others))
        squares = [np.einsum("ij,ij->i", part, part) for part in (a, b)]
        so_far += squares[0][:, None] + squares[1] - 2.0 * (a @ b.T)
        left = [np.maximum(rest - square, 0.0) for rest, square in zip(left, squares, strict=True)]
        apart = np.sqrt(left[0])[:, None] - np.sqrt(left[1])
        share = float((so_far + apart**2 <= limits).mean())
        cost = n_leading + 3 + share * (MEASURED_PAIR + MEASURED_COLUMN * (d - n_leading))
        if cost < least:
            best, least = n_leading, cost
    return best


def approximate_neighbors(leading: LeadingColumns, trees: Iterator[list[IntVector]], k: int) -> Found:
    """Approximate k nearest others of each row, with squared distances in float32, ascending.

    In each leaf that contains a row, the k + 2 others nearest in the leading columns are measured in all columns.
    """
    n = len(leading.left)
    indices = np.full((n, k), -1, np.int32)
    distances = np.full((n, k), np.inf, np.float32)

    def keep(leaf: IntVector) -> None:
        tile = leading.left[leaf] @ leading.right[leaf].T
        # Bound that k + 3 entries of a row, itself included, and few more do not exceed: from minima of column groups.
        n_groups = min(len(leaf), max(WORD, 3 * k))
        least = tile[:, : len(leaf) // n_groups * n_groups].reshape(len(leaf), -1, n_groups).min(axis=1)
        place = min(k + 2, n_groups - 1)
        update_topk(tile, np.partition(least, place, axis=1)[:, place], leaf, leading, indices, distances)

    for leaves in trees:
        for_each(keep, leaves)
    return indices, distances


def tree_leaves(tree_rows: FloatMatrix, first: list[IntVector], leaf_rows: int) -> Iterator[list[IntVector]]:
    """Yield the leaves of each k-d tree; rows are in the order of `first`, the leaves of the first tree."""
    ends = np.cumsum([len(leaf) for leaf in first])
    yield [np.arange(end - len(leaf), end, dtype=np.int32) for leaf, end in zip(first, ends, strict=True)]
    rng = np.random.default_rng(0)  # the trees affect only speed: a fixed seed will do
    for _ in range(N_TREES - 1):
        rotation = np.linalg.qr(rng.standard_normal((tree_rows.shape[1],) * 2))[0]
        yield kd_leaves(tree_rows @ rotation.astype(np.float32), leaf_rows)


class CandidatePairs(NamedTuple):
    """Pairs of rows and their squared distances."""

    row: IntVector
    column: IntVector
    value: FloatVector


def pairs_within_bounds(leading: LeadingColumns, bounds: FloatVector, most: int) -> CandidatePairs | None:
    """Pairs within the bound of their first row, in both directions; None if there are more than `most`."""
    found: list[CandidatePairs] = []
    n_found = 0
    for part in ordered_map(partial(swept, leading, bounds), row_blocks(len(bounds), TILE_ROWS)):
        found.append(part)
        n_found += len(part.row)
        if n_found > most:
            return None
    return _joined(found)


def swept(leading: LeadingColumns, bounds: FloatVector, columns: slice) -> CandidatePairs:
    """Pairs of a row and a later one in `columns`, in both directions, each within the bound of its first row."""
    # A tile may yield each of its pairs twice, once per direction.
    most = 2 * TILE_ROWS * (columns.stop - columns.start)
    found = CandidatePairs(np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.float32))
    right = pack_columns(leading.right[columns])
    parts = []
    for rows in row_blocks(columns.stop, TILE_ROWS):
        n_found = sweep_pairs(leading, bounds, rows.start, rows.stop, right, columns.start, columns.stop, found)
        parts.append(CandidatePairs(*(array[:n_found].copy() for array in found)))
    return _joined(parts)


def _joined(parts: list[CandidatePairs]) -> CandidatePairs:
    return CandidatePairs(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def nearest_others(X: FloatMatrix, k: int) -> Found | None:
    """Indices and distances of the k nearest others of each row, nearest first; None if float32 is too coarse."""
    scaling = normalization(X)
    if not SMALLEST < scaling.peak < LARGEST:
        return None
    leaf_rows = max(LEAF_ROWS, 4 * k)
    leaves = kd_leaves(tree_columns(X, scaling), leaf_rows)
    order = np.concatenate(leaves).astype(np.intp)
    rows32 = Float32Rows(X, scaling, order)
    if not rows32.squares.any():  # rows are all equal, or their squares underflow
        return None
    n_guess = guess_columns(rows32)
    leading = leading_columns(rows32, n_guess)
    _, distances = approximate_neighbors(leading, tree_leaves(rows32.rows[:, :TREE_COLUMNS], leaves, leaf_rows), k)
    bounds = distances[:, -1] + np.float32(2.0 * rows32.error)
    n_leading = cheapest_leading(rows32, bounds)
    leading = leading if n_leading == n_guess else leading_columns(rows32, n_leading)
    pairs = pairs_within_bounds(leading, bounds, MAX_CANDIDATES * k * len(X))
    return None if pairs is None else ranked(X, pairs, order, k, rows32.error)


def ranked(X: FloatMatrix, pairs: CandidatePairs, order: IntVector, k: int, error: float) -> Found:
    """The k nearest of the candidates by distances in float64, the lower index first on a tie.

    A number i in a pair stands for row order[i] of X; results are in the order of X.
    """
    n = len(X)
    grouped = csr_array(coo_array((pairs.value, (pairs.row, pairs.column)), shape=(n, n)))
    indices = np.full((n, k), n, np.intp)
    distances = np.full((n, k), np.inf)

    def rank(part: slice) -> None:
        given = (order, grouped.indptr, grouped.indices, grouped.data, error)
        rank_candidates(X, part.start, part.stop, *given, indices, distances)

    for_each(rank, row_blocks(n, 1024))
    return indices, distances


@compiled_reordered
def squared_distance(X: FloatMatrix, i: int, j: int) -> float:
    """Squared distance of two rows, from differences."""
    total = 0.0
    for k in range(X.shape[1]):
        difference = X[i, k] - X[j, k]
        total += difference * difference
    return total


@compiled_reordered
def step_distance(X: FloatMatrix, i: int, j: int, step: int) -> Any:
    """Squared distance of two rows in one step of columns."""
    total = np.float32(0.0)
    for k in range(STEP):
        difference = X[i, step, k] - X[j, step, k]
        total += difference * difference
    return total


@compiled
def _insert_unique(indices: IntVector, distances: FloatVector, j: int, distance: float) -> None:
    """Insert j into a list sorted by distance and drop the last entry; do nothing if j is in the list already."""
    for other in indices:
        if other == j:
            return
    place = len(indices) - 1
    while place > 0 and distances[place - 1] > distance:
        indices[place] = indices[place - 1]
        distances[place] = distances[place - 1]
        place -= 1
    indices[place] = j
    distances[place] = distance


@compiled
def update_topk(
    tile: FloatMatrix,
    nearest: FloatVector,
    leaf: IntVector,
    leading: LeadingColumns,
    indices: IntMatrix,
    distances: FloatMatrix,
) -> None:
    """Measure the pairs of a leaf that look nearest, and insert them into the top-k lists of their rows.

    `tile` holds squared distances in the leading columns and the norms of the others. Entries that exceed neither
    `nearest` nor the last distance in the list of their row are measured.
    """
    X, rest = leading.steps, leading.rest
    places = np.empty(len(leaf) + 1, np.uint32)
    for i in range(len(leaf)):
        own = leaf[i]
        own_indices, own_distances = indices[own], distances[own]
        limit = min(own_distances[-1], nearest[i])
        n_near = np.uint64(0)
        for j in range(len(leaf)):
            places[n_near] = j
            n_near += np.uint64(tile[i, j] <= limit)
        for q in range(n_near):
            j = leaf[places[q]]
            apart = rest[own] - rest[j]
            distance = tile[i, places[q]] - apart * apart
            for step in range(leading.n_steps, X.shape[1]):
                distance += step_distance(X, own, j, step)
            if distance < own_distances[-1] and j != own:
                _insert_unique(own_indices, own_distances, j, distance)


@compiled
def rank_candidates(
    X: FloatMatrix,
    start: int,
    stop: int,
    order: IntVector,
    starts: IntVector,
    candidates: IntVector,
    near: FloatVector,
    error: float,
    indices: IntMatrix,
    distances: FloatMatrix,
) -> None:
    """Top-k of each list of candidates by distances recomputed from differences, the lower index first on a tie.

    List i is that of row order[i] of X, and a candidate j is row order[j].
    """
    k = indices.shape[1]
    nearest = np.empty(k, np.float32)
    for i in range(start, stop):
        nearest[:] = np.inf
        for q in range(starts[i], starts[i + 1]):
            if near[q] < nearest[-1]:
                place = k - 1
                while place > 0 and nearest[place - 1] > near[q]:
                    nearest[place] = nearest[place - 1]
                    place -= 1
                nearest[place] = near[q]
        limit = nearest[-1] + 2.0 * error
        row = order[i]
        found, lengths = indices[row], distances[row]
        for q in range(starts[i], starts[i + 1]):
            if near[q] > limit:
                continue
            j = order[candidates[q]]
            value = squared_distance(X, row, j)
            place = k - 1
            if value > lengths[place] or (value == lengths[place] and j > found[place]):
                continue
            while place > 0 and (lengths[place - 1] > value or (lengths[place - 1] == value and found[place - 1] > j)):
                lengths[place] = lengths[place - 1]
                found[place] = found[place - 1]
                place -= 1
            lengths[place] = value
            found[place] = j
        for place in range(k):
            lengths[place] = np.sqrt(lengths[place])


@compiled
def _screen(
    left: FloatMatrix,
    i: int,
    h: int,
    right: FloatMatrix,
    w: int,
    bounds: FloatVector,
    column_bounds: FloatVector,
    entries: FloatMatrix,
    words: IntVector,
) -> None:
    """Entries of rows i and h in a word of columns, and bitmasks of those within the bound of their row or column."""
    a, b = zero_vector(left, WORD), zero_vector(left, WORD)
    for k in range(left.shape[1]):
        column = load(right, (w, k, 0), WORD)
        a, b = fma(a, load_scalar(left, (i, k)), column), fma(b, load_scalar(left, (h, k)), column)
    limits = load(column_bounds, (w * WORD,), WORD)
    store(entries, (0, 0), a)
    store(entries, (1, 0), b)
    words[0] = mask_le_either(a, bounds[i], limits)
    words[1] = mask_le_either(b, bounds[h], limits)


@compiled
def _measure_queue(
    leading: LeadingColumns,
    bounds: FloatVector,
    queue: IntMatrix,
    sums: FloatVector,
    n_queued: int,
    found: CandidatePairs,
    n_found: int,
) -> int:
    """Append the queued pairs within the bound of their first row to `found`; return the new number of pairs.

    The first step after the leading ones is added without a branch on the distance: most pairs end there, and a
    mispredicted branch costs as much as the step.
    """
    X, first, rest = leading.steps, leading.n_steps, leading.rest
    n_open = 0
    for q in range(n_queued):
        a, b = queue[0, q], queue[1, q]
        apart = rest[a] - rest[b]
        so_far = sums[q] - apart * apart
        if first < X.shape[1]:
            so_far += step_distance(X, a, b, first)
        queue[0, n_open] = a
        queue[1, n_open] = b
        sums[n_open] = so_far
        n_open += so_far <= max(bounds[a], bounds[b])
    for q in range(n_open):
        a, b = queue[0, q], queue[1, q]
        distance, limit = sums[q], max(bounds[a], bounds[b])
        for step in range(first + 1, X.shape[1]):
            if distance > limit:
                break
            distance += step_distance(X, a, b, step)
        for row, column in ((a, b), (b, a)):
            if distance <= bounds[row]:
                found.row[n_found] = row
                found.column[n_found] = column
                found.value[n_found] = distance
                n_found += 1
    return n_found


@compiled
def sweep_pairs(
    leading: LeadingColumns,
    bounds: FloatVector,
    first_row: int,
    stop_row: int,
    right: FloatMatrix,
    first: int,
    stop: int,
    found: CandidatePairs,
) -> int:
    """Write the pairs of some rows with later ones in [first, stop), within the bound of their first row.

    Both directions of a pair are tested. `right` is the right factor of the columns, packed in words.
    """
    entries = np.zeros((2, WORD + 1), np.float32)
    words = np.empty(2, np.uint64)
    queue = np.empty((2, QUEUE + 2 * WORD), np.uint32)  # numba tests signed indices for being negative
    sums = np.empty(queue.shape[1], np.float32)
    column_bounds = np.full(len(right) * WORD, -np.inf, np.float32)
    column_bounds[: stop - first] = bounds[first:stop]
    n_found = 0
    n_queued = 0
    for w in range(len(right)):
        begin = first + w * WORD
        present = ONES >> np.uint64(max(0, begin + WORD - stop))
        for i in range(stop_row - first_row):
            a = first_row + i
            if i % 2 == 0:
                if n_queued > QUEUE:
                    n_found = _measure_queue(leading, bounds, queue, sums, n_queued, found, n_found)
                    n_queued = 0
                _screen(leading.left, a, min(a + 1, stop_row - 1), right, w, bounds, column_bounds, entries, words)
            bits = words[i % 2] & present
            if begin <= a:  # mask out columns up to the row itself
                bits = bits & (ONES << np.uint64(a - begin + 1)) if a - begin + 1 < WORD else np.uint64(0)
            while bits:
                j = count_trailing_zeros(bits)
                queue[0, n_queued] = a
                queue[1, n_queued] = begin + j
                sums[n_queued] = entries[i % 2, j]
                n_queued += 1
                bits &= bits - np.uint64(1)
    return _measure_queue(leading, bounds, queue, sums, n_queued, found, n_found)
