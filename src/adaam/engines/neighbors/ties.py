"""Neighbourhoods from a search for nearest rows: rows tied at the k-th place share it.

A row of weight w counts as w coincident rows. The same code runs on NumPy arrays and on tensors.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from adaam._typing import Column, FloatVector
from adaam.engines.columns import at, namespace, spread
from adaam.engines.neighbors.graph import NeighborGraph

# Rows of weight below one fill a neighbourhood slowly; past this many times k neighbours it stays unfilled.
MAX_WIDENING = 16

# Indices and distances of so many nearest others of all rows, or of chosen ones: NumPy arrays or tensors, (n, width).
Search: TypeAlias = Callable[[int, Any], tuple[Any, Any]]


class Neighborhoods(NamedTuple):
    """Neighbours of each row in compressed rows, as a graph has them, where the engine works."""

    starts: Any  # (n + 1,)
    indices: Any
    distances: Any
    shares: Column  # one for each entry; 1.0 where all are whole
    copies: Column  # of each row among its own neighbours


class SharedPlaces(NamedTuple):
    """Entries of rows with ties or copies among their neighbours, in the order of rows, nearest first."""

    rows: Any
    indices: Any
    distances: Any
    shares: Any


def widest(n: int, k: int) -> int:
    """Neighbours that a search may ask for."""
    return min(n - 1, MAX_WIDENING * k)


def tie_tolerance(rms_length: float, dtype: Any) -> float:
    """Differences of distances that are rounding: of each coordinate, and of the sums made from them in float64."""
    return float((2 * np.finfo(dtype).eps + 64 * np.finfo(np.float64).eps) * rms_length)


def own_copies(weights: Column, k: int) -> Column:
    """Copies of each row that are among its k nearest."""
    if isinstance(weights, float):
        return min(max(weights - 1.0, 0.0), float(k))
    return namespace(weights).clip(weights - 1.0, 0.0, k)


def neighborhoods(search: Search, weights: Column, n: int, k: int, tolerance: Any) -> Neighborhoods:
    """Find the k nearest others of each of n rows; those whose distances differ by no more than `tolerance` tie."""
    copies = own_copies(weights, k)
    # Two more than k: a pair tied at the last place, the everyday tie, is then seen whole.
    indices, distances = search(min(k + 2, widest(n, k)), None)
    xp, device = namespace(indices), indices.device
    settled = _settled(weights, indices, distances, k, tolerance)
    if bool(settled.all()):
        starts = xp.arange(n + 1, device=device) * k
        return Neighborhoods(starts, indices[:, :k].reshape(-1), distances[:, :k].reshape(-1), 1.0, copies)
    chosen, open_rows = xp.nonzero(settled), xp.nonzero(~settled)
    chosen, open_rows = (part[0] if isinstance(part, tuple) else part[:, 0] for part in (chosen, open_rows))
    found = indices[open_rows], distances[open_rows]
    shared = _shared_places(search, found, weights, open_rows, n, k, tolerance)
    counts = settled * k + xp.bincount(shared.rows, minlength=n)
    starts = xp.concatenate([xp.zeros(1, dtype=counts.dtype, device=device), xp.cumsum(counts, axis=0)])
    plain = (starts[chosen, None] + xp.arange(k, device=device)).reshape(-1)
    within = xp.arange(len(shared.rows), device=device) - xp.searchsorted(shared.rows, shared.rows)
    tied = starts[shared.rows] + within

    def merged(settled_part: Any, shared_part: Any) -> Any:
        out = xp.empty(len(plain) + len(tied), dtype=shared_part.dtype, device=device)
        out[plain], out[tied] = settled_part, shared_part
        return out

    return Neighborhoods(
        starts,
        merged(indices[chosen, :k].reshape(-1), shared.indices),
        merged(distances[chosen, :k].reshape(-1), shared.distances),
        merged(1.0, shared.shares),
        copies,
    )


def measured_graph(search: Search, norms: FloatVector, weights: Column, k: int, dtype: Any) -> NeighborGraph:
    """Graph of the k nearest others of each row on the host, from a search there and the lengths of the rows."""
    n = len(norms)
    tolerance = tie_tolerance(float(np.sqrt(np.square(norms).mean())), dtype)
    found = neighborhoods(search, spread(weights, n), n, k, tolerance)
    shares = spread(found.shares, len(found.indices))
    return NeighborGraph(found.starts, found.indices, found.distances, shares, found.copies, measured=True)


def _settled(weights: Column, indices: Any, distances: Any, k: int, tolerance: Any) -> Any:
    """Rows that simply have k neighbours: no copies among them, and a gap behind the k-th."""
    n, width = indices.shape
    if width <= k or (isinstance(weights, float) and weights != 1.0):  # there may be no row more than k to tie with
        return namespace(indices).zeros(n, dtype=bool, device=indices.device)
    settled = distances[:, k] - distances[:, k - 1] > tolerance
    if isinstance(weights, float):
        return settled
    single = weights == 1.0
    return settled if bool(single.all()) else settled & single & single[indices[:, :k]].all(axis=1)


def _shared_places(
    search: Search, found: tuple[Any, Any], weights: Column, rows: Any, n: int, k: int, tolerance: Any
) -> SharedPlaces:
    """Neighbours of rows with ties or copies among them, looked for in widening searches until ties are seen whole."""
    parts: list[SharedPlaces] = []
    indices, distances = found
    xp = namespace(indices)
    limit = widest(n, k)
    while True:
        width = indices.shape[1]
        held = xp.ones_like(distances) * at(weights, indices)
        places = xp.ones_like(distances[:, :1]) * (k - _as_matrix(own_copies(weights, k), rows))
        shares, whole = tied_shares(held, distances, places, tolerance, width >= limit)
        taken = (shares > 0) & whole[:, None]
        owners = xp.broadcast_to(rows[:, None], taken.shape)
        parts.append(SharedPlaces(owners[taken], indices[taken], distances[taken], shares[taken]))
        rows = rows[~whole]
        if len(rows) == 0:
            break
        indices, distances = search(min(2 * width, limit), rows)
    if len(parts) == 1:
        return parts[0]
    together = SharedPlaces(*(xp.concatenate(part) for part in zip(*parts, strict=True)))
    order = xp.argsort(together.rows, stable=True)
    return SharedPlaces(*(part[order] for part in together))


def _as_matrix(column: Column, rows: Any) -> Any:
    """Numbers of some rows, one below the other."""
    return column if isinstance(column, float) else column[rows, None]


def tied_shares(held: Any, distances: Any, places: Any, tolerance: Any, last: bool) -> tuple[Any, Any]:
    """Share by which each neighbour is taken, and of which rows the ties are seen whole.

    Parameters
    ----------
    held : array of shape (n, width)
        Weights of the neighbours.
    distances : array of shape (n, width)
        Ascending; infinite where a row has fewer neighbours.
    places : array of shape (n, 1)
        Places to be filled.
    tolerance : float
        Differences of distances that are a tie.
    last : bool
        Whether there are no more neighbours, so that the last group of ties is seen whole.
    """
    xp, width = namespace(held), held.shape[1]
    if width == 0:
        return held, xp.ones(len(held), dtype=bool, device=held.device)
    reached = xp.cumsum(held, axis=1)
    # Weight nearer than a neighbour's group of ties, and up to its end: both are carried along the group.
    before, end = reached - held, xp.ones_like(reached) * reached
    for place in range(1, width):
        tied = ~(distances[:, place] - distances[:, place - 1] > tolerance)
        before[:, place] = xp.where(tied, before[:, place - 1], before[:, place])
    for place in range(width - 2, -1, -1):
        tied = ~(distances[:, place + 1] - distances[:, place] > tolerance)
        end[:, place] = xp.where(tied, end[:, place + 1], end[:, place])
    # The last group is seen whole only if there are no more rows; it must then not be needed.
    whole = (before[:, -1:] >= places).all(axis=1) | last
    known = xp.isfinite(distances) & (end > before)
    shares = (places - before) / xp.where(known, end - before, 1.0)
    return xp.clip(xp.where(known, shares, 0.0), 0.0, 1.0), whole
