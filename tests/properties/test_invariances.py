"""Changes of rows, features and settings that must not change the learned distances."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import oracles
from adaam import LPP, AdaAM, CPUEngine

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")

DIGITS = load_digits().data


def distances(model, rows):
    Z = model.transform(rows)
    return np.linalg.norm(Z[:, None] - Z[None], axis=2)


def learned(rows, on=None, **options):
    return AdaAM(4, **options).fit(rows, **(on or {}))


@pytest.fixture(scope="module")
def rows():
    return DIGITS[:200]


@pytest.fixture(scope="module")
def reference(rows):
    return distances(learned(rows), rows)


def assert_same(model, rows, reference, atol=1e-7):
    np.testing.assert_allclose(distances(model, rows), reference, atol=atol * reference.max())


def test_the_order_of_rows(rows, reference):
    shuffled = np.random.default_rng(0).permutation(rows)
    assert_same(learned(shuffled), rows, reference)


def test_the_order_of_features(rows, reference):
    order = np.random.default_rng(0).permutation(rows.shape[1])
    np.testing.assert_allclose(distances(learned(rows[:, order]), rows[:, order]), reference, atol=1e-7)


def test_a_rotation(rows, reference):
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))[0]
    np.testing.assert_allclose(distances(learned(rows @ Q), rows @ Q), reference, atol=1e-7)


def test_the_length_of_rows_under_unit_preparation(rows, reference):
    lengths = np.random.default_rng(0).uniform(0.1, 10.0, size=(len(rows), 1))
    np.testing.assert_allclose(distances(learned(rows * lengths), rows), reference, atol=1e-7)


def test_a_shift_under_linear_preparation(rows):
    plain, shifted = learned(rows, preparation="linear"), learned(rows + 5.0, preparation="linear")
    np.testing.assert_allclose(distances(plain, rows), distances(shifted, rows + 5.0), rtol=1e-6, atol=1e-8)


def test_constant_features(rows, reference):
    wide = np.hstack([rows, np.zeros((len(rows), 3))])
    np.testing.assert_allclose(distances(learned(wide), wide), reference, atol=1e-7)


def test_tile_size_and_threads(rows, reference):
    assert_same(learned(rows, engine=CPUEngine(tile_bytes=64**2 * 32)), rows, reference)
    with threadpool_limits(1):
        one = learned(rows)
    with threadpool_limits(2):
        two = learned(rows)
    # Documented tolerance across thread counts: only the d x d eigenproblems use BLAS's own threads.
    np.testing.assert_allclose(one.transform(rows), two.transform(rows), atol=1e-9)


def test_a_given_graph_of_the_prepared_rows(rows, reference):
    prepared, _, _ = oracles.prepare(rows)
    k = learned(rows).n_neighbors_
    assert_same(learned(rows, on={"neighbors": oracles.neighbors(prepared, k)}), rows, reference)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6))
def test_a_weight_is_the_same_as_copies(seed):
    rng = np.random.default_rng(seed)
    rows = DIGITS[rng.choice(len(DIGITS), size=40, replace=False)]
    weights = rng.integers(0, 4, size=40)
    assume((weights > 0).sum() > 10)
    weighted = learned(rows, on={"sample_weight": weights})
    repeated = learned(np.repeat(rows, weights, axis=0))
    np.testing.assert_allclose(distances(weighted, rows), distances(repeated, rows), atol=1e-6)


def test_lpp_sees_a_shift_only_where_it_is_told_to(rows):
    # LPP itself is not invariant to a shift, but the estimator is, since it centres rows.
    near, far = LPP(3).fit(rows), LPP(3).fit(rows + 5.0)
    np.testing.assert_allclose(distances(near, rows), distances(far, rows + 5.0), rtol=1e-5, atol=1e-8)
