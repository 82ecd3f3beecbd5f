import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier
from threadpoolctl import threadpool_limits

from adaam import LPP, HeatKernel
from adaam.affinity import heat_affinity
from adaam.affinity.forest import ForestAffinity, alike_graph, forest_leaves, unit_features
from adaam.engines import CPUEngine
from adaam.graph import neighbor_graph
from adaam.prepare import Sample
from strategies import clouds


def sample_of(X, weights=None):
    X = np.asarray(X, dtype=np.float64)
    return Sample(X, np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64), CPUEngine())


def unused(k):
    raise AssertionError("the forest finds its own neighbours")


def learned(learner, X, weights=None):
    return learner.learn(sample_of(X, weights), unused).weights.toarray()


def alike(leaves, weights, k):
    graph = alike_graph(leaves, weights, k)
    half = graph.half(1 - graph.distances, weights, same_both_ways=False)
    return (half + half.T).toarray()


def together(leaves):
    """Dense A: share of trees in which two rows have the same leaf, zero diagonal."""
    A = (leaves[:, None, :] == leaves[None, :, :]).mean(axis=2)
    np.fill_diagonal(A, 0.0)
    return A


def sparsified(A, k):
    """The k largest entries of each row, the larger of the two directions; only for rows without ties."""
    kept = np.zeros_like(A)
    for i, row in enumerate(A):
        largest = np.argsort(-row)[:k]
        kept[i, largest] = row[largest]
    return np.maximum(kept, kept.T)


def random_leaves(rng, n, n_trees):
    """Return leaves of trees that split rows at random, numbered consecutively over the trees."""
    return rng.integers(0, 3, (n, n_trees)) + 3 * np.arange(n_trees)


def test_hand_worked_leaves():
    """Rows 0 and 1 meet in 3 of 4 trees, 1 and 2 in 2, 0 and 2 in 1; row 3 is always alone."""
    leaves = np.array([[0, 3, 6, 9], [0, 3, 7, 9], [1, 3, 7, 10], [2, 4, 8, 11]])
    graph = alike_graph(leaves, np.ones(4), 1)
    np.testing.assert_array_equal(graph.starts, [0, 1, 2, 3, 3])
    np.testing.assert_array_equal(graph.indices, [1, 0, 1])
    np.testing.assert_allclose(1 - graph.distances, [0.75, 0.75, 0.5])
    both = alike_graph(leaves, np.ones(4), 2)
    np.testing.assert_array_equal(both.indices, [1, 2, 0, 2, 1, 0])
    np.testing.assert_allclose(1 - both.distances, [0.75, 0.25, 0.75, 0.5, 0.5, 0.25])


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 40))
@settings(deadline=None, max_examples=25)
def test_all_neighbours_kept_equal_the_dense_leaf_co_occurrence(seed, n, n_trees):
    leaves = random_leaves(np.random.default_rng(seed), n, n_trees)
    np.testing.assert_allclose(alike(leaves, np.ones(n), n - 1), together(leaves), atol=1e-12)


@given(st.integers(0, 10_000), st.integers(5, 30), st.integers(1, 4))
@settings(deadline=None, max_examples=25)
def test_the_most_alike_rows_are_kept(seed, n, k):
    leaves = random_leaves(np.random.default_rng(seed), n, 15)
    graph = alike_graph(leaves, np.ones(n), k)
    A = together(leaves)
    for i in range(n):
        found = 1 - graph.distances[graph.starts[i] : graph.starts[i + 1]]
        largest = np.sort(A[i])[::-1][:k]
        np.testing.assert_allclose(found, largest[largest > 0], atol=1e-12)


@given(st.integers(0, 10_000), st.integers(2, 5))
@settings(deadline=None, max_examples=25)
def test_sparsified_affinity_equals_the_dense_formula(seed, k):
    """Of entries tied at the k-th place of a row, as in more than half of the examples, any may be kept."""
    leaves = random_leaves(np.random.default_rng(seed), 12, 2000)
    A = together(leaves)
    found = alike(leaves, np.ones(12), k)
    ranked = np.sort(A, axis=1)[:, ::-1]
    next_best, last = ranked[:, [k]], ranked[:, [k - 1]]
    surely, perhaps = next_best < A, last <= A  # the same entries in rows without ties
    assert (found[surely | surely.T] > 0).all()
    assert (found[~(perhaps | perhaps.T)] == 0).all()
    assert ((found > 0).sum(axis=1) >= k).all()
    np.testing.assert_allclose(found, np.where(found > 0, A, 0.0), atol=1e-12)


