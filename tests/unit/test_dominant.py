import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from adaam import LPP, HeatKernel, KNNAffinity
from adaam.affinity.dominant import DominantAffinity, replicator
from adaam.engines import CPUEngine
from adaam.graph import neighbor_graph
from adaam.prepare import Sample
from oracles import neighbors
from strategies import clouds

quiet = pytest.mark.filterwarnings("ignore::adaam.graph.DisconnectedGraphWarning")

# Near a tie the dynamics converge slowly, so a bounded number of steps is compared.
restless = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def learned(learner, X, weights=None):
    X = np.asarray(X, dtype=np.float64)
    sample = Sample(X, np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64), CPUEngine())
    return learner.learn(sample, lambda k: neighbor_graph(sample, k))


def dominant_set(A, max_iter, tol=1e-8):
    """Return the support of the fixed point of the replicator dynamics from equal shares, for one system."""
    x = np.full(len(A), 1 / len(A))
    for _ in range(max_iter):
        gain = x @ A @ x
        following = x * (A @ x) / gain if gain > 0 else x  # affinities that underflow: nothing to gain by moving
        if np.abs(following - x).sum() < tol:
            break
        x = following
    return np.flatnonzero(following > 0.01 / len(A))


def dominant(X, k, *, factor=10.0, max_iter=3000):
    """Dense affinity: heat weights on the edges from each row to the dominant set of its neighbourhood."""
    indices, distances = neighbors(X, k)
    D, scale = cdist(X, X), distances[:, -1]
    heat = np.exp(-D / (factor * distances.mean()))
    W = np.zeros_like(D)
    for i, near in enumerate(indices):
        members = np.array([i, *near])
        A = np.exp(-(D[np.ix_(members, members)] ** 2) / np.outer(scale[members], scale[members]))
        np.fill_diagonal(A, 0.0)
        for j in members[dominant_set(A, max_iter)]:
            if j != i:
                W[i, j] = heat[i, j]
    return np.maximum(W, W.T)


def test_hand_worked_dynamics():
    """A clique of three and an isolated row: one step from equal shares to thirds, a second to see that it rests."""
    A = np.ones((4, 4)) - np.eye(4)
    A[3, :] = A[:, 3] = 0.0
    rest = replicator(A[None], np.ones((1, 4)), 10, 1e-8)
    np.testing.assert_allclose(rest.shares, [[1 / 3, 1 / 3, 1 / 3, 0]])
    assert rest.converged.all()
    assert rest.n_iter[0] == 2


@given(st.floats(0.1, 1.0), st.floats(0.1, 1.0), st.floats(0.1, 1.0))
@settings(deadline=None, max_examples=50)
def test_three_rows_rest_where_the_closed_form_says(a, b, c):
    """With affinities a = A12, b = A13, c = A23: shares as c(a+b-c), b(a+c-b), a(b+c-a), or the strongest pair."""
    A = np.array([[0, a, b], [a, 0, c], [b, c, 0]])
    x = np.array([c * (a + b - c), b * (a + c - b), a * (b + c - a)])
    # Near the border between the two cases, the dynamics hardly converge.
    assume(np.abs(x).min() >= 0.02 * np.abs(x).max())
    expected = x / x.sum() if (x > 0).all() else np.where(x > 0, 0.5, 0.0)
    rest = replicator(A[None], np.ones((1, 3)), 100_000, 1e-12)
    np.testing.assert_allclose(rest.shares[0], expected, atol=1e-6)


def test_hand_worked_example_on_a_line():
    """Points 0, 1, 10, 11 with k = 2: in each neighbourhood e^(-1/5) > e^(-9/5) + e^(-10/5), so the pair wins."""
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    learner = DominantAffinity(2, local_heat=HeatKernel(width=5.0, rule="fixed", power=1))
    bandwidth = 10 * (1 + 10 + 1 + 9 + 1 + 9 + 1 + 10) / 8
    w = np.exp(-1 / bandwidth)
    expected = np.array([[0, w, 0, 0], [w, 0, 0, 0], [0, 0, 0, w], [0, 0, w, 0]])
    np.testing.assert_allclose(learned(learner, X).weights.toarray(), expected, rtol=1e-14)


