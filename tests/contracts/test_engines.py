"""Every verb of every engine against dense float64 oracles, and whole fits against the CPU engine."""

import inspect
import itertools
import os
import subprocess
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from scipy.sparse import csr_array, issparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import NearestNeighbors

import oracles
from adaam import (
    LPP,
    AdaAM,
    AdaAMClustering,
    ConsensusAffinity,
    DisconnectedGraphWarning,
    DominantAffinity,
    ForestAffinity,
    HeatKernel,
    KNNAffinity,
    load,
    save,
)
from adaam.affinity import heat_affinity
from adaam.engines import CPUEngine, DaskEngine, Engine, FittedHeat, GPUEngine, resolve_engine
from adaam.engines.neighbors.graph import HostHalf
from adaam.graph import given_graph
from adaam.prepare import Sample, unit_rows
from direction_clusters import direction_clusters

try:
    import torch
except ImportError:
    torch = None

try:
    import numba
except ImportError:
    numba = None

needs_numba = pytest.mark.skipif(numba is None, reason="numba is not installed")
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="Dask's distributed is not installed")
ENGINES = [
    pytest.param(CPUEngine(tile_bytes=1 << 16, kernels="numpy"), id="cpu"),
    pytest.param(CPUEngine(tile_bytes=1 << 16, kernels="numba"), id="cpu-numba", marks=needs_numba),
    pytest.param(GPUEngine(device="cpu", tile_bytes=1 << 17), id="gpu-on-host", marks=needs_torch),
    pytest.param(DaskEngine(block_rows=23, kernels="numpy"), id="dask", marks=needs_dask),
    pytest.param(DaskEngine(block_rows=23, kernels="numba"), id="dask-numba", marks=[needs_dask, needs_numba]),
]
DTYPES = [np.float32, np.float64]
# Largest error measured over these cases, relative to the largest entry, times 8.
RTOL = {np.float32: 4e-6, np.float64: 2e-13}


@pytest.fixture(params=ENGINES)
def engine(request):
    if request.param.name == "dask":
        request.getfixturevalue("client")
    return request.param


def cloud(n=157, d=9, seed=0, dtype=np.float64):
    X = np.random.default_rng(seed).standard_normal((n, d)).astype(dtype)
    X.flags.writeable = False
    return X


def factor(n, r, seed=0, dtype=np.float64):
    return np.ascontiguousarray(oracles.left_vectors(cloud(n, 2 * r, seed), r).astype(dtype))


def close(actual, expected, dtype):
    scale = max(float(np.abs(expected).max(initial=0.0)), 1e-300)
    np.testing.assert_allclose(np.asarray(actual, np.float64) / scale, expected / scale, rtol=0, atol=RTOL[dtype])


def multiset(n, seed=1):
    return np.random.default_rng(seed).integers(1, 5, n).astype(np.float64)


@pytest.mark.parametrize("kind", [CPUEngine, GPUEngine, DaskEngine])
def test_an_engine_has_the_verbs_of_the_protocol_and_no_other_public_method(kind):
    def public(thing):
        return {name for name, value in vars(thing).items() if not name.startswith("_") and inspect.isfunction(value)}

    assert public(kind) == public(Engine)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["dense", "sparse", "resident"])
def test_row_verbs_match_the_formulas(engine, dtype, form):
    X = cloud(dtype=dtype)
    rows = {"dense": X, "sparse": csr_array(X), "resident": engine.asarray(X)}[form]
    rng = np.random.default_rng(3)
    scale, weights = rng.random(len(X)) + 0.5, multiset(len(X))
    mean = (weights * scale) @ X / weights.sum()
    C = rng.standard_normal((4, 9))
    Z = X * scale[:, None] - mean
    close(engine.to_host(engine.row_norms(rows)), np.linalg.norm(X.astype(np.float64), axis=1), dtype)
    close(engine.scatter(rows, scale, mean, weights), (Z * weights[:, None]).T @ Z, dtype)
    close(engine.cross(None, rows, weights)[0], weights @ X.astype(np.float64), dtype)
    root = np.sqrt(weights)[:, None]
    between = engine.scatter(rows, scale, mean, weights, between_rows=True)
    close(between, (Z * root) @ (Z * root).T, dtype)
    close(engine.to_host(engine.project(rows, scale, mean, C)), Z @ C.T, dtype)
    close(engine.cross(rows, rows, weights), (X * weights[:, None]).astype(np.float64).T @ X, dtype)
    close(engine.cross(rows, rows), X.astype(np.float64).T @ X, dtype)
    assert engine.project(rows, scale, mean, C).dtype == np.float64
    assert engine.project(rows, scale, mean, C.astype(dtype)).dtype == dtype


def test_row_lengths_neither_overflow_nor_vanish(engine):
    X = np.array([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0]])
    np.testing.assert_allclose(engine.to_host(engine.row_norms(X)), [5e200, 5e-200, 0.0], rtol=1e-15)


def nearest_others(engine, X, k):
    """Indices and distances of the k nearest others of rows without ties at the last place."""
    graph = engine.neighbor_graph(engine.asarray(X), k, 1.0).host()
    assert (np.diff(graph.starts) == k).all()
    return graph.indices.reshape(-1, k), graph.distances.reshape(-1, k)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "k"), [(2, 1), (5, 4), (157, 7), (400, 20)])
