import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_digits

from adaam import LPP, DisconnectedGraphWarning, HeatKernel, KNNAffinity
from adaam.affinity.consensus import ConsensusAffinity, ballots_of, budget_votes
from adaam.engines import CPUEngine
from adaam.graph import given_graph, neighbor_graph
from adaam.prepare import Sample
from oracles import heat_weights, neighbors

quiet = pytest.mark.filterwarnings("ignore::adaam.graph.DisconnectedGraphWarning")


def sample_of(X, weights=None):
    X = np.asarray(X, dtype=np.float64)
    return Sample(X, np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64), CPUEngine())


def learned(learner, X, weights=None):
    sample = sample_of(X, weights)
    return learner.learn(sample, lambda k: neighbor_graph(sample, k)).weights.toarray()


def votes(X, k):
    """Dense C: for every i and every pair p != q of S_i, one vote."""
    indices, _ = neighbors(X, k)
    C = np.zeros((len(X), len(X)))
    for i, near in enumerate(indices):
        members = [i, *near]
        for p in members:
            for q in members:
                C[p, q] += p != q
    return C


def consensus(X, k, needed, *, factor=10.0):
    """Dense affinity: heat weights on pairs with enough votes, nearest neighbour for a row that has none."""
    indices, distances = neighbors(X, k)
    W = np.exp(-cdist(X, X) / (factor * distances.mean()))
    kept = votes(X, k) >= needed
    np.fill_diagonal(kept, False)
    kept |= kept.T
    for i in np.flatnonzero(~kept.any(axis=1)):
        kept[i, indices[i, 0]] = kept[indices[i, 0], i] = True
    return np.where(kept, W, 0.0)


def counted_budget(X, k):
    C = votes(X, k)
    target = np.count_nonzero(heat_weights(X, k))
    choices = sorted(set(C[C > 0]), reverse=True)
    return min(choices, key=lambda tau: abs(np.count_nonzero(tau <= C) - target))


clouds = st.tuples(st.integers(0, 10_000), st.integers(6, 40), st.integers(1, 5), st.integers(1, 4)).map(
    lambda p: (np.random.default_rng(p[0]).standard_normal((p[1], p[2])), p[3])
)


def test_hand_worked_example_on_a_line():
    """Four points at 0, 1, 3, 7 with k = 2: S = {0,1,2}, {1,0,2}, {2,1,0}, {3,2,1}."""
    X = np.array([[0.0], [1.0], [3.0], [7.0]])
    C = np.array([[0, 3, 3, 0], [3, 0, 4, 1], [3, 4, 0, 1], [0, 1, 1, 0]])
    graph = neighbor_graph(sample_of(X), 2)
    ballots = ballots_of(graph, np.ones(4))
    np.testing.assert_array_equal(ballots.votes(slice(0, 4)).toarray(), C)
    np.testing.assert_array_equal(ballots.cast(), C.sum(axis=1))

    # Neighbour distances 1 3, 1 2, 2 3, 4 6 have mean 22 / 8. Two votes drop both edges of the last point, whose
    # nearest neighbour, at distance 4, is then kept.
    t = 10 * 22 / 8
    a, b, c, e = np.exp(-1 / t), np.exp(-3 / t), np.exp(-2 / t), np.exp(-4 / t)
    expected = np.array([[0, a, b, 0], [a, 0, c, 0], [b, c, 0, e], [0, 0, e, 0]])
    np.testing.assert_allclose(learned(ConsensusAffinity(2, threshold=2), X), expected, rtol=1e-14)


@pytest.mark.parametrize("threshold", [1, 2, 3, 5])
@given(clouds)
@settings(deadline=None, max_examples=20)
def test_counted_threshold_equals_the_dense_formula(threshold, cloud):
    X, k = cloud
    np.testing.assert_allclose(
        learned(ConsensusAffinity(k, threshold=threshold), X), consensus(X, k, threshold), rtol=1e-12
    )


