"""Neighbours of many rows, searched among near clusters: what is found, what is missed, and what is done about it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import oracles
from adaam.engines import CPUEngine, resolve_engine
from adaam.engines.kernels import candidates, compiled_kernels, guesses, near_clusters, neighbors

pytest.importorskip("numba", reason="numba is not installed")


@pytest.fixture(autouse=True)
def small_clusters(monkeypatch):
    monkeypatch.setattr(neighbors, "MANY_ROWS", 200)
    monkeypatch.setattr(neighbors, "CLUSTER_ROWS", 20)
    monkeypatch.setattr(candidates, "TILE_ROWS", 48)
    monkeypatch.setattr(neighbors, "LEAF_ROWS", 32)
    monkeypatch.setattr(guesses, "AROUND_ROWS", 32)


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


def asking(monkeypatch, n_asked):
    """Ask for so many clusters, whatever the sampled rows say."""
    monkeypatch.setattr(neighbors, "n_to_ask", lambda *_: (n_asked, 0.0))


def small(patch):
    for name, value in {"MANY_ROWS": 200, "CLUSTER_ROWS": 20, "MOST_LOOKED_AT": 1.0}.items():
        patch.setattr(neighbors, name, value)
    patch.setattr(guesses, "AROUND_ROWS", 32)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(200, 500), st.integers(1, 6))
def test_enough_true_neighbours_are_found_and_none_is_made_up(seed, n, k):
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        X = cloud(n, 6, seed)
        indices, distances = search(X, k)
    assert recall(X, indices) >= 0.95  # a third of these few rows are measured, the others are like them
    np.testing.assert_allclose(distances, np.linalg.norm(X[:, None] - X[indices], axis=2), rtol=1e-12)
    assert (np.diff(distances, axis=1) >= 0).all()
    assert (indices != np.arange(n)[:, None]).all()
    assert all(len(set(row)) == k for row in indices)


def test_where_clusters_miss_too_much_all_pairs_are_searched(monkeypatch):
    # Without any structure nearest clusters hold few of the neighbours.
    X = np.random.default_rng(0).standard_normal((400, 40))
    asking(monkeypatch, 1)
    assert recall(X, search(X, enough=0.0)[0]) < 0.9
    assert recall(X, search(X, enough=0.98)[0]) == 1.0
    assert recall(X, search(X, enough=1.0)[0]) == 1.0


def test_where_too_many_clusters_must_be_asked_for_all_pairs_are_searched_at_once(monkeypatch):
    X = np.random.default_rng(0).standard_normal((400, 40))

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(neighbors, "among_asked", never)
    assert recall(X, search(X)[0]) == 1.0


def test_all_clusters_asked_for_is_the_exact_search(monkeypatch):
    X = cloud()
    head = X[:, :32].astype(np.float32)
    n_clusters = len(near_clusters.near_clusters(head, guesses.leaves(head, 20)).centers)
    asking(monkeypatch, n_clusters)
    monkeypatch.setattr(neighbors, "among_all", None)
    indices, distances = search(X)
    monkeypatch.undo()
    plain = search(X)
    np.testing.assert_array_equal(indices, plain[0])
    np.testing.assert_array_equal(distances, plain[1])


def test_as_many_clusters_are_asked_for_as_the_neighbours_of_some_rows_need():
    X = cloud(500, 6)
    head = X.astype(np.float32)
    clusters = near_clusters.near_clusters(head, guesses.leaves(head, 20))
    head, order = head[clusters.order], clusters.order
    places = np.argsort(order)
    some = np.arange(0, 500, 3)
    true = places[oracles.neighbors(X, 5)[0][order[some]]]
    labels = clusters.labels()
    apart = np.linalg.norm(head[:, None] - clusters.centers, axis=2)
    apart[np.arange(500), labels] = -1.0
    rank = apart.argsort(axis=1).argsort(axis=1)
    nearer = np.minimum(rank[some[:, None], labels[true]], rank[true, labels[some][:, None]])
    needed = []
    for share in (0.5, 0.9, 0.99, 1.0):
        n_asked, looked_at = near_clusters.n_to_ask(head, clusters, some, true, share)
        assert (nearer < n_asked).mean() >= share > (nearer < n_asked - 1).mean()
        assert 0.0 < looked_at <= 1.0
        needed.append(n_asked)
    assert needed == sorted(needed)


def test_rows_that_choose_are_not_those_that_measure(monkeypatch):
    looked = []
    true = neighbors._true

    def seen(X, search, some, order, k):
        looked.append(set(some))
        return true(X, search, some, order, k)

    monkeypatch.setattr(neighbors, "_true", seen)
    monkeypatch.setattr(neighbors, "MOST_LOOKED_AT", 1.0)
    search(cloud())
    choosing, measuring = looked
    assert len(choosing) > len(measuring) > 100
    assert not choosing & measuring


def test_a_pair_of_clusters_that_ask_for_each_other_counts_once(monkeypatch):
    X = cloud()
    pairs = []
    among_asked = neighbors.among_asked

    def kept(*arguments):
        pairs.append(among_asked(*arguments))
        return pairs[-1]

    monkeypatch.setattr(neighbors, "among_asked", kept)
    for n_asked in (1, 4, 9):
        asking(monkeypatch, n_asked)
        search(X, enough=0.0)
        found = pairs.pop()
        assert (found.row != found.column).all()
        assert len(set(zip(found.row, found.column, strict=True))) == len(found.row)


def test_results_have_the_same_bits_on_one_thread_and_on_two(monkeypatch):
    X = cloud(900, 20)
    asking(monkeypatch, 6)
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            found.append(search(X, enough=0.5))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_the_order_of_rows_does_not_matter():
    X = cloud()
    order = np.random.default_rng(1).permutation(len(X))
    indices, _ = search(X)
    again, _ = search(X[order])
    moved = np.argsort(order)[indices[order]]
    assert np.mean([set(a) == set(b) for a, b in zip(again, moved, strict=True)]) > 0.99


def test_the_clusters_asked_for_are_those_nearest_to_a_row():
    X = cloud(300, 6).astype(np.float32)
    clusters = near_clusters.near_clusters(X, guesses.leaves(X, 20))
    assert sorted(clusters.order) == list(range(300))
    head, labels = X[clusters.order], clusters.labels()
    asked = near_clusters.asked(head, clusters, 4, compiled_kernels("numba", 300))
    np.testing.assert_array_equal(asked.clusters[:, 0], labels)
    apart = np.linalg.norm(head[:, None] - clusters.centers, axis=2)
    reached = np.take_along_axis(apart, asked.clusters, axis=1)
    np.testing.assert_allclose(np.sort(reached, axis=1), np.sort(apart, axis=1)[:, :4], rtol=1e-4)
    for cluster in range(len(clusters.centers)):
        rows = np.flatnonzero((asked.clusters == cluster).any(axis=1))
        np.testing.assert_array_equal(asked.asking(cluster), rows)


def test_equal_rows_far_from_all_others_are_found(monkeypatch):
    X = cloud()
    X[:3] = 50.0 + np.arange(3)[:, None] * 1e-3
    asking(monkeypatch, 1)
    indices, distances = search(X, enough=0.0)
    assert np.isfinite(distances).all()
    assert {0, 1, 2} - {0} <= set(indices[0])


def test_the_engine_passes_its_recall_on(monkeypatch):
    X = np.random.default_rng(0).standard_normal((5000, 30))
    monkeypatch.setattr(neighbors, "MANY_ROWS", 4096)
    asking(monkeypatch, 1)
    near, all_pairs = (CPUEngine(kernels="numba", recall=share).neighbors(X, 5)[1] for share in (1e-9, 1.0))
    plain = CPUEngine(kernels="numpy").neighbors(X, 5)[1]
    np.testing.assert_allclose(all_pairs, plain, rtol=1e-12)
    assert (near > plain * (1 + 1e-9)).mean() > 0.1
    with pytest.raises(ValueError, match="recall=2"):
        resolve_engine(CPUEngine(recall=2.0))


def test_a_look_around_a_cluster_has_enough_rows_and_all_of_its_own():
    X = cloud(300, 4).astype(np.float32)
    X[:40] += 1e4  # far from all others, in clusters of their own
    found = near_clusters.near_clusters(X, guesses.leaves(X, 20))
    for n_rows in (1, 30, 300):
        for block, rows in enumerate(found.slices()):
            places = found.around(block, n_rows)
            assert len(set(places)) == len(places) >= n_rows
            assert set(range(rows.start, rows.stop)) <= set(places)
