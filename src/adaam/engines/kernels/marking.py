"""Marks, a bit each, that vector code has set on the few entries of a row that matter."""

import numpy as np

from adaam._typing import IntVector
from adaam.engines.kernels.compiling import compiled
from adaam.engines.kernels.lanes import lowest_bit, n_bits

WORD = 64
AT_ONCE = 4  # positions written without asking how many there are: a wrong guess of a branch costs more
ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


@compiled
def marked(words: IntVector, start: int, stop: int, places: IntVector) -> int:
    """Write the positions from `start` to `stop` whose bit is set; there must be room for `AT_ONCE` more."""
    n_found = 0
    for w in range(start // WORD, (stop + WORD - 1) // WORD):
        bits = words[w]
        if start > w * WORD:
            bits &= ONES << np.uint64(start - w * WORD)
        if stop < (w + 1) * WORD:
            bits &= ONES >> np.uint64((w + 1) * WORD - stop)
        n_more = n_found + n_bits(bits)
        for q in range(AT_ONCE):
            places[n_found + q] = w * WORD + lowest_bit(bits)
            bits &= bits - np.uint64(1)
        n_found += AT_ONCE
        while bits:
            places[n_found] = w * WORD + lowest_bit(bits)
            n_found += 1
            bits &= bits - np.uint64(1)
        n_found = n_more
    return n_found