@given(clouds, st.floats(0.01, 0.4))
@settings(deadline=None, max_examples=25)
def test_share_threshold_is_on_row_normalised_votes(cloud, share):
    X, k = cloud
    needed = share * votes(X, k).sum(axis=1, keepdims=True) * (1 - 1e-9)
    np.testing.assert_allclose(learned(ConsensusAffinity(k, threshold=share), X), consensus(X, k, needed), rtol=1e-12)


@given(clouds)
@settings(deadline=None, max_examples=25)
def test_budget_is_the_threshold_nearest_in_edges_to_the_neighbour_graph(cloud):
    X, k = cloud
    graph = neighbor_graph(sample_of(X), k)
    tau = budget_votes(ballots_of(graph, np.ones(len(X))), graph)
    assert tau == counted_budget(X, k)
    np.testing.assert_allclose(learned(ConsensusAffinity(k), X), consensus(X, k, tau), rtol=1e-12)


@given(st.integers(0, 10_000), st.integers(6, 25), st.sampled_from([2, 3, "budget"]))
@settings(deadline=None, max_examples=25)
def test_weights_equal_repeated_rows_of_the_dense_formula(seed, n, threshold):
    """Every row twice and k = 5: one place for the copy and two for each of two rows, so that no place is shared."""
    X = np.random.default_rng(seed).standard_normal((n, 3))
    repeated = np.repeat(X, 2, axis=0)
    tau = counted_budget(repeated, 5) if threshold == "budget" else threshold
    dense = consensus(repeated, 5, tau)
    by_row = np.repeat(np.eye(n), 2, axis=1)
    np.testing.assert_allclose(
        learned(ConsensusAffinity(5, threshold=threshold), X, np.full(n, 2.0)), by_row @ dense @ by_row.T, rtol=1e-12
    )


coarse_rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0.25, 4.0)), min_size=3, max_size=20)


@given(coarse_rows, st.integers(1, 6), st.sampled_from(["budget", 1, 2, 4, 0.1, 0.5]), st.randoms())
@settings(deadline=None, max_examples=60)
def test_ties_copies_and_fractional_weights_keep_all_promises(rows, k, threshold, random):
    """Symmetric, in [0, w_i w_j], no row without an edge, and no dependence on the order of rows."""
    X, weights = np.array([row[:2] for row in rows], dtype=float), np.array([row[2] for row in rows])
    A = learned(ConsensusAffinity(k, threshold=threshold), X, weights)
    np.testing.assert_array_equal(A, A.T)
    off = A - np.diag(np.diag(A))
    assert np.isfinite(A).all()
    assert (off >= 0).all()
    assert (off <= np.outer(weights, weights) * (1 + 1e-12)).all()
    assert (A.sum(axis=1) > 0).all()
    assert (np.diag(A)[weights <= 1] == 0).all()
    order = np.array(random.sample(range(len(X)), len(X)))
    permuted = learned(ConsensusAffinity(k, threshold=threshold), X[order], weights[order])
    np.testing.assert_allclose(permuted, A[np.ix_(order, order)], atol=1e-9)


def test_blocks_of_rows_do_not_change_the_result(monkeypatch):
    X = np.random.default_rng(0).standard_normal((100, 3))
    whole = {t: learned(ConsensusAffinity(4, threshold=t), X) for t in (2, "budget", 0.1)}
    monkeypatch.setattr("adaam.affinity.consensus.BLOCK_BYTES", 1)
    monkeypatch.setattr("adaam.affinity.heat.BLOCK_BYTES", 1)
    for threshold, expected in whole.items():
        np.testing.assert_array_equal(learned(ConsensusAffinity(4, threshold=threshold), X), expected)


def test_infinite_width_weighs_every_edge_one():
    X = np.random.default_rng(2).standard_normal((30, 2))
    A = learned(ConsensusAffinity(3, heat=HeatKernel(width=np.inf)), X)
    assert set(np.unique(A)) == {0.0, 1.0}


