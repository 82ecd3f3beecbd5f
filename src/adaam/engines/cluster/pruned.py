"""The pruned pass over block pairs: X'WSWX as a sum of small matrices, row sums in row blocks."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector
from adaam.engines.blocks import row_blocks
from adaam.engines.cluster.columns import ClusterColumn, at_block, on_blocks
from adaam.engines.cluster.exchange import WHOLE_BYTES
from adaam.engines.cluster.pairs import (
    PairTask,
    RunningSum,
    all_pairs,
    block_bytes,
    pair_tasks,
    partners_at_once,
    piece,
)
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cluster.task_kernels import TaskKernels
from adaam.engines.cluster.workers import Future
from adaam.engines.columns import spread
from adaam.engines.kernels.strips import pruned_strips
from adaam.engines.tiles import prune

Block = tuple[FloatMatrix, FloatMatrix, Any]  # P, X and weights of the same rows


class PrunedPairs:
    """Tasks that see each pair of blocks once, what each of them is given, and the sums of what they return."""

    def __init__(self, P: ClusterRows, X: ClusterRows, weights: Column, task_bytes: int) -> None:
        n_blocks = len(P.sizes)
        self.P, self.X, self.workers = P, X, P.workers
        self.weights = on_blocks(weights, P.sizes, P.workers)
        self.group = partners_at_once(block_bytes(P.n_columns + X.n_columns, len(P), n_blocks), task_bytes)
        self.rounds = pair_tasks(n_blocks, self.group)

    def blocks(self, task: PairTask) -> list[Any]:
        """P, X and weights of the blocks of a task, its own first."""
        return [[self.P.parts[j], self.X.parts[j], at_block(self.weights, j)] for j in (task.own, *task.others)]

    def weights_of(self, task: PairTask) -> list[Any]:
        """Weights of the blocks of a task."""
        return [at_block(self.weights, j) for j in (task.own, *task.others)]

    def added(self, parts: Iterable[tuple[PairTask, Future]]) -> tuple[Future, ClusterColumn]:
        """Sum of the Gram matrices, which are half of what is wanted, and row sums times the weights."""
        gram = RunningSum(self.workers, "pruned-gram-sum")
        sums = [RunningSum(self.workers, "row-sums") for _ in self.P.sizes]
        n_tasks = sum(map(len, self.rounds))
        whole = sums_bytes(n_tasks, self.X.n_columns, self.group, max(self.P.sizes)) <= WHOLE_BYTES
        for task, part in parts:
            gram.add(piece(self.workers, "pruned-gram-part", part, 0, whole))
            for place, index in enumerate((task.own, *task.others)):
                sums[index].add(piece(self.workers, "row-sums-part", part, 1 + place, whole))
        degrees = ClusterColumn(tuple(total.result() for total in sums), self.P.sizes, self.workers)
        return gram.result(), degrees * self.weights


def pruned_gram(
    P: ClusterRows, threshold: float, X: ClusterRows, weights: Column, task_bytes: int, kernels: TaskKernels
) -> tuple[FloatMatrix, ClusterColumn]:
    """X'WSWX and WSw over the off-diagonal entries of PP' of magnitude at least `threshold`."""
    pairs = PrunedPairs(P, X, weights, task_bytes)
    work = partial(pruned_part, threshold, kernels)

    def submit(task: PairTask) -> Any:
        own, *others = pairs.blocks(task)
        return pairs.workers.call("pruned-gram", work, own, others, task.with_own)

    gram, degrees = pairs.added(all_pairs(pairs.workers, "pruned pairs", pairs.rounds, submit))
    half = pairs.workers.fetch([gram])[0]
    return half + half.T, degrees


def sums_bytes(n_tasks: int, n_columns: int, group: int, block_rows: int) -> float:
    """Bytes of what all tasks of a pass return."""
    return 8.0 * n_tasks * (n_columns**2 + (1 + group) * block_rows)


def pruned_part(
    threshold: float, kernels: TaskKernels, own: Block, others: list[Block], with_own: bool
) -> tuple[FloatMatrix, ...]:
    """Half of the Gram matrix and the row sums that one block makes with others, and with itself where asked for."""
    compiled = kernels.here()
    if compiled is not None and all(X.dtype == np.float64 for _, X, _ in (own, *others)):
        part, sums = pruned_strips(threshold, [own, *others], with_own, kernels.narrow, compiled)
        return part, *sums
    return pruned_tiles(threshold, kernels.tile_rows, own, others, with_own)


def pruned_tiles(
    threshold: float, tile_rows: int, own: Block, others: list[Block], with_own: bool
) -> tuple[FloatMatrix, ...]:
    """The same by NumPy's tiles."""
    P, X, _ = own
    part = np.zeros((X.shape[1], X.shape[1]))
    own_sums, other_sums = np.zeros(len(P)), [np.zeros(len(block[0])) for block in others]
    for rows in row_blocks(len(P), tile_rows):
        product = np.zeros((rows.stop - rows.start, X.shape[1]), X.dtype)

        def take(
            block: Block, columns: slice, sums: FloatVector, above: bool, rows: slice = rows, out: Any = product
        ) -> None:
            tile = P[rows] @ block[0][columns].T
            kept = prune(np.triu(tile, k=1) if above else tile, threshold)
            out += kept @ _weighted(block, columns)
            own_sums[rows] += kept @ _counts(block, columns)
            sums[columns] += kept.T @ _counts(own, rows)

        if with_own:
            for columns in row_blocks(len(P), tile_rows):
                if columns.start >= rows.start:
                    take(own, columns, own_sums, columns.start == rows.start)
        for block, sums in zip(others, other_sums, strict=True):
            for columns in row_blocks(len(block[0]), tile_rows):
                take(block, columns, sums, False)
        part += np.asarray(_weighted(own, rows).T @ product, np.float64)
    return part, own_sums, *other_sums


def _weighted(block: Block, rows: slice) -> FloatMatrix:
    _, X, weights = block
    if isinstance(weights, float):
        return X[rows] if weights == 1.0 else X[rows] * weights
    return np.asarray(X[rows] * weights[rows, None].astype(X.dtype))


def _counts(block: Block, rows: slice) -> FloatVector:
    P, _, weights = block
    return np.asarray(spread(weights, len(P))[rows], P.dtype)
