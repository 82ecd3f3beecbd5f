"""Rows sent between blocks: to places told by their numbers, and to where equal ones meet."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import issparse

from adaam._typing import Column, FloatVector, IntVector
from adaam.engines.cluster.rows import ClusterColumn, ClusterRows, at_block, on_blocks
from adaam.engines.cluster.tasks import exchanged, stacked, starts
from adaam.engines.cluster.workers import Future, Workers
from adaam.engines.equal_rows import quick_hashes, row_bytes
from adaam.engines.equal_rows import repeated as repeated_positions

PLACE_ROWS = 1 << 21  # digests that meet in one place
DIGEST = np.dtype([("high", np.uint64), ("low", np.uint64)])
Marks = tuple[Any, IntVector, FloatVector]  # digests, rows and weights
Merge = tuple[IntVector, FloatVector]  # rows and the weights they are to have


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups of rows, each with its weights, in the order of their places."""

    parts: tuple[Future, ...]
    workers: Workers

    def sums(self, work: Callable[..., Any], own: list[Any], *given: Any) -> Iterator[Any]:
        """What `work` makes of each group with its own argument, in order and here; it is small."""
        submissions = (
            partial(self.workers.call, "row-blocks", work, part, mine, *given)
            for part, mine in zip(self.parts, own, strict=True)
        )
        for future in self.workers.in_turn("row blocks", submissions, len(self.parts)):
            yield self.workers.fetch([future])[0]


def dealt(X: ClusterRows, weights: Column, places: Callable[[IntVector], IntVector], edges: tuple[int, ...]) -> Groups:
    """Send every row of positive weight to its place; those at or past the last edge take no part."""
    workers = X.workers
    held = on_blocks(weights, X.sizes, workers)
    pieces = [
        workers.call("deal", split_by_place, part, at_block(held, i), start, places, edges)
        for i, (part, start) in enumerate(zip(X.parts, _place_starts(held, X.sizes, workers), strict=True))
    ]
    parts = exchanged(workers, "deal-blocks", pieces, len(edges) - 1, X.nbytes, laid_out)
    return Groups(tuple(parts), workers)


def weights_below(
    X: ClusterRows, weights: Column, places: Callable[[IntVector], IntVector], n_used: int
) -> ClusterColumn:
    """Weights of the rows that are sent to places below `n_used`, zeros for the others."""
    workers = X.workers
    held = on_blocks(weights, X.sizes, workers)
    parts = [
        workers.call("deal-weights", taken_weights, at_block(held, i), size, start, places, n_used)
        for i, (size, start) in enumerate(zip(X.sizes, _place_starts(held, X.sizes, workers), strict=True))
    ]
    return X.column(parts, np.float64)


def taken_weights(weights: Any, n_rows: int, start: int, places: Any, n_used: int) -> FloatVector:
    """Weights of a block's rows, zeros for those that take no part."""
    held = np.broadcast_to(weights, n_rows)
    present = np.flatnonzero(held)
    taken = present[places(np.arange(start, start + len(present))) < n_used]
    kept = np.zeros(n_rows)
    kept[taken] = held[taken]
    return kept


def _place_starts(held: Column, sizes: tuple[int, ...], workers: Workers) -> list[int]:
    """Number of the first row of each block among those of positive weight."""
    if isinstance(held, ClusterColumn):
        sizes = tuple(workers.fetch([workers.call("deal-count", np.count_nonzero, part) for part in held.parts]))
    return list(starts(sizes))


def split_by_place(X: Any, weights: Any, start: int, places: Any, edges: tuple[int, ...]) -> list[Any]:
    """Rows of a block by the group of their place, with places and weights."""
    present = np.arange(X.shape[0]) if isinstance(weights, float) else np.flatnonzero(weights)
    place = places(np.arange(start, start + len(present)))
    order = np.argsort(place)
    cuts = np.searchsorted(place[order], edges)
    taken = [order[low:high] for low, high in pairwise(cuts)]
    return [
        (place[some], X[present[some]], weights if isinstance(weights, float) else weights[present[some]])
        for some in taken
    ]


def laid_out(pieces: list[Any]) -> tuple[Any, Any]:
    """Rows of a group in the order of their places, with their weights."""
    place, rows, weights = (list(part) for part in zip(*pieces, strict=True))
    order = np.argsort(np.concatenate(place))
    held = weights[0] if isinstance(weights[0], float) else np.concatenate(weights)[order]
    return stacked(rows)[order], held