def test_neighbors_are_the_nearest_others(engine, dtype, n, k):
    indices, distances = nearest_others(engine, cloud(n, dtype=dtype), k)
    _, expected = oracles.neighbors(cloud(n, dtype=dtype).astype(np.float64), k)
    close(distances, expected, dtype)
    measured = np.linalg.norm(cloud(n, dtype=dtype)[indices] - cloud(n, dtype=dtype)[:, None], axis=2)
    close(measured, expected, dtype)
    assert (indices != np.arange(n)[:, None]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_more_copies_than_neighbors_share_their_places(engine, dtype):
    X = cloud(120, dtype=dtype).copy()
    X[30:50] = X[7]  # so many that rows are searched again; still, no row is its own neighbour
    graph = engine.neighbor_graph(engine.asarray(X), 6, 1.0).host()
    assert (graph.indices != graph.rows()).all()
    np.testing.assert_allclose(np.bincount(graph.rows(), graph.shares), 6.0)
    copies = [7, *range(30, 50)]
    for row in copies:
        part = slice(graph.starts[row], graph.starts[row + 1])
        assert sorted(graph.indices[part]) == [other for other in copies if other != row]
        assert (graph.distances[part] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_clusters_around_a_center_are_those_of_all_rows(engine, dtype):
    X, weights = cloud(4000, dtype=dtype), multiset(4000)  # more than fit into one tile of the GPU engine
    labels, center = np.arange(4000) % 3, np.arange(9.0)
    found = engine.cluster_sums(engine.asarray(X), labels, engine.asarray(weights), 4, center)
    shifted = X.astype(np.float64) - center
    close(found.sums, np.array([weights[labels == c] @ shifted[labels == c] for c in range(4)]), dtype)
    close(found.weights, np.bincount(labels, weights, 4), dtype)
    close(found.squares, weights @ shifted**2, dtype)
    assert found.largest == pytest.approx(np.abs(shifted).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["host", "resident"])
@pytest.mark.parametrize("k", [1, 5, 30])
def test_nearest_known_points_are_those_of_all_distances(engine, dtype, form, k):
    X, known = cloud(dtype=dtype), cloud(20, seed=1, dtype=dtype)
    indices, distances = engine.nearest_known(X if form == "host" else engine.asarray(X), known, k)
    expected = cdist(X.astype(np.float64), known.astype(np.float64))
    np.testing.assert_array_equal(indices, np.argsort(expected, axis=1)[:, :k])
    close(distances, np.sort(expected, axis=1)[:, :k], dtype)


def test_of_equally_near_points_the_first_is_the_nearest(engine):
    X = np.arange(12.0)[:, None] // 2
    known = np.array([[1.0], [3.0], [5.0], [3.0], [1.0]])
    indices, _ = engine.nearest_known(engine.asarray(X), known, 1)
    assert indices[:, 0].tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize("n", [0, 1, 6, 200])
def test_eigenpairs_are_lapacks(engine, n):
    A = cloud(n, n, seed=2) if n else np.empty((0, 0))
    A = A + A.T
    values, vectors = engine.eigh(A)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A), atol=1e-12)
    np.testing.assert_allclose(vectors * values @ vectors.T, A, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_coincident_rows_are_neighbors_at_distance_zero(engine, dtype):
    X = cloud(60, dtype=dtype).copy()
    X[40:] = X[:20]
    graph = engine.neighbor_graph(engine.asarray(X), 2, 1.0).host()
    nearest = graph.distances[graph.starts[:-1]]
    assert (nearest[:20] == 0).all()
    assert (nearest[40:] == 0).all()
    assert (nearest[20:40] > 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_half_affinity_knows_its_quadratic_form_and_row_sums(engine, dtype):
    X, rng = cloud(dtype=dtype), np.random.default_rng(5)
    W = csr_array(rng.random((157, 157)) * (rng.random((157, 157)) < 0.05))
    half = engine.asarray(HostHalf(W))
    close(half.gram(engine.asarray(X)), X.astype(np.float64).T @ W @ X, dtype)
    close(engine.to_host(half.degrees()), np.asarray((W + W.T).sum(axis=1)).ravel(), np.float64)
    np.testing.assert_array_equal(half.host().toarray(), W.toarray())


def cut_of(engine, P, t, weights, diagonal):
    return engine.cut_laplacian(P, t, P, weights, diagonal)[0]


def gram_of(engine, P, cut, X, weights):
    """Return X'WSWX and WSw of the entries that a known cut keeps."""
    _, laplacian, degrees = engine.cut_laplacian(P, 0.0, X, weights, 0.0, cut=cut)
    return engine.cross(X, X, degrees) - laplacian, degrees


def dense_cut(P, t, weights, diagonal):
    """The t-th largest magnitude of PP' with multiplicities, from all entries sorted."""
    S = np.abs(P.astype(np.float64) @ P.T.astype(np.float64))
    counts = np.outer(weights, weights)
    np.fill_diagonal(counts, diagonal)
    order = np.argsort(S.ravel())[::-1]
    reached = np.flatnonzero(np.cumsum(counts.ravel()[order]) >= t)
    return S.ravel()[order[reached[0]]] if len(reached) else 0.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.9, 1.5])
