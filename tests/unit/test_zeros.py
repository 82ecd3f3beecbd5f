"""Scatter and projection of rows with many zeros against the formula, and when they are computed from nonzeros."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from adaam import AdaAM
from adaam.engines import CPUEngine, cpu
from adaam.engines import compiled as compiled_module
from adaam.engines.compiled import PANEL, few_filled

pytest.importorskip("numba")

from adaam.engines import zeros

EPS = np.finfo(np.float64).eps
NUMBA, NUMPY = CPUEngine(kernels="numba"), CPUEngine(kernels="numpy")


@pytest.fixture(autouse=True, scope="module")
def small_parts():
    """Use small tasks, blocks and strips, so that small data has several; only the share of zeros decides."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_module, "LEAST_COLUMNS", 1)
        patch.setattr(zeros, "SCATTER_ROWS", 50)
        patch.setattr(zeros, "PROJECT_ROWS", 40)
        patch.setattr(zeros, "HEIGHT", 16)
        patch.setattr(zeros, "WIDTH", 32)
        yield


def sparse_rows(rng, n, d, share=0.2):
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < share)


def moved(X, scale, mean):
    """Return the rows scale * x - mean in extended precision."""
    return np.longdouble(X) * np.reshape(np.broadcast_to(scale, len(X)), (-1, 1)) - np.longdouble(mean)


def true_scatter(X, scale, mean, weights):
    Z = moved(X, scale, mean)
    return (Z * np.reshape(np.broadcast_to(weights, len(X)), (-1, 1))).T @ Z


def true_projection(X, scale, mean, components):
    return moved(X, scale, mean) @ np.longdouble(components).T


def columns_of(rng, kind, n):
    return float(rng.uniform(0.5, 2.0)) if kind == "float" else rng.uniform(0.0, 2.0, size=n)


cases = st.tuples(
    st.integers(0, 10**6),
    st.integers(1, 130),
    st.sampled_from([1, 2, 7, 31, 32, 33, 64, 70, 97]),
    st.sampled_from([0.0, 0.05, 0.2, 0.6, 1.0]),
    st.sampled_from(["float", "vector"]),
    st.sampled_from(["float", "vector"]),
    st.sampled_from([np.float32, np.float64]),
)


def drawn(case):
    """Return rows (some rows and columns are zero), a scale, an unrelated mean, weights, and the generator."""
    seed, n, d, share, scale, weights, dtype = case
    rng = np.random.default_rng(seed)
    X = sparse_rows(rng, n, d, share).astype(dtype)
    X[rng.random(n) < 0.2] = 0.0
    X[:, rng.random(d) < 0.2] = 0.0
    mean = rng.standard_normal(d) * (rng.random(d) < 0.7)
    return X, columns_of(rng, scale, n), mean, columns_of(rng, weights, n), rng


@settings(deadline=None, max_examples=60)
@given(cases)
def test_scatter_is_that_of_the_formula(case):
    X, scale, mean, weights, _ = drawn(case)
    found = zeros.scatter(X, scale, mean, weights)
    truth = true_scatter(X, scale, mean, weights)
    if found is None:  # digits were lost
        about_origin = (
            np.diag(true_scatter(X, scale, 0.0, weights)) + np.sum(np.broadcast_to(weights, len(X))) * mean**2
        )
        assert (about_origin > 60 * np.diag(truth)).any()
        return
    Z = np.abs(np.float64(X)) * np.reshape(np.broadcast_to(scale, len(X)), (-1, 1)) + np.abs(mean)
    assert found.shape == (X.shape[1], X.shape[1])
    assert (np.abs(found - truth) <= 32 * EPS * true_scatter(Z, 1.0, 0.0, weights)).all()
    np.testing.assert_array_equal(found, found.T)


@settings(deadline=None, max_examples=60)
@given(cases, st.sampled_from([1, 5, 32, 40, 96]), st.sampled_from([np.float32, np.float64]))
def test_projection_is_that_of_the_formula(case, m, dtype):
    X, scale, mean, _, rng = drawn(case)
    assume(not X.dtype == dtype == np.float32)
    components = rng.standard_normal((m, X.shape[1])).astype(dtype)
    found = zeros.project(X, scale, mean, components)
    Z = np.abs(np.float64(X)) * np.reshape(np.broadcast_to(scale, len(X)), (-1, 1)) + np.abs(mean)
    assert found.dtype == np.float64
    error = np.abs(found - true_projection(X, scale, mean, components))
    assert (error <= 16 * EPS * (Z @ np.abs(np.float64(components)).T)).all()


