"""Plans: what a fit will do, computed beforehand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adaam
from adaam import AdaAM, RowBlocks


def test_few_rows_mean_all_pairs_and_many_mean_blocks():
    assert adaam.plan(10_000, 784, 10).exact
    assert adaam.plan(70_000, 784, 10).exact
    large = adaam.plan(1_000_000, 100, 10)
    assert not large.exact
    assert (large.n_blocks, large.block_rows, large.n_used) == (200, 5_000, 1_000_000)
    assert large.time_class == "minutes"
    assert adaam.plan(10_000_000, 784, 10).n_used == 10_000_000, "rows in memory all take part"
    assert adaam.plan(1_000_000, 100, 200).block_rows == 20_000, "a cluster needs rows of its own in each block"
    assert adaam.plan(1_000_000, 784, 10, pairs="all").time_class == "hours"
    assert adaam.plan(1_000_000, 784, 10, engine=adaam.GPUEngine()).exact, "a GPU affords more"


@given(n=st.integers(1, 10**9), d=st.integers(1, 5000), stored=st.booleans())
@settings(deadline=None)
def test_plans_look_at_no_more_pairs_than_there_are(n, d, stored):
    auto, everything = adaam.plan(n, d, 10, stored=stored), adaam.plan(n, d, 10, pairs="all")
    assert auto.n_used <= n
    assert auto.n_pairs <= everything.n_pairs == n * n
    assert auto.exact or auto.block_rows <= 5_000
    assert auto.n_pairs <= max(120 / 7.7e-9, n * 5_000)
    assert everything.exact


@given(n=st.integers(10**5, 10**8), factor=st.integers(2, 10))
def test_the_cost_of_blocks_grows_no_faster_than_the_rows(n, factor):
    few, many = (adaam.plan(rows, 50, 10, pairs=RowBlocks()) for rows in (n, factor * n))
    assert many.seconds <= factor * few.seconds * 1.2
    assert many.memory_bytes <= few.memory_bytes + (1 << 29)


@given(n=st.integers(10, 5000), n_rows=st.integers(2, 600), n_blocks=st.none() | st.integers(1, 30))
def test_blocks_hold_what_was_asked_for(n, n_rows, n_blocks):
    planned = adaam.plan(n, 5, 3, pairs=RowBlocks(n_rows, n_blocks))
    assert planned.block_rows <= n_rows
    if n_blocks is None:
        assert planned.n_used == n
    else:
        assert planned.n_blocks == min(n_blocks, n)
        assert planned.n_used == min(n, planned.n_blocks * n_rows)


@pytest.mark.parametrize("pairs", ["auto", "all", RowBlocks(40), RowBlocks(40, 2)])
@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")
def test_a_fit_does_what_was_planned(pairs):
    X = np.random.default_rng(0).standard_normal((150, 4))
    assert AdaAM(3, pairs=pairs).fit(X).plan_ == adaam.plan(150, 4, 3, pairs=pairs)


def test_a_plan_reads_well():
    lines = str(adaam.plan(5_000_000, 1000, 10, stored=True, itemsize=4)).splitlines()
    assert lines[0] == "5000000 rows x 1000 features, 10 clusters, engine cpu"
    assert lines[1] == "  pairs   1.3e+09 of 2.5e+13, within 53 random blocks of 5000 rows (5.3% of all rows)"
    assert lines[2].startswith("  memory  up to ")
    assert lines[3] == "  time    minutes"
    assert "all 1e+08" in str(adaam.plan(10_000, 10, 3))


@pytest.mark.parametrize("wrong", [{"n_samples": 0}, {"n_features": 2.5}, {"pairs": "few"}, {"engine": "tpu"}])
def test_what_cannot_be_planned_is_refused(wrong):
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
        adaam.plan(**({"n_samples": 10, "n_features": 3} | wrong))
