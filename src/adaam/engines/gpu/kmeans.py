"""k-means on a device: all starts of k-means++ and Lloyd's iterations as one batch."""

from collections.abc import Sequence

import numpy as np
import torch

from adaam.engines.blocks import coordinate_order, row_blocks
from adaam.engines.gpu.arrays import Place, host
from adaam.engines.gpu.neighbors import nearest_known
from adaam.engines.protocol import Clusters

MAX_ITERATIONS = 300  # of Lloyd's algorithm, in each run


def kmeans(place: Place, Z: torch.Tensor, weights: torch.Tensor, n_clusters: int, n_init: int, seed: int) -> Clusters:
    """Best run by inertia, over rows sorted by their coordinates."""
    present = torch.nonzero(weights)[:, 0]
    if len(present) < n_clusters:
        raise ValueError(f"n_clusters={n_clusters} exceeds the {len(present)} rows of positive weight.")
    chosen = present[coordinate_order(Z[present])]
    centers, inertia = kmeans_runs(place, Z[chosen], weights[chosen], n_clusters, n_init, [seed])
    best = int(inertia.argmin())
    labels, _ = nearest_known(place, Z, centers[best], 1)
    return Clusters(host(centers[best]), host(labels[:, 0].contiguous()), float(inertia[best]))


