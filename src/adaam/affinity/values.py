"""Affinities as values: all that LPP needs of an n x n matrix, which never exists."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import Column, DiagonalRule, FloatMatrix, Tall
from adaam.engines import Engine
from adaam.engines.protocol import kept_from
from adaam.sample import Sample


class Affinity(Protocol):
    """A symmetric n x n matrix A, known by its row sums and by X'AX."""

    def degrees(self) -> Column:
        """Row sums A1, where the engine works or as a NumPy vector."""
        ...

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'AX for tall X, in float64 on the host."""
        ...


class Parts(NamedTuple):
    """X'AX in two parts: what lies off the diagonal, and the entries on it (None where they are not told apart)."""

    off_diagonal: FloatMatrix
    diagonal: Column | None


def gram_parts(affinity: Affinity, X: Tall) -> Parts:
    """Split X'AX, where the affinity can: diagonals of several terms then cost one product, and none in a Laplacian."""
    parts: Callable[[Tall], Parts] | None = getattr(affinity, "gram_parts", None)
    return Parts(affinity.gram(X), None) if parts is None else parts(X)


def joined(parts: Parts, X: Tall, engine: Engine) -> FloatMatrix:
    """Put X'AX together again."""
    return parts.off_diagonal if parts.diagonal is None else parts.off_diagonal + engine.cross(X, X, parts.diagonal)


def laplacian_gram(affinity: Affinity, X: Tall, engine: Engine) -> FloatMatrix:
    """Return X'(D - A)X; what lies on the diagonal of A cancels."""
    off_diagonal, diagonal = gram_parts(affinity, X)
    degrees = affinity.degrees()
    return engine.cross(X, X, degrees if diagonal is None else degrees - diagonal) - off_diagonal


@dataclass(frozen=True, slots=True)
class SparseAffinity:
    """An affinity with its non-zero entries at hand on the host, such as a graph the caller brought."""

    weights: csr_array
    engine: Engine

    def degrees(self) -> Column:
        """Row sums A1."""
        return self.engine.column(np.asarray(self.weights.sum(axis=1), dtype=np.float64).ravel())

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'AX."""
        return self.engine.sparse_gram(self.weights, X)


@dataclass(frozen=True, slots=True)
class HalfAffinity:
    """A symmetric affinity A = H + H', known by its half H: each edge of a neighbour graph where it was found.

    H stays where the engine works, in a form of its own.
    """

    half: Any
    engine: Engine
    _degrees: list[Column] = field(default_factory=list, repr=False, compare=False)

    @property
    def weights(self) -> csr_array:
        """All entries of A, put together on the host when asked for."""
        half = self.engine.to_host(self.half)
        return csr_array(half + half.T)

    def degrees(self) -> Column:
        """Row sums A1."""
        if not self._degrees:
            self._degrees.append(self.engine.half_degrees(self.half))
        return self._degrees[0]

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'AX."""
        gram = self.engine.sparse_gram(self.half, X)
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

    def gram_parts(self, X: Tall) -> Parts:
        """Nothing off the diagonal."""
        return Parts(np.zeros((X.shape[1], X.shape[1])), self.entries)


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
        return joined(self.gram_parts(X), X, self.engine)

    def gram_parts(self, X: Tall) -> Parts:
        """Sum the parts of the terms."""
        parts = [gram_parts(term, X) for term in self.terms]
        diagonals = [part.diagonal for part in parts if part.diagonal is not None]
        total = np.asarray(sum(part.off_diagonal for part in parts))
        return Parts(total, sum(diagonals) if diagonals else None)


class Known(NamedTuple):
    """What the last pass over the pairs gave: X'AX for these rows, and the row sums of A."""

    rows: Tall
    parts: Parts
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
            self.gram_parts(self.factor)
        return self._known[0].degrees

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'ΔX."""
        return joined(self.gram_parts(X), X, self.engine)

    def gram_parts(self, X: Tall) -> Parts:
        """Pass over the pairs once, for the Gram matrix and the row sums; the diagonal apart."""
        if not self._known or X is not self._known[0].rows:
            self._remember(X, *self.engine.pruned_gram(self.factor, self.threshold(), X, self.weights))
        return self._known[0].parts

    def _remember(self, X: Tall, gram: FloatMatrix, degrees: Column) -> None:
        squares = self.engine.row_norms(self.factor) ** 2
        kept = squares * (squares >= self.threshold()) * self.diagonal
        self._known[:] = [Known(X, Parts(gram, kept), degrees + kept)]


def pruned_affinity(sample: Sample, factor: Tall, t: float, diagonal: Column) -> PrunedAffinity:
    """Prune PP' to its t entries of largest magnitude, ties kept; diagonal ones count as often as `diagonal` says.

    The rows it is wanted for are known, so that their Gram matrix can come from the pass that finds the cut.
    """
    engine, weights = sample.engine, sample.engine_weights
    cut, gram, degrees = engine.cut_gram(factor, t, sample.X, weights, diagonal)
    affinity = PrunedAffinity(factor, cut, weights, diagonal, engine)
    affinity._remember(sample.X, gram, degrees)
    return affinity


def diagonal_counts(sample: Sample, diagonal: DiagonalRule) -> Column:
    """How often a row's product with itself counts: copies of a row meet each other, and each itself unless dropped."""
    weights = sample.engine_weights
    return weights**2 if diagonal == "keep" else weights**2 - weights
