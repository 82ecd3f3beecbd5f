"""How loops are compiled."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """Compile on first use; sums run in the order that is written, products and sums may be fused."""
    return cast(Loop, _compiled(loop, {"contract"}))


def compiled_in_lanes(loop: Loop) -> Loop:
    """Compile on first use, sums split over vector lanes: faster, their last bits those of the processor at hand."""
    return cast(Loop, _compiled(loop, {"contract", "reassoc"}))


def _compiled(loop: Any, fastmath: set[str]) -> Any:
    # All loops release the interpreter's lock, so that each thread of an engine runs its own.
    options = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        return numba.njit(cache=True, **options)(loop)
    except RuntimeError:  # there is no folder to keep the result in
        return numba.njit(**options)(loop)
