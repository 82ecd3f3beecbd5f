"""Links, modularity, communities, dendrogram and layers against slow versions written from the formulas."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import kneighbors_graph

from adaam.engines import CPUEngine
from adaam.engines import links as links_module
from adaam.engines.links import Links, links_of
from adaam.partition import (
    LINKS_PER_ROW,
    Draws,
    View,
    consensus_partition,
    dendrogram,
    exchange,
    layered,
    local_communities,
    merging,
    modularity,
    modularity_gain,
    partition,
    refined,
    row_modularity,
    tree_of,
)
from adaam.partition.separation import EXTENT_ROWS, halved_cloud, least_first_split, splits
from adaam.scores import adjusted_rand_index
from adaam.selection.count import SMALLEST

ENGINE = CPUEngine()


def as_links(A: np.ndarray, *, compiled: bool = False) -> Links:
    nodes, others = np.nonzero(A)
    return links_of(nodes, others, A[nodes, others], np.zeros(len(A)), compiled=compiled)


def dense(links: Links) -> np.ndarray:
    A = np.diag(links.loops)
    A[links.nodes, links.others] = links.weights
    return A


def random_links(seed: int, n: int, density: float = 0.4) -> Links:
    rng = np.random.default_rng(seed)
    A = rng.random((n, n)) * (rng.random((n, n)) < density)
    return as_links(A + A.T)


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
    assert_allclose(modularity(links, labels), dense_modularity(dense(links), labels), atol=1e-12)


def test_modularity_of_one_cluster_is_zero_and_of_separate_pieces_is_one_less_a_share():
    links = as_links(np.kron(np.eye(4), np.ones((5, 5))))
    assert modularity(links, np.zeros(20, dtype=int)) == pytest.approx(0.0)
    assert modularity(links, np.repeat(np.arange(4), 5)) == pytest.approx(1 - 1 / 4)


def test_rows_of_modularity_sum_to_it_and_the_gain_of_nothing_is_nothing():
    links = random_links(3, 15)
    labels = np.arange(15) % 3
    rows = row_modularity(links, labels)
    assert rows.sum() == pytest.approx(modularity(links, labels))
    gain = modularity_gain(rows, rows)
    assert gain == (0.0, 0.0)
    assert not gain.is_clear


def test_links_count_places_given_in_both_directions():
    X = np.random.default_rng(0).standard_normal((30, 3))
    A = kneighbors_graph(X, 4).toarray()
    graph = ENGINE.neighbor_graph(X, 4, 1.0).host()
    assert_allclose(dense(graph.links(np.ones(30))), (A + A.T) / 2)


def test_weighted_rows_have_the_links_of_their_copies():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((25, 3))
    weights = rng.integers(1, 4, size=25).astype(float)
    copies = np.repeat(np.arange(25), weights.astype(int))
    merged = dense(ENGINE.neighbor_graph(X, 6, weights).links(weights))
    # Neighbours of every single copy, with ties among copies shared.
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


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 500), st.integers(3, 9))
def test_the_dendrogram_equals_the_slow_merges_at_every_number(seed, n):
    links = random_links(seed, n, density=1.0)
    tree = dendrogram(links, lambda: (np.zeros((n, 1)), np.ones(n)))
    assert (np.diff(tree.resolutions) <= 1e-12).all()
    for n_clusters in range(1, n + 1):
        labels = tree.cut(n_clusters)
        assert labels.max() + 1 == n_clusters
        found = {frozenset(np.flatnonzero(labels == c).tolist()) for c in range(n_clusters)}
        assert found == slow_merges(dense(links), n_clusters)
        assert tree.modularities[n_clusters - 1] == pytest.approx(modularity(links, labels), abs=1e-12)


def test_a_resolution_has_the_number_of_clusters_of_highest_modularity_on_the_way():
    tree = dendrogram(random_links(2, 30), lambda: (np.zeros((30, 1)), np.ones(30)))
    assert tree.number_at(1.0) == tree.modularities.argmax() + 1
    assert tree.number_at(0.0) <= tree.number_at(1.0) <= tree.number_at(10.0)


def test_clusters_without_links_join_the_nearest_centre_smallest_first():
    places = np.array([[0.0], [10.0], [11.0], [30.0]]), np.array([9.0, 5.0, 1.0, 4.0])
    tree = dendrogram(as_links(np.zeros((4, 4))), lambda: places)
    assert tree.cut(3).tolist() == [0, 1, 1, 2]
    assert tree.cut(2).tolist() == [0, 1, 1, 1]
    assert (tree.resolutions == 0).all()


def test_very_many_parts_without_links_first_join_the_largest(monkeypatch):
    monkeypatch.setattr(sys.modules["adaam.partition.dendrogram"], "MOST_PARTS", 5)
    tree = dendrogram(as_links(np.zeros((40, 40))), lambda: (np.arange(40.0)[:, None], np.ones(40)))
    assert [len(np.unique(tree.cut(c))) for c in (40, 12, 3, 1)] == [40, 12, 3, 1]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 500), st.integers(4, 10), st.integers(2, 4))
def test_given_clusters_are_whole_before_any_two_merge(seed, n, n_given):
    links = random_links(seed, n, density=0.5)
    labels = np.random.default_rng(seed).integers(n_given, size=n)
    tree = dendrogram(links, lambda: (np.arange(float(n))[:, None], np.ones(n)), within=labels)
    assert adjusted_rand_index(tree.cut(len(np.unique(labels))), labels) == 1.0
    for number in range(1, n + 1):
        assert tree.modularities[number - 1] == pytest.approx(modularity(links, tree.cut(number)), abs=1e-9)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000))
def test_communities_and_moves_never_lower_modularity(seed):
    links = random_links(seed, 40, 0.15)
    draws = Draws(np.random.default_rng(seed))
    labels, n_labels = local_communities(links, 1.0, draws)
    assert sorted(np.unique(labels)) == list(range(n_labels))
    assert modularity(links, labels) >= modularity(links, np.arange(40)) - 1e-12
    start = np.random.default_rng(seed).integers(3, size=40)
    start[:3] = range(3)
    moved = refined(links, start, 3, draws)
    assert modularity(links, moved) >= modularity(links, start) - 1e-12
    assert len(np.unique(moved)) == 3


def test_links_to_labels_and_contracted_links_are_the_dense_sums():
    links, labels = random_links(4, 25), np.random.default_rng(4).integers(5, size=25)
    member = np.eye(5)[labels]
    nodes, found, sums = links.sums_by_label(labels, 5)
    table = np.zeros((25, 5))
    table[nodes, found] = sums
    assert_allclose(table, (dense(links) - np.diag(links.loops)) @ member, atol=1e-12)
    assert_allclose(dense(links.contracted(labels, 5)), member.T @ dense(links) @ member, atol=1e-12)
    assert_allclose(links.contracted(labels, 5).degrees, member.T @ links.degrees)


def moves_by_definition(A, labels, totals, scale, nodes):
    """Return each node's highest gain among linked labels, its label, and the gain of staying, from a dense matrix."""
    member = np.eye(len(totals))[labels]
    sums, mine = (A - np.diag(np.diag(A))) @ member, A.sum(axis=1)
    gains = sums - scale * mine[:, None] * (totals - member * mine[:, None])
    staying = gains[np.arange(len(A)), labels]
    gains = np.where(sums > 0, gains, -np.inf)
    return gains.max(axis=1)[nodes], gains.argmax(axis=1)[nodes], staying[nodes]