def test_cut_is_the_tth_largest_magnitude(engine, dtype, weighted, share):
    P = factor(150, 6, dtype=dtype)
    weights = multiset(150) if weighted else np.ones(150)
    t = max(1.0, np.floor(share * weights.sum() ** 2))
    cut = cut_of(engine, engine.asarray(P), t, weights, weights**2)
    expected = dense_cut(P, t, weights, weights**2)
    assert cut == pytest.approx(expected, rel=0, abs=RTOL[dtype] * 0.1)


@needs_torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_cut_survives_narrowing_by_bins(monkeypatch, dtype, weighted):
    from adaam.engines.gpu import pruned

    monkeypatch.setattr(pruned, "MAX_COLLECTED", 8)
    monkeypatch.setattr("adaam.engines.pruned.cut.N_BINS", 16)
    monkeypatch.setattr(pruned, "SAMPLED_PAIRS", 64)
    engine = GPUEngine(device="cpu", tile_bytes=1 << 14)
    P = factor(90, 4, dtype=dtype)
    weights = multiset(90) if weighted else np.ones(90)
    for t in (1.0, 7.0, 300.0, np.floor(weights.sum() ** 2 / 3), weights.sum() ** 2 - 1):
        cut = cut_of(engine, engine.asarray(P), t, weights, weights**2)
        assert cut == pytest.approx(dense_cut(P, t, weights, weights**2), rel=0, abs=RTOL[dtype] * 0.1)


@pytest.mark.parametrize("engine", [one for one in ENGINES if one.values[0].name != "dask"])
@settings(deadline=None, max_examples=25)
@given(n=st.integers(2, 40), t=st.integers(1, 400), seed=st.integers(0, 1000))
def test_cut_of_tied_products_is_exact(engine, n, t, seed):
    """Small integers have exact products and many ties, so the cut must match to the last bit."""
    rng = np.random.default_rng(seed)
    P = rng.integers(-2, 3, (n, 3)).astype(np.float64)
    weights = rng.integers(1, 3, n).astype(np.float64)
    diagonal = weights**2 - weights
    assert cut_of(engine, engine.asarray(P), float(t), weights, diagonal) == dense_cut(P, t, weights, diagonal)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [0.03, 0.5])
def test_pruned_gram_matches_the_dense_matrix(engine, dtype, weighted, share):
    X, P = cloud(150, dtype=dtype), factor(150, 6, dtype=dtype)
    w = multiset(150) if weighted else np.ones(150)
    S = P.astype(np.float64) @ P.T.astype(np.float64)
    magnitudes = np.sort(np.abs(S).ravel())
    at = int(len(magnitudes) * (1 - share))
    threshold = (magnitudes[at] + magnitudes[at + 1]) / 2  # between two entries, so that rounding does not matter
    while magnitudes[at + 1] - magnitudes[at] < 1e-7:
        at += 1
        threshold = (magnitudes[at] + magnitudes[at + 1]) / 2
    kept = np.where(np.abs(S) >= threshold, S, 0.0)
    np.fill_diagonal(kept, 0.0)
    gram, degrees = gram_of(engine, engine.asarray(P), threshold, engine.asarray(X), w)
    WX = X.astype(np.float64) * w[:, None]
    close(gram, WX.T @ kept @ WX, dtype)
    close(engine.to_host(degrees), w * (kept @ w), dtype)


