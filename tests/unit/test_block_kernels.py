"""What a task does on row blocks, by compiled kernels and by NumPy's, against dense formulas."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaam.engines import ClusterError, DaskEngine, kernels
from adaam.engines.cluster import one_pass
from adaam.engines.cluster.candidates import Found, best, both_ways, own_table
from adaam.engines.cluster.guess import sampled
from adaam.engines.cluster.nearest import frame_of
from adaam.engines.cluster.pruned import pruned_part
from adaam.engines.cluster.rows import block_lengths
from adaam.engines.cluster.tallies import counted_bins, counted_values
from adaam.engines.cluster.task_kernels import TaskKernels, task_kernels
from adaam.engines.kernels import block_neighbors, strips

try:
    import numba
except ImportError:
    numba = None

needs_numba = pytest.mark.skipif(numba is None, reason="numba is not installed")
NUMPY = TaskKernels("numpy", 100, 64)
BOTH = [pytest.param(TaskKernels("numba", 100, 64), marks=needs_numba, id="numba"), pytest.param(NUMPY, id="numpy")]
SIZES = [[1, 1], [60, 7, 130], [101, 100, 3], [5]]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Several tiles already on small blocks."""
    monkeypatch.setattr(strips, "TILE_COLUMNS", 48)
    monkeypatch.setattr(strips, "MAX_TILE_ROWS", 50)
    monkeypatch.setattr(block_neighbors, "TILE_ROWS", 40)


def as_received(array):
    """A block as it comes over a network: it cannot be written to."""
    array = np.array(array)
    array.flags.writeable = False
    return array


def weighted(rng, size, uniform):
    return 1.0 if uniform else as_received(rng.integers(0, 4, size).astype(float))


def spread(weights, size):
    return np.broadcast_to(weights, size)


def counted_pairs(sizes, with_own):
    """Truth for each pair of a row of the first block and a row of any, that it is looked at, and once."""
    n = sizes[0]
    own = np.triu(np.ones((n, n), bool), k=1) & with_own
    return np.concatenate([own, np.ones((n, sum(sizes[1:])), bool)], axis=1)


def dense_part(threshold, blocks, with_own):
    P, X = (np.concatenate([block[i] for block in blocks]) for i in (0, 1))
    sizes = [len(block[0]) for block in blocks]
    w = np.concatenate([spread(block[2], size) for block, size in zip(blocks, sizes, strict=True)])
    n = sizes[0]
    S = P[:n] @ P.T
    S = np.where((np.abs(S) >= threshold) & counted_pairs(sizes, with_own), S, 0.0)
    gram = (X[:n] * w[:n, None]).T @ S @ (X * w[:, None])
    sums = S.T @ w[:n]
    sums[:n] += S @ w
    return gram, np.split(sums, np.cumsum(sizes)[:-1])


def blocks_of(rng, sizes, uniform, r=3, d=5, draw=None):
    draw = rng.standard_normal if draw is None else draw
    return [
        (as_received(draw((size, r))), as_received(rng.standard_normal((size, d))), weighted(rng, size, uniform))
        for size in sizes
    ]


@pytest.mark.parametrize("chosen", BOTH)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("threshold", [0.0, 0.7, 3.0, 100.0])
def test_pruned_part_is_the_dense_one(chosen, sizes, uniform, threshold, rng):
    own, *others = blocks = blocks_of(rng, sizes, uniform)
    for with_own in (True, False):
        part, *sums = pruned_part(threshold, chosen, own, others, with_own)
        expected, expected_sums = dense_part(threshold, blocks, with_own)
        np.testing.assert_allclose(part, expected, atol=1e-11)
        for found, wanted in zip(sums, expected_sums, strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-12)


@needs_numba
@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 70), st.integers(1, 70), st.floats(-150, 150))
def test_what_is_kept_between_blocks_is_decided_in_float64(seed, n, m, scale):
    # Small whole numbers times a power of two: most magnitudes equal the threshold, or miss it by a hair.
    rng = np.random.default_rng(seed)

    def draw(shape):
        unit = (1.0 + rng.integers(-1, 2, size=(shape[0], 1)) * 2.0**-40) * 2.0 ** round(scale)
        return rng.integers(-2, 3, size=shape) * unit

    own, other = blocks_of(rng, [n, m], True, draw=draw)
    threshold = 2.0 * 4.0 ** round(scale)
    part, *sums = pruned_part(threshold, TaskKernels("numba", n + m, 64), own, [other], True)
    expected, expected_sums = dense_part(threshold, [own, other], True)
    unit = 4.0 ** round(scale) * (n + m)
    np.testing.assert_allclose(part / unit, expected / unit, atol=1e-11 * (n + m))
    for found, wanted in zip(sums, expected_sums, strict=True):
        np.testing.assert_allclose(found / unit, wanted / unit, atol=1e-12)


