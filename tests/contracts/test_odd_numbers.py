"""Unusual outliers, weights and magnitudes: the right result, or an error with the true reason."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.cluster import KMeans

from adaam import CAN, LPP, LSC, PCAN, AdaAM, AdaAMClustering, ForestAffinity, PreparedMetric, RowBlocks
from adaam._checks import row_counts
from adaam.estimators import DiscriminantMetric
from adaam.scores import clustering_accuracy

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")


def blobs(rng, n=120, d=6):
    return rng.standard_normal((n, d)) + 5.0 * rng.standard_normal((3, d))[np.arange(n) % 3]


def heavy_tailed(kind, seed, n=200, d=5):
    rng = np.random.default_rng(seed)
    return {
        "cauchy": lambda: rng.standard_cauchy((n, d)),
        "lognormal": lambda: rng.lognormal(0.0, 3.0, (n, d)),
        "t": lambda: rng.standard_t(1.5, (n, d)),
    }[kind]()


# Outliers.


@pytest.mark.parametrize("pairs", ["all", RowBlocks(n_blocks=2)])
def test_one_moderate_outlier_leaves_a_map(pairs, rng):
    """Regression: the outlier's degree was negative, and so was X'DX, which left a map without components."""
    X = rng.standard_normal((200, 5))
    X[:100] += 4
    X[0] = 100
    model = AdaAM(2, preparation="linear", pairs=pairs).fit(X)
    rank = len(PreparedMetric("linear").fit(X).components_)
    assert model.components_.shape == (min(2, rank), 5)
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1.0)
    np.testing.assert_array_equal(
        model.components_, AdaAM(2, preparation="linear", pairs=pairs).fit(X).components_, "not the same each time"
    )


@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_found_beside_outliers(seed):
    """Two outliers take the first directions; accuracies of the rest were measured at 0.96 to 1.00."""
    rng = np.random.default_rng(seed)
    y = np.arange(300) % 3
    X = 2.5 * rng.standard_normal((3, 10))[y] + rng.standard_normal((300, 10))
    X[:2] = 100.0 * rng.standard_normal((2, 10))
    Z = AdaAM(3, preparation="linear").fit(X).transform(X[2:])
    assert clustering_accuracy(y[2:], KMeans(3, n_init=5, random_state=0).fit_predict(Z)) > 0.93


@pytest.mark.parametrize("kind", ["cauchy", "lognormal", "t"])
@pytest.mark.parametrize("preparation", ["linear", "center", "unit", "standard"])
def test_heavy_tails_leave_a_map_of_full_rank(kind, preparation):
    for seed in range(22 if preparation == "linear" else 3):
        X = heavy_tailed(kind, seed)
        rank = len(PreparedMetric(preparation).fit(X).components_)
        for model, wanted in ((AdaAM(3, preparation=preparation), 3), (LPP(1, preparation=preparation), 1)):
            components = model.fit(X).components_
            assert np.isfinite(components).all(), (seed, model)
            assert np.isfinite(model.eigenvalues_).all(), (seed, model)
            assert np.linalg.matrix_rank(components) == len(components) == min(wanted, rank), (seed, model)


def test_a_signed_affinity_of_the_callers_own_gives_as_many_components_as_asked(rng):
    X = rng.standard_normal((40, 4))
    A = np.maximum(rng.standard_normal((40, 40)), 0.0)
    A = A + A.T
    A[:3] = A[:, :3] = -2.0
    X[:3] *= 30.0
    assert LPP(4).fit(X, affinity=csr_array(A)).components_.shape == (4, 4)
    with pytest.raises(ValueError, match="no positive sum"):
        LPP(2).fit(X, affinity=csr_array(-np.abs(A)))


# Weights.

WEIGHTED = {
    "AdaAM": AdaAM(3),
    "AdaAM linear": AdaAM(3, preparation="linear"),
    "AdaAM in row blocks": AdaAM(3, preparation="linear", pairs=RowBlocks(n_blocks=2)),
    "LPP": LPP(2),
    "LPP of a forest": LPP(2, affinity=ForestAffinity(n_trees=10)),
    "PreparedMetric": PreparedMetric("center"),
    "AdaAMClustering": AdaAMClustering("auto"),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_equal_weights_below_one_are_no_weights(name, rng):
    """Regression: with weights that sum to 1, rows had no neighbours and modularities were NaN."""
    X, model = blobs(rng), WEIGHTED[name]
    plain, weighted = clone(model).fit(X), clone(model).fit(X, sample_weight=np.full(120, 1 / 120))
    np.testing.assert_array_equal(weighted.components_, plain.components_)
    if hasattr(plain, "labels_"):
        np.testing.assert_array_equal(weighted.labels_, plain.labels_)


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_mean_below_one_are_relative(name, rng):
    X, weights, model = blobs(rng), rng.uniform(0.2, 1.8, 120), WEIGHTED[name]
    weights[::7] = 0.0
    relative = weights / weights[weights > 0].mean()
    expected, found = (clone(model).fit(X, sample_weight=w) for w in (relative, weights / weights.sum()))
    if hasattr(found, "labels_"):  # metrics that are equally good may be swapped
        np.testing.assert_array_equal(found.labels_, expected.labels_)
    else:
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-7)


def test_weights_are_counts_where_they_can_be():
    for counts in ([1.0, 2.0, 3.0], [0.0, 1.0, 1.0], [0.5, 1.5, 4.0], [7.0, 7.0, 7.0]):
        np.testing.assert_array_equal(row_counts(np.array(counts), 3), counts)
    np.testing.assert_allclose(row_counts(np.array([0.1, 0.3, 0.0]), 3), [0.5, 1.5, 0.0])
    for equal in (0.3, 1e-310):
        np.testing.assert_array_equal(row_counts(np.array([equal, equal, 0.0]), 3), [1.0, 1.0, 0.0])
    # A weight that is lost to rounding in the sum over rows counts as zero.
    np.testing.assert_array_equal(row_counts(np.array([1e-300, 2.0, 2.0]), 3), [0.0, 2.0, 2.0])


@pytest.mark.parametrize("factor", [1e17, 1e300])
def test_weights_too_large_to_count_are_refused_by_their_size(factor, rng):
    """Regression: the sum of finite weights overflowed, and the message said "contains NaN or infinity"."""
    with pytest.raises(ValueError, match=r"sample_weight sums to .* no more than 2\*\*53 rows can be counted"):
        AdaAM(3).fit(blobs(rng), sample_weight=np.full(120, factor))


def test_a_warning_tells_of_weights_that_leave_no_neighbours(rng):
    from adaam import DisconnectedGraphWarning

    with pytest.warns(DisconnectedGraphWarning, match="Each row counts as 300 equal rows or more"):
        AdaAM(3).fit(blobs(rng), sample_weight=np.full(120, 300.0))


# The order of rows.


@pytest.mark.parametrize("preparation", ["center", "unit"])
def test_the_forest_does_not_depend_on_the_order_of_rows(preparation, rng):
    X = np.round(blobs(rng), 1)  # with ties
    model = LPP(2, affinity=ForestAffinity(n_trees=20), preparation=preparation)
    expected = clone(model).fit(X)
    for _ in range(3):
        order = rng.permutation(len(X))
        found = clone(model).fit(X[order])
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)


# Magnitudes.

MODELS = {
    "AdaAM": AdaAM(3),
    "AdaAM linear": AdaAM(3, preparation="linear"),
    "AdaAM standard": AdaAM(3, preparation="standard"),
    "AdaAM in row blocks": AdaAM(3, preparation="linear", pairs=RowBlocks(n_blocks=2)),
    "LPP": LPP(2),
    "PreparedMetric": PreparedMetric("center"),
    "PCAN": PCAN(3),
    "CAN": CAN(3),
    "LSC": LSC(3, n_landmarks=40),
    "AdaAMClustering": AdaAMClustering(3),
}


def outcome(model, X):
    """Return all results of a fit, scaled so that a factor of X cancels."""
    model = clone(model).fit(X)
    found = {"labels": model.labels_} if hasattr(model, "labels_") else {}
    if hasattr(model, "predict"):
        found["predicted"] = model.predict(X)
    if hasattr(model, "transform"):
        found |= {
            "eigenvalues": model.eigenvalues_,
            "mapped": model.transform(X),
            "distances": model.pair_distance(np.stack([X[:9], X[9:18]], axis=1)),
            "shares": getattr(model, "metric_", model).explain().share,
            "covariance": model.covariance_,
        }
    return {name: value / np.abs(value).max() for name, value in found.items()}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("dtype", "exponents"), [(np.float64, (-400, 400)), (np.float32, (-90, 70))])
def test_units_do_not_matter(name, dtype, exponents, rng):
    """A power of two changes no digit; float32 rows near 1e20 and 1e-20 are computed in float64."""
    X = blobs(rng).astype(dtype)
    expected = outcome(MODELS[name], X)
    for exponent in exponents:
        found = outcome(MODELS[name], X * dtype(2.0**exponent))
        for quantity, value in expected.items():
            np.testing.assert_allclose(
                found[quantity], value, atol=1e-7 if dtype == np.float64 else 2e-5, err_msg=f"{quantity}, {exponent}"
            )


@pytest.mark.parametrize("exponent", [-400, -300, 300, 400])
def test_units_do_not_matter_to_a_discriminant_metric(exponent, rng):
    """Regression: squares of covariances overflowed, or underflowed and changed the shrinkage."""
    X, labels = blobs(rng), np.arange(120) % 3
    expected = DiscriminantMetric(preparation="center").fit(X, labels)
    found = DiscriminantMetric(preparation="center").fit(np.ldexp(X, exponent), labels)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(found.transform(np.ldexp(X, exponent)), expected.transform(X), atol=1e-7)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "AdaAM"])
@pytest.mark.parametrize(("factor", "fact"), [(1e160, "overflow"), (1e300, "overflow"), (1e-160, "vanish")])
def test_magnitudes_whose_squares_are_lost_are_refused_for_that(name, factor, fact, rng):
    X = blobs(rng) * factor
    with pytest.raises(ValueError, match=rf"X holds magnitudes up to .*{fact} in float64.*ultiply all of them by"):
        clone(MODELS[name]).fit(X)


@pytest.mark.parametrize("factor", [1e160, 1e300, 1e-160, 1e-300])
def test_unit_rows_have_no_magnitude(factor, rng):
    X = blobs(rng)
    np.testing.assert_allclose(AdaAM(3).fit(X * factor).components_, AdaAM(3).fit(X).components_, atol=1e-9)


def test_a_column_whose_squares_vanish_is_not_taken_for_a_constant(rng):
    X = blobs(rng)
    X[:, 4] *= 1e-200
    with pytest.raises(ValueError, match=r"column_scaling='standard' cannot measure column 4"):
        AdaAM(3, preparation="standard").fit(X)


def test_new_rows_whose_distances_would_overflow_are_refused(rng):
    X = blobs(rng)
    model = AdaAMClustering(3, learner=AdaAM(3, preparation="linear"), head="k-means").fit(X)
    for method in (model.predict, model.transform):
        with pytest.raises(ValueError, match="overflow in float64"):
            method(X * 1e160)
    near = model.predict(X.astype(np.float32) * np.float32(1e20))
    np.testing.assert_array_equal(near, model.predict(X * 1e20))