def test_weights_equal_repeated_leaves():
    """Every row twice and k = 5: one place for the copy and two for each of two rows, so that no place is shared."""
    leaves = random_leaves(np.random.default_rng(3), 12, 2000)
    ranked = np.sort(together(leaves), axis=1)[:, ::-1]
    assert (ranked[:, 1] > ranked[:, 2]).all()
    dense = sparsified(together(np.repeat(leaves, 2, axis=0)), 5)
    by_row = np.repeat(np.eye(12), 2, axis=1)
    np.testing.assert_allclose(alike(leaves, np.full(12, 2.0), 5), by_row @ dense @ by_row.T, atol=1e-12)


def test_rows_of_small_weight_take_more_neighbours():
    leaves = random_leaves(np.random.default_rng(4), 20, 200)
    graph = alike_graph(leaves, np.full(20, 0.5), 3)
    np.testing.assert_array_equal(np.diff(graph.starts), 6)


def test_forest_agrees_with_the_forest_of_scikit_learn():
    """Co-occurrences correlate at 0.93 to 0.97 over five seeds, since the synthetic rows differ; 0.85 is a margin."""
    X = unit_features(load_iris().data[::2])
    n, rng = len(X), np.random.default_rng(0)
    made_up = np.stack([rng.choice(column, n) for column in X.T], axis=1)
    forest = RandomForestClassifier(400, max_samples=0.5, random_state=0)
    forest.fit(np.concatenate([X, made_up]), np.repeat([0, 1], n))
    expected = together(forest.apply(X))
    found = together(forest_leaves(X, np.ones(n), 400, 1, np.random.default_rng(1)))
    off = ~np.eye(n, dtype=bool)
    assert np.corrcoef(found[off], expected[off])[0, 1] > 0.85


def test_leaves_follow_the_clusters():
    """Two features that go together in two groups: the forest must learn the groups, not the marginals."""
    rng = np.random.default_rng(5)
    group = np.repeat([0, 1], 40)
    X = unit_features(np.stack([group, group], axis=1) * 5.0 + rng.standard_normal((80, 2)))
    A = together(forest_leaves(X, np.ones(80), 100, 1, rng))
    same = group[:, None] == group
    assert A[same].mean() > 10 * A[~same].mean()


def test_leaf_size_bounds_leaves():
    X = unit_features(np.random.default_rng(6).standard_normal((100, 3)))
    fine, coarse = (forest_leaves(X, np.ones(100), 20, size, np.random.default_rng(0)) for size in (1, 20))
    assert len(np.unique(coarse)) < len(np.unique(fine)) / 3


@given(clouds(max_rows=20), st.integers(1, 25), st.sampled_from([1, 3, 30]))
@settings(deadline=None, max_examples=25)
def test_promises_on_everyday_rows(X, k, n_trees):
    """Symmetric, in [0, w_i w_j], no row without an edge, the diagonal zero but for copies."""
    weights = np.random.default_rng(0).integers(1, 4, len(X)) * 0.75
    A = learned(ForestAffinity(k, n_trees=n_trees), X, weights)
    np.testing.assert_allclose(A, A.T, rtol=1e-12)
    assert np.isfinite(A).all()
    assert (A >= 0).all()
    off = A - np.diag(np.diag(A))
    assert (off <= np.outer(weights, weights) * (1 + 1e-12)).all()
    assert (A.sum(axis=1) > 0).all()
    assert (np.diag(A)[weights <= 1] == 0).all()


def test_row_that_shares_no_leaf_is_linked_to_its_nearest():
    """Regression, with one tree on three far-apart rows: a row without edges has no effect on the projection."""
    X = np.array([[0.0, 0.0], [1.0, 5.0], [9.0, 2.0]])
    for seed in range(20):
        A = learned(ForestAffinity(2, n_trees=1, random_state=seed), X)
        assert (A.sum(axis=1) > 0).all()


def test_forest_sees_the_leading_features_only():
    X = np.random.default_rng(13).standard_normal((40, 6))
    four = learned(ForestAffinity(5, n_trees=20, n_features=4), X)
    np.testing.assert_array_equal(learned(ForestAffinity(5, n_trees=20, n_features=None), X[:, :4]), four)
    np.testing.assert_array_equal(
        learned(ForestAffinity(5, n_trees=20, n_features=None), X), learned(ForestAffinity(5, n_trees=20), X)
    )


