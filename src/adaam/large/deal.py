"""Rows dealt to blocks at random: a keyed shuffle of row numbers that needs no table of them."""

from dataclasses import dataclass

import numpy as np

from adaam._typing import IntVector

N_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Deal:
    """Which of n rows take part, and in which block: the same whatever order or pieces rows are read in.

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
    """Permute 0..n-1 by a keyed Feistel network: a bijection that is computed for any part of the numbers alone."""
    half = np.uint64(max(1, -(-max(1, n - 1).bit_length() // 2)))
    mask = np.uint64((1 << int(half)) - 1)
    keys = np.random.SeedSequence(seed).generate_state(N_ROUNDS, np.uint64)

    def turned(value: IntVector) -> IntVector:
        left, right = value >> half, value & mask
        for key in keys:
            left, right = right, left ^ (_mixed(right ^ key) & mask)
        return left << half | right

    out = turned(np.asarray(numbers, np.uint64))
    # The network permutes a power of four; what lands past n walks on along its cycle until it is back inside.
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
