import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh

from adaam import linalg
from adaam.estimators.linear_metric import row_signs
from adaam.linalg import range_eigenpairs, whitened_eigenpairs, whitening


def smallest_eigenpairs(A, B, n_pairs, n_samples, *, scale=0.0, eigh=linalg.eigh):
    return whitened_eigenpairs(A, whitening(B, n_samples, eigh), n_pairs, scale=scale, eigh=eigh)


def random_pencil(rng, d, n=200, weights=None):
    X = rng.standard_normal((n, d))
    A = rng.standard_normal((d, d))
    return A + A.T, X.T @ X, X


def test_smallest_eigenpairs_equal_scipys_on_a_regular_pencil(rng):
    A, B, _ = random_pencil(rng, 7)
    values, vectors = smallest_eigenpairs(A, B, 3, 200)
    expected, expected_vectors = eigh(A, B)
    np.testing.assert_allclose(values, expected[:3], rtol=1e-10)
    np.testing.assert_allclose(
        vectors @ vectors.T, expected_vectors[:, :3] @ expected_vectors[:, :3].T, rtol=1e-8, atol=1e-12
    )


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from(["copied", "combination", "constant"]))
def test_a_redundant_feature_leaves_eigenvalues_and_embedding_unchanged(seed, flaw):
    # Plain eigh(A, B) raised in 78 of 120 such clouds and was silently wrong in 18.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 6))
    extra = {"copied": X[:, :1], "combination": X @ rng.standard_normal((6, 1)), "constant": np.zeros((200, 1))}
    wide = np.hstack([X, extra[flaw]])
    weights = rng.uniform(0.1, 1.0, size=200)
    M = np.diag(rng.uniform(0.0, 2.0, size=200))

    def embedding(Z):
        pairs = smallest_eigenpairs(Z.T @ M @ Z, Z.T @ (weights[:, None] * Z), 4, 200)
        return pairs.values, Z @ pairs.vectors

    values, Y = embedding(X)
    wide_values, wide_Y = embedding(wide)
    np.testing.assert_allclose(wide_values, values, rtol=1e-8)
    np.testing.assert_allclose(wide_Y @ wide_Y.T, Y @ Y.T, atol=1e-7)


def test_vectors_are_orthonormal_under_the_bound(rng):
    A, B, _ = random_pencil(rng, 6)
    vectors = smallest_eigenpairs(A, B, 6, 200).vectors
    np.testing.assert_allclose(vectors.T @ B @ vectors, np.eye(6), atol=1e-10)


def test_equal_eigenvalues_are_ordered_by_variance(rng):
    X = rng.standard_normal((300, 5)) * [5, 4, 3, 2, 1]
    B = X.T @ X
    vectors = smallest_eigenpairs(np.zeros((5, 5)), B, 2, 300, scale=1.0).vectors
    leading = eigh(B)[1][:, ::-1][:, :2]
    for j in range(2):
        cosine = abs(vectors[:, j] @ leading[:, j]) / np.linalg.norm(vectors[:, j])
        assert cosine == pytest.approx(1.0, abs=1e-8)


def test_fewer_pairs_come_back_when_the_rank_is_smaller(rng):
    X = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 6))
    assert smallest_eigenpairs(np.eye(6), X.T @ X, 5, 50).vectors.shape == (6, 2)


def test_range_of_zero_is_empty():
    assert len(range_eigenpairs(np.zeros((3, 3)), 10).values) == 0
    assert smallest_eigenpairs(np.eye(3), np.zeros((3, 3)), 2, 10).vectors.shape == (3, 0)


def test_leading_columns_of_a_whitening_give_left_singular_vectors(rng):
    X = rng.standard_normal((60, 8)) * np.arange(1, 9)
    P = X @ whitening(X.T @ X, 60)[:, :3]
    U = np.linalg.svd(X, full_matrices=False)[0][:, :3]
    np.testing.assert_allclose(P @ P.T, U @ U.T, atol=1e-10)


