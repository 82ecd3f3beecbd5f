"""Compiled kernels for row blocks, tried out on a few rows first: worker processes of a machine compile in turn.

numba keeps what it compiled in files. Two processes that compile at once can leave an index that names another one's
code; with one at a time the first compiles, and the others read what it kept.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from types import ModuleType

import numpy as np

from adaam.engines.kernels import compiled_kernels
from adaam.engines.kernels.block_neighbors import near_blocks
from adaam.engines.kernels.narrow import common_frame
from adaam.engines.kernels.neighbors import nearest_others
from adaam.engines.kernels.strips import completed, surviving_strips, tallied_strips
from adaam.files import own_lock_path, waiting_lock

LONGEST_WAIT_S = 120.0  # compiling takes a third of it on a slow core

_COMPILING = Lock()


def rehearsed(narrow: type) -> ModuleType:
    """Return the compiled kernels; the first call of a process compiles them, or reads what another one compiled."""
    with _COMPILING:
        return _rehearsed(narrow)


@cache
def _rehearsed(narrow: type) -> ModuleType:
    kernels = compiled_kernels("numba", 0)
    assert kernels is not None
    with _one_process_at_a_time(narrow.__name__):
        X = np.random.default_rng(0).standard_normal((40, 3))
        found = surviving_strips((0.5, 1.0), [(X, X, 1.0), (X, X, 1.0)], True, narrow, kernels, len(X) ** 2)
        assert found is not None
        completed(found, 0.75, [(X, X, 1.0), (X, X, 1.0)], kernels)
        list(tallied_strips(0.5, 1.0, [(X, 1.0), (X, 1.0)], True, kernels))
        nearest_others(X, 2, kernels, 1.0)
        list(near_blocks([X, X], [np.ones(40), np.ones(40)], common_frame(X), kernels))
        best = np.zeros((40, 1), np.int64)
        kernels.keep_best(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), best, best, np.ones((40, 1)))
        kernels.magnitudes(X, np.zeros(1, np.int64), np.ones(1, np.int64), np.empty(1))
    return kernels


@contextmanager
def _one_process_at_a_time(kind: str) -> Iterator[None]:
    """Keep other processes of this user on this machine waiting, where the system can, until one has compiled."""
    path = own_lock_path(f"compiled-{kind}")
    if path is None or (path.exists() and path.read_text() == _stamp()):
        yield
        return
    with waiting_lock(path, LONGEST_WAIT_S) as is_ours:
        yield
        if is_ours:
            path.write_text(_stamp())


def _stamp() -> str:
    """What compiled code depends on: numba, the sources, and where the code is kept."""
    sources = sorted((path.name, path.stat().st_mtime_ns) for path in Path(__file__).parent.glob("*.py"))
    return repr((version("numba"), __file__, sources, os.environ.get("NUMBA_CACHE_DIR")))