@pytest.mark.parametrize("kind", ["table", "sorted", "torch"])
def test_a_sweep_moves_nodes_by_the_definition(kind, monkeypatch):
    if kind == "sorted":
        monkeypatch.setattr(links_module, "TABLE_ENTRIES", 0)
    rng = np.random.default_rng(3)
    for n_labels in (2, 7, 40):
        A = rng.integers(0, 3, (40, 40)) * (rng.random((40, 40)) < 0.2) / 2  # multiples of 1/2: many gains are equal
        A = A + A.T
        labels, looked_at, waiting = rng.integers(n_labels, size=40), rng.random(40) < 0.6, rng.random(40) < 0.5
        totals, scale = np.bincount(labels, A.sum(axis=1), minlength=n_labels), 1.0 / A.sum()
        highest, choices, staying = moves_by_definition(A, labels, totals, scale, np.arange(40))
        wanted = np.where(looked_at & (highest > staying + 1e-9 * A.sum(axis=1)), choices, labels)
        stirred = (A - np.diag(np.diag(A)))[wanted != labels].any(axis=0)
        links, given = as_links(A), [labels, looked_at, waiting.copy()]
        if kind == "torch":
            torch = pytest.importorskip("torch", reason="torch is not installed")
            links = Links(*(torch.as_tensor(part) for part in (links.nodes, links.others, links.weights, links.loops)))
            given = [torch.as_tensor(value) for value in given]
        moved, n_moved = links.sweep(given[0], n_labels, scale, given[1], given[2])
        assert_array_equal(links.to_host(moved), wanted)
        assert n_moved == np.count_nonzero(wanted != labels) > 0
        assert_array_equal(links.to_host(given[2]), (waiting & ~looked_at) | stirred)


