"""Each learned distance is a metric, and the Euclidean distance after transform."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs
from sklearn.neighbors import NearestNeighbors

from adaam import LPP, AdaAM, AdaAMClustering

LEARNERS = [AdaAM(3), AdaAM(3, preparation="linear"), LPP(2), AdaAMClustering(3)]

pytestmark = pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")


@pytest.fixture(params=LEARNERS, ids=str)
def fitted(request):
    return request.param.fit(make_blobs(90, n_features=5, centers=3, random_state=1)[0])


@pytest.fixture
def triples(rng):
    return rng.standard_normal((50, 3, 5)) * 3


def test_distance_is_the_euclidean_one_after_transform(fitted, triples):
    pairs = triples[:, :2]
    Z0, Z1 = fitted.transform(pairs[:, 0]), fitted.transform(pairs[:, 1])
    expected = np.linalg.norm(Z0 - Z1, axis=1)
    np.testing.assert_allclose(fitted.pair_distance(pairs), expected, atol=1e-12)
    np.testing.assert_array_equal(fitted.pair_score(pairs), -fitted.pair_distance(pairs))
    metric = fitted.get_metric()
    np.testing.assert_allclose([metric(u, v) for u, v in pairs], expected, atol=1e-12)


def test_distance_is_a_metric(fitted, triples):
    a, b, c = triples.transpose(1, 0, 2)
    ab, bc, ac = (fitted.pair_distance(np.stack(pair, axis=1)) for pair in ((a, b), (b, c), (a, c)))
    ba = fitted.pair_distance(np.stack((b, a), axis=1))
    assert (ab >= 0).all()
    np.testing.assert_allclose(ab, ba, rtol=1e-12)
    assert (ac <= ab + bc + 1e-12).all()
    np.testing.assert_array_equal(fitted.pair_distance(np.stack((a, a), axis=1)), 0.0)


def test_mahalanobis_matrix_measures_prepared_rows(fitted, triples):
    M = fitted.get_mahalanobis_matrix()
    np.testing.assert_allclose(M, M.T)
    assert np.linalg.eigvalsh(M).min() > -1e-12
    assert np.linalg.matrix_rank(M) == fitted.n_components_
    u, v = triples[0, 0], triples[0, 1]
    if fitted.preparation_.row_scaling == "unit":
        u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    expected = np.sqrt((u - v) @ M @ (u - v))
    assert fitted.get_metric()(triples[0, 0], triples[0, 1]) == pytest.approx(expected, rel=1e-9)


def test_the_metric_is_frozen(fitted, triples):
    metric = fitted.get_metric()
    before = metric(*triples[0, :2])
    fitted.components_ = fitted.components_ * 2
    assert metric(*triples[0, :2]) == before


def test_other_estimators_take_the_metric():
    X = load_digits().data[:60]
    model = AdaAM(5, n_neighbors=6).fit(X)
    slow = NearestNeighbors(n_neighbors=3, metric=model.get_metric(), algorithm="brute").fit(X).kneighbors(X[:5])
    fast = NearestNeighbors(n_neighbors=3).fit(model.transform(X)).kneighbors(model.transform(X[:5]))
    np.testing.assert_array_equal(slow[1], fast[1])


def test_shares_sum_to_one_and_explain_the_mean_squared_distance(fitted):
    X = make_blobs(90, n_features=5, centers=3, random_state=1)[0]
    explained = getattr(fitted, "metric_", fitted).explain()  # a clusterer's own `explain` describes its clusters
    assert explained.share.sum() == pytest.approx(1.0)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if fitted.preparation_.row_scaling == "unit" else X
    centred = rows - rows.mean(axis=0)
    M = fitted.get_mahalanobis_matrix()
    terms = np.einsum("ij,ij->j", centred, centred @ M)
    # The preparation leaves out at most 2 % of the variance, and a similar part of the explanation.
    np.testing.assert_allclose(explained.share, terms / terms.sum(), atol=0.05)
    np.testing.assert_allclose(explained.sensitivity**2, np.diag(M), rtol=1e-10)


def test_a_pair_is_explained_exactly(fitted, triples):
    a, b = triples[0, :2]
    explained = fitted.explain(a, b)
    u, v = (a / np.linalg.norm(a), b / np.linalg.norm(b)) if fitted.preparation_.row_scaling == "unit" else (a, b)
    terms = (u - v) * (fitted.get_mahalanobis_matrix() @ (u - v))
    np.testing.assert_allclose(explained.share, terms / terms.sum(), atol=1e-10)
    assert explained.top(2)[0][1] == explained.share.max()
    assert "share of squared distance" in str(explained)


def test_explaining_one_row_is_refused(fitted, triples):
    with pytest.raises(ValueError, match="two rows or none"):
        fitted.explain(triples[0, 0])
    np.testing.assert_array_equal(fitted.explain(triples[0, 0], triples[0, 0]).share, 0.0)
