"""Use with the tools of scikit-learn and other libraries."""

import pickle
from inspect import signature

import numpy as np
import pytest
from joblib import Parallel, delayed
from numpydoc.docscrape import FunctionDoc
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.cluster import DBSCAN, HDBSCAN, KMeans, SpectralClustering
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.metrics import davies_bouldin_score, silhouette_score
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from adaam import LPP, AdaAM, AdaAMClustering, Preparation, scorers
from adaam.scores import adjusted_rand_index

pytestmark = [pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")]

DIGITS = load_digits()
X, y = DIGITS.data[:500], DIGITS.target[:500]


def test_pipeline_is_the_steps_one_after_another():
    pipeline = make_pipeline(StandardScaler(), AdaAM(10), KMeans(10, n_init=3, random_state=0)).fit(X)
    rows = StandardScaler().fit_transform(X)
    Z = AdaAM(10).fit_transform(rows)
    expected = KMeans(10, n_init=3, random_state=0).fit_predict(Z)
    assert adjusted_rand_index(expected, pipeline.predict(X)) == 1.0
    assert list(pipeline[:-1].get_feature_names_out()) == [f"adaam{j}" for j in range(10)]


def test_nearest_neighbours_in_the_learned_metric_classify_better_than_chance():
    model = make_pipeline(AdaAM(10), KNeighborsClassifier(3))
    assert cross_val_score(model, X, y, cv=3).mean() > 0.8


@pytest.mark.parametrize("scorer", [scorers.silhouette, scorers.calinski_harabasz, scorers.davies_bouldin])
def test_grid_search_without_labels(scorer):
    grid = {"learner__n_neighbors": [4, 8], "learner__preparation": ["unit", Preparation("unit", 0.9)]}
    search = GridSearchCV(AdaAMClustering(10, learner=AdaAM(10), n_init=2), grid, scoring=scorer, cv=2).fit(X)
    means = search.cv_results_["mean_test_score"]
    assert np.isfinite(means).all()
    assert len(set(means)) > 1
    assert scorer(search.best_estimator_, X) == scorer(clone(search.best_estimator_).fit(X), X)


@pytest.mark.filterwarnings("ignore:Starts disagree:sklearn.exceptions.ConvergenceWarning")
def test_halving_search_without_labels_in_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), AdaAMClustering(5, learner=LPP(4), n_init=2))
    grid = {"adaamclustering__learner__n_components": [2, 4, 8]}
    search = HalvingGridSearchCV(pipeline, grid, scoring=scorers.silhouette, cv=2, random_state=0, min_resources=150)
    search.fit(X)
    found = search.cv_results_
    scores = found["mean_test_score"]
    assert np.isfinite(scores).all()
    # Of three candidates on 150 rows, the best goes on to 450.
    np.testing.assert_array_equal(found["n_resources"], [150, 150, 150, 450])
    assert len(set(scores[:3])) == 3
    assert search.best_params_ == found["params"][3] == found["params"][scores[:3].argmax()]
    best = search.best_estimator_
    assert scorers.silhouette(best, X) == pytest.approx(silhouette_score(best.transform(X), best.predict(X)))


def test_scorers_are_the_scores_in_the_learned_space():
    model = AdaAMClustering(10).fit(X)
    Z, labels = model.transform(X), model.predict(X)
    assert scorers.silhouette(model, X) == pytest.approx(silhouette_score(Z, labels))
    assert scorers.davies_bouldin(model, X) == pytest.approx(-davies_bouldin_score(Z, labels))


def test_silhouette_of_many_rows_is_that_of_an_even_sample():
    model = AdaAMClustering(10, learner=LPP(4)).fit(X)
    many = np.tile(X, (13, 1))
    assert len(many) > scorers.SILHOUETTE_ROWS
    assert scorers.silhouette(model, many) == pytest.approx(scorers.silhouette(model, X), abs=0.02)
    assert scorers.silhouette(model, many) == scorers.silhouette(model, many)


def test_scorers_go_to_other_processes_and_document_what_they_take():
    for scorer in (scorers.silhouette, scorers.calinski_harabasz, scorers.davies_bouldin):
        assert pickle.loads(pickle.dumps(scorer)) is scorer
        documented = [name for p in FunctionDoc(scorer)["Parameters"] for name in p.name.split(", ")]
        assert documented == list(signature(scorer).parameters)


