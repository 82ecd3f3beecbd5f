"""The data that a report takes from a clusterer, and the page as a pure function of that data."""

import io
import json
import re
from base64 import b64decode
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.datasets import make_blobs

from adaam.cluster_report import ClusterReport, CountCurve, ReportData, report_data
from adaam.cluster_report import page as document
from adaam.cluster_report.layout import discriminant_plane, neighbor_map, spread_draw
from adaam.cluster_report.pictures import cluster_pictures, image_bytes, images_that_fit
from adaam.cluster_words import cluster_categories
from adaam.palette import cluster_color
from adaam.selection import ClusterCount, Selection, Trial
from adaam.webpage import data_url, png, sheet
from cluster_reports import EVIL, synthetic_report

N, C = 200, 4


class Clusterer(BaseEstimator):
    """Stub with all that a report needs of a fitted clusterer: blobs, two coarse clusters of two, one outlier."""

    def __init__(self, n=N):
        X, labels = make_blobs(n, 5, centers=C, random_state=0)
        self.X = X
        rng = np.random.default_rng(0)
        self.labels_ = labels.copy()
        self.labels_[7] = -1
        self.n_clusters_ = C
        self.probabilities_ = rng.uniform(0.4, 1.0, n)
        self.outlier_scores_ = np.where(np.arange(n) == 7, 0.95, rng.uniform(0, 0.4, n))
        dense = np.zeros((n, C))
        dense[np.arange(n), labels] = self.probabilities_
        dense[np.arange(n), (labels + 1) % C] = 1 - self.probabilities_
        self.memberships_ = csr_array(dense)
        coarse = np.where(self.labels_ < 0, -1, self.labels_ // 2)
        layer = lambda labels, c: SimpleNamespace(  # noqa: E731
            labels=labels, n_clusters=c, sizes=np.bincount(labels[labels >= 0]), firmness=np.linspace(0.8, 0.9, c)
        )
        self.cluster_layers_ = (layer(coarse, 2), layer(self.labels_, C))
        self.cluster_tree_ = {(0, 0): [(1, 0), (1, 1)], (0, 1): [(1, 2), (1, 3)]}
        trials = (
            Trial("unit", "rows as they are", "k-means", 5, 0.5, 0.9, False),
            Trial("linear", "rows as they are", "graph", 5, 0.7, 1.0, True),
        )
        separations = np.array([0.1, 0.2, 1.3, np.nan])
        count = ClusterCount(4, 4, 5, np.array([0.0, 0.4, 0.6, 0.7]), separations, ("rows as they are: 4 clusters.",))
        self.selection_ = Selection(trials, ("taken.",), n, count, (0.9, 1.0))

    def fit(self, X):
        return self

    def transform(self, X):
        return X.toarray() if issparse(X) else np.asarray(X, dtype=np.float64)


@pytest.fixture(scope="module")
def model():
    return Clusterer()


@pytest.fixture(scope="module")
def data(model):
    return report_data(model, pd.DataFrame(model.X, columns=list("abcde")), title="blobs")


def test_all_rows_and_clusters_are_told(model, data):
    assert (data.n_rows, data.n_clusters, data.n_features, data.is_sampled) == (N, C, 5, False)
    assert [card.size for card in data.cards] == np.bincount(model.labels_[model.labels_ >= 0]).tolist()
    for card in data.cards:
        members = model.labels_ == card.label
        assert card.strength == pytest.approx(model.probabilities_[members].mean())
        assert card.firmness == pytest.approx(np.linspace(0.8, 0.9, C)[card.label])
    np.testing.assert_array_equal(data.shown, np.arange(N))


def test_exemplars_are_the_strongest_rows_and_borderline_ones_the_weakest(model, data):
    for card in data.cards:
        members = np.flatnonzero(model.labels_ == card.label)
        strengths = model.probabilities_[members]
        strongest = np.sort(np.round(strengths, 3))[::-1][: len(card.exemplars)]
        np.testing.assert_array_equal(np.round(model.probabilities_[list(card.exemplars)], 3), strongest)
        weakest = members[np.argsort(strengths)][: len(card.borderline)]
        assert [each.row for each in card.borderline] == weakest.tolist()
        assert {each.other for each in card.borderline} == {(card.label + 1) % C}


def test_neighbours_are_those_that_share_most_membership(model, data):
    dense = model.memberships_.toarray()
    for card in data.cards:
        mine = model.labels_ == card.label
        overlaps = {}
        for other in set(range(C)) - {card.label}:
            theirs = model.labels_ == other
            overlaps[other] = (dense[mine, other].sum() + dense[theirs, card.label].sum()) / (mine.sum() + theirs.sum())
        assert dict(card.neighbors) == pytest.approx(overlaps)
        shares = [overlap for _, overlap in card.neighbors]
        assert shares == sorted(shares, reverse=True)


def test_effects_are_named_and_told_three_ways(model, data):
    for card in data.cards:
        inside = model.labels_ == card.label
        for each in card.effects:
            values = model.X[:, "abcde".index(each.name)]
            assert each.mean == pytest.approx(values[inside].mean())
            assert each.rest_mean == pytest.approx(values[~inside].mean())
            above = (values[inside][:, None] > values[~inside][None]).mean()
            assert each.superiority == pytest.approx(above)
        assert card.summary.split()[0] in ("high", "low")


def test_layers_take_the_colours_of_the_clusters_they_share_most_rows_with(data):
    assert data.layers[1].colors == tuple(range(C))
    coarse, fine = data.layers[0].colors, {0: (0, 1), 1: (2, 3)}
    assert all(color in fine[cluster] for cluster, color in enumerate(coarse))
    assert data.tree == {(0, 0): ((1, 0), (1, 1)), (0, 1): ((1, 2), (1, 3))}


def test_outliers_and_the_reasons_of_the_choice_are_kept(model, data):
    assert data.outliers == tuple(np.argsort(-model.outlier_scores_)[:12])
    assert data.outliers[0] == 7
    assert data.choice.chosen == 1
    assert data.choice.trials[1] == ("linear", "rows as they are", "graph", "5", "0.700", "–", "1.00")
    assert data.choice.steps == ("taken.", "2 starts agree with the clusters: mean adjusted Rand index 0.95.")
    assert data.choice.count.modularity == (0.0, 0.4, 0.6, 0.7)
    assert data.choice.count.separateness == (None, pytest.approx(0.9), pytest.approx(0.8), 0.0)
    assert data.choice.count.steps == ("rows as they are: 4 clusters.",)


def test_further_columns_come_first_as_numbers_or_words(model):
    columns = {"kind": ["a", None, *["b"] * (N - 2)], "gap": [np.nan, *range(N - 1)]}
    found = report_data(model, model.X, columns=columns).columns
    assert [each.name for each in found] == ["kind", "gap", "x0", "x1", "x2", "x3", "x4"]
    assert [each.is_number for each in found[:3]] == [False, True, True]
    assert found[0].values[:3] == ("a", None, "b")
    assert found[1].values[:3] == (None, 0.0, 1.0)


def test_features_of_equal_names_and_columns_of_any_name_are_kept_apart(model):
    found = report_data(model, model.X, names=list("aabbb"), columns={"X": range(N), "n": range(N)})
    assert [each.name for each in found.columns] == ["X", "n", *"aabbb"]
    for each in found.cards[0].effects:
        means = model.X[model.labels_ == 0].mean(axis=0)
        feature = int(np.abs(means - each.mean).argmin())
        values, inside = model.X[:, feature], model.labels_ == 0
        assert each.superiority == pytest.approx((values[inside][:, None] > values[~inside][None]).mean())


def test_categories_of_further_columns_are_told_where_they_are_more_frequent(model):
    kinds = np.array(["cat", "dog", "cow", "bee"])[model.labels_]
    found = report_data(model, model.X, columns={"kind": kinds, "id": [f"a{i}" for i in range(N)]})
    for card, kind in zip(found.cards, ["cat", "dog", "cow", "bee"], strict=True):
        ((name, each),) = card.categories
        assert (name, each.word, each.share) == ("kind", kind, 1.0)


def test_texts_give_words_and_no_coordinates(model):
    texts = [f"about {['cats', 'dogs', 'cows', 'bees'][label]}" for label in model.labels_]
    found = report_data(model, model.X, texts=texts)
    assert [card.words[0].word for card in found.cards] == ["cats", "dogs", "cows", "bees"]
    assert [card.summary for card in found.cards] == ["cats", "dogs", "cows", "bees"]
    assert found.columns == ()
    assert all(card.effects == () for card in found.cards)


def test_of_many_rows_some_are_shown_with_all_that_cards_name(model, monkeypatch):
    monkeypatch.setattr("adaam.cluster_report.from_model.MAX_SHOWN", 60)
    found = report_data(model, csr_array(model.X))
    assert found.is_sampled
    assert 60 <= len(found.shown) <= 60 + C * 6 + 12
    named = [row for card in found.cards for row in (*card.exemplars, *(each.row for each in card.borderline))]
    assert set(named) | set(found.outliers) <= set(found.shown.tolist())
    assert sum(card.size for card in found.cards) == N - 1
    assert len(found.columns[0].values) == len(found.neighbor_map) == len(found.shown)
    assert "Map and table show" in document.sampled(found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"texts": ["a"]}, "texts has 1 rows, but the model was fitted to 200"),
        ({"columns": {"kind": [1, 2]}}, "kind has 2 rows"),
        ({"names": ["a"]}, "names has 1 entries, but X has 5 features"),
        ({"images": (2, 2)}, r"images=\(2, 2\) does not fit 5 features"),
        ({"images": np.zeros((3, 2, 2))}, r"images has shape \(3, 2, 2\), but must be \(200, height"),
    ],
)
def test_what_does_not_fit_the_rows_is_named(model, given, message):
    with pytest.raises(ValueError, match=message):
        report_data(model, model.X, **given)


