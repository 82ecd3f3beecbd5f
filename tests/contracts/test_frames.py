"""Tables of pandas, polars and pyarrow as input; arrays or `set_output` frames as output; feature names are kept."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_blobs

from adaam import CAN, LPP, LSC, PCAN, AdaAM, AdaAMClustering

pytestmark = [
    pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

NAMES = [f"f{j}" for j in range(6)]
X, _ = make_blobs(90, 6, centers=3, random_state=0)
COLUMNS = dict(zip(NAMES, X.T, strict=True))


def make_pandas():
    return pytest.importorskip("pandas").DataFrame(COLUMNS)


def make_polars():
    return pytest.importorskip("polars").DataFrame(COLUMNS)


def make_pyarrow():
    return pytest.importorskip("pyarrow").table(COLUMNS)


@pytest.fixture(params=[make_pandas, make_polars, make_pyarrow], ids=["pandas", "polars", "pyarrow"])
def table(request):
    return request.param()


@pytest.fixture(params=[AdaAM(3), LPP(2), PCAN(3), AdaAMClustering(3)], ids=str)
def model(request):
    return clone(request.param)


@pytest.mark.parametrize("estimator", [AdaAM(3), LPP(2), PCAN(3), AdaAMClustering(3), CAN(3), LSC(3, n_landmarks=20)])
def test_a_table_is_its_rows_and_its_names(estimator, table):
    from_rows, from_table = clone(estimator).fit(X), clone(estimator).fit(table)
    np.testing.assert_array_equal(from_table.feature_names_in_, NAMES)
    for method in ("transform", "predict"):
        if hasattr(estimator, method):
            expected = getattr(from_rows, method)(X)
            np.testing.assert_allclose(getattr(from_table, method)(table), expected, atol=1e-12)
    if hasattr(estimator, "fit_predict"):
        np.testing.assert_array_equal(from_table.labels_, from_rows.labels_)


def test_the_output_is_numpy_unless_a_frame_was_asked_for(model, table):
    assert isinstance(model.fit(table).transform(table), np.ndarray)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_the_frame_asked_for_comes_out_whatever_came_in(model, table, kind):
    frames = pytest.importorskip(kind)
    out = model.set_output(transform=kind).fit_transform(table)
    assert isinstance(out, frames.DataFrame)
    assert list(out.columns) == list(model.get_feature_names_out())
    np.testing.assert_array_equal(out.to_numpy(), clone(model).set_output(transform="default").fit_transform(table))


def test_arrow_comes_out_by_way_of_polars():
    """scikit-learn's set_output does not support pyarrow; a polars frame converts to it without a copy."""
    pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    model = AdaAM(3).set_output(transform="polars")
    out = model.fit_transform(make_pyarrow()).to_arrow()
    assert isinstance(out, pyarrow.Table)
    assert out.column_names == ["adaam0", "adaam1", "adaam2"]
    with pytest.raises(ValueError, match="pyarrow"):
        AdaAM(3).set_output(transform="pyarrow").fit_transform(make_pyarrow())


def test_other_names_are_refused():
    pandas = pytest.importorskip("pandas")
    model = AdaAM(3).fit(make_pandas())
    with pytest.raises(ValueError, match="feature names"):
        model.transform(pandas.DataFrame(X, columns=[f"g{j}" for j in range(6)]))


def test_names_reach_explanations_and_pass_through_a_column_transformer():
    frame = make_pandas()
    assert dict(AdaAM(3).fit(frame).explain().top(6)).keys() == set(NAMES)
    both = ColumnTransformer([("metric", AdaAM(3), NAMES[:4]), ("rest", "passthrough", NAMES[4:])])
    out = both.set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == ["metric__adaam0", "metric__adaam1", "metric__adaam2", "rest__f4", "rest__f5"]
