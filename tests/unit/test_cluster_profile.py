"""Cluster profiles and words against their definitions, written as loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

from adaam.cluster_profile import cluster_profiles, incomplete_profiles, superiority
from adaam.cluster_words import class_tfidf, cluster_categories, cluster_words


def cohens_d(inside, outside):
    """Return Cohen's d of one feature, by definition."""
    if len(inside) == 0 or len(outside) == 0:
        return 0.0
    gap = inside.mean() - outside.mean()
    squares = ((inside - inside.mean()) ** 2).sum() + ((outside - outside.mean()) ** 2).sum()
    if squares == 0:
        return np.sign(gap) * np.inf if gap else 0.0
    return gap / np.sqrt(squares / (len(inside) + len(outside) - 2))


@pytest.mark.parametrize("form", [np.asarray, csr_array, lambda X: X.astype(np.float32)])
def test_effects_means_and_sizes_are_those_of_the_definition(form):
    rng = np.random.default_rng(0)
    X = (
        np.round(rng.normal(size=(120, 5)) + rng.integers(0, 3, (120, 1)), 2)
        * [1, 10, 0.1, 1, 1]
        * (rng.random((120, 5)) < 0.7)
    )
    labels = rng.integers(-1, 4, 120)
    found = cluster_profiles(form(X), labels, 5)
    assert found.names == ("x0", "x1", "x2", "x3", "x4")
    for cluster in range(5):
        inside, outside = X[labels == cluster], X[labels != cluster]
        assert found.sizes[cluster] == len(inside)
        if len(inside):
            np.testing.assert_allclose(found.means[cluster], inside.mean(axis=0), rtol=1e-5, atol=1e-7)
            np.testing.assert_allclose(found.rest_means[cluster], outside.mean(axis=0), rtol=1e-5, atol=1e-7)
        wanted = [cohens_d(inside[:, j], outside[:, j]) for j in range(5)]
        np.testing.assert_allclose(found.effects[cluster], wanted, rtol=1e-5, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.floats(-1e6, 1e6), st.floats(0.01, 100))
def test_effects_do_not_depend_on_units(seed, shift, scale):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(30, 3)), rng.integers(0, 3, 30)
    np.testing.assert_allclose(
        cluster_profiles(shift + scale * X, labels, 3).effects,
        cluster_profiles(X, labels, 3).effects,
        rtol=1e-4,
        atol=1e-4,
    )


def test_a_row_of_weight_w_counts_as_w_equal_rows():
    rng = np.random.default_rng(4)
    X, labels, weights = rng.normal(size=(30, 4)), rng.integers(-1, 3, 30), rng.integers(0, 4, 30)
    weighted = cluster_profiles(X, labels, 3, sample_weight=weights)
    repeated = cluster_profiles(np.repeat(X, weights, axis=0), np.repeat(labels, weights), 3)
    np.testing.assert_array_equal(weighted.sizes, repeated.sizes)
    np.testing.assert_allclose(weighted.effects, repeated.effects, rtol=1e-10)


def test_constant_features_have_no_effect_and_constant_clusters_an_infinite_one():
    X = np.array([[0.1, 0.1], [0.1, 0.1], [0.1, 0.3], [0.1, 0.3], [0.1, 0.3]])
    found = cluster_profiles(X, [0, 0, 1, 1, 1], 2)
    np.testing.assert_array_equal(found.effects, [[0, -np.inf], [0, np.inf]])


def test_one_cluster_has_nothing_to_be_set_apart_from():
    assert not cluster_profiles(np.eye(4), np.zeros(4, dtype=int), 1).effects.any()


def test_the_largest_effects_come_first():
    X = np.array([[0.0, 10, 1], [0.1, 11, 2], [5.0, 10, 1], [5.1, 11, 2]])
    found = cluster_profiles(X, [0, 0, 1, 1], 2, ["flavanoids", "ash", "hue"])
    top = found.top(1, 2)
    assert [each.name for each in top] == ["flavanoids", "ash"]
    assert str(found).splitlines()[:2] == ["cluster 0: 2 rows", "  flavanoids  d = -70.71   mean 0.05, elsewhere 5.05"]


