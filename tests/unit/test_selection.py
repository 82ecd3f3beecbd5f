"""Selection without labels: candidates, search, its summary, the number of clusters, and the clusterer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning

from adaam import (
    AdaAM,
    AdaAMClustering,
    Preparation,
    PreparedMetric,
    RowBlocks,
    load,
    planning,
    save,
)
from adaam._typing import IntVector
from adaam.engines import CPUEngine
from adaam.estimators import choosing
from adaam.estimators.membership import KnownRows, voters
from adaam.large import row_blocks
from adaam.partition import View, partition
from adaam.prepare import column_variances, fit_preparation
from adaam.scores import adjusted_rand_index, clustering_accuracy
from adaam.selection import Contender, Prepared, Task, given_metric, prepared_rows, row_ranks, search
from adaam.selection.count import SEPARATE
from adaam.selection.family import preparations, random_rows
from adaam.selection.reproducibility import MOST_SAMPLES, SHARE, Way, compare
from adaam.selection.search import Outcome, _climb
from direction_clusters import direction_clusters

ENGINE = CPUEngine()
DIGITS, DIGIT_CLASSES = load_digits(return_X_y=True)
SOME, SOME_CLASSES = DIGITS[:600], DIGIT_CLASSES[:600]


@pytest.fixture(scope="module")
def fitted() -> AdaAMClustering:
    return AdaAMClustering(10).fit(SOME)


def outcome(rows: list[float], *, learned: bool = False, head: str = "graph") -> Outcome:
    view = View(np.zeros((len(rows), 1)), np.ones(len(rows)), ENGINE)
    contender = Contender("unit", "rows", view, None, int(learned))
    return Outcome(contender, head, np.zeros(len(rows), dtype=int), np.array(rows) / len(rows))


def test_a_gain_within_two_standard_errors_is_not_taken():
    noisy = np.random.default_rng(0).standard_normal(100)
    simple, elaborate = outcome([0.5] * 100, head="k-means"), outcome(list(0.5 + 0.05 + noisy - noisy.mean()))
    chosen, steps, _ = _climb([simple, elaborate], Task(2, ("graph",), 1, 0, ENGINE))
    assert chosen is simple
    assert "not taken" in steps[-1]
    clear = outcome(list(0.5 + 0.25 + 0.5 * (noisy - noisy.mean())))
    assert _climb([simple, clear], Task(2, ("graph",), 1, 0, ENGINE))[0] is clear


def test_levels_go_from_k_means_to_the_graph_to_a_learned_metric():
    assert [
        outcome([0.0], head="k-means").level,
        outcome([0.0]).level,
        outcome([0.0], learned=True).level,
    ] == [0, 1, 2]


def test_one_outweighing_column_asks_for_standard_columns():
    X = np.random.default_rng(0).standard_normal((50, 6))
    assert preparations(X, 1.0, ENGINE) == ("unit", "linear")
    X[:, 2] *= 10
    assert preparations(X, 1.0, ENGINE) == ("standard",)


def test_column_variances_are_those_of_numpy_also_far_from_the_origin():
    X = 1e6 + np.random.default_rng(0).standard_normal((40, 5)) * [1, 2, 3, 4, 0]
    assert_allclose(column_variances(X, 1.0, ENGINE), X.var(axis=0), rtol=1e-6)
    weights = np.random.default_rng(1).integers(1, 4, 40).astype(float)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    assert_allclose(column_variances(X, weights, ENGINE), repeated.var(axis=0), rtol=1e-6)


def test_standard_preparation_maps_rows_as_standardised_rows_would_be():
    X = np.random.default_rng(0).standard_normal((60, 4)) * [1.0, 10.0, 100.0, 0.0] + [0.0, 5.0, -3.0, 7.0]
    mapped = fit_preparation(X, 1.0, Preparation("none", 1.0, "standard"), ENGINE).apply(X, ENGINE)
    deviations = X.std(axis=0)
    scaled = (X - X.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)
    assert_allclose(mapped @ mapped.T, scaled @ scaled.T, atol=1e-9)


def test_explanations_of_a_standard_metric_sum_to_one_and_do_not_change_with_units():
    X, _ = load_wine(return_X_y=True)
    shares = PreparedMetric("standard").fit(X).explain().share
    assert shares.sum() == pytest.approx(1.0)
    assert_allclose(shares, 1 / 13, rtol=1e-6)
    assert_allclose(PreparedMetric("standard").fit(X * np.arange(1, 14)).explain().share, shares, rtol=1e-6)


def test_rows_and_columns_are_not_both_scaled():
    with pytest.raises(ValueError, match="column_scaling='standard' goes with row_scaling='none' alone"):
        PreparedMetric(Preparation("unit", 1.0, "standard")).fit(SOME)


def test_the_report_names_what_was_tried_and_chosen(fitted):
    selection = fitted.selection_
    assert sum(trial.chosen for trial in selection.trials) == 1
    assert selection.best.agreement == 1.0
    assert {trial.metric for trial in selection.trials} >= {"rows as they are", "AdaAM, 1 column per cluster"}
    text = str(selection)
    assert text.count("\n>") + text.startswith(">") == 1
    assert "modularity" in text
    assert "standard errors" in text or "taken" in text


def test_the_choice_does_better_than_the_papers_head_on_digits(fitted):
    paper = AdaAMClustering(10, learner=AdaAM(10), head="k-means").fit(SOME)
    assert paper.head_ == "k-means"
    assert clustering_accuracy(SOME_CLASSES, fitted.labels_) > clustering_accuracy(SOME_CLASSES, paper.labels_)


def test_known_rows_keep_their_cluster_and_new_rows_take_their_neighbours(fitted):
    assert fitted.embedding_ is not None
    assert (fitted.predict(SOME) == fitted.labels_).all()
    assert clustering_accuracy(DIGIT_CLASSES[600:900], fitted.predict(DIGITS[600:900])) > 0.75


def test_votes_count_and_the_nearest_decides_between_equals(monkeypatch):
    known = KnownRows(np.array([[0.0], [1.0], [1.2], [10.0]]), np.ones(4))
    labels = np.array([0, 1, 1, 0])

    def voted(Z, n_voters):
        monkeypatch.setattr("adaam.estimators.membership.LINKS_PER_ROW", n_voters)
        return voters(np.array(Z), known, ENGINE).labels(labels).tolist()

    assert voted([[0.4]], 3) == [1]
    assert voted([[0.4]], 2) == [0]
    assert voted(known.Z, 3) == labels.tolist()


def test_a_saved_model_predicts_the_same_and_keeps_its_report(fitted, tmp_path):
    save(fitted, tmp_path / "m.adaam")
    again = load(tmp_path / "m.adaam")
    assert (again.predict(DIGITS[:50]) == fitted.predict(DIGITS[:50])).all()
    assert str(again.selection_) == str(fitted.selection_)


def test_search_on_a_sample_chooses_and_all_rows_are_clustered(monkeypatch):
    monkeypatch.setattr(choosing, "SEARCH_ROWS", 300)
    model = AdaAMClustering(10).fit(SOME)
    assert model.selection_.n_rows == 300
    assert model.labels_.shape == (600,)
    assert clustering_accuracy(SOME_CLASSES, model.labels_) > 0.75


def test_copies_and_weights_and_order_give_the_same_clusters():
    X, _ = make_blobs([20, 30, 25], 5, cluster_std=0.5, random_state=0)
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    order = np.random.default_rng(1).permutation(weights.sum())
    weighted = AdaAMClustering(3).fit(X, sample_weight=weights)
    repeated = AdaAMClustering(3).fit(np.repeat(X, weights, axis=0)[order])
    assert (weighted.predict(X) == repeated.predict(X)).all()


def test_rows_of_weight_zero_are_labelled_as_new_rows():
    X, y = make_blobs([30, 30, 30], 4, cluster_std=0.3, random_state=1)
    weights = np.ones(90)
    weights[::7] = 0
    model = AdaAMClustering(3).fit(X, sample_weight=weights)
    assert adjusted_rand_index(y, model.labels_) == 1.0


@pytest.mark.parametrize("n_blobs", [2, 5, 9])
def test_the_number_of_separate_blobs_is_found(n_blobs):
    rng = np.random.default_rng(n_blobs)
    X = np.vstack([30.0 * rng.standard_normal(6) + rng.standard_normal((60, 6)) for _ in range(n_blobs)])
    model = AdaAMClustering("auto").fit(X)
    count = model.selection_.count
    assert (model.n_clusters_, count.low, count.high) == (n_blobs, n_blobs, n_blobs)
    assert (count.separations[: n_blobs - 1] < SEPARATE).all()
    assert f"{n_blobs} clusters found" in str(model.selection_)


def test_two_moons_are_two_although_more_parts_have_more_modularity():
    X, _ = make_moons(300, noise=0.05, random_state=0)
    count = AdaAMClustering("auto").fit(X).selection_.count
    assert count.n_clusters == count.low == 2
    assert count.high <= 8
    assert count.modularities.argmax() > 1
    assert count.modularities[0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("n_features", [2, 10, 100])
def test_a_cloud_without_clusters_is_one(n_features):
    X = np.random.default_rng(0).standard_normal((600, n_features))
    assert AdaAMClustering("auto").fit(X).n_clusters_ == 1


def test_pieces_of_a_cloud_that_link_to_all_others_are_not_separate():
    X = np.random.default_rng(0).standard_normal((2500, 100))
    assert AdaAMClustering("auto").fit(X).n_clusters_ == 1


def test_clusters_that_overlap_in_many_dimensions_are_not_one_cloud():
    # Their first split has 0.5 to 0.8 of the links of a cloud's, and clouds in 20 dimensions never have less than 1.
    rng = np.random.default_rng(0)
    X = 2.5 * np.eye(3, 20)[np.arange(1500) % 3] + rng.standard_normal((1500, 20))
    count = AdaAMClustering("auto").fit(X).selection_.count
    assert count.n_clusters > 1
    assert count.low <= 3 <= count.high
    assert count.separations[0] > SEPARATE


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_tables_whose_clusters_touch_are_not_one_cluster(load):
    X, y = load(return_X_y=True)
    model = AdaAMClustering("auto").fit(X)
    assert model.n_clusters_ > 1
    assert adjusted_rand_index(y, model.labels_) > 0.3


def test_uniform_heavy_tailed_and_elongated_clouds_are_one():
    rng = np.random.default_rng(0)
    for X in (rng.random((800, 2)), rng.standard_t(3, (800, 8)), rng.standard_normal((800, 2)) * [10.0, 1.0]):
        assert AdaAMClustering("auto").fit(X).n_clusters_ == 1


def test_a_hundred_and_twenty_separate_clusters_are_counted():
    rng = np.random.default_rng(0)
    X = np.repeat(8.0 * rng.standard_normal((120, 12)), 20, axis=0) + rng.standard_normal((2400, 12))
    model = AdaAMClustering("auto").fit(X)
    assert model.n_clusters_ == 120
    assert adjusted_rand_index(np.repeat(np.arange(120), 20), model.labels_) > 0.98


def way(source: Prepared, width: int, n_clusters: int) -> Way:
    return Way(source, width, False, lambda view: partition(view, n_clusters, 0).labels)


def test_maps_that_make_up_clusters_are_not_taken():
    # Few rows in many columns: a map adapts to the rows it is learned from, and clusters differ from sample to sample.
    rng = np.random.default_rng(0)
    X = 0.6 * rng.standard_normal((6, 200))[np.arange(600) % 6] + rng.standard_normal((600, 200))
    (source,) = prepared_rows(X, np.ones(600), np.arange(600), ENGINE, ("linear",))
    learned, plain = compare(way(source, 4, 6), way(source, 0, 6), 6)
    assert learned < 0.5
    assert learned < plain
    model = AdaAMClustering(6).fit(X)
    assert model.selection_.best.metric == "rows as they are"


def test_reproducibility_equals_its_definition(monkeypatch):
    monkeypatch.setattr("adaam.selection.reproducibility.CLEAR", np.inf)  # so that all samples are drawn
    ranks = np.random.default_rng(3).permutation(len(SOME))
    (source,) = prepared_rows(SOME, np.ones(len(SOME)), ranks, ENGINE, ("linear",))

    def thirds(view: View) -> IntVector:
        return np.digitize(view.Z[:, 0], np.quantile(view.Z[:, 0], [1 / 3, 2 / 3]))

    def sixths(view: View) -> IntVector:
        return np.digitize(view.Z[:, 5], np.quantile(view.Z[:, 5], np.arange(1, 6) / 6))

    Z = source.sample.X
    expected = []
    for cluster in (thirds, sixths):
        partitions = []
        for seed in range(1, 1 + MOST_SAMPLES):
            rows = random_rows(ranks, round(SHARE * len(Z)), seed)
            labels = cluster(source.some(rows).view())
            nearest = np.argmin(((Z[:, None] - Z[rows][None]) ** 2).sum(axis=2), axis=1)
            partitions.append(labels[nearest])
        pairs = [adjusted_rand_index(a, b) for i, a in enumerate(partitions) for b in partitions[:i]]
        expected.append(np.mean(pairs))
    found = compare(Way(source, 0, False, thirds), Way(source, 0, False, sixths), 3)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert found.gain == pytest.approx(expected[0] - expected[1])


def test_clusters_of_separate_rows_are_reproducible_and_no_samples_are_drawn_in_vain():
    rng = np.random.default_rng(1)
    X = np.repeat(6.0 * rng.standard_normal((8, 20)), 60, axis=0) + rng.standard_normal((480, 20))
    (source,) = prepared_rows(X, np.ones(480), np.arange(480), ENGINE, ("linear",))
    ways = way(source, 1, 8), way(source, 0, 8)
    assert compare(*ways, 8) == (1.0, 1.0)
    assert np.isnan(compare(*ways, 8, gained=0.2)).all()
    few = source.some(np.arange(30))
    found = compare(way(few, 1, 8), way(few, 0, 8), 8)
    assert np.isnan(found).all()
    assert found.gain == 0.0


def test_a_map_of_few_columns_is_taken_for_what_it_shows_alone():
    # Clusters in the columns of largest variance: a map of eight columns gains by having few, as the leading ones do.
    rng = np.random.default_rng(0)
    y = np.arange(1500) % 5
    signal = 3.0 * rng.standard_normal((5, 6))[y] + 1.2 * rng.standard_normal((1500, 6))
    selection = AdaAMClustering(5).fit(np.hstack([signal, rng.standard_normal((1500, 150))])).selection_
    assert not selection.best.metric.startswith("AdaAM")
    # Clusters in columns of small variance, which the rows as they are do not show.
    nuisance, clusters = 6.0 * rng.standard_normal((1500, 12)), 2.2 * rng.standard_normal((5, 20))[y]
    selection = (
        AdaAMClustering(5).fit(np.hstack([nuisance, clusters + 0.6 * rng.standard_normal((1500, 20))])).selection_
    )
    assert selection.best.metric.startswith("AdaAM")
    assert selection.steps[-1].endswith("in all, taken.")


@pytest.fixture(scope="module")
def rows_of_unlike_lengths():
    X, y = direction_clusters(900)
    return X, y, AdaAMClustering(10).fit(X)


def test_cosine_distance_is_taken_where_it_is_clearly_better(rows_of_unlike_lengths, fitted):
    X, y, model = rows_of_unlike_lengths
    assert (model.distance_, fitted.distance_) == ("cosine", "euclidean")
    assert model.selection_.best.metric.endswith(", cosine")
    plain = max(trial.modularity for trial in model.selection_.trials if not trial.metric.endswith("cosine"))
    assert model.selection_.best.modularity > plain
    assert clustering_accuracy(y, model.labels_) > 0.8


def test_by_cosine_new_rows_join_the_rows_of_nearest_direction(rows_of_unlike_lengths):
    X, y, model = rows_of_unlike_lengths
    assert_array_equal(model.predict(X), model.labels_)
    new = X + 0.05 * np.random.default_rng(1).standard_normal(X.shape)
    known, Z = model.transform(X), model.transform(new)
    cosines = (Z / np.linalg.norm(Z, axis=1, keepdims=True)) @ (known / np.linalg.norm(known, axis=1, keepdims=True)).T
    nearest = np.argsort(-cosines, axis=1)[:, :10]
    shares = model.membership_vectors(new).toarray()
    expected = np.stack([(model.labels_[nearest] == c).mean(axis=1) for c in range(10)], axis=1)
    assert_allclose(shares, expected, atol=1e-12)
    agreed = expected.max(axis=1) > 0.5  # ties are decided by the order of the voters
    assert_array_equal(model.predict(new)[agreed], expected.argmax(axis=1)[agreed])


def test_by_cosine_the_learned_space_is_that_of_transform(rows_of_unlike_lengths):
    X, _, model = rows_of_unlike_lengths
    Z = model.transform(X)
    assert_allclose(np.sort(model.embedding_, axis=0), np.sort(Z, axis=0), atol=1e-9)
    centers = np.stack([Z[model.labels_ == c].mean(axis=0) for c in range(10)])
    assert_allclose(model.cluster_centers_, centers, atol=1e-9)
    assert_allclose(model.inertia_, np.square(Z - centers[model.labels_]).sum(), rtol=1e-6)


def test_by_cosine_models_are_saved_and_those_without_a_distance_are_euclidean(rows_of_unlike_lengths, tmp_path):
    X, _, model = rows_of_unlike_lengths
    save(model, tmp_path / "cosine.adaam")
    loaded = load(tmp_path / "cosine.adaam")
    assert loaded.distance_ == "cosine"
    assert_array_equal(loaded.predict(X), model.labels_)
    del loaded.distance_
    assert not loaded._known().cosine


def test_search_with_one_head_uses_it_on_every_metric():
    prepared = prepared_rows(SOME, 1.0, row_ranks(SOME, ENGINE), ENGINE)
    told = []
    choice = search(prepared, Task(10, ("k-means",), 2, 0, ENGINE), told.append)
    assert {trial.head for trial in choice.selection.trials} == {"k-means"}
    assert len(told) == len(choice.selection.trials) > 2


def test_a_given_metric_is_partitioned_as_it_is():
    view = View(SOME, np.ones(600), ENGINE)
    choice = given_metric(Contender("as given", "rows", view), Task(10, ("k-means", "graph"), 2, 0, ENGINE))
    assert [trial.head for trial in choice.selection.trials] == ["k-means", "graph"]


def test_strengths_are_shares_and_outliers_stand_out(fitted):
    assert fitted.memberships_.shape == (600, 10)
    assert_allclose(np.asarray(fitted.memberships_.sum(axis=1)).ravel(), 1.0)
    own = fitted.memberships_.toarray()[np.arange(600), fitted.labels_]
    assert_allclose(fitted.probabilities_, own)
    assert ((fitted.outlier_scores_ >= 0) & (fitted.outlier_scores_ < 1)).all()
    far = np.vstack([SOME[:5], 16.0 - SOME[:1]])
    assert fitted.outlier_scores(far)[-1] > fitted.outlier_scores(far)[:-1].max()
    assert_allclose(np.asarray(fitted.membership_vectors(far).sum(axis=1)).ravel(), 1.0)
    assert (np.diff(fitted.membership_vectors(far).indptr) <= 10).all()


def test_a_share_of_rows_is_noise_where_it_is_asked_for(fitted):
    assert (fitted.labels_ >= 0).all()
    model = AdaAMClustering(10, contamination=0.05).fit(SOME)
    noise = model.labels_ == -1
    assert noise.sum() == 30
    assert model.outlier_scores_[noise].min() >= model.outlier_scores_[~noise].max()
    assert (model.labels_[~noise] == fitted.labels_[~noise]).all()
    assert (model.probabilities_[noise] == 0).all()
    assert model.predict(16.0 - SOME[:1]).tolist() == [-1]
    with pytest.raises(ValueError, match="contamination=0.7"):
        AdaAMClustering(10, contamination=0.7).fit(SOME)


def test_layers_are_predicted_and_survive_a_file(fitted, tmp_path):
    layers = fitted.cluster_layers_
    assert layers[fitted.layer_].n_clusters == fitted.n_clusters_ == 10
    assert (layers[fitted.layer_].labels == fitted.labels_).all()
    for number, layer in enumerate(layers):
        assert (fitted.predict(SOME, layer=number) == layer.labels).all()
        assert layer.sizes.sum() == 600
        assert fitted.membership_vectors(SOME[:3], layer=number).shape == (3, layer.n_clusters)
    save(fitted, tmp_path / "m.adaam")
    again = load(tmp_path / "m.adaam")
    assert again.cluster_tree_ == fitted.cluster_tree_
    assert (again.predict(DIGITS[600:700], layer=0) == fitted.predict(DIGITS[600:700], layer=0)).all()
    with pytest.raises(ValueError, match="layer=99 must be a whole number from 0"):
        fitted.predict(SOME, layer=99)


def test_another_seed_may_find_other_starts_but_not_another_metric():
    first, second = (AdaAMClustering(10, random_state=seed).fit(SOME) for seed in (1, 2))
    assert [t.modularity for t in first.selection_.trials] == [t.modularity for t in second.selection_.trials]
    assert first.selection_.best == second.selection_.best
    assert adjusted_rand_index(first.labels_, second.labels_) > 0.9
    assert len(first.selection_.starts) in (19, 20)  # those beside the kept one, or all and a consensus


def test_starts_that_disagree_are_told():
    X = np.random.default_rng(0).standard_normal((400, 8))
    with pytest.warns(ConvergenceWarning, match="Starts disagree"):
        AdaAMClustering(5).fit(X)


def test_misuse_is_told():
    with pytest.raises(ValueError, match="head='ward' is not known"):
        AdaAMClustering(3, head="ward").fit(SOME)
    with pytest.raises(ValueError, match="head='diffusion' was replaced by head='graph'"):
        AdaAMClustering(3, head="diffusion").fit(SOME)
    with pytest.raises(ValueError, match="n_clusters='many' is not known; use a whole number or 'auto'"):
        AdaAMClustering("many").fit(SOME)
    with pytest.raises(ValueError, match="n_clusters=700 exceeds n_samples=600"):
        AdaAMClustering(700).fit(SOME)
    with pytest.raises(ValueError, match="neighbors belong to one metric"):
        AdaAMClustering(3).fit(SOME, neighbors=(np.zeros((600, 1), int), np.zeros((600, 1))))
    with pytest.warns(ConvergenceWarning, match="n_clusters=4, but X has 3 distinct rows"):
        labels = AdaAMClustering(4).fit_predict(np.repeat(np.eye(3) + np.arange(3), 3, axis=0))
    assert len(np.unique(labels)) == 3


def test_equal_directions_leave_the_unscaled_rows_to_be_clustered():
    X = np.outer(np.r_[np.linspace(1, 2, 20), np.linspace(8, 9, 20)], [1.0, 1.0, 1.0])
    model = AdaAMClustering(2).fit(X)
    assert adjusted_rand_index(np.repeat([0, 1], 20), model.labels_) == 1.0
    assert {trial.preparation for trial in model.selection_.trials} == {"linear"}


def test_of_very_many_rows_some_are_partitioned_and_the_others_follow(monkeypatch):
    X, y = make_blobs(1500, n_features=6, centers=4, cluster_std=0.5, random_state=0)
    monkeypatch.setattr(choosing, "SEARCH_ROWS", 300)
    monkeypatch.setattr(choosing, "PARTITION_ROWS", 500)
    whole = AdaAMClustering(4, head="graph").fit(X)
    assert len(whole.embedding_) == 1500
    monkeypatch.setattr(planning, "ALL_PAIRS_SECONDS", 0.0)
    monkeypatch.setattr(row_blocks, "BLOCK_ROWS", 400)
    model = AdaAMClustering(4, head="graph").fit(X)
    assert len(model.embedding_) == len(model.embedding_leaves_) == 500
    assert adjusted_rand_index(model.labels_, whole.labels_) == 1.0
    assert adjusted_rand_index(model.labels_, y) == 1.0
    assert np.array_equal(model.predict(X), model.labels_)


def test_of_very_many_rows_k_means_sees_all(monkeypatch):
    X, _ = make_blobs(1500, n_features=6, centers=4, cluster_std=0.5, random_state=0)
    monkeypatch.setattr(choosing, "SEARCH_ROWS", 300)
    monkeypatch.setattr(planning, "ALL_PAIRS_SECONDS", 0.0)
    learner = AdaAM(4, pairs=RowBlocks(n_rows=400))
    model = AdaAMClustering(4, learner=learner, head="k-means").fit(X)
    members = model.labels_ == 0
    assert np.allclose(model.cluster_centers_[0], model.transform(X[members]).mean(axis=0))
