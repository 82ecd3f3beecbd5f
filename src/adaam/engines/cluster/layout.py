"""Row blocks: how many rows each has, where they start, and blocks of another size made from them."""

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from adaam.engines.cluster.workers import Future, Workers

Sizes: TypeAlias = tuple[int, ...]

MOST_BLOCKS = 96  # unless there are more threads; block pairs, and pieces sent from each to each, stay few thousand
LEAST_ROWS = 512


def starts(sizes: Sizes) -> tuple[int, ...]:
    """First row of each block."""
    return tuple(accumulate(sizes, initial=0))[:-1]


def even_sizes(n_rows: int, n_blocks: int) -> Sizes:
    """Cut rows into blocks of equal size, but for one row more or less."""
    edges = [i * n_rows // n_blocks for i in range(n_blocks + 1)]
    return tuple(stop - start for start, stop in pairwise(edges))


def planned_sizes(n_rows: int, row_bytes: int, n_threads: int, task_bytes: int, block_rows: int | None) -> Sizes:
    """Choose row blocks: two for each thread, so that all have work in pairs of them, within what a task may hold."""
    if block_rows is None:
        n_blocks = max(4, 2 * n_threads, -(-8 * n_rows * row_bytes // task_bytes))
        n_blocks = min(n_blocks, max(MOST_BLOCKS, 2 * n_threads), max(1, n_rows // LEAST_ROWS))
    else:
        n_blocks = -(-n_rows // block_rows)
    return even_sizes(n_rows, max(1, n_blocks))


def resized(workers: Workers, parts: Sequence[Future], sizes: Sizes, wanted: Sizes) -> list[Future]:
    """Row blocks of the wanted sizes, made from blocks of other sizes."""
    if sizes == wanted:
        return list(parts)
    first = starts(sizes)
    made = []
    for start, size in zip(starts(wanted), wanted, strict=True):
        pieces, cuts = [], []
        for part, begin, height in zip(parts, first, sizes, strict=True):
            low, high = max(start, begin), min(start + size, begin + height)
            if low < high:
                pieces.append(part)
                cuts.append(slice(low - begin, high - begin))
        made.append(workers.call("cut-blocks", joined_cuts, pieces, cuts))
    return made


def joined_cuts(pieces: list[Any], cuts: list[slice]) -> Any:
    """Join cuts of several row blocks."""
    return stacked([piece[cut] for piece, cut in zip(pieces, cuts, strict=True)])


def stacked(blocks: list[Any]) -> Any:
    """Row blocks, dense or sparse, one below the other."""
    if len(blocks) == 1:
        return blocks[0]
    if any(issparse(block) for block in blocks):
        return csr_array(vstack(blocks, format="csr"))
    return np.concatenate(blocks)


def added(parts: list[Any]) -> Any:
    """Add up parts in their order."""
    return reduce(np.add, parts)
