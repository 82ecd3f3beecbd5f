"""Rows that the caller makes, block by block."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from adaam._typing import FloatMatrix
from adaam.rows.protocol import RowsError, check_numbers


class BlockRows:
    """Rows from a function that starts a new run over the row blocks each time it is called.

    Parameters
    ----------
    make : callable
        Returns an iterable of arrays of shape (some rows, n_features), the same ones each time. A fit calls it once
        for each pass over the rows, and once more to look at the first block.
    n_rows : int, default=None
        Number of rows in all; None means counted in the first pass.

    Examples
    --------
    >>> import numpy as np
    >>> from adaam.rows import BlockRows
    >>> rows = BlockRows(lambda: (np.full((2, 3), i) for i in range(4)))
    >>> rows.n_features, sum(len(block) for block in rows.blocks())
    (3, 8)
    """

    names: list[str] | None = None
    label = "row blocks"

    def __init__(self, make: Callable[[], Iterable[Any]], n_rows: int | None = None) -> None:
        if not callable(make):
            raise TypeError(
                f"make={make!r} is a {type(make).__name__}; a fit reads rows more than once, so pass a function that "
                "returns a new iterator at each call."
            )
        self.make = make
        self.n_rows = n_rows
        first = next((block for block in self.blocks() if len(block)), None)
        if first is None or first.ndim != 2:
            raise RowsError(f"{self.label}: the first block is {first!r}; blocks must be tables of rows.")
        self.n_features: int = first.shape[1]
        self.dtype: np.dtype[Any] = check_numbers(self.label, first.dtype)

    def blocks(self) -> Iterator[FloatMatrix]:
        """Yield the blocks as the function gives them."""
        yield from map(np.asarray, self.make())
