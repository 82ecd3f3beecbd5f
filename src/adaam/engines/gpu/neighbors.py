"""Nearest neighbours on a device, and their graph: the device counterpart of `NeighborGraph`.

Candidates are found by inner products, then ranked by distances computed from differences; the fused search also proves
its result. The graph stays on the device until `host` is called.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from adaam._typing import Column, FloatVector, IntVector
from adaam.engines.blocks import at, row_blocks, spread
from adaam.engines.compiled import uses_numba
from adaam.engines.gpu.arrays import DeviceHalf, Place, host
from adaam.engines.links import Links, links_of
from adaam.engines.neighbors.graph import FittedHeat, NeighborGraph

SPARE = 8  # candidates beyond k, so that rounding cannot hide a neighbour
FUSED_ROWS = 1 << 14  # for fewer rows, computing a bound for each does not pay off
FUSED_NEIGHBORS = 64  # largest k of the fused search
SAMPLED_SHARE = 16  # 1 / SAMPLED_SHARE of the rows are sampled to bound the distance of the k-th neighbour
CAPACITY = 512  # most candidates of a row within its bound; rows with more are searched again by tiles
STRIP_ROWS = 1 << 17  # rows whose candidates are collected by one launch
MAX_COLUMNS = 1 << 17  # columns of one tile of distances
ROUNDS = 4  # of joining pieces between two checks for convergence, each of which synchronises with the device


def neighbors(
    place: Place, X: torch.Tensor, k: int, rows: torch.Tensor | None = None, *, fused: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices and distances of the k nearest neighbours of all or of chosen rows, lower index first on a tie."""
    if rows is None and fused and len(X) >= FUSED_ROWS and 0 < k <= FUSED_NEIGHBORS and X.dtype == torch.float32:
        indices, distances, proven = _fused(place, X, k)
        rows = torch.nonzero(~proven)[:, 0]
        if len(rows):
            indices[rows], distances[rows] = _tiled(place, X, rows, X, k, others=True)
        return indices, distances
    rows = torch.arange(len(X), device=X.device) if rows is None else rows
    return _tiled(place, X, rows, X, k, others=True)


