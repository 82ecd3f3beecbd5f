"""Which loops run: compiled by numba where it is installed and worth it, or NumPy; and compiling them once a machine.

Modules whose loops are compiled (`neighbors.search`, `pruned.screened`, `zeros`) import numba, so they are
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
from scipy.sparse import issparse

from adaam._checks import check_word
from adaam._typing import FloatMatrix, HostRows
from adaam.files import own_lock_path, waiting_lock

PANEL = 32  # columns of X whose sums stay in registers

LOOKED_AT = 128  # rows that are looked at for how many entries are zero
# Entries that are not zero, over all that a dense product would take, up to which they alone take clearly less time;
# and columns from which on making lists of them is worth it (decision 0016).
MOST_FILLED = 0.4
LEAST_COLUMNS = 64

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


def chosen_kernels(choice: str, n_rows: int) -> str:
    """Return what "auto" means for so many rows, for work that is done on parts of them."""
    return "numba" if uses_numba(choice, n_rows) else "numpy"


@cache
def _installed() -> bool:
    return find_spec("numba") is not None


def few_filled(X: HostRows, n_columns: int, n_summed: int) -> bool:
    """Whether so few entries are not zero that a product from them alone takes less time, told from a few rows.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows; compiled loops take dense ones alone.
    n_columns : int
        Columns of the product.
    n_summed : int
        Columns that are summed for it, some of them for nothing.
    """
    if issparse(X) or not (X.size and X.flags.c_contiguous) or X.dtype not in (np.float32, np.float64):
        return False
    if min(X.shape[1], n_columns) < LEAST_COLUMNS:
        return False
    few = spread_rows(X)
    return bool(np.count_nonzero(few) * n_summed <= MOST_FILLED * few.size * n_columns)


def spread_rows(X: FloatMatrix) -> FloatMatrix:
    """Few rows, spread evenly; the step is odd, since tables of all combinations repeat after an even number."""
    return X[:: len(X) // LOOKED_AT | 1]


def panel_count(d: int) -> int:
    """Panels for so many columns."""
    return -(-d // PANEL)


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

    with _one_process_at_a_time(dtype.__name__):
        X = np.random.default_rng(0).standard_normal((40, 3))
        screened.PrunedPass(X, np.ones(40), X, Bracket(0.5, 1.0), dtype).run(slice(0, 40))
        screened.cut_laplacian(X, 1.0, X, np.ones(40), np.ones(40), None, cut=1.0)
        search.nearest_others(X, 2)


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