def test_missing_values_take_no_part_in_the_profile_of_their_feature():
    rng = np.random.default_rng(5)
    X, labels = rng.normal(size=(80, 3)), rng.integers(-1, 3, 80)
    X[rng.random(X.shape) < 0.2] = np.nan
    found = incomplete_profiles(X, labels, 3, ["a", "b", "c"])
    assert found.sizes.tolist() == np.bincount(labels[labels >= 0]).tolist()
    for j in range(3):
        has = ~np.isnan(X[:, j])
        alone = cluster_profiles(X[has, j][:, None], labels[has], 3)
        np.testing.assert_allclose(found.effects[:, j], alone.effects[:, 0])
        np.testing.assert_allclose(found.means[:, j], [X[has & (labels == c), j].mean() for c in range(3)])
    assert incomplete_profiles(np.empty((80, 0)), labels, 3, []).effects.shape == (3, 0)


def test_profiles_print_themselves_and_are_a_table_in_notebooks():
    X = np.array([[0.0, 10], [0.1, 11], [5.0, 10], [5.1, 11]])
    found = cluster_profiles(X, [0, 0, 1, 1], 2, ["<b>", "ash"])
    assert repr(found) == str(found)
    table = found._repr_html_()
    assert "&lt;b&gt;" in table
    assert table.count("<tr>") == 5
    assert "<td>-70.71</td><td>0.05</td><td>5.05</td>" in table


def test_superiority_is_the_share_of_pairs():
    rng = np.random.default_rng(2)
    values, members = rng.integers(0, 6, 40).astype(float), rng.random(40) < 0.3
    pairs = [(a > b) + 0.5 * (a == b) for a in values[members] for b in values[~members]]
    assert superiority(values, members) == pytest.approx(np.mean(pairs))
    assert superiority(values, members) == pytest.approx(roc_auc_score(members, values))
    assert superiority(values, np.ones(40)) == 0.5


def test_class_tfidf_is_that_of_the_definition():
    counts = np.random.default_rng(3).integers(0, 5, (3, 7))
    counts[:, 4] = 0
    counts[1] = 0
    found = class_tfidf(counts)
    mean = counts.sum() / 3
    for c in range(3):
        for t in range(7):
            if counts[c, t] == 0:
                assert found[c, t] == 0
                continue
            tf = counts[c, t] / counts[c].sum()
            assert found[c, t] == pytest.approx(tf * np.log(1 + mean / counts[:, t].sum()))


def test_words_of_a_cluster_are_those_that_the_others_lack():
    texts = [
        "The card has not arrived",
        "my card is late",
        "exchange rate of the euro",
        "the rate is wrong",
        "card rate",
    ]
    first, second = cluster_words(texts, [0, 0, 1, 1, -1], 2, 3)
    assert first[0].word == "card"
    assert (first[0].share, first[0].rest_share) == (1.0, pytest.approx(1 / 3))
    assert second[0].word == "rate"
    assert "the" not in {each.word for each in first + second}
    assert all(each.share > each.rest_share for each in first + second)


def test_texts_without_words_have_none():
    assert cluster_words(["", "12 34", "the"], [0, 1, 1], 2) == [[], []]


def test_categories_are_compared_by_their_shares():
    values, labels = ["a", "a", "b", None, "b", "b"], [0, 0, 0, 1, 1, -1]
    first, second = cluster_categories(values, labels, 2)
    assert [(each.word, each.share, each.rest_share) for each in first] == [("a", pytest.approx(2 / 3), 0.0)]
    assert second == []
    (only,) = cluster_categories(values, labels, 2, least=0.0)[1]
    assert (only.word, only.share, only.rest_share) == ("b", 0.5, 0.5)
