"""Marks, a byte each, that vector code has set on the few entries of a row that matter."""

import numpy as np

from adaam._typing import IntVector
from adaam.engines.kernels.compiling import compiled, lowest_bit

STRIDE = 64  # marks that are gathered into one word, a bit each
# A multiplication that brings the lowest bits of eight bytes together in the highest byte.
GATHER = np.uint64(0x0102040810204080)


@compiled
def mark_room(n_entries: int) -> int:
    """Bytes for so many marks, in whole strides."""
    return (n_entries + STRIDE - 1) // STRIDE * STRIDE


@compiled
def marked(marks: IntVector, n_entries: int, start: int, places: IntVector) -> int:
    """Write `start` plus the position of each mark; 64 marks are passed over at once where there is none."""
    n_strides = mark_room(n_entries) // STRIDE
    marks[n_entries : n_strides * STRIDE] = 0
    words = marks.view(np.uint64)
    n_found = 0
    for stride in range(n_strides):
        bits = np.uint64(0)
        for q in range(8):
            bits |= ((words[8 * stride + q] * GATHER) >> np.uint64(56)) << np.uint64(8 * q)
        while bits:
            places[n_found] = start + STRIDE * stride + lowest_bit(bits)
            n_found += 1
            bits &= bits - np.uint64(1)
    return n_found
