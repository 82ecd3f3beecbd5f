"""PCAN and CAN: rows, spectrum and alternation against dense versions written from the formulas."""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh
from scipy.sparse import block_diag, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import check_estimator

from adaam.engines import CPUEngine
from adaam.estimators import can
from adaam.estimators.can import (
    CAN,
    PCAN,
    graph_pieces,
    nearest_start,
    neighbors_among_all,
    simplex_rows,
    spectral_vectors,
    spread_rows,
)
from adaam.prepare import Sample

quick = settings(deadline=None, max_examples=25)


# Oracles: dense, one row at a time, full eigendecompositions.


def project_on_simplex(v):
    """Euclidean projection onto the probability simplex by sorting."""
    u = np.sort(v)[::-1]
    excess = (np.cumsum(u) - 1) / np.arange(1, len(v) + 1)
    return np.maximum(v - excess[u > excess][-1], 0)


def dense_start(X, k):
    """S, gamma and the k nearest others of each row."""
    D = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(D, np.inf)
    order = np.argsort(D, axis=1, kind="stable")
    S = np.zeros_like(D)
    gammas = []
    for i, near in enumerate(order):
        d = D[i, near[: k + 1]]
        S[i, near[:k]] = (d[k] - d[:k]) / (k * d[k] - d[:k].sum())
        gammas.append((k * d[k] - d[:k].sum()) / 2)
    return S, np.mean(gammas), order[:, :k]


def dense_laplacian(S):
    A = (S + S.T) / 2
    return A, np.diag(A.sum(axis=1)) - A


def dense_can(X, c, k, *, projected, m=None, max_iter=30):
    """CAN or PCAN with the eigenvalue test and the tolerances of the authors' code; returns the last A."""
    n = len(X)
    S, gamma, near = dense_start(X, k)
    penalty = gamma
    A, L = dense_laplacian(S)
    F = eigh(L)[1][:, :c]
    tolerance = 1e-9 if projected else 1e-11
    for _ in range(max_iter):
        if projected:
            W = eigh(X.T @ L @ X, X.T @ X)[1][:, :m]
            dx = cdist(X @ (W / np.linalg.norm(W, axis=0)), X @ (W / np.linalg.norm(W, axis=0)), "sqeuclidean")
        else:
            dx = cdist(X, X, "sqeuclidean")
        d = dx + penalty * cdist(F, F, "sqeuclidean")
        S = np.zeros((n, n))
        for i in range(n):
            columns = np.arange(n) if projected else near[i]
            S[i, columns] = project_on_simplex(-d[i, columns] / (2 * gamma))
        A, L = dense_laplacian(S)
        values, vectors = eigh(L)
        if values[:c].sum() > tolerance:
            penalty *= 2
            F = vectors[:, :c]
        elif values[: c + 1].sum() < 1e-11:
            penalty /= 2
        else:
            break
    return A


def sample_of(X):
    X = X - X.mean(axis=0)
    return Sample(X, np.ones(len(X)), CPUEngine())


def blobs(n=90, d=4, c=3, std=1.0, seed=0, box=10.0):
    return make_blobs(n, d, centers=c, cluster_std=std, random_state=seed, center_box=(-box, box))


# Rows.


def test_hand_worked_row():
    """d = 1, 2, 4 with k = 2: s = (4-1, 4-2) / (2*4 - 3) = 3/5, 2/5 and gamma = 5/2."""
    np.testing.assert_allclose(simplex_rows(np.array([[1.0, 2.0, 4.0]]), 2.5), [[0.6, 0.4, 0.0]], atol=1e-15)
    np.testing.assert_allclose(simplex_rows(np.array([[1.0, 2.0]]), np.array([[2.5]])), [[0.6, 0.4]], atol=1e-15)


@pytest.mark.parametrize("k", [2, 5, 11])
def test_start_is_the_graph_of_k_neighbours_with_its_mean_gamma(k):
    X = np.random.default_rng(k).normal(size=(13, 3))
    S, gamma, near = dense_start(X, k)
    start = nearest_start(sample_of(X), k)
    np.testing.assert_array_equal(start.indices, near)
    np.testing.assert_allclose(start.weights.toarray(), (S + S.T) / 2, atol=1e-12)
    assert start.gamma == pytest.approx(gamma)


