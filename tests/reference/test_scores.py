import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import comb

from adaam.scores import adjusted_rand_index, clustering_accuracy, normalized_mutual_information, purity

partitions = st.integers(1, 30).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 3), min_size=n, max_size=n) for _ in range(2)])
)


def contingency(y, p):
    return np.array([[np.sum((y == a) & (p == b)) for b in np.unique(p)] for a in np.unique(y)])


@given(partitions)
def test_accuracy_is_the_best_over_all_matchings(pair):
    y, p = np.array(pair[0]), np.array(pair[1])
    # All ways to give each of up to four clusters a class of its own.
    best = max(np.mean(np.array(match)[p] == y) for match in itertools.permutations(range(4)))
    assert clustering_accuracy(y, p) == pytest.approx(best)


@given(partitions)
def test_purity_counts_the_majority_of_each_cluster(pair):
    y, p = np.array(pair[0]), np.array(pair[1])
    assert purity(y, p) == pytest.approx(contingency(y, p).max(axis=0).sum() / len(y))
    assert purity(y, p) >= clustering_accuracy(y, p)


@given(partitions)
def test_mutual_information_follows_its_formula(pair):
    y, p = np.array(pair[0]), np.array(pair[1])
    joint = contingency(y, p) / len(y)
    a, b = joint.sum(axis=1), joint.sum(axis=0)
    mi = sum(q * np.log(q / (a[i] * b[j])) for (i, j), q in np.ndenumerate(joint) if q > 0)
    ha, hb = (-np.sum(q * np.log(q)) for q in (a, b))
    for average, bound in (
        ("max", max(ha, hb)),
        ("geometric", np.sqrt(ha * hb)),
        ("arithmetic", (ha + hb) / 2),
        ("min", min(ha, hb)),
    ):
        if min(ha, hb) > 1e-9:
            assert normalized_mutual_information(y, p, average=average) == pytest.approx(mi / bound, abs=1e-9)


@given(partitions)
def test_rand_index_follows_its_formula(pair):
    y, p = np.array(pair[0]), np.array(pair[1])
    table = contingency(y, p)
    together = comb(table, 2).sum()
    a, b = comb(table.sum(axis=1), 2).sum(), comb(table.sum(axis=0), 2).sum()
    expected = a * b / comb(len(y), 2) if len(y) > 1 else 0.0
    if abs((a + b) / 2 - expected) > 1e-9:
        assert adjusted_rand_index(y, p) == pytest.approx((together - expected) / ((a + b) / 2 - expected), abs=1e-9)


def test_extra_clusters_count_as_errors():
    assert clustering_accuracy(["a", "a", "b", "b"], [0, 1, 2, 2]) == 0.75


def test_partitions_of_different_length_are_refused():
    with pytest.raises(ValueError, match="inconsistent"):
        clustering_accuracy([0, 1], [0])
    with pytest.raises(ValueError, match="empty"):
        purity([], [])
