"""Pruned affinities by compiled loops against dense matrices: the cut, the Gram matrix, the Laplacian of one pass."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import oracles
from adaam.engines import CPUEngine, cpu
from adaam.engines.neighbors.graph import HostHalf
from adaam.engines.pruned.cut import Bracket
from unit.test_pruned import cut, dense_cut

pytest.importorskip("numba", reason="numba is not installed")

from adaam.engines.pruned import screened


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Use small tiles, so that small data has several."""
    monkeypatch.setattr(screened, "TILE_COLUMNS", 64)
    monkeypatch.setattr(screened, "MAX_TILE_ROWS", 100)


def pruned_gram(P, cut, X, weights):
    """X'WSWX and WSw of a known cut, from the Laplacian."""
    found, laplacian, degrees = screened.cut_laplacian(P, 0, X, weights, weights, None, cut)
    assert found == cut
    return X.T @ (degrees[:, None] * X) - laplacian, degrees


def dense_pruned(P, threshold, X, weights):
    S = P @ P.T
    np.fill_diagonal(S, 0.0)
    S = np.where(np.abs(S) >= threshold, S, 0.0) * np.outer(weights, weights)
    return X.T @ S @ X, S.sum(axis=1)


@pytest.mark.parametrize("n", [1, 2, 47, 48, 49, 201])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 2.5, 100.0])
def test_pruned_gram_is_the_dense_one(n, threshold, rng):
    P, X = rng.standard_normal((n, 3)), rng.standard_normal((n, 5))
    for weights in (np.ones(n), rng.uniform(0.5, 3.0, size=n)):
        gram, degrees = pruned_gram(P, threshold, X, weights)
        expected, expected_degrees = dense_pruned(P, threshold, X, weights)
        np.testing.assert_allclose(gram, expected, atol=1e-12 * max(1.0, np.abs(expected).max()))
        np.testing.assert_allclose(degrees, expected_degrees, atol=1e-12 * max(1.0, np.abs(expected_degrees).max()))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 160), st.integers(1, 5), st.floats(-150, 150))
def test_what_is_kept_is_decided_in_float64(seed, n, r, scale):
    # Small integers times a power of two: most magnitudes equal the threshold, or nearly so.
    rng = np.random.default_rng(seed)
    P = rng.integers(-2, 3, size=(n, r)).astype(float) * 2.0 ** round(scale)
    P *= 1.0 + rng.integers(-1, 2, size=(n, 1)) * 2.0**-40
    X = rng.integers(-3, 4, size=(n, 3)).astype(float)
    threshold = 2.0 * 4.0 ** round(scale)
    gram, degrees = pruned_gram(P, threshold, X, np.ones(n))
    expected, expected_degrees = dense_pruned(P, threshold, X, np.ones(n))
    unit = 4.0 ** round(scale) * n
    np.testing.assert_allclose(gram / unit, expected / unit, atol=1e-11 * n)
    np.testing.assert_allclose(degrees / unit, expected_degrees / unit, atol=1e-12)


@pytest.mark.parametrize("guess", [None, (0.0, 1e-9), (5.0, 6.0), (0.5, 0.5), (0.0, 100.0)])
def test_cut_is_that_of_sorting_every_entry(guess, rng, monkeypatch):
    P = rng.standard_normal((150, 3))
    if guess:
        monkeypatch.setattr(cpu, "guess_bracket", lambda *_: Bracket(*guess))
    for weights in (np.ones(150), rng.integers(1, 4, size=150).astype(float)):
        for t in (1, 700, 20_000):
            assert cut(P, t, weights, weights**2, screened=True) == pytest.approx(
                dense_cut(P, t, weights, weights**2), rel=1e-13
            )


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 130), st.integers(1, 3), st.floats(0.0, 1.0))
def test_cut_is_exact_on_ties(seed, n, r, share):
    P = np.random.default_rng(seed).integers(-2, 3, size=(n, r)).astype(float)
    t = max(1, int(share * n * n))
    assert cut(P, t, np.ones(n), np.ones(n), screened=True) == oracles.cut(P @ P.T, t)


def graph_half(n, rng, per_row=3):
    """Return half of a sparse affinity, with diagonal entries as from copies of rows."""
    rows, columns = np.repeat(np.arange(n), per_row), rng.integers(n, size=n * per_row)
    return HostHalf(csr_array((rng.random(n * per_row), (rows, columns)), shape=(n, n)))


def dense_laplacian(P, cut, X, weights, half):
    """X'(D - A)X and row sums of the pruned part, from n x n matrices."""
    S = P @ P.T
    pruned = np.where(np.abs(S) >= cut * (1 - 1e-14), S, 0.0) * np.outer(weights, weights)
    np.fill_diagonal(pruned, 0.0)
    A = pruned if half is None else pruned + (half.matrix + half.matrix.T).toarray()
    return X.T @ oracles.laplacian(A) @ X, pruned.sum(axis=1)


def check_one_pass(P, X, t, weights, diagonal, tolerance=1e-12, half=None):
    """Compare with the dense matrix; return whether one pass gave a result."""
    found = screened.cut_laplacian(P, t, X, weights, diagonal, half)
    if found is None:
        return False
    magnitude, laplacian, degrees = found
    assert magnitude == pytest.approx(dense_cut(P, t, weights, diagonal), rel=1e-13)
    expected, expected_degrees = dense_laplacian(P, magnitude, X, weights, half)
    np.testing.assert_allclose(laplacian, expected, atol=tolerance * max(1.0, np.abs(expected).max()))
    np.testing.assert_allclose(degrees, expected_degrees, atol=tolerance * max(1.0, np.abs(expected_degrees).max()))
    return True