def test_row_whose_nearest_are_all_equally_far_is_uniform():
    start = nearest_start(sample_of(np.eye(4)), 2)
    assert start.gamma == pytest.approx(0, abs=1e-15)
    np.testing.assert_allclose(start.weights.sum(), 4.0)
    np.testing.assert_array_equal(simplex_rows(np.array([[0.0, 0.0], [3.0, 3.0]]), np.zeros((2, 1))), 0.5)


@quick
@given(
    distances=st.lists(st.floats(0, 100), min_size=1, max_size=12),
    gamma=st.floats(1e-3, 1e3),
)
def test_row_is_the_projection_onto_the_simplex(distances, gamma):
    d = np.sort(distances)
    row = simplex_rows(d[None, :], gamma)[0]
    np.testing.assert_allclose(row, project_on_simplex(-d / (2 * gamma)), atol=1e-9)
    assert row.min() >= 0
    assert row.sum() == pytest.approx(1)


@pytest.mark.parametrize("gamma", [0.0, 1e-300, 1e-20])
def test_row_without_spread_goes_to_the_nearest(gamma):
    np.testing.assert_allclose(simplex_rows(np.array([[5.0, 5.0, 7.0]]), gamma), [[0.5, 0.5, 0.0]])


@quick
@given(
    n=st.integers(1, 60), gamma=st.sampled_from([1e-3, 0.1, 3.0, 1e4]), seed=st.integers(0, 99), first=st.integers(1, 9)
)
def test_rows_over_all_columns_are_exact_however_few_candidates_are_tried_first(n, gamma, seed, first):
    Y = np.random.default_rng(seed).normal(size=(n, 3))
    S = neighbors_among_all(Y, gamma, n_candidates=first).toarray()
    D = cdist(Y, Y, "sqeuclidean")
    expected = np.array([project_on_simplex(-d / (2 * gamma)) for d in D])
    np.testing.assert_allclose(S, expected, atol=1e-9)
    np.testing.assert_allclose(S.sum(axis=1), 1.0)


def test_rows_do_not_depend_on_the_block_size(monkeypatch):
    Y = np.random.default_rng(0).normal(size=(100, 5))
    whole = neighbors_among_all(Y, 1.0)
    monkeypatch.setattr(can, "BLOCK_BYTES", 8 * 100 * 7)
    np.testing.assert_allclose(neighbors_among_all(Y, 1.0).toarray(), whole.toarray(), atol=1e-12)


def test_coincident_rows_share_equally_when_gamma_is_zero():
    Y = np.repeat([[1e3, 0.1], [1e3, 0.7], [-5.0, 0.3]], [3, 2, 1], axis=0)
    expected = np.zeros((6, 6))
    expected[:3, :3], expected[3:5, 3:5], expected[5, 5] = 1 / 3, 1 / 2, 1.0
    np.testing.assert_allclose(neighbors_among_all(Y, 0.0, n_candidates=1).toarray(), expected)


def test_rows_over_given_candidates_leave_out_all_others():
    candidates = np.array([[1, 2], [2, 0], [1, 0]])
    graph, is_full = spread_rows(candidates, np.array([[4.0, 1.0], [1.0, 9.0], [2.0, 2.0]]), 1.0, 3)
    # Row 0: d = 1, 4 and reach (2 + 1) / 1 = 3 < 4, so the nearer one takes all; row 2: equal shares.
    np.testing.assert_allclose(graph.toarray(), [[0, 0, 1], [0, 0, 1], [0.5, 0.5, 0]])
    np.testing.assert_array_equal(is_full, [False, False, True])


# Spectrum.


def random_graph(n, seed, density=0.1):
    rng = np.random.default_rng(seed)
    A = csr_array(np.where(rng.random((n, n)) < density, rng.random((n, n)), 0.0))
    return csr_array((A + A.T) / 2)


@pytest.mark.parametrize("n", [5, 40, 300])
@pytest.mark.parametrize("n_blocks", [1, 2, 4])
def test_spectral_vectors_agree_with_the_dense_ones(n, n_blocks):
    A = csr_array(block_diag([random_graph(n, seed, max(0.1, 3 / n)) for seed in range(n_blocks)]))
    D = np.diag(A.sum(axis=1)) - A.toarray()
    values = eigh(D)[0]
    found = spectral_vectors(A, 5)
    np.testing.assert_allclose(found.T @ found, np.eye(5), atol=1e-8)
    np.testing.assert_allclose(D @ found, found * values[:5], atol=1e-6)