def nearest_known(place: Place, Z: torch.Tensor, known: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices and distances of the k nearest known points of each row, lower index first on a tie."""
    return _tiled(place, Z, torch.arange(len(Z), device=Z.device), known, k, others=False)


def _tiled(
    place: Place, Z: torch.Tensor, rows: torch.Tensor, known: torch.Tensor, k: int, *, others: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Nearest known points of chosen rows, by tiles of distances; with `others`, no row is its own neighbour."""
    n = len(known)
    width = min(k + SPARE, n - others)
    squares = known.square().sum(dim=1)
    columns = min(n, MAX_COLUMNS)
    height = max(16, place.tile_bytes // (2 * Z.element_size() * columns))
    found = []
    for part in row_blocks(len(rows), height):
        chosen, spans = rows[part], []
        for span in row_blocks(n, columns):
            near = torch.addmm(squares[span], Z[chosen], known[span].T, alpha=-2.0)
            if others:
                inside = (chosen >= span.start) & (chosen < span.stop)
                near[torch.nonzero(inside)[:, 0], chosen[inside] - span.start] = torch.inf
            nearest, at = torch.topk(near, min(width, near.shape[1]), dim=1, largest=False)
            spans.append((nearest, at + span.start))
        best, ids = (torch.cat(each, dim=1) for each in zip(*spans, strict=True))
        if ids.shape[1] > width:
            ids = ids.gather(1, torch.topk(best, width, dim=1, largest=False).indices)
        found.append(_measured(place, Z, chosen, known, ids, k))
    return torch.cat([ids for ids, _ in found]), torch.cat([distances for _, distances in found])


def _measured(
    place: Place, Z: torch.Tensor, rows: torch.Tensor, known: torch.Tensor, candidates: torch.Tensor, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k nearest candidates, by distances computed from differences: coincident rows are at distance 0."""
    candidates = candidates.sort(dim=1).values
    distances = torch.empty(candidates.shape, dtype=torch.float64, device=Z.device)
    height = max(1, place.tile_bytes // (20 * max(1, Z.shape[1] * candidates.shape[1])))
    for part in row_blocks(len(rows), height):
        # Differences of float32 rows are exact in float64, so that equal distances come out equal.
        difference = known[candidates[part]].to(torch.float64) - Z[rows[part], None]
        distances[part] = torch.linalg.vector_norm(difference, dim=2)
    distances, order = distances.sort(dim=1, stable=True)
    return candidates.gather(1, order)[:, :k].contiguous(), distances[:, :k].contiguous()


def _fused(place: Place, X: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Neighbours by half-precision tiles that stay in registers, and a mask of the rows they are proven for.

    A bound on the distance of the k-th neighbour, from a sample of rows, leaves about a hundred candidates per row. By
    the triangle inequality, the error of a distance between rounded rows is at most the lengths of the two rounding
    errors, which are measured: a row is proven if its k-th distance is below those of all rows left out.
    """
    from adaam.engines.gpu.fused import half_rows
    from adaam.engines.gpu.kernels import collect_near_kernel

    BM, BN, BK = 128, 128, 64
    n = len(X)
    n_rows = -(-n // BM) * BM
    Y, scale = half_rows(X, n_rows, BK, 2.0**10)
    squares = torch.full((n_rows,), torch.inf, dtype=torch.float32, device=X.device)
    errors = torch.empty(n, dtype=torch.float32, device=X.device)
    for part in place.blocks(X):
        rounded = Y[part, : X.shape[1]].float()
        squares[part] = rounded.square().sum(dim=1)
        errors[part] = torch.linalg.vector_norm(X[part] * scale - rounded, dim=1)
    bounds = _bounds(place, Y, squares, n, k)
    # Bound on the rounding of the sums: every term is below |x||y|, and partial sums are float32 numbers.
    largest = squares[:n].max()
    slack = (2.0 * Y.shape[1] * torch.finfo(torch.float32).eps) * largest

    indices = torch.empty((n, k), dtype=torch.int64, device=X.device)
    distances = torch.empty((n, k), dtype=torch.float64, device=X.device)
    proven = torch.zeros(n, dtype=torch.bool, device=X.device)
    width = min(k + SPARE, n - 1)
    for first in range(0, n_rows, STRIP_ROWS):
        tall = min(STRIP_ROWS, n_rows - first)
        counts = torch.zeros(tall, dtype=torch.int32, device=X.device)
        ids = torch.zeros((tall, CAPACITY), dtype=torch.int32, device=X.device)
        values = torch.full((tall, CAPACITY), torch.inf, dtype=torch.float32, device=X.device)
        tiles = n_rows // BN
        parts = max(1, min(tiles, 2112 // (tall // BM)))
        collect_near_kernel[(tall // BM, parts)](
            Y, squares, bounds[first:], counts, ids, values, first, tiles, -(-tiles // parts),
            CAPACITY=CAPACITY, D=Y.shape[1], BM=BM, BN=BN, BK=BK, num_warps=8, num_stages=3,
        )  # fmt: skip
        real = slice(0, min(tall, n - first))
        rows = torch.arange(first, first + real.stop, device=X.device)
        near, at = torch.topk(values[real], width + 1, dim=1, largest=False)
        candidates = ids[real].gather(1, at[:, :width]).long()
        enough = (counts[real] >= width) & (counts[real] <= CAPACITY)
        # Rows with too few or too many candidates are searched again; until then arbitrary rows are placeholders.
        candidates[~enough] = (rows[~enough, None] + torch.arange(1, width + 1, device=X.device)) % n
        indices[rows], distances[rows] = _measured(place, X, rows, X, candidates, k)
        left_out = torch.minimum(near[:, width], bounds[first : first + real.stop]) + squares[rows]
        reach = (left_out - slack).clamp_(min=0).sqrt() - errors[rows] - errors.max()
        proven[rows] = enough & (distances[rows, -1] * scale <= reach)
    return indices, distances, proven


def _bounds(place: Place, Y: torch.Tensor, squares: torch.Tensor, n: int, k: int) -> torch.Tensor:
    """Bound on |y|² - 2 x.y for each row x that most likely admits its k nearest rows and a few more."""
    from adaam.engines.gpu.kernels import nearest_in_groups_kernel

    BM, BN, BK = 128, 64, 64
    wanted = (k + SPARE) / SAMPLED_SHARE
    place_in_sample = max(8, round(wanted + 5 * wanted**0.5))
    n_sampled = n // SAMPLED_SHARE // BN * BN
    source = torch.Generator(device=Y.device).manual_seed(0)
    sampled = torch.randperm(n, generator=source, device=Y.device)[:n_sampled]
    sample, sample_squares = Y[sampled], squares[sampled]
    tiles = n_sampled // BN
    bounds = torch.full((len(Y),), -torch.inf, dtype=torch.float32, device=Y.device)
    height = max(BM, place.tile_bytes // (4 * tiles) // BM * BM)
    for part in row_blocks(len(Y), height):
        tall = part.stop - part.start
        minima = torch.empty((tall, tiles), dtype=torch.float32, device=Y.device)
        per_program = max(1, -(-tiles * (tall // BM) // 4224))
        nearest_in_groups_kernel[(tall // BM, -(-tiles // per_program))](
            Y[part], sample, sample_squares, minima, tiles, per_program,
            D=Y.shape[1], BM=BM, BN=BN, BK=BK, num_warps=4, num_stages=3,
        )  # fmt: skip
        bounds[part] = torch.topk(minima, min(place_in_sample, tiles), dim=1, largest=False).values[:, -1]
    bounds[n:] = -torch.inf
    return bounds


@dataclass(frozen=True, slots=True, eq=False)
class DeviceGraph(NeighborGraph):
    """Neighbour graph of tensors; shares, and copies, are a plain float if all are equal."""

    def host(self) -> NeighborGraph:
        """Copy the graph to the host."""
        starts, indices, distances = host(self.starts), host(self.indices), host(self.distances)
        shares, copies = spread(host(self.shares), len(indices)), spread(host(self.copies), self.n_rows)
        return NeighborGraph(starts, indices, distances, shares, copies, self.measured)

    def rows(self) -> Any:
        """Row that each neighbour entry belongs to."""
        rows = torch.arange(self.n_rows, device=self.starts.device)
        return rows.repeat_interleave(torch.diff(self.starts), output_size=len(self.indices))

    def piece_sizes(self) -> IntVector:
        """Number of rows in each weakly connected component, largest first.

        Each row stores the lowest row it is known to be connected to; every edge lowers that of its two ends, and of
        the rows these point to, so that a path of any length is joined in few rounds.
        """
        i, j = self.rows(), self.indices
        lowest = torch.arange(self.n_rows, device=j.device)
        joined = False
        while not joined:
            for _ in range(ROUNDS):
                a, b = lowest[i], lowest[j]
                both = torch.minimum(a, b)
                for ends in (a, b, i, j):
                    lowest = lowest.scatter_reduce(0, ends, both, "amin")
                lowest = lowest[lowest]
                lowest = lowest[lowest]
            done = (lowest[i] == lowest[j]).all() & (lowest == lowest[lowest]).all()
            joined, whole = torch.stack([done, (lowest == 0).all()]).tolist()
        if whole:
            return np.array([self.n_rows])
        sizes = torch.bincount(lowest)
        return np.asarray(host(sizes[sizes > 0].sort(descending=True).values))

    def links(self, weights: FloatVector) -> Links:
        """Links between neighbours, averaged over the two directions; see `NeighborGraph.links`."""
        nodes, others = self.rows(), self.indices
        rows = torch.as_tensor(np.array(weights), device=nodes.device)
        given = self.shares * self.pair_weights(rows) / 2
        both = torch.cat([nodes, others]), torch.cat([others, nodes]), torch.cat([given, given])
        return links_of(*both, rows * self.copies, compiled=uses_numba(self.kernels, self.n_rows))

    def heat_half(self, heat: FittedHeat, weights: Column) -> DeviceHalf:
        """Half H of the affinity H + H' of heat weights, the larger of the two of a pair; 1 between copies of a row."""
        rows, columns, f = self.rows(), self.indices, self.shares
        reverse, mutual = self._reverse(rows)
        values = heat.weights(rows, columns, self.distances)
        if not self.measured:
            values = torch.where(mutual, torch.maximum(values, values[reverse]), values)
        # Union of the two directions: f + g - fg = f(1 - g/2) + g(1 - f/2), one part for each entry.
        g = mutual * at(f, reverse)
        values = values * f * (1.0 - g / 2) * self.pair_weights(weights)
        return DeviceHalf(self.starts, columns, values, weights * self.copies / 2)

    def _reverse(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Position of entry (j, i) for each entry (i, j), and whether there is one."""
        n, columns = self.n_rows, self.indices
        keys, order = (rows * n + columns).sort()
        wanted = columns * n + rows
        place = torch.searchsorted(keys, wanted).clamp_(max=max(len(keys) - 1, 0))
        return order[place], keys[place] == wanted


def on_device(place: Place, graph: NeighborGraph) -> DeviceGraph:
    """Copy a host graph to the device."""
    starts, indices = (place.vector(part, torch.int64) for part in (graph.starts, graph.indices))
    shares = place.vector(graph.shares) if (graph.shares != 1.0).any() else 1.0
    copies = place.vector(graph.copies) if graph.copies.any() else 0.0
    return DeviceGraph(starts, indices, place.vector(graph.distances), shares, copies, graph.measured)
