"""Consensus partition of several starts, which depends less on the seed than a single one."""

from collections.abc import Sequence
from typing import Any

from sklearn.metrics import adjusted_rand_score

from adaam.engines.blocks import ordered_map
from adaam.partition.exchange import Partition, partition
from adaam.partition.modularity import modularity_gain, row_modularity
from adaam.partition.view import View

# Factor on the weight of a link between rows that no start puts in one cluster (Poulin, Theberge 2018).
LEAST_WEIGHT = 0.05
# Adjusted Rand index above which starts agree; if the first few do, no more are made and no consensus is needed.
AGREED = 0.99
FIRST_STARTS = 3
# Up to this many rows, partitions are fast and the consensus depends on the starts: MORE_STARTS times as many are made.
FEW_ROWS = 5_000
MORE_STARTS = 2
# Above this many rows, partitions take long and vary less: no more than FEW_STARTS are made.
MANY_ROWS = 20_000
FEW_STARTS = 4


def consensus_partition(view: View, n_clusters: int, seed: int, n_starts: int) -> tuple[Partition, tuple[float, ...]]:
    """Partition the rows of a view several times, and again along links weighted by the agreement of these partitions.

    Partitions of nearly equal modularity may differ widely, and the seed decides which of them is best. So links are
    weighted by the share of starts that put both rows in one cluster, and the rows are partitioned along these links
    (Lancichinetti, Fortunato 2012), unless a start has a clearly higher modularity on the original links.

    Returns
    -------
    partition : Partition
        The consensus, or the start of highest modularity if all starts agree or if it is clearly better.
    agreement : tuple of float
        Adjusted Rand index of each start with it; of each other start if it is a start itself.
    """
    starts: list[Partition] = []
    if view.n_rows <= FEW_ROWS:
        n_first = n_starts = MORE_STARTS * n_starts if n_starts > 1 else 1
    else:
        n_starts = min(n_starts, FEW_STARTS) if view.n_rows > MANY_ROWS else n_starts
        n_first = min(n_starts, FEW_STARTS if view.n_rows > MANY_ROWS else FIRST_STARTS)
    for more in filter(len, (range(n_first), range(n_first, n_starts))):
        starts += _partitions(view, n_clusters, seed, more)
        best = max(starts, key=_modularity)
        agreement = _agreement(view, best, [start for start in starts if start is not best])
        if min(agreement, default=1.0) > AGREED:
            return best, agreement
    agreed = view.along(_agreed_links(view, starts))
    found = partition(agreed, n_clusters, seed)  # starts on these links differ little
    of_best, of_found = (row_modularity(view.links, each.labels) for each in (best, found))
    if modularity_gain(of_best, of_found).is_clear:
        return best, agreement
    return found, _agreement(view, found, starts)


def best_partition(view: View, n_clusters: int, seed: int, starts: range) -> Partition:
    """Return the partition of highest modularity among some starts."""
    return max(_partitions(view, n_clusters, seed, starts), key=_modularity)


def _partitions(view: View, n_clusters: int, seed: int, starts: range) -> list[Partition]:
    _ = view.links
    # A partition runs on one thread, so several run in parallel, also if a GPU does part of the work.
    return list(ordered_map(lambda start: partition(view, n_clusters, seed + start), starts))


def _agreed_links(view: View, starts: Sequence[Partition]) -> Any:
    """Links, weighted by the share of partitions that put both rows in one cluster."""
    links = view.links
    together = sum((start.labels[links.nodes] == start.labels[links.others]) * (1.0 / len(starts)) for start in starts)
    return links.scaled(LEAST_WEIGHT + (1.0 - LEAST_WEIGHT) * together)


def _agreement(view: View, kept: Partition, others: Sequence[Partition]) -> tuple[float, ...]:
    labels = view.links.to_host(kept.labels)
    return tuple(float(adjusted_rand_score(labels, view.links.to_host(other.labels))) for other in others)


def _modularity(found: Partition) -> float:
    return found.modularity