def test_a_model_without_memberships_says_what_to_do():
    model = Clusterer(50)
    model.memberships_ = None
    with pytest.raises(ValueError, match="Fit a sample of them"):
        report_data(model, model.X)


def test_rows_other_than_those_fitted_are_refused(model):
    with pytest.raises(ValueError, match="X has 5 rows, but the model was fitted to 200. Pass the rows"):
        report_data(model, model.X[:5])


def test_the_plane_spreads_cluster_means_and_is_the_same_each_time():
    X, labels = make_blobs(150, 6, centers=4, random_state=1)
    plane = discriminant_plane(X, labels)
    means = np.array([X[labels == c].mean(axis=0) for c in range(4)])
    drawn = np.array([plane[labels == c].mean(axis=0) for c in range(4)])
    centered = means - means.mean(axis=0)
    assert (drawn**2).sum() == pytest.approx((np.linalg.svd(centered, compute_uv=False)[:2] ** 2).sum())
    np.testing.assert_array_equal(plane, discriminant_plane(X, labels))
    assert discriminant_plane(X[:, :1], labels).shape == (150, 2)


def test_the_map_keeps_clusters_together_and_rows_that_follow_among_their_own(monkeypatch):
    monkeypatch.setattr("adaam.cluster_report.layout.N_LANDMARKS", 120)
    X, labels = make_blobs(300, 6, centers=4, random_state=1)
    plane = discriminant_plane(X, labels)
    placed = neighbor_map(X, labels, plane, np.random.default_rng(0))
    away = np.linalg.norm(placed[:, None] - placed[None], axis=2) + 1e9 * np.eye(300)
    assert (labels[away.argmin(axis=1)] == labels).mean() > 0.99
    np.testing.assert_array_equal(placed, neighbor_map(X, labels, plane, np.random.default_rng(0)))
    np.testing.assert_array_equal(neighbor_map(X[:5], labels[:5], plane[:5], np.random.default_rng(0)), plane[:5])


