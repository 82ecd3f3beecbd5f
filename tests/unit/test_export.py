"""ONNX graphs give the same results as Python."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from adaam import CAN, LPP, PCAN, AdaAM, AdaAMClustering, AdaptiveAffinity, KNNAffinity, Preparation, export
from adaam.export import to_onnx
from direction_clusters import direction_clusters

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = [
    pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning"),
    pytest.mark.filterwarnings("ignore::adaam.ZeroRowWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

X = load_digits().data[:300]
MODELS = [
    AdaAM(5),
    AdaAM(5, preparation="linear"),
    LPP(3, preparation=Preparation("unit", 0.9)),
    PCAN(5, preparation=Preparation("none", 0.9)),
    AdaAMClustering(5, head="k-means"),
    AdaAMClustering(5, learner=LPP(4), head="k-means"),
    AdaAMClustering(5),
    AdaAMClustering(5, head="graph"),
    AdaAMClustering(5, learner=AdaAM(5), head="graph"),
]
CLUSTERERS = MODELS[3:]


def run(graph, rows):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": rows}), strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_embeddings_are_those_of_transform(model, dtype):
    rows = X.astype(dtype)
    model.fit(rows)
    expected = model.transform(rows)
    got = run(to_onnx(model), rows)["embedding"]
    assert got.dtype == dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", CLUSTERERS, ids=str)
def test_labels_are_those_of_predict_also_on_new_rows(model, dtype):
    rows = load_digits().data.astype(dtype)
    model.fit(rows[:300])
    np.testing.assert_array_equal(run(to_onnx(model), rows)["label"], model.predict(rows))


def test_labels_are_those_of_predict_where_rows_lie_between_clusters():
    """Midpoints of random pairs of rows, where votes are split."""
    model = AdaAMClustering(5, learner=AdaAM(5), head="graph").fit(X)
    rng = np.random.default_rng(0)
    rows = (X[rng.permutation(300)] + X[rng.permutation(300)]) / 2.0
    expected = model.predict(rows)
    centres = np.linalg.norm(model.transform(rows)[:, None] - model.cluster_centers_, axis=2).argmin(axis=1)
    assert (expected != centres).mean() > 0.02, "votes must matter here"
    np.testing.assert_array_equal(run(to_onnx(model), rows)["label"], expected)


@pytest.mark.parametrize("head", ["graph", "k-means"])
def test_labels_by_cosine_are_those_of_predict(head):
    rows, _ = direction_clusters(1200)
    model = AdaAMClustering(10, head=head).fit(rows[:900])
    assert model.distance_ == ("cosine" if head == "graph" else "euclidean")
    new = np.vstack([rows, np.zeros((1, 40))])
    np.testing.assert_array_equal(run(to_onnx(model), new)["label"], model.predict(new))


@pytest.mark.parametrize("n_rows", [4, 10, 15])
def test_few_known_rows_are_all_asked(n_rows):
    model = AdaAMClustering(2, learner=LPP(2, affinity=KNNAffinity(n_neighbors=2)), head="graph").fit(X[:n_rows])
    np.testing.assert_array_equal(run(to_onnx(model), X)["label"], model.predict(X))


def test_copies_of_rows_are_known_once_and_keep_their_cluster():
    model = AdaAMClustering(5, head="graph").fit(np.vstack([X, X[:100], X[:100]]))
    graph = to_onnx(model)
    (stored,) = [array for array in graph.graph.initializer if array.name == "stored"]
    assert list(stored.dims) == [len(np.unique(X, axis=0)), model.n_components_]
    np.testing.assert_array_equal(run(graph, X)["label"], model.labels_[:300])


def test_one_cluster_is_a_label_too():
    model = AdaAMClustering(1).fit(X)
    np.testing.assert_array_equal(run(to_onnx(model), X)["label"], np.zeros(300))


def test_a_graph_that_would_not_fit_says_what_does(monkeypatch):
    monkeypatch.setattr(export, "LARGEST_BYTES", 1000)
    model = AdaAMClustering(5, head="graph").fit(X)
    with pytest.raises(ValueError, match=r"would store 300 known rows in .* Use method=\"transform\""):
        to_onnx(model)
    assert len(to_onnx(model, method="transform").graph.output) == 1


@pytest.mark.parametrize("model", CLUSTERERS, ids=str)
def test_zero_rows_and_batches_of_any_size(model):
    model.fit(X)
    graph = to_onnx(model)
    for rows in (np.zeros((1, 64)), np.vstack([X[:2], np.zeros((1, 64)), X[3:4]]), X[:0]):
        got = run(graph, rows)
        assert got["embedding"].shape == (len(rows), model.n_components_)
        if len(rows):
            np.testing.assert_allclose(got["embedding"], model.transform(rows), atol=1e-12)
            np.testing.assert_array_equal(got["label"], model.predict(rows))


def test_a_row_has_the_same_image_alone_and_in_a_batch():
    graph = to_onnx(AdaAM(5).fit(X))
    together = run(graph, X)["embedding"]
    alone = np.vstack([run(graph, X[i : i + 1])["embedding"] for i in range(20)])
    np.testing.assert_allclose(alone, together[:20], atol=1e-13)


def test_precision_can_be_chosen_and_the_file_is_the_graph(tmp_path):
    model = AdaAM(5).fit(X)
    to_onnx(model, tmp_path / "model.onnx", dtype=np.float32)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (Z,) = session.run(None, {"X": X.astype(np.float32)})
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z, model.transform(X), atol=1e-5 * np.abs(Z).max())
    assert (tmp_path / "model.onnx").stat().st_size < 10_000


def test_a_clusterer_can_be_exported_as_a_transformer():
    graph = to_onnx(AdaAMClustering(5).fit(X), method="transform")
    assert [output.name for output in graph.graph.output] == ["embedding"]


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (CAN(5), {}, TypeError, "no linear map to export"),
        (AdaAM(5), {"method": "predict"}, TypeError, "AdaAM has no predict"),
        (AdaAM(5), {"method": "score"}, ValueError, "method='score' is not known"),
        (AdaAM(5), {"dtype": np.int32}, ValueError, "use np.float32 or np.float64"),
    ],
    ids=str,
)
def test_what_cannot_be_exported_says_why(model, options, error, message):
    if model.__class__ is not CAN:
        model.fit(X)
    with pytest.raises(error, match=message):
        to_onnx(model, **options)


def test_settings_do_not_matter_to_the_graph():
    model = AdaAM(5, affinity=AdaptiveAffinity(projection_rank=2.0), n_components=7).fit(X)
    np.testing.assert_allclose(run(to_onnx(model), X)["embedding"], model.transform(X), atol=1e-12)


def test_a_missing_onnx_names_the_extra():
    code = """
import sys
sys.modules["onnx"] = None
from adaam.export import to_onnx
try:
    to_onnx(None)
except ImportError as error:
    print(error)
"""
    run_ = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install adaam[onnx]" in run_.stdout
