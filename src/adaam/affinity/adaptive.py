"""The adaptive affinity of AdaAM: Δ learned from the data's own low-rank structure, beside the heat-kernel degrees."""

from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from adaam._checks import check_number, check_word
from adaam._typing import Constraint, DiagonalRule, FloatMatrix, Tall
from adaam.affinity.heat import HeatKernel, heat_affinity, resolve_heat
from adaam.affinity.values import (
    DiagonalAffinity,
    PrunedAffinity,
    SumAffinity,
    diagonal_counts,
    pruned_affinity,
    pruned_beside,
)
from adaam.engines import Graph
from adaam.linalg import left_vector_map, whitened_eigenpairs, whitening
from adaam.sample import Sample


class AdaptiveAffinity(BaseEstimator):
    """Settings of the adaptive affinity; the defaults are the reference reading of the paper.

    Parameters
    ----------
    alphas : tuple of two floats, default=(2.5, 5.0)
        Δ keeps the floor(n² / (alpha c)) entries of largest magnitude, first in the intermediate, then in the final
        affinity.
    rank : float, default=1.0
        Columns of P in the intermediate affinity, as a multiple of the number of clusters.
    projection_rank : float, default=1.0
        Columns of the projection between the two, and so of P in the final affinity, as a multiple of the number of
        clusters. (Projected rows have singular values that are all equal, so no fewer of them could be told apart.)
    heat : HeatKernel, default=None
        Weights of the neighbour graph; None means `HeatKernel()`.
    diagonal : {"keep", "drop"}, default="keep"
        Whether the diagonal of PP' takes part in the pruning, or is removed before it.
    constraint : {"gram", "degrees"}, default="gram"
        What the projection between the two is orthonormal under: X'X, or X'DX with the degrees of the graph.
    """

    def __init__(
        self,
        alphas: tuple[float, float] = (2.5, 5.0),
        rank: float = 1.0,
        projection_rank: float = 1.0,
        heat: HeatKernel | None = None,
        diagonal: DiagonalRule = "keep",
        constraint: Constraint = "gram",
    ) -> None:
        self.alphas = alphas
        self.rank = rank
        self.projection_rank = projection_rank
        self.heat = heat
        self.diagonal = diagonal
        self.constraint = constraint

    def check(self) -> None:
        """Raise if a setting is out of range."""
        if not (isinstance(self.alphas, tuple | list) and len(self.alphas) == 2):
            raise ValueError(f"alphas={self.alphas!r} must hold two numbers: intermediate and final.")
        for alpha in self.alphas:
            check_number("alphas", alpha, above=0.0)
        check_number("rank", self.rank, above=0.0)
        check_number("projection_rank", self.projection_rank, above=0.0)
        check_word("diagonal", self.diagonal, ("keep", "drop"))
        check_word("constraint", self.constraint, ("gram", "degrees"))
        resolve_heat(self.heat).check()


class Learned(NamedTuple):
    """The affinity Δ + D that LPP is applied to, and the two pruned affinities it came from."""

    affinity: SumAffinity
    intermediate: PrunedAffinity
    final: PrunedAffinity


def adaptive_affinity(
    sample: Sample, graph: Graph, n_clusters: int, n_iter: int, settings: AdaptiveAffinity
) -> Learned:
    """Steps 1 to 4 of the method on prepared rows.

    Each further iteration repeats projection and final affinity with the current Δ beside the intermediate one.
    """
    X, engine = sample.X, sample.engine
    heat = heat_affinity(graph, resolve_heat(settings.heat), sample)
    degrees = heat.degrees()
    gram = sample.gram()
    n = sample.n_rows
    left = whitening(gram, n, engine.eigh)
    bound = left if settings.constraint == "gram" else whitening(engine.cross(X, X, degrees), n, engine.eigh)
    rank, n_columns = (max(1, round(r * n_clusters)) for r in (settings.rank, settings.projection_rank))
    t = [max(1.0, np.floor(sample.size**2 / (alpha * n_clusters))) for alpha in settings.alphas]

    on_diagonal = diagonal_counts(sample, settings.diagonal)
    intermediate, base = pruned_beside(sample, _mapped(sample, left[:, :rank]), t[0], on_diagonal, heat)
    final: PrunedAffinity | None = None
    for _ in range(n_iter):
        total = base if final is None else base + final.laplacian(X)
        projection = whitened_eigenpairs(total, bound, n_columns, eigh=engine.eigh).vectors
        turn = left_vector_map(projection.T @ gram @ projection, n_columns, n)
        final = pruned_affinity(sample, _mapped(sample, projection @ turn), t[1], on_diagonal)
    assert final is not None
    return Learned(SumAffinity((final, DiagonalAffinity(degrees, engine)), engine), intermediate, final)


def _mapped(sample: Sample, onto_vectors: FloatMatrix) -> Tall:
    """Map rows onto orthonormal columns P."""
    return sample.engine.project(sample.X, 1.0, np.zeros(sample.X.shape[1]), onto_vectors.T)
