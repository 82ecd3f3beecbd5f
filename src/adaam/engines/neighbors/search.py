"""Nearest neighbours by compiled loops: approximate neighbours bound distances, one pass over the pairs proves them.

The pass takes squared distances in a few leading columns of large variance, in float32. What is left of each row beyond
them enters by its norm alone: |x - y| is never less than the difference of the norms. So a pair that is too far in
these columns is too far, and only the few others are measured in all columns, in float32 and then in float64.

With a `recall` below 1, a search among very many rows looks into the cells alone that one row of a pair probes
(`neighbors.cells`). How many cells to probe is chosen by the true neighbours of some rows, and what that finds is
measured on other rows; where it is too little, or no cheaper, the pass goes over all pairs.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.neighbors.cells import (
    CELL_ROWS,
    InvertedFile,
    Probes,
    choose_n_probes,
    inverted_file,
    kd_leaves,
    probe_cells,
)
from adaam.engines.neighbors.loops import (
    STEP,
    PairBuffer,
    SearchRows,
    group_by_row,
    measure_pairs,
    rank_candidates,
    sweep_pairs,
    update_topk,
)
from adaam.engines.simd import WORD

SMALLEST, LARGEST = 1e-140, 1e140  # entries whose squares neither vanish nor overflow
BLOCK_BYTES = 1 << 22
SAMPLED_ROWS = 1024  # rows that tell the mean and the order of columns
TREE_COLUMNS = 32  # columns of largest variance, by which trees split and cells are made
GUESS_SHARE = 0.75  # of the variance, in the columns that approximate neighbours are looked for in
# What measuring a pair costs, in the time that one column of a product takes: to begin with, and for each column.
MEASURED_PAIR, MEASURED_COLUMN = 600.0, 4.0
N_TREES = 2  # each rotated another way
LEAF_ROWS = 1024  # rows of a leaf, at most
GUESS_ROWS = 640  # rows around a cell that are looked at, at least
TILE_ROWS = 512
MAX_CANDIDATES = 64  # times k, on average a row: past it float32 cannot tell rows apart
APPROXIMATE_ROWS = 1 << 15  # from here on a recall below 1 probes cells in place of all pairs
CHOOSING_ROWS = 400  # rows whose true neighbours tell how many cells to probe
RECALL_ROWS = 200  # other rows whose true neighbours tell what was missed
MOST_PROBED = 0.2  # of all rows, from one; past it all pairs are as cheap

Found: TypeAlias = tuple[IntMatrix, FloatMatrix]

# Rows, and others among which those near them are looked for; a search has each row in one group.
SearchGroup: TypeAlias = tuple[IntVector, IntVector]


class Normalization(NamedTuple):
    """Where rows are centred, the length they are measured in, and their columns, those of large variance first.

    None means the origin, and columns as they are: rows that are principal components need neither.
    """

    mean: FloatVector | None
    peak: float
    order: IntVector | None


def normalization(X: FloatMatrix) -> Normalization:
    """Tell how rows are centred and scaled, from some of them and the longest."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, order = _mean_and_order(X)

    def longest(part: slice) -> float:
        rows = X[part] if mean is None else X[part] - mean
        return float(np.einsum("ij,ij->i", rows, rows).max())

    return Normalization(mean, float(np.sqrt(max(ordered_map(longest, _short_blocks(X))))) or 1.0, order)


