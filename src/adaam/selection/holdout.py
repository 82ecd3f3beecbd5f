"""Hold-out test of learned maps, on rows they were not learned from."""

from collections.abc import Callable, Sequence

import numpy as np

from adaam._typing import FloatMatrix, FloatVector
from adaam.engines.blocks import ordered_map
from adaam.partition import LINKS_PER_ROW, View, modularity_gain, partition, row_modularity
from adaam.selection.family import WIDTHS, Candidate, Prepared, learned_maps, learning_rows, random_rows

Maps = list[tuple[Candidate, Callable[[], FloatMatrix]]]
# Fewest rows per cluster in a half: with fewer, the ten links of a row reach too far beyond its cluster.
FEWEST_ROWS_PER_CLUSTER = 2 * LINKS_PER_ROW


def sound_maps(
    prepared: Prepared, n_clusters: int, widths: Sequence[int] = WIDTHS, *, cosine: bool = False
) -> tuple[Maps, list[Candidate]]:
    """Return the maps of all widths, except those that fail on rows they were not learned from.

    With few rows in many columns, a map can overfit: it creates clusters of the rows it is learned from. So a map of
    the same width is learned from a random half of the rows and tried on the other half; it fails if modularity there
    is clearly lower than that of the rows as they are. Both are compared by `cosine` or by Euclidean distance. None is
    left out if halves have too few rows per cluster, or if maps are learned from at most half of the rows, since the
    search scores them on the others too.

    Returns
    -------
    maps : list of (Candidate, callable)
        What `learned_maps` returns for the widths that did not fail.
    failed : list of Candidate
        The others.
    """
    maps = learned_maps(prepared, n_clusters, widths)
    n_half = prepared.sample.n_rows // 2
    if learning_rows(n_clusters) <= n_half or n_half < FEWEST_ROWS_PER_CLUSTER * n_clusters:
        return maps, []
    learned_from = np.zeros(prepared.sample.n_rows, dtype=bool)
    learned_from[random_rows(prepared.ranks, n_half, seed=1)] = True
    first, other = (prepared.some(np.flatnonzero(rows)) for rows in (learned_from, ~learned_from))
    plain = partition_modularity(other.view(cosine=cosine), n_clusters)

    def holds(components: Callable[[], FloatMatrix]) -> bool:
        found = partition_modularity(other.view(components(), cosine=cosine), n_clusters)
        return not modularity_gain(plain, found).is_clear

    tried = learned_maps(first, n_clusters, widths)
    verdicts = ordered_map(holds, [components for _, components in tried])
    failed = [candidate for (candidate, _), held in zip(tried, verdicts, strict=True) if not held]
    return [found for found in maps if found[0] not in failed], failed


def partition_modularity(view: View, n_clusters: int) -> FloatVector:
    """Contribution of each row to the modularity of a partition into `n_clusters` clusters, from one start."""
    return row_modularity(view.links, partition(view, n_clusters, 0).labels)
