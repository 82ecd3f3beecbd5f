"""Equal rows on the host, found by hashing."""

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from scipy.sparse import issparse

from adaam._typing import Column, IntVector, Tall
from adaam.engines.columns import spread


def distinct(X: Tall, weights: Column) -> tuple[Tall, Column]:
    """Return the distinct rows of positive weight, in order of first appearance, and the total weight of each."""
    n = X.shape[0]
    totals = np.bincount(first_equal(X), spread(weights, n), n)
    kept = np.flatnonzero(totals > 0)
    rows = X if len(kept) == n else X[kept]
    return rows, 1.0 if (totals[kept] == 1.0).all() else totals[kept]


def first_equal(X: Tall) -> IntVector:
    """Index of the first row equal to each row."""
    first_seen: dict[bytes, int] = {}
    owner = np.arange(X.shape[0])
    for i, row in enumerate(row_bytes(X)):
        owner[i] = first_seen.setdefault(blake2b(row, digest_size=16).digest(), i)
    return owner


def row_bytes(X: Tall) -> Iterator[bytes | memoryview]:
    """Yield the content of each row; equal rows yield equal bytes, negative zeros included."""
    if issparse(X):
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            filled = X.data[start:stop] != 0
            yield X.indices[start:stop][filled].tobytes() + X.data[start:stop][filled].tobytes()
    else:
        for row in X:
            yield (row + 0.0).data  # adding zero turns -0.0 into 0.0
