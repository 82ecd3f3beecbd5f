import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from scipy.linalg import subspace_angles
from scipy.sparse import csr_array

import oracles
from adaam import AdaAM, UnlikeUnitsWarning, ZeroRowWarning
from adaam.engines import CPUEngine
from adaam.prepare import PREPARATIONS, Preparation, Sample, TruncatedSpectrumWarning, fit_preparation
from strategies import clouds

ENGINE = CPUEngine()


def prepared(X, **settings):
    mapping = fit_preparation(X, np.ones(X.shape[0]), Preparation(**settings), ENGINE)
    return mapping, mapping.apply(X, ENGINE)


@pytest.mark.parametrize("row_scaling", ["unit", "none"])
@pytest.mark.parametrize("shape", [(60, 8), (12, 30), (25, 25)])
def test_prepared_rows_equal_the_oracles_up_to_signs(shape, row_scaling, rng):
    X = rng.standard_normal(shape) + 3.0
    _, Z = prepared(X, row_scaling=row_scaling, keep=0.9)
    expected, _, _ = oracles.prepare(X, row_scaling=row_scaling, variance=0.9)
    assert Z.shape == expected.shape
    np.testing.assert_allclose(Z @ Z.T, expected @ expected.T, atol=1e-10)


@settings(deadline=None, max_examples=40)
@given(clouds())
def test_keeping_everything_keeps_distances(X):
    mapping, Z = prepared(X, row_scaling="none", keep=1.0)
    centred = X - X.mean(axis=0)
    scale = np.abs(centred @ centred.T).max()
    np.testing.assert_allclose(Z @ Z.T, centred @ centred.T, atol=1e-9 * scale)
    # Squared singular values below 1e-12 of the largest count as zero: no more directions than the rank.
    assert Z.shape[1] <= np.linalg.matrix_rank(centred)


def test_sparse_rows_prepare_like_dense_ones(rng):
    for shape in ((80, 10), (10, 40)):
        X = np.where(rng.random(shape) < 0.4, rng.random(shape), 0.0)
        X[:, 0] += 0.1
        dense, sparse = prepared(X)[1], prepared(csr_array(X))[1]
        np.testing.assert_allclose(dense @ dense.T, sparse @ sparse.T, atol=1e-12)


def test_a_large_offset_does_not_swamp_the_spread(rng):
    X = rng.standard_normal((50, 3))
    near, far = prepared(X, row_scaling="none")[1], prepared(X + 1e6, row_scaling="none")[1]
    np.testing.assert_allclose(near @ near.T, far @ far.T, atol=1e-8)


def test_weights_count_as_copies(rng):
    X = rng.standard_normal((20, 5))
    weights = rng.integers(1, 4, size=20)
    for rows in (X, X[:4]):
        w = weights[: len(rows)]
        weighted = fit_preparation(rows, w.astype(float), Preparation(), ENGINE)
        repeated = fit_preparation(np.repeat(rows, w, axis=0), np.ones(w.sum()), Preparation(), ENGINE)
        np.testing.assert_allclose(weighted.mean, repeated.mean, atol=1e-14)
        assert subspace_angles(weighted.components.T, repeated.components.T).max() < 1e-7


def test_a_number_of_components_is_kept_as_asked(rng):
    assert prepared(rng.standard_normal((40, 9)), keep=4)[1].shape == (40, 4)


def test_truncated_spectrum_agrees_with_the_full_one(rng, monkeypatch):
    X = csr_array(np.where(rng.random((300, 60)) < 0.2, rng.random((300, 60)), 0.0))
    X = csr_array(X + csr_array(np.outer(np.ones(300), [0.1] + [0.0] * 59)))
    full, _ = prepared(X, keep=5)
    monkeypatch.setattr("adaam.prepare.SPARSE_SPECTRUM_LIMIT", 20)
    leading, _ = prepared(X, keep=5)
    assert subspace_angles(full.components.T, leading.components.T).max() < 1e-6


@pytest.mark.parametrize("sparse", [False, True])
def test_leading_components_of_a_spectrum_out_of_reach_are_kept_and_told_of(monkeypatch, rng, sparse):
    X = rng.standard_normal((120, 60)) * 0.8 ** np.arange(60) + 0.3
    full, _ = prepared(X, keep=10)
    monkeypatch.setattr("adaam.prepare.FULL_SPECTRUM_LIMIT", 40)
    monkeypatch.setattr("adaam.prepare.SPARSE_SPECTRUM_LIMIT", 40)
    monkeypatch.setattr("adaam.prepare.SKETCH_COMPONENTS", 10)
    with pytest.warns(TruncatedSpectrumWarning, match=r"keep=0.999.*the 10 leading components.*Preparation\(keep=10\)"):
        sketched, _ = prepared(csr_array(X) if sparse else X, keep=0.999)
    assert subspace_angles(full.components[:5].T, sketched.components[:5].T).max() < 1e-4
    few, _ = prepared(csr_array(X) if sparse else X, keep=0.3)
    assert len(few.components) < 10


def test_no_more_components_than_half_the_rows_hold_a_share_of_the_variance(rng):
    X = rng.standard_normal((150, 400))
    with pytest.warns(TruncatedSpectrumWarning, match="the 75 leading components were kept"):
        mapping, _ = prepared(X)
    assert len(mapping.components) == 75
    assert len(prepared(X, keep=1.0)[0].components) == 149
    assert len(prepared(X[:60], keep=0.99)[0].components) > 50


def test_zero_rows_stay_zero_with_a_warning(rng):
    X = rng.standard_normal((10, 4))
    X[3] = 0.0
    with pytest.warns(ZeroRowWarning, match=r"1 distinct row\(s\)"):
        mapping, Z = prepared(X)
    np.testing.assert_allclose(Z[3], -mapping.mean @ mapping.components.T, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-200, 1e200, 1e306])
