"""How far two clusters are apart, measured by what a cut through one homogeneous cloud leaves between its halves."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines import NeighborGraph
from adaam.engines.blocks import ordered_map
from adaam.partition.view import Merging, View

# Rows of a cluster that its extent is measured on.
EXTENT_ROWS = 200


def halved_cloud(n_rows: float, dimension: float, n_neighbors: int, roundness: float) -> float:
    """Links between the two halves of a Gaussian cloud that is cut through its centre, across its longest axis.

    Returned is the sum, over the two halves, of the share of a half's links that cross the cut. A row whose k
    neighbours lie within a radius r, small beside the cloud, has a part of them beyond the cut that depends on its
    distance from it; integrating that part over the cloud gives

        2 E|u| (k / (n V))^(1/D) (1 - 1/D)^(-(D-1)/2) roundness

    with V the volume of the unit ball in D dimensions and u one coordinate of a random point in it.

    Parameters
    ----------
    n_rows : float
        Rows of the cloud.
    dimension : float
        Intrinsic dimension D, at least 1.
    n_neighbors : int
        Neighbours k of each row.
    roundness : float
        Geometric mean of the cloud's standard deviations over the largest.
    """
    D = dimension
    log_volume = D / 2 * np.log(np.pi) - gammaln(D / 2 + 1)
    mean_coordinate = np.exp(gammaln(D / 2 + 1) - gammaln((D + 3) / 2)) / np.sqrt(np.pi)
    radius = np.exp((np.log(n_neighbors / n_rows) - log_volume) / D)
    density = (1.0 - 1.0 / D) ** (-(D - 1.0) / 2) if D > 1 else 1.0
    return float(min(1.0, 2.0 * mean_coordinate * radius * density * roundness))


@dataclass(frozen=True, slots=True)
class Split:
    """A merge of the dendrogram, seen as the split of a cluster in two."""

    n_rows: tuple[float, float]  # of either part, copies counted
    shared: (
        float  # sum of the parts' shares of links to the other part, of those within the two, plus two standard errors
    )
    cloud: float  # the same for the halves of a homogeneous cloud of this size, dimension and extent
    dimension: float  # intrinsic dimension of the two together

    @property
    def ratio(self) -> float:
        """Links between the parts over those of a homogeneous cloud: near 1 for one cloud, 0 for separate clusters."""
        return self.shared / self.cloud


def splits(view: View, merging: Merging, n_merges: int) -> list[Split]:
    """Look at the last `n_merges` merges of a dendrogram, the last first."""
    tree = merging.tree
    if n_merges < 1:
        return []
    communities = np.asarray(view.links.to_host(merging.communities))
    degrees = np.asarray(view.links.to_host(view.links.degrees))
    total = max(float(degrees.sum()), np.finfo(float).tiny)
    shares = np.bincount(communities, degrees, minlength=tree.n_leaves) / total
    sizes = np.bincount(communities, view.weights, minlength=tree.n_leaves)
    order = np.argsort(communities, kind="stable")
    starts = np.searchsorted(communities[order], np.arange(tree.n_leaves + 1))
    graph = view.graph.host()
    dimensions = _inverse_dimensions(graph)
    first = max(0, len(tree.merges) - n_merges)
    members = _members(tree.cut(tree.n_leaves - first))
    owner = np.empty(tree.n_leaves, dtype=np.intp)
    for label, leaves in members.items():
        owner[leaves] = label
    n_neighbors = max(1, round(len(graph.indices) / max(1, graph.n_rows)))
    within = _weights_within(merging, first)
    compared: list[tuple[float, float, float, float]] = []
    some: list[IntVector] = []
    for (a, b), resolution in zip(tree.merges[first:], tree.resolutions[first:], strict=True):
        p, q = int(owner[a]), int(owner[b])
        parts = members.pop(q)
        leaves = members[p] = np.concatenate([members[p], parts])
        owner[parts] = p
        rows = np.concatenate([order[starts[leaf] : starts[leaf + 1]] for leaf in leaves])
        n_second = float(sizes[parts].sum())
        n_first = float(sizes[leaves].sum()) - n_second
        degree_second = float(shares[parts].sum()) * total
        degree_first = float(shares[leaves].sum()) * total - degree_second
        between = float(resolution) * degree_first * degree_second / total
        # Only links that stay within the two tell how they are joined: a piece of a cloud has most of its links
        # elsewhere, all around it.
        kept_first = max(within[p] + between, 1.0) / max(degree_first, 1.0)
        kept_second = max(within[q] + between, 1.0) / max(degree_second, 1.0)
        within[p] += within[q] + 2.0 * between
        # Links are counts: what two standard errors more would be is what counts as joining the two.
        upper = between + 2.0 * np.sqrt(between + 1.0)
        shared = upper / n_neighbors * (1.0 / (n_first * kept_first) + 1.0 / (n_second * kept_second))
        compared.append((n_first, n_second, shared, _dimension(dimensions[rows], view.Z.shape[1])))
        some.append(rows[:: max(1, len(rows) // EXTENT_ROWS)][:EXTENT_ROWS])
    # Rows of all clusters come to the host together: asking a device once for each would take longer.
    Z = np.asarray(view.engine.to_host(view.Z[np.concatenate(some)]), dtype=np.float64)
    extents = np.split(Z, np.cumsum([len(rows) for rows in some])[:-1])

    def roundness(i: int) -> float:
        return _roundness(extents[i], round(compared[i][3]))

    found = []
    for i, found_roundness in enumerate(ordered_map(roundness, range(len(compared)))):
        n_first, n_second, shared, dimension = compared[i]
        cloud = halved_cloud(n_first + n_second, dimension, n_neighbors, found_roundness)
        found.append(Split((n_first, n_second), shared, cloud, dimension))
    return found[::-1]


def _weights_within(merging: Merging, n_merges: int) -> FloatVector:
    """Weight of the links within each cluster that is left after the first merges."""
    tree, between = merging.tree, merging.between
    labels = tree.cut(tree.n_leaves - n_merges)
    inside = labels[between.nodes] == labels[between.others]
    return np.bincount(labels[between.nodes[inside]], between.weights[inside], minlength=tree.n_leaves) + np.bincount(
        labels, between.loops, minlength=tree.n_leaves
    )


def _members(labels: IntVector) -> dict[int, IntVector]:
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(int(labels.max()) + 2))
    return {c: order[edges[c] : edges[c + 1]] for c in range(len(edges) - 1)}


def _inverse_dimensions(graph: NeighborGraph) -> FloatVector:
    """Mean of log(r_k / r_j) over the neighbours of each row: one over its intrinsic dimension (Levina, Bickel)."""
    rows = graph.rows()
    farthest = graph.farthest()[rows]
    inner = (graph.distances > 0) & (graph.distances < farthest)
    ratios = np.log(farthest[inner] / graph.distances[inner])
    sums = np.bincount(rows[inner], ratios, minlength=graph.n_rows)
    counts = np.bincount(rows[inner], minlength=graph.n_rows)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _dimension(inverse_dimensions: FloatVector, n_columns: int) -> float:
    """Intrinsic dimension of a cluster, from what its rows say."""
    known = inverse_dimensions[np.isfinite(inverse_dimensions)]
    return float(np.clip(1.0 / known.mean(), 1.0, n_columns)) if len(known) and known.mean() > 0 else 1.0


def _roundness(Z: FloatMatrix, n_axes: int) -> float:
    """Geometric mean of the standard deviations of some rows along their longest axes, over the largest of them."""
    Z = Z - Z.mean(axis=0)
    # Variances along the axes, from whichever of the two products is smaller.
    variances = np.linalg.eigvalsh(Z @ Z.T if len(Z) < Z.shape[1] else Z.T @ Z)[::-1]
    leading = variances[: max(1, n_axes)]
    if leading[0] <= 0:
        return 1.0
    leading = np.maximum(leading / leading[0], np.finfo(float).eps)
    return float(np.exp(np.log(leading).mean() / 2))