@pytest.mark.parametrize("beside", ["nothing", "graph"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_cut_that_is_known_gives_the_same_laplacian(engine, weighted, beside):
    rows, P = cloud(300), engine.asarray(factor(300, 6))
    X, w = engine.asarray(rows), multiset(300) if weighted else np.ones(300)
    t = np.floor(w.sum() ** 2 / 20)
    half, links = None, np.zeros((300, 300))
    if beside == "graph":
        held = engine.asarray(w)
        half = engine.neighbor_graph(X, 5, held).heat_half(FittedHeat(3.0, 1), held)
        links = half.host().toarray()
        links = links + links.T
    cut, laplacian, degrees = engine.cut_laplacian(P, t, X, w, w**2, half)
    assert cut == pytest.approx(dense_cut(factor(300, 6), t, w, w**2), rel=1e-12)
    gram, expected_degrees = gram_of(engine, P, cut, X, w)
    close(engine.to_host(degrees), engine.to_host(expected_degrees), np.float64)
    spread = np.diag(engine.to_host(expected_degrees))
    close(laplacian, rows.T @ (spread + oracles.laplacian(links)) @ rows - gram, np.float64)


@pytest.mark.parametrize("form", ["dense", "sparse", "resident"])
@pytest.mark.parametrize("weighted", [False, True])
def test_distinct_rows_come_with_their_total_weight(engine, form, weighted):
    X = np.repeat(cloud(40), 3, axis=0)[np.random.default_rng(0).permutation(120)]
    X[X > 1.5] = 0.0
    Y = X.copy()
    Y[Y == 0.0] = -0.0
    X[::2] = Y[::2]
    weights = np.random.default_rng(1).integers(0, 2, 120) * multiset(120) / 4 if weighted else np.ones(120)
    _, first, kind = np.unique(X + 0.0, axis=0, return_index=True, return_inverse=True)
    totals = np.bincount(kind.ravel(), weights)
    order = np.argsort(first)
    order = order[totals[order] > 0]
    rows = {"dense": X, "sparse": csr_array(X), "resident": engine.asarray(X)}[form]
    found, counted = engine.distinct(rows, engine.asarray(weights) if weighted else 1.0)
    found = engine.to_host(found)
    found = found.toarray() if issparse(found) else found
    np.testing.assert_array_equal(found, X[first[order]])
    np.testing.assert_array_equal(engine.to_host(counted), totals[order])


def test_rows_that_are_all_distinct_are_left_where_they_are(engine):
    X = engine.asarray(cloud())
    for weights in (1.0, engine.asarray(np.ones(157))):
        rows, counted = engine.distinct(X, weights)
        assert rows is X
        assert counted == 1.0
        assert isinstance(counted, float)
    kept = multiset(157)
    np.testing.assert_array_equal(engine.to_host(engine.distinct(X, engine.asarray(kept))[1]), kept)


def test_a_collision_of_hashes_is_noticed(monkeypatch):
    if torch is None:
        pytest.skip("PyTorch is not installed")
    from adaam.engines.gpu import arrays

    true_hashes = arrays._row_hashes

    def bad_hashes(place, X):
        yield torch.zeros(X.shape[0], dtype=torch.int64)
        yield from true_hashes(place, X)

    monkeypatch.setattr(arrays, "_row_hashes", bad_hashes)
    X = np.repeat(cloud(20), 2, axis=0)
    rows, counted = GPUEngine(device="cpu").distinct(X, 1.0)
    np.testing.assert_array_equal(rows, cloud(20))
    np.testing.assert_array_equal(counted, 2.0)


def graph_cases():
    """Return rows, weights and k: with ties, with weights, few rows, or several components."""
    rng = np.random.default_rng(0)
    grid = np.unique(rng.integers(0, 4, size=(60, 3)), axis=0).astype(np.float64)
    star = np.vstack([np.zeros(3), *np.eye(3), *-np.eye(3), 9 + cloud(20, 3)])  # the first row has 6 nearest
    pieces = np.vstack([cloud(20, 3), cloud(15, 3) + 100, cloud(7, 3) - 100])
    return {
        "plain": (cloud(157), np.ones(157), 7),
        "weighted": (cloud(60), multiset(60), 5),
        "fractions": (cloud(50), np.random.default_rng(3).random(50) + 0.05, 4),
        "tied": (grid, np.ones(len(grid)), 3),
        "tied and weighted": (grid, multiset(len(grid)) / 2, 4),
        "star": (star, np.ones(len(star)), 2),
        "pieces": (pieces, multiset(42), 3),
        "two rows": (cloud(2), np.ones(2), 1),
        "few for k": (cloud(4), np.array([3.0, 1.0, 1.0, 2.0]), 6),
        "one heavy row": (cloud(30), np.where(np.arange(30) == 4, 50.0, 1.0), 3),
        "coincident": (np.repeat(cloud(8), 3, axis=0), np.ones(24), 2),
    }


def graph_shares(X, weights, k):
    """Return the share with which each row counts as a neighbour of each other row, by definition."""
    shares = np.zeros((len(X), len(X)))
    distances = np.round(cdist(X, X), 9)
    for i in range(len(X)):
        left = k - np.clip(weights[i] - 1, 0, k)
        others = np.arange(len(X)) != i
        for value in np.unique(distances[i][others]):
            group = others & (distances[i] == value)
            shares[i, group] = np.clip(left / weights[group].sum(), 0.0, 1.0)
            left = max(left - weights[group].sum(), 0.0)
    return shares


HEATS = [(10.0, "mean", 1), (0.7, "self-tuning", 2), (np.inf, "mean", 1), (2.0, "fixed", 2)]


@pytest.mark.parametrize("name", list(graph_cases()))
def test_graph_shares_are_those_of_all_pairs_sorted(engine, name):
    X, weights, k = graph_cases()[name]
    graph = engine.neighbor_graph(engine.asarray(X), k, engine.asarray(weights)).host()
    found = np.zeros((len(X), len(X)))
    found[graph.rows(), graph.indices] = graph.shares
    np.testing.assert_allclose(found, graph_shares(X, weights, k), atol=1e-12)
    np.testing.assert_allclose(graph.distances, cdist(X, X)[graph.rows(), graph.indices], atol=1e-12)
    np.testing.assert_array_equal(graph.copies, np.clip(weights - 1, 0, k))
    assert graph.measured
    assert all((np.diff(graph.distances[a:b]) >= 0).all() for a, b in itertools.pairwise(graph.starts))


@pytest.mark.parametrize("name", list(graph_cases()))
@pytest.mark.parametrize(("width", "rule", "power"), HEATS)
def test_heat_on_a_graph_matches_the_dense_affinity(engine, name, width, rule, power):
    X, weights, k = graph_cases()[name]
    sample = Sample(engine.asarray(X), engine.asarray(weights), engine)
    graph = engine.neighbor_graph(sample.X, k, sample.engine_weights)
    shares, distances = graph_shares(X, weights, k), cdist(X, X)
    copies = np.clip(weights - 1, 0, k)
    pairs = weights[:, None] * shares * weights
    taken = pairs.sum() + (weights * copies).sum()
    farthest = (distances * (shares > 0)).max(axis=1)
    bandwidth = {
        "mean": np.full(len(X), (pairs * distances).sum() / taken if taken else 0.0),
        "self-tuning": farthest,
        "fixed": np.ones(len(X)),
    }[rule]
    assert graph.mean_distance(sample.engine_weights) == pytest.approx((pairs * distances).sum() / taken, rel=1e-12)
    np.testing.assert_allclose(engine.to_host(graph.farthest()), farthest, atol=1e-12)
    with np.errstate(invalid="ignore", divide="ignore"):
        exponent = (distances / (width * np.sqrt(np.outer(bandwidth, bandwidth)))) ** power
    linked = shares + shares.T - shares * shares.T
    exponent[(distances < 1e-12) | (linked == 0)] = 0.0
    expected = np.exp(-exponent) * linked * np.outer(weights, weights) + np.diag(weights * copies)

    affinity = heat_affinity(graph, HeatKernel(width, rule, power), sample)
    np.testing.assert_allclose(affinity.weights.toarray(), expected, atol=1e-11)
    np.testing.assert_allclose(engine.to_host(affinity.degrees()), expected.sum(axis=1), atol=1e-11 * weights.sum())
    np.testing.assert_allclose(
        affinity.gram(sample.X), X.T @ expected @ X, atol=1e-11 * np.abs(X.T @ expected @ X).max()
    )


@pytest.mark.parametrize("name", list(graph_cases()))
def test_pieces_of_a_graph_are_counted_where_it_lives(engine, name):
    X, weights, k = graph_cases()[name]
    edges = graph_shares(X, weights, k) > 0
    _, piece = connected_components(csr_array(edges), directed=False)
    graph = engine.neighbor_graph(engine.asarray(X), k, engine.asarray(weights))
    np.testing.assert_array_equal(graph.piece_sizes(), np.sort(np.bincount(piece))[::-1])


@needs_torch
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 200), st.integers(1, 2))
def test_pieces_of_any_graph_on_a_device(seed, n, k):
    """Long paths in shuffled order need the most rounds of joining."""
    order = np.random.default_rng(seed).permutation(n)
    indices = np.empty((n, k), int)
    for step in range(k):
        indices[order, step] = np.roll(order, step + 1)
        indices[order[: step + 1], step] = order[min(step + 1, n - 1)]
    cut = seed % n
    indices[order[cut]] = order[cut]  # self entries are dropped, so the path may break here
    graph = given_graph((indices, np.ones(indices.shape)), n, k)
    found = GPUEngine(device="cpu").asarray(graph).piece_sizes()
    np.testing.assert_array_equal(found, graph.piece_sizes())