def _mean_and_order(X: FloatMatrix) -> tuple[FloatVector | None, IntVector | None]:
    """Mean of the rows, unless it is close to the origin, and order of columns, unless theirs is about as good."""
    some = X[:: max(1, len(X) // SAMPLED_ROWS)]
    mean = some.mean(axis=0, dtype=np.float64)
    spreads = np.square(some - mean).sum(axis=0)
    order = np.argsort(-spreads, kind="stable")
    # What the trees and each step of columns hold of the variance.
    looked_at = [place - 1 for place in (TREE_COLUMNS, *range(STEP, len(mean) + 1, STEP)) if place <= len(mean)]
    in_order = (np.cumsum(spreads)[looked_at] >= 0.98 * np.cumsum(spreads[order])[looked_at]).all()
    near_origin = len(some) * float(mean @ mean) <= 0.25 * float(spreads.sum())
    return None if near_origin else mean, None if in_order else order


def _short_blocks(X: FloatMatrix) -> list[slice]:
    return row_blocks(len(X), max(16, BLOCK_BYTES // (8 * X.shape[1])))


def tree_columns(X: FloatMatrix, scaling: Normalization) -> FloatMatrix:
    """Columns by which trees split, as `Float32Rows` will have them."""
    mean, peak, order = scaling
    columns = slice(TREE_COLUMNS) if order is None else order[:TREE_COLUMNS]
    head = X[:, columns] / peak if mean is None else (X[:, columns] - mean[columns]) / peak
    return np.ascontiguousarray(head, np.float32)


class Float32Rows:
    """Rows in float32, centred and scaled to the unit ball, columns of large variance first.

    `places` tells which row of X comes at each place; None means as they are.
    """

    def __init__(self, X: FloatMatrix, scaling: Normalization, places: IntVector | None = None) -> None:
        n, d = X.shape
        mean, peak, order = scaling
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
    def tree_rows(self) -> FloatMatrix:
        """Columns by which trees split."""
        return self.rows[:, :TREE_COLUMNS]

    def __len__(self) -> int:
        return len(self.rows)


class LeadingColumns:
    """Squared distances in the leading columns and in the norm of the rest, as one product.

    |x - y|² = (-2x, |x|², 1) . (y, 1, |y|²), where x and y are leading columns and norm of the rest.
    """

    def __init__(self, rows32: Float32Rows, n_leading: int) -> None:
        n = len(rows32)
        self.n_leading = n_leading
        head, tail = rows32.rows[:, :n_leading], rows32.rows[:, n_leading:]
        # Summed, not left over from |x|²: the root of what a difference loses would be larger than the error allowed.
        self.rest = np.sqrt(np.einsum("ij,ij->i", tail, tail))
        self.right = np.ones((n, n_leading + 3), np.float32)
        self.right[:, :n_leading] = head
        self.right[:, n_leading] = self.rest
        self.right[:, n_leading + 2] = np.einsum("ij,ij->i", head, head) + self.rest**2
        self.left = self.right * np.float32(-2.0)
        self.left[:, -2:] = self.right[:, :-3:-1]


def guess_columns(rows32: Float32Rows) -> int:
    """Number of columns, in whole steps, that hold most of a distance: enough to tell which rows look near."""
    some = rows32.rows[:: max(1, len(rows32) // SAMPLED_ROWS)]
    held = np.cumsum(np.square(some - some.mean(axis=0)).sum(axis=0))
    n_columns = int(np.searchsorted(held, GUESS_SHARE * held[-1])) + 1
    return min(len(held), -(-n_columns // STEP) * STEP)


def cheapest_leading(rows32: Float32Rows, bounds: FloatVector) -> int:
    """Number of columns that makes the pass cheapest: few leave many pairs to be measured, many are long products."""
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


def approximate_neighbors(
    rows32: Float32Rows, leading: LeadingColumns, searches: Iterable[list[SearchGroup]], k: int, spare: int
) -> Found:
    """Lists of k others of each row, near it, with their squared distances in float32, ascending.

    Those that are nearest in the leading columns are measured in all: k, and some to spare.
    """
    n = len(rows32)
    indices = np.full((n, k), -1, np.int32)
    distances = np.full((n, k), np.inf, np.float32)
    n_steps = -(-leading.n_leading // STEP)

    def keep(group: SearchGroup) -> None:
        rows, others = group
        tile = leading.left[rows] @ leading.right[others].T
        update_topk(tile, rows, others, k + spare, n_steps, rows32.steps, leading.rest, indices, distances)

    for groups in searches:
        for _ in ordered_map(keep, groups):
            pass
    return indices, distances


def tree_groups(tree_rows: FloatMatrix, first: list[IntVector], leaf_rows: int) -> Iterator[list[SearchGroup]]:
    """Groups of leaves of k-d trees; rows are in the order of the leaves of the first one, which are known."""
    ends = np.cumsum([len(leaf) for leaf in first])
    whole = [np.arange(end - len(leaf), end, dtype=np.int32) for leaf, end in zip(first, ends, strict=True)]
    yield [(leaf, leaf) for leaf in whole]
    rng = np.random.default_rng(0)  # the guess affects speed alone, so its seed is nobody's business
    for _ in range(N_TREES - 1):
        yield [(leaf, leaf) for leaf in kd_leaves(tree_rows @ _rotation(rng, tree_rows.shape[1]), leaf_rows)]


def cell_groups(cells: InvertedFile, k: int) -> list[SearchGroup]:
    """Groups of each cell and those around it."""
    return [
        (np.arange(rows.start, rows.stop, dtype=np.int32), cells.around(block, max(GUESS_ROWS, 4 * k)))
        for block, rows in enumerate(cells.slices())
    ]


def _rotation(rng: np.random.Generator, size: int) -> FloatMatrix:
    return np.asarray(np.linalg.qr(rng.standard_normal((size, size)))[0], np.float32)


class CandidatePairs(NamedTuple):
    """Pairs of rows and their squared distances."""

    row: IntVector
    column: IntVector
    value: FloatVector


class BoundedSearch(NamedTuple):
    """Rows, their leading columns, and a bound on the squared distance of each row's neighbours."""

    rows32: Float32Rows
    leading: LeadingColumns
    bounds: FloatVector


def pairs_within_bounds(search: BoundedSearch, most: int) -> CandidatePairs | None:
    """All pairs within the bound of their first row; None where there are more than `most`."""
    blocks = row_blocks(len(search.rows32), TILE_ROWS)

    def tiles(block: int) -> Iterator[CandidatePairs]:
        return _swept(search, np.arange(blocks[block].stop, dtype=np.int32), blocks[block])

    return _gathered(tiles, len(blocks), most)


def probed_pairs(search: BoundedSearch, cells: InvertedFile, probes: Probes, most: int) -> CandidatePairs | None:
    """Pairs within the bound of their first row, one of which probes the cell of the other."""
    slices, labels = cells.slices(), cells.labels()

    def tiles(cell: int) -> Iterator[CandidatePairs]:
        return _swept(search, probes.probing(cell), slices[cell], labels, probes.cells)

    return _gathered(tiles, len(slices), most)


def query_pairs(search: BoundedSearch, queries: IntVector, most: int) -> CandidatePairs | None:
    """Pairs of queries, ascending and numbered among themselves, and any other row within their bound."""
    n = len(search.rows32)
    bounds = np.full(n, -np.inf, np.float32)
    bounds[queries] = search.bounds[queries]
    blocks = row_blocks(n, TILE_ROWS)
    rows, labels, no_probes = queries.astype(np.int32), np.zeros(n, np.int32), np.full((n, 1), -1, np.int32)

    def tiles(block: int) -> Iterator[CandidatePairs]:
        return _swept(search._replace(bounds=bounds), rows, blocks[block], labels, no_probes)

    found = _gathered(tiles, len(blocks), most)
    if found is None:
        return None
    # Two queries that are near each other have found each other twice.
    keys, first = np.unique(found.row.astype(np.int64) * n + found.column, return_index=True)
    first = first[keys // n != keys % n]
    row, column, value = (part[first] for part in found)
    return CandidatePairs(np.searchsorted(queries, row).astype(np.int32), column, value)


def _swept(
    search: BoundedSearch,
    rows: IntVector,
    places: slice,
    labels: IntVector | None = None,
    probes: IntMatrix | None = None,
) -> Iterator[CandidatePairs]:
    """Pairs of some rows and those at some places, each within the bound of its first row, tile by tile."""
    rows32, leading, bounds = search
    n, n_steps = len(rows32), -(-leading.n_leading // STEP)
    labels = np.zeros(n, np.int32) if labels is None else labels
    probes = np.empty((n, 0), np.int32) if probes is None else probes
    arrays = SearchRows(leading.left, rows32.steps, n_steps, leading.rest, bounds, labels, probes)
    # A tile may hold each of its pairs twice, once for either direction.
    most = 2 * TILE_ROWS * TILE_ROWS
    found = PairBuffer(np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.float32))
    for first in range(places.start, places.stop, TILE_ROWS):
        n_columns = min(TILE_ROWS, places.stop - first)
        right = _packed(leading.right[first : first + n_columns])
        for part in row_blocks(len(rows), TILE_ROWS):
            n_found = sweep_pairs(arrays, rows[part], right, first, n_columns, found)
            yield CandidatePairs(*(array[:n_found].copy() for array in found))


def _packed(rows: FloatMatrix) -> FloatMatrix:
    """Rows as columns of panels, a word of them each; those missing from the last panel are zero."""
    n, width = rows.shape
    filled = np.zeros((-(-n // WORD), WORD, width), np.float32)
    filled.reshape(-1, width)[:n] = rows
    return np.ascontiguousarray(filled.transpose(0, 2, 1))


def _gathered(tiles: Callable[[int], Iterator[CandidatePairs]], n_items: int, most: int) -> CandidatePairs | None:
    """Pairs of all items, an item a thread; None where there are more than `most`."""
    found: list[CandidatePairs] = []
    n_found = 0
    for part in ordered_map(lambda item: joined(tiles(item)), range(n_items)):
        found.append(part)
        n_found += len(part.row)
        if n_found > most:
            return None
    return joined(found)


def joined(parts: Iterable[CandidatePairs]) -> CandidatePairs:
    """Pairs of several parts, one part after the other."""
    row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    return CandidatePairs(row, column, value)


def block_pairs(X: FloatMatrix, bounds: FloatVector, n_own: int) -> CandidatePairs | None:
    """Pairs between the first `n_own` rows and the others, both directions, within the bound of their first row.

    Bounds and distances are squared, in float64 from differences. None where compiled loops do not take these rows: in
    float64, with squares that neither vanish nor overflow, every row bounded. A task of a cluster asks for this.
    """
    if X.dtype != np.float64 or not np.isfinite(bounds).all():
        return None
    scaling = normalization(X)
    if not SMALLEST < scaling.peak < LARGEST:
        return None
    rows32 = Float32Rows(X, scaling)
    limits = (bounds / scaling.peak**2).astype(np.float32) + np.float32(2.0 * rows32.error)
    leading = LeadingColumns(rows32, cheapest_leading(rows32, limits))
    found = joined(
        _swept(BoundedSearch(rows32, leading, limits), np.arange(n_own, dtype=np.int32), slice(n_own, len(X)))
    )
    squares = np.empty(len(found.row))
    n_kept = measure_pairs(X, bounds, found.row, found.column, squares)
    return CandidatePairs(found.row[:n_kept], found.column[:n_kept], squares[:n_kept])


def nearest_others(X: FloatMatrix, k: int, recall: float) -> Found | None:
    """Indices and distances of the k nearest others of each row, nearest first; None where float32 is too coarse.

    At least a share `recall` of them are true ones, as far as some rows tell; 1.0 means all, proven.
    """
    scaling = normalization(X)
    if not SMALLEST < scaling.peak < LARGEST:
        return None
    tree_rows = tree_columns(X, scaling)
    approximate = len(X) >= APPROXIMATE_ROWS and recall < 1.0
    leaf_rows = max(LEAF_ROWS, 4 * k)
    parts = kd_leaves(tree_rows, CELL_ROWS if approximate else leaf_rows)
    cells = inverted_file(tree_rows, parts) if approximate else None
    order = np.concatenate(parts).astype(np.intp) if cells is None else cells.order
    rows32 = Float32Rows(X, scaling, order)
    if not rows32.squares.any():  # rows are all equal, or their squares vanish
        return None
    leading = LeadingColumns(rows32, guess_columns(rows32))
    searches = tree_groups(rows32.tree_rows, parts, leaf_rows) if cells is None else [cell_groups(cells, k)]
    # What one tree leaves out another one may find.
    known = approximate_neighbors(rows32, leading, searches, k, 2 if cells is None else k // 2 + 2)
    search = _search(rows32, leading, known)
    found = None if cells is None else _among_probed(X, search, cells, known, k, recall)
    return _among_all(X, search, order, k) if found is None else found


def _search(rows32: Float32Rows, leading: LeadingColumns, known: Found) -> BoundedSearch:
    bounds = known[1][:, -1] + np.float32(2.0 * rows32.error)
    n_leading = cheapest_leading(rows32, bounds)
    leading = leading if n_leading == leading.n_leading else LeadingColumns(rows32, n_leading)
    return BoundedSearch(rows32, leading, bounds)


def _among_all(X: FloatMatrix, search: BoundedSearch, order: IntVector, k: int) -> Found | None:
    pairs = pairs_within_bounds(search, MAX_CANDIDATES * k * len(order))
    return None if pairs is None else _in_order(_ranked(X, pairs, order, order, k, search), order)


def _among_probed(
    X: FloatMatrix, search: BoundedSearch, cells: InvertedFile, known: Found, k: int, recall: float
) -> Found | None:
    """Neighbours in probed cells; None where this does not find enough, or is no cheaper than all pairs."""
    n, order = len(cells.order), cells.order
    tree_rows = search.rows32.tree_rows
    queries = np.linspace(0, n - 1, min(n, CHOOSING_ROWS + RECALL_ROWS)).astype(np.intp)
    # Two of three choose. Half of what may be missed is left to chance.
    measured_rows = queries[1::3]
    choosing_rows = np.setdiff1d(queries, measured_rows)
    true = _true(X, search, choosing_rows, order, k)
    if true is None:
        return None
    places = np.empty(n, np.intp)
    places[order] = np.arange(n)
    n_probes, probed_share = choose_n_probes(tree_rows, cells, choosing_rows, places[true[0]], (1.0 + recall) / 2.0)
    if probed_share > MOST_PROBED:
        return None
    pairs = probed_pairs(search, cells, probe_cells(tree_rows, cells, n_probes), MAX_CANDIDATES * k * n)
    true = _true(X, search, measured_rows, order, k)
    if pairs is None or true is None:
        return None
    found = _in_order(_ranked(X, _with_known(pairs, *known), order, order, k, search), order)
    reached = found[1][order[measured_rows]] <= true[1][:, -1:]
    return found if reached.mean() >= recall else None


def _true(X: FloatMatrix, search: BoundedSearch, queries: IntVector, order: IntVector, k: int) -> Found | None:
    """Nearest others of some places, among all."""
    # Some rows may have far more candidates than rows have on average.
    pairs = query_pairs(search, queries, 8 * MAX_CANDIDATES * k * len(queries))
    return None if pairs is None else _ranked(X, pairs, order[queries], order, k, search)


def _with_known(pairs: CandidatePairs, indices: IntMatrix, distances: FloatMatrix) -> CandidatePairs:
    """Add approximate neighbours for rows with fewer candidates than neighbours: they may lie in cells not probed."""
    n, k = indices.shape
    short = np.flatnonzero(np.bincount(pairs.row, minlength=n) < k)
    if len(short) == 0:
        return pairs
    is_short = np.zeros(n, bool)
    is_short[short] = True
    known = is_short[pairs.row]
    keys = pairs.row[known].astype(np.int64) * n + pairs.column[known]
    row, column = np.repeat(short, k), indices[short].ravel()
    new = ~np.isin(row * n + column, keys)
    return joined([pairs, CandidatePairs(row[new].astype(np.int32), column[new], distances[short].ravel()[new])])


def _ranked(
    X: FloatMatrix, pairs: CandidatePairs, rows: IntVector, order: IntVector, k: int, search: BoundedSearch
) -> Found:
    """The k nearest of the candidates by distances in float64, the lower index first on a tie.

    `rows` are the rows of X that the first of each pair stand for, `order` those of the second.
    """
    n = len(rows)
    starts = np.zeros(n + 1, np.intp)
    columns, values = np.empty_like(pairs.column), np.empty_like(pairs.value)
    group_by_row(*pairs, starts, columns, values)
    indices = np.full((n, k), len(X), np.intp)
    distances = np.full((n, k), np.inf)
    error = search.rows32.error

    def rank(part: slice) -> None:
        given = (rows, order, starts, columns, values, error)
        rank_candidates(X, part.start, part.stop, *given, indices, distances)

    for _ in ordered_map(rank, row_blocks(n, 1024)):
        pass
    return indices, distances


def _in_order(found: Found, order: IntVector) -> Found:
    """Lists by the rows of X, where `order` tells the row at each place."""
    indices, distances = np.empty_like(found[0]), np.empty_like(found[1])
    indices[order], distances[order] = found
    return indices, distances
