import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from adaam.engines import cut as cut_module
from adaam.engines.cpu import CPUEngine
from adaam.engines.cut import Pairs, exact_cut

ENGINE = CPUEngine(tile_bytes=64 * 64 * 32)  # tiles of 64 rows: several of them already on small data


def dense_cut(P, t, weights, diagonal):
    """The t-th largest magnitude by sorting every entry, each as often as it counts."""
    S = np.abs(P @ P.T)
    counts = np.outer(weights, weights)
    np.fill_diagonal(counts, diagonal)
    order = np.argsort(S.ravel())[::-1]
    reached = np.cumsum(counts.ravel()[order])
    where = np.searchsorted(reached, t)
    return S.ravel()[order[where]] if where < len(order) else 0.0


def whole(P):
    return np.ones(len(P)), np.ones(len(P))


@pytest.mark.parametrize("n", [2, 3, 63, 64, 65, 200])
@pytest.mark.parametrize("share", [0.001, 0.02, 0.3, 1.0])
def test_cut_equals_the_sorted_oracle(n, share, rng):
    P = rng.standard_normal((n, 4))
    t = max(1, int(share * n * n))
    assert ENGINE.cut(P, t, *whole(P)) == pytest.approx(oracles.cut(P @ P.T, t), rel=1e-13)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.integers(2, 90), st.integers(1, 3), st.floats(0.0, 1.0))
def test_cut_is_exact_on_ties(seed, n, r, share):
    # Small whole numbers: products are exact in any order, and almost all entries are tied.
    P = np.random.default_rng(seed).integers(-2, 3, size=(n, r)).astype(float)
    t = max(1, int(share * n * n))
    assert ENGINE.cut(P, t, *whole(P)) == oracles.cut(P @ P.T, t)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.integers(2, 60), st.floats(0.0, 1.0))
def test_a_weight_counts_as_that_many_copies(seed, n, share):
    rng = np.random.default_rng(seed)
    P = rng.integers(-3, 4, size=(n, 2)).astype(float)
    weights = rng.integers(1, 4, size=n)
    repeated = np.repeat(P, weights, axis=0)
    t = max(1, int(share * len(repeated) ** 2))
    assert ENGINE.cut(P, t, weights.astype(float), weights.astype(float) ** 2) == oracles.cut(repeated @ repeated.T, t)


def test_dropped_diagonal_is_not_counted(rng):
    P = rng.standard_normal((70, 3))
    S = P @ P.T
    np.fill_diagonal(S, 0.0)
    cut = ENGINE.cut(P, 100, np.ones(70), np.zeros(70))
    assert cut == pytest.approx(oracles.cut(S, 100), rel=1e-13)


def test_cut_is_zero_where_fewer_entries_are_non_zero():
    P = np.zeros((5, 1))
    P[0] = 1.0
    assert ENGINE.cut(P, 2, *whole(P)) == 0.0
    assert ENGINE.cut(P, 1, *whole(P)) == 1.0


@pytest.mark.parametrize("guess", [(0.0, 1e-9), (5.0, 6.0), (0.5, 0.5)])
def test_a_guess_that_missed_costs_passes_but_not_exactness(guess, rng, monkeypatch):
    P = rng.standard_normal((150, 3))
    monkeypatch.setattr(cut_module, "MAX_DISTINCT", 1000)
    monkeypatch.setattr(cut_module, "MIN_ROWS", 0)
    monkeypatch.setattr(cut_module, "guess_bracket", lambda *_: guess)
    pairs = Pairs(P, *whole(P), tile_rows=64)
    assert exact_cut(pairs, 700) == pytest.approx(oracles.cut(P @ P.T, 700), rel=1e-13)


def test_narrowing_by_bins_finds_the_exact_value(rng, monkeypatch):
    P = rng.standard_normal((300, 3))
    monkeypatch.setattr(cut_module, "MAX_DISTINCT", 500)
    monkeypatch.setattr(cut_module, "N_BINS", 16)
    pairs = Pairs(P, *whole(P), tile_rows=64)
    for t in (1, 90, 5000, 60_000, 90_000):
        assert exact_cut(pairs, t) == pytest.approx(oracles.cut(P @ P.T, t), rel=1e-13), t


def test_the_sampled_guess_brackets_the_cut(rng):
    n = 3000  # above this size the first bracket comes from sampled pairs
    P = rng.standard_normal((n, 5))
    weights = rng.uniform(0.5, 2.0, size=n)
    pairs = Pairs(P, weights, weights**2, tile_rows=512)
    t = 0.02 * weights.sum() ** 2
    low, high = cut_module.guess_bracket(P, t, weights, weights**2)
    assert low <= dense_cut(P, t, weights, weights**2) <= high
    assert exact_cut(pairs, t) == pytest.approx(dense_cut(P, t, weights, weights**2), rel=1e-13)
