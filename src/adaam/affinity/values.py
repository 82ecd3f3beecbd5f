"""Affinities, as what LPP needs of an n x n matrix that is never stored, and the protocol of their learners."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import Column, FloatMatrix, Tall
from adaam.engines import Engine, Graph
from adaam.engines.neighbors.graph import HostHalf
from adaam.engines.protocol import Half
from adaam.prepare import Sample


class Affinity(Protocol):
    """A symmetric n x n matrix A, represented by its row sums and by X'AX."""

    def degrees(self) -> Column:
        """Row sums A1, where the engine computes or as a NumPy vector."""
        ...

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'AX for tall X, in float64 on the host."""
        ...


# Returns the graph of the k nearest neighbours of the sample: searched on demand, or given by the user. It is stored
# where the engine computes; its `host()` returns it as NumPy arrays.
NeighborSource: TypeAlias = Callable[[int], Graph]


class AffinityLearner(Protocol):
    """Settings that turn a sample into an affinity."""

    def learn(self, sample: Sample, neighbors: NeighborSource) -> Affinity:
        """Return an affinity on the rows of the sample, weights included; `neighbors(k)` returns their graph."""
        ...


def laplacian_gram(affinity: Affinity, X: Tall, engine: Engine) -> FloatMatrix:
    """Return X'(D - A)X, by the affinity's own method `laplacian` if it has one, else as X'DX - X'AX."""
    known: Callable[[Tall], FloatMatrix] | None = getattr(affinity, "laplacian", None)
    return engine.cross(X, X, affinity.degrees()) - affinity.gram(X) if known is None else known(X)


@dataclass(frozen=True, slots=True)
class SparseAffinity:
    """An affinity stored as a sparse matrix on the host, such as a graph given by the user."""

    weights: csr_array
    engine: Engine

    def degrees(self) -> Column:
        """Row sums A1."""
        return self.engine.asarray(np.asarray(self.weights.sum(axis=1), dtype=np.float64).ravel())

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'AX."""
        entries: Half = self.engine.asarray(HostHalf(self.weights))
        return entries.gram(X)


@dataclass(frozen=True, slots=True)
class DiagonalAffinity:
    """A diagonal affinity: each row is related to itself only."""

    entries: Column
    engine: Engine

    def degrees(self) -> Column:
        """Row sums: the entries."""
        return self.entries

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'AX."""
        return self.engine.cross(X, X, self.entries)

    def laplacian(self, X: Tall) -> FloatMatrix:
        """Return X'(D - A)X, which is zero: the diagonal of A cancels."""
        return np.zeros((X.shape[1], X.shape[1]))


@dataclass(frozen=True, slots=True)
class SumAffinity:
    """The sum of affinities on the same rows."""

    terms: tuple[Affinity, ...]
    engine: Engine

    def degrees(self) -> Column:
        """Row sums A1."""
        return sum(term.degrees() for term in self.terms)

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'AX."""
        return np.asarray(sum(term.gram(X) for term in self.terms))

    def laplacian(self, X: Tall) -> FloatMatrix:
        """Return X'(D - A)X."""
        return np.asarray(sum(laplacian_gram(term, X, self.engine) for term in self.terms))
