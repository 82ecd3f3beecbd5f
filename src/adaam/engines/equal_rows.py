"""Equal rows on the host, found by hashing: by a quick one of all rows, and a sure one where that one repeats."""

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from scipy.sparse import issparse

from adaam._typing import Column, FloatMatrix, IntVector, Tall
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.columns import spread

BLOCK_BYTES = 1 << 21


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
    suspects = owner if issparse(X) else repeated(quick_hashes(X))
    for i, row in zip(suspects, row_bytes(X[suspects]), strict=True):
        owner[i] = first_seen.setdefault(blake2b(row, digest_size=16).digest(), i)
    return owner


def repeated(hashes: IntVector) -> IntVector:
    """Positions of values that occur more than once, ascending."""
    order = np.argsort(hashes, kind="stable")
    equal = hashes[order[1:]] == hashes[order[:-1]]
    return np.sort(order[np.append(equal, False) | np.insert(equal, 0, False)])


def quick_hashes(X: FloatMatrix) -> IntVector:
    """One number a row: a sum modulo 2^64, so that equal rows have the same one in whatever order it is summed."""
    n, d = X.shape
    bits = np.uint64 if X.dtype.itemsize == 8 else np.uint32
    factors = np.random.default_rng(0).integers(1, 2**63, size=d, dtype=np.uint64) * np.uint64(2) + np.uint64(1)

    def hashes(rows: slice) -> IntVector:
        words = (X[rows] + 0.0).view(bits).astype(np.uint64, copy=False)  # adding zero turns -0.0 into 0.0
        # Whole numbers have zeros for low bits, which a product would keep.
        words ^= words >> np.uint64(29)
        words *= factors
        return np.asarray(words.sum(axis=1))

    if d == 0:
        return np.zeros(n, np.uint64)
    return np.concatenate(list(ordered_map(hashes, row_blocks(n, max(16, BLOCK_BYTES // (8 * d))))))


def row_bytes(X: Tall) -> Iterator[bytes | memoryview]:
    """Yield the content of each row; equal rows yield equal bytes, negative zeros included."""
    if issparse(X):
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            filled = X.data[start:stop] != 0
            yield X.indices[start:stop][filled].tobytes() + X.data[start:stop][filled].tobytes()
    else:
        for row in X:
            yield (row + 0.0).data  # adding zero turns -0.0 into 0.0
