"""Affinities as values: all that LPP needs of an n x n matrix, which never exists; and what a learner of them is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import Column, DiagonalRule, FloatMatrix, Tall
from adaam.engines import Engine, Graph
from adaam.engines.neighbors.graph import HostHalf
from adaam.engines.protocol import Half
from adaam.engines.pruned.cut import kept_from
from adaam.sample import Sample


class Affinity(Protocol):
    """A symmetric n x n matrix A, known by its row sums and by X'AX."""

    def degrees(self) -> Column:
        """Row sums A1, where the engine works or as a NumPy vector."""
        ...

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'AX for tall X, in float64 on the host."""
        ...


# Gives the graph of k nearest neighbours of the sample: found on demand, or the one the caller brought. It is where the
# engine works; its `host()` has the neighbours of each row as NumPy arrays.
NeighborSource: TypeAlias = Callable[[int], Graph]


class AffinityLearner(Protocol):
    """Settings that turn a sample into an affinity."""

    def learn(self, sample: Sample, neighbors: NeighborSource) -> Affinity:
        """Return an affinity on the rows of the sample, weights included."""
        ...


def laplacian_gram(affinity: Affinity, X: Tall, engine: Engine) -> FloatMatrix:
    """Return X'(D - A)X, from the affinity itself where it knows a shorter way than through X'DX and X'AX."""
    known: Callable[[Tall], FloatMatrix] | None = getattr(affinity, "laplacian", None)
    return engine.cross(X, X, affinity.degrees()) - affinity.gram(X) if known is None else known(X)


@dataclass(frozen=True, slots=True)
class SparseAffinity:
    """An affinity with its non-zero entries at hand on the host, such as a graph the caller brought."""

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
class HalfAffinity:
    """A symmetric affinity A = H + H', known by its half H: each edge of a neighbour graph where it was found.

    H stays where the engine works, in a form of its own.
    """

    half: Half
    engine: Engine
    _degrees: list[Column] = field(default_factory=list, repr=False, compare=False)

    @property
    def weights(self) -> csr_array:
        """All entries of A, put together on the host when asked for."""
        half = self.half.host()
        return csr_array(half + half.T)

    def degrees(self) -> Column:
        """Row sums A1."""
        if not self._degrees:
            self._degrees.append(self.half.degrees())
        return self._degrees[0]

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'AX."""
        half: Half = self.engine.asarray(self.half)
        gram = half.gram(X)
        return gram + gram.T


@dataclass(frozen=True, slots=True)
class DiagonalAffinity:
    """An affinity of each row to itself alone."""

    entries: Column
    engine: Engine

    def degrees(self) -> Column:
        """Row sums: the entries."""
        return self.entries

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'AX."""
        return self.engine.cross(X, X, self.entries)

    def laplacian(self, X: Tall) -> FloatMatrix:
        """Nothing: what lies on the diagonal of A cancels."""
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


class Known(NamedTuple):
    """What the last pass over the pairs gave: X'(D - A)X for these rows, and the row sums D of A."""

    rows: Tall
    laplacian: FloatMatrix
    degrees: Column


@dataclass(frozen=True, slots=True)
class PrunedAffinity:
    """Δ = S_t(PP'): the entries of PP' of largest magnitude, kept as the factor P and the cut.

    Entry (i, j) counts weights[i] * weights[j] times, a diagonal one diagonal[i] times. What the last pass
    over the pairs gave is remembered, so that asking for it again costs nothing.
    """

    factor: Tall  # (n, r)
    cut: float
    weights: Column
    diagonal: Column
    engine: Engine
    _known: list["Known"] = field(default_factory=list, repr=False, compare=False)

    def threshold(self) -> float:
        """Magnitude from which entries are kept."""
        return kept_from(self.cut, self.factor.dtype)

    def degrees(self) -> Column:
        """Row sums Δ1, which pruning leaves different from zero."""
        if not self._known:
            self.laplacian(self.factor)
        return self._known[0].degrees

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'ΔX."""
        laplacian = self.laplacian(X)
        return self.engine.cross(X, X, self.degrees()) - laplacian

    def laplacian(self, X: Tall) -> FloatMatrix:
        """Return X'(D - Δ)X, of which a pass over the pairs gives X'ΔX off the diagonal; what lies on it cancels."""
        if not self._known or X is not self._known[0].rows:
            given = (self.factor, 0.0, X, self.weights, self.diagonal)
            _, laplacian, degrees = self.engine.cut_laplacian(*given, cut=self.cut)
            self.remember(X, laplacian, degrees)
        return self._known[0].laplacian

    def remember(self, X: Tall, laplacian: FloatMatrix, degrees: Column) -> None:
        """Keep what a pass gave: X'(D - Δ)X, and row sums of what lies off the diagonal."""
        squares = self.engine.row_norms(self.factor) ** 2
        kept = squares * (squares >= self.threshold()) * self.diagonal
        self._known[:] = [Known(X, laplacian, degrees + kept)]


def pruned_affinity(sample: Sample, factor: Tall, t: float, diagonal: Column) -> PrunedAffinity:
    """Prune PP' to its t entries of largest magnitude, ties kept; diagonal ones count as often as `diagonal` says.

    The rows it is wanted for are known, so that their Laplacian can come from the pass that finds the cut.
    """
    engine, weights = sample.engine, sample.engine_weights
    cut, laplacian, degrees = engine.cut_laplacian(factor, t, sample.X, weights, diagonal)
    affinity = PrunedAffinity(factor, cut, weights, diagonal, engine)
    affinity.remember(sample.X, laplacian, degrees)
    return affinity


def pruned_beside(
    sample: Sample, factor: Tall, t: float, diagonal: Column, other: HalfAffinity
) -> tuple[PrunedAffinity, FloatMatrix]:
    """Prune as `pruned_affinity` does; also X'(D - A)X of its sum A with another affinity, from the same pass."""
    engine, weights = sample.engine, sample.engine_weights
    cut, laplacian, _ = engine.cut_laplacian(factor, t, sample.X, weights, diagonal, other.half)
    return PrunedAffinity(factor, cut, weights, diagonal, engine), laplacian


def diagonal_counts(sample: Sample, diagonal: DiagonalRule) -> Column:
    """How often a row's product with itself counts: copies of a row meet each other, and each itself unless dropped.

    A row that counts as less than one has no copies.
    """
    weights = sample.engine_weights
    return weights**2 if diagonal == "keep" else not_negative(weights**2 - weights)


def not_negative(column: Column) -> Column:
    """Numbers of rows, those below zero as zero."""
    return column * (column > 0)
