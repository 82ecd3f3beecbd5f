"""Dominant neighbourhoods: each row keeps those of its nearest neighbours that form a dominant set."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from adaam._checks import check_number, check_whole, warn_caller
from adaam._typing import BoolArray, FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.affinity.heat import BLOCK_BYTES, HeatKernel, edge_affinity, resolve_heat
from adaam.affinity.values import NeighborSource, SparseAffinity
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.neighbors.graph import FittedHeat, NeighborGraph
from adaam.prepare import Sample

# The self-tuning Gaussian that the literature on dominant sets and neighbourhood selection uses.
LOCAL_HEAT = HeatKernel(width=1.0, rule="self-tuning", power=2)


@dataclass(frozen=True, slots=True)
class DominantNeighborhoods(SparseAffinity):
    """The affinity of dominant neighbourhoods, and the convergence of their search."""

    converged: BoolArray  # (n,): whether the search of each row converged
    n_iter: IntVector  # (n,): iterations of each


@dataclass(eq=False, repr=False)
class DominantAffinity(BaseEstimator):
    """Dominant neighbourhoods: k nearest neighbours reduced to a maximal clique of mutually similar rows.

    On S_i, row i and its k nearest neighbours, the replicator dynamics x_j <- x_j (Ax)_j / x'Ax converges from uniform
    shares to a maximum of x'Ax over the simplex, where A holds the affinities within S_i with zero diagonal. The rows
    that keep a share form the dominant set; row i is linked to them. An edge is kept if either of its two rows selects
    it, and is weighted by the heat kernel with the bandwidth of the k-NN graph.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours of each row, as in `KNNAffinity`.
    heat : HeatKernel, default=None
        Weights of the edges; None means `HeatKernel()`, so that only the choice of edges differs from `KNNAffinity`.
    local_heat : HeatKernel, default=None
        Affinities A that select the edges; None means `HeatKernel(width=1.0, rule="self-tuning", power=2)`.
    max_iter : int, default=100_000
        Maximum number of iterations of the dynamics.
    tol : float, default=1e-8
        The search of a row ends when its shares change by less than this in sum.
    cut : float, default=0.01
        A row is in the dominant set if its share exceeds this fraction of a uniform share.

    Notes
    -----
    **Defaults.** `tol` is that of public dominant-set code. Its limit of 1000 iterations is not used: on image sets 10
    to 30 % of the rows have not converged by then, and up to 3 % have other members than at convergence; converged rows
    cost nothing. `cut` is that of the diffusion code that uses dominant neighbours, 1 / (100 |S_i|), and `local_heat`
    the self-tuning Gaussian of that literature. It must not be wide: with nearly equal affinities, such as those of the
    default `heat`, every neighbour keeps a share and none is dropped. Row i may itself lose its share, and is then
    linked to a set it is not part of: the known "false neighbourhoods" of the method, which are left as they are.

    **Preparation.** The reference is `LPP(preparation="unit")`; the literature uses distances between the original
    features, `LPP(preparation="center")`.

    **Weights.** A row of weight w counts as w equal rows. Their shares are equal at every iteration, so only the sum is
    stored; their affinity to each other is 1. This is exact except for rows tied at the k-th place of S_i, copies
    included, which start with the fraction of a row that is theirs. A neighbour graph passed to `fit` only determines
    the members and the bandwidth, as in `ConsensusAffinity`.

    **Cost.** n systems of size k + 1, iterated together in row blocks of bounded size.

    References
    ----------
    M. Pavan, M. Pelillo, "Dominant Sets and Pairwise Clustering", IEEE Transactions on Pattern Analysis and Machine
    Intelligence 29(1), 2007.
    X. Yang, L. J. Latecki, "Affinity Learning on a Tensor Product Graph with Applications to Shape and Image
    Retrieval", CVPR 2011.
    """

    n_neighbors: int = 5
    heat: HeatKernel | None = None
    local_heat: HeatKernel | None = None
    max_iter: int = 100_000
    tol: float = 1e-8
    cut: float = 0.01

    def learn(self, sample: Sample, neighbors: NeighborSource) -> DominantNeighborhoods:
        """Build the graph of the sample.

        The graph is symmetric and non-negative, with no edge that the k-NN graph does not have; every row with a
        neighbour has an edge. The diagonal is zero except for rows with copies. `converged` and `n_iter` report the
        search of each row; a `ConvergenceWarning` is given if some have not converged after `max_iter` iterations.
        """
        k = check_whole("n_neighbors", self.n_neighbors)
        max_iter = check_whole("max_iter", self.max_iter)
        tol = check_number("tol", self.tol, above=0.0)
        cut = check_number("cut", self.cut, above=0.0, up_to=1.0)
        heat = resolve_heat(self.heat)
        local = resolve_heat(self.local_heat, "local_heat", LOCAL_HEAT)
        graph = neighbors(k).host()

        X = sample.engine.to_host(sample.X)
        kernel = local.fitted(graph, sample.weights)

        def search(rows: slice) -> tuple[BoolArray, BoolArray, BoolArray, IntVector]:
            members, copies, places = neighborhoods(graph, rows, sample.weights)
            rest = replicator(local_affinities(X, members, copies, kernel), copies, max_iter, tol)
            chosen = rest.shares > cut * (copies / copies.sum(axis=1, keepdims=True))
            return chosen[places], chosen[:, 0], rest.converged, rest.n_iter

        # The affinities of a block, and a copy of those not yet converged, fit in BLOCK_BYTES.
        size = 1 + int(np.diff(graph.starts).max(initial=0))
        found = map(search, row_blocks(graph.n_rows, max(1, BLOCK_BYTES // (16 * size**2))))
        neighbor_chosen, own, converged, n_iter = (np.concatenate(part) for part in zip(*found, strict=True))
        n_moving = int(np.sum(~converged))
        if n_moving:
            warn_caller(
                f"The dominant neighbourhoods of {n_moving} of {len(converged)} rows were still moving after "
                f"max_iter={max_iter} steps; their shares were cut as they stood. Increase max_iter, or tol.",
                ConvergenceWarning,
            )
        kept = np.where(neighbor_chosen, graph.shares, 0.0)
        taken = csr_array((kept, graph.indices, graph.starts), shape=(graph.n_rows, graph.n_rows))
        affinity = edge_affinity(sample, graph, taken, own, heat)
        return DominantNeighborhoods(affinity.weights, affinity.engine, converged, n_iter)


class Rest(NamedTuple):
    """Result of the replicator dynamics."""

    shares: FloatMatrix  # (b, m): of all copies of a member together
    converged: BoolArray  # (b,)
    n_iter: IntVector  # (b,)


def neighborhoods(
    graph: NeighborGraph, rows: slice, weights: FloatVector
) -> tuple[IntMatrix, FloatMatrix, tuple[IntVector, IntVector]]:
    """Return the neighbourhoods of a block of rows as arrays (b, m): members, and the equal rows each stands for.

    Row i comes first; short neighbourhoods are padded with 0 copies of it. The last value holds the row and column in
    these arrays of each entry of the graph.
    """
    entries = slice(graph.starts[rows.start], graph.starts[rows.stop])
    sizes = np.diff(graph.starts[rows.start : rows.stop + 1])
    owner = np.repeat(np.arange(len(sizes)), sizes)
    place = 1 + np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members = np.repeat(np.arange(rows.start, rows.stop)[:, None], 1 + sizes.max(initial=0), axis=1)
    members[owner, place] = graph.indices[entries]
    copies = np.zeros(members.shape)
    copies[:, 0] = 1.0 + graph.copies[rows]
    copies[owner, place] = graph.shares[entries] * weights[graph.indices[entries]]
    return members, copies, (owner, place)


def local_affinities(X: FloatMatrix, near: IntMatrix, copies: FloatMatrix, kernel: FittedHeat) -> FloatMatrix:
    """Affinities among the members of each neighbourhood, of shape (b, m, m).

    The diagonal is zero for a single row. For a member that stands for q equal rows it is 1 - 1/q: what each of them
    gets from the q - 1 others, if the share of the member is divided evenly.
    """
    n_rows, size = near.shape
    A = np.empty((n_rows, size, size))

    def fill(rows: slice) -> None:
        members = near[rows]
        points = np.asarray(X[members], np.float64)
        for p in range(size):
            difference = points[:, p:] - points[:, p, None]
            distances = np.sqrt(np.einsum("bqd,bqd->bq", difference, difference))
            A[rows, p, p:] = kernel.weights(members[:, p, None], members[:, p:], distances)
            A[rows, p:, p] = A[rows, p, p:]

    # 24 bytes per coordinate: members, their differences and the squares of these.
    for _ in ordered_map(fill, row_blocks(n_rows, max(1, BLOCK_BYTES // (24 * size * X.shape[1])))):
        pass
    diagonal = np.arange(size)
    A[:, diagonal, diagonal] = 1.0 - 1.0 / np.maximum(copies, 1.0)
    return A


def replicator(A: FloatMatrix, start: FloatMatrix, max_iter: int, tol: float) -> Rest:
    """Iterate x <- x (Ax) / x'Ax for a batch of systems, each until its shares change by less than `tol` in sum.

    Affinities, (b, m, m), are symmetric and non-negative. Shares, (b, m), may start with any positive sum; zero shares
    stay zero. The result is non-negative with sum 1, for each system as of its last iteration. x'Ax never decreases.
    """
    shares = start / start.sum(axis=1, keepdims=True)
    n_iter = np.full(len(A), max_iter)
    x, moving = shares, np.arange(len(A))
    for step in range(1, max_iter + 1):
        gain = x * (A @ x[:, :, None])[:, :, 0]
        mean = gain.sum(axis=1, keepdims=True)
        # Systems without any affinity keep their shares.
        following = np.divide(gain, mean, out=x.copy(), where=mean > 0)
        left = np.abs(following - x).sum(axis=1) >= tol
        shares[moving], x = following, following
        if not left.all():
            n_iter[moving[~left]] = step
            A, x, moving = A[left], x[left], moving[left]
        if len(moving) == 0:
            break
    converged = np.ones(len(shares), bool)
    converged[moving] = False
    return Rest(shares, converged, n_iter)