def test_a_given_graph_keeps_the_larger_heat_of_two_directions(engine):
    indices = np.array([[1, 2], [0, 2], [0, 1]])
    distances = np.array([[1.0, 3.0], [2.0, 4.0], [3.0, 0.5]])
    sample = Sample(engine.asarray(cloud(3, 2)), 1.0, engine)
    graph = engine.asarray(given_graph((indices, distances), 3, 2))
    weights = heat_affinity(graph, HeatKernel(1.0, "fixed"), sample).weights.toarray()
    assert weights[0, 1] == weights[1, 0] == pytest.approx(np.exp(-1.0))
    assert weights[1, 2] == weights[2, 1] == pytest.approx(np.exp(-0.5))


def test_a_graph_comes_back_from_the_engine_as_it_went(engine):
    sent = given_graph((np.array([[1, 2], [0, 2], [1, 0]]), np.array([[1.0, 2], [1, 4], [4, 2]])), 3, 2)
    back = engine.asarray(sent).host()
    for name in ("starts", "indices", "distances", "shares", "copies", "measured"):
        np.testing.assert_array_equal(getattr(back, name), getattr(sent, name))


@pytest.mark.parametrize("dtype", DTYPES)
def test_kmeans_runs_match_between_engines(engine, dtype):
    Z, _ = make_blobs(300, 4, centers=6, cluster_std=2.0, random_state=0)
    Z, weights = Z.astype(dtype), multiset(300) * (np.arange(300) % 7 > 0)
    found = engine.kmeans(engine.asarray(Z), 6, 5, 3, weights)
    expected = CPUEngine().kmeans(Z, 6, 5, 3, weights)
    assert adjusted_rand_score(found.labels, expected.labels) == 1.0
    assert found.inertia == pytest.approx(expected.inertia, rel=1e-5)
    spread = cdist(Z, found.centers, "sqeuclidean")
    np.testing.assert_array_equal(found.labels, spread.argmin(axis=1))
    assert found.inertia == pytest.approx(weights @ spread.min(axis=1), rel=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("centered", [False, True])
def test_sums_of_clusters_are_those_of_the_definition(engine, dtype, centered):
    Z = cloud(dtype=dtype)
    rng = np.random.default_rng(1)
    labels, weights = rng.integers(4, size=len(Z)), rng.integers(1, 4, size=len(Z)).astype(float)
    center = rng.standard_normal(Z.shape[1]) if centered else None
    found = engine.cluster_sums(engine.asarray(Z), labels, engine.asarray(weights), 5, center)
    moved = Z.astype(float) - (0.0 if center is None else center)
    member = np.eye(5)[labels] * weights[:, None]
    scale = np.abs(member.T @ moved).max()
    np.testing.assert_allclose(found.sums, member.T @ moved, rtol=0, atol=RTOL[dtype] * scale)
    np.testing.assert_allclose(found.weights, member.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.squares, weights @ moved**2, rtol=50 * RTOL[dtype])
    assert found.largest == pytest.approx(np.abs(Z).max() if center is None else np.abs(moved).max(), rel=1e-6)


def test_kmeans_does_not_depend_on_the_order_of_rows(engine):
    Z, _ = make_blobs(200, 3, centers=4, cluster_std=3.0, random_state=1)
    Z[50:60] = Z[0]
    order = np.random.default_rng(0).permutation(200)
    first = engine.kmeans(engine.asarray(Z), 5, 3, 0, np.ones(200))
    second = engine.kmeans(engine.asarray(Z[order]), 5, 3, 0, np.ones(200))
    assert adjusted_rand_score(first.labels[order], second.labels) == 1.0


def test_kmeans_gives_every_cluster_a_row(engine):
    """Starts among coincident rows leave clusters empty; the rows farthest from their centres fill them."""
    Z = np.concatenate([np.zeros((50, 2)), cloud(6, 2) * 1e-3 + 5, cloud(6, 2, seed=1) + 50])
    found = engine.kmeans(engine.asarray(Z), 8, 4, 0, np.ones(len(Z)))
    assert len(np.unique(found.labels)) == 8


@pytest.mark.parametrize("dtype", DTYPES)
def test_verbs_leave_their_inputs_unchanged(engine, dtype):
    X = cloud(80, dtype=dtype).copy()
    P, weights = factor(80, 3, dtype=dtype), multiset(80)
    before = X.copy(), P.copy(), weights.copy()
    for A in (X, P, weights):
        A.flags.writeable = False
    rows, thin = engine.asarray(X), engine.asarray(P)
    engine.scatter(rows, weights, np.zeros(9), weights)
    engine.neighbor_graph(rows, 3, weights)
    engine.cut_laplacian(thin, 50.0, rows, weights, weights**2)
    engine.kmeans(rows, 3, 2, 0, weights)
    for A, B in zip((engine.to_host(rows), engine.to_host(thin), weights), before, strict=True):
        np.testing.assert_array_equal(A, B)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_scaled_to_unit_length_and_zero_rows_stay(engine, dtype):
    X = cloud(dtype=dtype).copy()
    X[3] = 0.0
    found = engine.to_host(unit_rows(engine.asarray(X), engine))
    lengths = np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
    np.testing.assert_allclose(found, X / np.where(lengths > 0, lengths, 1.0), rtol=0, atol=RTOL[dtype])


@pytest.mark.parametrize("kind", ["gpu", "dask"])
def test_clusters_by_cosine_are_those_of_the_cpu_engine(kind, request):
    X, _ = direction_clusters(900)
    expected = AdaAMClustering(10).fit(X)
    if kind == "gpu":
        pytest.importorskip("torch")
        engine, given = GPUEngine(device="cpu"), torch.tensor(X)
    else:
        da = pytest.importorskip("dask.array")
        request.getfixturevalue("client")
        engine, given = "dask", da.from_array(X, chunks=(300, 40))
    found = AdaAMClustering(10, engine=engine).fit(given)
    assert found.distance_ == expected.distance_ == "cosine"
    assert adjusted_rand_score(np.asarray(found.labels_), expected.labels_) > 0.99
    np.testing.assert_array_equal(np.asarray(found.predict(given)), np.asarray(found.labels_))


def data_sets():
    digits, _ = load_digits(return_X_y=True)
    blobs, _ = make_blobs(500, 12, centers=5, cluster_std=6.0, random_state=0)
    return {"digits": (digits[:600], 10), "blobs": (np.concatenate([blobs, blobs[:40]]), 5)}


@needs_torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["digits", "blobs"])
@pytest.mark.parametrize("given_as", ["array", "tensor", "stream"])
def test_whole_fits_agree_with_the_cpu_engine(dtype, name, given_as):
    X, c = data_sets()[name]
    X = X.astype(dtype)
    engine = GPUEngine(device="cpu", tile_bytes=1 << 20, memory_bytes=0 if given_as == "stream" else None)
    given = torch.tensor(X) if given_as == "tensor" else X
    expected = AdaAMClustering(c, learner=AdaAM(c)).fit(X)
    found = AdaAMClustering(c, learner=AdaAM(c, engine=engine)).fit(given)
    angle = subspace_angles(found.components_.T.astype(np.float64), expected.components_.T.astype(np.float64)).max()
    assert angle < {np.float32: 2e-4, np.float64: 1e-9}[dtype]
    assert adjusted_rand_score(found.labels_, expected.labels_) >= 0.98
    assert found.engine_ == "gpu"
    np.testing.assert_array_equal(found.predict(given), found.labels_)


