"""Entries of PP' between blocks counted against a bracket, by value or by bins: what a task of the cut does."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import row_blocks
from adaam.engines.cluster.task_kernels import TaskKernels
from adaam.engines.cut import MAX_DISTINCT, N_BINS, Tally, joined, merged
from adaam.engines.kernels.strips import tallied_strips

FEW_VALUES = 1 << 20  # up to so many are kept as they come; equal ones among more share one entry

Block = tuple[FloatMatrix, Any, Any]  # P, weights and diagonal of the same rows


def block_squares(P: FloatMatrix) -> FloatVector:
    """Diagonal entries of PP'."""
    return np.asarray(np.einsum("ij,ij->i", P, P))


def largest_square(P: FloatMatrix) -> float:
    """Largest diagonal entry of PP', which no other one exceeds."""
    return float(block_squares(P).max())


def counted_values(
    low: float, high: float, kernels: TaskKernels, own: Block, others: list[Block], with_own: bool
) -> Tally | None:
    """Count the entries of one block with others value by value; None where they are too many."""
    tallies: list[Tally] = []
    n_values = 0
    for part in tile_tallies(low, high, kernels, own, others, with_own):
        tallies.append(part)
        n_values += len(part.values)
        if n_values > MAX_DISTINCT:
            tallies = [merged(tallies)]
            n_values = len(tallies[0].values)
            if n_values > MAX_DISTINCT // 2:
                return None
    return joined(tallies) if n_values <= FEW_VALUES else merged(tallies)


def counted_bins(
    low: float, high: float, kernels: TaskKernels, own: Block, others: list[Block], with_own: bool
) -> Tally:
    """Count the entries of one block with others by bins."""
    edges = np.linspace(low, high, N_BINS + 1)[:-1]
    above, counted = 0.0, np.zeros(N_BINS)
    steps = N_BINS / (high - low) if high > low else 0.0
    for part in tile_tallies(low, high, kernels, own, others, with_own):
        above += part.above
        bins = np.minimum(((part.values - low) * steps).astype(np.intp), N_BINS - 1)
        counted += np.bincount(bins, part.counts, N_BINS)
    return Tally(above, edges, counted)


def tile_tallies(
    low: float, high: float, kernels: TaskKernels, own: Block, others: list[Block], with_own: bool
) -> Iterator[Tally]:
    """Count positive magnitudes against [low, high] tile by tile; the diagonal first where it is asked for."""
    if with_own:
        squares = block_squares(own[0])
        counts = np.broadcast_to(np.asarray(own[2], dtype=np.float64), squares.shape)
        yield inside(Tally(0.0, squares, counts), low, high)
    compiled = kernels.here()
    if compiled is not None and all(block[0].dtype == np.float64 for block in (own, *others)):
        blocks = [(P, weights) for P, weights, _ in (own, *others)]
        yield from (Tally(*part) for part in tallied_strips(low, high, blocks, with_own, compiled))
        return
    for values, counts in magnitudes(low, kernels.tile_rows, own, others, with_own):
        within = values <= high
        above, kept = _split(counts, within)
        yield Tally(above, values[within], np.broadcast_to(kept, (int(np.count_nonzero(within)),)))


def inside(tally: Tally, low: float, high: float) -> Tally:
    """Leave the values of [low, high], counting those above it; what counts for nothing is left out."""
    within = (tally.values >= low) & (tally.values <= high) & (tally.counts > 0)
    above = float(tally.counts[tally.values > high].sum())
    return Tally(tally.above + above, tally.values[within], tally.counts[within])


def _split(counts: Any, inside: FloatVector) -> tuple[float, Any]:
    """Total count of what is above a bracket, and the counts inside it: one for all, or one each."""
    if isinstance(counts, float):
        return counts * (len(inside) - np.count_nonzero(inside)), counts
    return float(counts[~inside].sum()), counts[inside]


def magnitudes(
    low: float, tile_rows: int, own: Block, others: list[Block], with_own: bool
) -> Iterator[tuple[FloatVector, Any]]:
    """Positive magnitudes >= low off the diagonal with how often each counts, by NumPy's tiles."""
    P, weights, _ = own
    for rows in row_blocks(len(P), tile_rows):
        for block in ([own] if with_own else []) + others:
            for columns in row_blocks(len(block[0]), tile_rows):
                if block is own and columns.start < rows.start:
                    continue
                tile = P[rows] @ block[0][columns].T
                if block is own and columns.start == rows.start:
                    tile = np.triu(tile, k=1)
                np.abs(tile, out=tile)
                found = np.flatnonzero(tile >= low) if low > 0 else np.flatnonzero(tile)
                yield tile.ravel()[found], _multiplicities(weights, block[1], rows, columns, found, tile.shape[1])


def _multiplicities(own: Any, other: Any, rows: slice, columns: slice, found: IntVector, width: int) -> Any:
    if isinstance(own, float):
        return 2.0 * own * own
    row, column = np.divmod(found, width)
    return np.asarray(2.0 * own[rows][row] * other[columns][column])


def joined_values(parts: list[Tally | None]) -> Tally | None:
    """Join tallies by value, unless they are too many."""
    whole = [part for part in parts if part is not None]
    if len(whole) < len(parts) or sum(len(part.values) for part in whole) > 4 * MAX_DISTINCT:
        return None
    if sum(len(part.values) for part in whole) <= FEW_VALUES:
        return joined(whole)
    every = merged(whole)
    return None if len(every.values) > MAX_DISTINCT else every


def joined_bins(parts: list[Tally]) -> Tally:
    """Add up tallies of the same bins."""
    counts = np.sum([part.counts for part in parts], axis=0)
    return Tally(sum(part.above for part in parts), parts[0].values, counts)
