"""Pruned affinities by NumPy: the exact cut, and the Gram matrix of the kept entries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import oracles
from adaam.engines import cpu
from adaam.engines.pruned import cut as cut_module
from adaam.engines.pruned import tiles
from adaam.engines.pruned.cut import Bracket, exact_cut


def dense_cut(P, t, weights, diagonal):
    """Return the t-th largest magnitude by sorting all entries, counted with multiplicity."""
    S = np.abs(P @ P.T)
    counts = np.outer(weights, weights)
    np.fill_diagonal(counts, diagonal)
    order = np.argsort(S.ravel())[::-1]
    reached = np.cumsum(counts.ravel()[order])
    where = np.searchsorted(reached, t)
    return S.ravel()[order[where]] if where < len(order) else 0.0


def cut(P, t, weights, diagonal, screened=False):
    """Return the cut that the CPU engine finds, with tiles of 64 rows, of which even small data has several."""
    return exact_cut(cpu._Entries(P, np.asarray(weights), np.asarray(diagonal), 64, screened), t)


def whole(P):
    return np.ones(len(P)), np.ones(len(P))


@pytest.mark.parametrize("n", [2, 3, 63, 64, 65, 200])
@pytest.mark.parametrize("share", [0.001, 0.02, 0.3, 1.0])
def test_cut_equals_the_sorted_oracle(n, share, rng):
    P = rng.standard_normal((n, 4))
    t = max(1, int(share * n * n))
    assert cut(P, t, *whole(P)) == pytest.approx(oracles.cut(P @ P.T, t), rel=1e-13)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.integers(2, 90), st.integers(1, 3), st.floats(0.0, 1.0))
def test_cut_is_exact_on_ties(seed, n, r, share):
    # Small integers: products are exact in any order, and almost all entries are tied.
    P = np.random.default_rng(seed).integers(-2, 3, size=(n, r)).astype(float)
    t = max(1, int(share * n * n))
    assert cut(P, t, *whole(P)) == oracles.cut(P @ P.T, t)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.integers(2, 60), st.floats(0.0, 1.0))
def test_a_weight_counts_as_that_many_copies(seed, n, share):
    rng = np.random.default_rng(seed)
    P = rng.integers(-3, 4, size=(n, 2)).astype(float)
    weights = rng.integers(1, 4, size=n)
    repeated = np.repeat(P, weights, axis=0)
    t = max(1, int(share * len(repeated) ** 2))
    assert cut(P, t, weights.astype(float), weights.astype(float) ** 2) == oracles.cut(repeated @ repeated.T, t)


def test_dropped_diagonal_is_not_counted(rng):
    P = rng.standard_normal((70, 3))
    S = P @ P.T
    np.fill_diagonal(S, 0.0)
    found = cut(P, 100, np.ones(70), np.zeros(70))
    assert found == pytest.approx(oracles.cut(S, 100), rel=1e-13)


def test_cut_is_zero_where_fewer_entries_are_non_zero():
    P = np.zeros((5, 1))
    P[0] = 1.0
    assert cut(P, 2, *whole(P)) == 0.0
    assert cut(P, 1, *whole(P)) == 1.0


@pytest.mark.parametrize("guess", [(0.0, 1e-9), (5.0, 6.0), (0.5, 0.5)])
def test_a_guess_that_missed_costs_passes_but_not_exactness(guess, rng, monkeypatch):
    P = rng.standard_normal((150, 3))
    monkeypatch.setattr(cut_module, "MAX_DISTINCT", 1000)
    monkeypatch.setattr(cpu, "guess_bracket", lambda *_: Bracket(*guess))
    assert cut(P, 700, *whole(P)) == pytest.approx(oracles.cut(P @ P.T, 700), rel=1e-13)


def test_narrowing_by_bins_finds_the_exact_value(rng, monkeypatch):
    P = rng.standard_normal((300, 3))
    monkeypatch.setattr(cut_module, "MAX_DISTINCT", 500)
    monkeypatch.setattr(cut_module, "N_BINS", 16)
    for t in (1, 90, 5000, 60_000, 90_000):
        assert cut(P, t, *whole(P)) == pytest.approx(oracles.cut(P @ P.T, t), rel=1e-13), t


def test_the_sampled_guess_brackets_the_cut(rng):
    n = 3000  # above this size the first bracket comes from sampled pairs
    P = rng.standard_normal((n, 5))
    weights = rng.uniform(0.5, 2.0, size=n)
    t = 0.02 * weights.sum() ** 2
    low, high = cut_module.guess_bracket(P, t, weights, weights**2)
    assert low <= dense_cut(P, t, weights, weights**2) <= high
    assert cut(P, t, weights, weights**2) == pytest.approx(dense_cut(P, t, weights, weights**2), rel=1e-13)


def test_a_cut_among_many_values_is_found_by_bins(rng, monkeypatch):
    values, counts = rng.uniform(1.0, 2.0, size=3000), rng.integers(1, 4, size=3000).astype(float)
    values[:500] = values[500:1000]
    tally = cut_module.Tally(7.0, values, counts)
    plain = [tally.reaching(t) for t in (8, 500, 5000)]
    monkeypatch.setattr(cut_module, "MANY_VALUES", 16)
    monkeypatch.setattr(cut_module, "N_BINS", 32)
    assert [tally.reaching(t) for t in (8, 500, 5000)] == plain
    equal = cut_module.Tally(0.0, np.full(100, 0.25), np.ones(100))
    assert equal.reaching(3) == 0.25


def dense_pruned(P, threshold, X, weights):
    S = P @ P.T
    np.fill_diagonal(S, 0.0)
    S = np.where(np.abs(S) >= threshold, S, 0.0)
    W = np.diag(weights)
    return X.T @ W @ S @ W @ X, W @ S @ weights


@pytest.mark.parametrize("tile_rows", [64, 128, 1024])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 2.5, 100.0])
def test_pruned_gram_equals_the_dense_one(tile_rows, threshold, rng):
    P, X = rng.standard_normal((201, 3)), rng.standard_normal((201, 5))
    weights = rng.integers(1, 4, size=201).astype(float)
    for w in (weights, np.ones(201)):
        gram, degrees = tiles.pruned_gram(P, threshold, X, w, tile_rows)
        expected, expected_degrees = dense_pruned(P, threshold, X, w)
        np.testing.assert_allclose(gram, expected, atol=1e-9)
        np.testing.assert_allclose(degrees, expected_degrees, atol=1e-9)


def test_results_have_the_same_bits_on_one_thread_and_on_two(rng):
    P, X = rng.standard_normal((500, 3)), rng.standard_normal((500, 40))
    with threadpool_limits(1):
        one = tiles.pruned_gram(P, 1.0, X, np.ones(500), 64), cut(P, 9000, np.ones(500), np.ones(500))
    with threadpool_limits(2):
        two = tiles.pruned_gram(P, 1.0, X, np.ones(500), 64), cut(P, 9000, np.ones(500), np.ones(500))
    np.testing.assert_array_equal(one[0][0], two[0][0])
    np.testing.assert_array_equal(one[0][1], two[0][1])
    assert one[1] == two[1]


def test_float32_stays_float32_and_close(rng):
    P, X = rng.standard_normal((300, 4)), rng.standard_normal((300, 6))
    gram, degrees = tiles.pruned_gram(P.astype(np.float32), 1.5, X.astype(np.float32), np.ones(300), 128)
    expected, expected_degrees = dense_pruned(P, 1.5, X, np.ones(300))
    # Entries within rounding of the threshold may fall either way, so the bound is on the whole.
    assert np.abs(gram - expected).max() < 1e-2 * np.abs(expected).max()
    assert np.abs(degrees - expected_degrees).max() < 1e-2 * np.abs(expected_degrees).max()