def test_scale_and_shift_of_features_do_not_matter():
    """Trees treat features below 1e-7 as constant unless they are scaled first."""
    X = np.random.default_rng(7).standard_normal((60, 3))
    expected = learned(ForestAffinity(5, n_trees=20), X)
    np.testing.assert_array_equal(learned(ForestAffinity(5, n_trees=20), X * 2.0**-40), expected)
    scaled = unit_features(X * [1e-9, 1.0, 1e9] + [0.0, 3.0, 0.0])
    np.testing.assert_allclose(scaled.max(axis=0), 1.0)
    np.testing.assert_allclose(scaled.min(axis=0), -1.0)
    np.testing.assert_array_equal(unit_features(np.full((3, 2), 7.0)), np.zeros((3, 2)))


def test_seed_decides_and_threads_do_not():
    X = np.random.default_rng(8).standard_normal((50, 4))
    learner = ForestAffinity(5, n_trees=10, random_state=3)
    with threadpool_limits(1):
        alone = learned(learner, X)
    with threadpool_limits(3):
        together_ = learned(learner, X)
    np.testing.assert_array_equal(alone, together_)
    assert (learned(ForestAffinity(5, n_trees=10, random_state=4), X) != alone).any()


def test_blocks_of_rows_do_not_change_the_result(monkeypatch):
    X = np.random.default_rng(9).standard_normal((40, 3))
    whole = learned(ForestAffinity(4, n_trees=10), X)
    monkeypatch.setattr("adaam.affinity.forest.BLOCK_BYTES", 1)
    np.testing.assert_array_equal(learned(ForestAffinity(4, n_trees=10), X), whole)


@pytest.mark.parametrize(
    ("learner", "error", "text"),
    [
        (ForestAffinity(0), ValueError, "n_neighbors=0"),
        (ForestAffinity(n_trees=0), ValueError, "n_trees=0"),
        (ForestAffinity(n_features=0), ValueError, "n_features=0"),
        (ForestAffinity(min_leaf=0.5), TypeError, "min_leaf=0.5"),
    ],
)
def test_messages_name_the_parameter(learner, error, text):
    with pytest.raises(error, match=text):
        learned(learner, np.eye(6))


@pytest.mark.parametrize("preparation", ["unit", "linear", "center"])
def test_lpp_end_to_end_on_digits(preparation):
    X = load_digits().data[:300]
    model = LPP(5, affinity=ForestAffinity(10, n_trees=30), preparation=preparation).fit(X)
    assert model.components_.shape == (5, 64)
    assert np.isfinite(model.components_).all()
    assert ((model.eigenvalues_ >= -1e-9) & (model.eigenvalues_ <= 2 + 1e-9)).all()


def test_repeated_rows_give_the_map_of_weighted_rows():
    """Holds because a fit merges equal rows first; a forest on unmerged rows would draw other synthetic rows."""
    X = load_digits().data[:120]
    times = np.random.default_rng(0).integers(1, 4, len(X))
    model = LPP(4, affinity=ForestAffinity(6, n_trees=20))
    weighted = model.fit(X, sample_weight=times).components_
    repeated = clone(model).fit(np.repeat(X, times, axis=0)).components_
    assert subspace_angles(weighted.T, repeated.T).max() < 1e-6


def test_settings_clone_and_pickle():
    learner = ForestAffinity(7, n_trees=5, min_leaf=2, random_state=1)
    assert clone(learner).get_params() == learner.get_params()
    X = np.random.default_rng(10).standard_normal((30, 3))
    again = pickle.loads(pickle.dumps(learner))
    np.testing.assert_array_equal(learned(again, X), learned(learner, X))


def test_learning_leaves_settings_and_rows_alone():
    learner, X = ForestAffinity(3, n_trees=5), np.random.default_rng(11).standard_normal((20, 3))
    before, rows = dict(learner.get_params()), X.copy()
    X.setflags(write=False)
    learned(learner, X)
    assert learner.get_params() == before
    np.testing.assert_array_equal(X, rows)


def test_neighbour_values_of_one_give_the_unweighted_graph():
    sample = sample_of(np.random.default_rng(12).integers(0, 3, (20, 2)), np.full(20, 1.5))
    graph = neighbor_graph(sample, 3)
    half = graph.half(np.ones(len(graph.indices)), sample.weights, same_both_ways=False)
    A = (half + half.T).toarray()
    expected = heat_affinity(graph, HeatKernel(width=np.inf), sample).weights.toarray()
    np.testing.assert_allclose(A, expected, rtol=1e-12)
