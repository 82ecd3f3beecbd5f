"""How a fitted clusterer describes its clusters."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits, load_wine, make_blobs

from adaam import AdaAM, AdaAMClustering, load, save
from adaam.cluster_profile import cluster_profiles
from adaam.cluster_report.page import page
from adaam.metric import FeatureContributions
from adaam.rows import ArrayRows


@pytest.fixture(scope="module")
def wine():
    return load_wine(as_frame=True).data


@pytest.fixture(scope="module")
def model(wine):
    return AdaAMClustering(3).fit(wine)


def test_explain_tells_what_sets_each_cluster_apart(model, wine):
    """Regression: shares of the metric, 7.69 % for each of 13 features, said nothing about any cluster."""
    found = model.explain()
    wanted = cluster_profiles(wine.to_numpy(), model.labels_, 3)
    assert found.names == tuple(wine.columns)
    np.testing.assert_array_equal(found.sizes, np.bincount(model.labels_))
    np.testing.assert_allclose(found.effects, wanted.effects, rtol=1e-8)
    assert np.abs(found.effects).max(axis=1).min() > 1.5, "each cluster has a feature that sets it apart"


def test_explain_of_two_rows_is_about_their_distance(model, wine):
    found = model.explain(wine.iloc[0].to_numpy(), wine.iloc[100].to_numpy())
    assert isinstance(found, FeatureContributions)
    assert found.share.sum() == pytest.approx(1.0)


def test_the_metric_knows_the_columns_too(model, wine, tmp_path):
    assert model.metric_.explain().names == tuple(wine.columns)
    assert model.explain(wine.iloc[0].to_numpy(), wine.iloc[100].to_numpy()).names == tuple(wine.columns)
    given = AdaAMClustering(3, learner=AdaAM(3, preparation="standard")).fit(wine)
    assert given.metric_.explain().names == tuple(wine.columns)
    save(model, tmp_path / "wine.adaam")
    assert load(tmp_path / "wine.adaam").metric_.explain().names == tuple(wine.columns)


def test_a_source_of_rows_names_the_columns_of_the_metric(wine):
    model = AdaAMClustering(3).fit(ArrayRows(wine.to_numpy(), "wine", list(wine.columns)))
    assert model.metric_.explain().names == model.explain().names == tuple(wine.columns)


def test_explain_takes_names_where_the_rows_had_none(wine):
    X, names = wine.to_numpy(), [f"column {j}" for j in range(13)]
    model = AdaAMClustering(3).fit(X)
    assert model.metric_.explain().names[:2] == ("x0", "x1")
    for found in (model.explain(names=names), model.metric_.explain(names=names), model.explain(*X[:2], names=names)):
        assert found.names == tuple(names)
    with pytest.raises(ValueError, match="names holds 2 names, but the rows have 13 features"):
        model.explain(names=["a", "b"])
    with pytest.raises(ValueError, match="names holds 1 name, but the rows have 13 features"):
        model.metric_.explain(names=["a"])


def test_explanations_are_saved_with_the_model(model, tmp_path):
    save(model, tmp_path / "wine.adaam")
    again = load(tmp_path / "wine.adaam").explain()
    np.testing.assert_array_equal(again.effects, model.explain().effects)
    assert again.names == model.explain().names


def test_equal_rows_weights_and_sparse_rows_are_counted_alike():
    X, _ = make_blobs(90, 4, centers=3, random_state=0)
    weights = np.tile([1, 2, 3], 30)
    plain = AdaAMClustering(3).fit(np.repeat(X, weights, axis=0)).explain()
    weighted = AdaAMClustering(3).fit(X, sample_weight=weights).explain()
    sparse = AdaAMClustering(3).fit(csr_array(np.repeat(X, weights, axis=0))).explain()
    for other in (weighted, sparse):
        np.testing.assert_allclose(other.sizes, plain.sizes)
        np.testing.assert_allclose(other.effects, plain.effects, rtol=1e-6)


def test_the_report_of_a_table_names_its_columns(model, wine):
    data = model.report(wine, title="wine", ids=[f"bottle {i}" for i in range(178)]).data
    assert [card.size for card in data.cards] == np.bincount(model.labels_).tolist()
    assert {each.name for card in data.cards for each in card.effects} <= set(wine.columns)
    np.testing.assert_array_equal(data.strengths, model.probabilities_)
    assert [layer.sizes for layer in data.layers] == [
        tuple(np.bincount(layer.labels).tolist()) for layer in model.cluster_layers_
    ]
    assert "3 clusters in 178 rows" in page(data, "charting")
    assert "bottle 0" in page(data, "charting")


def test_the_report_of_images_shows_noise_and_pictures():
    X = load_digits().data[:400]
    model = AdaAMClustering(10, contamination=0.02).fit(X)
    data = model.report(X, images=(8, 8)).data
    np.testing.assert_array_equal(data.images, np.round(255 * X / 16).reshape(400, 8, 8))
    assert (data.labels == -1).sum() == 8
    assert all(card.pictures is not None for card in data.cards)
    assert "8 rows (2.0 %) belong to no cluster." in page(data, "charting")


def test_the_same_fit_gives_the_same_page(wine):
    pages = {page(AdaAMClustering("auto").fit(wine).report(wine).data, "charting") for _ in range(2)}
    assert len(pages) == 1
