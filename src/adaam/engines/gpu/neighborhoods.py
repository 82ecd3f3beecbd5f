"""Neighbourhoods on a device: the graph of nearest others, rows tied at the last place sharing it."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch

from adaam._typing import Column
from adaam.engines.columns import at
from adaam.engines.gpu.graph import DeviceGraph
from adaam.engines.neighbors.ties import widest

# Gives so many nearest others, with their distances, of all rows or of chosen ones.
Search: TypeAlias = Callable[[int, torch.Tensor | None], tuple[torch.Tensor, torch.Tensor]]


class _Entries(NamedTuple):
    """Some entries of a graph."""

    rows: torch.Tensor
    indices: torch.Tensor
    distances: torch.Tensor
    shares: torch.Tensor


def neighborhoods(search: Search, weights: Column, n: int, k: int, tolerance: torch.Tensor) -> DeviceGraph:
    """Find the k nearest others of each row; see `adaam.engines.neighborhoods`, whose steps these are."""
    device = tolerance.device
    copies = (
        (weights - 1.0).clamp(0.0, k) if isinstance(weights, torch.Tensor) else min(max(weights - 1.0, 0.0), k * 1.0)
    )
    indices, distances = _found(search, n, min(k + 2, widest(n, k)), device)
    settled = _settled(weights, indices, distances, k, tolerance)
    n_settled = int(settled.sum())
    if n_settled == n:
        starts = torch.arange(n + 1, device=device) * k
        near = indices[:, :k].reshape(-1), distances[:, :k].reshape(-1)
        return DeviceGraph(starts, *near, 1.0, copies, measured=True)

    open_rows = torch.nonzero(~settled)[:, 0]
    places = k - copies
    shared = _shared_places(
        search, (indices[open_rows], distances[open_rows]), weights, places, open_rows, n, k, tolerance
    )
    counts = settled * k + torch.bincount(shared.rows, minlength=n)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64, device=device), counts.cumsum(dim=0)])
    chosen = torch.nonzero(settled)[:, 0]
    plain = (starts[chosen, None] + torch.arange(k, device=device)).reshape(-1)
    # Entries of a row follow each other, nearest first, as they were found.
    within = torch.arange(len(shared.rows), device=device) - torch.searchsorted(shared.rows, shared.rows)
    tied = starts[shared.rows] + within

    def merged(settled_part: torch.Tensor, shared_part: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(plain) + len(tied), dtype=shared_part.dtype, device=device)
        out[plain], out[tied] = settled_part, shared_part
        return out

    return DeviceGraph(
        starts,
        merged(indices[chosen, :k].reshape(-1), shared.indices),
        merged(distances[chosen, :k].reshape(-1), shared.distances),
        merged(torch.ones(len(plain), dtype=torch.float64, device=device), shared.shares),
        copies,
        measured=True,
    )


def _settled(
    weights: Column, indices: torch.Tensor, distances: torch.Tensor, k: int, tolerance: torch.Tensor
) -> torch.Tensor:
    """Rows that simply have k neighbours: no copies among them, and a gap behind the k-th."""
    n, width = indices.shape
    if width <= k or (isinstance(weights, float) and weights != 1.0):  # there may be no row more than k to tie with
        return torch.zeros(n, dtype=torch.bool, device=indices.device)
    settled = distances[:, k] - distances[:, k - 1] > tolerance
    if isinstance(weights, float):
        return settled
    single = weights == 1.0
    return settled & single & single[indices[:, :k]].all(dim=1)


def _shared_places(
    search: Search,
    found: tuple[torch.Tensor, torch.Tensor],
    weights: Column,
    places: Column,
    rows: torch.Tensor,
    n: int,
    k: int,
    tolerance: torch.Tensor,
) -> _Entries:
    """Neighbours of rows with ties or copies among them, looked for in widening searches until ties are seen whole."""
    parts: list[_Entries] = []
    indices, distances = found
    limit = widest(n, k)
    while True:
        width = indices.shape[1]
        held = torch.ones_like(distances) * at(weights, indices)
        wanted = torch.ones_like(distances[:, :1]) * (places if isinstance(places, float) else places[rows, None])
        before, group = _tied_weights(held, distances, tolerance)
        # The last group is seen whole only if there are no more rows; it must then not be needed.
        whole = (before[:, -1:] >= wanted).all(dim=1) | (width >= limit)
        shares = ((wanted - before) / group).clamp_(0.0, 1.0)
        taken = (shares > 0) & whole[:, None]
        parts.append(_Entries(rows[:, None].expand_as(taken)[taken], indices[taken], distances[taken], shares[taken]))
        rows = rows[~whole]
        if len(rows) == 0:
            break
        indices, distances = search(min(2 * width, limit), rows)
    together = _Entries(*(torch.cat(part) for part in zip(*parts, strict=True)))
    ordered, order = together.rows.sort(stable=True)
    return _Entries(ordered, *(part[order] for part in together[1:]))


def _tied_weights(
    held: torch.Tensor, distances: torch.Tensor, tolerance: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight nearer than each neighbour's group of ties, and weight of that group."""
    n, width = held.shape
    if width == 0:
        return held, held
    apart = distances.diff(dim=1) > tolerance
    place = torch.arange(width, device=held.device)
    edge = torch.ones((n, 1), dtype=torch.bool, device=held.device)
    first = torch.where(torch.cat([edge, apart], dim=1), place, 0).cummax(dim=1).values
    last = torch.where(torch.cat([apart, edge], dim=1), place, width).flip(1).cummin(dim=1).values.flip(1)
    reached = held.cumsum(dim=1)
    before = (reached - held).gather(1, first)
    return before, reached.gather(1, last) - before


def _found(search: Search, n: int, width: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    if width > 0:
        return search(width, None)
    return torch.empty((n, 0), dtype=torch.int64, device=device), torch.empty(
        (n, 0), dtype=torch.float64, device=device
    )