def test_a_draw_holds_some_rows_of_small_clusters(rng):
    labels = np.r_[np.zeros(5000, dtype=int), np.full(10, 1), np.full(300, -1)]
    drawn = spread_draw(labels, 500, rng)
    assert len(drawn) == 500
    assert (np.diff(drawn) > 0).all()
    assert np.bincount(labels[drawn] + 1).tolist()[2] == 10
    np.testing.assert_array_equal(spread_draw(labels[:9], 500, rng), np.arange(9))


def test_pictures_are_averaged_down_and_come_in_colour(rng):
    large = rng.integers(0, 256, (3, 64, 40)).astype(np.uint8)
    small = image_bytes(large, None, np.array([0, 2]))
    wanted = large[[0, 2]].reshape(2, 32, 2, 20, 2).mean(axis=(2, 4))
    np.testing.assert_array_equal(small, np.round(wanted))
    colored = rng.random((4, 5, 6, 3))
    assert image_bytes(colored, None, np.arange(4)).shape == (4, 5, 6, 3)
    assert images_that_fit(colored, 4, 9) > 4
    pictures = sheet(image_bytes(colored, None, np.arange(4)), 2)
    shown = np.asarray(Image.open(io.BytesIO(png(pictures))).convert("RGB"))
    np.testing.assert_array_equal(shown, pictures)