@settings(deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1e-9, 1.0, 1e9]))
def test_sums_of_links_do_not_depend_on_their_order(seed, size):
    rng = np.random.default_rng(seed)
    weights = size * rng.random(50)
    found = links_module.exactly_summable(weights)
    assert_allclose(found, weights, rtol=1e-12, atol=1e-14 * weights.sum())
    assert len({float(sum(rng.permutation(found).tolist())) for _ in range(5)}) == 1


def test_compiled_links_merge_as_the_others():
    pytest.importorskip("numba", reason="numba is not installed")
    rng = np.random.default_rng(5)
    A = rng.random((60, 60)) * (rng.random((60, 60)) < 0.1)
    A, labels = A + A.T, rng.permutation(np.arange(60) % 13)
    plain, compiled = (as_links(A, compiled=each).contracted(labels, 13) for each in (False, True))
    assert_array_equal(plain.nodes, compiled.nodes)
    assert_array_equal(plain.others, compiled.others)
    assert_allclose(plain.weights, compiled.weights, rtol=1e-12)
    assert_allclose(plain.loops, compiled.loops, rtol=1e-12)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.sampled_from([3, 40]))
def test_compiled_sweeps_move_as_the_others(seed, n):
    pytest.importorskip("numba", reason="numba is not installed")
    rng = np.random.default_rng(seed)
    A = rng.integers(0, 3, (n, n)) * (rng.random((n, n)) < 0.2) / 2
    each = [as_links(A + A.T, compiled=compiled) for compiled in (False, True)]
    assert_array_equal(*(local_communities(links, 2.0, Draws(np.random.default_rng(seed)))[0] for links in each))
    start = np.arange(n) % 3
    assert_array_equal(*(refined(links, start, 3, Draws(np.random.default_rng(seed))) for links in each))


def test_a_consensus_does_not_hang_on_the_seed():
    X = np.random.default_rng(0).standard_normal((400, 3))  # one cloud, whose partition into seven is arbitrary
    each = [partition(view(X), 7, seed).labels for seed in (0, 100, 200)]
    agreed = [consensus_partition(view(X), 7, seed, 10)[0].labels for seed in (0, 100, 200)]

    def agreement(found):
        return np.mean([adjusted_rand_index(found[i], found[j]) for i, j in ((0, 1), (0, 2), (1, 2))])

    assert agreement(agreed) > agreement(each)


def test_a_consensus_of_equal_starts_is_one_of_them():
    X, y = blobs()
    found, agreement = consensus_partition(view(X), 3, 0, 10)
    assert adjusted_rand_index(y, found.labels) == 1.0
    assert agreement == (1.0,) * 19  # few rows have twice as many starts