def test_laplacian_vectors_of_a_graph_without_edges_are_single_rows():
    np.testing.assert_array_equal(spectral_vectors(csr_array((6, 6)), 3), np.eye(6)[:, :3])


def test_laplacian_vectors_of_too_many_pieces_are_those_of_the_largest():
    A = csr_array(block_diag([np.ones((size, size)) for size in (2, 5, 3)]))
    found = spectral_vectors(A, 2)
    np.testing.assert_allclose(found[:, 0], np.repeat([0, 5**-0.5, 0], [2, 5, 3]))
    np.testing.assert_allclose(found[:, 1], np.repeat([0, 0, 3**-0.5], [2, 5, 3]))


def test_pieces_are_numbered_in_order_of_appearance():
    edges = np.zeros((5, 5))
    edges[0, 3] = edges[3, 0] = edges[1, 4] = edges[4, 1] = 1
    np.testing.assert_array_equal(graph_pieces(csr_array(edges)), [0, 1, 2, 0, 1])


# Alternation.


@pytest.mark.parametrize("std", [1.0, 2.5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_can_agrees_with_the_dense_version(std, seed):
    X, _ = blobs(std=std, seed=seed)
    model = CAN(3, n_neighbors=10).fit(X)
    expected = dense_can(X - X.mean(axis=0), 3, 10, projected=False)
    np.testing.assert_allclose(model.affinity_matrix_.toarray(), expected, atol=1e-7)
    assert model.labels_.max() == 2


@pytest.mark.parametrize("std", [1.0, 2.5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pcan_agrees_with_the_dense_version(std, seed):
    X, _ = blobs(std=std, seed=seed, d=6)
    model = PCAN(3, n_components=2, n_neighbors=10).fit(X)
    expected = dense_can(X - X.mean(axis=0), 3, 10, projected=True, m=2)
    np.testing.assert_allclose(model.affinity_matrix_.toarray(), expected, atol=1e-7)
    assert model.labels_.max() == 2


def objective(dx, S, F, gamma, penalty):
    _, L = dense_laplacian(S)
    return (dx * S).sum() + gamma * (S**2).sum() + 2 * penalty * np.trace(F.T @ L @ F)


@quick
@given(seed=st.integers(0, 99), penalty=st.sampled_from([0.1, 1.0, 10.0]), c=st.integers(1, 4))
def test_objective_does_not_rise_while_lambda_stays(seed, penalty, c):
    X = np.random.default_rng(seed).normal(size=(40, 3))
    dx = cdist(X, X, "sqeuclidean")
    S, gamma, _ = dense_start(X, 5)
    F = spectral_vectors(csr_array((S + S.T) / 2), c)
    costs = [objective(dx, S, F, gamma, penalty)]
    for _ in range(4):
        S = neighbors_among_all(np.hstack([X, np.sqrt(penalty) * F]), gamma).toarray()
        costs.append(objective(dx, S, F, gamma, penalty))
        F = spectral_vectors(csr_array((S + S.T) / 2), c)
        costs.append(objective(dx, S, F, gamma, penalty))
    assert np.all(np.diff(costs) <= 1e-8 * costs[0])


def test_projection_minimises_the_roughness_of_the_learned_graph():
    X, _ = blobs(d=6, std=2.0)
    model = PCAN(3, n_components=2, n_neighbors=10).fit(X)
    Xc = X - X.mean(axis=0)
    _, L = dense_laplacian(model.affinity_matrix_.toarray())
    values = eigh(Xc.T @ L @ Xc, Xc.T @ Xc)[0]
    np.testing.assert_allclose(model.eigenvalues_, values[:2], atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1.0)


# Estimators.


@pytest.mark.parametrize("make", [CAN, PCAN])
@pytest.mark.parametrize("c", [2, 5])
def test_separable_clusters_are_found(make, c):
    X, y = blobs(120, 6, c, std=0.8, seed=3, box=20.0)
    model = make(c, n_neighbors=8).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1.0
    n_pieces, _ = connected_components(model.affinity_matrix_, directed=False)
    assert n_pieces == c
    assert 1 <= model.n_iter_ <= 30


@pytest.mark.parametrize("make", [CAN, PCAN])
def test_learned_graph_is_symmetric_and_non_negative_with_total_n(make):
    X, _ = blobs(std=2.0)
    A = make(3).fit(X).affinity_matrix_
    assert abs(A - A.T).max() == 0
    assert A.min() >= 0
    assert A.sum() == pytest.approx(len(X))


@pytest.mark.parametrize("make", [CAN, PCAN])
@quick
@given(seed=st.integers(0, 99))
def test_order_of_rows_leaves_the_partition_unchanged(make, seed):
    X, _ = blobs(60, std=1.5, seed=1)
    order = np.random.default_rng(seed).permutation(60)
    labels, shuffled = make(3).fit_predict(X), make(3).fit_predict(X[order])
    assert adjusted_rand_score(labels[order], shuffled) == 1.0


def test_pcan_predicts_its_own_labels_and_those_of_rows_nearby():
    X, _ = blobs(d=5)
    model = PCAN(3).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.predict(X + 1e-3), model.labels_)
    np.testing.assert_allclose(model.embedding_, model.transform(X))


def test_pcan_on_fewer_rows_than_features():
    X, y = make_blobs(40, 100, centers=4, random_state=1)
    assert adjusted_rand_score(y, PCAN(4, n_neighbors=5).fit_predict(X)) == 1.0


def test_constant_and_repeated_features_leave_the_partition_unchanged():
    X, _ = blobs(d=4, std=2.0)
    wide = np.hstack([X, np.ones((len(X), 2))])
    np.testing.assert_array_equal(PCAN(3).fit_predict(wide), PCAN(3).fit_predict(X))


@pytest.mark.parametrize("make", [CAN, PCAN])
def test_rows_that_are_all_copies_of_few_points(make):
    X = np.repeat([[0.0, 0.0], [5.0, 1.0], [9.0, -3.0]], [30, 20, 25], axis=0)
    labels = make(3, n_neighbors=5).fit_predict(X)
    np.testing.assert_array_equal(labels, np.repeat([0, 1, 2], [30, 20, 25]))


def test_two_rows_are_two_clusters():
    np.testing.assert_array_equal(PCAN(2).fit_predict([[0.0, 1.0], [2.0, 5.0]]), [0, 1])


def test_two_rows_stay_linked_where_rows_cannot_keep_to_themselves():
    with pytest.warns(ConvergenceWarning, match="has 1 connected components"):
        np.testing.assert_array_equal(CAN(2).fit_predict([[0.0, 1.0], [2.0, 5.0]]), [0, 0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", [CAN, PCAN])
@quick
@given(n=st.integers(3, 9), c=st.integers(1, 3), seed=st.integers(0, 99), grid=st.booleans())
def test_few_rows_give_finite_results(make, n, c, seed, grid):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    X = np.vstack([np.round(X) if grid else X, [[9.0, 9.0]]])
    model = make(c).fit(X)
    assert np.isfinite(model.affinity_matrix_.data).all()
    assert len(model.labels_) == n + 1
    if make is PCAN:
        assert np.isfinite(model.components_).all()


@pytest.mark.parametrize("make", [CAN, PCAN])
def test_graph_of_too_many_pieces_from_the_start_says_so(make):
    X, y = blobs(100, 3, 4, std=0.01, seed=0)
    with pytest.warns(ConvergenceWarning, match="not n_clusters=2"):
        model = make(2, n_neighbors=5).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1.0


@pytest.mark.parametrize("make", [CAN, PCAN])
def test_more_clusters_than_rows_are_refused(make):
    with pytest.raises(ValueError, match=r"n_clusters=8 exceeds n_samples=5\. Use n_clusters <= 5"):
        make(8).fit(np.eye(5))


@pytest.mark.parametrize("make", [CAN, PCAN])
def test_too_many_neighbors_are_refused(make):
    with pytest.raises(ValueError, match="n_neighbors=10 needs more than 10 samples"):
        make(2, n_neighbors=10).fit(np.eye(10))


@pytest.mark.parametrize("make", [CAN, PCAN])
def test_iterations_are_told_only_when_asked(make, caplog):
    X, _ = blobs()
    with caplog.at_level(logging.INFO, logger="adaam"):
        make(3).fit(X)
        assert not caplog.records
        model = make(3, verbose=1).fit(X)
    assert len(caplog.records) == model.n_iter_
    assert f"{make.__name__} iteration 1: lambda" in caplog.messages[0]
    assert "3 components" in caplog.messages[-1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("make", [CAN, PCAN])
def test_estimator_passes_the_checks_of_scikit_learn(make):
    check_estimator(make())
