"""Rows of a source: all of a small one, a random sample of one that is too large to load."""

from typing import Any

import numpy as np

from adaam._checks import check_weights
from adaam._typing import FloatMatrix, FloatVector
from adaam.estimators.phases import teller
from adaam.large.blocked import taken_rows
from adaam.large.row_blocks import Deal
from adaam.planning import LOADED_BYTES
from adaam.rows import RowSource, counted_rows, n_bytes, read_all

PAUSE_SECONDS = 5.0  # between two lines of progress


def is_large(source: RowSource) -> bool:
    """Whether a source is too large to load, or of unknown size."""
    size = n_bytes(source)
    return size is None or size > LOADED_BYTES


def rows_at_hand(source: RowSource, sample_weight: Any, seed: int, verbose: int) -> tuple[FloatMatrix, Any]:
    """Return all rows of a small source, or a random GiB of those of positive weight of a large one; and weights."""
    if not is_large(source):
        return read_all(source), sample_weight
    weights, _, n_present = counted(source, sample_weight)
    most = max(2, LOADED_BYTES // (source.n_features * source.dtype.itemsize))
    return taken_rows(source, weights, Deal(n_present, min(n_present, most), 1, seed), teller(verbose, PAUSE_SECONDS))


def counted(source: RowSource, sample_weight: Any) -> tuple[FloatVector | None, int, int]:
    """Return the weights of a source's rows (or None), the number of rows, and how many have positive weight.

    A source that does not know how many rows it has is read once to count them.
    """
    n_rows = counted_rows(source)
    if sample_weight is None:
        return None, n_rows, n_rows
    weights = check_weights(sample_weight, len(sample_weight))
    if len(weights) != n_rows:
        raise ValueError(f"sample_weight holds {len(weights)} weights, but {source.label} has {n_rows} rows.")
    return weights, n_rows, int(np.count_nonzero(weights))