def test_pictures_of_a_cluster_are_its_mean_and_what_differs():
    images = np.zeros((6, 2, 2), dtype=np.uint8)
    images[:3, 0, 0] = [250, 200, 150]
    first, second = cluster_pictures(images, np.array([0, 0, 0, 1, 1, 1]), 2)
    assert first.mean[0, 0] == 200
    assert first.effect[0, 0] > 128 > second.effect[0, 0]
    assert (first.effect.ravel()[1:] == 128).all()


def embedded(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1))


def test_the_page_is_a_pure_function_and_holds_every_label():
    report = synthetic_report(50, 3)
    text = document.page(report, "charting")
    assert text == document.page(synthetic_report(50, 3), "charting")
    found = embedded(text)
    labels = np.frombuffer(b64decode(found["labels"]["bytes"]), dtype="<i2")
    np.testing.assert_array_equal(labels, report.labels)
    strengths = np.frombuffer(b64decode(found["strengths"]["bytes"]), dtype="<u2") / 65535
    np.testing.assert_allclose(strengths, report.strengths, atol=1e-5)
    assert found["palette"]["light"][0] == cluster_color(0)


def test_of_very_many_rows_the_page_holds_those_shown(monkeypatch):
    monkeypatch.setattr("adaam.cluster_report.data.MAX_LABELLED", 40)
    report = synthetic_report(50, 3, n_shown=30)
    found = embedded(document.page(report, "charting"))
    assert found["holds_all"] is False
    assert len(b64decode(found["labels"]["bytes"])) == 60
    assert len(found["ids"]) == 30
    assert "labels_" in document.page(report, "charting")


def test_names_cannot_end_a_script_or_start_an_element():
    text = document.page(synthetic_report(50, 3, evil=True), "charting")
    assert "<script>window.broken" not in text
    assert "<img" not in text
    assert text.count("</script>") == 4
    assert embedded(text)["title"] == EVIL


def test_every_asset_is_used():
    from importlib.resources import files

    there = {path.name for path in (files("adaam.cluster_report") / "assets").iterdir()}
    assert there == {"body.html", "page.css", *document.KIND.scripts}