def test_coincident_prepared_rows_are_linked_with_weight_one():
    X = np.repeat(np.random.default_rng(3).standard_normal((4, 2)), 4, axis=0)
    A = learned(ConsensusAffinity(3), X)
    np.testing.assert_array_equal(A, np.kron(np.eye(4), np.ones((4, 4)) - np.eye(4)))


def test_row_without_neighbours_in_a_given_graph_stays_without_edges():
    indices, distances = np.array([[1], [0], [2]]), np.array([[1.0], [1.0], [0.0]])
    sample = sample_of([[0.0], [1.0], [5.0]])
    A = ConsensusAffinity(1).learn(sample, lambda k: given_graph((indices, distances), 3, k)).weights.toarray()
    assert A[0, 1] == A[1, 0] > 0
    assert np.count_nonzero(A) == 2


@pytest.mark.parametrize(
    ("learner", "error", "text"),
    [
        (ConsensusAffinity(0), ValueError, "n_neighbors=0"),
        (ConsensusAffinity(threshold="most"), ValueError, "threshold='most'"),
        (ConsensusAffinity(threshold=0), ValueError, "threshold=0"),
        (ConsensusAffinity(threshold=2.5), ValueError, "whole number such as 2"),
        (ConsensusAffinity(threshold=True), TypeError, "threshold=True"),
        (ConsensusAffinity(heat="wide"), TypeError, "heat='wide'"),
        (ConsensusAffinity(heat=HeatKernel(rule="median")), ValueError, "rule='median'"),
    ],
)
def test_messages_name_the_parameter(learner, error, text):
    with pytest.raises(error, match=text):
        learned(learner, np.eye(6))


@quiet
@pytest.mark.parametrize("preparation", ["unit", "linear", "center"])
def test_lpp_end_to_end_on_digits(preparation):
    X = load_digits().data[:300]
    model = LPP(5, affinity=ConsensusAffinity(5), preparation=preparation).fit(X)
    assert model.components_.shape == (5, 64)
    assert np.isfinite(model.components_).all()
    assert ((model.eigenvalues_ >= -1e-9) & (model.eigenvalues_ <= 2 + 1e-9)).all()


@quiet
def test_repeated_rows_give_the_map_of_weighted_rows():
    X = load_digits().data[:120]
    times = np.random.default_rng(0).integers(1, 4, len(X))
    model = LPP(4, affinity=ConsensusAffinity(6))
    weighted = model.fit(X, sample_weight=times).components_
    repeated = clone(model).fit(np.repeat(X, times, axis=0)).components_
    assert subspace_angles(weighted.T, repeated.T).max() < 1e-6


def test_a_graph_in_pieces_is_told_and_gives_a_finite_map():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.standard_normal((20, 3)), rng.standard_normal((20, 3)) + 100])
    with pytest.warns(DisconnectedGraphWarning):
        model = LPP(2, affinity=ConsensusAffinity(3)).fit(X)
    assert np.isfinite(model.components_).all()


def test_settings_clone_and_pickle():
    learner = ConsensusAffinity(7, threshold=2, heat=HeatKernel(width=3.0))
    assert clone(learner).get_params() | {"heat": None} == learner.get_params() | {"heat": None}
    X = np.random.default_rng(5).standard_normal((30, 3))
    again = pickle.loads(pickle.dumps(learner))
    np.testing.assert_array_equal(learned(again, X), learned(learner, X))
    assert repr(KNNAffinity()) != repr(learner)


def test_learning_leaves_settings_and_rows_alone():
    learner, X = ConsensusAffinity(3), np.random.default_rng(6).standard_normal((20, 3))
    before, rows = dict(learner.get_params()), X.copy()
    X.setflags(write=False)
    learned(learner, X)
    assert learner.get_params() == before
    np.testing.assert_array_equal(X, rows)
