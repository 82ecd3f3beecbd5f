"""The rows a fit sees: a multiset of distinct rows, each with the number of rows it stands for."""

from dataclasses import dataclass, field

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector, Tall
from adaam.engines import CPUEngine, Engine

HOST = CPUEngine()


@dataclass(frozen=True, slots=True)
class Sample:
    """Prepared rows where the engine works, and how many coincident rows each stands for."""

    X: Tall
    weights: FloatVector
    engine: Engine
    _gram: list[FloatMatrix] = field(default_factory=list, repr=False, compare=False)

    @property
    def size(self) -> float:
        """Number of rows, copies counted."""
        return float(self.weights.sum())

    def gram(self) -> FloatMatrix:
        """X'X with copies counted, made once."""
        if not self._gram:
            self._gram.append(self.engine.cross(self.X, self.X, self.weights))
        return self._gram[0]


def distinct_rows(X: Tall, weights: FloatVector, engine: Engine = HOST) -> tuple[IntVector, FloatVector]:
    """Merge equal rows and drop those of weight zero.

    Fitting on the distinct rows with their weights is what makes a row of weight w the same as w equal rows, and what
    keeps neighbour ties among equal rows from being broken by chance.

    Returns
    -------
    indices : array of shape (n_distinct,)
        First row of each distinct kind, ascending.
    weights : array of shape (n_distinct,)
        Total weight of each kind, positive.
    """
    totals = np.bincount(engine.first_equal(X), weights, X.shape[0])
    indices = np.flatnonzero(totals > 0)
    return indices, totals[indices]
