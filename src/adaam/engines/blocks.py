"""Row blocks on several threads, results taken in order: sums have the same bits on any number of threads."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, TypeVar

from adaam.linalg import thread_pools

Item = TypeVar("Item")
Result = TypeVar("Result")


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
        with thread_pools().limit(limits=1, user_api="blas"):
            yield
    finally:
        _HELD.reset(token)


class _OneThread:
    """Keeps BLAS to one thread while any of several threads is inside: the first in sets it, the last out lets go.

    Limits are those of a process, so that each thread restoring what it found would leave others without.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.n_inside = 0
        self.limiter: Any = None

    def __enter__(self) -> None:
        with self.lock:
            self.n_inside += 1
            if self.n_inside == 1:
                self.limiter = thread_pools().limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.n_inside -= 1
            if self.n_inside == 0:
                self.limiter.restore_original_limits()


_ONE_THREAD = _OneThread()


def on_one_thread(work: Callable[..., Result], *given: Any) -> Result:
    """Do work on this thread alone, as a task beside others of its process."""
    with _ONE_THREAD:
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
    with thread_pools().limit(limits=1, user_api="blas"), ThreadPoolExecutor(n_threads) as pool:
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
