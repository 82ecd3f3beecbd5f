"""Estimate of the number of clusters, with its uncertainty."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from adaam._typing import FloatVector
from adaam.partition import View, merging, modularity_gain, partition, row_modularity
from adaam.partition.separation import Split, least_first_split, splits
from adaam.partition.view import Merging
from adaam.selection.family import Prepared, learned_maps

# Two parts of a cluster are separate if the links between them are fewer than this share of the links between the
# halves of a homogeneous cloud.
SEPARATE = 0.45
# They are also separate below this share of the lowest ratio that the first split of a homogeneous cloud has
# (`least_first_split`). For the first split itself, which distinguishes two clusters from one, the share is 1.
SEPARATE_SHARE = 0.6
# Clusters may be separate although the groups they form touch, so that no split from the root down is clear. Splits
# below this ratio count at any depth; the pieces of a single cloud border on several others and rarely have so few
# links (decision 0022, item 17).
CLEARLY_SEPARATE = 0.25
# Limit for clusters that modularity does not split at resolution 1: splitting them needs stronger evidence.
BEYOND_MODULARITY = 0.1
# Fewest rows of a cluster, copies counted: a row and its ten neighbours.
SMALLEST = 11
N_STARTS = 4
# Settings of the range: factor on the limits above and resolution of modularity; those of the estimate come first. The
# range contains the number of classes in about six cases out of ten (decision 0022, items 14, 17, 18 and 27).
SETTINGS = ((1.0, 1.0), (0.4, 1.0), (1.6, 4.0))
# Columns per cluster of the map that is learned for a number of clusters, and most rounds of number and map in turn.
WIDTH = 2
MAX_ROUNDS = 6
# Largest difference of logarithms at which two numbers of clusters count as equal.
SAME_NUMBER = 0.1


@dataclass(frozen=True, slots=True)
class ClusterCount:
    """Estimated number of clusters.

    Attributes
    ----------
    n_clusters : int
        The estimate.
    low, high : int
        Range of the estimates over several starts, thresholds of separation and resolutions of modularity, the lowest
        and highest tenths left out.
    modularities : ndarray of shape (n_max,)
        Modularity at 1, 2, ... clusters, in the metric that the estimate was made in.
    separations : ndarray of shape (n_max,)
        Entry c - 1 tells how separate the two clusters are whose merge leaves c of them: links between the two over
        those between the halves of a homogeneous cloud. 0 means separate; near 1, or above, means one cloud.
    steps : tuple of str
        How metric and number were found in turn, in words.
    """

    n_clusters: int
    low: int
    high: int
    modularities: FloatVector
    separations: FloatVector
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        numbers = "the same" if self.low == self.high else f"{self.low} to {self.high}"
        found = f"{_clusters(self.n_clusters)} found ({numbers} with other starts, thresholds and resolutions)."
        return "\n".join([found, *self.steps])


def _clusters(number: int) -> str:
    return "1 cluster" if number == 1 else f"{number} clusters"


@dataclass(frozen=True, slots=True)
class _Counted:
    """A number of clusters in one view, and what it was read from."""

    number: int
    numbers: tuple[int, ...]  # over starts and thresholds
    n_fine: int  # clusters of highest modularity
    merging: Merging
    splits: tuple[Split, ...]


def count_clusters(prepared: Sequence[Prepared]) -> ClusterCount:
    """Estimate the number of clusters.

    Small communities of the neighbour graph are merged into a dendrogram. From its root down, a cluster is split if its
    two parts are separate: the links between them are fewer than 0.45 of those between the halves of a homogeneous
    cloud of the same size, extent and intrinsic dimension. In many dimensions, where the split of a cloud leaves more
    links, the limit is higher, and it is highest for the first split, which distinguishes two clusters from one.
    Clusters that modularity does not split need stronger evidence; this finds small clusters among very many.

    The graph of the rows as they are can be misleading, and learning a metric takes a number of clusters. So the two
    are found in turn: a metric for the number of clusters that modularity finds, the number in that metric, and so on
    until it repeats, as long as the learned metric is clearly better. The number is taken that changes least in the
    metric learned for it.
    """
    best, names = _pooled([(p.name, p.view()) for p in prepared])
    steps = [f"Rows as they are ({names}): {_clusters(best.number)} by separation, {best.n_fine} by modularity."]
    wanted, seen, strays = best.n_fine, {best.n_fine}, [(np.inf, best)]
    for _ in range(MAX_ROUNDS):
        if wanted < 2:
            break
        learned = _learned_count(prepared, wanted)
        if learned is None:
            steps.append(f"A metric learned for {wanted} clusters is not clearly better.")
            break
        name, found = learned
        steps.append(
            f"Metric learned for {wanted} ({name}): {found.number} by separation, {found.n_fine} by modularity."
        )
        # The best estimate is a number that does not change in the metric learned for it.
        strays.append((abs(np.log(found.n_fine / wanted)), found))
        wanted = found.n_fine
        if wanted in seen:
            break
        seen.add(wanted)
    stray, best = min(strays, key=lambda stray: stray[0])
    if SAME_NUMBER < stray < np.inf:
        # Number and metric form a cycle; the median of its numbers is the best estimate.
        rounds = sorted((found for _, found in strays[1:]), key=lambda found: found.number)
        numbers = tuple(number for found in rounds for number in found.numbers)
        best = replace(rounds[len(rounds) // 2], numbers=numbers)
    low, high = (int(edge) for edge in np.quantile(best.numbers, [0.1, 0.9], method="nearest"))
    n_max = len(best.splits) + 1
    ratios = np.array([split.ratio for split in best.splits] + [np.nan])
    return ClusterCount(
        best.number,
        min(low, best.number),
        max(high, best.number),
        best.merging.tree.modularities[:n_max],
        ratios,
        tuple(steps),
    )


def _pooled(views: Sequence[tuple[str, View]]) -> tuple[_Counted, str]:
    """Count in the view of highest modularity.

    If another view is equally good within two standard errors, and has that number in its range but estimates a
    different one, the estimates of both are pooled.
    """
    found = [(name, _counted(view), view) for name, view in views]
    rows = [partition_modularity(view, max(2, counted.n_fine)) for _, counted, view in found]
    top = max(range(len(found)), key=lambda i: float(rows[i].sum()))
    first = found[top][1].number

    def counts_too(i: int) -> bool:
        counted = found[i][1]
        in_range = min(counted.numbers) <= first <= max(counted.numbers)
        return counted.number != first and in_range and not modularity_gain(rows[top], rows[i]).is_clear

    equal = [i for i in range(len(found)) if i == top or counts_too(i)]
    numbers = np.concatenate([found[i][1].numbers for i in equal])
    estimates = numbers[:: len(SETTINGS)]
    best = replace(found[top][1], number=int(np.median(estimates)), numbers=tuple(numbers.tolist()))
    return best, ", ".join(found[i][0] for i in equal)


def _learned_count(prepared: Sequence[Prepared], n_clusters: int) -> tuple[str, _Counted] | None:
    """Count in the metric learned for a number of clusters; None if it is not clearly better than the plain rows."""
    plain = max((partition_modularity(p.view(), n_clusters) for p in prepared), key=np.sum)
    candidates = []
    for source in prepared:
        for candidate, components in learned_maps(source, n_clusters, (WIDTH,)):
            view = source.view(components())
            candidates.append((f"{candidate.name}, {source.name}", view, partition_modularity(view, n_clusters)))
    name, view, rows = max(candidates, key=lambda found: float(np.sum(found[2])))
    if not modularity_gain(rows, plain).is_clear:
        return None
    return name, _counted(view)


def partition_modularity(view: View, n_clusters: int) -> FloatVector:
    """Contribution of each row to the modularity of a partition into `n_clusters` clusters, from one start."""
    return row_modularity(view.links, partition(view, n_clusters, 0).labels)


def _counted(view: View) -> _Counted:
    """Number of clusters in one metric."""
    numbers, fine = [], []
    first: tuple[Merging, list[Split]] | None = None
    for seed in range(N_STARTS):
        merged = merging(view, 1, view.draws(seed))
        n_fine, n_looked = merged.tree.number_at(1.0), 20
        while True:
            # Look further down the dendrogram as long as many of the splits so far are separate.
            n_looked = min(merged.tree.n_leaves - 1, max(2 * n_fine, 2 * n_looked))
            looked_at = splits(view, merged, n_looked)
            found = [
                _number(merged, looked_at, merged.tree.number_at(resolution), threshold)
                for threshold, resolution in SETTINGS
            ]
            if n_looked == merged.tree.n_leaves - 1 or max(found) < n_looked / 2:
                break
        numbers.append(found)
        fine.append(n_fine)
        first = first or (merged, looked_at)
    assert first is not None
    every = np.array(numbers)
    number = int(np.median(every[:, 0]))
    return _Counted(number, tuple(every.ravel().tolist()), int(np.median(fine)), first[0], tuple(first[1]))


def _number(merged: Merging, looked_at: Sequence[Split], n_fine: int, threshold: float) -> int:
    """Count the clusters after splitting the dendrogram from its root down.

    A cluster is split if its two parts are separate, or if some split below is clearly separate.
    """
    tree = merged.tree
    n_splits = len(looked_at)
    first = len(tree.merges) - n_splits
    below: dict[int, int] = {}  # uppermost split so far of the cluster that a leaf represents
    owner = tree.cut(tree.n_leaves - first)
    numbers = np.ones(n_splits, dtype=np.intp)  # clusters within each split
    clear = np.zeros(n_splits, dtype=bool)
    for i in range(n_splits):
        split = looked_at[n_splits - 1 - i]
        a, b = (int(owner[leaf]) for leaf in tree.merges[first + i])
        parts = [below.get(a), below.get(b)]
        inside = [clear[part] if part is not None else False for part in parts]
        counts = [int(numbers[part]) if part is not None else 1 for part in parts]
        # The last merges, at the lowest resolutions, are those that would lower modularity.
        within_modularity = n_splits - i < n_fine
        limit = _limit(split, SEPARATE_SHARE) if within_modularity else BEYOND_MODULARITY
        # Clouds are split above this limit, so the range does not raise it.
        clearly = min(threshold, 1.0) * CLEARLY_SEPARATE if within_modularity else threshold * BEYOND_MODULARITY
        large = min(split.n_rows) >= SMALLEST
        clear[i] = any(inside) or (large and split.ratio < clearly)
        apart = clear[i] or (large and split.ratio < limit * threshold)
        numbers[i] = _apart(split, counts) if apart else 1
        below[a] = i
        owner = np.where(owner == b, a, owner)
    if not n_splits:
        return 1
    first_split = looked_at[0]
    two = min(first_split.n_rows) >= SMALLEST and first_split.ratio < _limit(first_split, 1.0) * threshold
    return max(int(numbers[-1]), 2 if two else 1)


def _limit(split: Split, share: float) -> float:
    """Ratio below which a split separates two clusters."""
    return max(SEPARATE, share * least_first_split(split.dimension))


def _apart(split: Split, counts: Sequence[int]) -> int:
    """Number of clusters in two parts; a part that is too small to be a cluster does not count."""
    return sum(count for count, n_rows in zip(counts, split.n_rows, strict=True) if n_rows >= SMALLEST) or 1
