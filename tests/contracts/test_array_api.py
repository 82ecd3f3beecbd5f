"""Arrays of other libraries under scikit-learn's `array_api_dispatch`: accepted, and returned in the same kind.

SciPy reads SCIPY_ARRAY_API once, on import, so these tests run in their own process.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from adaam import CAN, LPP, LSC, PCAN, AdaAM, AdaAMClustering

ALLOWED = os.environ.get("SCIPY_ARRAY_API") == "1"
inside = pytest.mark.skipif(not ALLOWED, reason="runs in a process with SCIPY_ARRAY_API=1, which the first test starts")

pytestmark = [
    pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

X, _ = make_blobs(90, 6, centers=3, random_state=0)
MODELS = [AdaAM(3), AdaAM(3, preparation="linear"), LPP(2), PCAN(3), AdaAMClustering(3), LSC(3, n_landmarks=20)]


@pytest.mark.skipif(ALLOWED, reason="this is that process")
def test_all_of_this_file_in_a_process_where_scipy_allows_foreign_arrays():
    pytest.importorskip("array_api_strict")
    keep_out = ("PYTEST_", "COV_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(keep_out)}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", __file__],
        env=environment | {"SCIPY_ARRAY_API": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout
    assert "passed" in run.stdout


@pytest.fixture(params=["array_api_strict", "torch"])
def xp(request):
    return pytest.importorskip(request.param)


@pytest.fixture(params=MODELS, ids=str)
def model(request):
    return clone(request.param)


def numpy_of(array):
    return array.numpy() if hasattr(array, "numpy") else np.from_dlpack(array)


@inside
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_come_in_the_kind_of_the_input_and_equal_those_of_numpy(model, xp, dtype):
    rows = X.astype(dtype)
    foreign = xp.asarray(rows)
    expected = clone(model).fit(rows)
    with config_context(array_api_dispatch=True):
        model.fit(foreign)
        for method in ("transform", "fit_transform", "predict"):
            if hasattr(model, method):
                got, wanted = getattr(model, method)(foreign), getattr(expected, method)(rows)
                assert type(got) is type(foreign)
                assert numpy_of(got).dtype == wanted.dtype
                np.testing.assert_array_equal(numpy_of(got), wanted)


@inside
def test_fitted_attributes_are_numpy(model, xp):
    with config_context(array_api_dispatch=True):
        model.fit(xp.asarray(X))
    expected = clone(model).fit(X)
    for name, value in vars(expected).items():
        if isinstance(value, np.ndarray):
            assert isinstance(getattr(model, name), np.ndarray)
            np.testing.assert_array_equal(getattr(model, name), value)


@inside
def test_weights_preimages_and_distances_too(xp):
    weights = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    expected = AdaAM(3).fit(X, sample_weight=weights)
    with config_context(array_api_dispatch=True):
        model = AdaAM(3).fit(xp.asarray(X), sample_weight=xp.asarray(weights))
        Z = model.transform(xp.asarray(X))
        back = model.inverse_transform(Z)
        distances = model.pair_distance(xp.asarray(X[:20].reshape(10, 2, 6)))
        assert type(back) is type(distances) is type(Z)
    np.testing.assert_array_equal(numpy_of(back), expected.inverse_transform(expected.transform(X)))
    np.testing.assert_array_equal(numpy_of(distances), expected.pair_distance(X[:20].reshape(10, 2, 6)))


@inside
def test_pipelines_hand_foreign_arrays_on(xp):
    pipeline = make_pipeline(AdaAM(3), LPP(2))
    with config_context(array_api_dispatch=True):
        Z = pipeline.fit_transform(xp.asarray(X))
        assert type(Z) is type(xp.asarray(X))
    np.testing.assert_array_equal(numpy_of(Z), pipeline.fit_transform(X))


@inside
def test_a_clusterer_without_predict_takes_foreign_arrays(xp):
    with config_context(array_api_dispatch=True):
        labels = CAN(3).fit_predict(xp.asarray(X))
    np.testing.assert_array_equal(labels, CAN(3).fit_predict(X))


@pytest.mark.parametrize("model", [AdaAM(3), AdaAMClustering(3)])
def test_a_tensor_on_a_device_is_refused_with_the_way_out(model):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(TypeError, match=r'tensor on meta.*engine="gpu".*X\.cpu\(\)'):
        model.fit(torch.empty(90, 6, device="meta"))


def test_without_dispatch_tensors_become_numpy():
    torch = pytest.importorskip("torch")
    Z = AdaAM(3).fit_transform(torch.asarray(X))
    assert isinstance(Z, np.ndarray)


@inside
@pytest.mark.filterwarnings("ignore::adaam.ZeroRowWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", [AdaAM(), AdaAMClustering()], ids=str)
def test_scikit_learns_contract_holds_where_scipy_allows_foreign_arrays(estimator):
    check_estimator(estimator)
