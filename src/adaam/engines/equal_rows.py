"""Equal rows on the host, found by a fast hash of all rows and a digest of the rows whose hash repeats."""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import numpy as np
from scipy.sparse import issparse

from adaam._typing import Column, FloatMatrix, HostRows, IntVector
from adaam.engines.blocks import ordered_map, short_blocks, spread


def distinct(X: HostRows, weights: Column) -> tuple[HostRows, Column]:
    """Return the distinct rows of positive weight, in order of first appearance, and the total weight of each."""
    kept, totals = merged_weights(first_equal(X), weights)
    return X if len(kept) == X.shape[0] else X[kept], totals


def merged_weights(first: IntVector, weights: Column) -> tuple[IntVector, Column]:
    """Index and total weight of each distinct row of positive weight; `first` is the result of `first_equal`."""
    totals = np.bincount(first, spread(weights, len(first)), len(first))
    kept = np.flatnonzero(totals > 0)
    return kept, 1.0 if (totals[kept] == 1.0).all() else totals[kept]


def first_equal(X: HostRows) -> IntVector:
    """Index of the first row equal to each row."""
    suspects = np.arange(X.shape[0]) if issparse(X) else repeated(quick_hashes(X))
    return first_of(X.shape[0], suspects, row_digests(X[suspects]))


def first_of(n_rows: int, suspects: IntVector, digests: Iterable[bytes]) -> IntVector:
    """Index of the first row equal to each row, given the digests of `suspects`; all other rows are distinct."""
    first_seen: dict[bytes, int] = {}
    first = np.arange(n_rows)
    for i, digest in zip(suspects, digests, strict=True):
        first[i] = first_seen.setdefault(digest, i)
    return first


def row_digests(X: HostRows) -> Iterator[bytes]:
    """Yield a digest of each row; different rows have different digests."""
    return (blake2b(row, digest_size=16).digest() for row in row_bytes(X))


def repeated(hashes: IntVector) -> IntVector:
    """Positions of values that occur more than once, ascending."""
    order = np.argsort(hashes, kind="stable")
    equal = hashes[order[1:]] == hashes[order[:-1]]
    return np.sort(order[np.append(equal, False) | np.insert(equal, 0, False)])


def quick_hashes(X: FloatMatrix) -> IntVector:
    """One hash per row: a sum modulo 2^64, so that it does not depend on the order of summation."""
    n, d = X.shape
    bits = np.uint64 if X.dtype.itemsize == 8 else np.uint32
    factors = np.random.default_rng(0).integers(1, 2**63, size=d, dtype=np.uint64) * np.uint64(2) + np.uint64(1)

    def hashes(rows: slice) -> IntVector:
        words = (X[rows] + 0.0).view(bits).astype(np.uint64, copy=False)  # adding zero turns -0.0 into 0.0
        # Floats with integer values have zeros as low bits, which a product would keep.
        words ^= words >> np.uint64(29)
        words *= factors
        return np.asarray(words.sum(axis=1))

    if d == 0:
        return np.zeros(n, np.uint64)
    return np.concatenate(list(ordered_map(hashes, short_blocks(n, 2 * d))))


def row_bytes(X: HostRows) -> Iterator[bytes | memoryview]:
    """Yield the content of each row; equal rows yield equal bytes, with -0.0 equal to 0.0."""
    if issparse(X):
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            filled = X.data[start:stop] != 0
            yield X.indices[start:stop][filled].tobytes() + X.data[start:stop][filled].tobytes()
    else:
        for row in X:
            yield (row + 0.0).data  # adding zero turns -0.0 into 0.0
