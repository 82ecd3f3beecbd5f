"""Random row blocks: settings, and the keyed shuffle that assigns rows to blocks without storing a permutation."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from adaam._checks import check_whole
from adaam._typing import IntVector

# Chosen by the angles to a fit on all pairs (decision 0010); every cluster needs enough rows in each block.
BLOCK_ROWS = 5_000
BLOCK_ROWS_PER_CLUSTER = 100
SHUFFLE_ROUNDS = 6  # of the Feistel network


@dataclass(eq=False, repr=False)
class RowBlocks(BaseEstimator):
    """Learn from the pairs within random blocks of rows: cost grows with n, not with n².

    Rows are assigned to blocks at random. Neighbours and pruned affinities are computed within each block, and the
    small matrices of all blocks are added up before each eigenproblem, so every direction is learned from all rows in
    blocks.

    Parameters
    ----------
    n_rows : int, default=None
        Largest number of rows of a block; the sizes of blocks differ by one at most. Larger blocks are closer to all
        pairs and cost proportionally more. None means 5,000, or 100 for each cluster if that is more.
    n_blocks : int, default=None
        Number of blocks. None means enough for all rows, or for one GiB of the rows of a file. Rows in no block are
        not used.
    random_state : int, default=0
        Seed of the assignment. With another order of rows, or another seed, the map changes within the angles of
        `stability_`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAM, RowBlocks
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = AdaAM(10, pairs=RowBlocks(n_rows=450)).fit(X)
    >>> model.pairs_
    RowBlocks(n_blocks=4, n_rows=450)
    >>> len(model.stability_.angles)
    10
    """

    n_rows: int | None = None
    n_blocks: int | None = None
    random_state: int = 0

    def check(self) -> None:
        """Raise if a setting is out of range."""
        if self.n_rows is not None:
            check_whole("n_rows", self.n_rows, at_least=2)
        if self.n_blocks is not None:
            check_whole("n_blocks", self.n_blocks)
        check_whole("random_state", self.random_state, at_least=0)

    def block_rows(self, n_clusters: int) -> int:
        """Largest number of rows of a block."""
        return max(BLOCK_ROWS, BLOCK_ROWS_PER_CLUSTER * n_clusters) if self.n_rows is None else self.n_rows


@dataclass(frozen=True, slots=True)
class Deal:
    """Which of n rows take part, and in which block, independent of the order or pieces in which rows are read.

    Each row has a place in a shuffle of 0..n-1; the first `n_used` places, cut into `n_blocks` equal parts, are the
    blocks.
    """

    n_rows: int
    n_used: int
    n_blocks: int
    seed: int

    def places(self, rows: IntVector) -> IntVector:
        """Place of each row in the shuffle; a row takes part if it is below `n_used`."""
        return shuffled(rows, self.n_rows, self.seed)

    def block(self, index: int) -> slice:
        """Places of one block."""
        first, last = (place * self.n_used // self.n_blocks for place in (index, index + 1))
        return slice(first, last)


def shuffled(numbers: IntVector, n: int, seed: int) -> IntVector:
    """Permute 0..n-1 by a keyed Feistel network: a bijection that can be evaluated for any subset of the numbers."""
    half = np.uint64(max(1, -(-max(1, n - 1).bit_length() // 2)))
    mask = np.uint64((1 << int(half)) - 1)
    keys = np.random.SeedSequence(seed).generate_state(SHUFFLE_ROUNDS, np.uint64)

    def turned(value: IntVector) -> IntVector:
        left, right = value >> half, value & mask
        for key in keys:
            left, right = right, left ^ (_mixed(right ^ key) & mask)
        return left << half | right

    out = turned(np.asarray(numbers, np.uint64))
    # The network permutes a power of four; numbers that land at n or above are permuted again (cycle walking).
    outside = np.flatnonzero(out >= n)
    while len(outside):
        out[outside] = turned(out[outside])
        outside = outside[out[outside] >= n]
    return out.astype(np.int64)


def _mixed(value: IntVector) -> IntVector:
    """Scramble 64-bit numbers (the finaliser of splitmix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(value ^ (value >> np.uint64(31)))
