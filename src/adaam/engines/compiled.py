"""Choice between loops compiled by numba and NumPy, and compilation in one process per machine.

Modules with compiled loops (`link_loops`, `neighbors.search`, `pruned.screened`, `simd`, `zeros`) import numba, so they
are imported only where numba is used: see `uses_numba`.
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

PANEL = 32  # columns of a panel: short enough for its sums to stay in registers

LOOKED_AT = 128  # rows in the sample of `spread_rows`, approximately
# Multiplications of nonzero entries as a share of those of a dense product: up to this share, skipping zeros is clearly
# faster; and number of columns from which listing the nonzero entries pays off (decision 0016).
MOST_FILLED = 0.4
LEAST_COLUMNS = 64

# With fewer rows, NumPy finishes before numba is even imported, and rounding errors of float32 do not cancel.
MANY_ROWS = 4096

LONGEST_WAIT_S = 120.0  # timeout of the lock, in seconds; compiling takes a third of it on a slow core

_COMPILING = Lock()


def uses_numba(choice: str, n_rows: int) -> bool:
    """Whether to use compiled loops; does not import numba.

    Parameters
    ----------
    choice : {"auto", "numba", "numpy"}
        "auto" means numba if it is installed and there are many rows.
    n_rows : int
        Number of rows to be processed.
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
    """Resolve "auto" for `n_rows` rows, for work that is then done on parts of them."""
    return "numba" if uses_numba(choice, n_rows) else "numpy"


@cache
def _installed() -> bool:
    return find_spec("numba") is not None


def few_filled(X: HostRows, n_columns: int, n_summed: int) -> bool:
    """Whether a product that skips zeros is faster than a dense one, estimated from a sample of rows.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows; compiled loops take only dense ones.
    n_columns : int
        Columns of the product.
    n_summed : int
        Columns that compiled loops compute for it, padding of panels included.
    """
    if issparse(X) or not (X.size and X.flags.c_contiguous) or X.dtype not in (np.float32, np.float64):
        return False
    if min(X.shape[1], n_columns) < LEAST_COLUMNS:
        return False
    few = spread_rows(X)
    return bool(np.count_nonzero(few) * n_summed <= MOST_FILLED * few.size * n_columns)


def spread_rows(X: FloatMatrix) -> FloatMatrix:
    """Sample of evenly spaced rows; the step is odd, since tables of all combinations have even periods."""
    return X[:: len(X) // LOOKED_AT | 1]


def panel_count(d: int) -> int:
    """Number of panels for `d` columns."""
    return -(-d // PANEL)


def compile_once(dtype: type) -> None:
    """Compile the loops that row blocks need, in one process per machine at a time; others then load its code.

    Two processes that compile at once can leave an index in numba's cache that refers to the code of the other one.

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
    """Make other processes of this user on this machine wait until one has compiled, if the system has locks."""
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
