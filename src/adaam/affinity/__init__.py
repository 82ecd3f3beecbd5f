"""Affinities, objects with `degrees()` and `gram(X)`, and the learners that compute them."""

from adaam.affinity.adaptive import (
    AdaptiveAffinity,
    PrunedAffinity,
    adaptive_affinity,
    diagonal_counts,
    pruned_affinity,
    pruned_beside,
)
from adaam.affinity.consensus import ConsensusAffinity
from adaam.affinity.dominant import DominantAffinity, DominantNeighborhoods
from adaam.affinity.forest import ForestAffinity
from adaam.affinity.heat import HeatKernel, KNNAffinity, heat_affinity
from adaam.affinity.values import (
    Affinity,
    AffinityLearner,
    DiagonalAffinity,
    NeighborSource,
    SparseAffinity,
    SumAffinity,
    laplacian_gram,
)

__all__ = [
    "AdaptiveAffinity",
    "Affinity",
    "AffinityLearner",
    "ConsensusAffinity",
    "DiagonalAffinity",
    "DominantAffinity",
    "DominantNeighborhoods",
    "ForestAffinity",
    "HeatKernel",
    "KNNAffinity",
    "NeighborSource",
    "PrunedAffinity",
    "SparseAffinity",
    "SumAffinity",
    "adaptive_affinity",
    "diagonal_counts",
    "heat_affinity",
    "laplacian_gram",
    "pruned_affinity",
    "pruned_beside",
]