def caught_in_halves():
    """Return three blobs, one split and the others merged: no exchange of parts improves that."""
    X, y = blobs(3, 60, seed=1)
    rows = view(X)
    found = merging(rows, 3, rows.draws(0))
    of_blob = np.array([np.bincount(y[found.communities == leaf]).argmax() for leaf in range(found.tree.n_leaves)])
    leaves = np.where(of_blob == 0, 0, 2)
    first = np.flatnonzero(of_blob == 0)
    leaves[first[: len(first) // 2]] = 1
    return rows, found, leaves, y


def test_two_clusters_are_merged_and_one_is_split_where_exchange_is_caught():
    rows, found, leaves, y = caught_in_halves()
    swapped = exchange._swapped(rows, found, leaves, 3, Draws(np.random.default_rng(0)))
    assert adjusted_rand_index(y, swapped[found.communities]) == 1.0


def test_small_parts_that_no_link_joins_do_not_use_up_the_clusters():
    # Groups of near-duplicates, each with more rows than links per row: the dendrogram merges all others first.
    rng = np.random.default_rng(0)
    X = 2.6 * np.eye(4, 8)[np.arange(800) % 4] + rng.standard_normal((800, 8))
    groups = [30.0 * rng.standard_normal(8) + 0.01 * rng.standard_normal((14, 8)) for _ in range(3)]
    view = View(np.vstack([X, *groups]), np.ones(842), ENGINE)
    found = partition(view, 4, 0)
    assert np.bincount(found.labels).max() < 300  # 800 in one cluster, with a modularity of 0.1, before
    assert found.modularity > 0.6


def test_a_swap_without_a_half_to_split_off_empties_no_cluster(monkeypatch):
    """An earlier swap may have taken that half; merging alone would raise modularity."""
    rows, found, leaves, _ = caught_in_halves()
    monkeypatch.setattr(exchange, "_second_halves", lambda merges, clusters: np.zeros(len(clusters), dtype=bool))
    monkeypatch.setattr(exchange, "_promising", lambda *_: [(2, 0, 1)])
    swapped = exchange._swapped(rows, found, leaves, 3, Draws(np.random.default_rng(0)))
    assert len(np.unique(swapped)) == 3


def test_device_links_are_those_of_the_host():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from adaam.engines import GPUEngine

    X, _ = blobs(4, 50, seed=3)
    device = GPUEngine(device="cpu")
    weights = np.random.default_rng(0).integers(1, 3, size=len(X)).astype(float)
    there, here = View(device.asarray(X), weights, device), view(X, weights)
    labels = np.arange(len(X)) % 7
    assert isinstance(there.links.degrees, torch.Tensor)
    assert_allclose(there.links.degrees.numpy(), here.links.degrees)
    assert_allclose(row_modularity(there.links, torch.as_tensor(labels)), row_modularity(here.links, labels))
    a, b = there.links.contracted(torch.as_tensor(labels), 7), here.links.contracted(labels, 7)
    assert_allclose(a.degrees.numpy(), b.degrees)
    assert_allclose(a.loops.numpy(), b.loops)
    smooth = np.random.default_rng(1).random(len(X))
    assert_allclose(there.links.smoothed(torch.as_tensor(smooth)).numpy(), here.links.smoothed(smooth))
    assert_allclose(partition(there, 4, 0).labels.numpy(), partition(here, 4, 0).labels)


def test_a_partition_finds_separate_blobs():
    X, y = blobs()
    found = partition(view(X), 3, 0)
    assert adjusted_rand_index(y, found.labels) == 1.0
    assert found.modularity == pytest.approx(modularity(view(X).links, found.labels))


def test_a_partition_follows_rings():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 400)
    radius = np.repeat([1.0, 3.0], 200)
    X = np.c_[radius * np.cos(angle), radius * np.sin(angle)]
    assert adjusted_rand_index(np.repeat([0, 1], 200), partition(view(X), 2, 0).labels) == 1.0


@pytest.mark.parametrize("n_clusters", [1, 2, 5])
def test_partitions_stand_tiny_and_repeated_rows(n_clusters):
    X = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0], [6.0, 5.0], [20.0, 1.0]])
    labels = partition(view(X, np.array([1.0, 30.0, 2.0, 1.0, 1.0])), n_clusters, 0).labels
    assert labels.shape == (5,)
    assert len(np.unique(labels)) == n_clusters


def test_as_many_clusters_as_rows_and_nearly_as_many():
    X = np.random.default_rng(0).standard_normal((40, 3))
    for n_clusters in (40, 39, 25, 13):
        assert len(np.unique(partition(view(X), n_clusters, 0).labels)) == n_clusters


