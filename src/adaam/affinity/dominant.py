"""Dominant neighbourhoods: of its nearest neighbours a row keeps those that hang together as a dominant set."""

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
    """The affinity of dominant neighbourhoods, and how their search ended."""

    converged: BoolArray  # (n,): whether the search of each row came to rest
    n_iter: IntVector  # (n,): steps each took


@dataclass(eq=False, repr=False)
class DominantAffinity(BaseEstimator):
    """Dominant neighbourhoods: k nearest neighbours reduced to a maximal clique of mutually similar rows.

    Among S_i, row i and its k nearest neighbours, the replicator dynamics x_j <- x_j (Ax)_j / x'Ax climbs from even
    shares to a maximum of x'Ax over the simplex, where A holds the affinities among S_i with zero diagonal. The rows
    that keep a share are the dominant set; row i is linked to them. An edge needs one of its two rows to choose it, and
    is weighed by the heat kernel with the bandwidth of the k-NN graph.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours of each row, as in `KNNAffinity`.
    heat : HeatKernel, default=None
        Weights of the edges; None means `HeatKernel()`, so that only the choice of edges differs from `KNNAffinity`.
    local_heat : HeatKernel, default=None
        Affinities A that the choice is made by; None means `HeatKernel(width=1.0, rule="self-tuning", power=2)`.
    max_iter : int, default=100_000
        Most steps of the dynamics.
    tol : float, default=1e-8
        A row's search ends when its shares change by less than this in sum.
    cut : float, default=0.01
        A row is in the dominant set when its share exceeds this part of an even share.

    Notes
    -----
    **Defaults.** `tol` is that of public dominant-set code. Its limit of 1000 steps is not: on image sets 10 to 30 % of
    the rows are then still moving, and up to 3 % have other members than at rest; rows at rest cost nothing. `cut` is
    that of the diffusion code that uses dominant neighbours, 1 / (100 |S_i|), and `local_heat` the self-tuning Gaussian
    of that literature. It must not be wide: with nearly equal affinities, as those of the default `heat`, every
    neighbour keeps a share and nothing is chosen. Row i may itself lose its share, and is then linked to a set it is
    not part of: the method's known "false neighbourhoods", left as they are.

    **Preparation.** The reference one is `LPP(preparation="unit")`; the literature works on the distances of the
    features as they are, `LPP(preparation="center")`.

    **Weights.** A row of weight w takes part as w equal rows, which are alike at every step and so need one share
    between them; the affinity of one to the others is 1. This is exact, but for rows tied at the k-th place of S_i,
    copies included: they start with the part of a row that falls to them. A neighbour graph brought by the caller sets
    the members and the bandwidth only, as in `ConsensusAffinity`.

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

        It is symmetric and non-negative, with no edge that the k-NN graph does not have; every row with a neighbour has
        an edge. The diagonal is zero but for rows that stand for several copies. `converged` and `n_iter` tell how the
        search of each row ended, and a `ConvergenceWarning` if some were still moving after `max_iter` steps.
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

        # Affinities of a block, and those still moving beside them, stay within the budget.
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
    """Where the dynamics came to rest."""

    shares: FloatMatrix  # (b, m): of all copies of a member together
    converged: BoolArray  # (b,)
    n_iter: IntVector  # (b,)


def neighborhoods(
    graph: NeighborGraph, rows: slice, weights: FloatVector
) -> tuple[IntMatrix, FloatMatrix, tuple[IntVector, IntVector]]:
    """Lay out the neighbourhoods of a block of rows as tables (b, m): members, and the equal rows each stands for.

    Row i comes first; short neighbourhoods are filled up with 0 copies of it. The last value is the row and column in
    the tables of each entry of the graph.
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

    The diagonal is zero for a single row. A member that stands for q equal rows has there what each of them gets from
    the q - 1 others, the share of the member being spread evenly: 1 - 1/q.
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

    # Members, their differences and the squares of these.
    for _ in ordered_map(fill, row_blocks(n_rows, max(1, BLOCK_BYTES // (24 * size * X.shape[1])))):
        pass
    diagonal = np.arange(size)
    A[:, diagonal, diagonal] = 1.0 - 1.0 / np.maximum(copies, 1.0)
    return A


def replicator(A: FloatMatrix, start: FloatMatrix, max_iter: int, tol: float) -> Rest:
    """Iterate x <- x (Ax) / x'Ax for a batch of systems, each until its shares change by less than `tol` in sum.

    Affinities, (b, m, m), are symmetric and non-negative; shares, (b, m), start from any positive sum, and one of 0
    stays 0. They end non-negative, of sum 1, each system's as they were when it stopped. x'Ax never falls.
    """
    shares = start / start.sum(axis=1, keepdims=True)
    n_iter = np.full(len(A), max_iter)
    x, moving = shares, np.arange(len(A))
    for step in range(1, max_iter + 1):
        gain = x * (A @ x[:, :, None])[:, :, 0]
        mean = gain.sum(axis=1, keepdims=True)
        # Rows without any affinity gain nothing by moving.
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