def test_extreme_lengths_stay_finite(scale, rng):
    X = rng.standard_normal((10, 4))
    X[0] *= scale
    with np.errstate(under="ignore"):
        _, Z = prepared(X)
    assert np.isfinite(Z).all()


def test_rows_too_short_to_have_a_direction_are_told_of_and_stay(rng):
    X = rng.standard_normal((10, 4))
    X[3:5] = [[1e-320], [0.0]]
    with pytest.warns(ZeroRowWarning, match=r"2 distinct row\(s\) of X are all zero or shorter than 2.2e-308"):
        _, Z = prepared(X)
    np.testing.assert_allclose(Z[3], Z[4], atol=1e-300)
    with pytest.raises(ValueError, match="too short for float64 to tell their directions"):
        prepared(np.full((5, 4), 1e-320) * np.arange(1, 6)[:, None])


def test_rows_longer_than_the_largest_number_are_refused(rng):
    """Regression: their scale was one over infinity, so they were treated as zero."""
    X = rng.standard_normal((10, 4))
    X[3] = 1e308
    with pytest.raises(ValueError, match="length overflows in float64"):
        prepared(X)


@pytest.mark.parametrize("row_scaling", ["unit", "none"])
def test_equal_rows_are_refused(row_scaling):
    X = np.full((6, 3), 0.1) * (np.arange(1, 7)[:, None] if row_scaling == "unit" else 1.0)
    with pytest.raises(ValueError, match="equal after preparation"):
        prepared(X, row_scaling=row_scaling)


@pytest.mark.parametrize("name", ["unit", "linear", "center", "standard"])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_the_gram_matrix_of_principal_components_is_known_beforehand(name, form, rng):
    X = rng.standard_normal((60, 7)) * np.arange(1, 8) + 3.0
    weights = rng.integers(1, 4, size=60).astype(float)
    prepared = fit_preparation(form(X), weights, PREPARATIONS[name], ENGINE)
    sample = Sample(prepared.apply(form(X), ENGINE), weights, ENGINE, prepared.spreads)
    made = ENGINE.cross(sample.X, sample.X, weights)
    np.testing.assert_allclose(sample.gram, made, atol=1e-12 * made.max())
    assert np.count_nonzero(sample.gram) == len(made)  # diagonal: not computed from the rows


def test_weakly_determined_components_have_their_gram_matrix_made(rng):
    X = rng.standard_normal((60, 3)) * [1.0, 1e-4, 1.0]
    assert fit_preparation(X, 1.0, PREPARATIONS["center"], ENGINE).spreads is None
    assert fit_preparation(rng.standard_normal((5, 9)), 1.0, PREPARATIONS["center"], ENGINE).spreads is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_of_zeros_change_no_scatter_matrix(dtype, rng):
    X = rng.integers(-2, 3, size=(50, 9)).astype(dtype)
    X[:, [0, 4]] = 0.0
    X[::2, 7], X[1::2, 7] = 1.0, -1.0  # mean zero, but not all zeros
    scale, weights = rng.uniform(0.5, 2.0, size=50), rng.uniform(0.5, 2.0, size=50)
    for mean in (X.mean(axis=0, dtype=np.float64), np.zeros(9)):
        Z = X * scale[:, None] - mean
        found = ENGINE.scatter(X, scale, mean, weights)
        np.testing.assert_allclose(found, Z.T @ (weights[:, None] * Z), atol=1e-12)


@pytest.mark.parametrize("name", ["unit", "standard"])
def test_whole_numbers_are_prepared_without_a_copy_in_floating_point(name, rng):
    X = rng.integers(0, 256, size=(200_000, 100), dtype=np.uint8)
    tracemalloc.start()
    mapping = fit_preparation(X, 1.0, PREPARATIONS[name], ENGINE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * X.nbytes  # a copy would take eight times as much
    expected = fit_preparation(X[:5000].astype(float), 1.0, PREPARATIONS[name], ENGINE)
    found = fit_preparation(X[:5000], 1.0, PREPARATIONS[name], ENGINE)
    np.testing.assert_allclose(np.abs(found.components), np.abs(expected.components), atol=1e-12)
    assert mapping.components.shape[1] == 100


def unlike(form):
    """Rows of three columns, the last in units a hundred times as small."""
    X = np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 2.0, 100.0]
    return form(X + [0.0, 0.0, 500.0])


@pytest.mark.parametrize("form", [np.asarray, csr_array, lambda X: pd.DataFrame(X, columns=["ash", "hue", "proline"])])
def test_a_column_of_another_unit_is_named_with_the_way_out(form):
    X = unlike(form)
    name = "proline" if hasattr(X, "columns") else "x2"
    message = rf"Column '{name}' of X has 99.9. % of the variance of all 3 columns.*preparation=\"standard\""
    with pytest.warns(UnlikeUnitsWarning, match=message):
        AdaAM(2, n_neighbors=20).fit(X)
    AdaAM(2, n_neighbors=20, preparation="standard").fit(X)  # the suggested setting gives no warning


def test_like_units_and_single_columns_pass_without_a_word(rng):
    X = rng.normal(size=(60, 3))
    AdaAM(2, n_neighbors=20).fit(X * [1.0, 2.0, 3.0])
    AdaAM(2, n_neighbors=20, preparation="linear").fit(100 * X[:, :1])
    AdaAM(2, n_neighbors=20, preparation="linear").fit(X * [0.0, 100.0, 0.0])
    X[0, 0] = 100.0  # an outlier is not another unit
    AdaAM(2, n_neighbors=20).fit(X)
