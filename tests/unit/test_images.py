"""Resized images against an oracle that counts pixels, and detection of row-major or column-major order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaam.bench.openml import area_weights, resized, upright

SIDES = st.integers(1, 9)


def resized_by_counting(image, new_shape):
    """Split every pixel into as many as the new image has, so that all edges coincide; then average."""
    fine = image.repeat(new_shape[0], axis=0).repeat(new_shape[1], axis=1).astype(float)
    return fine.reshape(new_shape[0], image.shape[0], new_shape[1], image.shape[1]).mean(axis=(1, 3))


@given(shape=st.tuples(SIDES, SIDES), new_shape=st.tuples(SIDES, SIDES), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_each_new_pixel_is_the_average_of_what_it_covers(shape, new_shape, seed):
    images = np.random.default_rng(seed).random((2, *shape))
    rows = resized(images.reshape(2, -1), shape, new_shape)
    expected = [resized_by_counting(image, new_shape).ravel() for image in images]
    np.testing.assert_allclose(rows, expected, rtol=1e-12, atol=1e-12)


@given(n_from=st.integers(1, 120), n_to=st.integers(1, 120))
@settings(deadline=None, max_examples=60)
def test_weights_are_shares(n_from, n_to):
    weights = area_weights(n_from, n_to)
    assert weights.shape == (n_to, n_from)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=0), n_to / n_from, rtol=1e-12)


def test_umist_s_sizes_agree_with_the_oracle(rng):
    image = rng.integers(0, 256, (112, 92), dtype=np.uint8)
    rows = resized(image.reshape(1, -1), (112, 92), (40, 40))
    assert rows.dtype == np.uint8
    np.testing.assert_allclose(rows.reshape(40, 40), resized_by_counting(image, (40, 40)), atol=0.5 + 1e-9)


def test_even_images_stay_even_and_whole_levels_whole():
    rows = resized(np.full((3, 12), 255, np.uint8), (3, 4), (7, 5))
    np.testing.assert_array_equal(rows, np.full((3, 35), 255, np.uint8))


def faces(rng, n=5):
    """Smooth images of UMIST's shape."""
    coarse = rng.random((n, 9 * 7)) * 255
    return resized(coarse, (9, 7), (112, 92)).astype(np.uint8)


def by_columns(X, shape):
    return X.reshape(len(X), *shape).transpose(0, 2, 1).reshape(X.shape)


def test_images_come_out_by_rows_however_they_were_written(rng):
    X = faces(rng)
    np.testing.assert_array_equal(upright(X, (112, 92)), X)
    np.testing.assert_array_equal(upright(by_columns(X, (112, 92)), (112, 92)), X)


@pytest.mark.paper
def test_the_direction_of_real_faces_is_found(paper_data):
    rows, _, _ = paper_data("umist", 100)
    X = resized(rows, (40, 40), (112, 92)).astype(np.uint8)
    for start in range(100):
        one = X[start : start + 1]
        np.testing.assert_array_equal(upright(one, (112, 92)), one)
        np.testing.assert_array_equal(upright(by_columns(one, (112, 92)), (112, 92)), one)