@needs_torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_come_back_as_tensors(dtype):
    X = cloud(120, dtype=dtype)
    model = AdaAM(3, engine=GPUEngine(device="cpu"))
    Z = model.fit_transform(torch.tensor(X))
    assert isinstance(Z, torch.Tensor)
    assert Z.dtype == {np.float32: torch.float32, np.float64: torch.float64}[dtype]
    assert isinstance(model.transform(X), np.ndarray)
    clusters = AdaAMClustering(3, learner=model).fit(torch.tensor(X))
    assert isinstance(clusters.predict(torch.tensor(X)), torch.Tensor)
    assert isinstance(clusters.predict(X), np.ndarray)
    assert isinstance(clusters.labels_, np.ndarray)
    np.testing.assert_array_equal(np.asarray(Z), model.transform(X))


@needs_torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_pairs_and_mapped_rows_come_back_as_tensors(dtype):
    X = cloud(120, dtype=dtype)
    model = AdaAM(3, engine=GPUEngine(device="cpu")).fit(torch.tensor(X))
    on_host = AdaAM(3).fit(X)
    pairs = np.stack([X[:50], X[50:100]], axis=1)
    distances = model.pair_distance(torch.tensor(pairs))
    assert isinstance(distances, torch.Tensor)
    assert distances.dtype == {np.float32: torch.float32, np.float64: torch.float64}[dtype]
    np.testing.assert_allclose(distances, on_host.pair_distance(pairs), rtol=RTOL[dtype] * 1e3)
    assert isinstance(model.pair_distance(pairs), np.ndarray)
    Z = model.transform(torch.tensor(X))
    back = model.inverse_transform(Z)
    assert isinstance(back, torch.Tensor)
    assert back.dtype == Z.dtype
    np.testing.assert_allclose(back, on_host.inverse_transform(on_host.transform(X)), atol=RTOL[dtype] * 1e4)
    assert isinstance(model.inverse_transform(np.asarray(Z)), np.ndarray)
    with pytest.raises(ValueError, match="3 components"):
        model.inverse_transform(Z[:, :2])
    with pytest.raises(ValueError, match=r"must be \(n_pairs, 2, 9\)"):
        model.pair_distance(torch.tensor(X))


