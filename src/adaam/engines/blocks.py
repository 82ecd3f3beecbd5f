"""Row blocks on several threads; results come in order, so sums have the same bits on any number of threads.

A *column* holds one number per row: a vector, or a plain float if all rows have the same number.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from adaam._typing import Column, FloatVector
from adaam.linalg import one_blas_thread, thread_pools

Item = TypeVar("Item")
Result = TypeVar("Result")

# Bytes of a row block in float64: small enough that temporaries stay in cache and the allocator reuses their memory.
BLOCK_BYTES = 1 << 22

# Number of BLAS threads before `held_threads` limited them to one; 0 without it, and in threads of `ordered_map`.
_HELD: ContextVar[int] = ContextVar("held threads", default=0)


@contextmanager
def held_threads() -> Iterator[None]:
    """Limit BLAS to one thread, also between calls of `ordered_map`, which still uses all threads.

    An idle BLAS thread spins for milliseconds before it sleeps. Small products between two maps would wake it, and it
    would then compete with the threads of the next map (a seventh of a fit of 10,000 rows on two cores).
    """
    if _HELD.get():
        yield
        return
    token = _HELD.set(blas_threads())
    try:
        with one_blas_thread():
            yield
    finally:
        _HELD.reset(token)


def on_one_thread(work: Callable[..., Result], *given: Any) -> Result:
    """Call `work` with BLAS limited to this thread, for a task that shares its process with others."""
    with one_blas_thread():
        return work(*given)


def blas_threads() -> int:
    """Return the number of threads that BLAS would use without `held_threads`.

    It respects OMP_NUM_THREADS, container limits and the caller's `threadpool_limits`, so the engine needs no setting
    of its own.
    """
    pools = thread_pools().select(user_api="blas").info()
    return _HELD.get() or max((pool["num_threads"] for pool in pools), default=1)


def row_blocks(n_rows: int, rows: int) -> list[slice]:
    """Split range(n_rows) into slices of `rows` rows; the last one may be shorter."""
    return [slice(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows)]


def short_blocks(n_rows: int, n_columns: int, n_bytes: int = BLOCK_BYTES) -> list[slice]:
    """Row blocks of at most `n_bytes` each, as `n_columns` columns of float64, but of at least 16 rows."""
    return row_blocks(n_rows, max(16, n_bytes // (8 * max(1, n_columns))))


def for_each(work: Callable[[Item], None], items: Sequence[Item]) -> None:
    """Apply `work`, which returns nothing, to items on all threads; see `ordered_map`."""
    deque(ordered_map(work, items), maxlen=0)


def ordered_map(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Apply `work` to items on all threads and yield the results in the order of the items.

    Each item is computed by one thread with BLAS limited to that thread, so its bits do not depend on the number of
    threads; a nested map runs on the thread of its item. Only a few results are pending at a time, so memory does not
    grow with the number of items. A single item runs on the caller's thread with all BLAS threads: mapping one row must
    cost microseconds.
    """
    if len(items) == 1:
        yield work(items[0])
        return
    n_threads = blas_threads()
    if n_threads == 1:  # also in a nested map
        yield from map(work, items)
        return
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > 2 * n_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            # An interrupt or an early stop by the caller must not wait for queued blocks.
            for future in waiting:
                future.cancel()


def total(column: Column, n_rows: int) -> float:
    """Sum of a column over the rows."""
    return column * n_rows if isinstance(column, float) else float(column.sum())


def at(column: Column, rows: Any) -> Any:
    """Entries of a column for some rows, given by a slice or by indices."""
    return column if isinstance(column, float) else column[rows]


def beside(column: Column, rows: Any) -> Any:
    """Entries of a column for some rows, shaped to broadcast over their features."""
    return column if isinstance(column, float) else column[rows, None]


def spread(column: Column, n_rows: int) -> FloatVector:
    """Host column as a vector; a plain float is broadcast."""
    return np.broadcast_to(np.asarray(column, dtype=np.float64), (n_rows,))


def coordinate_order(Z: Any) -> Any:
    """Lexicographic order of rows: by their first coordinate, ties by the second, and so on; NumPy or tensors."""
    xp = namespace(Z)
    order = xp.argsort(Z[:, 0], stable=True)
    first = Z[order, 0]
    # If no two rows have the same first coordinate, it alone decides the order.
    if bool((first[1:] > first[:-1]).all()):
        return order
    order = xp.arange(len(Z), device=Z.device)
    for column in reversed(range(Z.shape[1])):
        order = order[xp.argsort(Z[order, column], stable=True)]
    return order


def namespace(array: Any) -> Any:
    """Return the module that an array belongs to: NumPy or PyTorch."""
    return sys.modules[type(array).__module__.partition(".")[0]]
