"""Compiled moves along links: the label that each node would gain most by, from its own links alone."""

import numpy as np

from adaam._typing import FloatVector, IntVector
from adaam.engines.simd import compiled_unfused


@compiled_unfused
def best_moves(
    starts: IntVector,
    others: IntVector,
    weights: FloatVector,
    degrees: FloatVector,
    labels: IntVector,
    totals: FloatVector,
    scale: float,
    nodes: IntVector,
    highest: FloatVector,
    choices: IntVector,
    staying: FloatVector,
) -> None:
    """Fill the highest gain of each of some nodes, its label, the lowest of ties, and what staying is worth.

    Sums, products and their order are those of `links.generic_moves`, so results are the same to the last bit.
    """
    sums = np.zeros(len(totals))
    for i in range(len(nodes)):
        node = nodes[i]
        own, mine = labels[node], degrees[node]
        staying[i] = -(scale * mine * (totals[own] - mine))
        for entry in range(starts[node], starts[node + 1]):
            sums[labels[others[entry]]] += weights[entry]
        best, choice = -np.inf, 0
        for entry in range(starts[node], starts[node + 1]):
            label = labels[others[entry]]
            if label == own:
                gain = sums[label] - scale * mine * (totals[label] - mine)
                staying[i] = gain
            else:
                gain = sums[label] - scale * mine * totals[label]
            if gain > best or (gain == best and label < choice):
                best, choice = gain, label
        for entry in range(starts[node], starts[node + 1]):
            sums[labels[others[entry]]] = 0.0
        highest[i], choices[i] = best, choice