@needs_torch
@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.int64] if torch else [])
def test_weights_may_be_a_tensor(kind):
    X, weights = cloud(80), multiset(80)
    weights[::9] = 0.0
    engine = GPUEngine(device="cpu")
    given = torch.tensor(weights).to(kind)
    found = AdaAMClustering(3, learner=AdaAM(3, engine=engine)).fit(torch.tensor(X), sample_weight=given)
    expected = AdaAMClustering(3, learner=AdaAM(3)).fit(X, sample_weight=weights)
    angle = subspace_angles(found.components_.T, expected.components_.T).max()
    assert angle < 1e-9
    assert adjusted_rand_score(found.labels_, expected.labels_) == 1.0


@needs_torch
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda: torch.ones(7), "sample_weight has shape"),
        (lambda: -torch.ones(50), "cannot count fewer than 0"),
        (lambda: torch.zeros(50), "zero for every row"),
        (lambda: torch.full((50,), torch.nan), "NaN or infinity"),
    ],
)
def test_bad_tensors_of_weights_are_refused_with_a_reason(weights, message):
    with pytest.raises(ValueError, match=message):
        AdaAM(2, engine=GPUEngine(device="cpu")).fit(torch.tensor(cloud(50)), sample_weight=weights())


LEARNERS = {
    "knn": KNNAffinity(4),
    "self-tuning": KNNAffinity(4, heat=HeatKernel(1.0, "self-tuning", 2)),
    "consensus": ConsensusAffinity(5),
    "dominant": DominantAffinity(5),
    "forest": ForestAffinity(5, n_trees=20, random_state=0),
}


@needs_torch
@pytest.mark.parametrize("name", list(LEARNERS))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_learner_finds_the_same_map_on_a_device(name, weighted):
    """Learners that work on the host fetch the graph; none reads a device tensor as if it were on the host."""
    from crossings import counted_crossings

    X = np.concatenate([cloud(90), cloud(90)[:15]])
    weights = multiset(105) if weighted else None
    expected = LPP(3, affinity=LEARNERS[name]).fit(X, sample_weight=weights)
    rows, given = torch.tensor(X), torch.tensor(weights) if weighted else None
    with counted_crossings():
        found = LPP(3, affinity=LEARNERS[name], engine=GPUEngine(device="cpu")).fit(rows, sample_weight=given)
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-8


@needs_torch
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")
def test_a_graph_and_an_affinity_of_the_callers_serve_on_a_device(weighted):
    from crossings import counted_crossings

    X, engine = cloud(90), GPUEngine(device="cpu")
    weights = multiset(90) if weighted else None
    distances, indices = NearestNeighbors(n_neighbors=4).fit(X).kneighbors()
    expected = AdaAM(3).fit(X, sample_weight=weights, neighbors=(indices, distances))
    rows, given = torch.tensor(X), torch.tensor(weights) if weighted else None
    with counted_crossings():
        found = AdaAM(3, engine=engine).fit(rows, sample_weight=given, neighbors=(indices, distances))
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-8
    A = csr_array(cdist(X, X) < 2.5, dtype=np.float64)
    expected = LPP(3).fit(X, affinity=A)
    with counted_crossings():
        found = LPP(3, engine=engine).fit(rows, affinity=A)
    assert subspace_angles(found.components_.T, expected.components_.T).max() < 1e-8


