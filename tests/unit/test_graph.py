import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsTransformer, NearestNeighbors, kneighbors_graph
from sklearn.pipeline import make_pipeline

import oracles
from adaam import AdaAM, DisconnectedGraphWarning
from adaam.engines import CPUEngine, NeighborGraph
from adaam.engines.neighbors.graph import measured_graph
from adaam.graph import Neighbors, given_graph, neighbor_graph
from adaam.prepare import Sample


def sample(X, weights=None):
    return Sample(X, np.ones(len(X)) if weights is None else np.asarray(weights, float), CPUEngine())


def test_neighbours_equal_the_oracles(rng):
    X = rng.standard_normal((50, 4))
    graph = neighbor_graph(sample(X), 5)
    indices, distances = oracles.neighbors(X, 5)
    np.testing.assert_array_equal(graph.indices.reshape(50, 5), indices)
    np.testing.assert_allclose(graph.distances.reshape(50, 5), distances, rtol=1e-12)
    assert (graph.shares == 1).all()
    assert (graph.copies == 0).all()


def test_coincident_rows_are_at_distance_zero(rng):
    # The expanded square |x|² - 2xy + |y|² would put copies at a distance of about 1e-7 of their length.
    X = np.repeat(rng.standard_normal((5, 30)) * 1e3, 3, axis=0)
    graph = neighbor_graph(sample(X), 2)
    np.testing.assert_array_equal(graph.distances, 0.0)


def test_copies_fill_a_neighbourhood_and_the_last_place_is_shared():
    # Row 0 stands for 2 rows: 1 copy of its own, then 2 of the 4 rows at distance 1, none of those at 10.
    graph = neighbor_graph(sample(np.array([[0.0], [1.0], [10.0]]), [2, 4, 1]), 3)
    np.testing.assert_array_equal(graph.copies, [1, 3, 0])
    first = slice(graph.starts[0], graph.starts[1])
    np.testing.assert_array_equal(graph.indices[first], [1])
    np.testing.assert_array_equal(graph.shares[first], [0.5])
    assert graph.starts[2] == graph.starts[1], "row 1 is filled by its own copies"
    np.testing.assert_array_equal(graph.shares[graph.starts[2] :], [0.75])


def test_light_rows_widen_the_search_until_the_neighbourhood_is_full():
    X = np.arange(10.0)[:, None]
    graph = neighbor_graph(sample(X, np.full(10, 0.5)), 2)
    np.testing.assert_allclose(np.bincount(graph.rows(), graph.shares * 0.5), 2.0)


def test_rows_tied_at_the_last_place_share_it():
    # Rows 1 and 2 are equally far from row 0: each takes half of its one place.
    graph = neighbor_graph(sample(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [5.0, 5.0]])), 1)
    first = slice(graph.starts[0], graph.starts[1])
    assert set(graph.indices[first]) == {1, 2}
    np.testing.assert_array_equal(graph.shares[first], 0.5)


def test_ties_are_shared_alike_in_any_order_of_rows(rng):
    X = rng.integers(0, 3, size=(40, 3)).astype(float)
    X = np.unique(X, axis=0)
    order = rng.permutation(len(X))

    def dense(rows):
        graph = neighbor_graph(sample(rows), 3)
        shares = np.zeros((len(rows), len(rows)))
        shares[graph.rows(), graph.indices] = graph.shares
        return shares

    shares = dense(X)
    np.testing.assert_allclose(shares.sum(axis=1), 3.0)
    np.testing.assert_allclose(dense(X[order]), shares[np.ix_(order, order)], atol=1e-12)


def searched_graph(X, k):
    """Return the graph, and the number of rows of each search."""
    searched, everywhere = [], cdist(X, X)
    np.fill_diagonal(everywhere, np.inf)

    def search(width, rows):
        asked = everywhere if rows is None else everywhere[rows]
        searched.append(len(asked))
        nearest = np.argsort(asked, axis=1, kind="stable")[:, :width]
        return nearest, np.take_along_axis(asked, nearest, axis=1)

    return measured_graph(search, np.linalg.norm(X, axis=1), 1.0, k, X.dtype), searched