def distinct(X: ClusterRows, weights: Column) -> tuple[ClusterRows, Column]:
    """Distinct rows of positive weight, in order of first appearance, and the total weight of each."""
    workers, n_blocks = X.workers, len(X.sizes)
    held = on_blocks(weights, X.sizes, workers)
    n_places = -(-len(X) // PLACE_ROWS)
    if isinstance(held, float) and held == 1.0 and _all_differ(X, n_places):
        return X, 1.0
    edges = (*starts(X.sizes), len(X))
    marks = [
        workers.call("equal-rows", marked, part, edges[i], at_block(held, i), n_places)
        for i, part in enumerate(X.parts)
    ]
    merges = exchanged(workers, "equal-rows", marks, n_places, 40.0 * len(X), repeated, lambda _: [edges])
    changes = exchanged(workers, "equal-rows-back", merges, n_blocks, 16.0 * len(X), joined)
    told = [
        workers.call("equal-rows-count", counted, change, size, at_block(held, i))
        for i, (change, size) in enumerate(zip(changes, X.sizes, strict=True))
    ]
    counts = workers.fetch(told)
    sizes = tuple(kept for kept, _ in counts)
    all_one = all(one for _, one in counts)
    if sizes == X.sizes and all_one:
        return X, 1.0
    present = [i for i, kept in enumerate(sizes) if kept]
    totals = [workers.call("equal-rows-weights", totalled, changes[i], X.sizes[i], at_block(held, i)) for i in present]
    kept = tuple(sizes[i] for i in present)
    rows = tuple(
        X.parts[i]
        if sizes[i] == X.sizes[i]
        else workers.call("distinct-rows", kept_rows, X.parts[i], changes[i], at_block(held, i))
        for i in present
    )
    merged = ClusterRows(rows, kept, X.n_columns, X.dtype, workers)
    return merged, 1.0 if all_one else ClusterColumn(tuple(totals), kept, workers)


def _all_differ(X: ClusterRows, n_places: int) -> bool:
    """Whether quick hashes tell all rows apart, which spares the sure ones."""
    hashes = [X.workers.call("equal-rows", quick_marks, part, n_places) for part in X.parts]
    told = exchanged(X.workers, "equal-rows", hashes, n_places, 8.0 * len(X), any_repeated)
    return not any(X.workers.fetch(told))


def quick_marks(block: Any, n_places: int) -> list[IntVector]:
    """Quick hashes of the rows of a block, by the place they go to; rows in sparse form have all the same."""
    hashes = np.zeros(block.shape[0], np.uint64) if issparse(block) else quick_hashes(block)
    place = hashes % np.uint64(n_places)
    return [hashes[place == i] for i in range(n_places)]


def any_repeated(pieces: list[IntVector]) -> bool:
    """Whether a hash occurs twice."""
    return len(repeated_positions(np.concatenate(pieces))) > 0


def marked(block: Any, start: int, weights: Any, n_places: int) -> list[Marks]:
    """Digests of the rows of a block, by the place they go to."""
    digests = np.frombuffer(b"".join(blake2b(row, digest_size=16).digest() for row in row_bytes(block)), DIGEST)
    number = np.arange(start, start + len(digests))
    held = np.broadcast_to(np.asarray(weights, dtype=np.float64), digests.shape)
    place = digests["low"] % np.uint64(n_places)
    return [(digests[place == i], number[place == i], held[place == i]) for i in range(n_places)]


def repeated(pieces: list[Marks], edges: tuple[int, ...]) -> list[Merge]:
    """Rows whose weight changes, for each block: the first of equal rows gets all their weight, the others none."""
    digests, number, held = (np.concatenate(part) for part in zip(*pieces, strict=True))
    order = np.lexsort((number, digests["low"], digests["high"]))
    ordered = digests[order]
    again = np.concatenate([[False], ordered[1:] == ordered[:-1]])
    group = np.cumsum(~again) - 1
    totals = np.bincount(group, held[order])
    repeats = np.bincount(group)[group] > 1
    rows = number[order][repeats]
    weights = np.where(again, 0.0, totals[group])[repeats]
    by_row = np.argsort(rows)
    rows, weights = rows[by_row], weights[by_row]
    cuts = np.searchsorted(rows, edges)
    return [(rows[a:b] - first, weights[a:b]) for a, b, first in zip(cuts[:-1], cuts[1:], edges[:-1], strict=True)]


def joined(pieces: list[Merge]) -> Merge:
    """Changes from all places."""
    rows, weights = (np.concatenate(part) for part in zip(*pieces, strict=True))
    return rows, weights


def counted(change: Merge, n_rows: int, weights: Any) -> tuple[int, bool]:
    """Rows that stay, and whether each weighs 1."""
    totals = _totals(change, n_rows, weights)
    kept = totals[totals > 0]
    return len(kept), bool((kept == 1.0).all())


def totalled(change: Merge, n_rows: int, weights: Any) -> FloatVector:
    """Weights of the rows that stay."""
    totals = _totals(change, n_rows, weights)
    return totals[totals > 0]


def kept_rows(block: Any, change: Merge, weights: Any) -> Any:
    """Rows that stay."""
    return block[np.flatnonzero(_totals(change, block.shape[0], weights) > 0)]


def _totals(change: Merge, n_rows: int, weights: Any) -> FloatVector:
    totals = np.array(np.broadcast_to(np.asarray(weights, dtype=np.float64), (n_rows,)))
    totals[change[0]] = change[1]
    return totals
