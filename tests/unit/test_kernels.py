"""The compiled kernels against the dense oracles, and what happens without them."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import oracles
from adaam import LPP, AdaAM, KNNAffinity
from adaam.engines import CPUEngine, kernels, one_pass
from adaam.engines import cut as cut_module
from adaam.engines.cut import Pairs, exact_cut
from adaam.engines.kernels import (
    candidates,
    compiled_kernels,
    guesses,
    narrow,
    neighbors,
    ordering,
    screened,
    survivors,
)
from adaam.engines.kernels.balls import word_balls
from adaam.engines.kernels.panels import from_panels
from adaam.engines.nearest import nearest_others
from adaam.engines.tiles import pruned_gram

try:
    import numba
except ImportError:
    numba = None

needs_numba = pytest.mark.skipif(numba is None, reason="numba is not installed")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Several tiles, and several leaves, already on small data."""
    monkeypatch.setattr(screened, "TILE_COLUMNS", 48)
    monkeypatch.setattr(screened, "MAX_TILE_ROWS", 100)
    monkeypatch.setattr(candidates, "TILE_ROWS", 40)
    monkeypatch.setattr(neighbors, "LEAF_ROWS", 32)


@pytest.fixture
def loops():
    return compiled_kernels("numba", 1)


def dense_pruned(P, threshold, X, weights):
    S = P @ P.T
    np.fill_diagonal(S, 0.0)
    S = np.where(np.abs(S) >= threshold, S, 0.0) * np.outer(weights, weights)
    return X.T @ S @ X, S.sum(axis=1)


def dense_cut(P, t, weights, diagonal):
    S = np.abs(P @ P.T)
    counts = np.outer(weights, weights)
    np.fill_diagonal(counts, diagonal)
    order = np.argsort(S.ravel())[::-1]
    where = np.searchsorted(np.cumsum(counts.ravel()[order]), t)
    return S.ravel()[order[where]] if where < len(order) else 0.0


@needs_numba
@pytest.mark.parametrize("n", [1, 2, 47, 48, 49, 201])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 2.5, 100.0])
def test_pruned_gram_is_the_dense_one(n, threshold, rng, loops):
    P, X = rng.standard_normal((n, 3)), rng.standard_normal((n, 5))
    for weights in (np.ones(n), rng.uniform(0.5, 3.0, size=n)):
        gram, degrees = pruned_gram(P, threshold, X, weights, 64, loops)
        expected, expected_degrees = dense_pruned(P, threshold, X, weights)
        np.testing.assert_allclose(gram, expected, atol=1e-12 * max(1.0, np.abs(expected).max()))
        np.testing.assert_allclose(degrees, expected_degrees, atol=1e-12 * max(1.0, np.abs(expected_degrees).max()))


@needs_numba
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 160), st.integers(1, 5), st.floats(-150, 150))
def test_what_is_kept_is_decided_in_float64(seed, n, r, scale):
    # Small whole numbers times a power of ten: most magnitudes equal the threshold, or miss it by a hair.
    rng = np.random.default_rng(seed)
    P = rng.integers(-2, 3, size=(n, r)).astype(float) * 2.0 ** round(scale)
    P *= 1.0 + rng.integers(-1, 2, size=(n, 1)) * 2.0**-40
    X = rng.integers(-3, 4, size=(n, 3)).astype(float)
    threshold = 2.0 * 4.0 ** round(scale)
    gram, degrees = pruned_gram(P, threshold, X, np.ones(n), 64, compiled_kernels("numba", n))
    expected, expected_degrees = dense_pruned(P, threshold, X, np.ones(n))
    unit = 4.0 ** round(scale) * n
    np.testing.assert_allclose(gram / unit, expected / unit, atol=1e-11 * n)
    np.testing.assert_allclose(degrees / unit, expected_degrees / unit, atol=1e-12)


@needs_numba
@pytest.mark.parametrize("guess", [None, (0.0, 1e-9), (5.0, 6.0), (0.5, 0.5), (0.0, 100.0)])
def test_cut_is_that_of_sorting_every_entry(guess, rng, monkeypatch, loops):
    P = rng.standard_normal((150, 3))
    monkeypatch.setattr(cut_module, "MIN_ROWS", 0)
    if guess:
        monkeypatch.setattr(cut_module, "guess_bracket", lambda *_: guess)
    for weights in (np.ones(150), rng.integers(1, 4, size=150).astype(float)):
        pairs = Pairs(P, weights, weights**2, 64, loops)
        for t in (1, 700, 20_000):
            assert exact_cut(pairs, t) == pytest.approx(dense_cut(P, t, weights, weights**2), rel=1e-13)


