"""Rows sent to other places on the workers, by a rule that tells the place of each row from its number."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from adaam._typing import Column, FloatVector, IntVector
from adaam.engines.cluster.columns import ClusterColumn, at_block, on_blocks
from adaam.engines.cluster.layout import stacked, starts
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cluster.tasks import exchanged
from adaam.engines.cluster.workers import Future, Workers


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
