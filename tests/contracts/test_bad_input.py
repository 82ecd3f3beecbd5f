"""Bad input gets a clear error or a documented result, and nothing else."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.decomposition import PCA

import adaam
from adaam import (
    CAN,
    LPP,
    AdaAM,
    AdaAMClustering,
    AdaptiveAffinity,
    CPUEngine,
    HeatKernel,
    KNNAffinity,
    Preparation,
)
from adaam.rows import BlockRows
from strategies import clouds

X = np.random.default_rng(0).standard_normal((30, 4))
MODELS = [AdaAM(3), AdaAM(3, preparation="linear"), LPP(2), AdaAMClustering(3)]

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (AdaAM(31), "n_clusters=31 exceeds n_samples=30. Use n_clusters <= 30"),
        (AdaAM(0), "n_clusters=0 is too small; use n_clusters >= 1"),
        (AdaAM(2.5), "n_clusters=2.5 is a float; it must be a whole number"),
        (AdaAM(True), "n_clusters=True is a bool"),
        (AdaAM(3, n_neighbors=30), "n_neighbors=30 needs more than 30 samples, but X has 30"),
        (AdaAM(3, n_neighbors=0), "n_neighbors=0 is too small"),
        (AdaAM(3, n_components=9), "n_components=9 exceeds the rank 4"),
        (AdaAM(3, n_iter=0), "n_iter=0 is too small"),
        (AdaAM(3, preparation="raw"), "preparation='raw' is not known; use one of 'unit', 'linear', 'center'"),
        (AdaAM(3, preparation=None), "preparation=None is a NoneType"),
        (AdaAM(3, preparation=Preparation(keep=1.5)), "keep=1.5 is out of range"),
        (AdaAM(3, preparation=Preparation(keep=0)), "keep=0 is too small"),
        (AdaAM(3, preparation=Preparation(row_scaling="max")), "row_scaling='max' is not known"),
        (AdaAM(3, affinity=AdaptiveAffinity(alphas=(1, 0))), "alphas=0 is out of range"),
        (AdaAM(3, affinity=AdaptiveAffinity(alphas=2.5)), "alphas=2.5 must hold two numbers"),
        (AdaAM(3, affinity=AdaptiveAffinity(rank="c")), "rank='c' is a str"),
        (AdaAM(3, affinity=AdaptiveAffinity(diagonal="no")), "diagonal='no' is not known"),
        (AdaAM(3, affinity=AdaptiveAffinity(constraint="I")), "constraint='I' is not known"),
        (AdaAM(3, affinity=AdaptiveAffinity(heat=HeatKernel(width=-1))), "width=-1 is out of range"),
        (AdaAM(3, affinity=AdaptiveAffinity(heat=HeatKernel(rule="x"))), "rule='x' is not known"),
        (AdaAM(3, affinity=AdaptiveAffinity(heat=HeatKernel(power=3))), "power=3 is not known"),
        (AdaAM(3, affinity="heat"), "affinity='heat' is a str"),
        (AdaAM(3, engine="tpu"), "engine='tpu' is not known"),
        (LPP(9), "n_components=9 exceeds the rank 4"),
        (LPP(2, scaling="long"), "scaling='long' is not known"),
        (LPP(2, affinity="knn"), "affinity='knn' is no learner"),
        (LPP(2, affinity=KNNAffinity(n_neighbors=30)), "n_neighbors=30 needs more than 30 samples"),
        (LPP(2, affinity=KNNAffinity(heat=HeatKernel(width=0))), "width=0 is out of range"),
        (AdaAMClustering(3, n_init=0), "n_init=0 is too small"),
        (AdaAM("many"), "n_clusters='many' is not known; use a whole number or 'auto'"),
        (AdaAM("3"), "n_clusters='3' is not known; use a whole number or 'auto'"),
        (AdaAM(3, engine=CPUEngine), "engine=CPUEngine is a class; pass one of its objects, CPUEngine()"),
        (AdaAM(3, engine=2), "engine=2 is a int; use"),
        (AdaAM(3, engine=CPUEngine(tile_bytes=-5)), "tile_bytes=-5 is too small"),
        (AdaAM(3, engine=CPUEngine(tile_bytes="1G")), "tile_bytes='1G' is a str"),
        (AdaAM(3, verbose="yes"), "verbose='yes' is a str; it must be a whole number >= 0"),
        (AdaAMClustering(3, verbose=None), "verbose=None is a NoneType"),
        (LPP(2, affinity=KNNAffinity), "affinity=KNNAffinity is a class; pass one of its objects, KNNAffinity()"),
        (AdaAMClustering(3, learner=AdaAM), "learner=AdaAM is a class; pass one of its objects, AdaAM()"),
        (AdaAMClustering(3, learner="adaam"), "learner='adaam' is a str; use AdaAM, LPP, PCAN or PreparedMetric"),
        (AdaAMClustering(3, learner=CAN(3)), "learner=CAN(n_clusters=3) is a CAN; use AdaAM, LPP, PCAN or"),
        (AdaAMClustering(3, learner=PCA(2)), "learner=PCA(n_components=2) is a PCA; use AdaAM, LPP, PCAN or"),
    ],
)
def test_a_bad_parameter_is_named_with_its_value_and_the_way_out(model, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        model.fit(X)
    assert message in str(caught.value)


@pytest.mark.parametrize("verbose", [True, False, 0, 2])
def test_verbose_may_be_a_word_of_truth_or_a_number(verbose, capfd):
    AdaAM(3, verbose=verbose).fit(X)
    assert bool(capfd.readouterr().err) == bool(verbose)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_path_is_not_rows(model, tmp_path):
    for path in ("rows.npy", tmp_path):
        with pytest.raises(TypeError, match=r"is a path, not rows.*adaam\.rows\.open_rows"):
            clone(model).fit(path)


def test_rows_of_a_source_are_for_adaam_and_the_clusterer_alone():
    rows = BlockRows(lambda: np.array_split(X, 3))
    with pytest.raises(TypeError, match=r"LPP wants its rows in memory.*AdaAM"):
        LPP(2).fit(rows)


def test_rows_to_compare_are_named_with_their_shape_and_need_no_names():
    fitted = AdaAM(3).fit(X)
    for a, b in ((X[0], X[1, :3]), (X[:2], X[2:4]), (X[0], 3.0)):
        with pytest.raises(ValueError, match=r"explain takes two rows of 4 features, but got shapes \("):
            fitted.explain(a, b)
    for pairs in ([[X[0], X[1, :3]]], X[:, :3].reshape(-1, 2, 3), X):
        with pytest.raises(ValueError, match=r"pairs .* must be \(n_pairs, 2, 4\)"):
            fitted.pair_distance(pairs)
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    named = AdaAM(3).fit(frame)
    shares = named.explain(frame.iloc[0], frame.iloc[1]).share
    np.testing.assert_allclose(shares, fitted.explain(X[0], X[1]).share)
    # An array of pairs has no feature names, so there is no warning about them.
    np.testing.assert_allclose(named.pair_distance(X.reshape(-1, 2, 4)), fitted.pair_distance(X.reshape(-1, 2, 4)))


def test_a_folder_that_is_not_there_is_named_where_a_file_is_written(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.*no such folder"):
        adaam.save(AdaAM(3).fit(X), tmp_path / "nowhere" / "model.adaam")


def with_value(value):
    bad = X.copy()
    bad[3, 2] = value
    return bad


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (with_value(np.nan), ValueError, "NaN"),
        (with_value(np.inf), ValueError, "infinity"),
        (X[:1], ValueError, "minimum of 2|n_samples=1"),
        (X[:0], ValueError, "0 sample"),
        (X[:, :0], ValueError, r"0 feature\(s\)"),
        (X[0], ValueError, "2D array"),
        (X.astype(complex), ValueError, "[Cc]omplex"),
        (X.astype(str).astype(object) + "a", ValueError, "could not convert"),
        (np.ones((30, 4)), ValueError, "equal after preparation"),
        (np.zeros((30, 4)), ValueError, "equal after preparation"),
    ],
    ids=["nan", "inf", "one row", "no rows", "no features", "one axis", "complex", "strings", "equal rows", "zeros"],
)
@pytest.mark.filterwarnings("ignore::adaam.ZeroRowWarning")
def test_rows_that_cannot_be_learned_from_are_refused(model, rows, error, message):
    with pytest.raises(error, match=message):
        clone(model).fit(rows)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_wrong_number_of_features_is_refused_at_transform(model):
    fitted = clone(model).fit(X)
    with pytest.raises(ValueError, match="4 features"):
        fitted.transform(X[:, :3])
    with pytest.raises(ValueError, match="components"):
        fitted.inverse_transform(X[:, :1].repeat(9, axis=1))
    with pytest.raises(ValueError, match="pairs has shape"):
        fitted.pair_distance(X)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(29), "one weight a row"),
        (np.ones((30, 1)), "one weight a row"),
        (np.full(30, -1.0), "cannot count fewer than 0 times"),
        (np.zeros(30), "no row is left"),
        (np.full(30, np.nan), "NaN"),
        ("yes", "sample_weight='yes' is a str: pass one weight a row"),
        (np.r_[1.0, np.zeros(29)], "equal after preparation|exceeds"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        AdaAM(3).fit(X, sample_weight=weights)


def test_one_feature_is_refused_under_unit_length_and_learned_from_otherwise():
    rows = np.abs(X[:, :1]) + 1
    with pytest.raises(ValueError, match='n_features=1.*preparation="linear"'):
        AdaAM(3).fit(rows)
    Z = AdaAM(3, preparation="linear").fit_transform(rows)
    assert Z.shape == (30, 1)
    assert abs(np.corrcoef(Z[:, 0], rows[:, 0])[0, 1]) == pytest.approx(1.0)


def test_lpp_refuses_an_affinity_it_cannot_use():
    W = csr_array(np.triu(np.ones((30, 30))))
    with pytest.raises(ValueError, match="not symmetric"):
        LPP(2).fit(X, affinity=W)
    with pytest.raises(ValueError, match="shape"):
        LPP(2).fit(X, affinity=csr_array(np.eye(29)))
    with pytest.raises(TypeError, match="no sparse matrix"):
        LPP(2).fit(X, affinity=np.eye(30))
    with pytest.raises(ValueError, match="would be ignored"):
        LPP(2).fit(X, affinity=csr_array(np.eye(30)), sample_weight=np.ones(30))


@settings(deadline=None, max_examples=60)
@given(clouds(min_rows=4), st.sampled_from(["unit", "linear", "center"]), st.integers(1, 4))
def test_any_cloud_gives_a_finite_map_or_a_clear_error(rows, preparation, n_clusters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adaam.DisconnectedGraphWarning)
        warnings.simplefilter("ignore", adaam.UnlikeUnitsWarning)
        warnings.simplefilter("ignore", adaam.ZeroRowWarning)
        try:
            model = AdaAM(n_clusters, preparation=preparation).fit(rows)
        except ValueError as error:
            assert "equal after preparation" in str(error)  # noqa: PT017
            return
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.transform(rows)).all()
    assert 1 <= model.n_components_ <= max(n_clusters, 1)
    assert np.isfinite(model.eigenvalues_).all()
