"""Neighbours of many rows, searched in nearby cells: what is found, what is missed, and what is done about it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import oracles
from adaam.engines import CPUEngine, resolve_engine

pytest.importorskip("numba", reason="numba is not installed")

from adaam.engines.neighbors import search


@pytest.fixture(autouse=True)
def small_cells(monkeypatch):
    monkeypatch.setattr(search, "APPROXIMATE_ROWS", 200)
    monkeypatch.setattr(search, "CELL_ROWS", 20)
    monkeypatch.setattr(search, "TILE_ROWS", 48)
    monkeypatch.setattr(search, "LEAF_ROWS", 32)


def cloud(n=600, d=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) / np.arange(1, d + 1)


def nearest(X, k=5, enough=0.985):
    found = search.nearest_others(X, k, enough)
    assert found is not None
    return found


def recall(X, indices):
    k = indices.shape[1]
    true, _ = oracles.neighbors(X, k)
    return np.mean([len(set(a) & set(b)) / k for a, b in zip(indices, true, strict=True)])


def nearby(monkeypatch, n_cells):
    """Call so many cells nearby, whatever the sampled rows say."""
    monkeypatch.setattr(search.np, "quantile", lambda *_, **__: n_cells - 1)
    monkeypatch.setattr(search, "MOST_SHORT", 1.0)


def small(patch):
    for name, value in {"APPROXIMATE_ROWS": 200, "CELL_ROWS": 20, "MOST_PASSED": 1.0}.items():
        patch.setattr(search, name, value)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(200, 500), st.integers(1, 6))
def test_enough_true_neighbours_are_found_and_none_is_made_up(seed, n, k):
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        X = cloud(n, 6, seed)
        indices, distances = nearest(X, k)
    assert recall(X, indices) >= 0.95  # a third of these few rows are measured, the others are like them
    np.testing.assert_allclose(distances, np.linalg.norm(X[:, None] - X[indices], axis=2), rtol=1e-12)
    assert (np.diff(distances, axis=1) >= 0).all()
    assert (indices != np.arange(n)[:, None]).all()
    assert all(len(set(row)) == k for row in indices)


def test_where_cells_miss_too_much_all_pairs_are_searched(monkeypatch):
    # Without any structure nearest cells hold few of the neighbours.
    X = np.random.default_rng(0).standard_normal((400, 40))
    nearby(monkeypatch, 4)
    assert recall(X, nearest(X, enough=0.0)[0]) < 0.9
    assert recall(X, nearest(X, enough=0.98)[0]) == 1.0
    assert recall(X, nearest(X, enough=1.0)[0]) == 1.0


def test_where_too_many_cells_are_needed_all_pairs_are_searched_at_once(monkeypatch):
    X = np.random.default_rng(0).standard_normal((400, 40))

    within = search.pairs_within_bounds

    def all_pairs(leading, bounds, blocks, near, most):
        assert near is None
        return within(leading, bounds, blocks, near, most)

    monkeypatch.setattr(search, "pairs_within_bounds", all_pairs)
    assert recall(X, nearest(X)[0]) == 1.0


def test_all_cells_nearby_is_the_exact_search(monkeypatch):
    X = cloud()
    monkeypatch.setattr(search, "MOST_PASSED", 1.0)
    nearby(monkeypatch, len(X))
    indices, distances = nearest(X)
    monkeypatch.undo()
    plain = nearest(X, enough=1.0)
    np.testing.assert_array_equal(indices, plain[0])
    np.testing.assert_array_equal(distances, plain[1])


def test_ranks_of_cells_count_the_centres_between():
    X = cloud(500, 6).astype(np.float32)
    found = search.cells_of(X)
    apart = np.linalg.norm(found.centers[:, None] - found.centers, axis=2)
    fewer = (apart[:, None, :] < apart[:, :, None]).sum(axis=2)
    np.testing.assert_array_equal(found.ranks(), np.minimum(fewer, fewer.T))


def test_cells_hold_each_row_once_around_the_nearest_centre():
    X = cloud(500, 6).astype(np.float32)
    found = search.cells_of(X)
    np.testing.assert_array_equal(np.sort(found.order), np.arange(500))
    places = [np.arange(500)[part] for part in found.slices()]
    np.testing.assert_array_equal(np.concatenate(places), np.arange(500))
    apart = np.linalg.norm(X[found.order][:, None] - found.centers, axis=2)
    for cell, rows in enumerate(places):
        assert len(rows)
        np.testing.assert_allclose(apart[rows, cell], apart[rows].min(axis=1), rtol=1e-4)


def test_rows_that_measure_do_not_choose(monkeypatch):
    seen = []
    quantile = np.quantile
    monkeypatch.setattr(search, "MOST_PASSED", 1.0)
    monkeypatch.setattr(
        search.np, "quantile", lambda needed, *a, **k: seen.append(needed.shape) or quantile(needed, *a, **k)
    )
    nearest(cloud())
    assert seen == [(search.CHOOSING_ROWS, 5)]


def test_a_pair_of_nearby_cells_counts_once(monkeypatch):
    X = cloud()
    pairs = []
    within = search.pairs_within_bounds

    def kept(*arguments):
        pairs.append(within(*arguments))
        return pairs[-1]

    monkeypatch.setattr(search, "pairs_within_bounds", kept)
    for n_cells in (1, 4, 9):
        nearby(monkeypatch, n_cells)
        nearest(X, enough=0.0)
        found = pairs[0]
        pairs.clear()
        assert (found.row != found.column).all()
        assert len(set(zip(found.row, found.column, strict=True))) == len(found.row)


def test_results_have_the_same_bits_on_one_thread_and_on_two(monkeypatch):
    X = cloud(900, 20)
    nearby(monkeypatch, 6)
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            found.append(nearest(X, enough=0.5))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_the_order_of_rows_does_not_matter():
    X = cloud()
    order = np.random.default_rng(1).permutation(len(X))
    indices, _ = nearest(X)
    again, _ = nearest(X[order])
    moved = np.argsort(order)[indices[order]]
    assert np.mean([set(a) == set(b) for a, b in zip(again, moved, strict=True)]) > 0.99


def test_equal_rows_far_from_all_others_are_found(monkeypatch):
    X = cloud()
    X[:3] = 50.0 + np.arange(3)[:, None] * 1e-3
    nearby(monkeypatch, 1)
    indices, distances = nearest(X, enough=0.0)
    assert np.isfinite(distances).all()
    assert {0, 1, 2} - {0} <= set(indices[0])


def test_the_engine_passes_its_recall_on(monkeypatch):
    X = np.random.default_rng(0).standard_normal((5000, 30))
    monkeypatch.setattr(search, "APPROXIMATE_ROWS", 4096)
    nearby(monkeypatch, 4)
    engines = (CPUEngine(kernels="numba", recall=1e-9), CPUEngine(kernels="numba"), CPUEngine(kernels="numpy"))
    near, all_pairs, plain = (engine.neighbor_graph(X, 5, 1.0).distances for engine in engines)
    np.testing.assert_allclose(all_pairs, plain, rtol=1e-12)
    assert (near > plain * (1 + 1e-9)).mean() > 0.1
    with pytest.raises(ValueError, match="recall=2"):
        resolve_engine(CPUEngine(recall=2.0))