@pytest.mark.parametrize("kind", ["float", "vector"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_verbs_are_those_without_numba(kind, dtype, rng):
    X = sparse_rows(rng, 170, 100, 0.1).astype(dtype)
    X.flags.writeable = False
    scale, weights = 1.0 if kind == "float" else rng.random(170), columns_of(rng, kind, 170)
    mean, components = rng.standard_normal(100), rng.standard_normal((90, 100))
    assert zeros.scatter(X, scale, mean, weights) is not None
    assert zeros.project(X, scale, mean, components) is not None
    expected = NUMPY.scatter(X, scale, mean, weights)
    np.testing.assert_allclose(NUMBA.scatter(X, scale, mean, weights), expected, atol=1e-12 * expected.max())
    expected = NUMPY.project(X, scale, mean, components)
    np.testing.assert_allclose(NUMBA.project(X, scale, mean, components), expected, atol=1e-12 * expected.max())


def test_rows_with_few_zeros_are_left_to_dense_products(rng):
    mean, components = np.zeros(256), rng.standard_normal((64, 256))
    for share, sparse in ((0.05, True), (0.3, True), (0.5, False), (1.0, False)):
        X = sparse_rows(rng, 600, 256, share)
        assert few_filled(X, 256, PANEL * (256 // PANEL + 1)) is sparse
        for verb, arguments in ((NUMBA.scatter, (1.0, mean, 1.0)), (NUMBA.project, (1.0, mean, components))):
            with pytest.MonkeyPatch.context() as patch:
                asked = []
                patch.setattr(zeros, verb.__name__, lambda *_, asked=asked: asked.append(True))
                verb(X, *arguments)
            assert bool(asked) is sparse


def test_only_dense_rows_in_c_order_and_many_columns_are_taken(rng, monkeypatch):
    X = sparse_rows(rng, 300, 128, 0.1)
    assert few_filled(X, 128, 128)
    assert not few_filled(X, 7, 32)  # most of the panel would be summed for nothing
    assert not few_filled(np.asfortranarray(X), 128, 128)
    assert not few_filled(csr_array(X), 128, 128)
    assert not few_filled(X.astype(np.int64), 128, 128)
    assert not few_filled(X[:0], 128, 128)
    monkeypatch.setattr(compiled_module, "LEAST_COLUMNS", 64)
    assert few_filled(X, 64, 64)
    assert not few_filled(X, 63, 64)
    assert not few_filled(X[:, :60].copy(), 64, 64)


def test_few_rows_and_kernels_of_numpy_are_not_looked_at(rng, monkeypatch):
    X = sparse_rows(rng, 300, 128, 0.1)
    monkeypatch.setattr(cpu, "few_filled", None)
    for choice in ("auto", "numpy"):
        engine = CPUEngine(kernels=choice)
        engine.scatter(X, 1.0, np.zeros(128), 1.0)
        engine.project(X, 1.0, np.zeros(128), X[:64])


def test_zeros_are_seen_in_tables_that_repeat():
    # All combinations of 12 binary columns: with a step of 32 rows, five of them would look constant.
    X = (np.arange(4096)[:, None] >> np.arange(12) & 1).astype(float)
    seen = compiled_module.spread_rows(X)
    assert 100 <= len(seen) <= 256
    assert np.abs(seen.mean(axis=0) - 0.5).max() < 0.1


def test_bits_do_not_depend_on_threads(rng):
    X = sparse_rows(rng, 400, 100)
    scale, weights, mean = rng.random(400), rng.random(400), rng.standard_normal(100)
    components = rng.standard_normal((64, 100))
    with threadpool_limits(1):
        alone = NUMBA.scatter(X, scale, mean, weights), NUMBA.project(X, scale, mean, components)
    with threadpool_limits(2):
        shared = NUMBA.scatter(X, scale, mean, weights), NUMBA.project(X, scale, mean, components)
    for one, two in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(one, two)


def offset_rows(rng, kind, n=3000, d=70):
    """Return rows with many zeros in which some means are large relative to the spread."""
    X = sparse_rows(rng, n, d, 0.1)
    if kind == "equal entries":
        X = np.where(X != 0, 1e8, 0.0)
    if kind == "near entries":
        X = np.where(X != 0, 1e8 + X, 0.0)
    if kind == "constant column":
        X[:, 3] = 7e5 / 3
    if kind == "far columns":
        X[:, :5] = 1e8 + rng.standard_normal((n, 5))
    if kind == "nearly constant column":
        X[:, 3] = 1e8
        X[::50, 3] = 0.0
    return X


@pytest.mark.parametrize(
    "kind", ["equal entries", "near entries", "constant column", "far columns", "nearly constant column"]
)
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_large_means_cost_no_digits(kind, unit, weighted, rng):
    X = offset_rows(rng, kind)
    scale = 1.0 / (NUMPY.row_norms(X) + 1e-9) if unit else 1.0
    weights = rng.integers(1, 5, size=len(X)).astype(float) if weighted else 1.0
    mean = NUMPY.cross(None, X, weights * scale * np.ones(len(X)))[0] / np.sum(weights * np.ones(len(X)))
    components = rng.standard_normal((70, 70))
    assert zeros.scatter(X, scale, mean, weights) is not None
    assert zeros.project(X, scale, mean, components) is not None
    truth = true_scatter(X, scale, mean, weights)
    spread = np.sqrt(np.outer(np.diag(truth), np.diag(truth))) + np.finfo(np.float64).tiny
    dense = np.abs(NUMPY.scatter(X, scale, mean, weights) - truth) / spread
    found = np.abs(NUMBA.scatter(X, scale, mean, weights) - truth) / spread
    assert found.max() <= max(16 * dense.max(), 1e-13)

    truth = true_projection(X, scale, mean, components)
    dense = np.abs(NUMPY.project(X, scale, mean, components) - truth).max()
    found = np.abs(NUMBA.project(X, scale, mean, components) - truth).max()
    assert found <= max(16 * dense, 1e-15 * np.abs(truth).max())


def test_columns_far_from_zero_in_rows_of_weight_are_left_to_dense_rows(rng):
    # Most rows are zeros of weight zero, so a sample of the rows does not reveal it.
    X = np.zeros((1000, 64))
    X[::10] = sparse_rows(rng, 100, 64)
    X[::10, 0] = 1e8 + rng.standard_normal(100)
    weights = np.zeros(1000)
    weights[::10] = 1.0
    mean = X[::10].mean(axis=0)
    assert zeros.scatter(X, 1.0, mean, weights) is None
    np.testing.assert_array_equal(NUMBA.scatter(X, 1.0, mean, weights), NUMPY.scatter(X, 1.0, mean, weights))


def test_lengths_that_overflow_when_squared_are_scaled_first(rng):
    X = sparse_rows(rng, 200, 64) * 1e200
    scale = np.full(200, 1e-200)
    plain = NUMPY.scatter(X * 1e-200, 1.0, np.zeros(64), 1.0)
    np.testing.assert_allclose(NUMBA.scatter(X, scale, np.zeros(64), 1.0), plain, atol=1e-12 * plain.max())


def test_inputs_are_left_alone(rng):
    X, components = sparse_rows(rng, 100, 70), rng.standard_normal((64, 70))
    mean, column = rng.standard_normal(70), rng.random(100)
    copies = [values.copy() for values in (X, components, mean, column)]
    NUMBA.scatter(X, column, mean, column)
    NUMBA.project(X, column, mean, components)
    for values, copy in zip((X, components, mean, column), copies, strict=True):
        np.testing.assert_array_equal(values, copy)


@pytest.mark.parametrize("preparation", ["unit", "linear"])
@pytest.mark.parametrize("weighted", [False, True])
def test_fits_are_those_without_numba(preparation, weighted, rng, monkeypatch):
    taken = []
    for verb in ("scatter", "project"):
        monkeypatch.setattr(zeros, verb, _told(getattr(zeros, verb), taken))
    shapes = sparse_rows(rng, 4, 80, 0.1)
    X = np.abs(0.4 * shapes[rng.integers(4, size=500)] + sparse_rows(rng, 500, 80, 0.1))
    sample_weight = rng.integers(1, 4, size=500).astype(float) if weighted else None
    fits = [AdaAM(3, preparation=preparation, engine=e).fit(X, sample_weight=sample_weight) for e in (NUMBA, NUMPY)]
    assert {"scatter", "project"} <= set(taken)
    assert np.max(subspace_angles(fits[0].components_.T, fits[1].components_.T)) <= 1e-6
    np.testing.assert_allclose(fits[0].transform(X), fits[0].transform(X.copy(order="F")), atol=1e-10)


def _told(product, taken):
    """Wrap a product; record when it was computed from the nonzero entries."""

    def told(*arguments):
        found = product(*arguments)
        if found is not None:
            taken.append(product.__name__)
        return found

    return told
