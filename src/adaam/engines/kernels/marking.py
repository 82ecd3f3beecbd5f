"""Marks, a byte each, that vector code has set on the few entries of a row that matter."""

import numpy as np

from adaam._typing import IntVector
from adaam.engines.kernels.compiling import compiled


@compiled
def mark_room(n_entries: int) -> int:
    """Bytes for so many marks, in whole words."""
    return (n_entries + 7) // 8 * 8


@compiled
def marked(marks: IntVector, n_entries: int, start: int, places: IntVector) -> int:
    """Write `start` plus the position of each mark; eight marks are passed over at once where there is none."""
    words = marks.view(np.uint64)
    n_words = n_entries // 8
    n_found = 0
    for word in range(n_words):
        if words[word]:
            for q in range(8 * word, 8 * word + 8):
                places[n_found] = start + q
                n_found += marks[q]
    for q in range(8 * n_words, n_entries):
        places[n_found] = start + q
        n_found += marks[q]
    return n_found
