"""How far two clusters are apart, measured by what a cut through one homogeneous cloud leaves between its halves."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from adaam._typing import FloatMatrix, FloatVector, IntVector
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
    shared: float  # sum of the shares of links that lead to the other part, two standard errors above what was found
    cloud: float  # the same for the halves of a homogeneous cloud of this size, dimension and extent

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
    dimensions = _inverse_dimensions(view)
    first = max(0, len(tree.merges) - n_merges)
    members = _members(tree.cut(tree.n_leaves - first))
    owner = np.empty(tree.n_leaves, dtype=np.intp)
    for label, leaves in members.items():
        owner[leaves] = label
    n_neighbors = _n_neighbors(view)
    found = []
    for (a, b), resolution in zip(tree.merges[first:], tree.resolutions[first:], strict=True):
        p, q = int(owner[a]), int(owner[b])
        parts = members.pop(q)
        leaves = members[p] = np.concatenate([members[p], parts])
        owner[parts] = p
        rows = np.concatenate([order[starts[leaf] : starts[leaf + 1]] for leaf in leaves])
        n_second = float(sizes[parts].sum())
        n_first = float(sizes[leaves].sum()) - n_second
        between = float(resolution * shares[parts].sum() * (shares[leaves].sum() - shares[parts].sum())) * total
        # Links are counts: what two standard errors more would be is what counts as joining the two.
        upper = between + 2.0 * np.sqrt(between + 1.0)
        shared = upper * (1.0 / (n_first * n_neighbors) + 1.0 / (n_second * n_neighbors))
        cloud = halved_cloud(n_first + n_second, *_shape(view, rows, dimensions[rows], n_neighbors))
        found.append(Split((n_first, n_second), shared, cloud))
    return found[::-1]


def _members(labels: IntVector) -> dict[int, IntVector]:
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(int(labels.max()) + 2))
    return {c: order[edges[c] : edges[c + 1]] for c in range(len(edges) - 1)}


def _n_neighbors(view: View) -> int:
    graph = view.graph.host()
    return max(1, round(len(graph.indices) / max(1, graph.n_rows)))


def _inverse_dimensions(view: View) -> FloatVector:
    """Mean of log(r_k / r_j) over the neighbours of each row: one over its intrinsic dimension (Levina, Bickel)."""
    graph = view.graph.host()
    rows = graph.rows()
    farthest = graph.farthest()[rows]
    inner = (graph.distances > 0) & (graph.distances < farthest)
    ratios = np.log(farthest[inner] / graph.distances[inner])
    sums = np.bincount(rows[inner], ratios, minlength=view.n_rows)
    counts = np.bincount(rows[inner], minlength=view.n_rows)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _shape(view: View, rows: IntVector, inverse_dimensions: FloatVector, n_neighbors: int) -> tuple[float, int, float]:
    """Intrinsic dimension, neighbours, and roundness of a cluster."""
    n_columns = view.Z.shape[1]
    known = inverse_dimensions[np.isfinite(inverse_dimensions)]
    dimension = float(np.clip(1.0 / known.mean(), 1.0, n_columns)) if len(known) and known.mean() > 0 else 1.0
    some = rows[:: max(1, len(rows) // EXTENT_ROWS)][:EXTENT_ROWS]
    Z: FloatMatrix = view.host_rows()[some]
    Z = Z - Z.mean(axis=0)
    # Variances along the axes, from whichever of the two products is smaller.
    variances = np.linalg.eigvalsh(Z @ Z.T if len(Z) < n_columns else Z.T @ Z)[::-1]
    leading = variances[: max(1, round(dimension))]
    if leading[0] <= 0:
        return dimension, n_neighbors, 1.0
    leading = np.maximum(leading / leading[0], np.finfo(float).eps)
    return dimension, n_neighbors, float(np.exp(np.log(leading).mean() / 2))
