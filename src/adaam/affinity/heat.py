"""Heat-kernel weights on a nearest-neighbour graph."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, diags_array
from sklearn.base import BaseEstimator

from adaam._checks import check_kind, check_number, check_whole, check_word
from adaam._typing import BandwidthRule, FloatMatrix, FloatVector, IntMatrix
from adaam.affinity.learner import NeighborSource
from adaam.affinity.values import HalfAffinity, SparseAffinity
from adaam.graph import NeighborGraph
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

    def fitted(self, graph: NeighborGraph, row_weights: FloatVector) -> "FittedHeat":
        """Read the bandwidths off a neighbour graph."""
        if np.isinf(self.width):
            return FittedHeat(np.array([np.inf]), self.power)
        if self.rule == "self-tuning":
            farthest = np.zeros(graph.n_rows)
            np.maximum.at(farthest, graph.rows(), graph.distances)
            return FittedHeat(self.width * farthest, self.power)
        scale = graph.mean_distance(row_weights) if self.rule == "mean" else 1.0
        return FittedHeat(np.array([self.width * scale]), self.power)


@dataclass(frozen=True, slots=True)
class FittedHeat:
    """A heat kernel with its bandwidths, ready to weigh any pair of rows.

    The bandwidth of a pair is the geometric mean of those of its rows, which are all equal unless the kernel is
    self-tuning.
    """

    bandwidths: FloatVector  # (n,), or (1,) where all rows have the same
    power: int

    def on(self, graph: NeighborGraph) -> FloatVector:
        """Weight of each entry of a graph."""
        rows = graph.rows() if len(self.bandwidths) > 1 else graph.indices  # one bandwidth asks for no row
        return self.weights(rows, graph.indices, graph.distances)

    def weights(self, rows: IntMatrix, columns: IntMatrix, distances: FloatMatrix) -> FloatMatrix:
        """Weight of each pair, in [0, 1]; coincident rows get 1."""
        bandwidth = self.bandwidths
        if len(bandwidth) > 1:
            bandwidth = np.sqrt(bandwidth[rows]) * np.sqrt(bandwidth[columns])
        with np.errstate(invalid="ignore", divide="ignore"):
            exponent = distances / bandwidth
        if self.power != 1:
            exponent **= self.power
        # 0 / 0: all neighbours coincide, and a bandwidth of zero must not separate them.
        exponent[distances == 0] = 0.0
        return np.asarray(np.exp(np.negative(exponent, out=exponent), out=exponent))


def resolve_heat(heat: HeatKernel | None) -> HeatKernel:
    """Turn the `heat` parameter into settings; None means the paper's kernel."""
    kernel: HeatKernel = check_kind("heat", HeatKernel() if heat is None else heat, HeatKernel, "a HeatKernel or None")
    return kernel


def heat_affinity(graph: NeighborGraph, kernel: HeatKernel, sample: Sample) -> HalfAffinity:
    """Heat weights on the graph, the larger of the two directions; copies of a row are linked with weight 1.

    Returns
    -------
    HalfAffinity
        Symmetric and non-negative. Its diagonal is zero but for rows that stand for several copies.
    """
    heat = kernel.fitted(graph, sample.weights).on(graph)
    return _directed_affinity(graph, heat, sample, same_both_ways=graph.measured)


def neighbor_affinity(graph: NeighborGraph, values: FloatVector, sample: Sample) -> SparseAffinity:
    """Values on the entries of a graph, the larger of the two directions; copies of a row are linked with value 1."""
    affinity = _directed_affinity(graph, values, sample, same_both_ways=False)
    return SparseAffinity(affinity.weights, sample.engine)


def _directed_affinity(
    graph: NeighborGraph, values: FloatVector, sample: Sample, *, same_both_ways: bool
) -> HalfAffinity:
    """Values on the entries of a graph, each pair's split between the entries of its two directions."""
    n, f, weights = graph.n_rows, graph.shares, sample.weights
    reverse = sample.engine.reverse_entries(graph.starts, graph.indices)
    mutual = reverse >= 0
    larger = values if same_both_ways else np.where(mutual, np.maximum(values, values[reverse]), values)
    # Both directions taken: f + g - fg = f(1 - g/2) + g(1 - f/2), one part for either entry. Few shares are not 1.
    data = np.multiply(larger, 0.5, out=larger.copy(), where=mutual)
    partial = np.flatnonzero(f != 1.0)
    partial = np.union1d(partial, reverse[partial[mutual[partial]]])
    g = np.where(mutual[partial], f[reverse[partial]], 0.0)
    data[partial] = larger[partial] * f[partial] * (1.0 - g / 2)
    if (weights != 1.0).any():
        data *= weights[graph.rows()] * weights[graph.indices]
    half = csr_array((data, graph.indices, graph.starts), shape=(n, n))
    if graph.copies.any():
        half = csr_array(half + diags_array(weights * graph.copies / 2))
    return HalfAffinity(half, sample.engine)


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
