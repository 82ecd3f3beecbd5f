"""Exhibits: every array against a slow version of it, and invalid files."""

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from adaam import AdaAM, AdaAMClustering
from adaam.bench import exhibit as exhibits
from adaam.bench.datasets import Data
from adaam.bench.exhibit import (
    ARRAYS,
    MAX_SIDE,
    ExhibitError,
    exhibit_path,
    exhibited,
    is_there,
    leading_features,
    make_exhibit,
    make_exhibits,
    matched,
    plane,
    read_exhibit,
    reduced,
    spread_plane,
    write_exhibit,
)
from adaam.bench.methods import METHODS
from adaam.bench.plan import read_plan
from adaam.bench.run import run_case
from adaam.scores import clustering_accuracy

N = 250
pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")


@pytest.fixture(scope="module")
def digits():
    found = load_digits()
    return Data(found.data[:N], found.target[:N], (8, 8))


@pytest.fixture(scope="module")
def exhibit(digits):
    return make_exhibit(digits, "tiny", seed=3, n_starts=2)


@pytest.fixture(scope="module")
def flowers():
    iris = load_iris()
    return make_exhibit(Data(iris.data, iris.target, None), "flowers")


@pytest.fixture
def few(digits, monkeypatch):
    monkeypatch.setattr("adaam.bench.exhibit.MAX_ROWS", 60)
    return make_exhibit(digits, "tiny", n_starts=1)


def test_the_chosen_clustering_is_that_of_the_clusterer_by_its_defaults(exhibit, digits):
    model = AdaAMClustering(10, random_state=3).fit(digits.X)
    clusters, confusion = matched(digits.classes, model.labels_, 10)
    np.testing.assert_array_equal(exhibit.chosen_clusters, clusters[exhibit.rows])
    np.testing.assert_array_equal(exhibit.chosen_confusion, confusion)
    chosen = exhibit.about["chosen"]
    assert chosen["acc"] == pytest.approx(clustering_accuracy(digits.classes, model.labels_))
    assert (chosen["head"], chosen["learned"]) == (model.head_, model.selection_.best.metric.startswith("AdaAM"))
    Z = model.transform(digits.X)
    away = np.linalg.norm(Z[:, None] - Z[None], axis=2) + 1e9 * np.eye(N)
    np.testing.assert_array_equal(exhibit.nearest_chosen[:, 0], away.argmin(axis=1))


def test_confusion_counts_every_row_and_its_diagonal_is_the_accuracy(exhibit, digits):
    counts = np.zeros((10, 10))
    for each, cluster in zip(digits.classes, exhibit.clusters, strict=True):
        counts[each, cluster] += 1
    np.testing.assert_array_equal(exhibit.confusion, counts)
    assert exhibit.confusion.sum() == N
    assert np.trace(exhibit.confusion) / N == exhibit.about["acc"]
    assert clustering_accuracy(digits.classes, exhibit.clusters) == exhibit.about["acc"]


def test_clusters_are_those_of_the_first_recorded_round(exhibit, digits):
    options = {"dataset": "tiny", "preparation": "reference", "n_rounds": 1, "seed": 3, "n_starts": 2}
    (record,) = run_case(METHODS["adaam"], digits.rows(), digits.classes, **options)
    for name in ("acc", "nmi", "ari", "n", "d", "c", "k", "seed", "n_starts"):
        assert exhibit.about[name] == record[name]


@pytest.mark.parametrize("space", ["before", "after"])
def test_neighbours_are_as_near_as_brute_force_finds_them(exhibit, digits, space):
    X = digits.rows()
    rows = X if space == "before" else AdaAM(10, n_neighbors=exhibit.about["k"]).fit_transform(X)
    found = getattr(exhibit, f"nearest_{space}")
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert not (found == np.arange(N)[:, None]).any(), "a row is not its own neighbour"
    expected = np.sort(distances, axis=1)[:, : found.shape[1]]
    np.testing.assert_allclose(np.take_along_axis(distances, found, axis=1), expected, rtol=1e-7, atol=1e-7)