@pytest.mark.parametrize("chosen", BOTH)
def test_a_weight_that_all_rows_have_counts(chosen, rng):
    blocks = [(P, X, 3.0) for P, X, _ in blocks_of(rng, [60, 30], True)]
    part, *sums = pruned_part(0.7, chosen, blocks[0], blocks[1:], True)
    expected, expected_sums = dense_part(0.7, blocks, True)
    np.testing.assert_allclose(part, expected, atol=1e-11)
    np.testing.assert_allclose(sums[1], expected_sums[1], atol=1e-12)


@needs_numba
def test_many_rows_are_multiplied_in_float32_and_added_in_float64(rng):
    own, *others = blocks = blocks_of(rng, [90, 120], False)
    part, *sums = pruned_part(0.5, TaskKernels("numba", 5000, 64), own, others, True)
    expected, expected_sums = dense_part(0.5, blocks, True)
    assert 0 < np.abs(part - expected).max() < 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(sums[0], expected_sums[0], atol=1e-6 * np.abs(expected_sums[0]).max())


@pytest.mark.parametrize("chosen", BOTH)
def test_blocks_of_zeros_leave_finite_sums(chosen):
    zeros = (np.zeros((9, 3)), np.zeros((9, 4)), 1.0)
    for part in pruned_part(0.1, chosen, zeros, [zeros], True):
        np.testing.assert_array_equal(part, 0.0)
    assert counted_values(0.0, 1.0, chosen, (zeros[0], 1.0, 1.0), [(zeros[0], 1.0, 1.0)], False).counts.sum() == 0


def dense_counts(blocks, with_own):
    sizes = [len(block[0]) for block in blocks]
    P = np.concatenate([block[0] for block in blocks])
    w = np.concatenate([spread(block[1], size) for block, size in zip(blocks, sizes, strict=True)])
    n = sizes[0]
    S = np.abs(P[:n] @ P.T)
    counts = np.where(counted_pairs(sizes, with_own), 2.0 * np.outer(w[:n], w), 0.0)
    if with_own:
        counts[np.arange(n), np.arange(n)] = spread(blocks[0][2], n)
    return S.ravel(), counts.ravel()


@pytest.mark.parametrize("chosen", BOTH)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("bracket", [(0.5, 1.0), (0.0, 0.3), (2.0, 100.0), (50.0, 60.0)])
def test_entries_are_counted_as_the_dense_matrix_has_them(chosen, sizes, uniform, bracket, rng):
    blocks = [(P, w, w**2) for P, _, w in blocks_of(rng, sizes, uniform)]
    low, high = bracket
    for with_own in (True, False) if len(sizes) > 1 else (True,):
        values, counts = dense_counts(blocks, with_own)
        inside = (values >= low) & (values <= high) & (values > 0)
        tally = counted_values(low, high, chosen, blocks[0], blocks[1:], with_own)
        assert tally.above == pytest.approx(counts[values > high].sum())
        assert tally.counts.sum() == pytest.approx(counts[inside].sum())
        assert tally.counts @ tally.values == pytest.approx(counts[inside] @ values[inside], abs=1e-9)
        bins = counted_bins(low, high, chosen, blocks[0], blocks[1:], with_own)
        assert bins.above == pytest.approx(tally.above)
        assert bins.counts.sum() == pytest.approx(tally.counts.sum())


@needs_numba
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("diagonal", [0.0, 1.0])
def test_one_pass_gives_the_counts_and_the_sums_of_two(sizes, uniform, diagonal, rng):
    chosen, bracket = TaskKernels("numba", 100, 64), (0.5, 1.2)
    blocks = blocks_of(rng, sizes, uniform)
    weights = [w for _, _, w in blocks]
    for with_own in (True, False) if len(sizes) > 1 else (True,):
        part = one_pass.passed_part(chosen, blocks, diagonal, with_own, bracket)
        values, counts = dense_counts([(P, w, diagonal) for P, _, w in blocks], with_own)
        inside = (values >= bracket[0]) & (values <= bracket[1])
        bins = one_pass.counted_bins(part, weights, bracket)
        assert bins.above == pytest.approx(counts[values > bracket[1]].sum())
        assert bins.counts.sum() == pytest.approx(counts[inside].sum())
        few = one_pass.few_values(part, weights, (0.7, 0.8))
        assert few.above == pytest.approx(counts[values > 0.8].sum())
        assert few.counts.sum() == pytest.approx(counts[(values >= 0.7) & (values <= 0.8)].sum())
        expected, expected_sums = dense_part(0.9, blocks, with_own)
        for here in (chosen, NUMPY):  # another worker may be asked for what is left to do
            gram, *sums = one_pass.completed_part(here, part, blocks, 0.9)
            np.testing.assert_allclose(gram, expected, atol=1e-11)
            for found, wanted in zip(sums, expected_sums, strict=True):
                np.testing.assert_allclose(found, wanted, atol=1e-12)


