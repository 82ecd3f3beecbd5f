"""Every affinity value against its dense form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import oracles
from adaam import LPP, HeatKernel
from adaam.affinity import (
    DiagonalAffinity,
    SparseAffinity,
    SumAffinity,
    diagonal_counts,
    heat_affinity,
    laplacian_gram,
    pruned_affinity,
)
from adaam.engines import CPUEngine
from adaam.graph import given_graph, neighbor_graph
from adaam.prepare import Sample

ENGINE = CPUEngine()


def sample(X, weights=None):
    return Sample(X, np.ones(len(X)) if weights is None else np.asarray(weights, float), ENGINE)


def heat(X, k, kernel=None, weights=None):
    rows = sample(X, weights)
    return heat_affinity(neighbor_graph(rows, k), kernel or HeatKernel(), rows)


def pruned(P, t, diagonal="keep", weights=None):
    rows = sample(P, weights)
    return pruned_affinity(rows, P, t, diagonal_counts(rows, diagonal))


def cases(rng):
    X = rng.standard_normal((30, 4))
    W = oracles.heat_weights(X, 3)
    P = oracles.left_vectors(X, 3)
    entries = rng.standard_normal(30)
    yield heat(X, 3), W
    yield pruned(P, 90), oracles.prune(P @ P.T, 90)
    yield pruned(P, 91, "drop"), oracles.prune(P @ P.T, 91, diagonal="drop")
    yield DiagonalAffinity(entries, ENGINE), np.diag(entries)
    yield SumAffinity((heat(X, 3), DiagonalAffinity(entries, ENGINE)), ENGINE), W + np.diag(entries)
    both = SumAffinity((pruned(P, 90), DiagonalAffinity(entries, ENGINE)), ENGINE)
    yield both, oracles.prune(P @ P.T, 90) + np.diag(entries)


def test_degrees_and_grams_equal_their_dense_forms(rng):
    X = rng.standard_normal((30, 6))
    for affinity, dense in cases(rng):
        np.testing.assert_allclose(affinity.degrees(), dense.sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(affinity.gram(X), X.T @ dense @ X, atol=1e-11)
        np.testing.assert_allclose(laplacian_gram(affinity, X, ENGINE), X.T @ oracles.laplacian(dense) @ X, atol=1e-11)


def test_heat_affinity_is_symmetric_non_negative_with_zero_diagonal(rng):
    weights = heat(rng.standard_normal((40, 3)), 4).weights
    assert abs(weights - weights.T).max() == 0
    assert weights.data.min() > 0
    np.testing.assert_array_equal(weights.diagonal(), 0.0)


def test_a_given_graph_keeps_the_larger_heat_of_two_directions():
    indices = np.array([[1, 2], [0, 2], [0, 1]])
    distances = np.array([[1.0, 3.0], [2.0, 4.0], [3.0, 0.5]])
    rows = sample(np.arange(3.0)[:, None])
    weights = heat_affinity(given_graph((indices, distances), 3, 2), HeatKernel(1.0, "fixed"), rows).weights.toarray()
    assert weights[0, 1] == weights[1, 0] == pytest.approx(np.exp(-1.0))
    assert weights[1, 2] == weights[2, 1] == pytest.approx(np.exp(-0.5))


def test_heat_of_one_direction_alone_counts_in_full():
    rows = sample(np.array([[0.0], [1.0], [3.0]]))
    affinity = heat_affinity(given_graph((np.array([[1], [0], [1]]), np.ones((3, 1))), 3, 1), HeatKernel(np.inf), rows)
    np.testing.assert_array_equal(affinity.weights.toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(affinity.degrees(), [1, 2, 1])


def test_heat_tends_to_adjacency_as_the_width_grows(rng):
    X = rng.standard_normal((30, 3))
    limit = heat(X, 4, HeatKernel(width=np.inf)).weights.toarray()
    assert set(np.unique(limit)) == {0.0, 1.0}
    np.testing.assert_allclose(heat(X, 4, HeatKernel(width=1e9)).weights.toarray(), limit, atol=1e-8)


def test_scale_rules_on_a_worked_example():
    # Rows at 0, 1, 3 with one neighbour each: distances 1, 1, 2; their mean is 4/3.
    X = np.array([[0.0], [1.0], [3.0]])

    def weight(i, j, **options):
        return heat(X, 1, HeatKernel(**options)).weights.toarray()[i, j]

    assert weight(0, 1, width=3.0) == pytest.approx(np.exp(-1 / 4))
    assert weight(1, 2, width=3.0) == pytest.approx(np.exp(-2 / 4))
    assert weight(1, 2, width=3.0, power=2) == pytest.approx(np.exp(-((2 / 4) ** 2)))
    assert weight(1, 2, width=5.0, rule="fixed") == pytest.approx(np.exp(-2 / 5))
    # Farthest neighbours: 1, 1, 2, so the scale of edge (1, 2) is sqrt(2).
    assert weight(1, 2, width=1.0, rule="self-tuning", power=2) == pytest.approx(np.exp(-4 / 2))


def test_all_neighbours_coincident_weigh_one():
    X = np.zeros((4, 2))
    for rule in ("mean", "self-tuning", "fixed"):
        weights = heat(X, 3, HeatKernel(rule=rule)).weights
        np.testing.assert_array_equal(weights.data, 1.0)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(3, 12), st.integers(1, 4))
def test_weighted_rows_give_the_grams_of_their_copies(seed, n, k):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    weights = rng.integers(1, 4, size=n)
    repeated = np.repeat(X, weights, axis=0)
    k = min(k, len(repeated) - 1)
    expected = oracles.heat_weights(repeated, k)
    affinity = heat(X, k, weights=weights)
    # Any of several coincident rows may fill the last place. Sums over the copies of a row do not depend on it,
    # unless a row has more copies than places: then the oracle counts some links twice.
    if weights.max() - 1 <= k:
        np.testing.assert_allclose(affinity.gram(X), repeated.T @ expected @ repeated, atol=1e-10)
    P = oracles.left_vectors(repeated, 2)
    t = len(repeated) ** 2 // 3
    first = np.concatenate([[0], np.cumsum(weights)[:-1]])
    for diagonal in ("keep", "drop"):
        dense = oracles.prune(P @ P.T, t, diagonal=diagonal)
        mine = pruned(P[first], t, diagonal, weights)
        np.testing.assert_allclose(mine.gram(X), repeated.T @ dense @ repeated, atol=1e-10)


def test_sparse_affinity_takes_any_symmetric_matrix(rng):
    A = rng.standard_normal((20, 20))
    A += A.T
    X = rng.standard_normal((20, 3))
    np.testing.assert_allclose(SparseAffinity(csr_array(A), ENGINE).gram(X), X.T @ A @ X, atol=1e-12)


class EmptyLooking(SparseAffinity):
    """An affinity of length 0, which is false in a boolean context."""

    def __len__(self):
        return 0


def test_an_affinity_that_counts_as_false_is_used_all_the_same(rng):
    X = rng.standard_normal((20, 4))
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    weights = csr_array(np.exp(-distances))
    expected = LPP(2).fit(X, affinity=weights).components_
    found = LPP(2).fit(X, affinity=EmptyLooking(weights, CPUEngine())).components_
    np.testing.assert_array_equal(found, expected)
