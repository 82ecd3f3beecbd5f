"""Which loops run: compiled by numba where it is installed and worth it, or NumPy; and compiling them once a machine.

Modules whose loops are compiled (`neighbors.search`, `pruned.screened`, `zeros_loops`) import numba, so they are
imported where `uses_numba` says so and nowhere else.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from threading import Lock

import numpy as np

from adaam._checks import check_word
from adaam.files import own_lock_path, waiting_lock

# Below so many rows NumPy is done before numba is even imported, and rounding errors of float32 do not cancel.
MANY_ROWS = 4096

LONGEST_WAIT_S = 120.0  # compiling takes a third of it on a slow core

_COMPILING = Lock()


def uses_numba(choice: str, n_rows: int) -> bool:
    """Whether compiled loops do the work; told without importing numba.

    Parameters
    ----------
    choice : {"auto", "numba", "numpy"}
        "auto" means numba where it is installed and there are many rows.
    n_rows : int
        Rows of the work at hand.
    """
    check_word("kernels", choice, ("auto", "numba", "numpy"))
    if choice == "numpy" or (choice == "auto" and (n_rows < MANY_ROWS or not _installed())):
        return False
    if choice == "numba" and not _installed():
        raise ImportError(
            'kernels="numba" needs numba, which is not installed. Install it with: pip install adaam[fast]'
        )
    return True


@cache
def _installed() -> bool:
    return find_spec("numba") is not None


def compile_once(dtype: type) -> None:
    """Compile the loops that row blocks need, in one process of a machine at a time; others then read its code.

    Two processes that compile at once can leave an index of numba's cache that names another one's code.

    Parameters
    ----------
    dtype : type
        Precision in which rows are multiplied.
    """
    with _COMPILING:
        _compile(dtype)


@cache
def _compile(dtype: type) -> None:
    from adaam.engines.neighbors import search
    from adaam.engines.pruned import screened
    from adaam.engines.pruned.cut import Bracket
    from adaam.engines.pruned.tiles import all_pairs

    with _one_process_at_a_time(dtype.__name__):
        X = np.random.default_rng(0).standard_normal((40, 3))
        block = all_pairs(X, np.ones(40), X)
        work = screened.PrunedPass(block, Bracket(0.5, 1.0), dtype)
        work.complete(work.run(slice(0, 40)).stored(dtype), 0.75)
        list(screened.screened_tallies(block, Bracket(0.5, 1.0)))
        search.nearest_others(X, 2, 1.0)
        search.block_pairs(X, np.ones(40), 20)


@contextmanager
def _one_process_at_a_time(kind: str) -> Iterator[None]:
    """Keep other processes of this user on this machine waiting, where the system can, until one has compiled."""
    from adaam.engines.simd import DIGEST

    stamp = repr((version("numba"), DIGEST, __file__, os.environ.get("NUMBA_CACHE_DIR")))
    path = own_lock_path(f"compiled-{kind}")
    if path is None or (path.exists() and path.read_text() == stamp):
        yield
        return
    with waiting_lock(path, LONGEST_WAIT_S) as is_ours:
        yield
        if is_ours:
            path.write_text(stamp)
