"""SIMD vectors against NumPy, and rows packed for them."""

import numpy as np
import pytest

from adaam.engines.compiled import PANEL, panel_count

numba = pytest.importorskip("numba")

from adaam.engines.simd import (  # noqa: E402
    WORD,
    add,
    aligned_zeros,
    compiled,
    count_trailing_zeros,
    fma,
    load,
    load_scalar,
    mask_le_either,
    mask_magnitude_ge,
    pack_columns,
    pack_rows,
    popcount,
    set_bit_positions,
    store,
    unpack_rows,
    zero_vector,
)


@compiled
def _sums(A, factor, B, out):
    store(out, (0, 3), add(load(out, (0, 3), 16), fma(load(A, (1, 2), 16), factor, load(B, (5,), 16))))
    store(out, (1, 0), zero_vector(out, 16))
    return load_scalar(A, (1, 4))


@compiled
def _bits(A, least, limits):
    numbers = load(A, (1,), WORD)
    return mask_magnitude_ge(numbers, least), mask_le_either(numbers, least, load(limits, (0,), WORD))


@compiled
def _counts(word):
    return count_trailing_zeros(word), popcount(word)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_lanes_are_those_of_numpy(dtype, rng):
    A, B = rng.standard_normal((3, 24)).astype(dtype), rng.standard_normal(40).astype(dtype)
    out = rng.standard_normal((2, 20))
    expected = out.copy()
    expected[0, 3:19] += A[1, 2:18] + 0.7 * B[5:21]
    expected[1, :16] = 0.0
    assert _sums(A, 0.7, B, out) == A[1, 4]
    np.testing.assert_allclose(out, expected, atol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_stand_for_numbers_that_reach_or_stay_within(dtype, rng):
    for least in (-1.0, 0.0, 0.5, 9.0):
        A, limits = rng.standard_normal(WORD + 1).astype(dtype), rng.standard_normal(WORD).astype(dtype)
        A[4], limits[7] = np.nan, A[8]  # NaN reaches no threshold; equality counts
        far, near = (np.array([int(word) >> place & 1 for place in range(64)]) for word in _bits(A, least, limits))
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(far, np.abs(A[1:]) >= least)
            np.testing.assert_array_equal(near, (A[1:] <= least) | (A[1:] <= limits))


def test_bits_of_a_word_are_found_and_counted():
    assert _counts(np.uint64(0)) == (64, 0)
    assert _counts(np.uint64(0b1011000)) == (3, 3)
    assert _counts(np.uint64(1 << 63)) == (63, 1)


@pytest.mark.parametrize(("n", "d", "width"), [(1, 1, 1), (50, 33, 20), (64, 32, 64), (7, 100, 64)])
def test_rows_come_back_from_panels(n, d, width, rng):
    X = rng.standard_normal((n, d))
    panels = pack_rows(X, width, 2.0, np.float32)
    assert panels.shape == (-(-n // width), panel_count(d), width * PANEL)
    rows = np.concatenate([unpack_rows(tile, d) for tile in panels])
    np.testing.assert_array_equal(rows[:n], (X / 2.0).astype(np.float32))
    assert not rows[n:].any()


def test_columns_of_a_factor_are_filled_up_to_whole_words(rng):
    P = rng.standard_normal((130, 3)).astype(np.float32)
    words = pack_columns(P)
    assert words.shape == (3, 3, WORD)
    np.testing.assert_array_equal(words.transpose(0, 2, 1).reshape(-1, 3)[:130], P)
    assert not words[2, :, 2:].any()


def test_zeros_begin_at_a_cache_line():
    assert {aligned_zeros((3, size), np.float32).ctypes.data % 64 for size in range(1, 40)} == {0}


@pytest.mark.parametrize("n", [1, 7, 8, 63, 64, 65, 200])
def test_marks_are_found_wherever_they_stand(n, rng):
    for share in (0.0, 0.05, 0.5, 1.0):
        for start in (0, n // 3, n - 1, n):
            marks = rng.random(n) < share
            room = np.ones(-(-n // 64) * 64, bool)  # bits beyond the entries must not count
            room[:n] = marks
            words = np.packbits(room, bitorder="little").view(np.uint64)
            places = np.empty(n + 4, np.int32)
            n_found = set_bit_positions(words, start, n, places)
            np.testing.assert_array_equal(places[:n_found], start + np.flatnonzero(marks[start:]))
