"""Clusters of rows that do not fit in memory."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs

from adaam import AdaAMClustering
from adaam.cli import main
from adaam.estimators import stored_rows
from adaam.rows import ArrayRows, BlockRows
from adaam.scores import clustering_accuracy


@pytest.mark.parametrize("counted", [True, False])
def test_a_clusterer_keeps_some_rows_of_a_large_source_and_labels_all(monkeypatch, counted):
    X, y = make_blobs(900, n_features=5, centers=3, cluster_std=0.4, random_state=0)
    monkeypatch.setattr(stored_rows, "LOADED_BYTES", 300 * 5 * 8)
    source = BlockRows(lambda: np.array_split(X, 7), n_rows=len(X) if counted else None)
    model = AdaAMClustering(3, head="graph").fit(source)
    assert len(model.embedding_) == 300
    assert len(model.labels_) == 900
    assert clustering_accuracy(y, model.labels_) == 1.0
    assert_array_equal(model.predict(source), model.labels_)
    assert_array_equal(model.predict(X), model.labels_)


def test_a_clusterer_loads_a_small_source():
    X, _ = make_blobs(120, n_features=5, centers=3, random_state=0)
    loaded, direct = (AdaAMClustering(3).fit(rows) for rows in (ArrayRows(X, names=list("abcde")), X))
    assert_array_equal(loaded.labels_, direct.labels_)
    assert list(loaded.feature_names_in_) == list("abcde")


def test_rows_of_weight_zero_in_a_large_source_are_not_learned_from(monkeypatch):
    X, _ = make_blobs(400, n_features=5, centers=3, random_state=0)
    weights = np.repeat([1.0, 0.0], 200)
    X[200:] += 100.0
    monkeypatch.setattr(stored_rows, "LOADED_BYTES", 150 * 5 * 8)
    model = AdaAMClustering(3, head="graph").fit(ArrayRows(X), sample_weight=weights)
    assert len(model.embedding_) == 150
    assert np.abs(model.inverse_transform(model.embedding_)).max() < 50.0
    assert len(model.labels_) == 400


def test_the_command_clusters_a_file_too_large_to_load(monkeypatch, tmp_path):
    X, y = make_blobs(900, n_features=5, centers=3, cluster_std=0.4, random_state=0)
    np.save(tmp_path / "rows.npy", X)
    monkeypatch.setattr(stored_rows, "LOADED_BYTES", 300 * 5 * 8)
    labels = tmp_path / "labels.npy"
    assert main(["cluster", str(tmp_path / "rows.npy"), "--clusters", "3", "-o", str(labels)]) == 0
    assert clustering_accuracy(y, np.load(labels)) == 1.0


def test_the_command_does_not_draw_a_file_too_large_to_load(monkeypatch, tmp_path, capsys):
    X, _ = make_blobs(900, n_features=5, centers=3, random_state=0)
    np.save(tmp_path / "rows.npy", X)
    monkeypatch.setattr(stored_rows, "LOADED_BYTES", 300 * 5 * 8)
    picture = tmp_path / "picture.png"
    assert main(["cluster", str(tmp_path / "rows.npy"), "--clusters", "3", "--plot", str(picture)]) != 0
    assert "too large to draw" in capsys.readouterr().err
    assert not picture.exists()
