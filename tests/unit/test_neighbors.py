"""Exact nearest neighbours by NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from adaam.engines.neighbors import tiles
from adaam.engines.neighbors.tiles import Float32Tiles, nearest_others


@pytest.fixture(autouse=True)
def small_looks(monkeypatch):
    """Take bounds from few rows, so that small data goes through all steps."""
    monkeypatch.setattr(tiles, "FIRST_COLUMNS", 16)


def assert_nearest(X, k, tile_rows=64):
    indices, distances = nearest_others(X, k, tile_rows)
    _, expected = oracles.neighbors(X, k)
    np.testing.assert_allclose(distances, expected, rtol=1e-12, atol=1e-12 * np.abs(X).max())
    measured = np.linalg.norm(X[:, None] - X[indices], axis=2)
    np.testing.assert_allclose(distances, measured, rtol=1e-12, atol=1e-12 * np.abs(X).max())
    assert (indices != np.arange(len(X))[:, None]).all()
    assert all(len(set(row)) == k for row in indices)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(40, 300), st.integers(1, 9), st.integers(1, 8), st.floats(-6, 6))
def test_distances_are_those_of_the_oracle(seed, n, d, k, scale):
    rng = np.random.default_rng(seed)
    assert_nearest(rng.standard_normal((n, d)) * 10.0**scale, k)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(40, 200), st.integers(1, 6))
def test_ties_and_duplicates(seed, n, k):
    assert_nearest(np.random.default_rng(seed).integers(0, 4, size=(n, 3)).astype(float), k)


def test_the_lower_index_comes_first_on_a_tie():
    X = np.repeat(np.arange(30.0), 4)[:, None]
    indices, distances = nearest_others(X, 3, 32)
    np.testing.assert_array_equal(distances, 0.0)
    np.testing.assert_array_equal(indices[1], [0, 2, 3])


def test_tiles_and_columns_of_the_bound_do_not_change_the_answer(rng, monkeypatch):
    X = rng.standard_normal((500, 6))
    expected = nearest_others(X, 7, 512)
    for first, tile_rows in ((32, 64), (64, 100), (4096, 64)):
        monkeypatch.setattr(tiles, "FIRST_COLUMNS", first)
        found = nearest_others(X, 7, tile_rows)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


def test_the_error_bound_holds(rng):
    for d in (1, 10, 400):
        X = rng.standard_normal((200, d)) * rng.uniform(0.001, 1.0, size=(200, 1))
        rows32 = Float32Tiles(X)
        scale = np.linalg.norm(X, axis=1).max()
        exact = np.linalg.norm((X[:, None] - X[None]) / scale, axis=2) ** 2
        wrong = np.abs(rows32.squared_distances(slice(0, 200), slice(0, 200)) - exact).max()
        assert wrong <= rows32.error


def test_rows_that_float32_cannot_tell_apart_are_given_back(rng, monkeypatch):
    # With one far row, all others coincide in float32.
    X = rng.standard_normal((300, 2)) * 1e-9
    X[0] = 1.0
    monkeypatch.setattr(tiles, "MAX_CANDIDATES", 8)
    assert nearest_others(X, 3, 64) is None
    assert nearest_others(X * 1e200, 3, 64) is None


def test_float32_rows_are_measured_as_they_are(rng):
    X = rng.standard_normal((200, 5)).astype(np.float32)
    indices, distances = nearest_others(X, 4, 64)
    _, expected = oracles.neighbors(X.astype(float), 4)
    np.testing.assert_allclose(distances, expected, rtol=1e-5)


def test_brute_force_measures_from_differences(rng):
    X = rng.standard_normal((50, 4)) + 1e6
    X[7] = X[3]
    indices, distances = tiles.brute_force(X, 3)
    np.testing.assert_array_equal(distances[[3, 7], 0], 0.0)
    assert (indices != np.arange(50)[:, None]).all()
    near, lengths = tiles.brute_force(X, 2, X[:5] + 1e-3)
    np.testing.assert_allclose(lengths, np.linalg.norm(X[:5, None] + 1e-3 - X[near], axis=2))