def test_a_report_is_saved_whole_and_short_in_notebooks(tmp_path):
    pytest.importorskip("plotly")
    report = ClusterReport(synthetic_report(50, 3, evil=True))
    path = report.save(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == report.html()
    assert repr(report) == "ClusterReport(3 clusters in 50 rows)"
    short = report._repr_html_()
    assert "<script" not in short
    assert short.count("<tr>") == 4
    assert cluster_color(2) in short
    with pytest.raises(FileNotFoundError, match="no such folder"):
        report.save(tmp_path / "none" / "page.html")


def test_without_plotly_the_extra_is_named(monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"pip install adaam\[page\]"):
        ClusterReport(synthetic_report(50, 3)).save(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_the_report_of_one_cluster_has_nothing_to_compare():
    report = synthetic_report(20, 1, layers=(), tree={}, columns=(), outliers=(), ids=None)
    assert isinstance(report, ReportData)
    text = document.page(report, "charting")
    assert "1 cluster in 20 rows" in text
    assert "No row stands out." in text
    assert "nothing to compare it with" in text
    assert "have no names" not in text
    assert data_url(b"") == "data:image/png;base64,"


def test_a_table_is_told_in_place_of_the_features_made_from_it(model):
    rng = np.random.default_rng(1)
    age = 40.0 + 10 * (model.labels_ == 2) + rng.normal(size=N)
    age[:20] = np.nan
    plan = np.where(model.labels_ == 1, "pro", "basic").astype(object)
    table = {"age": age, "plan": plan, "note": [f"note {row}" for row in range(N)]}
    found = report_data(model, model.X, table=table, columns={"truth": model.labels_.astype(str)})
    assert [column.name for column in found.columns] == ["truth", "age", "plan", "note"]
    assert found.columns[1].values[:20] == (None,) * 20
    assert [effect.name for effect in found.cards[2].effects] == ["age"]
    members = (model.labels_ == 2) & ~np.isnan(age)
    assert found.cards[2].effects[0].mean == pytest.approx(age[members].mean())
    assert found.cards[2].effects[0].superiority > 0.99
    assert found.cards[1].summary.startswith("plan: pro")
    assert found.cards[2].summary.startswith("high age")
    assert not any("truth" in card.summary for card in found.cards), "it took no part"
    with pytest.raises(ValueError, match="plan has 3 rows"):
        report_data(model, model.X, table={"plan": ["a"] * 3})


def test_of_many_columns_those_that_tell_most_are_listed(model):
    rng = np.random.default_rng(2)
    table = {f"noise {j}": rng.normal(size=N) for j in range(20)}
    table["told"] = model.labels_ == 1
    table["kind"] = np.where(model.labels_ == 3, "x", "y")
    names = [column.name for column in report_data(model, model.X, table=pd.DataFrame(table)).columns]
    assert len(names) == 12
    assert {"told", "kind"} <= set(names)
    assert names == [name for name in table if name in names]


def test_pixels_are_told_by_pictures_alone(model):
    X = pd.DataFrame(model.X[:, :4], columns=[f"pixel_{j}" for j in range(4)])
    found = report_data(model, X, images=(2, 2))
    assert found.columns == ()
    assert {(card.effects, card.summary) for card in found.cards} == {((), "")}
    assert all(card.pictures is not None for card in found.cards)


def test_parts_of_a_cluster_are_shades_of_its_colour(model):
    finer = model.labels_ * 2 + (np.arange(N) % 3 == 0)
    finer[model.labels_ < 0] = -1
    layer = SimpleNamespace(labels=finer, n_clusters=2 * C, sizes=np.bincount(finer[finer >= 0]), firmness=np.ones(1))
    part = Clusterer()
    part.cluster_layers_, part.cluster_tree_ = (layer,), {}
    found = report_data(part, model.X).layers[0]
    assert list(found.colors) == [c // 2 for c in range(2 * C)]
    assert [sorted(found.shades[2 * c : 2 * c + 2]) for c in range(C)] == [[0, 1]] * C
    colors = {found.color(cluster, "light") for cluster in range(2 * C)}
    assert len(colors) == 2 * C
    assert {cluster_color(c) for c in range(C)} < colors


def test_clusters_of_equal_description_are_told_apart(model):
    plan = np.where(model.labels_ < 2, "pro", "basic").astype(object)
    news = np.where(model.labels_ % 2, "yes", "no").astype(object)
    size = np.where(model.labels_ < 2, 5.0, 1.0) + np.arange(N) % 3
    found = report_data(model, model.X, table={"plan": plan, "news": news, "size": size})
    summaries = [card.summary for card in found.cards]
    assert len(set(summaries)) == len(summaries)


def test_long_names_and_values_are_shortened_where_they_head_a_card(model):
    table = {"q" * 200: np.where(model.labels_ == 1, "v" * 300, "w").astype(object)}
    found = report_data(model, model.X, table=table)
    assert max(len(card.summary) for card in found.cards) < 100
    assert "…" in found.cards[1].summary


def test_a_page_without_names_says_so_and_one_without_differences_too():
    cards = tuple(replace(card, effects=(), words=()) for card in synthetic_report(40, 4).cards)
    text = document.page(synthetic_report(40, 4, cards=cards), "charting")
    assert "No feature differs much between the clusters." in text
    text = document.page(synthetic_report(40, 4, cards=cards, names_features=False), "charting")
    assert "The features have no names" in text


def test_a_column_of_the_choice_that_says_nothing_is_left_out():
    report = synthetic_report(40, 4)
    row = (*report.choice.trials[0], "–")
    choice = replace(report.choice, headings=(*report.choice.headings, "separation"), trials=(row, row))
    assert "separation</th>" not in document.page(replace(report, choice=choice), "charting")


def test_one_cluster_of_all_rows_is_set_apart_by_nothing():
    assert cluster_categories(["a", "a", "b"], [0, 0, 0], 1) == [[]]
    told = cluster_categories(["a", "a", "b"], [0, 0, -1], 1)
    assert [each.word for each in told[0]] == ["a"], "the rest is in no cluster"


def test_a_number_of_clusters_without_a_choice_has_no_curve():
    report = synthetic_report(20, 1, layers=(), tree={})
    lone = CountCurve(1, 1, 1, (0.0,), (None,))
    text = document.page(replace(report, choice=replace(report.choice, count=lone)), "charting")
    assert 'id="count-plot"' not in text
