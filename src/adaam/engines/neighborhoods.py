"""Neighbourhoods on the host: who is a neighbour of whom, and by which share where rows tie at the last place."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines.neighbor_graph import NeighborGraph

# Rows of weight below one fill a neighbourhood slowly; past this many times k neighbours it stays unfilled.
MAX_WIDENING = 16

# Gives so many nearest others, with their distances, of all rows or of chosen ones.
Search: TypeAlias = Callable[[int, IntVector | None], tuple[IntMatrix, FloatMatrix]]


def neighborhoods(search: Search, weights: FloatVector, k: int, tolerance: float) -> NeighborGraph:
    """Find the k nearest others of each row; a row of weight w counts as w coincident rows.

    Rows whose distances differ by no more than `tolerance` are equally far away: they share the places left for them.
    """
    n = len(weights)
    own = np.clip(weights - 1.0, 0.0, k)
    # Two more than k: a pair tied at the last place, the everyday tie, is then seen whole.
    found = _found(search, n, min(k + 2, widest(n, k)))
    settled = _settled(weights, found, k, tolerance)
    if settled.all():
        indices, distances = (part[:, :k].ravel() for part in found)
        return NeighborGraph(np.arange(n + 1) * k, indices, distances, np.ones(n * k), own, measured=True)

    indices, distances = (part[settled, :k].ravel() for part in found)
    shared = _shared_places(search, found, weights, np.flatnonzero(~settled), k, tolerance)
    counts = np.where(settled, k, 0) + np.bincount(shared.rows, minlength=n)
    starts = np.concatenate([[0], np.cumsum(counts)])
    plain = np.repeat(settled, counts)
    order = np.argsort(shared.rows, kind="stable")

    def merged(settled_part: FloatVector, shared_part: FloatVector) -> FloatVector:
        out = np.empty(len(plain), shared_part.dtype)
        out[plain], out[~plain] = settled_part, shared_part[order]
        return out

    return NeighborGraph(
        starts,
        merged(indices, shared.indices),
        merged(distances, shared.distances),
        merged(np.ones(len(indices)), shared.shares),
        own,
        measured=True,
    )


def widest(n: int, k: int) -> int:
    """Neighbours that a search may ask for."""
    return min(n - 1, MAX_WIDENING * k)


def tie_tolerance(rms_length: float, dtype: Any) -> float:
    """Differences of distances that are rounding: of each coordinate, and of the sums made from them in float64."""
    return float((2 * np.finfo(dtype).eps + 64 * np.finfo(np.float64).eps) * rms_length)


class _Entries(NamedTuple):
    """Some entries of a graph."""

    rows: IntVector
    indices: IntVector
    distances: FloatVector
    shares: FloatVector


def _settled(weights: FloatVector, found: tuple[Any, Any], k: int, tolerance: float) -> Any:
    """Rows that simply have k neighbours: no copies among them, and a gap behind the k-th."""
    indices, distances = found
    if indices.shape[1] <= k:  # there may be no row more than k to be tied with
        return np.zeros(len(weights), dtype=bool)
    settled = distances[:, k] - distances[:, k - 1] > tolerance
    if (weights != 1.0).any():
        settled &= (weights == 1.0) & (weights[indices[:, :k]] == 1.0).all(axis=1)
    return settled


def _shared_places(
    search: Search, found: tuple[Any, Any], weights: FloatVector, rows: IntVector, k: int, tolerance: float
) -> _Entries:
    """Neighbours of rows with ties or copies among them, looked for in widening searches until ties are seen whole."""
    parts: list[_Entries] = []
    indices, distances = (part[rows] for part in found)
    limit = widest(len(weights), k)
    while True:
        width = indices.shape[1]
        places = (k - np.clip(weights[rows] - 1.0, 0.0, k))[:, None]
        before, total = tied_weights(weights[indices], distances, tolerance)
        # The last group is seen whole only if there are no more rows; it must then not be needed.
        whole = (before[:, -1:] >= places).all(axis=1) | (width >= limit)
        shares = np.clip((places - before) / total, 0.0, 1.0)
        taken = (shares > 0) & whole[:, None]
        parts.append(_Entries(np.repeat(rows, taken.sum(axis=1)), indices[taken], distances[taken], shares[taken]))
        rows = rows[~whole]
        if len(rows) == 0:
            return _Entries(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        indices, distances = search(min(2 * width, limit), rows)


def tied_weights(held: FloatMatrix, distances: FloatMatrix, tolerance: float) -> tuple[FloatMatrix, FloatMatrix]:
    """Weight nearer than each neighbour's group of ties, and weight of that group."""
    n, width = held.shape
    if width == 0:
        return held, held
    apart = np.diff(distances, axis=1) > tolerance
    place = np.arange(width)
    edge = np.ones((n, 1), dtype=bool)
    first = np.maximum.accumulate(np.where(np.hstack([edge, apart]), place, 0), axis=1)
    last = np.minimum.accumulate(np.where(np.hstack([apart, edge]), place, width)[:, ::-1], axis=1)[:, ::-1]
    reached = np.cumsum(held, axis=1)
    before = np.take_along_axis(reached - held, first, axis=1)
    return before, np.take_along_axis(reached, last, axis=1) - before


def _found(search: Search, n: int, width: int) -> tuple[IntMatrix, FloatMatrix]:
    return (np.empty((n, 0), np.intp), np.empty((n, 0))) if width == 0 else search(width, None)