@pytest.mark.parametrize("n", [257, 288, 401])
@pytest.mark.parametrize("share", [0.001, 0.04, 0.3])
def test_cut_and_laplacian_of_one_pass_are_those_of_the_dense_matrix(n, share, rng):
    P, X = rng.standard_normal((n, 3)), rng.standard_normal((n, 5))
    for weights in (np.ones(n), rng.integers(1, 4, size=n).astype(float)):
        t = np.floor(share * weights.sum() ** 2)
        assert check_one_pass(P, X, t, weights, weights**2)
        assert check_one_pass(P, X, t, weights, weights**2 - weights, half=graph_half(n, rng))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(257, 330), st.integers(1, 3), st.floats(0.001, 1.0))
def test_one_pass_keeps_ties_together(seed, n, r, share):
    rng = np.random.default_rng(seed)
    P = rng.integers(-2, 3, size=(n, r)).astype(float)
    X, t = rng.integers(-3, 4, size=(n, 3)).astype(float), max(1, int(share * n * n))
    assert check_one_pass(P, X, t, np.ones(n), np.ones(n), 1e-10)


@pytest.mark.parametrize("guess", [(0.0, 1e-9), (5.0, 6.0), (0.5, 0.5)])
def test_a_bracket_that_missed_costs_a_second_pass_and_nothing_else(guess, rng, monkeypatch):
    P, X = rng.standard_normal((300, 3)), rng.standard_normal((300, 4))
    monkeypatch.setattr(screened, "guess_bracket", lambda *_: Bracket(*guess))
    assert screened.cut_laplacian(P, 5000, X, np.ones(300), np.ones(300), None) is None
    half = graph_half(300, rng)
    magnitude, laplacian, degrees = CPUEngine(kernels="numba").cut_laplacian(P, 5000, X, 1.0, 1.0, half)
    plain = CPUEngine(kernels="numpy").cut_laplacian(P, 5000, X, 1.0, 1.0, half)
    assert magnitude == pytest.approx(plain[0], rel=1e-13)
    np.testing.assert_allclose(laplacian, plain[1], atol=1e-10)
    np.testing.assert_allclose(degrees, plain[2], atol=1e-10)


def test_sums_over_many_rows_in_float32_lose_less_than_a_hundred_millionth(rng):
    # Columns of very different variance: errors are small relative to their columns.
    n = screened.MANY_ROWS
    P = np.linalg.qr(rng.standard_normal((n, 4)))[0]
    X = rng.standard_normal((n, 12)) * 10.0 ** -np.arange(12)
    half = graph_half(n, rng)
    found = CPUEngine(kernels="numba").cut_laplacian(P, n * n / 20, X, 1.0, 1.0, half)
    plain = CPUEngine(kernels="numpy").cut_laplacian(P, n * n / 20, X, 1.0, 1.0, half)
    lengths = np.linalg.norm(X, axis=0)
    found, plain = (laplacian / np.outer(lengths, lengths) for _, laplacian, _ in (found, plain))
    np.testing.assert_allclose(found, plain, atol=1e-8 * np.abs(plain).max())


@pytest.mark.parametrize(("columns", "rows"), [(64, 24), (64, 48), (64, 100), (128, 300), (512, 10)])
def test_the_shape_of_tiles_does_not_change_what_is_kept(columns, rows, rng, monkeypatch):
    P, X = rng.standard_normal((201, 3)), rng.standard_normal((201, 5))
    monkeypatch.setattr(screened.PrunedPass, "row_blocks", lambda self: screened.row_blocks(len(self.P), rows))
    monkeypatch.setattr(screened, "TILE_COLUMNS", columns)
    gram, degrees = pruned_gram(P, 0.8, X, np.ones(201))
    expected, expected_degrees = dense_pruned(P, 0.8, X, np.ones(201))
    np.testing.assert_allclose(gram, expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(degrees, expected_degrees, atol=1e-12 * np.abs(expected_degrees).max())
    tallies = list(screened.screened_tallies(P, np.ones(201), Bracket(0.5, 1.5)))
    upper = np.abs((P @ P.T)[np.triu_indices(201, 1)])
    assert sum(part.above for part in tallies) == 2 * (upper > 1.5).sum()
    found = np.sort(np.concatenate([part.values for part in tallies]))
    np.testing.assert_allclose(found, np.sort(upper[(upper >= 0.5) & (upper <= 1.5)]), rtol=1e-13)


@pytest.mark.parametrize("known", [False, True])
def test_the_order_of_rows_changes_nothing(known, rng, monkeypatch):
    n = 700
    P, X, weights = rng.standard_normal((n, 4)), rng.standard_normal((n, 6)), rng.integers(1, 4, size=n).astype(float)
    given = P, n * n / 5, X, weights, weights**2, graph_half(n, rng)
    plain = screened.cut_laplacian(*given)
    monkeypatch.setattr(screened, "SORTED_ROWS", 0)
    found = screened.cut_laplacian(*given, plain[0] if known else None)
    assert found[0] == pytest.approx(plain[0], rel=1e-13)
    for one, other in zip(found[1:], plain[1:], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12 * np.abs(other).max())


def test_of_many_rows_products_in_float32_move_the_result_by_less_than_a_millionth(rng, monkeypatch):
    P, X = rng.standard_normal((600, 4)), rng.standard_normal((600, 21)) * 1e30
    weights = rng.integers(1, 4, size=600).astype(float)
    expected, expected_degrees = dense_pruned(P, 2.0, X, weights)
    monkeypatch.setattr(screened, "MANY_ROWS", 1)
    gram, degrees = pruned_gram(P, 2.0, X, weights)
    assert 0 < np.abs(gram - expected).max() < 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(degrees, expected_degrees, atol=1e-6 * np.abs(expected_degrees).max())
