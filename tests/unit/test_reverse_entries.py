import numpy as np
import pytest

from adaam.engines.neighbors.graph import reverse_entries


@pytest.mark.parametrize("longest", [3, 30, 400])
def test_reverse_entries_are_the_other_direction(longest):
    rng = np.random.default_rng(longest)
    n = 450
    lengths = rng.integers(0, 4, n)
    lengths[5] = longest
    indices = np.concatenate([rng.permutation(n)[:length] for length in lengths]).astype(np.intp)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.repeat(np.arange(n), lengths)
    where = {pair: at for at, pair in enumerate(zip(rows.tolist(), indices.tolist(), strict=True))}
    expected = [where.get((j, i), -1) for i, j in zip(rows.tolist(), indices.tolist(), strict=True)]
    np.testing.assert_array_equal(reverse_entries(starts, indices), expected)
    assert max(expected) > 0


def test_reverse_entries_of_nothing_are_nothing():
    assert len(reverse_entries(np.zeros(4, int), np.empty(0, int))) == 0
