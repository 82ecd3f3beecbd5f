import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from adaam.engines.cpu import CPUEngine


def dense_pruned(P, threshold, X, weights):
    S = P @ P.T
    np.fill_diagonal(S, 0.0)
    S = np.where(np.abs(S) >= threshold, S, 0.0)
    W = np.diag(weights)
    return X.T @ W @ S @ W @ X, W @ S @ weights


@pytest.mark.parametrize("tile_rows", [64, 128, 1024])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 2.5, 100.0])
def test_pruned_gram_equals_the_dense_one(tile_rows, threshold, rng):
    P, X = rng.standard_normal((201, 3)), rng.standard_normal((201, 5))
    weights = rng.integers(1, 4, size=201).astype(float)
    engine = CPUEngine(tile_bytes=tile_rows**2 * 32)
    for w in (weights, np.ones(201)):
        gram, degrees = engine.pruned_gram(P, threshold, X, w)
        expected, expected_degrees = dense_pruned(P, threshold, X, w)
        np.testing.assert_allclose(gram, expected, atol=1e-9)
        np.testing.assert_allclose(degrees, expected_degrees, atol=1e-9)


def test_results_have_the_same_bits_on_one_thread_and_on_two(rng):
    P, X = rng.standard_normal((500, 3)), rng.standard_normal((500, 40))
    engine = CPUEngine(tile_bytes=64**2 * 32)
    with threadpool_limits(1):
        one = engine.pruned_gram(P, 1.0, X, np.ones(500)), engine.cut(P, 9000, np.ones(500), np.ones(500))
    with threadpool_limits(2):
        two = engine.pruned_gram(P, 1.0, X, np.ones(500)), engine.cut(P, 9000, np.ones(500), np.ones(500))
    np.testing.assert_array_equal(one[0][0], two[0][0])
    np.testing.assert_array_equal(one[0][1], two[0][1])
    assert one[1] == two[1]


def test_float32_stays_float32_and_close(rng):
    P, X = rng.standard_normal((300, 4)), rng.standard_normal((300, 6))
    gram, degrees = CPUEngine().pruned_gram(P.astype(np.float32), 1.5, X.astype(np.float32), np.ones(300))
    expected, expected_degrees = dense_pruned(P, 1.5, X, np.ones(300))
    # Entries within rounding of the threshold may fall either way, so the bound is on the whole.
    assert np.abs(gram - expected).max() < 1e-2 * np.abs(expected).max()
    assert np.abs(degrees - expected_degrees).max() < 1e-2 * np.abs(expected_degrees).max()
