"""Separation of two clusters: the links between them, relative to the two halves of a homogeneous cloud."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector
from adaam.engines import NeighborGraph
from adaam.engines.blocks import for_each, row_blocks
from adaam.partition.dendrogram import Dendrogram
from adaam.partition.view import Merging, View

# Maximum number of rows of a cluster on which its extent is measured.
EXTENT_ROWS = 200
# Number of clusters whose extents are measured in one batch.
BATCH = 8


def halved_cloud(n_rows: float, dimension: float, n_neighbors: int, roundness: float) -> float:
    """Links between the two halves of a Gaussian cloud that is cut through its centre, across its longest axis.

    The result is the sum over the two halves of the share of a half's links that cross the cut. If the k neighbours of
    a row lie within a radius r much smaller than the cloud, the share of them beyond the cut depends on the distance of
    the row from the cut; integrating this share over the cloud gives

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


def least_first_split(dimension: float) -> float:
    """Lowest ratio that the first split of a homogeneous cloud has, as a rule, by its intrinsic dimension.

    A dendrogram cuts a cloud in few dimensions where it happens to be thin, and in many dimensions leaves more links
    than a cut through the centre. Fitted to the minima over generated clouds of six shapes (decision 0022, item 18).
    """
    return float(np.clip(0.15 + 0.3 * np.log(dimension), 0.3, 1.2))


@dataclass(frozen=True, slots=True)
class Split:
    """A merge of the dendrogram, seen as the split of a cluster in two."""

    n_rows: tuple[float, float]  # of either part, copies counted
    # Sum over the parts of the share of links to the other part among those within the two, plus two standard errors.
    shared: float
    cloud: float  # the same for the halves of a homogeneous cloud of this size, dimension and extent
    dimension: float  # intrinsic dimension of the two together

    @property
    def ratio(self) -> float:
        """Links between the parts over those of a homogeneous cloud: near 1 for one cloud, 0 for separate clusters."""
        return self.shared / self.cloud


