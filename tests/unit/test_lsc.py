"""Landmark spectral clustering against a dense version written from the formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles, svd
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.datasets import make_blobs, make_circles
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import check_estimator

from adaam.estimators import lsc as lsc_module
from adaam.estimators.lsc import LSC, chosen_landmarks, landmark_directions, landmark_weights, mean_distance


def dense_weights(X, U, r, h):
    """z_ij = K(x_i, u_j) over the r nearest landmarks, normalized to sum to 1."""
    D = cdist(X, U, "sqeuclidean")
    Z = np.zeros_like(D)
    for i, d in enumerate(D):
        near = np.argsort(d, kind="stable")[:r]
        Z[i, near] = np.exp(-d[near] / (2 * h**2))
    return Z / Z.sum(axis=1, keepdims=True)


def dense_vectors(Z, m):
    """Left singular vectors 2..m+1 of Z S^(-1/2)."""
    U, _, _ = svd(Z / np.sqrt(Z.sum(axis=0)), full_matrices=False)
    return U[:, 1 : m + 1]


@settings(deadline=None, max_examples=25)
@given(n=st.integers(6, 60), p=st.integers(1, 8), r=st.integers(1, 6), h=st.floats(0.3, 10), seed=st.integers(0, 99))
def test_weights_agree_with_the_dense_version_and_sum_to_one(n, p, r, h, seed):
    rng = np.random.default_rng(seed)
    X, U = rng.normal(size=(n, 3)), rng.normal(size=(p, 3))
    Z = landmark_weights(X, U, r, h).toarray()
    np.testing.assert_allclose(Z, dense_weights(X, U, r, h), atol=1e-9)
    np.testing.assert_allclose(Z.sum(axis=1), 1.0)
    assert (np.count_nonzero(Z, axis=1) <= min(r, p)).all()


def test_hand_worked_weights():
    """Landmarks at 0 and 2, a row at 0.5: squared distances 0.25 and 2.25, h = 1, odds exp(1)."""
    Z = landmark_weights(np.array([[0.5]]), np.array([[0.0], [2.0]]), 2, 1.0).toarray()
    np.testing.assert_allclose(Z, [[np.e / (1 + np.e), 1 / (1 + np.e)]])


def test_a_row_far_from_all_landmarks_still_has_weights():
    Z = landmark_weights(np.array([[1e6]]), np.array([[0.0], [1.0]]), 2, 1e-3).toarray()
    np.testing.assert_array_equal(Z, [[0.0, 1.0]])


def test_a_bandwidth_of_zero_leaves_the_nearest_landmarks():
    Z = landmark_weights(np.array([[0.0], [1.0]]), np.array([[0.0], [2.0]]), 2, 0.0).toarray()
    np.testing.assert_array_equal(Z, [[1.0, 0.0], [0.5, 0.5]])


@pytest.mark.parametrize("m", [1, 3])
def test_embedding_spans_the_dense_singular_vectors(m, rng):
    X = rng.normal(size=(200, 3))
    U = X[:20]
    Z = landmark_weights(X, U, 4, 1.0)
    embedding = Z @ landmark_directions(Z, m)
    np.testing.assert_allclose(embedding.T @ embedding, np.eye(m), atol=1e-8)
    assert subspace_angles(embedding, dense_vectors(Z.toarray(), m)).max() < 1e-7


def test_constant_vector_is_left_out_of_a_graph_in_pieces():
    X = np.concatenate([np.linspace(0, 1, 30), np.linspace(50, 51, 20)])[:, None]
    Z = landmark_weights(X, X[[0, 10, 29, 35, 49]], 2, 1.0)
    vector = (Z @ landmark_directions(Z, 1)).ravel()
    # Two pieces and no constant: one value on each, orthogonal to the constant.
    np.testing.assert_allclose(vector[:30], vector[0], atol=1e-9)
    np.testing.assert_allclose(vector[30:], vector[30], atol=1e-9)
    assert abs(vector.sum()) < 1e-8


def test_mean_distance_and_weights_do_not_depend_on_blocks(monkeypatch, rng):
    X, U = rng.normal(size=(100, 4)), rng.normal(size=(7, 4))
    whole = landmark_weights(X, U, 3, 1.0).toarray()
    monkeypatch.setattr(lsc_module, "BLOCK_BYTES", 8 * 7 * 16)
    np.testing.assert_allclose(landmark_weights(X, U, 3, 1.0).toarray(), whole, atol=1e-12)
    assert mean_distance(X, U, squared=False) == pytest.approx(cdist(X, U).mean())
    assert mean_distance(X, U, squared=True) == pytest.approx(cdist(X, U, "sqeuclidean").mean())


@pytest.mark.parametrize("settled", [True, False])
def test_landmarks_are_distinct_however_many_copies_rows_have(settled):
    X = np.repeat(np.arange(6.0)[:, None], 10, axis=0)
    for n_landmarks, expected in ((4, 4), (6, 6), (50, 6)):
        U = chosen_landmarks(X, n_landmarks, np.random.default_rng(0), settled=settled)
        assert len(np.unique(U, axis=0)) == len(U) == expected


@pytest.mark.parametrize("landmarks", ["kmeans", "random"])
@pytest.mark.parametrize("bandwidth", ["mean", "mean-squared", 0.1])
def test_rings_are_told_apart(landmarks, bandwidth):
    X, y = make_circles(400, factor=0.3, random_state=0)
    model = LSC(2, n_landmarks=80, n_nearest=3, landmarks=landmarks, bandwidth=bandwidth).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1.0
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_new_rows_join_the_cluster_they_lie_in():
    X, y = make_blobs(300, 5, centers=4, random_state=0)
    model = LSC(4, n_landmarks=50).fit(X[:200])
    assert adjusted_rand_score(y[200:], model.predict(X[200:])) == 1.0


def test_sparse_rows_give_the_labels_of_dense_ones():
    X, _ = make_blobs(120, 6, centers=3, random_state=0)
    X[X < 0] = 0
    dense = LSC(3, n_landmarks=30).fit(X)
    sparse = LSC(3, n_landmarks=30).fit(csr_array(X))
    assert adjusted_rand_score(dense.labels_, sparse.labels_) == 1.0


def test_seed_makes_the_fit_repeatable():
    X, _ = make_blobs(200, 3, centers=5, cluster_std=4, random_state=0)
    first, again = (LSC(5, n_landmarks=20, random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, again.labels_)
    np.testing.assert_array_equal(first.landmarks_, again.landmarks_)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_clusters": 9}, "n_clusters=9 exceeds n_samples=8"),
        ({"landmarks": "grid"}, "landmarks='grid' is not known"),
        ({"bandwidth": "median"}, "bandwidth='median' is not known"),
        ({"bandwidth": 0.0}, "bandwidth=0.0 is out of range"),
        ({"n_nearest": 0}, "n_nearest=0 is too small"),
    ],
)
def test_wrong_settings_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        LSC(**{"n_clusters": 2} | wrong).fit(np.eye(8))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:Number of distinct clusters:sklearn.exceptions.ConvergenceWarning")
def test_estimator_passes_the_checks_of_scikit_learn():
    check_estimator(LSC())