@needs_numba
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 130), st.integers(1, 3), st.floats(0.0, 1.0))
def test_cut_is_exact_on_ties(seed, n, r, share):
    P = np.random.default_rng(seed).integers(-2, 3, size=(n, r)).astype(float)
    t = max(1, int(share * n * n))
    pairs = Pairs(P, np.ones(n), np.ones(n), 64, compiled_kernels("numba", n))
    assert exact_cut(pairs, t) == oracles.cut(P @ P.T, t)


def graph_half(n, rng, per_row=3):
    """Half of a sparse affinity, with entries on its diagonal as copies of rows leave them."""
    rows, columns = np.repeat(np.arange(n), per_row), rng.integers(n, size=n * per_row)
    return csr_array((rng.random(n * per_row), (rows, columns)), shape=(n, n))


def dense_laplacian(P, cut, X, weights, half):
    """X'(D - A)X and row sums of the pruned part, from n x n matrices."""
    S = P @ P.T
    pruned = np.where(np.abs(S) >= cut * (1 - 1e-14), S, 0.0) * np.outer(weights, weights)
    np.fill_diagonal(pruned, 0.0)
    A = pruned if half is None else pruned + (half + half.T).toarray()
    return X.T @ oracles.laplacian(A) @ X, pruned.sum(axis=1)


def check_one_pass(P, X, t, weights, diagonal, loops, tolerance=1e-12, half=None):
    """Compare with the dense matrix; whether there was an answer."""
    found = one_pass.cut_laplacian(P, t, X, weights, diagonal, half, loops)
    if found is None:
        return False
    cut, laplacian, degrees = found
    assert cut == pytest.approx(dense_cut(P, t, weights, diagonal), rel=1e-13)
    expected, expected_degrees = dense_laplacian(P, cut, X, weights, half)
    np.testing.assert_allclose(laplacian, expected, atol=tolerance * max(1.0, np.abs(expected).max()))
    np.testing.assert_allclose(degrees, expected_degrees, atol=tolerance * max(1.0, np.abs(expected_degrees).max()))
    return True


@needs_numba
@pytest.mark.parametrize("n", [257, 288, 401])
@pytest.mark.parametrize("share", [0.001, 0.04, 0.3])
def test_cut_and_laplacian_of_one_pass_are_those_of_the_dense_matrix(n, share, rng, loops):
    P, X = rng.standard_normal((n, 3)), rng.standard_normal((n, 5))
    for weights in (np.ones(n), rng.integers(1, 4, size=n).astype(float)):
        t = np.floor(share * weights.sum() ** 2)
        assert check_one_pass(P, X, t, weights, weights**2, loops)
        assert check_one_pass(P, X, t, weights, weights**2 - weights, loops, half=graph_half(n, rng))


@needs_numba
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(257, 330), st.integers(1, 3), st.floats(0.001, 1.0))
def test_one_pass_keeps_ties_together(seed, n, r, share):
    rng = np.random.default_rng(seed)
    P = rng.integers(-2, 3, size=(n, r)).astype(float)
    X, t = rng.integers(-3, 4, size=(n, 3)).astype(float), max(1, int(share * n * n))
    check_one_pass(P, X, t, np.ones(n), np.ones(n), compiled_kernels("numba", n), 1e-10)


@needs_numba
@pytest.mark.parametrize("guess", [(0.0, 1e-9), (5.0, 6.0), (0.5, 0.5)])
def test_a_bracket_that_missed_costs_a_second_pass_and_nothing_else(guess, rng, monkeypatch):
    P, X = rng.standard_normal((300, 3)), rng.standard_normal((300, 4))
    monkeypatch.setattr(one_pass, "guess_bracket", lambda *_: guess)
    assert one_pass.cut_laplacian(P, 5000, X, np.ones(300), np.ones(300), None, compiled_kernels("numba", 300)) is None
    half = graph_half(300, rng)
    cut, laplacian, degrees = CPUEngine(kernels="numba").cut_laplacian(P, 5000, X, 1.0, 1.0, half)
    plain = CPUEngine(kernels="numpy").cut_laplacian(P, 5000, X, 1.0, 1.0, half)
    assert cut == pytest.approx(plain[0], rel=1e-13)
    np.testing.assert_allclose(laplacian, plain[1], atol=1e-10)
    np.testing.assert_allclose(degrees, plain[2], atol=1e-10)


