"""What an affinity says of a block's prepared rows, as small matrices that are added up over blocks."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from adaam._typing import DiagonalRule, FloatMatrix
from adaam.affinity import HeatKernel, heat_affinity, laplacian_gram, pruned_affinity
from adaam.graph import neighbor_graph
from adaam.prepare import LinearMap
from adaam.sample import Sample


@dataclass(frozen=True, slots=True)
class Links:
    """X'(D - A)X and X'DX of an affinity A; for pruned ones also the cut, summed over blocks as the matrices are."""

    laplacian: FloatMatrix
    degrees: FloatMatrix
    cut: float = 0.0

    def __add__(self, other: "Links") -> "Links":
        return Links(self.laplacian + other.laplacian, self.degrees + other.degrees, self.cut + other.cut)


def added(parts: Iterable[Links]) -> Links:
    """Add up the links of several blocks, one at a time."""
    return reduce(add, parts)


def heat_links(sample: Sample, n_neighbors: int, kernel: HeatKernel) -> Links:
    """Links of the heat-kernel graph within a block."""
    affinity = heat_affinity(neighbor_graph(sample, n_neighbors), kernel, sample)
    degrees = sample.engine.cross(sample.X, sample.X, affinity.degrees())
    return Links(degrees - affinity.gram(sample.X), degrees)


def pruned_links(sample: Sample, onto: FloatMatrix, share: float, alpha_c: float, diagonal: DiagonalRule) -> Links:
    """Links of Δ = S_t(PP') within a block that holds a share of all pairs, t = ⌊n²/(αc)⌋.

    `onto` maps prepared rows to P. Pairs within blocks stand for all pairs, so entries are divided by the share; a row
    paired with itself is no sampled pair, and counts once.
    """
    engine, weights = sample.engine, sample.engine_weights
    P = LinearMap(onto.T / np.sqrt(share), np.zeros(len(onto)), "none").apply(sample.X, engine)
    on_diagonal = weights**2 - weights
    if diagonal == "keep":
        on_diagonal = on_diagonal + weights * share
    affinity = pruned_affinity(sample, P, max(1.0, np.floor(sample.size**2 / alpha_c)), on_diagonal)
    laplacian = laplacian_gram(affinity, sample.X, engine)
    return Links(laplacian, engine.cross(sample.X, sample.X, affinity.degrees()), affinity.cut * share)
