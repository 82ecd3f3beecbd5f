"""Heat-kernel weights on the edges of a graph: the nearest neighbours of each row, or edges selected by a learner."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array, triu
from sklearn.base import BaseEstimator

from adaam._checks import check_kind, check_number, check_whole, check_word
from adaam._typing import BandwidthRule, BoolArray, Column, FloatMatrix, FloatVector, IntVector, Tall
from adaam.affinity.values import NeighborSource, SparseAffinity
from adaam.engines import Engine, FittedHeat, Graph, NeighborGraph
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.protocol import Half
from adaam.prepare import Sample

# Bytes for the temporary arrays of one thread, as in the engines.
BLOCK_BYTES = 1 << 25


@dataclass(frozen=True)
class HalfAffinity:
    """A symmetric affinity A = H + H', stored as its half H, with the entries of the directed neighbour graph.

    H is stored where the engine computes, in the engine's own format.
    """

    half: Half
    engine: Engine

    @property
    def weights(self) -> csr_array:
        """All entries of A, assembled on the host."""
        half = self.half.host()
        return csr_array(half + half.T)

    def degrees(self) -> Column:
        """Row sums A1."""
        return self.half.degrees()

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'AX."""
        half: Half = self.engine.asarray(self.half)
        gram = half.gram(X)
        return gram + gram.T


@dataclass(eq=False, repr=False)
class HeatKernel(BaseEstimator):
    """Weight of an edge of length d: exp(-(d / bandwidth) ** power).

    Parameters
    ----------
    width : float, default=10.0
        Factor on the bandwidth given by `rule`; with `numpy.inf`, every edge has weight 1.
    rule : {"mean", "self-tuning", "fixed"}, default="mean"
        "mean": the mean of all neighbour distances. "self-tuning": the geometric mean of the two rows' distances to
        their farthest neighbour (Zelnik-Manor and Perona). "fixed": 1, so that `width` is the bandwidth itself.
    power : {1, 2}, default=1
        1 is the paper's kernel, 2 the Gaussian of most other work.
    """

    width: float = 10.0
    rule: BandwidthRule = "mean"
    power: int = 1

    def check(self) -> None:
        """Raise if a setting is out of range."""
        check_number("width", self.width, above=0.0)
        check_word("rule", self.rule, ("mean", "self-tuning", "fixed"))
        if self.power not in (1, 2):
            raise ValueError(f"power={self.power!r} is not known; use 1 or 2.")

    def fitted(self, graph: Graph, row_weights: Column) -> FittedHeat:
        """Compute the bandwidths from a neighbour graph."""
        if np.isinf(self.width):
            return FittedHeat(np.inf, self.power)
        if self.rule == "self-tuning":
            return FittedHeat(graph.farthest() * self.width, self.power)
        scale = graph.mean_distance(row_weights) if self.rule == "mean" else 1.0
        return FittedHeat(float(self.width * scale), self.power)


# The paper's kernel.
USUAL_HEAT = HeatKernel()


def resolve_heat(heat: HeatKernel | None, name: str = "heat", usual: HeatKernel = USUAL_HEAT) -> HeatKernel:
    """Return the validated heat kernel of a parameter; None means `usual`."""
    kernel: HeatKernel = usual if heat is None else check_kind(name, heat, HeatKernel, "a HeatKernel or None")
    kernel.check()
    return kernel


def heat_affinity(graph: Graph, kernel: HeatKernel | None, sample: Sample) -> HalfAffinity:
    """Affinity of heat weights on a graph, the larger of the two directions; copies of a row have weight 1."""
    fitted = (USUAL_HEAT if kernel is None else kernel).fitted(graph, sample.engine_weights)
    return HalfAffinity(graph.heat_half(fitted, sample.engine_weights), sample.engine)


def linked_share(taken: csr_array) -> csr_array:
    """Share of the pairs of copies of two rows that are linked, that is, in which at least one takes the other."""
    # Each copy of row i takes a share f of j's copies, each copy of j a share g of i's: f + g - fg are linked.
    return csr_array(taken + taken.T - taken.multiply(taken.T))


@dataclass(eq=False, repr=False)
class KNNAffinity(BaseEstimator):
    """The k-nearest-neighbour heat-kernel graph, the original affinity of LPP.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours of each row.
    heat : HeatKernel, default=None
        Weights of the edges; None means `HeatKernel()`.
    """

    n_neighbors: int = 5
    heat: HeatKernel | None = None

    def learn(self, sample: Sample, neighbors: NeighborSource) -> HalfAffinity:
        """Build the graph of the sample."""
        heat = resolve_heat(self.heat)
        return heat_affinity(neighbors(check_whole("n_neighbors", self.n_neighbors)), heat, sample)


def pair_distances(X: FloatMatrix, rows: IntVector, columns: IntVector) -> FloatVector:
    """Euclidean distance of each pair of rows, computed from differences, so that coincident rows have distance 0."""

    def measured(pairs: slice) -> FloatVector:
        difference = np.asarray(X[rows[pairs]], np.float64) - X[columns[pairs]]
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", difference, difference)))

    blocks = row_blocks(len(rows), max(16, BLOCK_BYTES // (24 * max(1, X.shape[1]))))
    return np.concatenate([np.empty(0), *ordered_map(measured, blocks)])


def edge_affinity(
    sample: Sample, graph: NeighborGraph, taken: csr_array, own: BoolArray, heat: HeatKernel
) -> SparseAffinity:
    """Affinity of heat weights on selected edges, in both directions; a row without any keeps its nearest neighbours.

    Entry (i, j) of `taken` is the share of j that row i takes, as in a `NeighborGraph`; its diagonal is zero. Copies of
    the rows in `own` are linked with each other. The graph determines the bandwidth and the nearest neighbours (several
    if tied).
    """
    n, weights = graph.n_rows, sample.weights
    alone = (linked_share(taken).sum(axis=1) == 0) & ~(own & (graph.copies > 0))
    nearest = _nearest_entries(graph, alone & (graph.copies == 0))
    kept = csr_array((graph.shares[nearest], (graph.rows()[nearest], graph.indices[nearest])), shape=(n, n))

    upper = triu(linked_share(csr_array(taken + kept)), k=1, format="coo")
    rows, columns = upper.row, upper.col
    distances = pair_distances(sample.engine.to_host(sample.X), rows, columns)
    values = heat.fitted(graph, weights).weights(rows, columns, distances)
    half = csr_array((values * upper.data * weights[rows] * weights[columns], (rows, columns)), shape=(n, n))
    diagonal = np.where(own | alone, weights * graph.copies, 0.0)
    return SparseAffinity(csr_array(half + half.T + diags_array(diagonal)), sample.engine)


def _nearest_entries(graph: NeighborGraph, wanted: BoolArray) -> IntVector:
    """Entries of the graph that are nearest neighbours of the wanted rows, all of them on a tie."""
    rows = graph.rows()
    nearest = np.full(graph.n_rows, np.inf)
    np.minimum.at(nearest, rows, graph.distances)
    return np.flatnonzero(wanted[rows] & (graph.distances == nearest[rows]))
