"""Affinities as values: all that LPP needs of an n x n matrix, which never exists."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import Column, DiagonalRule, FloatMatrix, Tall
from adaam.engines import Engine
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


@dataclass(frozen=True, slots=True)
class PrunedAffinity:
    """Δ = S_t(PP'): the entries of PP' of largest magnitude, kept as the factor P and the cut.

    Entry (i, j) counts weights[i] * weights[j] times, a diagonal one diagonal[i] times. Row sums fall out of the pass
    that makes a Gram matrix and are remembered, so that asking for them afterwards costs nothing.
    """

    factor: Tall  # (n, r)
    cut: float
    weights: Column
    diagonal: Column
    engine: Engine
    _degrees: list[Column] = field(default_factory=list, repr=False, compare=False)

    def threshold(self) -> float:
        """Magnitude from which entries are kept.

        Entries that are equal on paper differ in their last bits; a hair below the cut keeps them together, whatever
        the order of rows or the size of tiles.
        """
        return self.cut * (1.0 - 16 * float(np.finfo(self.factor.dtype).eps))

    def degrees(self) -> Column:
        """Row sums Δ1, which pruning leaves different from zero."""
        if not self._degrees:
            self.gram_parts(self.factor)
        return self._degrees[0]

    def gram(self, X: Tall) -> FloatMatrix:
        """Return X'ΔX."""
        return joined(self.gram_parts(X), X, self.engine)

    def gram_parts(self, X: Tall) -> Parts:
        """Pass over the pairs once, for the Gram matrix and the row sums; the diagonal apart."""
        gram, degrees = self.engine.pruned_gram(self.factor, self.threshold(), X, self.weights)
        squares = self.engine.row_norms(self.factor) ** 2
        kept = squares * (squares >= self.threshold()) * self.diagonal
        self._degrees[:] = [degrees + kept]
        return Parts(gram, kept)


def pruned_affinity(sample: Sample, factor: Tall, t: float, diagonal: DiagonalRule) -> PrunedAffinity:
    """Prune PP' to its t entries of largest magnitude, ties kept, diagonal counted or removed first."""
    weights = sample.engine_weights
    on_diagonal = weights**2 if diagonal == "keep" else weights**2 - weights
    cut = sample.engine.cut(factor, t, weights, on_diagonal)
    return PrunedAffinity(factor, cut, weights, on_diagonal, sample.engine)
