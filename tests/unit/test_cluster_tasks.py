"""What a task does on row blocks, by compiled kernels and by NumPy's, against dense formulas."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaam.engines import ClusterError, DaskEngine, compiled
from adaam.engines.cluster.pairs import (
    FoundPairs,
    TaskKernels,
    best_pairs,
    counted_part,
    own_table,
    pairs_between,
    pruned_part,
)
from adaam.engines.pruned import cut as cut_module
from adaam.engines.pruned.cut import Bracket

try:
    import numba
except ImportError:
    numba = None

needs_numba = pytest.mark.skipif(numba is None, reason="numba is not installed")
NUMPY = TaskKernels("numpy", 100, 64)
BOTH = [pytest.param(TaskKernels("numba", 100, 64), marks=needs_numba, id="numba"), pytest.param(NUMPY, id="numpy")]
SIZES = [[1, 1], [60, 7, 130], [101, 100, 3], [5]]


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


def part_of(threshold, chosen, blocks, with_own):
    """Half of the Gram matrix, and row sums of each block, as a task gives them."""
    edges = np.cumsum([0, *(len(P) for P, _, _ in blocks)])
    gram, sums = pruned_part(threshold, chosen, edges[-1], blocks, edges[:-1], with_own)
    return gram, *np.split(sums, edges[1:-1])


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
    blocks = blocks_of(rng, sizes, uniform)
    for with_own in (True, False) if len(sizes) > 1 else (True,):
        part, *sums = part_of(threshold, chosen, blocks, with_own)
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

    blocks = blocks_of(rng, [n, m], True, draw=draw)
    threshold = 2.0 * 4.0 ** round(scale)
    part, *sums = part_of(threshold, TaskKernels("numba", n + m, 64), blocks, True)
    expected, expected_sums = dense_part(threshold, blocks, True)
    unit = 4.0 ** round(scale) * (n + m)
    np.testing.assert_allclose(part / unit, expected / unit, atol=1e-11 * (n + m))
    for found, wanted in zip(sums, expected_sums, strict=True):
        np.testing.assert_allclose(found / unit, wanted / unit, atol=1e-12)


@pytest.mark.parametrize("chosen", BOTH)
def test_a_weight_that_all_rows_have_counts(chosen, rng):
    blocks = [(P, X, 3.0) for P, X, _ in blocks_of(rng, [60, 30], True)]
    part, *sums = part_of(0.7, chosen, blocks, True)
    expected, expected_sums = dense_part(0.7, blocks, True)
    np.testing.assert_allclose(part, expected, atol=1e-11)
    np.testing.assert_allclose(sums[1], expected_sums[1], atol=1e-12)


@needs_numba
def test_many_rows_are_multiplied_in_float32_and_added_in_float64(rng):
    blocks = blocks_of(rng, [90, 120], False)
    part, *sums = part_of(0.5, TaskKernels("numba", 5000, 64), blocks, True)
    expected, expected_sums = dense_part(0.5, blocks, True)
    assert 0 < np.abs(part - expected).max() < 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(sums[0], expected_sums[0], atol=1e-6 * np.abs(expected_sums[0]).max())


@pytest.mark.parametrize("chosen", BOTH)
def test_blocks_of_zeros_leave_finite_sums(chosen):
    zeros = (np.zeros((9, 3)), np.zeros((9, 4)), 1.0)
    for part in part_of(0.1, chosen, [zeros, zeros], True):
        np.testing.assert_array_equal(part, 0.0)
    counts = counted_part(Bracket(0.0, 1.0), chosen, [(zeros[0], None, 1.0)] * 2, 1.0, False).counts
    assert counts.sum() == 0


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
        given = [(P, None, w) for P, w, _ in blocks], blocks[0][2], with_own
        tally = counted_part(Bracket(low, high), chosen, *given)
        assert tally.above == pytest.approx(counts[values > high].sum())
        assert tally.counts.sum() == pytest.approx(counts[inside].sum())
        assert tally.counts @ tally.values == pytest.approx(counts[inside] @ values[inside], abs=1e-9)


@pytest.mark.parametrize("chosen", BOTH)
def test_too_many_values_are_counted_by_bins(chosen, rng, monkeypatch):
    monkeypatch.setattr(cut_module, "MAX_DISTINCT", 50)
    bracket, blocks = Bracket(0.1, 100.0), [(rng.standard_normal((60, 3)), 1.0, 1.0)]
    tally = counted_part(bracket, chosen, [(blocks[0][0], None, 1.0)], 1.0, True)
    values, counts = dense_counts(blocks, True)
    assert tally.binned
    assert tally.above == counts[values > 100].sum()
    np.testing.assert_allclose(tally.counts, np.histogram(values, [*tally.values, 100.0], weights=counts)[0])


@pytest.mark.parametrize("chosen", BOTH)
@pytest.mark.parametrize("sizes", [[50, 90, 3], [1, 1], [130, 41]])
def test_blocks_find_each_other_within_the_bounds_of_their_tables(chosen, sizes, rng):
    blocks, starts = [as_received(rng.standard_normal((size, 5))) for size in sizes], np.cumsum([7, *sizes])[:-1]
    X, numbers = np.concatenate(blocks), 7 + np.arange(sum(sizes))
    tables = [own_table(1, chosen, A, first) for A, first in zip(blocks, starts, strict=True)]
    found = pairs_between(chosen, list(zip(blocks, starts, tables, strict=True)))
    exact = np.square(X[:, None] - X[None]).sum(axis=2)
    for block, (A, first, table, near) in enumerate(zip(blocks, starts, tables, found, strict=True)):
        others = np.arange(sizes[0], len(X)) if block == 0 else np.arange(sizes[0])
        rows = np.arange(len(A)) + first - 7
        wanted = np.argwhere(exact[np.ix_(rows, others)] <= table.bounds()[:, None])
        assert sorted(zip(near.rows, near.others, strict=True)) == sorted(
            (row, numbers[others[column]]) for row, column in wanted
        )


@needs_numba
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 120), st.integers(1, 7), st.floats(-130, 130))
def test_tables_of_a_block_are_those_of_numpy(seed, n, k, scale):
    rng = np.random.default_rng(seed)
    X = as_received(rng.integers(-4, 5, (n, 3)) * 10.0 ** round(scale))
    found, expected = (own_table(k, chosen, X, 100) for chosen in (TaskKernels("numba", n, 64), NUMPY))
    np.testing.assert_allclose(found.squares, expected.squares, rtol=1e-12)
    assert (np.isfinite(found.squares).sum(axis=1) == min(k, n - 1)).all()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 6))
def test_the_best_of_what_was_found_are_the_nearest(seed, n, k):
    rng = np.random.default_rng(seed)
    parts, known = [], [[] for _ in range(n)]
    for first in (0, 1000):
        size = int(rng.integers(0, 80))
        found = np.unique(np.stack([rng.integers(0, n, size), first + rng.integers(0, 50, size)]), axis=1)
        squares = rng.integers(0, 4, found.shape[1]).astype(float)
        parts.append(FoundPairs(*found, squares))
        for row, other, square in zip(*found, squares, strict=True):
            known[row].append((square, other))
    table = best_pairs(n, k, parts)
    for row, wanted in enumerate(known):
        wanted = sorted(wanted)[:k]
        assert list(table.others[row][: len(wanted)]) == [other for _, other in wanted]
        assert list(table.squares[row][: len(wanted)]) == [square for square, _ in wanted]
        assert np.isinf(table.squares[row][len(wanted) :]).all()


def test_kernels_are_chosen_once_for_all_workers(monkeypatch):
    with pytest.raises(ValueError, match="kernels='fast'"):
        DaskEngine(kernels="fast").task_kernels(10)
    assert DaskEngine(kernels="auto").task_kernels(10).choice == "numpy", "few rows"
    monkeypatch.setattr(compiled, "_installed", lambda: True)
    assert DaskEngine(kernels="auto").task_kernels(5000).choice == "auto"
    assert DaskEngine(kernels="numba").task_kernels(10).choice == "numba"
    monkeypatch.setattr(compiled, "_installed", lambda: False)
    assert DaskEngine(kernels="auto").task_kernels(5000).choice == "numpy"
    with pytest.raises(ImportError, match=r"pip install adaam\[fast\]"):
        DaskEngine(kernels="numba").task_kernels(10)


def test_a_worker_without_numba_uses_numpy_or_says_what_it_lacks(monkeypatch):
    monkeypatch.setattr(compiled, "_installed", lambda: False)
    assert not TaskKernels("auto", 5000, 64).compiled()
    with pytest.raises(ClusterError, match=r'needs numba on every worker.*adaam\[fast\].*kernels="auto"'):
        TaskKernels("numba", 5000, 64).compiled()
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
        "from adaam.engines.cluster.pairs import TaskKernels, pruned_part\n"
        "import numpy as np\n"
        "P = np.random.default_rng(0).standard_normal((50, 3))\n"
        "blocks = [(P, P, 1.0), (P, P, 1.0)]\n"
        "part = pruned_part(0.5, TaskKernels('numba', 50), 100, blocks, [0, 50], True)[0]\n"
        "from adaam.engines.pruned.loops import accumulate_tile\n"
        "print(part.sum(), sum(accumulate_tile.stats.cache_misses.values()))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) for _ in range(3)
    ]
    told = [process.communicate()[0].split() for process in started]
    assert all(process.returncode == 0 for process in started)
    assert len({total for total, _ in told}) == 1
    assert sorted(int(compiled) for _, compiled in told) == [0, 0, 1]
