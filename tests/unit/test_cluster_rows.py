"""Rows on their way to the workers: the same numbers in fewer bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from adaam.engines.cluster.rows import narrowed, widened


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        (np.arange(256.0).reshape(32, 8), np.uint8),
        (np.arange(257.0).reshape(257, 1), np.float32),
        (-np.arange(64.0).reshape(32, 2), np.float32),
        (np.arange(256, dtype=np.float32).reshape(32, 8), np.uint8),
        (np.full((40, 2), 0.5, np.float32), np.float32),
        (np.arange(64.0).reshape(32, 2) / 3, np.float64),
        (np.where(np.arange(64.0) < 63, 1.0, 0.1).reshape(32, 2), np.float64),
        (np.full((3, 2), 1e300), np.float64),
        (np.full((3, 2), np.nan), np.float64),
        (np.array([[1.0, np.inf]]), np.float64),
        (np.empty((0, 3)), np.float64),
    ],
)
def test_rows_travel_in_the_narrowest_numbers_that_hold_them(block, kind):
    narrow = narrowed(block)
    assert narrow.dtype == kind
    assert (narrow is block) == (kind == block.dtype)
    np.testing.assert_array_equal(widened(narrow, block.dtype), block)
    assert widened(narrow, block.dtype).dtype == block.dtype


@settings(deadline=None, max_examples=50)
@given(arrays(np.float64, (20, 2), elements=st.floats(-300, 300, width=16) | st.integers(0, 255)))
def test_what_arrives_is_what_was_sent(block):
    np.testing.assert_array_equal(widened(narrowed(block), block.dtype), block)
