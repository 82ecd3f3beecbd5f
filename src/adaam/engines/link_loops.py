"""Compiled passes over links on the host: moving nodes between labels, merging nodes, modularity."""

import numpy as np

from adaam._typing import BoolArray, FloatVector, IntMatrix, IntVector
from adaam.engines.links import MIX, ROUNDING
from adaam.engines.simd import compiled_unfused


@compiled_unfused
def in_half(rank: int, salt: int) -> bool:
    """Whether a node of this rank is in a random half; see `links.random_half`."""
    mixed = (rank + salt) * MIX[0]
    mixed = (mixed ^ (mixed >> 32)) * MIX[1]
    return (mixed >> 40) & 1 == 1


@compiled_unfused
def weight_within(starts: IntVector, others: IntVector, weights: FloatVector, labels: IntVector) -> float:
    """Total weight of the links between nodes of equal label, both directions."""
    total = 0.0
    for node in range(len(labels)):
        for entry in range(starts[node], starts[node + 1]):
            if labels[others[entry]] == labels[node]:
                total += weights[entry]
    return total


@compiled_unfused
def excess(
    starts: IntVector,
    others: IntVector,
    weights: FloatVector,
    degrees: FloatVector,
    labels: IntVector,
    n_labels: int,
    scale: float,
) -> float:
    """Links between nodes of equal label minus those expected: modularity, neither normalized nor with loops."""
    totals = np.zeros(n_labels)
    for node in range(len(labels)):
        totals[labels[node]] += degrees[node]
    return weight_within(starts, others, weights, labels) - scale * float((totals * totals).sum())


@compiled_unfused
def sweep(
    starts: IntVector,
    others: IntVector,
    weights: FloatVector,
    degrees: FloatVector,
    labels: IntVector,
    totals: FloatVector,
    scale: float,
    looked_at: BoolArray,
    waiting: BoolArray,
    moved: IntVector,
) -> int:
    """Write the label of each node after a sweep to `moved`, and return how many changed; see `Links.sweep`.

    Sums, products and their order are those of `Links.moves`, so results are identical to the last bit.
    """
    sums = np.zeros(len(totals))
    n_moved = 0
    for node in range(len(labels)):
        own, mine = labels[node], degrees[node]
        moved[node] = own
        if not looked_at[node]:
            continue
        waiting[node] = False
        staying = -(scale * mine * (totals[own] - mine))
        for entry in range(starts[node], starts[node + 1]):
            sums[labels[others[entry]]] += weights[entry]
        best, choice = -np.inf, 0
        for entry in range(starts[node], starts[node + 1]):
            label = labels[others[entry]]
            if label == own:
                gain = sums[label] - scale * mine * (totals[label] - mine)
                staying = gain
            else:
                gain = sums[label] - scale * mine * totals[label]
            if gain > best or (gain == best and label < choice):
                best, choice = gain, label
        for entry in range(starts[node], starts[node + 1]):
            sums[labels[others[entry]]] = 0.0
        if best > staying + ROUNDING * mine:
            moved[node] = choice
            n_moved += 1
    for node in range(len(labels)):
        if moved[node] != labels[node]:
            for entry in range(starts[node], starts[node + 1]):
                waiting[others[entry]] = True
    return n_moved


@compiled_unfused
def labels_after(
    starts: IntVector,
    others: IntVector,
    weights: FloatVector,
    degrees: FloatVector,
    ranks: IntVector,
    salts: IntVector,
    labels: IntVector,
    n_labels: int,
    scale: float,
    few_moves: int,
    keep_best: bool,
) -> IntVector:
    """Labels after sweeps over random halves of the nodes; see `Links.labels_after`.

    Sweeps end after one with at most `few_moves` moves. With `keep_best` they end when a label is emptied, and the
    labels of highest modularity are returned.
    """
    n = len(labels)
    waiting, looked_at, moved = np.ones(n, dtype=np.bool_), np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.intp)
    best = labels
    highest = -np.inf if not keep_best else excess(starts, others, weights, degrees, labels, n_labels, scale)
    for salt in salts:
        n_looked, n_waiting = 0, 0
        for node in range(n):
            looked_at[node] = waiting[node] and in_half(ranks[node], salt)
            n_looked += looked_at[node]
            n_waiting += waiting[node]
        if n_waiting == 0:
            break
        if n_looked == 0:
            continue
        totals, sizes = np.zeros(n_labels), np.zeros(n_labels, dtype=np.intp)
        for node in range(n):
            totals[labels[node]] += degrees[node]
        graph = (starts, others, weights, degrees)
        n_moved = sweep(*graph, labels, totals, scale, looked_at, waiting, moved)
        labels = moved.copy()
        if not keep_best:
            if n_moved <= few_moves:
                return labels
            continue
        if n_moved == 0:
            continue
        for node in range(n):
            sizes[labels[node]] += 1
        if sizes.min() == 0:
            break
        found = excess(starts, others, weights, degrees, labels, n_labels, scale)
        if found > highest:
            best, highest = labels, found
    return best if keep_best else labels