@needs_numba
def test_sums_over_many_rows_in_float32_lose_less_than_a_hundred_millionth(rng):
    # Columns of very different variance: errors are small beside the columns that they belong to.
    n = kernels.MANY_ROWS
    P = np.linalg.qr(rng.standard_normal((n, 4)))[0]
    X = rng.standard_normal((n, 12)) * 10.0 ** -np.arange(12)
    half = graph_half(n, rng)
    found = CPUEngine(kernels="numba").cut_laplacian(P, n * n / 20, X, 1.0, 1.0, half)
    plain = CPUEngine(kernels="numpy").cut_laplacian(P, n * n / 20, X, 1.0, 1.0, half)
    lengths = np.linalg.norm(X, axis=0)
    found, plain = (laplacian / np.outer(lengths, lengths) for _, laplacian, _ in (found, plain))
    np.testing.assert_allclose(found, plain, atol=1e-8 * np.abs(plain).max())


@needs_numba
@pytest.mark.parametrize("n", [1, 7, 8, 63, 64, 65, 200])
def test_marks_are_found_wherever_they_stand(n, rng):
    from adaam.engines.kernels.marking import marked

    for share in (0.0, 0.05, 0.5, 1.0):
        for start in (0, n // 3, n - 1, n):
            marks = rng.random(n) < share
            room = np.ones(-(-n // 64) * 64, bool)  # what lies beyond the entries must not count
            room[:n] = marks
            words = np.packbits(room, bitorder="little").view(np.uint64)
            places = np.empty(n + 4, np.int32)
            n_found = marked(words, start, n, places)
            np.testing.assert_array_equal(places[:n_found], start + np.flatnonzero(marks[start:]))


def test_a_cut_among_many_values_is_found_by_bins(rng, monkeypatch):
    values, counts = rng.uniform(1.0, 2.0, size=3000), rng.integers(1, 4, size=3000).astype(float)
    values[:500] = values[500:1000]
    tally = cut_module.Tally(7.0, values, counts)
    plain = [tally.reaching(t) for t in (8, 500, 5000)]
    monkeypatch.setattr(cut_module, "MANY_VALUES", 16)
    monkeypatch.setattr(cut_module, "N_BINS", 32)
    assert [tally.reaching(t) for t in (8, 500, 5000)] == plain
    equal = cut_module.Tally(0.0, np.full(100, 0.25), np.ones(100))
    assert equal.reaching(3) == 0.25


def assert_nearest(X, k, loops):
    indices, distances = nearest_others(X, k, 64, loops)
    _, expected = oracles.neighbors(X, k)
    scale = 1e-12 * np.abs(X).max()
    np.testing.assert_allclose(distances, expected, rtol=1e-12, atol=scale)
    measured = np.linalg.norm(X[:, None] - X[indices], axis=2)
    np.testing.assert_allclose(distances, measured, rtol=1e-12, atol=scale)
    assert (indices != np.arange(len(X))[:, None]).all()
    assert all(len(set(row)) == k for row in indices)


@needs_numba
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(40, 300), st.sampled_from([1, 3, 64, 65, 150]), st.integers(1, 8))
def test_neighbours_are_those_of_the_oracle(seed, n, d, k):
    # Columns of falling variance, as principal components have, away from the origin.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3) / np.arange(1, d + 1) + rng.standard_normal(d)
    assert_nearest(X, k, compiled_kernels("numba", n))


@needs_numba
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(40, 200), st.integers(1, 6))
def test_neighbours_among_ties_and_duplicates(seed, n, k):
    X = np.random.default_rng(seed).integers(0, 4, size=(n, 3)).astype(float)
    assert_nearest(X, k, compiled_kernels("numba", n))


@needs_numba
def test_few_leading_columns_and_many_give_the_same_neighbours(rng, monkeypatch, loops):
    X = rng.standard_normal((400, 150)) / np.arange(1, 151)
    found = []
    for n_leading in (64, 128, 150):
        monkeypatch.setattr(neighbors, "leading_columns", lambda *_, q=n_leading: q)
        found.append(nearest_others(X, 7, 64, loops))
    for indices, distances in found[1:]:
        np.testing.assert_array_equal(indices, found[0][0])
        np.testing.assert_array_equal(distances, found[0][1])


@needs_numba
def test_tiles_of_any_size_give_the_same_neighbours(rng, monkeypatch, loops):
    X = rng.standard_normal((333, 70)) / np.arange(1, 71)
    _, expected = oracles.neighbors(X, 6)
    for tile_rows in (7, 64, 65, 200, 512):
        monkeypatch.setattr(candidates, "TILE_ROWS", tile_rows)
        _, distances = nearest_others(X, 6, 64, loops)
        np.testing.assert_allclose(distances, expected, rtol=1e-12)


@needs_numba
def test_rows_whose_squares_vanish_or_that_are_all_equal_are_given_back(rng, loops):
    X = rng.standard_normal((300, 4))
    assert nearest_others(X * 1e-170, 3, 64, loops) is None
    assert nearest_others(np.ones((300, 4)), 3, 64, loops) is None


@needs_numba
@pytest.mark.parametrize("k", [1, 7, 60])
@pytest.mark.parametrize("leaf_rows", [70, 200, 600])
@pytest.mark.parametrize("spare", [2, 30])
def test_a_guess_names_k_others_and_measures_them(rng, loops, k, leaf_rows, spare):
    leaf_rows = max(leaf_rows, 4 * k)
    X = rng.standard_normal((600, 150)) / np.sqrt(np.arange(1, 151))
    frame = narrow.common_frame(X)
    parts = guesses.leaves(narrow.first_columns(X, frame), leaf_rows)
    order = np.concatenate(parts)
    rows = narrow.NarrowRows(X, frame, order)
    looks = guesses.trees(rows.head, parts, leaf_rows)
    indices, distances = guesses.guessed(rows, narrow.Leading(rows, 64), looks, k, spare, loops)
    assert (indices != np.arange(600)[:, None]).all()
    assert all(len(set(row)) == k for row in indices)
    exact = (np.linalg.norm(X[order][:, None] - X[order][indices], axis=2) / frame.peak) ** 2
    assert np.abs(distances - exact).max() <= rows.error
    assert (np.diff(distances, axis=1) >= 0).all()
    # Of the leaves' rows most of the nearest are found.
    true = np.sort(np.linalg.norm(X[order][:, None] - X[order], axis=2), axis=1)[:, k] / frame.peak
    assert (distances[:, -1] >= true**2 - rows.error).all()
    if leaf_rows == 600:
        assert np.sqrt(distances[:, -1] / true**2).mean() < 1.05


@needs_numba
def test_leading_columns_never_overstate_a_distance(rng):
    X = rng.standard_normal((120, 150)) / np.sqrt(np.arange(1, 151))
    X[:40, 64:] *= 1e-5  # rows with next to nothing beyond the leading columns
    X[40:50, 64:] = X[:40, 64:].mean(axis=0)
    frame = narrow.common_frame(X)
    rows = narrow.NarrowRows(X, frame)
    exact = (np.linalg.norm(X[:, None] - X[None], axis=2) / frame.peak) ** 2
    for n_leading in (64, 128, 150):
        leading = narrow.Leading(rows, n_leading)
        assert (leading.left @ leading.right.T <= exact + rows.error).all()


@needs_numba
def test_rows_that_float32_cannot_tell_apart_are_given_back(rng, monkeypatch, loops):
    X = rng.standard_normal((300, 2)) * 1e-9
    X[0] = 1.0
    monkeypatch.setattr(neighbors, "MAX_CANDIDATES", 8)
    assert nearest_others(X, 3, 64, loops) is None
    assert nearest_others(np.full((300, 2), 1e200) * X, 3, 64, loops) is None


@needs_numba
def test_results_have_the_same_bits_on_one_thread_and_on_two(rng):
    P, X = rng.standard_normal((500, 3)), rng.standard_normal((500, 40))
    engine = CPUEngine(kernels="numba")
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            gram, degrees = engine.pruned_gram(P, 1.0, X, 1.0)
            indices, distances = nearest_others(X, 5, 64, compiled_kernels("numba", 500))
            found.append((gram, degrees, indices, distances, engine.cut(P, 9000, 1.0, 1.0)))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@needs_numba
@pytest.mark.parametrize("preparation", ["unit", "linear"])
def test_a_fit_learns_the_same_space_with_and_without_numba(preparation):
    X, _ = load_digits(return_X_y=True)
    maps = [AdaAM(10, preparation=preparation, engine=CPUEngine(kernels=name)).fit(X) for name in ("numba", "numpy")]
    assert subspace_angles(maps[0].components_.T, maps[1].components_.T).max() < 1e-9
    np.testing.assert_allclose(maps[0].cuts_, maps[1].cuts_, rtol=1e-12)


@needs_numba
def test_neighbours_of_the_engine_are_the_same_with_and_without_numba(rng):
    X = rng.standard_normal((5000, 80)) / np.arange(1, 81)
    X[4000:4100] = X[:100]
    (a, da), (b, db) = (CPUEngine(kernels=name).neighbors(X, 6) for name in ("numba", "numpy"))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(da, db, rtol=1e-12, atol=1e-15)


def test_recall_is_measured_where_many_rows_are_searched(rng, monkeypatch):
    X = rng.standard_normal((4200, 5))
    assert LPP(2, affinity=KNNAffinity(6)).fit(X).knn_recall_ == 1.0

    def forgetful(self, X, k, weights):
        graph = original(self, X, k, weights)
        graph.distances[::3] *= 2.0  # as if a third of the neighbours were found farther away
        return graph

    original = CPUEngine.neighbor_graph
    monkeypatch.setattr(CPUEngine, "neighbor_graph", forgetful)
    assert LPP(2, affinity=KNNAffinity(6)).fit(X).knn_recall_ == pytest.approx(2 / 3, abs=0.05)


@pytest.mark.filterwarnings("ignore::adaam.DisconnectedGraphWarning")
def test_recall_says_where_nothing_was_searched(rng):
    X = rng.standard_normal((60, 4))
    indices, distances = oracles.neighbors(X, 5)
    assert AdaAM(3).fit(X).knn_recall_ == 1.0
    assert AdaAM(3).fit(X, neighbors=(indices, distances)).knn_recall_ is None
    assert LPP(2).fit(X, affinity=csr_array(np.ones((60, 60)))).knn_recall_ is None


def test_numpy_takes_over_where_numba_is_not_installed(monkeypatch):
    monkeypatch.setattr(kernels, "_installed", lambda: False)
    assert compiled_kernels("auto", 10**6) is None
    with pytest.raises(ImportError, match=r"pip install adaam\[fast\]"):
        compiled_kernels("numba", 10)


def test_few_rows_are_left_to_numpy():
    assert compiled_kernels("auto", 100) is None
    assert compiled_kernels("numpy", 10**6) is None


def test_unknown_kernels_are_refused(rng):
    with pytest.raises(ValueError, match="kernels='cython' is not known"):
        CPUEngine(kernels="cython").cut(rng.standard_normal((10, 2)), 5, 1.0, 1.0)


def test_a_small_fit_does_not_load_numba():
    code = (
        "import sys, numpy as np, adaam; adaam.AdaAM(2).fit(np.random.default_rng(0).random((60, 4)));"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@needs_numba
@pytest.mark.parametrize(("columns", "rows"), [(48, 24), (48, 48), (48, 100), (20, 300), (500, 10)])
def test_the_shape_of_tiles_does_not_change_what_is_kept(columns, rows, rng, monkeypatch, loops):
    P, X = rng.standard_normal((201, 3)), rng.standard_normal((201, 5))
    monkeypatch.setattr(screened.Screened, "row_blocks", lambda self: screened.row_blocks(len(self.P), rows))
    monkeypatch.setattr(screened, "TILE_COLUMNS", columns)
    gram, degrees = pruned_gram(P, 0.8, X, np.ones(201), 64, loops)
    expected, expected_degrees = dense_pruned(P, 0.8, X, np.ones(201))
    np.testing.assert_allclose(gram, expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(degrees, expected_degrees, atol=1e-12 * np.abs(expected_degrees).max())
    tallies = list(screened.tallies(P, np.ones(201), 0.5, 1.5, loops))
    upper = np.abs((P @ P.T)[np.triu_indices(201, 1)])
    assert sum(part.above for part in tallies) == 2 * (upper > 1.5).sum()
    found = np.sort(np.concatenate([part.values for part in tallies]))
    np.testing.assert_allclose(found, np.sort(upper[(upper >= 0.5) & (upper <= 1.5)]), rtol=1e-13)


@needs_numba
def test_of_many_rows_products_in_float32_move_the_result_by_less_than_a_millionth(rng, monkeypatch, loops):
    P, X = rng.standard_normal((600, 4)), rng.standard_normal((600, 21)) * 1e30
    weights = rng.integers(1, 4, size=600).astype(float)
    expected, expected_degrees = dense_pruned(P, 2.0, X, weights)
    monkeypatch.setattr(screened, "MANY_ROWS", 1)
    gram, degrees = pruned_gram(P, 2.0, X, weights, 64, loops)
    assert 0 < np.abs(gram - expected).max() < 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(degrees, expected_degrees, atol=1e-6 * np.abs(expected_degrees).max())


@pytest.fixture
def grouped(monkeypatch):
    """Few rows laid out as many are: in groups, several to a tile."""
    monkeypatch.setattr(screened, "MANY_ROWS", 1)
    monkeypatch.setattr(survivors, "GROUPED_ROWS", 1)
    monkeypatch.setattr(survivors, "GROUPED_COLUMNS", 256)
    monkeypatch.setattr(ordering, "GROUP_ROWS", 24)


@needs_numba
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(257, 700),
    r=st.integers(1, 12),
    n_rays=st.integers(1, 6),
    spread=st.floats(0.0, 1.0),
    share=st.floats(0.001, 1.0),
)
def test_groups_that_survive_almost_whole_add_up_to_the_dense_matrix(grouped, seed, n, r, n_rays, spread, share):
    rng = np.random.default_rng(seed)
    P = rng.standard_normal((n_rays, r))[rng.integers(n_rays, size=n)] * rng.random((n, 1))
    P += spread * rng.standard_normal((n, r)) / 4
    X, weights = rng.standard_normal((n, 5)), rng.integers(1, 4, size=n).astype(float)
    t, half = max(1.0, np.floor(share * weights.sum() ** 2)), graph_half(n, rng)
    check_one_pass(P, X, t, weights, weights**2, compiled_kernels("numba", n), 1e-5, half=half)


@needs_numba
def test_rows_that_all_survive_are_told_by_their_sum(grouped, rng, loops):
    # One ray: entries are large or small by the lengths of both rows, so that groups survive whole or not at all.
    P = np.outer(np.repeat([1.0, 1e-3], 300) * (1.0 + 0.1 * rng.random(600)), [0.6, 0.8])
    X = rng.standard_normal((600, 40))
    found = survivors.Survivors(P, X, np.ones(600), (0.5, 0.51), loops)
    product, sums = found.no_product(slice(0, 100)), np.zeros(600)
    found.add(slice(0, 100), (1, slice(256, 512)), product, sums, found.room(slice(0, 100), listed=True))
    S = P[found.order[:100]] @ P[found.order[256:512]].T
    expected = np.where(S > 0.51, S, 0.0) @ X[found.order[256:512]]
    np.testing.assert_allclose(from_panels(product, 40) * found.scale, expected, atol=1e-5 * np.abs(expected).max())


def test_likeness_orders_all_rows_once_and_rays_together(rng):
    rays = np.eye(6)[rng.integers(6, size=2000)] + 0.01 * rng.standard_normal((2000, 6))
    order = ordering.by_likeness(rays)
    np.testing.assert_array_equal(np.sort(order), np.arange(2000))
    kinds = rays[order].argmax(axis=1)
    assert (np.diff(kinds) != 0).mean() < 0.25  # five sixths of them, were the order left to chance


@pytest.mark.parametrize("n", [1, 63, 64, 200])
def test_balls_hold_their_columns(n, rng):
    narrow = rng.standard_normal((n, 5)).astype(np.float32)
    balls = word_balls(narrow, 128)
    for j, row in enumerate(narrow):
        tile, word = j // 128, j % 128 // 64
        assert np.linalg.norm(row - balls.centers[tile, :, word]) <= balls.radii[tile, word]