def test_row_may_lose_its_own_share_and_is_linked_to_the_others():
    """Points 0, 1, 10 with k = 2: the pair 0, 1 wins in the neighbourhood of the third row too."""
    A = learned(DominantAffinity(2, local_heat=HeatKernel(width=5.0, rule="fixed")), [[0.0], [1.0], [10.0]])
    assert (A.weights.toarray() > 0).sum() == 6


@restless
@given(st.integers(0, 10_000), st.integers(6, 40), st.integers(1, 5), st.integers(1, 5))
@settings(deadline=None, max_examples=30)
def test_affinity_equals_the_dense_formula(seed, n, d, k):
    X = np.random.default_rng(seed).standard_normal((n, d))
    np.testing.assert_allclose(
        learned(DominantAffinity(k, max_iter=3000), X).weights.toarray(), dominant(X, k), rtol=1e-12
    )


@restless
@given(st.integers(0, 10_000), st.integers(6, 20))
@settings(deadline=None, max_examples=20)
def test_weights_equal_repeated_rows_of_the_dense_formula(seed, n):
    """Every row twice and k = 5: one place for the copy and two for each of two rows, so that no place is shared."""
    X = np.random.default_rng(seed).standard_normal((n, 3))
    by_row = np.repeat(np.eye(n), 2, axis=1)
    dense = dominant(np.repeat(X, 2, axis=0), 5)
    np.testing.assert_allclose(
        learned(DominantAffinity(5, max_iter=3000), X, np.full(n, 2.0)).weights.toarray(),
        by_row @ dense @ by_row.T,
        rtol=1e-12,
    )


@given(clouds(), st.integers(1, 5))
@settings(deadline=None, max_examples=25)
def test_equal_affinities_cut_nothing(X, k):
    """The neighbour graph itself comes back, weights of tied rows and of copies included."""
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    X = X + np.arange(len(X))[:, None] * 1e-3 * np.abs(X).max()
    expected = learned(KNNAffinity(k), X, weights).weights.toarray()
    learner = DominantAffinity(k, local_heat=HeatKernel(width=np.inf))
    np.testing.assert_allclose(learned(learner, X, weights).weights.toarray(), expected, rtol=1e-9)


coarse_rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0.25, 4.0)), min_size=3, max_size=20)


@restless
@given(coarse_rows, st.integers(1, 6), st.randoms())
@settings(deadline=None, max_examples=40)
def test_ties_copies_and_fractional_weights_keep_all_promises(rows, k, random):
    """Symmetric, in [0, w_i w_j], no row without an edge, no edge outside the neighbour graph, order irrelevant."""
    X, weights = np.array([row[:2] for row in rows], dtype=float), np.array([row[2] for row in rows])
    learner = DominantAffinity(k, max_iter=2000)
    A = learned(learner, X, weights).weights.toarray()
    np.testing.assert_array_equal(A, A.T)
    assert np.isfinite(A).all()
    assert (A >= 0).all()
    assert (A.sum(axis=1) > 0).all()
    graph = learned(KNNAffinity(k), X, weights).weights.toarray()
    assert (graph * (1 + 1e-9) >= A).all()
    order = np.array(random.sample(range(len(X)), len(X)))
    permuted = learned(learner, X[order], weights[order]).weights.toarray()
    np.testing.assert_allclose(permuted, A[np.ix_(order, order)], atol=1e-9)


@given(st.integers(0, 10_000), st.integers(2, 8))
@settings(deadline=None, max_examples=25)
def test_a_step_never_lowers_the_mean_affinity_and_shares_stay_on_the_simplex(seed, size):
    A = np.random.default_rng(seed).random((5, size, size))
    A = A + A.transpose(0, 2, 1)
    A[:, np.arange(size), np.arange(size)] = 0.0
    before = -np.inf
    for n_steps in (1, 2, 5, 20, 100):
        x = replicator(A, np.ones((5, size)), n_steps, 1e-15).shares
        np.testing.assert_allclose(x.sum(axis=1), 1.0, rtol=1e-12)
        assert (x >= 0).all()
        mean = np.einsum("bi,bij,bj->b", x, A, x)
        assert (mean >= before - 1e-12).all()
        before = mean


