"""The method UMAP + k-means, with umap-learn itself."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import silhouette_score
from sklearn.pipeline import make_pipeline

from adaam import AdaAM
from adaam.bench.methods import METHODS, Case
from adaam.bench.plan import read_plan
from adaam.bench.run import run_case, warm_up

METHOD = METHODS["umap"]


def test_rounds_are_refits_as_in_the_plan():
    assert METHOD.is_refitted
    rounds = {case.rounds for case in read_plan("paper").cases if case.method == "umap"}
    assert rounds == {10}
    assert "umap" not in {case.method for case in read_plan("digits").cases}


def test_methods_fitted_once_stay_so():
    refitted = {name for name, method in METHODS.items() if method.is_refitted}
    assert refitted == {"adaam-clustering", "lsc", "spectral", "umap"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_each_round_is_a_fit_of_its_own_and_repeats_and_umap_follows_a_learned_metric():
    """A single test, since the first use of UMAP waits for the compiler."""
    umap = pytest.importorskip("umap")
    digits = load_digits()
    X, y = digits.data[:200], digits.target[:200]
    warm_up(METHOD)
    options = {"dataset": "digits", "preparation": "raw", "n_rounds": 2, "n_starts": 2}
    whole = list(run_case(METHOD, X, y, **options))
    assert [record["seed"] for record in whole] == [0, 1]
    assert all("umap-learn" in record["versions"] for record in whole)
    assert min(record["acc"] for record in whole) > 0.6
    (alone,) = run_case(METHOD, X, y, rounds=[1], **options)
    assert {name: alone[name] for name in ("acc", "nmi", "ari")} == {
        name: whole[1][name] for name in ("acc", "nmi", "ari")
    }

    first, again, other = (METHOD.make(Case(200, 64, 10, 4, "raw", seed)) for seed in (0, 0, 1))
    assert repr(clone(first)) == repr(first)
    embedded = first.fit_transform(X)
    assert embedded.shape == (200, 10)
    np.testing.assert_array_equal(embedded, again.fit_transform(X))
    assert np.abs(embedded - other.fit_transform(X)).max() > 1.0

    few = METHOD.make(Case(8, 64, 2, 2, "raw", 0))
    assert few.n_components == 6

    picture = make_pipeline(AdaAM(10), umap.UMAP(n_neighbors=10, random_state=0, n_jobs=1)).fit_transform(X)
    assert silhouette_score(picture, y) > silhouette_score(picture, np.random.default_rng(0).permutation(y)) + 0.2
