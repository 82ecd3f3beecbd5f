"""One thread for each task of a worker: the worker's own threads are the parallelism."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from adaam.linalg import thread_pools


class _Held:
    """How many tasks of this process want BLAS kept to one thread, and what lets go of it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.limiter: Any = None


_HELD = _Held()


def on_one_thread(work: Callable[..., Any], *given: Any) -> Any:
    """Do `work` with BLAS on one thread."""
    with one_thread():
        return work(*given)


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS to one thread while any task of this process is inside: the first in limits it, the last out lets go.

    Limits are those of a process, so that each task restoring what it found would leave others without.
    """
    with _HELD.lock:
        _HELD.count += 1
        if _HELD.count == 1:
            _HELD.limiter = thread_pools().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _HELD.lock:
            _HELD.count -= 1
            if _HELD.count == 0:
                _HELD.limiter.restore_original_limits()
