"""Neighbours of many rows, searched in probed cells: what is found, what is missed, and what is done about it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import oracles
from adaam.engines import CPUEngine, resolve_engine

pytest.importorskip("numba", reason="numba is not installed")

from adaam.engines.neighbors import cells, search


@pytest.fixture(autouse=True)
def small_cells(monkeypatch):
    monkeypatch.setattr(search, "APPROXIMATE_ROWS", 200)
    monkeypatch.setattr(search, "CELL_ROWS", 20)
    monkeypatch.setattr(search, "TILE_ROWS", 48)
    monkeypatch.setattr(search, "LEAF_ROWS", 32)
    monkeypatch.setattr(search, "GUESS_ROWS", 32)


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


def probing(monkeypatch, n_probes):
    """Probe so many cells, whatever the sampled rows say."""
    monkeypatch.setattr(search, "choose_n_probes", lambda *_: (n_probes, 0.0))


def small(patch):
    for name, value in {"APPROXIMATE_ROWS": 200, "CELL_ROWS": 20, "MOST_PROBED": 1.0}.items():
        patch.setattr(search, name, value)
    patch.setattr(search, "GUESS_ROWS", 32)


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
    probing(monkeypatch, 1)
    assert recall(X, nearest(X, enough=0.0)[0]) < 0.9
    assert recall(X, nearest(X, enough=0.98)[0]) == 1.0
    assert recall(X, nearest(X, enough=1.0)[0]) == 1.0


def test_where_too_many_cells_must_be_probed_all_pairs_are_searched_at_once(monkeypatch):
    X = np.random.default_rng(0).standard_normal((400, 40))

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(search, "probed_pairs", never)
    assert recall(X, nearest(X)[0]) == 1.0


def test_all_cells_probed_is_the_exact_search(monkeypatch):
    X = cloud()
    head = X[:, :32].astype(np.float32)
    n_cells = len(cells.inverted_file(head, cells.kd_leaves(head, 20)).centers)
    probing(monkeypatch, n_cells)
    monkeypatch.setattr(search, "pairs_within_bounds", None)
    indices, distances = nearest(X)
    monkeypatch.undo()
    plain = nearest(X)
    np.testing.assert_array_equal(indices, plain[0])
    np.testing.assert_array_equal(distances, plain[1])


def test_as_many_cells_are_probed_as_the_neighbours_of_some_rows_need():
    X = cloud(500, 6)
    head = X.astype(np.float32)
    found = cells.inverted_file(head, cells.kd_leaves(head, 20))
    head, order = head[found.order], found.order
    places = np.argsort(order)
    some = np.arange(0, 500, 3)
    true = places[oracles.neighbors(X, 5)[0][order[some]]]
    labels = found.labels()
    apart = np.linalg.norm(head[:, None] - found.centers, axis=2)
    apart[np.arange(500), labels] = -1.0
    rank = apart.argsort(axis=1).argsort(axis=1)
    nearer = np.minimum(rank[some[:, None], labels[true]], rank[true, labels[some][:, None]])
    needed = []
    for share in (0.5, 0.9, 0.99, 1.0):
        n_probes, looked_at = cells.choose_n_probes(head, found, some, true, share)
        assert (nearer < n_probes).mean() >= share > (nearer < n_probes - 1).mean()
        assert 0.0 < looked_at <= 1.0
        needed.append(n_probes)
    assert needed == sorted(needed)


def test_rows_that_choose_are_not_those_that_measure(monkeypatch):
    looked = []
    true = search._true

    def seen(X, bounded, queries, order, k):
        looked.append(set(queries))
        return true(X, bounded, queries, order, k)

    monkeypatch.setattr(search, "_true", seen)
    monkeypatch.setattr(search, "MOST_PROBED", 1.0)
    nearest(cloud())
    choosing, measuring = looked
    assert len(choosing) > len(measuring) > 100
    assert not choosing & measuring


def test_a_pair_of_cells_that_probe_each_other_counts_once(monkeypatch):
    X = cloud()
    pairs = []
    among_asked = search.probed_pairs

    def kept(*arguments):
        pairs.append(among_asked(*arguments))
        return pairs[-1]

    monkeypatch.setattr(search, "probed_pairs", kept)
    for n_probes in (1, 4, 9):
        probing(monkeypatch, n_probes)
        nearest(X, enough=0.0)
        found = pairs.pop()
        assert (found.row != found.column).all()
        assert len(set(zip(found.row, found.column, strict=True))) == len(found.row)


def test_results_have_the_same_bits_on_one_thread_and_on_two(monkeypatch):
    X = cloud(900, 20)
    probing(monkeypatch, 6)
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


def test_the_cells_probed_are_those_nearest_to_a_row():
    X = cloud(300, 6).astype(np.float32)
    found = cells.inverted_file(X, cells.kd_leaves(X, 20))
    assert sorted(found.order) == list(range(300))
    head, labels = X[found.order], found.labels()
    probes = cells.probe_cells(head, found, 4)
    np.testing.assert_array_equal(probes.cells[:, 0], labels)
    apart = np.linalg.norm(head[:, None] - found.centers, axis=2)
    reached = np.take_along_axis(apart, probes.cells, axis=1)
    np.testing.assert_allclose(np.sort(reached, axis=1), np.sort(apart, axis=1)[:, :4], rtol=1e-4)
    for cell in range(len(found.centers)):
        rows = np.flatnonzero((probes.cells == cell).any(axis=1))
        np.testing.assert_array_equal(probes.probing(cell), rows)


def test_equal_rows_far_from_all_others_are_found(monkeypatch):
    X = cloud()
    X[:3] = 50.0 + np.arange(3)[:, None] * 1e-3
    probing(monkeypatch, 1)
    indices, distances = nearest(X, enough=0.0)
    assert np.isfinite(distances).all()
    assert {0, 1, 2} - {0} <= set(indices[0])


def test_the_engine_passes_its_recall_on(monkeypatch):
    X = np.random.default_rng(0).standard_normal((5000, 30))
    monkeypatch.setattr(search, "APPROXIMATE_ROWS", 4096)
    probing(monkeypatch, 1)
    near, all_pairs = (CPUEngine(kernels="numba", recall=share).neighbors(X, 5)[1] for share in (1e-9, 1.0))
    plain = CPUEngine(kernels="numpy").neighbors(X, 5)[1]
    np.testing.assert_allclose(all_pairs, plain, rtol=1e-12)
    assert (near > plain * (1 + 1e-9)).mean() > 0.1
    with pytest.raises(ValueError, match="recall=2"):
        resolve_engine(CPUEngine(recall=2.0))


def test_a_search_around_a_cell_has_enough_rows_and_all_of_its_own():
    X = cloud(300, 4).astype(np.float32)
    X[:40] += 1e4  # far from all others, in cells of their own
    found = cells.inverted_file(X, cells.kd_leaves(X, 20))
    for n_rows in (1, 30, 300):
        for block, rows in enumerate(found.slices()):
            places = found.around(block, n_rows)
            assert len(set(places)) == len(places) >= n_rows
            assert set(range(rows.start, rows.stop)) <= set(places)
