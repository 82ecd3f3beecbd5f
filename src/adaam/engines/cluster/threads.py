"""How a task runs inside a worker: BLAS on one thread, and memory of temporaries kept from one task to the next."""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import Any

from adaam.linalg import thread_pools

# glibc's own names for what mallopt sets, and the values while a task runs: temporaries of up to 32 MiB are then made
# in memory that the process has already. Nannies of Dask set MALLOC_TRIM_THRESHOLD_, which also fixes the size from
# which every array is mapped and cleared anew, at 128 KiB: half of the time of a task (decision 0015).
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
KEPT = {MMAP_THRESHOLD: 1 << 25, TRIM_THRESHOLD: 1 << 27}


IDLE_SECONDS = 1.0  # without a task, after which memory is given back


class _Held:
    """How many tasks of this process are inside, what lets go of the limit on threads, and whether memory is kept."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.limiter: Any = None
        self.last_end: float | None = None  # None while memory is not kept


_HELD = _Held()


def on_one_thread(work: Callable[..., Any], *given: Any) -> Any:
    """Do `work` as a task."""
    with task_settings():
        return work(*given)


@contextmanager
def task_settings() -> Iterator[None]:
    """Keep BLAS to one thread while any task of this process is inside: the first in sets it, the last out lets go.

    Limits are those of a process, so that each task restoring what it found would leave others without.
    """
    with _HELD.lock:
        _HELD.count += 1
        if _HELD.count == 1:
            _HELD.limiter = thread_pools().limit(limits=1, user_api="blas")
            if _HELD.last_end is None and _is_trimmed():
                _keep_memory()
                _look_again()
            _HELD.last_end = time.monotonic()
    try:
        yield
    finally:
        with _HELD.lock:
            _HELD.count -= 1
            _HELD.last_end = time.monotonic()
            if _HELD.count == 0:
                _HELD.limiter.restore_original_limits()


def _look_again() -> None:
    """Give memory back as soon as there has been no task for a while."""
    timer = Timer(IDLE_SECONDS, _return_if_idle)
    timer.daemon = True
    timer.start()


def _return_if_idle() -> None:
    with _HELD.lock:
        assert _HELD.last_end is not None
        if _HELD.count > 0 or time.monotonic() - _HELD.last_end < IDLE_SECONDS:
            _look_again()
        else:
            _return_memory()
            _HELD.last_end = None


def _keep_memory() -> None:
    libc = ctypes.CDLL(None)
    for name, value in KEPT.items():
        libc.mallopt(name, value)


def _return_memory() -> None:
    """Give back what is free, as the nanny wants it."""
    libc = ctypes.CDLL(None)
    libc.mallopt(TRIM_THRESHOLD, int(os.environ["MALLOC_TRIM_THRESHOLD_"]))
    libc.mallopt(MMAP_THRESHOLD, 1 << 17)
    libc.malloc_trim(0)


def _is_trimmed() -> bool:
    return sys.platform == "linux" and os.environ.get("MALLOC_TRIM_THRESHOLD_", "").isdigit()
