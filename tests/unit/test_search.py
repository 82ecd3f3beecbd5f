"""Nearest neighbours by compiled loops against the oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from adaam.engines import CPUEngine, resolve_engine

pytest.importorskip("numba", reason="numba is not installed")

from adaam.engines.neighbors import search


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Use small tiles and leaves, so that small data has several."""
    monkeypatch.setattr(search, "TILE_ROWS", 40)
    monkeypatch.setattr(search, "LEAF_ROWS", 32)


def assert_nearest(X, k):
    indices, distances = search.nearest_others(X, k)
    _, expected = oracles.neighbors(X, k)
    scale = 1e-12 * np.abs(X).max()
    np.testing.assert_allclose(distances, expected, rtol=1e-12, atol=scale)
    measured = np.linalg.norm(X[:, None] - X[indices], axis=2)
    np.testing.assert_allclose(distances, measured, rtol=1e-12, atol=scale)
    assert (indices != np.arange(len(X))[:, None]).all()
    assert all(len(set(row)) == k for row in indices)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(40, 300), st.sampled_from([1, 3, 64, 65, 150]), st.integers(1, 8))
def test_neighbours_are_those_of_the_oracle(seed, n, d, k):
    # Columns of decreasing variance, like principal components, away from the origin.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3) / np.arange(1, d + 1) + rng.standard_normal(d)
    assert_nearest(X, k)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(40, 200), st.integers(1, 6))
def test_neighbours_among_ties_and_duplicates(seed, n, k):
    X = np.random.default_rng(seed).integers(0, 4, size=(n, 3)).astype(float)
    assert_nearest(X, k)


def test_few_leading_columns_and_many_give_the_same_neighbours(rng, monkeypatch):
    X = rng.standard_normal((400, 150)) / np.arange(1, 151)
    found = []
    for n_leading in (64, 128, 150):
        monkeypatch.setattr(search, "cheapest_leading", lambda *_, q=n_leading: q)
        found.append(search.nearest_others(X, 7))
    for indices, distances in found[1:]:
        np.testing.assert_array_equal(indices, found[0][0])
        np.testing.assert_array_equal(distances, found[0][1])


def test_tiles_of_any_size_give_the_same_neighbours(rng, monkeypatch):
    X = rng.standard_normal((333, 70)) / np.arange(1, 71)
    _, expected = oracles.neighbors(X, 6)
    for tile_rows in (7, 64, 65, 200, 512):
        monkeypatch.setattr(search, "TILE_ROWS", tile_rows)
        _, distances = search.nearest_others(X, 6)
        np.testing.assert_allclose(distances, expected, rtol=1e-12)


def test_rows_whose_squares_vanish_or_that_are_all_equal_are_given_back(rng):
    X = rng.standard_normal((300, 4))
    assert search.nearest_others(X * 1e-170, 3) is None
    assert search.nearest_others(np.ones((300, 4)), 3) is None


@pytest.mark.parametrize("k", [1, 7, 60])
@pytest.mark.parametrize("leaf_rows", [70, 200, 600])
def test_a_guess_names_k_others_and_measures_them(rng, k, leaf_rows):
    leaf_rows = max(leaf_rows, 4 * k)
    X = rng.standard_normal((600, 150)) / np.sqrt(np.arange(1, 151))
    scaling = search.normalization(X)
    leaves = search.kd_leaves(search.tree_columns(X, scaling), leaf_rows)
    order = np.concatenate(leaves)
    rows = search.Float32Rows(X, scaling, order)
    trees = search.tree_leaves(rows.rows[:, : search.TREE_COLUMNS], leaves, leaf_rows)
    indices, distances = search.approximate_neighbors(search.leading_columns(rows, 64), trees, k)
    assert (indices != np.arange(600)[:, None]).all()
    assert all(len(set(row)) == k for row in indices)
    exact = (np.linalg.norm(X[order][:, None] - X[order][indices], axis=2) / scaling.peak) ** 2
    assert np.abs(distances - exact).max() <= rows.error
    assert (np.diff(distances, axis=1) >= 0).all()
    # Most of the nearest rows within the leaves are found.
    true = np.sort(np.linalg.norm(X[order][:, None] - X[order], axis=2), axis=1)[:, k] / scaling.peak
    assert (distances[:, -1] >= true**2 - rows.error).all()
    if leaf_rows == 600:
        assert np.sqrt(distances[:, -1] / true**2).mean() < 1.05


def test_leading_columns_never_overstate_a_distance(rng):
    X = rng.standard_normal((120, 150)) / np.sqrt(np.arange(1, 151))
    X[:40, 64:] *= 1e-5  # rows with next to nothing beyond the leading columns
    X[40:50, 64:] = X[:40, 64:].mean(axis=0)
    scaling = search.normalization(X)
    rows = search.Float32Rows(X, scaling, np.arange(120))
    exact = (np.linalg.norm(X[:, None] - X[None], axis=2) / scaling.peak) ** 2
    for n_leading in (64, 128, 150):
        leading = search.leading_columns(rows, n_leading)
        assert (leading.left @ leading.right.T <= exact + rows.error).all()


def test_rows_that_float32_cannot_tell_apart_are_given_back(rng, monkeypatch):
    X = rng.standard_normal((300, 2)) * 1e-9
    X[0] = 1.0
    monkeypatch.setattr(search, "MAX_CANDIDATES", 8)
    assert search.nearest_others(X, 3) is None
    assert search.nearest_others(np.full((300, 2), 1e200) * X, 3) is None


def test_neighbours_of_the_engine_are_the_same_with_and_without_numba(rng):
    X = rng.standard_normal((5000, 80)) / np.arange(1, 81)
    X[4000:4100] = X[:100]
    a, b = (CPUEngine(kernels=name).neighbor_graph(X, 6, 1.0) for name in ("numba", "numpy"))
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_allclose(a.distances, b.distances, rtol=1e-12, atol=1e-15)


def test_any_recall_is_met_by_all_neighbours(rng):
    X = rng.standard_normal((5000, 30))
    found = [CPUEngine(kernels="numba", recall=share).neighbor_graph(X, 5, 1.0) for share in (0.1, 1.0)]
    np.testing.assert_array_equal(found[0].indices, found[1].indices)
    with pytest.raises(ValueError, match="recall=2"):
        resolve_engine(CPUEngine(recall=2.0))
