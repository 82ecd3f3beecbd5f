import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
    CPUEngine,
    HeatKernel,
    ModelFileError,
    Preparation,
)

FRAME = load_iris(as_frame=True).data
X = FRAME.to_numpy()

pytestmark = [
    pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

MODELS = [
    AdaAM(3),
    AdaAM(
        3,
        preparation=Preparation(row_scaling="none", keep=3),
        affinity=AdaptiveAffinity(alphas=(2.0, 4.0), heat=HeatKernel(width=np.inf)),
        engine=CPUEngine(tile_bytes=1 << 20),
    ),
    LPP(2, affinity=adaam.KNNAffinity(n_neighbors=4)),
    AdaAMClustering(3, learner=LPP(2)),
    PCAN(3),
]


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "model.adaam"
    adaam.save(AdaAM(3).fit(X), path)
    return path


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_model_comes_back_whole(model, tmp_path):
    path = tmp_path / "model.adaam"
    model.fit(FRAME)
    adaam.save(model, path)
    again = adaam.load(path)
    assert repr(again) == repr(model)
    np.testing.assert_array_equal(again.transform(FRAME), model.transform(FRAME))
    np.testing.assert_array_equal(again.feature_names_in_, model.feature_names_in_)
    told = "effects" if hasattr(model, "cluster_profiles_") else "share"
    np.testing.assert_array_equal(getattr(again.explain(), told), getattr(model.explain(), told))
    assert set(vars(again)) == set(vars(model))
    if hasattr(model, "predict"):
        np.testing.assert_array_equal(again.predict(FRAME), model.labels_)
    again.fit(FRAME)  # and can be fitted anew


@pytest.mark.parametrize("model", [CAN(2), LSC(3, n_landmarks=30)], ids=str)
def test_clusterers_without_a_map_come_back_too(model, tmp_path):
    model.fit(X)
    adaam.save(model, tmp_path / "model.adaam")
    again = adaam.load(tmp_path / "model.adaam")
    np.testing.assert_array_equal(again.labels_, model.labels_)
    assert set(vars(again)) == set(vars(model))


def test_the_file_is_plain_arrays_and_json(model_file):
    with zipfile.ZipFile(model_file) as archive:
        header = json.loads(archive.read("header.json"))
        arrays = {
            name: np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
            for name in archive.namelist()
            if name != "header.json"
        }
    assert header["format"] == "adaam-model"
    assert header["adaam_version"] == adaam.__version__
    assert {array.dtype.kind for array in arrays.values()} <= set("fiu")


def test_every_truncation_is_told_apart_from_a_model(model_file, tmp_path):
    whole = model_file.read_bytes()
    part = tmp_path / "part.adaam"
    for size in range(0, len(whole), max(1, len(whole) // 60)):
        part.write_bytes(whole[:size])
        with pytest.raises(ModelFileError, match="part.adaam"):
            adaam.load(part)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_damaged_file_gives_a_clear_error_or_a_model(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "model.adaam"
    adaam.save(LPP(1).fit(X), path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        model = adaam.load(path)
    except ModelFileError:
        return
    assert isinstance(model, LPP)


def rewritten(path, change):
    """The model file with its header changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    change(header)
    members["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(format="other"), "not an adaam model"),
        (lambda h: h.update(format_version=99), "format version 99.*Upgrade adaam"),
        (lambda h: h["model"].update({"class": "Popen"}), "unknown class 'Popen'"),
        (lambda h: h["model"]["fitted"].update({"__class__": 1}), "unexpected attribute '__class__'"),
        (lambda h: h["model"]["fitted"].update({"fit": 1}), "unexpected attribute 'fit'"),
        (lambda h: h["model"]["params"].update({"evil": 1}), "does not describe a model"),
        (lambda h: h["model"]["fitted"].update(mean_={"array": "model.eigenvalues_"}), "mean of shape"),
        (lambda h: h.pop("model"), "does not describe a model"),
    ],
)
def test_a_changed_header_is_refused(model_file, change, message):
    with pytest.raises(ModelFileError, match=message):
        adaam.load(rewritten(model_file, change))


def test_an_oversized_file_is_refused_before_it_is_unpacked(model_file):
    with pytest.raises(ModelFileError, match="more than max_bytes=1000"):
        adaam.load(model_file, max_bytes=1000)
    bomb = model_file.with_name("bomb.adaam")
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("zeros.npy", bytes(50_000_000))
    assert bomb.stat().st_size < 100_000
    with pytest.raises(ModelFileError, match="unpacks to 50000002 bytes"):
        adaam.load(bomb, max_bytes=10_000_000)


def test_an_array_that_claims_more_than_is_there_is_refused(tmp_path):
    path = tmp_path / "liar.adaam"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps({"format": "adaam-model", "format_version": 1}))
        archive.writestr("a.npy", header.getvalue())
    with pytest.raises(ModelFileError, match="does not hold the array it claims"):
        adaam.load(path)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x05\x06" + bytes(18)])
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="not an adaam model"):
        adaam.load(path)


def test_a_pickle_inside_is_never_opened(tmp_path):
    path = tmp_path / "evil.adaam"
    evil = io.BytesIO()
    np.save(evil, np.array([print], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps({"format": "adaam-model", "format_version": 1}))
        archive.writestr("a.npy", evil.getvalue())
    with pytest.raises(ModelFileError, match="does not hold the array it claims"):
        adaam.load(path)


def test_parts_of_ones_own_cannot_be_stored_as_data(tmp_path):
    class Mine(adaam.KNNAffinity):
        pass

    model = LPP(2, affinity=Mine()).fit(X)
    with pytest.raises(TypeError, match=r"affinity=Mine\(\) .* joblib"):
        adaam.save(model, tmp_path / "mine.adaam")
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_an_unfitted_model_is_not_written(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        adaam.save(AdaAM(), tmp_path / "model.adaam")


def test_a_write_that_fails_half_way_leaves_the_old_file(model_file, monkeypatch):
    before = model_file.read_bytes()

    def fail(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr("adaam.storage.npy.write_array", fail)
    with pytest.raises(OSError, match="no space"):
        adaam.save(AdaAM(2).fit(X), model_file)
    assert model_file.read_bytes() == before
    assert list(model_file.parent.iterdir()) == [model_file]