def splits(view: View, merging: Merging, n_merges: int) -> list[Split]:
    """Return the last `n_merges` merges of a dendrogram as splits, the last merge first."""
    tree = merging.tree
    if n_merges < 1:
        return []
    first = max(0, len(tree.merges) - n_merges)
    parts = _merged_parts(tree, first)
    communities = np.asarray(view.links.to_host(merging.communities))
    sizes = np.bincount(communities, view.weights, minlength=tree.n_leaves)
    degrees = merging.between.degrees
    total = max(float(degrees.sum()), np.finfo(float).tiny)
    within = _weights_within(merging, first)
    graph = view.graph.host()
    n_neighbors = max(1, round(len(graph.indices) / max(1, graph.n_rows)))
    # Rows in the order of the leaves, in which every cluster is contiguous.
    place = np.empty(tree.n_leaves, dtype=np.intp)
    place[parts.leaves] = np.arange(tree.n_leaves)
    rows = np.argsort(place[communities], kind="stable")
    starts = np.searchsorted(place[communities[rows]], np.arange(tree.n_leaves + 1))
    inverse = _inverse_dimensions(graph)[rows]
    known = np.isfinite(inverse)
    n_known, of_known = _sums_before(known), _sums_before(np.where(known, inverse, 0.0))
    sizes_before, degrees_before = _sums_before(sizes[parts.leaves]), _sums_before(degrees[parts.leaves])
    compared: list[tuple[float, float, float, float]] = []
    some: list[IntVector] = []
    edges = zip(parts.begin, parts.middle, parts.end, parts.labels, tree.resolutions[first:], strict=True)
    for begin, middle, end, (p, q), resolution in edges:
        n_first, n_second = np.diff(sizes_before[[begin, middle, end]]).tolist()
        degree_first, degree_second = np.diff(degrees_before[[begin, middle, end]]).tolist()
        between = float(resolution) * degree_first * degree_second / total
        # Only links within the two parts count: a piece of a cloud has most of its links to other pieces around it.
        kept_first = max(within[p] + between, 1.0) / max(degree_first, 1.0)
        kept_second = max(within[q] + between, 1.0) / max(degree_second, 1.0)
        within[p] += within[q] + 2.0 * between
        # Links are counts with a sampling error: two standard errors are added. Parts without any link between them are
        # certainly separate.
        upper = between + 2.0 * np.sqrt(between + 1.0) if between > 0.0 else 0.0
        shared = upper / n_neighbors * (1.0 / (n_first * kept_first) + 1.0 / (n_second * kept_second))
        here = slice(starts[begin], starts[end])
        count, inverses = (sums[here.stop] - sums[here.start] for sums in (n_known, of_known))
        dimension = float(np.clip(count / inverses, 1.0, view.Z.shape[1])) if inverses > 0 else 1.0
        compared.append((n_first, n_second, shared, dimension))
        some.append(rows[here][:: max(1, (here.stop - here.start) // EXTENT_ROWS)][:EXTENT_ROWS])
    roundness = _roundness_of_each(view, some, np.array([round(dimension) for *_, dimension in compared]))
    found = []
    for (n_first, n_second, shared, dimension), roundness_here in zip(compared, roundness.tolist(), strict=True):
        cloud = halved_cloud(n_first + n_second, dimension, n_neighbors, roundness_here)
        found.append(Split((n_first, n_second), shared, cloud, dimension))
    return found[::-1]


class _MergedParts(NamedTuple):
    """Leaves in an order in which every cluster is contiguous, and the positions of the two parts of each merge."""

    leaves: IntVector
    begin: IntVector  # of the first part
    middle: IntVector  # end of the first part, and begin of the second
    end: IntVector
    labels: IntMatrix  # of the two parts, as `Dendrogram.cut` numbers the clusters that the merges begin with


def _merged_parts(tree: Dendrogram, first: int) -> _MergedParts:
    """Order the leaves for all merges from merge `first` on."""
    labels = tree.cut(tree.n_leaves - first)
    merged = labels[tree.merges[first:]]
    lengths = np.bincount(labels)
    spans = []
    for p, q in merged.tolist():
        spans.append((lengths[p], lengths[q]))
        lengths[p] += lengths[q]
    begins = np.zeros(len(lengths), dtype=np.intp)
    for (p, q), (length, _) in zip(merged[::-1].tolist(), spans[::-1], strict=True):
        begins[q] = begins[p] + length
    # The second part of a merge is placed behind the first, so a cluster begins where its first part does.
    begin = begins[merged[:, 0]]
    middle = begin + np.array([length for length, _ in spans])
    leaves = np.argsort(begins[labels], kind="stable")
    return _MergedParts(leaves, begin, middle, middle + np.array([length for _, length in spans]), merged)


def _sums_before(values: FloatVector) -> FloatVector:
    """Prefix sums: of the entries before each place, and of all."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _weights_within(merging: Merging, n_merges: int) -> FloatVector:
    """Weight of the links within each cluster after the first `n_merges` merges."""
    tree, between = merging.tree, merging.between
    labels = tree.cut(tree.n_leaves - n_merges)
    inside = labels[between.nodes] == labels[between.others]
    return np.bincount(labels[between.nodes[inside]], between.weights[inside], minlength=tree.n_leaves) + np.bincount(
        labels, between.loops, minlength=tree.n_leaves
    )


def _inverse_dimensions(graph: NeighborGraph) -> FloatVector:
    """Mean of log(r_k / r_j) over the neighbours of each row: one over its intrinsic dimension (Levina, Bickel)."""
    rows = graph.rows()
    farthest = graph.farthest()[rows]
    inner = (graph.distances > 0) & (graph.distances < farthest)
    ratios = np.log(farthest[inner] / graph.distances[inner])
    sums = np.bincount(rows[inner], ratios, minlength=graph.n_rows)
    counts = np.bincount(rows[inner], minlength=graph.n_rows)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _roundness_of_each(view: View, some: Sequence[IntVector], n_axes: IntVector) -> FloatVector:
    """Roundness of clusters, each measured on some of its rows."""
    # One transfer of the rows of all clusters to the host is faster than one for each.
    Z = np.asarray(view.engine.to_host(view.Z[np.concatenate(some)]), dtype=np.float64)
    lengths = np.array([len(rows) for rows in some])
    extents = np.split(Z, np.cumsum(lengths)[:-1])
    batches = [
        alike[block]
        for alike in (np.flatnonzero(lengths == length) for length in np.unique(lengths))
        for block in row_blocks(len(alike), BATCH)
    ]
    roundness = np.empty(len(some))

    def measure(batch: IntVector) -> None:
        roundness[batch] = _roundness(np.stack([extents[i] for i in batch]), n_axes[batch])

    for_each(measure, batches)
    return roundness


def _roundness(Z: FloatMatrix, n_axes: IntVector) -> FloatVector:
    """Geometric mean of the standard deviations along the longest axes, over the largest, of clusters of equal size."""
    Z = Z - Z.mean(axis=1, keepdims=True)
    # Variances along the axes, from whichever of the two products is smaller.
    turned = Z.transpose(0, 2, 1)
    variances = np.linalg.eigvalsh(Z @ turned if Z.shape[1] < Z.shape[2] else turned @ Z)[:, ::-1]
    found = np.ones(len(Z))
    for i in np.flatnonzero(variances[:, 0] > 0).tolist():
        leading = variances[i, : max(1, int(n_axes[i]))] / variances[i, 0]
        found[i] = np.exp(np.log(np.maximum(leading, np.finfo(float).eps)).mean() / 2)
    return found
