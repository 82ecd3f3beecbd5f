"""Row blocks on several threads, results taken in order: sums have the same bits on any number of threads.

What has one number a row is a column: a vector, or a plain float where all rows have the same one, which then is stored
nowhere.
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

# Row blocks of this size are short enough for their temporaries to be reused by the allocator, and to stay in cache.
BLOCK_BYTES = 1 << 22

# Threads that were BLAS's before they were held; a thread of ours begins without any.
_HELD: ContextVar[int] = ContextVar("held threads", default=0)


@contextmanager
def held_threads() -> Iterator[None]:
    """Keep BLAS to one thread for as long as maps below have the others.

    A thread of BLAS that has nothing to do spins for milliseconds before it sleeps: between maps, small products would
    wake it, and it would then take time from theirs (a seventh of a fit of 10,000 rows on two cores).
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
    """Do work on this thread alone, as a task beside others of its process."""
    with one_blas_thread():
        return work(*given)


def blas_threads() -> int:
    """Return the number of threads BLAS would use here and now, were they not held.

    It follows OMP_NUM_THREADS, container limits and a `threadpool_limits` of the caller's, so the engine needs no
    setting of its own.
    """
    pools = thread_pools().select(user_api="blas").info()
    return _HELD.get() or max((pool["num_threads"] for pool in pools), default=1)


def row_blocks(n_rows: int, rows: int) -> list[slice]:
    """Cut 0..n_rows into slices of `rows` rows; the last one may be shorter."""
    return [slice(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows)]


def short_blocks(n_rows: int, n_columns: int, n_bytes: int = BLOCK_BYTES) -> list[slice]:
    """Row blocks of which so many columns in float64 take no more than `n_bytes`."""
    return row_blocks(n_rows, max(16, n_bytes // (8 * max(1, n_columns))))


def for_each(work: Callable[[Item], None], items: Sequence[Item]) -> None:
    """Do work that returns nothing for items on all threads, as `ordered_map` does."""
    deque(ordered_map(work, items), maxlen=0)


def ordered_map(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Apply `work` to items on all threads and yield the results in the order of the items.

    Each item is computed by one thread with BLAS kept to that thread, so its bits do not depend on how many threads
    there are; a map within such work runs on its thread. Only a few results wait at a time: memory does not grow with
    the number of items. A lone item is left to the caller's thread and to BLAS's own threads: mapping one row must cost
    microseconds.
    """
    if len(items) == 1:
        yield work(items[0])
        return
    n_threads = blas_threads()
    if n_threads == 1:  # also within the work of another such map
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
    """Sum over the rows."""
    return column * n_rows if isinstance(column, float) else float(column.sum())


def at(column: Column, rows: Any) -> Any:
    """Numbers of some rows, chosen by a slice or by indices."""
    return column if isinstance(column, float) else column[rows]


def beside(column: Column, rows: Any) -> Any:
    """Numbers of some rows, laid out so that they multiply the rows."""
    return column if isinstance(column, float) else column[rows, None]


def spread(column: Column, n_rows: int) -> FloatVector:
    """Host column as a vector, also where all rows have the same number."""
    return np.broadcast_to(np.asarray(column, dtype=np.float64), (n_rows,))


def coordinate_order(Z: Any) -> Any:
    """Order of rows by their first column, among equals by the second, and so on; NumPy arrays or tensors."""
    xp = namespace(Z)
    order = xp.argsort(Z[:, 0], stable=True)
    first = Z[order, 0]
    # Where no two rows are equal in it, the first column decides alone, and the others need no sorting.
    if bool((first[1:] > first[:-1]).all()):
        return order
    order = xp.arange(len(Z), device=Z.device)
    for column in reversed(range(Z.shape[1])):
        order = order[xp.argsort(Z[order, column], stable=True)]
    return order


def namespace(array: Any) -> Any:
    """NumPy or PyTorch, whichever an array is of."""
    return sys.modules[type(array).__module__.partition(".")[0]]
