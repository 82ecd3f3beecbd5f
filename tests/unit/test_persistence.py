"""Saved models: skops stores them without unknown types, and ten lines of NumPy apply them."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import adaam
from adaam import (
    CAN,
    LPP,
    LSC,
    PCAN,
    AdaAM,
    AdaAMClustering,
    AdaptiveAffinity,
    ConsensusAffinity,
    CPUEngine,
    DominantAffinity,
    ForestAffinity,
    HeatKernel,
    KNNAffinity,
    Preparation,
)
from adaam.export import skops_types

FRAME = load_iris(as_frame=True).data
SNIPPETS = Path(__file__).parents[2] / "docs" / "snippets"

pytestmark = [
    pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

MODELS = [
    AdaAM(3),
    AdaAM(
        3,
        preparation=Preparation(row_scaling="none", keep=0.95),
        affinity=AdaptiveAffinity(heat=HeatKernel(width=5.0)),
        engine=CPUEngine(tile_bytes=1 << 20),
    ),
    LPP(2),
    LPP(2, affinity=KNNAffinity(n_neighbors=6)),
    LPP(2, affinity=ConsensusAffinity()),
    LPP(2, affinity=DominantAffinity()),
    LPP(2, affinity=ForestAffinity()),
    AdaAMClustering(3),
    AdaAMClustering(3, learner=LPP(2)),
    PCAN(3),
    CAN(3),
    LSC(3, n_landmarks=30),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: " ".join(repr(model).split()))
def test_skops_keeps_a_model_whole_and_meets_no_type_we_do_not_name(model):
    skops = pytest.importorskip("skops.io")
    model = clone(model).fit(FRAME)
    stored = skops.dumps(model)
    assert set(skops.get_untrusted_types(data=stored)) <= set(skops_types())
    again = skops.loads(stored, trusted=skops_types())
    assert repr(again) == repr(model)
    np.testing.assert_array_equal(again.feature_names_in_, model.feature_names_in_)
    for method in ("transform", "predict"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(again, method)(FRAME), getattr(model, method)(FRAME))
    if hasattr(model, "labels_"):
        np.testing.assert_array_equal(again.labels_, model.labels_)


def test_the_types_named_for_skops_are_ours_or_scipys_sparse_array():
    foreign = [name for name in skops_types() if not name.startswith("adaam.")]
    assert foreign == ["scipy.sparse._csr.csr_array"]


@pytest.mark.parametrize("model", [AdaAM(3), AdaAM(3, preparation="linear"), LPP(2), AdaAMClustering(3)], ids=str)
def test_ten_lines_of_numpy_apply_a_saved_model(model, tmp_path):
    spec = importlib.util.spec_from_file_location("apply", SNIPPETS / "apply.py")
    apply = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(apply)
    X = FRAME.to_numpy()
    adaam.save(model.fit(X), tmp_path / "model.adaam")
    rows = np.vstack([X, np.zeros((1, 4))])
    mapped = apply.transform(rows, *apply.read_map(tmp_path / "model.adaam"))
    np.testing.assert_allclose(mapped, model.transform(rows), atol=1e-12)