def test_ranks_make_a_partition_independent_of_the_order_of_rows():
    X = np.random.default_rng(5).standard_normal((300, 4))
    order = np.random.default_rng(0).permutation(len(X))
    ranks = np.argsort(np.argsort(X[:, 0]))
    first = partition(View(X, np.ones(300), ENGINE, ranks), 6, 0).labels
    second = partition(View(X[order], np.ones(300), ENGINE, ranks[order]), 6, 0).labels
    assert adjusted_rand_index(first[order], second) == 1.0


def test_more_parts_than_clusters_stay_whole_until_they_must_merge():
    rng = np.random.default_rng(0)
    X = np.vstack([100.0 * i + rng.standard_normal((LINKS_PER_ROW + 2, 2)) for i in range(9)])
    y = np.repeat(np.arange(9), LINKS_PER_ROW + 2)
    labels = partition(view(X), 2, 0).labels
    assert len(np.unique(labels)) == 2
    assert all(len(np.unique(labels[y == piece])) == 1 for piece in range(9))


@pytest.mark.parametrize(("dimension", "n"), [(2, 4000), (3, 4000), (5, 8000)])
def test_links_between_the_halves_of_a_cloud_are_as_many_as_the_formula_says(dimension, n):
    X = np.random.default_rng(dimension).standard_normal((n, dimension))
    assert 2 * crossing_share(X) == pytest.approx(halved_cloud(n, dimension, 10, 1.0), rel=0.15)


def test_an_elongated_cloud_has_fewer_links_across_its_long_axis():
    X = np.random.default_rng(0).standard_normal((4000, 2)) * [9.0, 1.0]
    assert 2 * crossing_share(X) == pytest.approx(halved_cloud(4000, 2, 10, np.sqrt(9.0) / 9.0), rel=0.25)


def crossing_share(X: np.ndarray) -> float:
    links, half = view(X).links, (X[:, 0] > 0).astype(int)
    nodes, others, weights = links.nodes, links.others, links.weights
    return weights[half[nodes] != half[others]].sum() / links.degrees.sum()


def test_splits_of_blobs_are_separate_and_those_of_a_cloud_are_not():
    X, _ = blobs(3, 100)
    found = view(X)
    ratios = [split.ratio for split in splits(found, merging(found, 3, found.draws(0)), 3)]
    assert max(ratios[:2]) < 0.2
    assert ratios[2] > 0.4
    cloud = view(np.random.default_rng(0).standard_normal((600, 3)))
    assert splits(cloud, merging(cloud, 2, cloud.draws(0)), 1)[0].ratio > 0.4


@pytest.mark.parametrize("dimension", [2, 4, 8, 16, 40])
@pytest.mark.parametrize("shape", ["normal", "uniform", "exponential", "laplace"])
def test_the_first_split_of_a_cloud_has_no_fewer_links_than_is_told(shape, dimension):
    for n in (120, 600):
        X = getattr(np.random.default_rng(dimension), shape)(size=(n, dimension))
        found = View(X, np.ones(n), ENGINE)
        (split,) = splits(found, merging(found, 1, found.draws(0)), 1)
        # Parts smaller than ten neighbours are no clusters, whatever joins them.
        assert min(split.n_rows) < SMALLEST or split.ratio > least_first_split(split.dimension)


