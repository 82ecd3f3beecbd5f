import numpy as np
from scipy.sparse import csr_array

from adaam.engines import CPUEngine
from adaam.prepare import Sample

ENGINE = CPUEngine()


def test_equal_rows_are_merged_and_counted():
    X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.0, 2.0]])
    rows, weights = ENGINE.distinct(X, 1.0)
    np.testing.assert_array_equal(rows, X[:2])
    np.testing.assert_array_equal(weights, [3.0, 1.0])


def test_negative_zero_equals_zero():
    rows, _ = ENGINE.distinct(np.array([[0.0, 1.0], [-0.0, 1.0]]), 1.0)
    assert len(rows) == 1


def test_rows_of_weight_zero_add_nothing_and_are_left_out():
    X = np.array([[1.0], [1.0], [2.0]])
    rows, weights = ENGINE.distinct(X, np.array([0.0, 2.0, 0.0]))
    np.testing.assert_array_equal(rows, [[1.0]])
    np.testing.assert_array_equal(weights, [2.0])


def test_sparse_rows_merge_like_dense_ones(rng):
    X = rng.integers(0, 2, size=(60, 4)).astype(float)
    dense = ENGINE.distinct(X, 1.0)
    sparse = ENGINE.distinct(csr_array(X), 1.0)
    np.testing.assert_array_equal(dense[0], sparse[0].toarray())
    np.testing.assert_array_equal(dense[1], sparse[1])


def test_explicit_zeros_do_not_tell_sparse_rows_apart():
    X = csr_array((np.array([1.0, 0.0, 1.0]), np.array([0, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert ENGINE.distinct(X, 1.0)[0].shape[0] == 1


def test_columns_of_a_strided_view_are_read_right(rng):
    wide = rng.integers(0, 2, size=(30, 8)).astype(float)
    np.testing.assert_array_equal(ENGINE.distinct(wide[:, ::2], 1.0)[0], ENGINE.distinct(wide[:, ::2].copy(), 1.0)[0])


def test_weights_of_a_sample_are_a_vector_also_where_all_are_one(rng):
    sample = Sample(rng.standard_normal((5, 2)), 1.0, ENGINE)
    np.testing.assert_array_equal(sample.weights, np.ones(5))
    assert sample.size == 5.0
