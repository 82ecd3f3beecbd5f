"""The registry of compared methods: all of them run, and what they declare is true."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.datasets import load_digits

from adaam.bench.methods import METHODS, Case, Method

N_ROWS = 200
# Methods that need another package have tests of their own.
CASES = [
    pytest.param(method, preparation, id=f"{method.name}-{preparation}")
    for method in METHODS.values()
    for preparation in method.preparations
    if not method.package
]

# Few rows make disconnected graphs, of which the methods rightly warn.
pytestmark = [
    pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(scope="module")
def rows():
    return load_digits().data[:N_ROWS]


def case_of(preparation, seed=0):
    return Case(n=N_ROWS, d=64, n_clusters=10, n_neighbors=4, preparation=preparation, seed=seed)


def run(method: Method, preparation, X, seed=0):
    """Fit as the benchmark does; forests are kept small."""
    estimator = method.make(case_of(preparation, seed))
    if method.name == "clustrf-bi":
        estimator.set_params(affinity__n_trees=20)
    return estimator.fit_transform(X) if method.kind == "embedding" else estimator.fit_predict(X)


@pytest.mark.parametrize(("method", "preparation"), CASES)
def test_every_method_runs_and_is_finite(method, preparation, rows):
    result = run(method, preparation, rows)
    assert len(result) == N_ROWS
    assert np.isfinite(result).all()
    if method.kind == "labels":
        assert result.ndim == 1
        assert 2 <= len(np.unique(result)) <= N_ROWS // 2
    else:
        assert result.shape[1] == (64 if method.name == "kmeans" else 10)


@pytest.mark.parametrize(("method", "preparation"), [case for case in CASES if not case.values[0].random])
def test_methods_that_say_so_do_not_depend_on_the_seed(method, preparation, rows):
    first, second = (run(method, preparation, rows, seed) for seed in (1, 2))
    if method.kind == "labels":
        np.testing.assert_array_equal(first, second)
    else:
        # k-means depends on distances only; signs of axes are arbitrary.
        np.testing.assert_allclose(pdist(first), pdist(second), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("method", "preparation"), CASES)
def test_seeded_runs_repeat(method, preparation, rows):
    np.testing.assert_array_equal(run(method, preparation, rows), run(method, preparation, rows))


@pytest.mark.parametrize(("method", "preparation"), CASES)
def test_estimators_are_fresh_and_clonable(method, preparation):
    first, second = method.make(case_of(preparation)), method.make(case_of(preparation))
    assert first is not second
    assert repr(clone(first)) == repr(first)


def test_names_are_those_of_the_records():
    assert list(METHODS) == [
        *("adaam", "adaam-clustering", "knn", "cons-knn", "dn", "clustrf-bi", "pcan-kmeans", "pcan", "can", "lsc"),
        *("spectral", "spectral-embedding", "isomap", "lle", "mds", "umap", "pca", "kmeans"),
    ]
    assert all(name == method.name for name, method in METHODS.items())


def test_embeddings_have_no_more_components_than_the_features_allow():
    narrow = Case(n=50, d=3, n_clusters=8, n_neighbors=3, preparation="reference", seed=0)
    assert METHODS["knn"].make(narrow).n_components == 3
    assert METHODS["pca"].make(narrow).n_components == 3
