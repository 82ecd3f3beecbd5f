"""A partition that does not hang on a seed: what several starts agree on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sklearn.metrics import adjusted_rand_score

from adaam.engines.blocks import ordered_map
from adaam.partition.exchange import Partition, partition
from adaam.partition.modularity import modularity_gain, row_modularity
from adaam.partition.view import View

# What is left of the weight of a link between rows that no start puts together (Poulin, Theberge 2018).
LEAST_WEIGHT = 0.05
# A start whose modularity is higher by more than so many standard errors is taken in place of the consensus.
N_ERRORS = 2.0
# Starts on the links weighted by agreement, which differ little.
N_AGREED_STARTS = 4
# Starts that agree by more than this have nothing to settle; where the first few do, no more are made.
AGREED = 0.99
FIRST_STARTS = 3
# Of many rows, whose partitions take long and differ less, no more than these.
MANY_ROWS = 20_000
FEW_STARTS = 4


def consensus_partition(view: View, n_clusters: int, seed: int, n_starts: int) -> tuple[Partition, tuple[float, ...]]:
    """Partition the rows of a view several times, and again along the links on which these partitions agree.

    Partitions of nearly equal modularity may differ widely, and which of them is highest hangs on the seed. So links
    are weighted by the share of starts that have both rows in one cluster, and the partition of highest modularity on
    these links is taken (Lancichinetti, Fortunato 2012), unless a start has clearly more on the links as they are.

    Returns
    -------
    partition : Partition
        The consensus; the partition of highest modularity where all starts agree, or where it is clearly better.
    agreement : tuple of float
        Adjusted Rand index of each start with it; of each other start where one of them was taken.
    """
    if view.n_rows > MANY_ROWS:
        n_starts = min(n_starts, FEW_STARTS)
    starts: list[Partition] = []
    for more in (range(min(n_starts, FIRST_STARTS)), range(FIRST_STARTS, n_starts)):
        starts += _partitions(view, n_clusters, seed, more)
        best = max(starts, key=_modularity)
        agreement = _agreement(view, best, [start for start in starts if start is not best])
        if min(agreement, default=1.0) > AGREED:
            return best, agreement
    agreed = replace(view, _made={"graph": view.graph, "links": _agreed_links(view, starts)})
    found = max(_partitions(agreed, n_clusters, seed, range(min(n_starts, N_AGREED_STARTS))), key=_modularity)
    if modularity_gain(row_modularity(view.links, best.labels), row_modularity(view.links, found.labels)).exceeds(
        N_ERRORS
    ):
        return best, agreement
    return found, _agreement(view, found, starts)


def _partitions(view: View, n_clusters: int, seed: int, starts: range) -> list[Partition]:
    _ = view.links
    # Partitions of the CPU engine run on one thread each, so side by side.
    each = ordered_map if view.engine.name == "cpu" else map
    return list(each(lambda start: partition(view, n_clusters, seed + start), starts))


def _agreed_links(view: View, starts: Sequence[Partition]) -> Any:
    """Links, weighted by the share of partitions that have both rows in one cluster."""
    links = view.links
    together = sum((start.labels[links.nodes] == start.labels[links.others]) * (1.0 / len(starts)) for start in starts)
    return links.scaled(LEAST_WEIGHT + (1.0 - LEAST_WEIGHT) * together)


def _agreement(view: View, kept: Partition, others: Sequence[Partition]) -> tuple[float, ...]:
    labels = view.links.to_host(kept.labels)
    return tuple(float(adjusted_rand_score(labels, view.links.to_host(other.labels))) for other in others)


def _modularity(found: Partition) -> float:
    return found.modularity
