"""Heat-kernel weights on a nearest-neighbour graph."""

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from adaam._checks import check_kind, check_number, check_whole, check_word
from adaam._typing import BandwidthRule, Column, FloatVector
from adaam.affinity.values import HalfAffinity, NeighborSource, SparseAffinity
from adaam.engines import FittedHeat, Graph, NeighborGraph
from adaam.sample import Sample


class HeatKernel(BaseEstimator):
    """Weight of an edge of length d: exp(-(d / bandwidth) ** power).

    Parameters
    ----------
    width : float, default=10.0
        Factor of the bandwidth that `rule` gives; `numpy.inf` weighs every edge 1.
    rule : {"mean", "self-tuning", "fixed"}, default="mean"
        "mean": the mean of all neighbour distances. "self-tuning": the geometric mean of the two rows' distances to
        their farthest neighbour (Zelnik-Manor and Perona). "fixed": 1, so that `width` is the bandwidth itself.
    power : {1, 2}, default=1
        1 is the paper's kernel, 2 the Gaussian of most other work.
    """

    def __init__(self, width: float = 10.0, rule: BandwidthRule = "mean", power: int = 1) -> None:
        self.width = width
        self.rule = rule
        self.power = power

    def check(self) -> None:
        """Raise if a setting is out of range."""
        check_number("width", self.width, above=0.0)
        check_word("rule", self.rule, ("mean", "self-tuning", "fixed"))
        if self.power not in (1, 2):
            raise ValueError(f"power={self.power!r} is not known; use 1 or 2.")

    def fitted(self, graph: Graph, row_weights: Column) -> FittedHeat:
        """Read the bandwidths off a neighbour graph."""
        if np.isinf(self.width):
            return FittedHeat(np.inf, self.power)
        if self.rule == "self-tuning":
            return FittedHeat(graph.farthest() * self.width, self.power)
        scale = graph.mean_distance(row_weights) if self.rule == "mean" else 1.0
        return FittedHeat(float(self.width * scale), self.power)


def resolve_heat(heat: HeatKernel | None) -> HeatKernel:
    """Turn the `heat` parameter into settings; None means the paper's kernel."""
    kernel: HeatKernel = check_kind("heat", HeatKernel() if heat is None else heat, HeatKernel, "a HeatKernel or None")
    return kernel


def heat_affinity(graph: Graph, kernel: HeatKernel, sample: Sample) -> HalfAffinity:
    """Heat weights on the graph, the larger of the two directions; copies of a row are linked with weight 1.

    Returns
    -------
    HalfAffinity
        Symmetric and non-negative. Its diagonal is zero but for rows that stand for several copies.
    """
    fitted = kernel.fitted(graph, sample.engine_weights)
    return HalfAffinity(graph.heat_half(fitted, sample.engine_weights), sample.engine)


def neighbor_affinity(graph: NeighborGraph, values: FloatVector, sample: Sample) -> SparseAffinity:
    """Values on the entries of a graph, the larger of the two directions; copies of a row are linked with value 1."""
    half = graph.half(values, sample.weights, same_both_ways=False)
    return SparseAffinity(csr_array(half + half.T), sample.engine)


def linked_share(taken: csr_array) -> csr_array:
    """Share of the pairs of copies of two rows that are linked when either takes the other."""
    # Row i takes the same f of j's copies for all its own, and j the same g of i's: together f + g - fg are linked.
    return csr_array(taken + taken.T - taken.multiply(taken.T))


class KNNAffinity(BaseEstimator):
    """The k-nearest-neighbour heat-kernel graph, the affinity LPP was made for.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours of each row.
    heat : HeatKernel, default=None
        Weights of the edges; None means `HeatKernel()`.
    """

    def __init__(self, n_neighbors: int = 5, heat: HeatKernel | None = None) -> None:
        self.n_neighbors = n_neighbors
        self.heat = heat

    def learn(self, sample: Sample, neighbors: NeighborSource) -> HalfAffinity:
        """Build the graph of the sample."""
        heat = resolve_heat(self.heat)
        heat.check()
        return heat_affinity(neighbors(check_whole("n_neighbors", self.n_neighbors)), heat, sample)