def test_a_graph_in_pieces_is_told_by_every_engine(engine):
    X = np.concatenate([cloud(20), cloud(13, seed=1) + 50])
    with pytest.warns(DisconnectedGraphWarning, match="2 pieces of 20, 13 distinct rows"):
        AdaAM(2, n_neighbors=6, preparation="center", engine=engine).fit(X)


@needs_torch
@pytest.mark.parametrize("case", ["plain", "weighted", "tied", "disconnected", "linear"])
@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")
def test_nothing_of_the_size_of_the_rows_leaves_the_device_in_a_fit(case):
    """Before, 12 vectors or graphs of n numbers went to the host, 17 came back, and the host waited 64 times."""
    from crossings import counted_crossings

    X = cloud(400) @ cloud(9, 9, seed=1)
    X = {"tied": np.round(X[:, :4]), "disconnected": np.where(np.arange(400)[:, None] < 90, X + 500, X)}.get(case, X)
    weights = torch.tensor(multiset(400)) if case == "weighted" else None
    model = AdaAM(4, engine=GPUEngine(device="cpu"), preparation="linear" if case == "linear" else "unit")
    rows = torch.tensor(X)
    with counted_crossings() as seen:
        model.fit(rows, sample_weight=weights)
    assert max(seen.to_host + seen.from_host) < 200, "d x d is 81 numbers at most, a row block has 400"
    # Sums of d x d numbers, a few scalars, and 6 waits for each of two cuts; more with weights or ties.
    assert seen.waits <= (32 if case in ("plain", "linear", "disconnected") else 60)


@needs_torch
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (lambda: torch.zeros(3), "dimension"),
        (lambda: torch.zeros((1, 4)), "at least 2 row"),
        (lambda: torch.full((5, 2), torch.nan), "NaN"),
        (lambda: torch.zeros((5, 2), dtype=torch.complex64), "complex"),
    ],
)
def test_bad_tensors_are_refused_with_a_reason(X, message):
    with pytest.raises(ValueError, match=message):
        AdaAM(2, engine=GPUEngine(device="cpu")).fit(X())


@needs_torch
def test_other_widths_of_tensors_are_refused():
    model = AdaAM(2, engine=GPUEngine(device="cpu")).fit(torch.tensor(cloud(50)))
    with pytest.raises(ValueError, match="8 features"):
        model.transform(torch.tensor(cloud(50, 8)))


@needs_torch
@pytest.mark.skipif(torch is not None and torch.cuda.is_available(), reason="there is a CUDA device")
def test_gpu_without_a_device_is_an_error_and_never_another_engine():
    with pytest.raises(RuntimeError, match=r'engine="gpu" needs a CUDA device.*GPUEngine\(device="cpu"\)'):
        AdaAM(2, engine="gpu").fit(cloud())


def test_missing_torch_names_the_extra(monkeypatch):
    monkeypatch.setattr("adaam.engines.gpu.engine.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'engine="gpu" needs PyTorch, which is not installed.*adaam\[gpu\]'):
        AdaAM(2, engine="gpu").fit(cloud())


def test_an_engine_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match='Use "auto", "cpu", "gpu"'):
        resolve_engine("cuda")


@needs_torch
def test_running_out_of_memory_names_bytes_and_remedy(monkeypatch):
    from adaam.engines.gpu import arrays

    def fail(place, X):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. If reserved but unallocated ...")

    monkeypatch.setattr(arrays, "row_norms", fail)
    with pytest.raises(MemoryError, match=r"Tried to allocate 2.00 GiB.*GPUEngine\(tile_bytes="):
        GPUEngine(device="cpu").row_norms(cloud())


@needs_torch
@pytest.mark.parametrize(("n", "resident"), [(1000, True), (4000, False)])
def test_rows_that_do_not_fit_stay_on_the_host(n, resident):
    engine = GPUEngine(device="cpu", tile_bytes=1 << 18, memory_bytes=16 << 20)
    rows = engine.asarray(np.zeros((n, 784), np.float32))
    assert isinstance(rows, np.ndarray) is not resident


@needs_torch
def test_precision_that_the_caller_set_is_left_alone():
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        GPUEngine(device="cpu").cross(cloud(), cloud())
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_importing_adaam_leaves_torch_alone():
    code = "import sys, adaam; sys.exit(any(name in sys.modules for name in ('torch', 'triton')))"
    assert subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ}).returncode == 0


@needs_torch
def test_a_model_file_keeps_the_settings_of_the_engine(tmp_path):
    engine = GPUEngine(device="cpu", tile_bytes=1 << 20, precision="full", memory_bytes=1 << 30)
    model = AdaAM(3, engine=engine).fit(cloud())
    save(model, tmp_path / "model.npz")
    assert load(tmp_path / "model.npz").engine == engine


@needs_torch
def test_disconnected_and_tiny_data_fit():
    X = np.array([[0.0, 1.0], [1.0, 0.0], [0.9, 0.1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = AdaAM(2).fit(X)
        found = AdaAM(2, engine=GPUEngine(device="cpu")).fit(X)
    np.testing.assert_allclose(found.transform(X), expected.transform(X), atol=1e-9)