@compiled_unfused
def contract(
    starts: IntVector,
    others: IntVector,
    weights: FloatVector,
    labels: IntVector,
    loops: FloatVector,
    starts_found: IntVector,
    others_found: IntVector,
    weights_found: FloatVector,
) -> int:
    """Write the links between labels, add those within a label to its loop, and return the number of links.

    Links of a label are in the order in which they are first found; `in_order` sorts them.
    """
    n_labels = len(loops)
    starts_found[0] = 0
    first = np.zeros(n_labels + 1, dtype=np.intp)
    for node in range(len(labels)):
        first[labels[node] + 1] += 1
    first = np.cumsum(first)
    members, place = np.empty(len(labels), dtype=np.intp), first.copy()
    for node in range(len(labels)):
        members[place[labels[node]]] = node
        place[labels[node]] += 1
    sums, seen = np.zeros(n_labels), np.empty(n_labels, dtype=np.intp)
    n_found = 0
    for label in range(n_labels):
        n_seen = 0
        for member in range(first[label], first[label + 1]):
            for entry in range(starts[members[member]], starts[members[member] + 1]):
                other = labels[others[entry]]
                if other == label:
                    loops[label] += weights[entry]
                    continue
                if sums[other] == 0.0:
                    seen[n_seen] = other
                    n_seen += 1
                sums[other] += weights[entry]
        for other in seen[:n_seen]:
            others_found[n_found], weights_found[n_found] = other, sums[other]
            sums[other] = 0.0
            n_found += 1
        starts_found[label + 1] = n_found
    return n_found


@compiled_unfused
def in_order(starts: IntVector, others: IntVector, weights: FloatVector) -> tuple[IntVector, FloatVector]:
    """Other ends and weights of symmetric links, sorted within each node: transposing a CSR matrix sorts it."""
    ends, sorted_weights, place = np.empty_like(others), np.empty_like(weights), starts.copy()
    for node in range(len(starts) - 1):
        for entry in range(starts[node], starts[node + 1]):
            at = place[others[entry]]
            ends[at], sorted_weights[at] = node, weights[entry]
            place[others[entry]] += 1
    return ends, sorted_weights


@compiled_unfused
def merge_rounds(
    starts: IntVector,
    others: IntVector,
    weights: FloatVector,
    loops: FloatVector,
    degrees: FloatVector,
    inside: IntVector,
    total: float,
) -> tuple[IntVector, IntVector, FloatVector, FloatVector, IntVector, IntMatrix, FloatVector, FloatVector]:
    """Merge nodes that are each other's best partner among nodes of equal `inside`; see `partition.dendrogram`.

    Returns the remaining links with their loops, the cluster of each node, and for each merge its two nodes, the factor
    by which their links exceed chance, and the expected links.
    """
    m = len(degrees)
    leaves, owner = np.arange(m), np.arange(m)
    merges, factors, expected = np.empty((m, 2), dtype=np.intp), np.empty(m), np.empty(m)
    n, n_merges = m, 0
    # Double buffer: each round reads one and writes the other. New memory would cost more than the round itself.
    spare = np.empty(m + 1, dtype=np.intp), np.empty(len(others), dtype=np.intp), np.empty(len(others))
    other_spare = np.empty(m + 1, dtype=np.intp), np.empty(len(others), dtype=np.intp), np.empty(len(others))
    while n > 1:
        highest, partner = np.full(n, -np.inf), np.full(n, -1)
        for node in range(n):
            for entry in range(starts[node], starts[node + 1]):
                other = others[entry]
                if inside[node] != inside[other]:
                    continue
                factor = weights[entry] * total / (degrees[node] * degrees[other])
                if factor > highest[node] or (factor == highest[node] and other < partner[node]):
                    highest[node], partner[node] = factor, other
        labels, n_left = np.empty(n, dtype=np.intp), 0
        for node in range(n):
            other = partner[node]
            if other >= 0 and other < node and partner[other] == node:
                labels[node] = labels[other]
                continue
            if other > node and partner[other] == node:
                merges[n_merges, 0], merges[n_merges, 1] = leaves[node], leaves[other]
                factors[n_merges], expected[n_merges] = highest[node], degrees[node] * degrees[other] / total**2
                n_merges += 1
            leaves[n_left], inside[n_left] = leaves[node], inside[node]
            labels[node] = n_left
            n_left += 1
        if n_left == n:
            break
        sums, inner = np.zeros(n_left), np.zeros(n_left)
        for node in range(n):
            sums[labels[node]] += degrees[node]
            inner[labels[node]] += loops[node]
        for leaf in range(m):
            owner[leaf] = labels[owner[leaf]]
        starts_found, others_found, weights_found = spare
        n_found = contract(starts, others, weights, labels, inner, starts_found, others_found, weights_found)
        starts, others, weights = starts_found[: n_left + 1], others_found[:n_found], weights_found[:n_found]
        spare, other_spare = other_spare, spare
        loops, degrees, n = inner, sums, n_left
    others, weights = in_order(starts, others, weights)
    return starts, others, weights, loops, owner, merges[:n_merges], factors[:n_merges], expected[:n_merges]
