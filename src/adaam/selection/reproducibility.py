"""Reproducibility of clusters: how far those made from one sample of the rows agree with those made from another."""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

from adaam._typing import IntVector
from adaam.engines.blocks import ordered_map
from adaam.partition import LINKS_PER_ROW, View
from adaam.selection.family import Prepared, learned_maps, random_rows

# Share of the rows in a sample: SHARE, or more, up to LARGEST_SHARE, for so many rows per cluster. With fewer, the ten
# links of a row extend beyond its cluster.
SHARE, LARGEST_SHARE = 0.6, 0.75
ROWS_PER_CLUSTER = 2 * LINKS_PER_ROW
# Samples are added, two at a time, until the sum of the gains is clear, or until there are MOST_SAMPLES.
MOST_SAMPLES = 6
CLEAR = 0.075
# Most rows from which samples are drawn: the larger of the two.
MOST_ROWS = 4_000
MOST_ROWS_PER_CLUSTER = 40
# Fewest rows of a sample per cluster from which anything can be said.
FEWEST_ROWS_PER_CLUSTER = 3


class Way(NamedTuple):
    """A way to cluster rows: in which preparation, learned map and distance, and by which head."""

    source: Prepared
    width: int  # of the learned map, in columns per cluster; 0 means the prepared rows as they are
    cosine: bool
    cluster: Callable[[View], Any]  # cluster of each row of a view, stored like its links


class Comparison(NamedTuple):
    """Reproducibility of the clusters of two ways; NaN if no samples were drawn."""

    first: float
    second: float

    @property
    def gain(self) -> float:
        """Gain of the first way over the second; 0 if no samples were drawn."""
        return float(np.nan_to_num(self.first - self.second))


def compare(first: Way, second: Way, n_clusters: int, gained: float = 0.0) -> Comparison:
    """Compare how reproducible the clusters of two ways are.

    A sample of the rows is clustered on its own, in a metric that is learned from it alone; the other rows join the
    cluster of the nearest row of the sample. The reproducibility is the mean adjusted Rand index of the clusters from
    different samples (Ben-Hur et al. 2002, Lange et al. 2004). It is low if a metric adapts to accidents of a sample,
    or emphasises structure that is not firm, even if clusters look separate in it. Since partitions are compared,
    metrics with few columns have no advantage.

    `gained` is the gain of the first way by another measure. No samples are drawn if it is clear by itself, or if there
    are too few rows per cluster.
    """
    n_rows = min(first.source.sample.n_rows, max(MOST_ROWS, MOST_ROWS_PER_CLUSTER * n_clusters))
    size = round(n_rows * float(np.clip(ROWS_PER_CLUSTER * n_clusters / n_rows, SHARE, LARGEST_SHARE)))
    found = Comparison(np.nan, np.nan)
    if size < FEWEST_ROWS_PER_CLUSTER * n_clusters:
        return found

    def clusters(task: tuple[Way, int]) -> IntVector:
        way, seed = task
        return _clusters_from(way, random_rows(way.source.ranks, size, seed), n_clusters)

    ways = [_at_most(n_rows, way) for way in (first, second)]
    ours: list[IntVector] = []
    theirs: list[IntVector] = []
    for seed in range(1, MOST_SAMPLES, 2):
        if abs(found.gain + gained) > CLEAR:
            break
        labels = list(ordered_map(clusters, list(product(ways, (seed, seed + 1)))))
        ours += labels[:2]
        theirs += labels[2:]
        found = Comparison(_agreement(ours), _agreement(theirs))
    return found


def _agreement(partitions: Sequence[IntVector]) -> float:
    return float(np.mean([adjusted_rand_score(*pair) for pair in combinations(partitions, 2)]))


def _at_most(n_rows: int, way: Way) -> Way:
    """Return the same way with a random sample of the rows if there are more."""
    source = way.source
    if source.sample.n_rows <= n_rows:
        return way
    return way._replace(source=source.some(random_rows(source.ranks, n_rows, seed=0)))


def _clusters_from(way: Way, rows: IntVector, n_clusters: int) -> IntVector:
    """Cluster some rows, and assign the others to the cluster of the nearest of them."""
    source, sample = way.source, way.source.some(rows)
    components = None
    if way.width:
        ((_, learn),) = learned_maps(sample, n_clusters, (way.width,))
        components = learn()
    view = sample.view(components, cosine=way.cosine)
    labels = np.empty(source.sample.n_rows, dtype=np.intp)
    labels[rows] = view.links.to_host(way.cluster(view))
    others = np.setdiff1d(np.arange(len(labels)), rows)
    mapped = source.some(others).view(components, cosine=way.cosine)
    nearest, _ = view.engine.nearest_known(mapped.Z, np.asarray(view.engine.to_host(view.Z)), 1)
    labels[others] = labels[rows[nearest[:, 0]]]
    return labels
