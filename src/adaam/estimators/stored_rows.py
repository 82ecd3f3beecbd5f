"""Rows of a source that is larger than memory, as many as fit."""

from typing import Any

import numpy as np

from adaam._checks import check_weights
from adaam._typing import FloatMatrix, FloatVector
from adaam.large import Deal, taken_rows
from adaam.planning import LOADED_BYTES
from adaam.progress import teller
from adaam.rows import RowSource, counted_rows, n_bytes, read_all

PAUSE_SECONDS = 5.0  # between two lines of progress


def is_large(source: RowSource) -> bool:
    """Whether a source is too large to load, or of unknown size."""
    size = n_bytes(source)
    return size is None or size > LOADED_BYTES


def rows_at_hand(source: RowSource, sample_weight: Any, seed: int, verbose: int) -> tuple[FloatMatrix, Any]:
    """Return all rows of a small source, or a random GiB of a large one, with their weights.

    Rows of weight zero are passed over. A source that does not know how many rows it has is read once to count them.
    """
    if not is_large(source):
        return read_all(source), sample_weight
    n_rows = counted_rows(source)
    weights: FloatVector | None = None
    if sample_weight is not None:
        weights = check_weights(sample_weight, n_rows)
    n_present = n_rows if weights is None else int(np.count_nonzero(weights))
    most = max(2, LOADED_BYTES // (source.n_features * source.dtype.itemsize))
    return taken_rows(source, weights, Deal(n_present, min(n_present, most), 1, seed), teller(verbose, PAUSE_SECONDS))