@needs_numba
def test_a_bracket_that_holds_too_much_is_given_up(rng, monkeypatch):
    monkeypatch.setattr(one_pass, "MAX_LISTED", 50)
    chosen, blocks = TaskKernels("numba", 60, 64), blocks_of(rng, [60], True)
    part = one_pass.passed_part(chosen, blocks, 1.0, True, (0.0, 100.0))
    assert part is None
    assert one_pass.reached_bin([one_pass.counted_bins(part, [1.0], (0.0, 100.0))], (0.0, 100.0), 10) is None
    assert not any(np.any(zeros) for zeros in one_pass.completed_part(chosen, part, blocks, None))


@needs_numba
def test_too_many_values_are_left_to_bins(rng, monkeypatch):
    from adaam.engines.cluster import tallies

    monkeypatch.setattr(tallies, "MAX_DISTINCT", 50)
    block = (rng.standard_normal((60, 3)), 1.0, 1.0)
    assert counted_values(0.0, 100.0, TaskKernels("numba", 60, 64), block, [], True) is None


def assert_near(blocks, bounds, chosen, k=3):
    found = list(both_ways(blocks, bounds, k, frame_of(blocks[0], [block_lengths(X) for X in blocks]), chosen))
    assert len(found) == len(blocks) - 1
    for X, bound, (mine, yours) in zip(blocks[1:], bounds[1:], found, strict=True):
        assert_within(mine, blocks[0], X, bounds[0])
        assert_within(yours, X, blocks[0], bound)


def assert_within(found, A, B, bound):
    rows, others, squares = found
    exact = np.square(A[:, None] - B[None]).sum(axis=2)
    pairs = set(zip(rows.tolist(), others.tolist(), strict=True))
    assert len(pairs) == len(rows), "each pair is found once"
    sure = np.nonzero(exact <= bound[:, None] * (1 - 1e-12))
    assert pairs >= set(zip(*(part.tolist() for part in sure), strict=True)), "none is missed"
    assert (squares <= bound[rows]).all()
    np.testing.assert_allclose(squares, exact[rows, others], rtol=1e-11, atol=1e-13 * exact.max())


@pytest.mark.parametrize("chosen", BOTH)
@pytest.mark.parametrize("sizes", [[50, 90, 3], [1, 1], [130, 41]])
@pytest.mark.parametrize("d", [1, 5, 64, 150])
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_no_pair_within_the_bounds_is_missed(chosen, sizes, d, offset, rng):
    blocks = [as_received(rng.standard_normal((size, d)) / np.arange(1, d + 1) + offset) for size in sizes]
    typical = np.median(np.square(blocks[0][:, None] - blocks[-1][None]).sum(axis=2))
    bounds = [as_received(rng.uniform(0, typical, size)) for size in sizes]
    assert_near(blocks, bounds, chosen)


@pytest.mark.parametrize("chosen", BOTH)
def test_copies_are_near_at_distance_zero_and_rows_without_bounds_find_all(chosen, rng):
    X = rng.integers(0, 3, (60, 4)).astype(float)
    assert_near([X, X[::-1].copy()], [np.zeros(60), np.zeros(60)], chosen)
    assert_near([np.full((5, 2), 7.0), np.full((8, 2), 7.0)], [np.zeros(5), np.zeros(8)], chosen)
    free = np.full(60, np.inf)
    (mine, _), *_ = both_ways([X, X[:2].copy()], [free, np.ones(2)], 2, frame_of(X, [block_lengths(X)]), chosen)
    assert len(mine[0]) == 120


@needs_numba
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 120), st.integers(1, 7), st.floats(-130, 130))
def test_tables_of_a_block_are_those_of_numpy(seed, n, k, scale):
    rng = np.random.default_rng(seed)
    X = as_received(rng.integers(-4, 5, (n, 3)) * 10.0 ** round(scale))
    k = min(k, n - 1)
    weights = rng.integers(1, 4, n).astype(float)
    found, expected = (own_table(X, 100, weights, k, chosen) for chosen in (TaskKernels("numba", n, 64), NUMPY))
    np.testing.assert_allclose(found.squares, expected.squares, rtol=1e-12)
    np.testing.assert_array_equal(found.weights, np.where(found.others >= 0, weights[found.others - 100], 0.0))