def test_tiles_are_the_images_of_the_rows(exhibit, digits):
    X = digits.rows()
    assert exhibit.tiles.dtype == np.uint8
    for place, row in enumerate(exhibit.rows):
        image = 255 * (X[row] - X.min()) / (X.max() - X.min())
        np.testing.assert_array_equal(exhibit.tiles[place].ravel(), np.round(image))


def test_planes_keep_as_much_spread_as_two_directions_can(exhibit, digits):
    X = digits.rows()
    centred = X - X.mean(axis=0)
    largest = np.linalg.svd(centred, compute_uv=False)[:2] ** 2
    np.testing.assert_allclose((exhibit.before.astype(float) ** 2).sum(axis=0), largest, rtol=1e-5)


def test_the_learned_plane_is_that_of_the_centres(rng):
    Z, centers = rng.standard_normal((40, 5)), rng.standard_normal((4, 5))
    _, _, directions = np.linalg.svd(centers - centers.mean(axis=0))
    expected = (Z - centers.mean(axis=0)) @ directions[:2].T
    np.testing.assert_allclose(np.abs(spread_plane(Z, centers)), np.abs(expected), atol=1e-10)


def test_one_component_and_two_centres_still_make_a_plane(rng):
    assert plane(rng.standard_normal((9, 1)), rng.standard_normal((4, 1))).shape == (9, 2)
    assert spread_plane(rng.standard_normal((9, 3)), rng.standard_normal((2, 3))).shape == (9, 2)


def test_components_are_those_of_the_fit(exhibit, digits):
    metric = AdaAM(10, n_neighbors=exhibit.about["k"]).fit(digits.rows())
    np.testing.assert_allclose(exhibit.components.reshape(10, 64), metric.components_, rtol=1e-5, atol=1e-6)
    unit = digits.rows() / np.linalg.norm(digits.rows(), axis=1, keepdims=True)
    centred = unit - unit.mean(axis=0)
    covariance = metric.transform(digits.rows()).T @ centred / N
    shape = exhibit.patterns.reshape(10, 64)
    np.testing.assert_allclose(shape * (covariance[0] @ shape[0] / (shape[0] @ shape[0])), covariance, atol=1e-6)


def test_matching_is_the_best_of_all_permutations(rng):
    from itertools import permutations

    classes, labels = rng.integers(0, 4, 50), rng.integers(0, 4, 50)
    numbers, counts = matched(classes, labels, 4)
    best = max(np.mean(classes == np.array(order)[labels]) for order in permutations(range(4)))
    assert np.mean(classes == numbers) == best
    assert counts.sum() == 50


def test_of_many_rows_some_are_drawn_the_same_each_time(few, digits, monkeypatch):
    monkeypatch.setattr("adaam.bench.exhibit.MAX_ROWS", 60)
    again = make_exhibit(digits, "tiny", n_starts=1)
    assert len(few.rows) == 60
    assert (np.diff(few.rows) > 0).all()
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(few, name), getattr(again, name))
    np.testing.assert_array_equal(few.classes, digits.classes[few.rows])
    assert few.nearest_after.max() < 60
    assert few.confusion.sum() == N, "the confusion is of all rows"


def test_long_sides_are_reduced_by_means_of_blocks(rng):
    images = rng.random((3, 100 * 7))
    small = reduced(images, (100, 7))
    assert small.shape == (3, 33, 2)
    assert small[1, 4, 1] == pytest.approx(images[1].reshape(100, 7)[12:15, 3:6].mean())
    assert max(reduced(images, (7, 100)).shape[1:]) <= MAX_SIDE
    assert reduced(rng.random((2, 100)), (1, 100)).shape == (2, 1, 33)
    np.testing.assert_array_equal(reduced(images, (28, 25)), images.reshape(3, 28, 25))