def test_what_splits_share_is_what_the_formula_says():
    X = np.random.default_rng(0).standard_normal((300, 4))
    seen = view(X)
    merged = merging(seen, 1, seen.draws(0))
    A = dense(seen.links)
    distances = np.sort(np.linalg.norm(X[:, None] - X, axis=2), axis=1)[:, 1 : LINKS_PER_ROW + 1]
    inverse_dimensions = np.log(distances[:, -1:] / distances[:, :-1]).mean(axis=1)
    for i, split in enumerate(splits(seen, merged, 12)):
        before, after = (merged.tree.cut(n)[merged.communities] for n in (i + 2, i + 1))
        (joined,) = [c for c in range(i + 1) if len(np.unique(before[after == c])) == 2]
        parts = [before == label for label in np.unique(before[after == joined])]
        between = A[np.ix_(*parts)].sum()
        upper = between + 2 * np.sqrt(between + 1)
        kept = [(A[np.ix_(part, part)].sum() + between) / A[part].sum() for part in parts]
        shared = sum(upper / (LINKS_PER_ROW * part.sum() * k) for part, k in zip(parts, kept, strict=True))
        assert split.shared == pytest.approx(shared)
        assert sorted(split.n_rows) == sorted(part.sum() for part in parts)
        rows = parts[0] | parts[1]
        assert split.dimension == pytest.approx(np.clip(1 / inverse_dimensions[rows].mean(), 1, 4))
        if rows.sum() <= EXTENT_ROWS:  # of more rows, a sample is measured
            deviations = np.linalg.svd(X[rows] - X[rows].mean(axis=0), compute_uv=False)[: round(split.dimension)]
            roundness = np.exp(np.log(deviations / deviations[0]).mean())
            assert split.cloud == pytest.approx(halved_cloud(rows.sum(), split.dimension, LINKS_PER_ROW, roundness))


def test_layers_are_nested_and_hold_the_given_partition():
    rng = np.random.default_rng(0)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    centers = np.repeat(60.0 * corners, 3, axis=0) + np.tile(9.0 * corners, (3, 1))
    X = np.repeat(centers, 40, axis=0) + rng.standard_normal((360, 2))
    found = view(X)
    nine = np.repeat(np.arange(9), 40)
    layers = layered(found, merging(found, 9, found.draws(0)).communities, nine)
    numbers = [layer.n_clusters for layer in layers.layers]
    assert numbers[layers.given] == 9
    assert 3 in numbers
    three = layers.layers[numbers.index(3)]
    assert adjusted_rand_index(three.labels, np.repeat(np.arange(3), 120)) == 1.0
    assert three.sizes.tolist() == [120, 120, 120]
    assert (three.firmness > 0.9).all()
    for coarse, fine in zip(layers.layers, layers.layers[1:], strict=False):
        pairs = {(int(f), int(c)) for f, c in zip(fine.labels, coarse.labels, strict=True)}
        assert len(pairs) == fine.n_clusters  # each fine cluster lies in one coarse one
    tree, depth = tree_of(layers.layers), numbers.index(3)
    children = [child for cluster in range(3) for child in tree[depth, cluster]]
    assert sorted(children) == [(depth + 1, c) for c in range(numbers[depth + 1])]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.sampled_from([2, 9, 60]), st.booleans())
def test_compiled_dendrograms_merge_as_the_others(seed, n, whole):
    pytest.importorskip("numba", reason="numba is not installed")
    rng = np.random.default_rng(seed)
    A = rng.integers(0, 5, (n, n)) * (rng.random((n, n)) < 3 / n) / 4
    places, within = (rng.random((n, 2)), np.ones(n)), rng.integers(3, size=n) if whole else None
    kept = None if within is None else within.copy()
    plain, compiled = (dendrogram(as_links(A + A.T, compiled=c), lambda: places, within) for c in (False, True))
    assert_array_equal(plain.merges, compiled.merges)
    assert_array_equal(plain.resolutions, compiled.resolutions)
    assert_allclose(plain.modularities, compiled.modularities, atol=1e-12)
    assert within is None or (within == kept).all()


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.sampled_from([1, 2, 9, 60]))
def test_cuts_of_a_dendrogram_are_the_components_of_its_first_merges(seed, n):
    rng = np.random.default_rng(seed)
    A = rng.integers(0, 5, (n, n)) * (rng.random((n, n)) < 2 / n) / 4
    tree = dendrogram(as_links(A + A.T), lambda: (rng.random((n, 2)), np.ones(n)))
    for number in range(1, n + 1):
        first = tree.merges[: n - number]
        joined = csr_array((np.ones(len(first)), (first[:, 0], first[:, 1])), shape=(n, n))
        assert_array_equal(tree.cut(number), connected_components(joined, directed=False)[1])
        assert tree.cut(number).max() + 1 == number