@needs_numba
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 6), st.booleans())
def test_the_best_of_what_was_found_are_the_same_with_and_without_compiling(seed, n, k, uniform):
    rng = np.random.default_rng(seed)
    parts = []
    for first in (0, 1000):
        size = int(rng.integers(0, 80))
        pairs = np.unique(np.stack([rng.integers(0, n, size), first + rng.integers(0, 50, size)]), axis=1)
        pairs = pairs[:, rng.permutation(pairs.shape[1])]
        squares = rng.integers(0, 4, pairs.shape[1]).astype(float)
        parts.append(Found(*pairs, squares, None if uniform else pairs[1] + 0.5))
    found, expected = (best(n, k, parts, chosen) for chosen in (TaskKernels("numba", n, 64), NUMPY))
    np.testing.assert_array_equal(found.others, expected.others)
    np.testing.assert_array_equal(found.squares, expected.squares)
    if not uniform:
        np.testing.assert_array_equal(found.weights, expected.weights)
        np.testing.assert_array_equal(found.weights, np.where(found.others >= 0, found.others + 0.5, 0.0))


@pytest.mark.parametrize("chosen", BOTH)
@pytest.mark.parametrize("uniform", [True, False])
def test_sampled_pairs_stand_for_all(chosen, uniform, rng):
    P = rng.standard_normal((400, 3))
    w = 1.0 if uniform else rng.integers(0, 4, 400).astype(float)
    parts, held = [P[:150], P[150:]], [1.0, 1.0] if uniform else [w[:150], w[150:]]
    diagonal = [part if uniform else part**2 for part in held]
    found = [sampled(parts, held, diagonal, 1.0, (seed, 2), 40_000, 0.2, chosen) for seed in range(2)]
    S, counts = np.abs(P @ P.T), np.outer(spread(w, 400), spread(w, 400))
    assert sum(part.total for part in found) == pytest.approx(counts.sum())
    cut = np.quantile(S, 0.95)
    above = sum(part.counts[part.values >= cut].sum() for part in found)
    assert above == pytest.approx(counts[cut <= S].sum(), rel=0.1)


def test_kernels_are_chosen_once_for_all_workers(monkeypatch):
    with pytest.raises(ValueError, match="kernels='fast'"):
        task_kernels("fast", 10, 64)
    assert task_kernels("auto", 10, 64).choice == "numpy", "few rows"
    monkeypatch.setattr(kernels, "_installed", lambda: True)
    assert task_kernels("auto", 5000, 64).choice == "auto"
    assert task_kernels("numba", 10, 64).choice == "numba"
    monkeypatch.setattr(kernels, "_installed", lambda: False)
    assert task_kernels("auto", 5000, 64).choice == "numpy"
    with pytest.raises(ImportError, match=r"pip install adaam\[fast\]"):
        task_kernels("numba", 10, 64)


def test_a_worker_without_numba_uses_numpy_or_says_what_it_lacks(monkeypatch):
    monkeypatch.setattr(kernels, "_installed", lambda: False)
    assert TaskKernels("auto", 5000, 64).here() is None
    with pytest.raises(ClusterError, match=r'needs numba on every worker.*adaam\[fast\].*kernels="auto"'):
        TaskKernels("numba", 5000, 64).here()
    with pytest.raises(ClusterError, match="needs numba on every worker"):
        TaskKernels("numba", 5000, 64).engine(100)
    assert TaskKernels("auto", 5000, 64).engine(5000).kernels == "auto"


def test_an_engine_keeps_its_kernels_when_it_travels():
    engine = DaskEngine(block_rows=5, kernels="numpy")
    assert pickle.loads(pickle.dumps(engine)) == engine


@needs_numba
@pytest.mark.slow
def test_processes_that_start_at_once_with_nothing_compiled_agree(tmp_path):
    """One compiles, the others wait for it and read what it kept."""
    pytest.importorskip("fcntl", reason="no locks between processes here")
    code = (
        "from adaam.engines.cluster.task_kernels import TaskKernels\n"
        "import numpy as np\n"
        "from adaam.engines.cluster.pruned import pruned_part\n"
        "P = np.random.default_rng(0).standard_normal((50, 3))\n"
        "part = pruned_part(0.5, TaskKernels('numba', 50, 64), (P, P, 1.0), [(P, P, 1.0)], True)[0]\n"
        "from adaam.engines.kernels.pruning import add_survivors\n"
        "print(part.sum(), sum(add_survivors.stats.cache_misses.values()))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) for _ in range(3)
    ]
    told = [process.communicate()[0].split() for process in started]
    assert all(process.returncode == 0 for process in started)
    assert len({total for total, _ in told}) == 1
    assert sorted(int(compiled) for _, compiled in told) == [0, 0, 1]
