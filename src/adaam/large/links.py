"""What an affinity says of a block's prepared rows, as small matrices that are added up over blocks."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from adaam._typing import Column, DiagonalRule, FloatMatrix, Tall
from adaam.affinity import HeatKernel, heat_affinity, pruned_affinity, pruned_beside
from adaam.affinity.values import not_negative
from adaam.engines.columns import total
from adaam.graph import neighbor_graph
from adaam.prepare import LinearMap
from adaam.sample import Sample


@dataclass(frozen=True, slots=True)
class Links:
    """X'(D - A)X of an affinity A, an X'DX, the sum of D, and the cut of what was pruned; all summed over blocks."""

    laplacian: FloatMatrix
    degrees: FloatMatrix
    total_degree: float
    cut: float

    def __add__(self, other: "Links") -> "Links":
        return Links(
            self.laplacian + other.laplacian,
            self.degrees + other.degrees,
            self.total_degree + other.total_degree,
            self.cut + other.cut,
        )


class Pruning(NamedTuple):
    """How a block is pruned to Δ = S_t(PP'), t = ⌊n²/(αc)⌋: `onto` maps prepared rows to P.

    Pairs within blocks stand for all pairs, so entries are divided by the share of pairs that lie within blocks; a row
    paired with itself is no sampled pair, and counts once.
    """

    onto: FloatMatrix
    share: float
    alpha_c: float
    diagonal: DiagonalRule

    def of(self, sample: Sample) -> tuple[Tall, float, Column]:
        """P of a block, how many entries are kept, and how often one on the diagonal counts."""
        weights = sample.engine_weights
        nowhere = np.zeros(len(self.onto))
        P = LinearMap(self.onto.T / np.sqrt(self.share), nowhere, "none").apply(sample.X, sample.engine)
        on_diagonal = weights**2 - weights
        if self.diagonal == "keep":
            on_diagonal = on_diagonal + weights * self.share
        return P, max(1.0, np.floor(sample.size**2 / self.alpha_c)), not_negative(on_diagonal)


def first_links(pruning: Pruning, n_neighbors: int, kernel: HeatKernel, sample: Sample) -> Links:
    """Laplacian of heat-kernel graph and intermediate affinity together, and X'DX of the graph alone."""
    heat = heat_affinity(neighbor_graph(sample, n_neighbors), kernel, sample)
    affinity, laplacian = pruned_beside(sample, *pruning.of(sample), heat)
    return Links(laplacian, *_degrees(sample, heat.degrees()), affinity.cut * pruning.share)


def final_links(pruning: Pruning, sample: Sample) -> Links:
    """Links of the final affinity."""
    affinity = pruned_affinity(sample, *pruning.of(sample))
    return Links(affinity.laplacian(sample.X), *_degrees(sample, affinity.degrees()), affinity.cut * pruning.share)


def _degrees(sample: Sample, degrees: Column) -> tuple[FloatMatrix, float]:
    """X'DX, and the sum of D."""
    return sample.engine.cross(sample.X, sample.X, degrees), total(degrees, sample.n_rows)
