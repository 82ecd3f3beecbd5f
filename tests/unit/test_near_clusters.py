"""Neighbours of many rows, searched among near clusters: what is found, what is missed, and what is done about it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from adaam.engines import CPUEngine, resolve_engine
from adaam.engines.kernels import compiled_kernels, near_clusters, neighbors

pytest.importorskip("numba", reason="numba is not installed")


@pytest.fixture(autouse=True)
def small_clusters(monkeypatch):
    monkeypatch.setattr(neighbors, "MANY_ROWS", 200)
    monkeypatch.setattr(neighbors, "CLUSTER_ROWS", 20)
    monkeypatch.setattr(neighbors, "TILE_ROWS", 48)
    monkeypatch.setattr(neighbors, "LEAF_ROWS", 32)
    monkeypatch.setattr(neighbors, "AROUND_ROWS", 32)


def cloud(n=600, d=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) / np.arange(1, d + 1)


def search(X, k=5, enough=0.985):
    found = neighbors.nearest_others(X, k, compiled_kernels("numba", len(X)), enough)
    assert found is not None
    return found


def recall(X, indices):
    k = indices.shape[1]
    true, _ = oracles.neighbors(X, k)
    return np.mean([len(set(a) & set(b)) / k for a, b in zip(indices, true, strict=True)])


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(200, 500), st.integers(1, 6))
def test_enough_true_neighbours_are_found_and_none_is_made_up(seed, n, k):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"MANY_ROWS": 200, "CLUSTER_ROWS": 20, "AROUND_ROWS": 32, "RECALL_ROWS": 500}.items():
            patch.setattr(neighbors, name, value)
        X = cloud(n, 6, seed)
        indices, distances = search(X, k)
    assert recall(X, indices) >= 0.97  # float32 may take the next one for the nearest
    np.testing.assert_allclose(distances, np.linalg.norm(X[:, None] - X[indices], axis=2), rtol=1e-12)
    assert (np.diff(distances, axis=1) >= 0).all()
    assert (indices != np.arange(n)[:, None]).all()
    assert all(len(set(row)) == k for row in indices)


def test_where_near_clusters_miss_too_much_all_pairs_are_searched(monkeypatch):
    # Without any structure nearest clusters hold few of the neighbours.
    X = np.random.default_rng(0).standard_normal((400, 40))
    monkeypatch.setattr(near_clusters, "PROBED_SHARE", 0.0)
    assert recall(X, search(X, enough=0.0)[0]) < 0.9
    assert recall(X, search(X, enough=0.98)[0]) == 1.0
    assert recall(X, search(X, enough=1.0)[0]) == 1.0


def test_all_clusters_probed_is_the_exact_search(monkeypatch):
    X = cloud()
    monkeypatch.setattr(near_clusters, "PROBED_SHARE", 1.0)
    indices, distances = search(X)
    monkeypatch.setattr(neighbors, "MANY_ROWS", 10_000)
    plain = search(X)
    np.testing.assert_array_equal(indices, plain[0])
    np.testing.assert_array_equal(distances, plain[1])


def test_the_order_of_rows_does_not_matter():
    X = cloud()
    order = np.random.default_rng(1).permutation(len(X))
    indices, _ = search(X)
    again, _ = search(X[order])
    moved = np.argsort(order)[indices[order]]
    assert np.mean([set(a) == set(b) for a, b in zip(again, moved, strict=True)]) > 0.99


def test_the_recall_that_decides_is_the_recall():
    X = cloud()
    true, _ = oracles.neighbors(X, 5)
    narrow, order = neighbors.NarrowRows(X), np.arange(len(X))
    assert neighbors._recall(narrow, order, true) == 1.0
    wrong = true.copy()
    wrong[:, 4] = np.argmax(np.linalg.norm(X[:, None] - X[None], axis=2), axis=1)
    assert neighbors._recall(narrow, order, wrong) == pytest.approx(0.8)


def test_a_layout_covers_each_near_pair_once():
    X = cloud(300, 6).astype(np.float32)
    found = near_clusters.near_clusters(X, neighbors._leaves(X, 20))
    assert sorted(found.order) == list(range(300))
    seen = np.zeros((300, 300), int)
    slices = found.slices()
    for block, rows in enumerate(slices):
        columns = list(found.columns(block, 50))
        assert columns[0] == rows
        assert all(part.stop - part.start <= 50 or part in slices for part in columns)
        for part in columns:
            seen[rows, part] += 1
    assert seen.max() == 1
    assert not np.tril(seen, -20 * 3).any()


def test_equal_rows_far_from_all_others_are_found(monkeypatch):
    X = cloud()
    X[:3] = 50.0 + np.arange(3)[:, None] * 1e-3
    monkeypatch.setattr(near_clusters, "PROBED_SHARE", 0.02)
    indices, distances = search(X, enough=0.0)
    assert np.isfinite(distances).all()
    assert {0, 1, 2} - {0} <= set(indices[0])


def test_the_engine_passes_its_recall_on(monkeypatch):
    X = np.random.default_rng(0).standard_normal((5000, 30))
    monkeypatch.setattr(neighbors, "MANY_ROWS", 4096)
    monkeypatch.setattr(near_clusters, "PROBED_SHARE", 0.02)
    near, all_pairs = (CPUEngine(kernels="numba", recall=share).neighbors(X, 5)[1] for share in (1e-9, 1.0))
    plain = CPUEngine(kernels="numpy").neighbors(X, 5)[1]
    np.testing.assert_allclose(all_pairs, plain, rtol=1e-12)
    assert (near > plain * (1 + 1e-9)).mean() > 0.1
    with pytest.raises(ValueError, match="recall=2"):
        resolve_engine(CPUEngine(recall=2.0))


def test_a_look_around_a_cluster_has_enough_rows_and_all_of_its_own():
    X = cloud(300, 4).astype(np.float32)
    X[:40] += 1e4  # far from all others, in clusters of their own
    found = near_clusters.near_clusters(X, neighbors._leaves(X, 20))
    for n_rows in (1, 30, 300):
        for block, rows in enumerate(found.slices()):
            places = found.around(block, n_rows)
            assert len(set(places)) == len(places) >= n_rows
            assert set(range(rows.start, rows.stop)) <= set(places)