def test_rows_that_are_no_images_have_profiles_on_each_features_own_scale(flowers):
    X = load_iris().data
    scaled = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    np.testing.assert_array_equal(flowers.tiles[:, 0], np.round(255 * scaled))
    np.testing.assert_array_equal(flowers.features, np.arange(4))
    assert not flowers.about["is_image"]


def test_of_many_features_those_that_count_most_are_kept(rng):
    share = rng.random(500)
    kept = leading_features(share)
    assert len(kept) == 128
    assert share[kept].min() > np.delete(share, kept).max()
    assert (np.diff(kept) > 0).all()


def test_a_file_gives_back_what_was_written(exhibit, flowers, tmp_path):
    for each in (exhibit, flowers):
        write_exhibit(each, tmp_path)
        read = read_exhibit(tmp_path, each.about["dataset"])
        assert read.about == json.loads(json.dumps(each.about))
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(read, name), getattr(each, name))
            assert getattr(read, name).dtype == getattr(each, name).dtype
    assert read_exhibit(tmp_path, "nothing") is None


@pytest.mark.parametrize("name", ["../../escape", "a/b", "</script>", "..", "con:x", "übung"])
def test_a_name_is_only_ever_a_name(exhibit, tmp_path, name):
    folder = tmp_path / "exhibits"
    path = write_exhibit(replace(exhibit, about={**exhibit.about, "dataset": name}), folder)
    assert path.parent == folder
    assert [each.parent for each in tmp_path.rglob("*.npz")] == [folder]
    assert read_exhibit(folder, name).about["dataset"] == name


def rewritten(exhibit, folder, **changes):
    """Write a file with some arrays or header fields replaced."""
    path = write_exhibit(exhibit, folder)
    with np.load(path) as found:
        arrays = {name: found[name] for name in found}
    about = json.loads(arrays["about"].tobytes())
    for name, value in changes.items():
        if name in ARRAYS or isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            about[name] = value
    if "about" not in changes:
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": np.arange(N)}, "rows is int64"),
        ({"rows": np.full(N, N, dtype=np.int32)}, "rows has values outside"),
        ({"classes": np.full(N, 10, dtype=np.int32)}, "classes has values outside"),
        ({"nearest_after": np.full((N, 8), N, dtype=np.int32)}, "nearest_after has values outside"),
        ({"nearest_before": np.full((N, 8), -1, dtype=np.int32)}, "nearest_before has values outside"),
        ({"before": np.full((N, 2), np.nan, dtype=np.float32)}, "not finite"),
        ({"after": np.zeros((N, 3), dtype=np.float32)}, r"after is float32 of shape \(250, 3\)"),
        ({"tiles": np.zeros((N, 8), dtype=np.uint8)}, "tiles"),
        (
            {
                "tiles": np.zeros((N, 50, 50), dtype=np.uint8),
                **dict.fromkeys(("components", "patterns"), np.zeros((1, 50, 50), np.float32)),
            },
            r"tiles has shape \(250, 50, 50\); a side of 1 to 40 is 50",
        ),
        (
            dict.fromkeys(("components", "patterns"), np.zeros((65, 8, 8), np.float32)),
            r"components has shape \(65, 8, 8\); a side of 1 to 64 is 65",
        ),
        ({"patterns": np.zeros((9, 8, 8), dtype=np.float32)}, "patterns is float32"),
        ({"confusion": np.ones((10, 10), dtype=np.int32)}, "confusion counts 100 rows of 250"),
        ({"format": "adaam-exhibit-9"}, "its format"),
        ({"dataset": "other"}, "it is of 'other'"),
        ({"acc": "<b>"}, "acc='<b>'"),
        ({"c": "10"}, "c='10'"),
        ({"about": np.zeros(3)}, "its header is no text"),
        ({"about": np.frombuffer(b"[1", dtype=np.uint8)}, "cannot be read as the exhibit of"),
        ({"more": np.zeros(3)}, "more.npy"),
    ],
)
def test_a_file_of_another_form_is_refused(exhibit, tmp_path, change, message):
    rewritten(exhibit, tmp_path, **change)
    with pytest.raises(ExhibitError, match=message):
        read_exhibit(tmp_path, "tiny")


