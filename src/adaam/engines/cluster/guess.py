"""A bracket for the cut from sampled pairs of rows: workers draw and measure them, one puts them in order."""

from typing import Any, NamedTuple

import numpy as np

from adaam._typing import Column, FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import row_blocks
from adaam.engines.cluster.columns import picked_parts
from adaam.engines.cluster.rows import ClusterRows
from adaam.engines.cluster.task_kernels import TaskKernels
from adaam.engines.cluster.workers import Future
from adaam.engines.columns import spread

GUESS_ROWS = 1 << 17  # rows among which pairs are drawn, at most
GUESS_BYTES, FEW_ROWS = 1 << 25, 2048  # bytes of these rows, unless they were few
MAX_SAMPLED = 1 << 21  # pairs, at most
MEASURED_PAIRS = 1 << 15  # at a time


class Sampled(NamedTuple):
    """Largest magnitudes among sampled entries with how many each stands for, and the total of all of them."""

    values: FloatVector
    counts: FloatVector
    total: float


class Guess(NamedTuple):
    """How a bracket is drawn: rows and pairs of them, the share of entries above the cut, and room either way of it."""

    n_rows: int
    n_sampled: int
    share: float
    room: float


def planned_guess(shape: tuple[int, int], t: float, total: float) -> Guess:
    """Plan the guess of the t-th largest of entries of the total multiplicity `total`."""
    n, r = shape
    n_rows = min(n, GUESS_ROWS, max(FEW_ROWS, GUESS_BYTES // (8 * r)))
    n_sampled = min(MAX_SAMPLED, n_rows * n_rows // 512 + 4096)
    share = t / total
    # Four standard errors of the sampled pairs, and of the sampled rows, which have about as much above the cut as it
    # varies between them.
    room = 4.0 * np.sqrt(max(share, 1.0 / n_sampled) / n_sampled) / share + (8.0 / np.sqrt(n_rows) if n_rows < n else 0)
    return Guess(n_rows, n_sampled, share, float(room))


def guessed_bracket(P: ClusterRows, guess: Guess, weights: Column, diagonal: Column, kernels: TaskKernels) -> Future:
    """Bracket the cut, on a worker: a miss costs a pass, never exactness."""
    n, workers = len(P), P.workers
    rows = np.sort(np.random.default_rng(0).permutation(n)[: guess.n_rows])
    parts, held, own = (_chosen(value, P, rows) for value in (P, weights, diagonal))
    n_tasks = min(workers.n_threads(), 16)
    top = min(1.0, 1.5 * guess.share * (1.0 + guess.room))
    given = (guess.n_sampled // n_tasks, top, kernels)
    tasks = [
        workers.call("cut-guess", sampled, parts, held, own, n / guess.n_rows, (seed, n_tasks), *given)
        for seed in range(n_tasks)
    ]
    return workers.call("cut-bracket", bracket_of, tasks, guess)


def bracket_of(found: list[Sampled], guess: Guess) -> tuple[float, float]:
    """Read the bracket off what was drawn."""
    values, counts = (np.concatenate([getattr(part, name) for part in found]) for name in ("values", "counts"))
    order = np.argsort(values)[::-1]
    reached = np.cumsum(counts[order]) / sum(part.total for part in found)
    first, last = np.searchsorted(reached, [guess.share * (1.0 - guess.room), guess.share * (1.0 + guess.room)])
    # Where what was sent ends above the cut, anything below may be it.
    low = float(values[order[last]]) if last < len(order) else 0.0
    return low, float(values[order[min(first, len(order) - 1)]])


def sampled(
    parts: list[FloatMatrix],
    weights: list[Any],
    diagonal: list[Any],
    scale: float,
    turn: tuple[int, int],
    n_pairs: int,
    top: float,
    kernels: TaskKernels,
) -> Sampled:
    """Draw pairs of different rows, and of every so-manieth row with itself; send the largest ones.

    `scale` is how many rows each of these stands for.
    """
    P = np.concatenate(parts)
    held, own = (
        np.concatenate([spread(part, len(rows)) for part, rows in zip(column, parts, strict=True)])
        for column in (weights, diagonal)
    )
    seed, n_tasks = turn
    rng = np.random.default_rng(seed)
    row = rng.integers(len(P), size=n_pairs)
    column = rng.integers(len(P) - 1, size=n_pairs)
    column += column >= row
    values = np.empty(n_pairs)
    _magnitudes(P, row, column, values, kernels)
    off_diagonal = (float(held.sum()) ** 2 - float((held**2).sum())) * scale * scale / n_tasks
    each = 1.0 if isinstance(weights[0], float) else held[row] * held[column]
    largest = _largest(values, int(top * n_pairs) + 64)
    counts = np.broadcast_to(each, n_pairs)[largest] * (off_diagonal / (np.broadcast_to(each, n_pairs).sum() or 1.0))
    mine = np.arange(seed, len(P), n_tasks)
    squares = np.einsum("ij,ij->i", P[mine], P[mine])
    return Sampled(
        np.concatenate([values[largest], squares]),
        np.concatenate([counts, own[mine] * scale]),
        off_diagonal + float(own[mine].sum()) * scale,
    )


def _magnitudes(P: FloatMatrix, row: IntVector, column: IntVector, out: FloatVector, kernels: TaskKernels) -> None:
    compiled = kernels.here()
    if compiled is not None and P.dtype == np.float64:
        compiled.magnitudes(P, row, column, out)
        return
    for part in row_blocks(len(row), MEASURED_PAIRS):
        np.abs(np.einsum("ij,ij->i", P[row[part]], P[column[part]]), out=out[part])


def _largest(values: FloatVector, n_top: int) -> IntVector:
    return np.arange(len(values)) if n_top >= len(values) else np.argpartition(values, -n_top)[-n_top:]


def _chosen(value: Any, P: ClusterRows, rows: IntVector) -> list[Any]:
    """Some rows of the factor or of a column, in the blocks they are in."""
    if len(rows) == len(P):
        return [value] * len(P.parts) if isinstance(value, float) else list(value.parts)
    n_parts = len(np.unique(np.searchsorted(np.cumsum(P.sizes), rows, side="right")))
    return [value] * n_parts if isinstance(value, float) else picked_parts(value, rows)