def test_another_solver_is_the_one_that_runs(rng):
    A, B, _ = random_pencil(rng, 5)
    B[0] = B[:, 0] = 0.0  # a direction without variance, so that the range must be computed
    sizes = []

    def noted(M):
        sizes.append(len(M))
        return np.linalg.eigh(M)

    found, expected = smallest_eigenpairs(A, B, 2, 200, eigh=noted), smallest_eigenpairs(A, B, 2, 200)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-10)
    whitening(B, 200, noted)
    assert sizes == [5, 4, 5]


def test_whitening_spans_the_range_and_whitens_it(rng):
    X = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 6))
    W = whitening(X.T @ X, 50)
    np.testing.assert_allclose(W.T @ X.T @ X @ W, np.eye(2), atol=1e-10)


def test_row_signs_make_the_largest_entry_positive():
    components = np.array([[1.0, -3.0], [2.0, 0.5], [0.0, 0.0]])
    np.testing.assert_array_equal(row_signs(components), [-1.0, 1.0, 1.0])


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e7, 1e10, 1e13, np.inf])
def test_whitening_spans_the_range_by_either_way(condition, rng):
    d = 12
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    values = np.geomspace(1.0, 1.0 / condition, d) if np.isfinite(condition) else np.append(np.ones(d - 2), [0.0, 0.0])
    B = Q * values @ Q.T
    by_factor = linalg._cholesky_whitening(B, 100)
    assert (by_factor is None) == (condition > 1e7)
    kept = values > 1e-12
    tolerance = 1e-14 * d / values[kept].min()
    # W W' is the inverse of B on its range, whatever the order of columns.
    expected = Q[:, kept] / values[kept] @ Q[:, kept].T
    scale = np.abs(expected).max()
    for W in [whitening(B, 100)] if by_factor is None else [whitening(B, 100), by_factor]:
        assert W.shape == (d, kept.sum())
        np.testing.assert_allclose(W.T @ B @ W, np.eye(kept.sum()), rtol=0, atol=tolerance)
        np.testing.assert_allclose(W @ W.T / scale, expected / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("apart", [[], [0], [1, 4], [0, 1, 2, 3, 4, 5]])
def test_rows_that_are_coupled_to_no_other_have_pairs_of_their_own(apart, rng):
    A = rng.standard_normal((6, 6))
    A = A + A.T
    A[apart] = 0.0
    A[:, apart] = 0.0
    A[apart, apart] = np.arange(len(apart)) - 1.0
    values, vectors = linalg.eigh(A)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A), atol=1e-12)
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, A, atol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=1e-12)


def test_degrees_that_are_positive_are_whitened_as_they_are(rng):
    def never(*_):
        raise AssertionError("B is far from singular, so that no eigenproblem is needed")

    X = rng.standard_normal((50, 6))
    W, raised = linalg.degree_whitening(X.T @ X, never, 50, never)
    assert raised is None
    np.testing.assert_allclose(W.T @ X.T @ X @ W, np.eye(6), atol=1e-13)


def test_directions_of_negative_or_no_degree_are_raised_and_kept(rng):
    # Degrees -3, 0, 1, 2 by direction, even ones of 2. Eigenvalues of the raised pencil are (l + R) / (b + R).
    Q = rng.standard_normal((4, 4))
    even, degrees = 2.0, np.array([-3.0, 0.0, 1.0, 2.0])
    B, E = Q.T @ np.diag(degrees) @ Q, even * Q.T @ Q
    W, raised = linalg.degree_whitening(B, lambda: E, 100)
    least = even * linalg.LEAST_DEGREE
    expected = Q.T @ np.diag(np.maximum(least - degrees, 0.0)) @ Q
    np.testing.assert_allclose(raised, expected, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(W.T @ (B + raised) @ W, np.eye(4), atol=1e-6)
    # A direction without degree and links has eigenvalue 1.
    projection = linalg.degree_projection(Q.T @ np.diag([-5.0, 0.0, 0.5, 1.0]) @ Q, B, 4, 100, lambda: E)
    np.testing.assert_allclose(projection.eigenvalues, [-5.0 / least + 3.0 / least + 1.0, 0.5, 0.5, 1.0], rtol=1e-5)


def test_an_affinity_without_degrees_is_refused():
    with pytest.raises(ValueError, match="no positive sum"):
        linalg.degree_whitening(np.zeros((3, 3)), lambda: np.zeros((3, 3)), 10)