def test_systems_of_a_batch_do_not_touch_each_other():
    rng = np.random.default_rng(0)
    A = rng.random((50, 5, 5))
    A = A + A.transpose(0, 2, 1)
    together = replicator(A, np.ones((50, 5)), 300, 1e-8)
    assert 0 < together.converged.sum() < 50
    for i in range(50):
        alone = replicator(A[i : i + 1], np.ones((1, 5)), 300, 1e-8)
        np.testing.assert_allclose(together.shares[i], alone.shares[0], atol=1e-13)
        assert (together.converged[i], together.n_iter[i]) == (alone.converged[0], alone.n_iter[0])


def test_system_without_any_affinity_rests_at_once():
    rest = replicator(np.zeros((1, 3, 3)), np.ones((1, 3)), 10, 1e-8)
    np.testing.assert_allclose(rest.shares, 1 / 3)
    assert rest.n_iter[0] == 1


def test_blocks_of_rows_do_not_change_the_result(monkeypatch):
    X = np.random.default_rng(0).standard_normal((60, 3))
    whole = learned(DominantAffinity(4), X)
    monkeypatch.setattr("adaam.affinity.dominant.BLOCK_BYTES", 1)
    blocked = learned(DominantAffinity(4), X)
    np.testing.assert_allclose(blocked.weights.toarray(), whole.weights.toarray(), rtol=1e-12)
    np.testing.assert_array_equal(blocked.converged, whole.converged)


def test_unfinished_searches_are_counted_and_told():
    X = np.random.default_rng(1).standard_normal((40, 3))
    with pytest.warns(ConvergenceWarning, match=r"of 40 rows .* max_iter=3 "):
        value = learned(DominantAffinity(5, max_iter=3), X)
    assert not value.converged.all()
    assert (value.n_iter[~value.converged] == 3).all()
    rested = learned(DominantAffinity(5), X)
    assert rested.converged.all()
    assert rested.n_iter.max() > 3


@pytest.mark.parametrize(
    ("learner", "error", "text"),
    [
        (DominantAffinity(0), ValueError, "n_neighbors=0"),
        (DominantAffinity(max_iter=0), ValueError, "max_iter=0"),
        (DominantAffinity(tol=0.0), ValueError, "tol=0.0"),
        (DominantAffinity(cut=1.5), ValueError, "cut=1.5"),
        (DominantAffinity(heat="wide"), TypeError, "heat='wide'"),
        (DominantAffinity(local_heat="narrow"), TypeError, "local_heat='narrow'"),
        (DominantAffinity(local_heat=HeatKernel(power=3)), ValueError, "power=3"),
    ],
)
def test_messages_name_the_parameter(learner, error, text):
    with pytest.raises(error, match=text):
        learned(learner, np.eye(6))


@quiet
@pytest.mark.parametrize("preparation", ["unit", "linear", "center"])
def test_lpp_end_to_end_on_digits(preparation):
    X = load_digits().data[:300]
    model = LPP(5, affinity=DominantAffinity(5), preparation=preparation).fit(X)
    assert model.components_.shape == (5, 64)
    assert np.isfinite(model.components_).all()
    assert ((model.eigenvalues_ >= -1e-9) & (model.eigenvalues_ <= 2 + 1e-9)).all()


@quiet
def test_repeated_rows_give_the_map_of_weighted_rows():
    X = load_digits().data[:120]
    times = np.random.default_rng(0).integers(1, 4, len(X))
    model = LPP(4, affinity=DominantAffinity(6))
    weighted = model.fit(X, sample_weight=times).components_
    repeated = clone(model).fit(np.repeat(X, times, axis=0)).components_
    assert subspace_angles(weighted.T, repeated.T).max() < 1e-6


def test_settings_clone_and_pickle():
    learner = DominantAffinity(7, local_heat=HeatKernel(width=0.5), tol=1e-6)
    again = clone(learner)
    assert (again.n_neighbors, again.local_heat.width, again.tol) == (7, 0.5, 1e-6)
    X = np.random.default_rng(5).standard_normal((30, 3))
    value = pickle.loads(pickle.dumps(learned(pickle.loads(pickle.dumps(learner)), X)))
    np.testing.assert_array_equal(value.weights.toarray(), learned(learner, X).weights.toarray())


def test_learning_leaves_settings_and_rows_alone():
    learner, X = DominantAffinity(3), np.random.default_rng(6).standard_normal((20, 3))
    before, rows = dict(learner.get_params()), X.copy()
    X.setflags(write=False)
    learned(learner, X)
    assert learner.get_params() == before
    np.testing.assert_array_equal(X, rows)
