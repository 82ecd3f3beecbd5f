"""Compiled kernels for pairs of rows and for rows with many zeros: optional, found at run time, NumPy without them."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from adaam._checks import check_word

# Below so many rows NumPy is done before numba is even imported.
MANY_ROWS = 4096


def compiled_kernels(choice: str, n_rows: int) -> ModuleType | None:
    """Return the module of compiled kernels, or None where NumPy is to do the work.

    Parameters
    ----------
    choice : {"auto", "numba", "numpy"}
        "auto" means numba where it is installed and there are many rows.
    n_rows : int
        Rows of the work at hand.
    """
    return import_module("adaam.engines.kernels.compiled") if are_compiled(choice, n_rows) else None


def are_compiled(choice: str, n_rows: int) -> bool:
    """Whether compiled kernels are to do the work; told without importing numba."""
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
