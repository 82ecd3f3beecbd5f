"""Links, modularity, diffusion and merging against slow versions written from the formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from adaam.engines import CPUEngine
from adaam.partition import HEADS, View, merge_path, modularity, modularity_gain, neighbor_links, row_modularity
from adaam.partition.diffusion import diffusion_coordinates, walk_eigenpairs
from adaam.partition.heads import LINKS_PER_ROW
from adaam.scores import adjusted_rand_index

ENGINE = CPUEngine()


def random_links(seed: int, n: int, density: float = 0.4) -> csr_array:
    rng = np.random.default_rng(seed)
    A = rng.random((n, n)) * (rng.random((n, n)) < density)
    return csr_array(A + A.T)


def dense_modularity(A: np.ndarray, labels: np.ndarray) -> float:
    total, degrees = A.sum(), A.sum(axis=1)
    return sum(
        (A[i, j] - degrees[i] * degrees[j] / total) / total
        for i in range(len(A))
        for j in range(len(A))
        if labels[i] == labels[j]
    )


def blobs(n_blobs: int = 3, n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centers = 8.0 * np.arange(n_blobs)[:, None] * np.ones(4)
    return np.vstack([c + rng.standard_normal((n, 4)) for c in centers]), np.repeat(np.arange(n_blobs), n)


def view(X: np.ndarray, weights: np.ndarray | None = None) -> View:
    return View(X, np.ones(len(X)) if weights is None else weights, ENGINE)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.integers(2, 12), st.integers(1, 4))
def test_modularity_equals_the_double_sum(seed, n, n_labels):
    links = random_links(seed, n, density=1.0)
    labels = np.random.default_rng(seed).integers(n_labels, size=n)
    assert_allclose(modularity(links, labels), dense_modularity(links.toarray(), labels), atol=1e-12)


def test_modularity_of_one_cluster_is_zero_and_of_separate_pieces_is_one_less_a_share():
    links = csr_array(np.kron(np.eye(4), np.ones((5, 5))))
    assert modularity(links, np.zeros(20, dtype=int)) == pytest.approx(0.0)
    assert modularity(links, np.repeat(np.arange(4), 5)) == pytest.approx(1 - 1 / 4)


def test_rows_of_modularity_sum_to_it_and_the_gain_of_nothing_is_nothing():
    links = random_links(3, 15)
    labels = np.arange(15) % 3
    rows = row_modularity(links, labels)
    assert rows.sum() == pytest.approx(modularity(links, labels))
    gain = modularity_gain(rows, rows)
    assert gain == (0.0, 0.0)
    assert not gain.exceeds(0.0)


def test_links_count_places_given_in_both_directions():
    X = np.random.default_rng(0).standard_normal((30, 3))
    indices, _ = ENGINE.neighbors(X, 4)
    A = np.zeros((30, 30))
    for i, row in enumerate(indices):
        A[i, row] = 1.0
    graph = ENGINE.neighbor_graph(X, 4, 1.0).host()
    assert_allclose(neighbor_links(graph, np.ones(30)).toarray(), (A + A.T) / 2)


def test_weighted_rows_have_the_links_of_their_copies():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((25, 3))
    weights = rng.integers(1, 4, size=25).astype(float)
    copies = np.repeat(np.arange(25), weights.astype(int))
    merged = neighbor_links(ENGINE.neighbor_graph(X, 6, weights).host(), weights).toarray()
    # Places given by every single copy, ties among copies shared.
    repeated = X[copies]
    distances = np.linalg.norm(repeated[:, None] - repeated, axis=2)
    A = np.zeros_like(distances)
    for i, row in enumerate(distances):
        others = np.delete(np.arange(len(row)), i)
        order = others[np.argsort(row[others], kind="stable")]
        last = row[order[5]]
        nearer = others[row[others] < last - 1e-12]
        tied = others[np.abs(row[others] - last) <= 1e-12]
        A[i, nearer] = 1.0
        A[i, tied] = (6 - len(nearer)) / len(tied)
    together = np.zeros((25, len(copies)))
    together[copies, np.arange(len(copies))] = 1.0
    assert_allclose(merged, together @ ((A + A.T) / 2) @ together.T, atol=1e-9)


@pytest.mark.parametrize("n", [20, 150])
@pytest.mark.parametrize("n_pieces", [1, 3])
def test_walk_eigenpairs_equal_the_dense_ones(n, n_pieces):
    parts = [random_links(piece, n // n_pieces, 0.3) for piece in range(n_pieces)]
    A = np.zeros((n, n))
    at = 0
    for part in parts:
        A[at : at + part.shape[0], at : at + part.shape[0]] = part.toarray() + 0.01
        at += part.shape[0]
    A = A[:at, :at]
    root = np.sqrt(A.sum(axis=1))
    S = A / root / root[:, None]
    pairs = walk_eigenpairs(csr_array(A), 5)
    assert_allclose(pairs.values, np.linalg.eigvalsh(S)[::-1][:5], atol=1e-6)
    assert_allclose(S @ pairs.vectors, pairs.vectors * pairs.values, atol=1e-3)
    assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(5), atol=1e-5)


def test_diffusion_coordinates_have_unit_rows_and_the_distances_of_the_dense_walk():
    A = random_links(7, 40, 0.5).toarray() + 0.05
    root = np.sqrt(A.sum(axis=1))
    values, vectors = np.linalg.eigh(A / root / root[:, None])
    expected = vectors[:, ::-1][:, :6] * np.clip(values[::-1][:6], 0, 1) ** 2
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = diffusion_coordinates(csr_array(A), 6, 2.0)
    assert_allclose(np.linalg.norm(found, axis=1), 1.0)
    assert_allclose(found @ found.T, expected @ expected.T, atol=1e-8)


def slow_merges(A: np.ndarray, n_clusters: int) -> set[frozenset[int]]:
    clusters = [{i} for i in range(len(A))]
    degrees = A.sum(axis=1)
    while len(clusters) > n_clusters:
        best = max(
            ((a, b) for a in range(len(clusters)) for b in range(a)),
            key=lambda pair: (
                A[np.ix_(sorted(clusters[pair[0]]), sorted(clusters[pair[1]]))].sum()
                / (degrees[sorted(clusters[pair[0]])].sum() * degrees[sorted(clusters[pair[1]])].sum())
            ),
        )
        a, b = best
        clusters[b] |= clusters[a]
        del clusters[a]
    return {frozenset(cluster) for cluster in clusters}


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 500), st.integers(3, 9))
def test_merges_equal_the_slow_ones_at_every_number(seed, n):
    links = random_links(seed, n, density=1.0)
    path = merge_path(links, np.arange(n), np.zeros((n, 1)), np.ones(n))
    for n_clusters in range(1, n + 1):
        labels = path.labels(n_clusters)
        assert labels.max() + 1 == n_clusters
        found = {frozenset(np.flatnonzero(labels == c).tolist()) for c in range(n_clusters)}
        assert found == slow_merges(links.toarray(), n_clusters)
        assert path.modularities[n_clusters - 1] == pytest.approx(modularity(links, labels), abs=1e-12)


def test_clusters_without_links_join_the_nearest_centre_smallest_first():
    links = csr_array(np.zeros((4, 4)))
    path = merge_path(links, np.arange(4), np.array([[0.0], [10.0], [11.0], [30.0]]), np.array([9.0, 5.0, 1.0, 4.0]))
    assert path.labels(3).tolist() == [0, 1, 1, 2]
    assert path.labels(2).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("head", HEADS)
def test_heads_find_separate_blobs(head):
    X, y = blobs()
    assert adjusted_rand_index(y, HEADS[head].labels(view(X), 3, 10, 0)) == 1.0


def test_graph_heads_follow_rings_where_k_means_cannot():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 400)
    radius = np.repeat([1.0, 3.0], 200)
    X = np.c_[radius * np.cos(angle), radius * np.sin(angle)]
    y = np.repeat([0, 1], 200)
    assert adjusted_rand_index(y, HEADS["k-means"].labels(view(X), 2, 10, 0)) < 0.5
    assert adjusted_rand_index(y, HEADS["merging"].labels(view(X), 2, 10, 0)) == 1.0


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("n_clusters", [1, 2, 5])
def test_heads_stand_tiny_and_repeated_rows(head, n_clusters):
    X = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0], [6.0, 5.0], [20.0, 1.0]])
    labels = HEADS[head].labels(view(X, np.array([1.0, 30.0, 2.0, 1.0, 1.0])), n_clusters, 3, 0)
    assert labels.shape == (5,)
    assert len(np.unique(labels)) <= n_clusters


@pytest.mark.parametrize("head", HEADS)
def test_order_of_rows_does_not_change_a_partition(head):
    X, _ = blobs(4, 30, seed=2)
    order = np.random.default_rng(0).permutation(len(X))
    labels = HEADS[head].labels(view(X), 4, 10, 0)
    assert adjusted_rand_index(labels[order], HEADS[head].labels(view(X[order]), 4, 10, 0)) == 1.0


def test_more_pieces_than_vectors_leave_every_piece_whole_until_it_must_merge():
    rng = np.random.default_rng(0)
    X = np.vstack([100.0 * i + rng.standard_normal((LINKS_PER_ROW + 2, 2)) for i in range(9)])
    y = np.repeat(np.arange(9), LINKS_PER_ROW + 2)
    labels = HEADS["merging"].labels(view(X), 2, 10, 0)
    assert len(np.unique(labels)) == 2
    assert all(len(np.unique(labels[y == piece])) == 1 for piece in range(9))