def test_only_rows_whose_ties_run_past_the_search_are_searched_again(rng):
    X = rng.standard_normal((60, 3))
    X[:9] = 100.0
    X[:9] += np.vstack([np.zeros(3), *np.eye(3), *-np.eye(3), [9.0, 0, 0], [0, 9.0, 0]])  # row 0 has 6 nearest
    graph, searched = searched_graph(X, 2)
    assert searched[0] == 60
    assert 1 <= searched[1] < 10
    first = slice(graph.starts[0], graph.starts[1])
    assert set(graph.indices[first]) == set(range(1, 7))
    np.testing.assert_allclose(graph.shares[first], 1 / 3)
    np.testing.assert_allclose(np.bincount(graph.rows(), graph.shares), 2.0)


def test_a_pair_tied_at_the_last_place_needs_no_second_search(rng):
    X = rng.standard_normal((50, 4))
    X[:3] = 100 + np.array([[0.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    graph, searched = searched_graph(X, 1)
    assert searched == [50]
    np.testing.assert_array_equal(graph.shares[graph.starts[0] : graph.starts[1]], 0.5)


@pytest.mark.parametrize(("gap", "tied"), [(1e-9, True), (1e-5, False)])
def test_float32_coordinates_tie_within_their_own_rounding(gap, tied):
    # Regression: with a tolerance of 64 float32 roundings, gaps of 1e-5 were ties, and most searches ran twice.
    distances = np.array([[1.0, 1.0 + gap, 2.0], [1.0, 1.5, 2.0], [1.0, 1.5, 2.0], [1.0, 1.5, 2.0]])
    indices = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
    graph = measured_graph(lambda k, _: (indices[:, :k], distances[:, :k]), np.ones(4), 1.0, 1, np.float32)
    assert np.diff(graph.starts).tolist() == [2 if tied else 1, 1, 1, 1]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(4, 25), st.integers(1, 5))
def test_shares_are_those_of_all_pairs_sorted(seed, n, k):
    """Integer rows have many ties, and some have weight 2: compared with shares by definition."""
    rng = np.random.default_rng(seed)
    X = np.unique(rng.integers(0, 4, size=(n, 2)), axis=0).astype(float)
    weights = rng.integers(1, 3, size=len(X)).astype(float)
    graph = neighbor_graph(sample(X, weights), k)
    found = np.zeros((len(X), len(X)))
    found[graph.rows(), graph.indices] = graph.shares
    expected = np.zeros_like(found)
    squared = ((X[:, None] - X) ** 2).sum(axis=2)
    for i in range(len(X)):
        left = k - min(weights[i] - 1, k)
        for value in np.unique(squared[i][squared[i] > 0]):
            group = squared[i] == value
            share = min(max(left, 0.0) / weights[group].sum(), 1.0)
            expected[i, group] = share
            left -= weights[group].sum()
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_mean_distance_counts_copies(rng):
    X = rng.standard_normal((12, 3))
    weights = rng.integers(1, 4, size=12)
    merged = neighbor_graph(sample(X, weights), 4)
    repeated = neighbor_graph(sample(np.repeat(X, weights, axis=0)), 4)
    expected = repeated.mean_distance(np.ones(weights.sum()))
    assert merged.mean_distance(weights.astype(float)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("form", ["tuple", "csr", "transformer", "fitted"])
def test_every_form_of_a_given_graph_is_the_same_graph(form, rng):
    X = rng.standard_normal((40, 3))
    found = neighbor_graph(sample(X), 4)
    distances, indices = NearestNeighbors(n_neighbors=4).fit(X).kneighbors()
    given = {
        "tuple": (indices, distances),
        "csr": kneighbors_graph(X, 4, mode="distance"),
        "transformer": KNeighborsTransformer(n_neighbors=4).fit_transform(X),  # holds self entries
        "fitted": NearestNeighbors(n_neighbors=9).fit(X),
    }[form]
    graph = given_graph(given, 40, 4)
    np.testing.assert_array_equal(graph.starts, found.starts)
    np.testing.assert_array_equal(graph.indices, found.indices)
    np.testing.assert_allclose(graph.distances, found.distances, rtol=1e-6)


def test_a_neighbour_given_twice_is_one_neighbour():
    indices, distances = np.array([[1, 2, 1], [0, 2, 2], [1, 0, 2]]), np.array([[3.0, 2, 1], [1, 4, 4], [1, 2, 0]])
    graph = given_graph((indices, distances), 3, 3)
    np.testing.assert_array_equal(graph.indices, [1, 2, 0, 2, 1, 0])
    np.testing.assert_array_equal(graph.distances, [1, 2, 1, 4, 1, 2])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ((np.zeros((3, 1), int), np.zeros((3, 2))), ValueError, "both must be"),
        ((np.full((3, 1), -1), np.zeros((3, 1))), ValueError, "names row -1"),
        ((np.full((3, 1), 3), np.zeros((3, 1))), ValueError, "names row 3"),
        ((np.zeros((3, 1)), np.zeros((3, 1))), TypeError, "must be integers"),
        ((np.zeros((3, 1), int), np.full((3, 1), np.nan)), ValueError, "not finite"),
        ((np.zeros((3, 1), int), np.full((3, 1), -1.0)), ValueError, "negative"),
        ("graph", TypeError, "is not a neighbour graph"),
        (kneighbors_graph(np.eye(4), 1), ValueError, "shape"),
        (NearestNeighbors().fit(np.eye(7)), ValueError, "fitted on 7 rows"),
    ],
)
def test_a_bad_graph_is_refused_with_its_fault(given, error, message):
    with pytest.raises(error, match=message):
        given_graph(given, 3, 1)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(1, 3))