def test_a_pickle_is_never_loaded(exhibit, tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was loaded",))

    rewritten(exhibit, tmp_path, rows=np.array([Trap()], dtype=object))
    with pytest.raises(ExhibitError, match="pickle"):
        read_exhibit(tmp_path, "tiny")


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_read(tmp_path, monkeypatch):
    with zipfile.ZipFile(exhibit_path(tmp_path, "tiny"), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.npy", b"\0" * (exhibits.MAX_BYTES + 1))
    monkeypatch.setattr(np, "load", None)
    with pytest.raises(ExhibitError, match="more than max_bytes"):
        read_exhibit(tmp_path, "tiny")


def test_an_array_that_claims_more_than_the_file_holds_is_refused(exhibit, tmp_path):
    path = write_exhibit(exhibit, tmp_path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["rows.npy"] = members["rows.npy"].replace(b"'shape': (250,), }      ", b"'shape': (2500000000,), }")
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ExhibitError):
        read_exhibit(tmp_path, "tiny")


@pytest.mark.parametrize("length", [0, 100, 5000])
def test_a_file_cut_short_is_refused(exhibit, tmp_path, length):
    path = write_exhibit(exhibit, tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ExhibitError, match="its end is missing"):
        read_exhibit(tmp_path, "tiny")


@pytest.fixture
def home(tmp_path):
    found = load_digits()
    for name in ("tiny", "second"):
        np.savez(tmp_path / f"{name}.npz", X=found.data[:120], y=found.target[:120], image_shape=(8, 8))
    (tmp_path / "plan.toml").write_text(
        "starts = 1\nrounds = 1\n[experiments.a]\ndatasets = ['tiny', 'second']\nmethods = ['adaam', 'knn']\n"
        "[experiments.b]\ndatasets = ['tiny']\nmethods = ['adaam']\nn_rows = [50]\nn_neighbors = [3, 4]\n"
    )
    return tmp_path


def test_there_is_one_exhibit_a_data_set_of_the_default_fit(home):
    cases = read_plan(home / "plan.toml").cases
    assert [(case.dataset, case.method) for case in exhibited(cases)] == [("tiny", "adaam"), ("second", "adaam")]


def test_what_is_there_is_not_made_again_and_what_fails_stops_nobody(home, monkeypatch):
    cases = read_plan(home / "plan.toml").cases
    folder, told = home / "exhibits", []
    (home / "tiny.npz").rename(home / "away.npz")
    ((name, reason),) = make_exhibits(cases, home, folder, told.append)
    assert name == "exhibit of tiny"
    assert "DataFileError" in reason
    assert [path.name for path in folder.iterdir()] == ["second.npz"]
    (home / "away.npz").rename(home / "tiny.npz")
    before = (folder / "second.npz").stat().st_mtime_ns
    assert make_exhibits(cases, home, folder, told.append) == []
    assert (folder / "second.npz").stat().st_mtime_ns == before
    monkeypatch.setattr(exhibits, "make_exhibit", lambda *_, **__: pytest.fail("a fit was asked for"))
    assert make_exhibits(cases, home, folder, told.append) == []


def test_a_damaged_or_other_exhibit_is_made_anew(home):
    (case, _) = exhibited(read_plan(home / "plan.toml").cases)
    folder = home / "exhibits"
    assert not is_there(case, folder)
    make_exhibits([case], home, folder, lambda line: None)
    assert is_there(case, folder)
    assert not is_there(replace(case, seed=5), folder)
    exhibit_path(folder, "tiny").write_bytes(b"PK")
    assert not is_there(case, folder)
