"""Consensus k-NN: rows are linked when enough neighbourhoods hold both of them."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from scipy.sparse import csr_array, vstack
from sklearn.base import BaseEstimator

from adaam._checks import check_number, check_whole, check_word
from adaam._typing import FloatVector
from adaam.affinity.heat import BLOCK_BYTES, HeatKernel, edge_affinity, linked_share, resolve_heat
from adaam.affinity.values import NeighborSource, SparseAffinity
from adaam.engines.blocks import row_blocks
from adaam.engines.neighbors.graph import NeighborGraph
from adaam.prepare import Sample

# Relative tolerance on votes: with fractional weights they are sums with rounding errors.
VOTE_TOLERANCE = 1e-9


@dataclass(eq=False, repr=False)
class ConsensusAffinity(BaseEstimator):
    """Consensus k-NN: a neighbour graph whose edges are confirmed by the neighbourhoods of other rows.

    The neighbourhood S_i of row i is the row itself and its k nearest neighbours. C_pq counts the neighbourhoods that
    contain both p and q; pairs with enough of these votes become edges, whether or not they are neighbours, weighted by
    the heat kernel with the bandwidth of the k-NN graph. A row that loses all its edges keeps its nearest neighbour.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours of each row, as in `KNNAffinity`.
    threshold : "budget", int or float, default="budget"
        Votes that a pair needs to become an edge. "budget": the threshold whose number of edges is closest to that of
        the symmetric k-NN graph (the larger one on a tie). An int: that many votes; 1 links every pair that shares a
        neighbourhood, 2 drops pairs with a single vote. A float in (0, 1): that share of all votes of at least one of
        the two rows, the paper's row-normalised votes.
    heat : HeatKernel, default=None
        Weights of the edges; None means `HeatKernel()`, so that only the choice of edges differs from `KNNAffinity`.

    Notes
    -----
    **Defaults.** The paper uses one threshold for all rows and does not give its value. With "budget" none is needed,
    and a comparison with the k-NN graph depends on which edges are kept, not on how many. A fixed number does not adapt
    to k: the votes of a pair grow with k, so 2 votes, a mild pruning for k of 5 to 10, prune next to nothing for the
    large k at which the paper reports its gains.

    **Preparation.** The reference is `LPP(preparation="unit")`; the paper uses `LPP(preparation="center")`.

    **Weights.** A row of weight w votes w times, and its copies are members of each other's neighbourhoods, so votes
    are the same as if the row were repeated. Rows tied at the k-th place of a neighbourhood, copies included, share its
    vote. Distances are measured on the prepared rows: a neighbour graph passed to `fit` only determines the members and
    the bandwidth.

    **Cost.** At most n (k + 1)² pairs have votes. They are counted in row blocks of bounded size; only edges are kept.

    References
    ----------
    V. Premachandran, R. Kakarala, "Consensus of k-NNs for Robust Neighborhood Selection on Graph-Based Manifolds",
    CVPR 2013.
    """

    n_neighbors: int = 5
    threshold: float | str = "budget"
    heat: HeatKernel | None = None

    def learn(self, sample: Sample, neighbors: NeighborSource) -> SparseAffinity:
        """Build the graph of the sample.

        The graph is symmetric and non-negative; every row with a neighbour has an edge. The diagonal is zero except for
        rows with copies.
        """
        heat = resolve_heat(self.heat)
        graph = neighbors(check_whole("n_neighbors", self.n_neighbors)).host()
        ballots, threshold = ballots_of(graph, sample.weights), self.threshold
        if isinstance(threshold, str):
            check_word("threshold", threshold, ("budget",))
            needed = np.full(graph.n_rows, budget_votes(ballots, graph))
        elif isinstance(threshold, Integral):
            needed = np.full(graph.n_rows, float(check_whole("threshold", threshold)))
        elif check_number("threshold", threshold, above=0.0) < 1.0:
            needed = threshold * ballots.cast()
        else:
            raise ValueError(
                f"threshold={threshold} is a float, so it is a share of votes and must be below 1. "
                "Use a whole number such as 2 to count votes."
            )
        elected, own = elected_edges(ballots, needed)
        return edge_affinity(sample, graph, elected, own, heat)


@dataclass(frozen=True, slots=True)
class Ballots:
    """Membership of rows in neighbourhoods, from which votes are counted."""

    taken: csr_array  # (n, n): share of the copies of j that are in the neighbourhood of i, zero diagonal
    holders: csr_array  # its transpose
    members: FloatVector  # (n,): copies of row i in the neighbourhood of one of them, itself included
    weights: FloatVector  # (n,)

    def votes(self, rows: slice) -> csr_array:
        """Votes between a copy of each row of the block and a copy of each other row, diagonal removed."""
        held = self.holders[rows]
        shared = held.multiply(self.weights[None, :]) @ self.taken
        called = held.multiply(self.members[None, :]) + self.taken[rows].multiply(self.members[rows, None])
        block = (csr_array(shared) + csr_array(called)).tocoo()
        off = block.row + rows.start != block.col
        return csr_array((block.data[off], (block.row[off], block.col[off])), shape=block.shape)

    def own_votes(self) -> FloatVector:
        """Votes between two copies of the same row; 0 for a weight of at most one."""
        voters = np.repeat(self.weights, np.diff(self.taken.indptr))
        share, candidates = self.taken.data, self.taken.indices
        others = np.maximum(self.weights - 1.0, 0.0)
        second = np.maximum(share * self.weights[candidates] - 1.0, 0.0)
        total = np.bincount(candidates, voters * share * second, len(others)) + (self.members - 1.0) * self.members
        return np.divide(total, others, out=np.zeros(len(others)), where=others > 0)

    def cast(self) -> FloatVector:
        """Total votes of a copy of each row with all others, its own copies included."""
        w, F = self.weights, self.taken
        reached = F @ w
        with_itself = w * (self.holders.power(2) @ w)
        others = self.holders @ (w * reached + self.members * w) + self.members * reached - with_itself
        return np.asarray(others + self.own_votes() * np.maximum(w - 1.0, 0.0))

    def blocks(self) -> list[slice]:
        """Row blocks whose votes, 24 bytes each while they are counted, take about `BLOCK_BYTES` on average."""
        size = np.diff(self.taken.indptr) + 1
        pairs = float((size**2).sum()) / len(size)
        return row_blocks(len(size), max(16, int(BLOCK_BYTES / (24 * pairs))))


def ballots_of(graph: NeighborGraph, weights: FloatVector) -> Ballots:
    """Return the neighbourhood memberships of a neighbour graph."""
    taken = csr_array((graph.shares, graph.indices, graph.starts), shape=(graph.n_rows, graph.n_rows))
    # A row of weight w < 1 counts as w of a row in its own neighbourhood.
    return Ballots(taken, csr_array(taken.T), np.minimum(weights, 1.0 + graph.copies), weights)


def elected_edges(ballots: Ballots, needed: FloatVector) -> tuple[csr_array, FloatVector]:
    """Mark pairs with at least the votes their first row needs, and rows whose copies have them among each other."""
    enough = needed * (1 - VOTE_TOLERANCE)
    parts: list[csr_array] = []
    for block in ballots.blocks():
        votes = ballots.votes(block)
        votes.data = (votes.data >= np.repeat(enough[block], np.diff(votes.indptr))).astype(np.float64)
        votes.eliminate_zeros()
        parts.append(votes)
    return csr_array(vstack(parts)), ballots.own_votes() >= enough


def budget_votes(ballots: Ballots, graph: NeighborGraph) -> float:
    """Vote threshold whose number of edges is closest to that of the symmetric k-NN graph."""
    weights = ballots.weights
    own_pairs = weights * graph.copies
    target = weights @ (linked_share(ballots.taken) @ weights) + own_pairs.sum()

    values, edges = _tally(ballots.own_votes()[own_pairs > 0], own_pairs[own_pairs > 0])
    for block in ballots.blocks():
        votes = ballots.votes(block)
        pairs = np.repeat(weights[block], np.diff(votes.indptr)) * weights[votes.indices]
        values, edges = _tally(np.concatenate([values, votes.data]), np.concatenate([edges, pairs]))
    if len(values) == 0:
        return 1.0
    at_least = np.cumsum(edges[::-1])
    return float(values[::-1][np.argmin(np.abs(at_least - target))])


def _tally(votes: FloatVector, pairs: FloatVector) -> tuple[FloatVector, FloatVector]:
    """Distinct numbers of votes, ascending, and how many pairs have each."""
    values, place = np.unique(np.round(votes, 9), return_inverse=True)
    return values, np.bincount(place, pairs, len(values))