def test_pieces_are_those_of_the_undirected_graph(seed, n, k):
    rng = np.random.default_rng(seed)
    indices = np.array([rng.choice(np.delete(np.arange(n), i), min(k, n - 1), replace=False) for i in range(n)])
    graph = given_graph((indices, np.ones(indices.shape)), n, k)
    joined = np.eye(n, dtype=bool)
    joined[graph.rows(), graph.indices] = True
    reach = np.linalg.matrix_power((joined | joined.T).astype(float), n) > 0
    assert len(graph.piece_sizes()) == len(np.unique(reach, axis=0))


def test_disconnected_pieces_are_counted_and_named(rng):
    X = np.vstack([rng.standard_normal((7, 2)), rng.standard_normal((4, 2)) + 100])
    with pytest.warns(DisconnectedGraphWarning, match="2 pieces of 7, 4 distinct rows"):
        Neighbors(sample(X), None)(3)


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: make_pipeline(model)])
def test_a_warning_names_the_line_that_called_the_library(wrap, rng):
    X = np.vstack([rng.random((30, 3)), rng.random((30, 3)) + 50.0])
    with pytest.warns(DisconnectedGraphWarning) as caught:
        wrap(AdaAM(2, n_neighbors=3, preparation="linear")).fit(X)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("longest", [3, 30, 400])
def test_a_half_splits_the_larger_of_two_values_between_the_entries_of_a_pair(longest):
    rng = np.random.default_rng(longest)
    n = 450
    lengths = rng.integers(0, 4, n)
    lengths[5] = longest
    found = [rng.permutation(np.delete(np.arange(n), i))[:length] for i, length in enumerate(lengths)]
    starts, indices = np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(found).astype(np.intp)
    shares, values, weights = rng.random(len(indices)), rng.random(len(indices)), rng.random(n) + 0.5
    graph = NeighborGraph(starts, indices, rng.random(len(indices)), shares, rng.random(n))
    rows = np.repeat(np.arange(n), lengths)
    taken, given = np.zeros((n, n)), np.zeros((n, n))
    taken[rows, indices], given[rows, indices] = shares, values
    assert (taken * taken.T).any()
    expected = np.maximum(given, given.T) * (taken + taken.T - taken * taken.T) * np.outer(weights, weights)
    half = graph.half(values, weights, same_both_ways=False)
    np.testing.assert_allclose((half + half.T).toarray(), expected + np.diag(weights * graph.copies), rtol=1e-12)
    assert not half.toarray()[(taken == 0) & ~np.eye(n, dtype=bool)].any(), "an entry is where it was found"


def test_a_graph_without_entries_has_a_half_and_no_distances():
    graph = NeighborGraph(np.zeros(4, int), np.empty(0, int), np.empty(0), np.empty(0), np.zeros(3))
    assert graph.half(np.empty(0), 1.0, same_both_ways=True).nnz == 0
    np.testing.assert_array_equal(graph.farthest(), 0.0)
    assert graph.mean_distance(1.0) == 0.0
