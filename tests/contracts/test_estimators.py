"""scikit-learn's contract and ours, for every public estimator."""

import inspect
import pickle

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

import adaam
from adaam import CAN, LPP, LSC, PCAN, AdaAM, AdaAMClustering, Preparation, PreparedMetric

ESTIMATORS = [
    AdaAM(),
    AdaAM(preparation="linear"),
    LPP(),
    PreparedMetric(),
    PreparedMetric("standard"),
    AdaAMClustering(),
    PCAN(),
    CAN(),
    LSC(),
]

# The checks use tiny and sparse random rows, where these warnings are right and expected.
quiet = [
    pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning"),
    pytest.mark.filterwarnings("ignore::adaam.ZeroRowWarning"),
]
pytestmark = quiet


# Tiny noise has no eight clusters to find.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(params=[AdaAM(3), AdaAM(3, preparation="linear"), LPP(2), AdaAMClustering(3)], ids=str)
def estimator(request):
    return clone(request.param)


@pytest.fixture
def blobs():
    return make_blobs(120, n_features=6, centers=3, random_state=0)[0]


def test_fit_leaves_parameters_and_data_alone(estimator, blobs):
    blobs.flags.writeable = False
    before = {name: repr(value) for name, value in estimator.get_params().items()}
    estimator.fit(blobs)
    assert {name: repr(value) for name, value in estimator.get_params().items()} == before


def test_every_constructor_parameter_is_read_by_fit(estimator, blobs):
    read = set()

    class Recorder(type(estimator)):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    Recorder.__init__.__signature__ = inspect.signature(type(estimator).__init__)
    Recorder(**estimator.get_params(deep=False)).fit(blobs).transform(blobs)
    assert set(inspect.signature(type(estimator)).parameters) <= read


def test_the_constructor_has_at_most_nine_parameters(estimator):
    assert len(inspect.signature(type(estimator)).parameters) <= 9


def test_two_fits_have_the_same_bits(estimator, blobs):
    first, second = clone(estimator).fit(blobs), clone(estimator).fit(blobs)
    np.testing.assert_array_equal(first.components_, second.components_)
    np.testing.assert_array_equal(first.transform(blobs), second.transform(blobs))


def test_the_global_random_state_is_neither_read_nor_moved(estimator, blobs):
    np.random.seed(1)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = clone(estimator).fit(blobs).components_
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(clone(estimator).fit(blobs).components_, first)


@pytest.mark.parametrize("dump", [pickle, joblib], ids=["pickle", "joblib"])
def test_pickle_and_joblib_round_trips(estimator, blobs, dump, tmp_path):
    fitted = estimator.fit(blobs)
    with (tmp_path / "model").open("wb") as stream:
        dump.dump(fitted, stream)
    with (tmp_path / "model").open("rb") as stream:
        again = dump.load(stream)
    np.testing.assert_array_equal(again.transform(blobs), fitted.transform(blobs))


def test_float32_is_kept_and_agrees_with_float64(estimator, blobs):
    wide, narrow = clone(estimator).fit(blobs), clone(estimator).fit(blobs.astype(np.float32))
    assert narrow.components_.dtype == np.float32
    Z, z = wide.transform(blobs), narrow.transform(blobs.astype(np.float32))
    assert z.dtype == np.float32
    # Measured differences are about 3e-6 of the spread; the bound leaves a margin of thirty.
    np.testing.assert_allclose(Z @ Z.T, z @ z.T, atol=1e-4 * np.abs(Z @ Z.T).max())


# Ten digits do not fall into three clusters.
@pytest.mark.filterwarnings("ignore:Starts disagree:sklearn.exceptions.ConvergenceWarning")
def test_sparse_rows_give_the_map_of_dense_ones(estimator):
    X = load_digits().data[:300]
    dense, sparse = clone(estimator).fit(X), clone(estimator).fit(csr_array(X))
    Z, z = dense.transform(X), sparse.transform(csr_array(X))
    np.testing.assert_allclose(Z @ Z.T, z @ z.T, atol=1e-8 * np.abs(Z @ Z.T).max())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_gives_named_frames(estimator, blobs, library):
    frames = pytest.importorskip(library)
    names = [f"f{j}" for j in range(6)]
    frame = frames.DataFrame(dict(zip(names, blobs.T, strict=True)))
    out = estimator.set_output(transform=library).fit(frame).transform(frame)
    assert isinstance(out, frames.DataFrame)
    assert list(out.columns) == list(estimator.get_feature_names_out())
    np.testing.assert_array_equal(estimator.feature_names_in_, names)


def test_inverse_transform_is_the_least_squares_preimage(estimator, blobs):
    Z = estimator.fit(blobs).transform(blobs)
    back = estimator.inverse_transform(Z)
    assert back.shape == blobs.shape
    np.testing.assert_allclose((back - estimator.mean_) @ estimator.components_.T, Z, atol=1e-8)
    # No shorter deviation from the mean maps to Z: it lies in the row space of the components.
    null = np.linalg.svd(estimator.components_)[2][len(estimator.components_) :]
    np.testing.assert_allclose((back - estimator.mean_) @ null.T, 0.0, atol=1e-8)


def test_eigenvalues_ascend_and_signs_are_fixed(estimator, blobs):
    estimator.fit(blobs)
    learned = not isinstance(getattr(estimator, "metric_", estimator), PreparedMetric)
    # The eigenvalues of a PreparedMetric are variances, largest first.
    assert (np.diff(estimator.eigenvalues_) * (1 if learned else -1) >= 0).all()
    largest = np.abs(estimator.components_).argmax(axis=1)
    assert (estimator.components_[np.arange(len(largest)), largest] > 0).all()


@pytest.mark.parametrize("settings", [{"preparation": Preparation(keep=2)}, {"preparation": "center"}])
def test_nested_settings_are_reached_by_set_params(settings):
    model = AdaAM(3, **settings, affinity=adaam.AdaptiveAffinity(heat=adaam.HeatKernel()))
    model.set_params(affinity__heat__width=3.0, affinity__alphas=(2.0, 4.0))
    assert model.affinity.heat.width == 3.0
    assert clone(model).affinity.alphas == (2.0, 4.0)
