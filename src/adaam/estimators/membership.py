"""How surely rows belong to clusters, and how far they lie from all of them: for known rows and for new ones."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import FloatMatrix, FloatVector, IntMatrix, IntVector, Tall
from adaam.engines import Engine
from adaam.partition import LINKS_PER_ROW, View

# A nearest row this much nearer than the farthest voter is the same row: mapped twice, it differs by rounding.
SAME_ROW = 1e-6


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Partitioned rows in the metric, which new rows are compared with."""

    Z: FloatMatrix
    radii: FloatVector  # distance of each to the farthest of its neighbours


@dataclass(frozen=True, slots=True)
class Voters:
    """Nearest known rows of new rows, nearest first."""

    indices: IntMatrix
    distances: FloatMatrix

    def labels(self, known: IntVector) -> IntVector:
        """Label that most voters have; the nearest decides between equals. A row that is known keeps its own."""
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
        """One less the voters' mean radius over the row's own, 0 where that is no larger."""
        return outlier_scores(self.distances[:, -1], radii[self.indices].mean(axis=1))


def voters(Z: Tall, known: KnownRows, engine: Engine) -> Voters:
    """Find the nearest known rows of new ones."""
    return Voters(*engine.nearest_known(Z, known.Z, LINKS_PER_ROW))


def place_values(n_voters: int) -> FloatVector:
    """Worth of a vote by place, nearest first: a little less each time, which decides ties and nothing else."""
    return np.asarray(1.0 - np.arange(n_voters) / (2.0 * n_voters**2))


def outlier_scores(radii: FloatVector, around: FloatVector) -> FloatVector:
    """Score of rows whose neighbours reach so far, where those of the rows around reach so far: 0 to 1."""
    return np.where(radii > around, 1.0 - around / np.where(radii > 0, radii, 1.0), 0.0)


@dataclass(frozen=True, slots=True)
class Strengths:
    """Of partitioned rows: share of links with each cluster, radius and outlier score."""

    memberships: csr_array
    radii: FloatVector
    outlier_scores: FloatVector


def strengths(view: View, labels: IntVector, n_clusters: int) -> Strengths:
    """Measure how surely the rows of a view belong to their clusters, from their links and neighbours."""
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
    """Membership of each row in its own cluster; 0 where it has none."""
    rows = np.repeat(np.arange(memberships.shape[0]), np.diff(memberships.indptr))
    own = memberships.indices == labels[rows]
    return np.bincount(rows[own], memberships.data[own], minlength=memberships.shape[0])


def cluster_order(centers: FloatMatrix, sizes: FloatVector, scale: float) -> IntVector:
    """Order of clusters from the largest to the smallest, so that the order of rows does not name them.

    Equal sizes are told apart by the first coordinates, of which a few are enough; rounding must not decide.
    """
    places = np.round(centers[:, :4] / max(scale, np.finfo(np.float64).tiny), 4)
    return np.lexsort((*places.T[::-1], -np.round(sizes, 9)))
