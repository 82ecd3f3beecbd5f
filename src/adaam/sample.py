"""The rows a fit sees: a multiset of distinct rows, each with the number of rows it stands for."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from scipy.sparse import issparse

from adaam._typing import FloatVector, IntVector, Tall
from adaam.engines import Engine


@dataclass(frozen=True, slots=True)
class Sample:
    """Prepared rows where the engine works, and how many coincident rows each stands for."""

    X: Tall
    weights: FloatVector
    engine: Engine

    @property
    def size(self) -> float:
        """Number of rows, copies counted."""
        return float(self.weights.sum())

    def gram(self) -> FloatVector:
        """X'X with copies counted."""
        return self.engine.cross(self.X, self.X, self.weights)


def distinct_rows(X: Tall, weights: FloatVector) -> tuple[IntVector, FloatVector]:
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
    first_seen: dict[bytes, int] = {}
    owner = np.arange(X.shape[0])
    for i, row in enumerate(_row_bytes(X)):
        if weights[i] > 0:
            owner[i] = first_seen.setdefault(blake2b(row, digest_size=16).digest(), i)
    totals = np.bincount(owner, weights, X.shape[0])
    indices = np.flatnonzero(totals > 0)
    return indices, totals[indices]


def _row_bytes(X: Tall) -> Iterator[bytes | memoryview]:
    """Yield the content of each row; equal rows yield equal bytes, negative zeros included."""
    if issparse(X):
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            filled = X.data[start:stop] != 0
            yield X.indices[start:stop][filled].tobytes() + X.data[start:stop][filled].tobytes()
    else:
        for row in X:
            yield (row + 0.0).data  # adding zero turns -0.0 into 0.0
