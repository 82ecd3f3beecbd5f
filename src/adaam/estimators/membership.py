"""Memberships of rows in clusters, and outlier scores, for partitioned rows and for new ones."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector, Tall
from adaam.engines import Engine
from adaam.partition import LINKS_PER_ROW, View
from adaam.prepare import unit_rows

# Up to this share of the distance of the farthest voter, the nearest voter is the row itself, mapped with rounding.
SAME_ROW = 1e-6


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Partitioned rows in the metric, which new rows are compared with."""

    Z: FloatMatrix
    radii: FloatVector  # distance of each to the farthest of its neighbours
    cosine: bool = False  # whether rows are compared after scaling to unit length


@dataclass(frozen=True, slots=True)
class Voters:
    """Nearest known rows of new rows, nearest first."""

    indices: IntMatrix
    distances: FloatMatrix

    def labels(self, known: IntVector) -> IntVector:
        """Label by majority vote; ties go to the nearer voters. A row that is known keeps its own label."""
        votes = known[self.indices]
        (n, n_voters), n_labels = votes.shape, int(known.max()) + 1
        if n * n_labels > 1 << 24:
            parts = [Voters(self.indices[rows], self.distances[rows]) for rows in (slice(n // 2), slice(n // 2, None))]
            return np.concatenate([part.labels(known) for part in parts])
        counts = np.zeros((n, n_labels))
        np.add.at(counts, (np.arange(n)[:, None], votes), place_values(n_voters))
        same = self.distances[:, 0] <= SAME_ROW * self.distances[:, -1]
        return np.asarray(np.where(same, votes[:, 0], counts.argmax(axis=1)))

    def memberships(self, known: IntVector, n_clusters: int) -> csr_array:
        """Share of the voters that each cluster has."""
        n, n_voters = self.indices.shape
        entries = (np.full(n * n_voters, 1.0 / n_voters), known[self.indices].ravel(), np.arange(n + 1) * n_voters)
        shares = csr_array(entries, shape=(n, n_clusters))
        shares.sum_duplicates()
        return shares

    def outlier_scores(self, radii: FloatVector) -> FloatVector:
        """1 minus the voters' mean radius over the row's own radius; 0 if the row's is not larger."""
        return outlier_scores(self.distances[:, -1], radii[self.indices].mean(axis=1))


def voters(Z: Tall, known: KnownRows, engine: Engine) -> Voters:
    """Find the nearest known rows of new ones."""
    points = known.Z
    if known.cosine:
        Z, points = unit_rows(Z, engine), unit_rows(points)
    return Voters(*engine.nearest_known(Z, points, LINKS_PER_ROW))


def place_values(n_voters: int) -> FloatVector:
    """Weight of a vote by rank, nearest first: it decreases by so little that it only breaks ties."""
    return np.asarray(1.0 - np.arange(n_voters) / (2.0 * n_voters**2))


def outlier_scores(radii: FloatVector, around: FloatVector) -> FloatVector:
    """Outlier scores, from 0 to 1, of rows with these radii if the mean radius around each is `around`."""
    return np.where(radii > around, 1.0 - around / np.where(radii > 0, radii, 1.0), 0.0)


@dataclass(frozen=True, slots=True)
class Strengths:
    """Share of links with each cluster, radius and outlier score of partitioned rows."""

    memberships: csr_array
    radii: FloatVector
    outlier_scores: FloatVector


def strengths(view: View, labels: IntVector, n_clusters: int) -> Strengths:
    """Compute memberships, radii and outlier scores of the rows of a view from their links and neighbours."""
    links = view.links
    where = links.asarray(labels)
    nodes, found, sums = (links.to_host(part) for part in links.sums_by_label(where, n_clusters))
    loops = np.asarray(links.to_host(links.loops))
    own = np.arange(view.n_rows)
    shares = csr_array((sums, (nodes, found)), shape=(view.n_rows, n_clusters))
    shares = csr_array(shares + csr_array((loops, (own, labels)), shape=shares.shape))
    totals = np.asarray(shares.sum(axis=1)).ravel()
    lonely = totals <= 0
    shares = csr_array(shares + csr_array((lonely.astype(float), (own, labels)), shape=shares.shape))
    shares.eliminate_zeros()
    shares.data /= np.repeat(np.where(lonely, 1.0, totals), np.diff(shares.indptr))
    radii = np.asarray(view.engine.to_host(view.graph.farthest()), dtype=np.float64)
    around = np.asarray(links.to_host(links.smoothed(links.asarray(radii))))
    return Strengths(shares, radii, outlier_scores(radii, around))


def own_shares(memberships: csr_array, labels: IntVector) -> FloatVector:
    """Membership of each row in its own cluster; 0 if it has none."""
    rows = np.repeat(np.arange(memberships.shape[0]), np.diff(memberships.indptr))
    own = memberships.indices == labels[rows]
    return np.bincount(rows[own], memberships.data[own], minlength=memberships.shape[0])


def cluster_order(centers: FloatMatrix, sizes: FloatVector, scale: float) -> IntVector:
    """Order of clusters from the largest to the smallest, so that their numbers do not depend on the order of rows.

    Ties are broken by the first few coordinates of the centres, rounded so that numerical errors have no effect.
    """
    places = np.round(centers[:, :4] / max(scale, np.finfo(np.float64).tiny), 4)
    return np.lexsort((*places.T[::-1], -np.round(sizes, 9)))
