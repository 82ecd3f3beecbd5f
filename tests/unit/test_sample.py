import numpy as np
from scipy.sparse import csr_array

from adaam.sample import distinct_rows


def test_equal_rows_are_merged_and_counted():
    X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.0, 2.0]])
    indices, weights = distinct_rows(X, np.ones(4))
    np.testing.assert_array_equal(indices, [0, 1])
    np.testing.assert_array_equal(weights, [3.0, 1.0])


def test_negative_zero_equals_zero():
    indices, _ = distinct_rows(np.array([[0.0, 1.0], [-0.0, 1.0]]), np.ones(2))
    assert len(indices) == 1


def test_rows_of_weight_zero_add_nothing_and_are_left_out():
    X = np.array([[1.0], [1.0], [2.0]])
    indices, weights = distinct_rows(X, np.array([0.0, 2.0, 0.0]))
    np.testing.assert_array_equal(X[indices], [[1.0]])
    np.testing.assert_array_equal(weights, [2.0])


def test_sparse_rows_merge_like_dense_ones(rng):
    X = rng.integers(0, 2, size=(60, 4)).astype(float)
    dense = distinct_rows(X, np.ones(60))
    sparse = distinct_rows(csr_array(X), np.ones(60))
    np.testing.assert_array_equal(dense[0], sparse[0])
    np.testing.assert_array_equal(dense[1], sparse[1])


def test_explicit_zeros_do_not_tell_sparse_rows_apart():
    X = csr_array((np.array([1.0, 0.0, 1.0]), np.array([0, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert len(distinct_rows(X, np.ones(2))[0]) == 1


def test_columns_of_a_strided_view_are_read_right(rng):
    wide = rng.integers(0, 2, size=(30, 8)).astype(float)
    np.testing.assert_array_equal(
        distinct_rows(wide[:, ::2], np.ones(30))[0], distinct_rows(wide[:, ::2].copy(), np.ones(30))[0]
    )