def test_scorers_of_one_cluster_are_their_worst_and_of_a_map_alone_an_error():
    model = AdaAMClustering(1, learner=LPP(2)).fit(X)
    assert scorers.silhouette(model, X) == -1.0
    assert scorers.calinski_harabasz(model, X) == 0.0
    assert scorers.davies_bouldin(model, X) == -np.inf
    with pytest.raises(TypeError, match="has no predict"):
        scorers.silhouette(AdaAM(3).fit(X), X)


def test_column_transformer_and_feature_union_put_maps_side_by_side():
    halves = ColumnTransformer([("left", AdaAM(4), slice(0, 32)), ("right", LPP(3), slice(32, 64))]).fit(X)
    expected = np.hstack([AdaAM(4).fit_transform(X[:, :32]), LPP(3).fit_transform(X[:, 32:])])
    np.testing.assert_allclose(halves.transform(X), expected, atol=1e-10)
    union = FeatureUnion([("metric", AdaAM(4)), ("lpp", LPP(3))]).fit(X)
    assert list(union.get_feature_names_out()) == [f"metric__adaam{j}" for j in range(4)] + [
        f"lpp__lpp{j}" for j in range(3)
    ]


def test_clone_forgets_the_fit_and_keeps_the_settings():
    model = AdaAMClustering(4, learner=AdaAM(4, n_neighbors=6)).fit(X)
    again = clone(model)
    assert repr(again) == repr(model)
    assert not hasattr(again, "components_")


@pytest.mark.parametrize("prefer", ["threads", "processes"])
def test_joblib_runs_fits_side_by_side_with_the_same_result(prefer):
    counts = [4, 8]
    fits = Parallel(n_jobs=2, prefer=prefer)(delayed(AdaAM(10, n_neighbors=k).fit)(X) for k in counts)
    for k, model in zip(counts, fits, strict=True):
        np.testing.assert_allclose(model.components_, AdaAM(10, n_neighbors=k).fit(X).components_, atol=1e-7)


def test_a_search_in_parallel_finds_what_one_in_sequence_finds():
    search = GridSearchCV(
        AdaAMClustering(10, learner=AdaAM(10), n_init=2),
        {"learner__n_neighbors": [4, 8]},
        scoring=scorers.silhouette,
        cv=2,
    )
    alone, together = clone(search).set_params(n_jobs=1).fit(X), clone(search).set_params(n_jobs=2).fit(X)
    np.testing.assert_allclose(alone.cv_results_["mean_test_score"], together.cv_results_["mean_test_score"], atol=1e-6)


@pytest.mark.parametrize("mode", ["matrix", "fitted"])
def test_a_graph_of_kneighbors_transformer_goes_in(mode):
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    finder = KNeighborsTransformer(n_neighbors=6, mode="distance").fit(rows)
    neighbors = finder if mode == "fitted" else finder.transform(rows)
    # Rows of unit length have the same neighbours before and after centring, if all their variance is kept.
    learner = AdaAM(10, n_neighbors=6, preparation=Preparation("unit", 1.0))
    expected, found = clone(learner).fit(X), learner.fit(X, neighbors=neighbors)
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-6


def test_a_graph_of_the_learned_metric_comes_out():
    graph_of = KNeighborsTransformer(n_neighbors=10, mode="distance")
    spectral = SpectralClustering(10, affinity="precomputed_nearest_neighbors", n_neighbors=10, random_state=0)
    pipeline = make_pipeline(AdaAM(10), graph_of, spectral)
    labels = pipeline.fit_predict(X)
    Z = AdaAM(10).fit_transform(X)
    direct = SpectralClustering(10, affinity="nearest_neighbors", n_neighbors=11, random_state=0).fit_predict(Z)
    assert adjusted_rand_index(labels, direct) > 0.9
    noise = make_pipeline(AdaAM(10), KNeighborsTransformer(mode="distance"), DBSCAN(metric="precomputed"))
    assert len(noise.fit_predict(X)) == len(X)


def test_hdbscan_on_the_learned_metric():
    labels = make_pipeline(AdaAM(10), HDBSCAN(min_cluster_size=10, copy=True)).fit_predict(X)
    kept = labels >= 0
    assert kept.mean() > 0.3
    assert adjusted_rand_index(y[kept], labels[kept]) > 0.5