def kmeans_runs(
    place: Place, Z: torch.Tensor, weights: torch.Tensor, n_clusters: int, n_init: int, seeds: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Centres (s, c, m) and inertia (s,) of k-means from `n_init` starts for each seed, all at once."""
    mean = Z.mean(dim=0)
    centred = Z - mean
    centers, inertia = _lloyd(place, centred, weights, _starts(place, centred, weights, n_clusters, n_init, seeds))
    return centers + mean, inertia


def _starts(
    place: Place, Z: torch.Tensor, weights: torch.Tensor, n_clusters: int, n_init: int, seeds: Sequence[int]
) -> torch.Tensor:
    """k-means++: each further centre is the best of several candidates drawn by their weighted squared distance.

    The number of candidates, and the random numbers that draw them, are those of scikit-learn's `KMeans`.
    """
    n_trials = 2 + int(np.log(n_clusters))
    shape = (n_init, 1 + (n_clusters - 1) * n_trials)
    U = place.vector(np.concatenate([np.random.RandomState(seed).random_sample(shape) for seed in seeds]))
    total = torch.cumsum(weights, dim=0)
    first = torch.searchsorted(total / total[-1], U[:, 0].contiguous(), right=True).clamp_(max=len(Z) - 1)
    chosen = [first]
    closest = _candidate_distances(place, Z, Z[first][:, None])[:, 0]  # (s, n)
    runs = torch.arange(len(U), device=Z.device)
    potential = closest @ weights
    for c in range(n_clusters - 1):
        targets = U[:, 1 + c * n_trials : 1 + (c + 1) * n_trials] * potential[:, None]
        reached = torch.cumsum(closest * weights, dim=1)
        candidates = torch.searchsorted(reached, targets).clamp_(max=len(Z) - 1)  # (s, trials)
        distances = _candidate_distances(place, Z, Z[candidates])
        distances = torch.minimum(distances, closest[:, None])
        potentials = distances @ weights
        best = potentials.argmin(dim=1)
        closest, potential = distances[runs, best], potentials[runs, best]
        chosen.append(candidates[runs, best])
    return Z[torch.stack(chosen, dim=1)]


def _candidate_distances(place: Place, Z: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Squared distances (s, trials, n) of all rows to candidates (s, trials, m), in float64."""
    n_init, n_trials, m = candidates.shape
    flat = candidates.reshape(-1, m).to(torch.float64)
    out = torch.empty((n_init, n_trials, len(Z)), dtype=torch.float64, device=Z.device)
    for rows in row_blocks(len(Z), max(16, place.tile_bytes // (24 * len(flat)))):
        block = Z[rows].to(torch.float64)
        squares = block.square().sum(dim=1) + flat.square().sum(dim=1)[:, None]
        out[:, :, rows] = torch.addmm(squares, flat, block.T, alpha=-2.0).clamp_(min=0).view(n_init, n_trials, -1)
    return out


def _lloyd(
    place: Place, Z: torch.Tensor, weights: torch.Tensor, centers: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Move centres to the means of their rows until no label changes; converged runs leave the batch."""
    s = len(centers)
    final, inertia = centers.clone(), torch.zeros(s, dtype=torch.float64, device=Z.device)
    labels = torch.full((s, len(Z)), -1, dtype=torch.int64, device=Z.device)
    running = torch.arange(s, device=Z.device)
    for _ in range(MAX_ITERATIONS):
        new_labels, sums, counts = _assigned(place, Z, weights, centers)
        same = (new_labels == labels).all(dim=1)
        empty = (counts == 0).any(dim=1)
        moved = torch.where(counts[:, :, None] > 0, sums / counts.clamp(min=1e-300)[:, :, None], 0.0).to(Z.dtype)
        for run in torch.nonzero(empty)[:, 0].tolist():
            moved[run] = _refilled(Z, weights, centers[run], new_labels[run], sums[run], counts[run])
        final[running] = moved
        going = torch.nonzero(~same)[:, 0]
        if len(going) == 0:
            break
        if len(going) < len(running):
            running, labels, centers = running[going], new_labels[going], moved[going]
        else:
            labels, centers = new_labels, moved
    runs = torch.arange(s, device=Z.device)
    # Inertia from float64 differences between each row and its centre, in every run.
    for rows in row_blocks(len(Z), max(16, place.tile_bytes // (24 * s * Z.shape[1]))):
        own = final[runs, _distances(Z[rows], final).argmin(dim=2)].to(torch.float64)
        near = (Z[rows, None].to(torch.float64) - own).square().sum(dim=2)
        inertia += weights[rows] @ near
    return final, inertia


def _assigned(
    place: Place, Z: torch.Tensor, weights: torch.Tensor, centers: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Labels (s, n), and for each centre the weighted sum and the weight of its rows, in float64."""
    s, c, m = centers.shape
    labels = torch.empty((s, len(Z)), dtype=torch.int64, device=Z.device)
    totals = torch.zeros((s * c, m + 1), dtype=torch.float64, device=Z.device)
    for rows in row_blocks(len(Z), max(16, place.tile_bytes // (24 * s * c))):
        label = _distances(Z[rows], centers).argmin(dim=2)  # (rows, s)
        labels[:, rows] = label.T
        # Sums as one product with a one-hot matrix: bitwise reproducible, which scatter-add is not.
        member = torch.zeros((len(label), s, c), dtype=torch.float64, device=Z.device)
        member.scatter_(2, label[:, :, None], 1.0)
        w = weights[rows, None]
        totals += member.view(len(label), s * c).T @ torch.cat([Z[rows] * w, w], dim=1)
    return labels, totals[:, :m].view(s, c, m), totals[:, m].view(s, c)


def _refilled(
    Z: torch.Tensor,
    weights: torch.Tensor,
    centers: torch.Tensor,
    labels: torch.Tensor,
    sums: torch.Tensor,
    counts: torch.Tensor,
) -> torch.Tensor:
    """Means of the rows of each centre, after each empty one has been given one of the rows farthest from theirs."""
    empty = torch.nonzero(counts == 0)[:, 0]
    distances = (Z - centers[labels]).square().sum(dim=1)
    far = torch.topk(distances, len(empty)).indices
    sums, counts = sums.clone(), counts.clone()
    for place, row in zip(empty.tolist(), far.tolist(), strict=True):
        taken = Z[row].to(torch.float64) * weights[row]
        sums[labels[row]] -= taken
        counts[labels[row]] -= weights[row]
        sums[place], counts[place] = taken, weights[row]
    means = sums / counts.clamp(min=1e-300)[:, None]
    return torch.where(counts[:, None] > 0, means, centers.to(torch.float64)).to(Z.dtype)


def _distances(Z: torch.Tensor, centers: torch.Tensor) -> torch.Tensor:
    """|c|² - 2 z.c of rows and the centres of each run, (rows, s, c): smallest for the nearest centre."""
    s, c, m = centers.shape
    flat = centers.reshape(s * c, m)
    return torch.addmm(flat.square().sum(dim=1), Z, flat.T, alpha=-2.0).view(len(Z), s, c)
