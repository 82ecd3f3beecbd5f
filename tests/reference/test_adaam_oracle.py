"""The whole method against the dense oracle."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.datasets import load_digits, make_blobs

import oracles
from adaam import LPP, AdaAM, AdaptiveAffinity, HeatKernel, KNNAffinity, Preparation

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")

DIGITS = load_digits().data[:400]


def assert_same_map(model, expected, rows, mean, *, scaled):
    """Assert equal spaces and equal distances."""
    _, components, _ = expected
    # A margin of a thousand over what is measured (below 1e-9).
    assert subspace_angles(model.components_.T, components.T).max() < 1e-6
    Z = model.transform(rows)
    scaled_rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) if scaled else rows
    Y = (scaled_rows - mean) @ components.T
    np.testing.assert_allclose(Z @ Z.T, Y @ Y.T, atol=1e-6 * np.abs(Y @ Y.T).max())


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {}),
        ({"n_iter": 3}, {}),
        ({"n_neighbors": 9}, {}),
        ({"n_components": 4}, {}),
        ({}, {"alphas": (4.0, 2.0)}),
        ({}, {"rank": 2.0, "projection_rank": 3.0}),
        ({}, {"diagonal": "drop"}),
        ({}, {"constraint": "degrees"}),
        ({}, {"heat": HeatKernel(width=2.0)}),
    ],
    ids=str,
)
def test_every_setting_equals_the_oracle(options, settings):
    oracle_options = {key: value for key, value in settings.items() if key != "heat"}
    if "heat" in settings:
        oracle_options["factor"] = settings["heat"].width
    expected = oracles.adaam(
        DIGITS,
        10,
        k=options.get("n_neighbors"),
        m=options.get("n_components"),
        n_iter=options.get("n_iter", 1),
        **oracle_options,
    )
    model = AdaAM(10, **options, affinity=AdaptiveAffinity(**settings)).fit(DIGITS)
    assert_same_map(model, expected, DIGITS, expected[2], scaled=True)
    np.testing.assert_allclose(model.eigenvalues_, expected[0], atol=1e-9)


def test_linear_preparation_equals_the_oracle():
    expected = oracles.adaam(DIGITS, 10, preparation="linear")
    model = AdaAM(10, preparation="linear").fit(DIGITS)
    assert_same_map(model, expected, DIGITS, expected[2], scaled=False)


def test_linear_preparation_is_linear_in_the_input():
    model = AdaAM(10, preparation="linear").fit(DIGITS)
    a, b = DIGITS[:5], DIGITS[5:10]
    origin = model.transform(np.zeros((1, 64)))
    both = model.transform(2 * a - b) - origin
    np.testing.assert_allclose(both, 2 * (model.transform(a) - origin) - (model.transform(b) - origin), atol=1e-10)


@pytest.mark.parametrize("scaling", ["unit", "orthonormal"])
def test_lpp_equals_the_oracle(scaling):
    X = make_blobs(80, n_features=5, centers=4, random_state=3)[0]
    Z, mean, basis = oracles.prepare(X, row_scaling="none", variance=1.0)
    values, vectors = oracles.lpp(Z, oracles.heat_weights(Z, 6), 3, scaling=scaling)
    model = LPP(3, affinity=KNNAffinity(n_neighbors=6), scaling=scaling).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, values, atol=1e-10)
    Y = (X - mean) @ basis @ vectors
    np.testing.assert_allclose(model.transform(X) @ model.transform(X).T, Y @ Y.T, atol=1e-8 * np.abs(Y @ Y.T).max())


def test_orthonormal_columns_are_orthonormal_under_the_degrees(rng):
    X = rng.standard_normal((50, 4))
    W = oracles.heat_weights(X - X.mean(axis=0), 5)
    Y = LPP(3, scaling="orthonormal").fit_transform(X)
    np.testing.assert_allclose(Y.T @ np.diag(W.sum(axis=1)) @ Y, np.eye(3), atol=1e-9)


def test_lpp_on_a_worked_example():
    # Four points on a line, linked 0-1 and 2-3 with weight 1. Centred x = (-3, -1, 1, 3), degrees 1:
    # x'Lx = (2² + 2²) = 8 and x'Dx = 9 + 1 + 1 + 9 = 20, so the eigenvalue is 8/20.
    from scipy.sparse import csr_array

    X = np.array([[0.0], [2.0], [4.0], [6.0]])
    W = np.zeros((4, 4))
    W[0, 1] = W[1, 0] = W[2, 3] = W[3, 2] = 1.0
    model = LPP(1).fit(X, affinity=csr_array(W))
    np.testing.assert_allclose(model.eigenvalues_, [0.4])
    np.testing.assert_allclose(model.transform(X), [[-3.0], [-1.0], [1.0], [3.0]])
    np.testing.assert_array_equal(LPP(1, affinity=csr_array(W)).fit(X).components_, model.components_)
    orthonormal = LPP(1, scaling="orthonormal").fit(X, affinity=csr_array(W))
    np.testing.assert_allclose(orthonormal.components_, [[1 / np.sqrt(20)]])


def test_lpp_takes_any_value_with_degrees_and_gram(rng):
    class Dense:
        """A minimal affinity, given by a dense matrix."""

        def __init__(self, A):
            self.A = A

        def degrees(self):
            return self.A.sum(axis=1)

        def gram(self, X):
            return X.T @ self.A @ X

    X = rng.standard_normal((40, 3))
    A = rng.random((40, 40))
    A += A.T
    values, vectors = oracles.lpp(X - X.mean(axis=0), A, 2)
    for model in (LPP(2, affinity=Dense(A)).fit(X), LPP(2).fit(X, affinity=Dense(A))):
        np.testing.assert_allclose(model.eigenvalues_, values, atol=1e-10)
        assert subspace_angles(model.components_.T, vectors).max() < 1e-6


def test_lpp_on_rank_deficient_rows_learns_what_it_learns_without_the_redundancy(rng):
    X = rng.standard_normal((60, 4))
    wide = np.hstack([X, X[:, :1], X @ rng.standard_normal((4, 1)), np.full((60, 1), 3.0)])
    # Redundant columns change Euclidean distances, so the graph is given.
    neighbors = oracles.neighbors(X, 5)
    plain = LPP(3, scaling="orthonormal").fit(X, neighbors=neighbors)
    redundant = LPP(3, scaling="orthonormal").fit(wide, neighbors=neighbors)
    np.testing.assert_allclose(plain.eigenvalues_, redundant.eigenvalues_, rtol=1e-8)
    Y, Z = plain.transform(X), redundant.transform(wide)
    np.testing.assert_allclose(Y @ Y.T, Z @ Z.T, atol=1e-7)


def test_cuts_are_the_oracles():
    Z, _, _ = oracles.prepare(DIGITS)
    P = oracles.left_vectors(Z, 10)
    t = int(400 * 400 / 25)
    model = AdaAM(10).fit(DIGITS)
    assert model.cuts_[0] == pytest.approx(oracles.cut(P @ P.T, t), rel=1e-10)


def test_more_features_than_rows(rng):
    X = rng.standard_normal((25, 200))
    expected = oracles.adaam(X, 3)
    assert_same_map(AdaAM(3).fit(X), expected, X, expected[2], scaled=True)


def test_a_preparation_of_ones_own():
    model = AdaAM(10, preparation=Preparation(keep=7)).fit(DIGITS)
    assert model.n_components_ == 7
    assert model.preparation_.keep == 7
