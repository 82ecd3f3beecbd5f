"""Variants of the linear-cost fit that were compared before one was chosen, as plain functions on prepared rows."""

from typing import NamedTuple

import numpy as np

from adaam import AdaptiveAffinity, CPUEngine, HeatKernel
from adaam.affinity import PrunedAffinity, heat_affinity, laplacian_gram
from adaam.graph import neighbor_graph
from adaam.linalg import unit_columns, whitened_eigenpairs, whitening
from adaam.prepare import Sample

ENGINE = CPUEngine()


class Variant(NamedTuple):
    """How a fit from row blocks is made; the defaults are the form that was chosen."""

    common_cut: bool = False  # one cut for all blocks, the mean of theirs
    diagonal: str = "exact"  # or "scaled": the diagonal is scaled like the sampled pairs
    control: float = 0.0  # weight of the control variate PP', whose sum over all pairs is known
    heat: tuple | None = None  # (laplacian, degrees) of another graph, such as that of all rows
    gram: np.ndarray | None = None  # X'X of all rows, if the blocks hold only some


def sample(rows):
    return Sample(rows, np.ones(len(rows)), ENGINE)


def heat_of(X, blocks, k):
    d = X.shape[1]
    laplacian, degrees = np.zeros((d, d)), np.zeros((d, d))
    for block in blocks:
        rows = sample(X[block])
        affinity = heat_affinity(neighbor_graph(rows, k), HeatKernel(), rows)
        laplacian += laplacian_gram(affinity, rows.X, ENGINE)
        degrees += ENGINE.cross(rows.X, rows.X, affinity.degrees())
    return laplacian, degrees


def fit(X, c, blocks, k, variant=Variant()):  # noqa: B008
    """Components (d, c) from pairs within blocks of prepared rows; one block with all rows is the exact fit."""
    alphas = AdaptiveAffinity().alphas
    n = sum(len(block) for block in blocks)
    scale = n**2 / sum(len(block) ** 2 for block in blocks)
    gram = sum(X[block].T @ X[block] for block in blocks) if variant.gram is None else variant.gram
    laplacian, degrees = heat_of(X, blocks, k) if variant.heat is None else variant.heat
    white = whitening(gram, n)
    first, _ = pruned(X, blocks, white[:, :c], alphas[0] * c, scale, variant)
    A = whitened_eigenpairs(laplacian + first, white, c).vectors
    A = A @ whitening(A.T @ gram @ A, n)
    final, final_degrees = pruned(X, blocks, A, alphas[1] * c, scale, variant)
    degree_white = whitening(degrees + final_degrees, n)
    return unit_columns(whitened_eigenpairs(final, degree_white, c, scale=1.0).vectors)


def pruned(X, blocks, onto, alpha_c, scale, variant):
    d = X.shape[1]
    factors = [X[block] @ onto * np.sqrt(scale) for block in blocks]
    weight = 1.0 / scale if variant.diagonal == "exact" else 1.0
    ones = [np.ones(len(P)) for P in factors]
    cuts = [
        ENGINE.cut_laplacian(P, len(P) ** 2 // alpha_c, P, one, one * weight)[0]
        for P, one in zip(factors, ones, strict=True)
    ]
    if variant.common_cut:
        cuts = [float(np.mean(cuts))] * len(cuts)
    laplacian, degrees = np.zeros((d, d)), np.zeros((d, d))
    for block, P, one, cut in zip(blocks, factors, ones, cuts, strict=True):
        affinity = PrunedAffinity(P, cut, one, one * weight, ENGINE)
        laplacian += laplacian_gram(affinity, X[block], ENGINE)
        degrees += ENGINE.cross(X[block], X[block], affinity.degrees())
    if variant.control:
        # Sums of PP' off the diagonal, within blocks minus over all pairs. Rows are centred: PP' has row sums of zero.
        squares = [np.einsum("ij,ij->i", P, P) for P in factors]
        known = sum(ENGINE.cross(X[b], X[b], s) for b, s in zip(blocks, squares, strict=True)) / scale
        XP = sum(X[b].T @ P for b, P in zip(blocks, factors, strict=True)) / np.sqrt(scale)
        gram_error, degree_error = known - XP @ XP.T, known.copy()
        for b, P, s in zip(blocks, factors, squares, strict=True):
            gram_error += X[b].T @ P @ (P.T @ X[b]) - ENGINE.cross(X[b], X[b], s)
            degree_error += ENGINE.cross(X[b], X[b], P @ P.sum(axis=0) - s)
        degrees -= variant.control * degree_error
        laplacian -= variant.control * (degree_error - gram_error)
    return laplacian, degrees
