# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
"""Fused Triton kernels: tiles of PP' and of distances that live in registers and are never written to memory.

Entries of PP' come from the tensor cores with the precision of float32: P is split as hi + lo, two half-precision
numbers of 11 bits each, and hi.hi + hi.lo + lo.hi is one product of rows [hi, hi, lo] and [hi, lo, hi] summed in
float32. Every kernel computes an entry by the same instruction, so that counting and pruning see identical bits.

Rows are zero-padded to whole tiles. A zero product is never counted and adds nothing. Sizes that change from call to
call are excluded from specialisation, or a kernel would be compiled again in the middle of a fit.
"""

import triton
import triton.language as tl

# Shapes shared by all passes over PP'.
BM = 128
BN = 64


@triton.jit
def _entries(a, right, columns, K: tl.constexpr):
    """Products of the rows in `a` with a tile of columns."""
    k = tl.arange(0, K)
    b = tl.load(right + columns[None, :].to(tl.int64) * K + k[:, None])
    return tl.dot(a, b)


@triton.jit
def _left_rows(left, rows, K: tl.constexpr):
    k = tl.arange(0, K)
    return tl.load(left + rows[:, None].to(tl.int64) * K + k[None, :])


@triton.jit(do_not_specialize=["capacity", "n_tiles", "tiles_per_segment"])
def count_kernel(
    left, right, weights, low, high, bins_per_unit,
    above, inside, bins, values, shares, cursor, capacity, n_tiles, tiles_per_segment,
    N_BINS: tl.constexpr, WEIGHTED: tl.constexpr, COLLECT: tl.constexpr,
    K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Count magnitudes above `high` and in [low, high] in the upper triangle; a program has a row block and a segment.

    N_BINS > 0 also counts by bins; COLLECT also writes out the magnitudes inside.
    """
    block = tl.program_id(0)
    segment = tl.program_id(1)
    rows = block * BM + tl.arange(0, BM)
    a = _left_rows(left, rows, K)
    start = tl.maximum(block * (BM // BN), segment * tiles_per_segment)
    stop = tl.minimum(n_tiles, (segment + 1) * tiles_per_segment)
    if WEIGHTED:
        row_weights = tl.load(weights + rows)
        n_above = tl.zeros([BM, BN], tl.float64)
        n_inside = tl.zeros([BM, BN], tl.float64)
    else:
        n_above = tl.zeros([BM, BN], tl.int32)
        n_inside = tl.zeros([BM, BN], tl.int32)
    for tile in range(start, stop):
        columns = tile * BN + tl.arange(0, BN)
        magnitude = tl.abs(_entries(a, right, columns, K))
        # Entries on and below the diagonal are not counted.
        magnitude = tl.where(columns[None, :] > rows[:, None], magnitude, 0.0)
        is_above = magnitude > high
        is_inside = (magnitude >= low) & (magnitude <= high)
        if WEIGHTED:
            share = row_weights[:, None] * tl.load(weights + columns)[None, :]
            n_above += tl.where(is_above, share, 0.0)
            n_inside += tl.where(is_inside, share, 0.0)
        else:
            n_above += is_above.to(tl.int32)
            n_inside += is_inside.to(tl.int32)
        if N_BINS > 0:
            place = ((magnitude - low) * bins_per_unit).to(tl.int32)
            place = tl.minimum(tl.maximum(place, 0), N_BINS - 1)
            if WEIGHTED:
                tl.atomic_add(bins + place, share, mask=is_inside, sem="relaxed")
            else:
                tl.atomic_add(bins + place, is_inside.to(tl.int64), mask=is_inside, sem="relaxed")
        if COLLECT:
            found = tl.sum(tl.sum(is_inside.to(tl.int32), axis=1), axis=0)
            if found > 0:
                slot = tl.atomic_add(
                    cursor + tl.zeros([BM, BN], tl.int32), is_inside.to(tl.int32), mask=is_inside, sem="relaxed"
                )
                fits = is_inside & (slot < capacity)
                tl.store(values + slot, magnitude, mask=fits)
                if WEIGHTED:
                    tl.store(shares + slot, share, mask=fits)
    out = segment * tl.num_programs(0) + block
    tl.store(above + out, tl.sum(tl.sum(n_above, axis=1), axis=0))
    tl.store(inside + out, tl.sum(tl.sum(n_inside, axis=1), axis=0))


@triton.jit(do_not_specialize=["first_block", "n_tiles", "tiles_per_segment"])
def accumulate_kernel(
    left, right, X, out, threshold, shrink, first_block, n_tiles, tiles_per_segment, stride,
    K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, DC: tl.constexpr,
):  # fmt: skip
    """S X over the upper triangle; each program has a row block, a chunk of DC features and a column segment.

    Tiles of S are computed, pruned and multiplied without leaving the registers, as in attention kernels.
    """
    block = first_block + tl.program_id(0)
    chunk = tl.program_id(1)
    segment = tl.program_id(2)
    rows = block * BM + tl.arange(0, BM)
    features = chunk * DC + tl.arange(0, DC)
    a = _left_rows(left, rows, K)
    diagonal = block * (BM // BN)
    start = tl.maximum(diagonal, segment * tiles_per_segment)
    stop = tl.minimum(n_tiles, (segment + 1) * tiles_per_segment)
    product = tl.zeros([BM, DC], tl.float32)
    for tile in range(start, stop):
        columns = tile * BN + tl.arange(0, BN)
        entry = _entries(a, right, columns, K)
        kept = (tl.abs(entry) >= threshold) & (columns[None, :] > rows[:, None])
        entry = tl.where(kept, entry * shrink, 0.0).to(tl.float16)
        x = tl.load(X + columns[:, None].to(tl.int64) * stride + features[None, :])
        product = tl.dot(entry, x, product)
    n_rows = tl.num_programs(0) * BM
    local = segment * n_rows + tl.program_id(0) * BM + tl.arange(0, BM)
    tl.store(out + local[:, None].to(tl.int64) * stride + features[None, :], product)


@triton.jit(do_not_specialize=["n_tiles"])
def row_sum_kernel(
    left, right, weights, sums, kept_counts, threshold, n_tiles,
    WEIGHTED: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Row sums of the kept entries in the upper triangle, and the number kept in each row block."""
    block = tl.program_id(0)
    rows = block * BM + tl.arange(0, BM)
    a = _left_rows(left, rows, K)
    total = tl.zeros([BM, BN], tl.float32)
    n_kept = tl.zeros([BM, BN], tl.int32)
    for tile in range(block * (BM // BN), n_tiles):
        columns = tile * BN + tl.arange(0, BN)
        entry = _entries(a, right, columns, K)
        kept = (tl.abs(entry) >= threshold) & (columns[None, :] > rows[:, None])
        if WEIGHTED:
            entry = entry * tl.load(weights + columns)[None, :].to(tl.float32)
        total += tl.where(kept, entry, 0.0)
        n_kept += kept.to(tl.int32)
    tl.store(sums + rows, tl.sum(total, axis=1))
    tl.store(kept_counts + block, tl.sum(tl.sum(n_kept, axis=1), axis=0))


@triton.jit(do_not_specialize=["n_tiles"])
def column_sum_kernel(
    left, right, weights, sums, threshold, n_tiles,
    WEIGHTED: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Column sums of the kept entries in the upper triangle, from the same tiles as the row sums."""
    # Long columns first: the last programs to start are the shortest.
    tile = n_tiles - 1 - tl.program_id(0)
    columns = tile * BN + tl.arange(0, BN)
    k = tl.arange(0, K)
    b = tl.load(right + columns[None, :].to(tl.int64) * K + k[:, None])
    total = tl.zeros([BM, BN], tl.float32)
    for block in range(0, (tile * BN) // BM + 1):
        rows = block * BM + tl.arange(0, BM)
        entry = tl.dot(_left_rows(left, rows, K), b)
        kept = (tl.abs(entry) >= threshold) & (columns[None, :] > rows[:, None])
        if WEIGHTED:
            entry = entry * tl.load(weights + rows)[:, None].to(tl.float32)
        total += tl.where(kept, entry, 0.0)
    tl.store(sums + columns, tl.sum(total, axis=0))


@triton.jit
def _inner_products(X, Y, rows, columns, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Inner products of a tile of half-precision rows of X and Y, summed in float32."""
    k = tl.arange(0, BK)
    x_at = X + rows[:, None].to(tl.int64) * D + k[None, :]
    y_at = Y + columns[None, :].to(tl.int64) * D + k[:, None]
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, D, BK):
        total = tl.dot(tl.load(x_at + start), tl.load(y_at + start), total)
    return total


@triton.jit(do_not_specialize=["n_tiles", "tiles_per_program"])
def nearest_in_groups_kernel(
    X, Y, squares, minima, n_tiles, tiles_per_program,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Minimum of |y|² - 2 x.y over each tile of rows y, for each row x of a block."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    start = tl.program_id(1) * tiles_per_program
    for tile in range(start, tl.minimum(start + tiles_per_program, n_tiles)):
        columns = tile * BN + tl.arange(0, BN)
        near = tl.load(squares + columns)[None, :] - 2.0 * _inner_products(X, Y, rows, columns, D, BM, BN, BK)
        tl.store(minima + rows.to(tl.int64) * n_tiles + tile, tl.min(near, axis=1))


@triton.jit(do_not_specialize=["first_row", "n_tiles", "tiles_per_program"])
def collect_near_kernel(
    X, squares, bounds, counts, ids, values, first_row, n_tiles, tiles_per_program,
    CAPACITY: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Write out all y != x with |y|² - 2 x.y <= bounds[x], for the rows x of a block and a range of column tiles."""
    local = tl.program_id(0) * BM + tl.arange(0, BM)
    rows = first_row + local
    bound = tl.load(bounds + local)
    start = tl.program_id(1) * tiles_per_program
    for tile in range(start, tl.minimum(start + tiles_per_program, n_tiles)):
        columns = tile * BN + tl.arange(0, BN)
        near = tl.load(squares + columns)[None, :] - 2.0 * _inner_products(X, X, rows, columns, D, BM, BN, BK)
        hit = (near <= bound[:, None]) & (columns[None, :] != rows[:, None])
        n_hits = tl.sum(tl.sum(hit.to(tl.int32), axis=1), axis=0)
        if n_hits > 0:
            at_row = local[:, None] + tl.zeros([BM, BN], tl.int32)
            slot = tl.atomic_add(counts + at_row, hit.to(tl.int32), mask=hit, sem="relaxed")
            fits = hit & (slot < CAPACITY)
            place = at_row.to(tl.int64) * CAPACITY + slot
            tl.store(ids + place, columns[None, :] + tl.zeros([BM, BN], tl.int32), mask=fits)
            tl.store(values + place, near, mask=fits)
