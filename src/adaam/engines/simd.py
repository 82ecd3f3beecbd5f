"""SIMD for compiled loops: compiler settings, vectors of sixteen numbers, loops that kernels share, packed rows.

Vectors stay in registers where a compiler would keep sums in memory. The machine's own vectors may be shorter; its code
then takes several of them. Arrays are in C order, and indices, given as tuples, never count from the end.

Rows are packed in tiles of micro-panels, columns side by side as vector loads read them. Everything begins at a cache
line and is filled up with zeros, which change no sum.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines.blocks import ordered_map, row_blocks
from adaam.engines.compiled import PANEL, panel_count

Loop = TypeVar("Loop", bound=Callable[..., Any])

N_LANES = 16
WORD = 64  # entries whose marks are the bits of one word
CACHE_LINE = 64
BLOCK_ENTRIES = 1 << 18  # numbers moved at a time
UNROLLED = 4  # positions written without asking how many there are: a branch predicted wrongly costs more
ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_INT = ir.IntType(32)


def source_digest() -> str:
    """Digest of all sources that end up in machine code: loops, and the constants they take from their neighbours."""
    folder = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted([*folder.glob("*.py"), *folder.glob("neighbors/*.py"), *folder.glob("pruned/*.py")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


DIGEST = source_digest()


def compiled(loop: Loop) -> Loop:
    """Compile on first use; sums run in the order that is written, products and sums may be fused."""
    return cast(Loop, _compiled(loop, {"contract"}))


def compiled_unfused(loop: Loop) -> Loop:
    """Compile on first use, every product and sum rounded as NumPy rounds it."""
    return cast(Loop, _compiled(loop, set()))


def compiled_reordered(loop: Loop) -> Loop:
    """Compile on first use, sums split over SIMD lanes: faster, their last bits those of the processor at hand."""
    return cast(Loop, _compiled(loop, {"contract", "reassoc"}))


def _compiled(loop: Any, fastmath: set[str]) -> Any:
    # numba looks at the file of a function alone to tell whether its machine code is stale, while that holds code of
    # functions in other files. A name that depends on all sources gives each state of them files of its own.
    loop.__qualname__ = f"{loop.__qualname__}_{DIGEST}"
    # All loops release the interpreter's lock, so that each thread of an engine runs its own.
    options = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        return numba.njit(cache=True, **options)(loop)
    except RuntimeError:  # there is no folder to keep the result in
        return numba.njit(**options)(loop)


class Vector(types.Type):
    """Type of sixteen numbers, known to the compiler alone."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Vector({dtype})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, ir.VectorType(manager.lookup(vector.dtype).get_value_type(), N_LANES))


@intrinsic
def zero_vector(_: Any, like: Any) -> Any:
    """Sixteen zeros, of the type of an array's numbers."""
    vector = Vector(like.dtype)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(context.get_value_type(vector), None)

    return vector(like), code


@intrinsic
def load(_: Any, array: Any, place: Any) -> Any:
    """Sixteen numbers of an array, from a place on."""
    vector = Vector(array.dtype)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args, arguments)
        wide = builder.bitcast(pointer, context.get_value_type(vector).as_pointer())
        return builder.load(wide, align=array.dtype.bitwidth // 8)

    return vector(array, place), code


@intrinsic
def store(_: Any, array: Any, place: Any, numbers: Any) -> Any:
    """Write sixteen numbers to an array, from a place on."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args, arguments)
        wide = builder.bitcast(pointer, arguments[2].type.as_pointer())
        builder.store(arguments[2], wide, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, place, numbers), code


@intrinsic
def load_scalar(_: Any, array: Any, place: Any) -> Any:
    """One number of an array; an index would be looked at first for whether it counts from the end."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, signature.args, arguments))

    return array.dtype(array, place), code


@intrinsic
def prefetch(_: Any, array: Any, place: Any) -> Any:
    """Prefetch the cache line at a place, for use soon."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args, arguments)
        byte = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [byte.type, _INT, _INT, _INT])
        builder.call(_declared(builder, kind, "llvm.prefetch.p0"), [byte, _INT(0), _INT(3), _INT(1)])
        return context.get_dummy_value()

    return types.void(array, place), code


def _pointer(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
    """Address of an element of an array in C order."""
    array = context.make_array(kinds[0])(context, builder, arguments[0])
    n_axes = kinds[0].ndim
    place: Any = None
    for axis in range(n_axes):
        index = context.cast(builder, builder.extract_value(arguments[1], axis), kinds[1][axis], types.intp)
        step = ir.Constant(index.type, 1)
        for later in range(axis + 1, n_axes):
            step = builder.mul(step, builder.extract_value(array.shape, later))
        offset = builder.mul(index, step)
        place = offset if place is None else builder.add(place, offset)
    return builder.gep(array.data, [place])


def _declared(builder: Any, kind: Any, name: str) -> Any:
    """Function of the compiler's own, declared once in a module."""
    known = builder.module.globals.get(name)
    return ir.Function(builder.module, kind, name) if known is None else known


@intrinsic
def fma(_: Any, sums: Any, factor: Any, numbers: Any) -> Any:
    """Return sums + factor * numbers, rounded once where the machine can."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        factors = _broadcast(builder, context.cast(builder, arguments[1], factor, numbers.dtype))
        product = builder.fmul(factors, arguments[2], flags=["contract"])
        return builder.fadd(arguments[0], product, flags=["contract"])

    return sums(sums, factor, numbers), code


@intrinsic
def add(_: Any, left: Any, right: Any) -> Any:
    """Sum of two vectors, in the precision of the first."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = arguments[1] if left == right else builder.fpext(arguments[1], arguments[0].type)
        return builder.fadd(arguments[0], wide)

    return left(left, right), code


@intrinsic
def add_squared_difference(_: Any, sums: Any, left: Any, right: Any) -> Any:
    """Return sums + (left - right)², rounded after the difference and at the end where the machine can."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        difference = builder.fsub(arguments[1], arguments[2])
        return builder.fadd(arguments[0], builder.fmul(difference, difference, flags=["contract"]), flags=["contract"])

    return sums(sums, left, right), code


@intrinsic
def reduce_add(_: Any, numbers: Any) -> Any:
    """Sum of the sixteen, the two halves added to each other until one number is left."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        part = arguments[0]
        for half in (8, 4, 2, 1):
            low, high = (
                builder.shuffle_vector(part, part, ir.Constant(ir.VectorType(_INT, half), list(range(a, a + half))))
                for a in (0, half)
            )
            part = builder.fadd(low, high)
        return builder.extract_element(part, _INT(0))

    return numbers.dtype(numbers), code


@intrinsic
def mask_magnitude_ge(_: Any, numbers: Any, least: Any) -> Any:
    """Bits of the numbers whose magnitude is at least `least`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bar = _broadcast(builder, context.cast(builder, arguments[1], least, numbers.dtype))
        kind = ir.FunctionType(bar.type, [bar.type])
        fabs = _declared(builder, kind, f"llvm.fabs.v{N_LANES}f{numbers.dtype.bitwidth}")
        return _bitmask(builder, builder.fcmp_ordered(">=", builder.call(fabs, arguments[:1]), bar))

    return types.uint64(numbers, least), code


@intrinsic
def mask_nonzero(_: Any, numbers: Any) -> Any:
    """Bits of the numbers that are not zero; NaN counts among them."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zeros = ir.Constant(arguments[0].type, None)
        return _bitmask(builder, builder.fcmp_unordered("!=", arguments[0], zeros))

    return types.uint64(numbers), code


@intrinsic
def mask_le_either(_: Any, numbers: Any, limit: Any, limits: Any) -> Any:
    """Bits of the numbers that are at most `limit`, or at most their own one of `limits`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bar = _broadcast(builder, context.cast(builder, arguments[1], limit, numbers.dtype))
        either = (builder.fcmp_ordered("<=", arguments[0], b) for b in (bar, arguments[2]))
        return _bitmask(builder, builder.or_(*either))

    return types.uint64(numbers, limit, limits), code


@intrinsic
def count_trailing_zeros(_: Any, word: Any) -> Any:
    """Place of the lowest bit that is set, or 64: one instruction of the processor."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return types.int64(types.uint64), code


@intrinsic
def popcount(_: Any, word: Any) -> Any:
    """Count the bits that are set."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), code


def _broadcast(builder: Any, number: Any) -> Any:
    """Sixteen times the same number."""
    vector = ir.VectorType(number.type, N_LANES)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), number, _INT(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT, N_LANES), [0] * N_LANES))


def _bitmask(builder: Any, truths: Any) -> Any:
    return builder.zext(builder.bitcast(truths, ir.IntType(N_LANES)), ir.IntType(64))


@compiled
def set_bit_positions(words: IntVector, start: int, stop: int, positions: IntVector) -> int:
    """Write the positions from `start` to `stop` whose bit is set; there must be room for `UNROLLED` more."""
    n_found = 0
    for w in range(start // WORD, (stop + WORD - 1) // WORD):
        bits = words[w]
        if start > w * WORD:
            bits &= ONES << np.uint64(start - w * WORD)
        if stop < (w + 1) * WORD:
            bits &= ONES >> np.uint64((w + 1) * WORD - stop)
        n_more = n_found + popcount(bits)
        for q in range(UNROLLED):
            positions[n_found + q] = w * WORD + count_trailing_zeros(bits)
            bits &= bits - np.uint64(1)
        n_found += UNROLLED
        while bits:
            positions[n_found] = w * WORD + count_trailing_zeros(bits)
            n_found += 1
            bits &= bits - np.uint64(1)
        n_found = n_more
    return n_found


@compiled
def accumulate_rows(
    starts: IntVector, offsets: IntVector, coefficients: FloatVector, panels: FloatMatrix, product: FloatMatrix
) -> None:
    """Add coefficient * row of X to each row of the product, for those in its list; lists have even lengths.

    What a list adds to a row is summed in the precision of the panels, and added in float64.
    """
    for panel in range(len(panels)):
        _accumulate_panel(starts, offsets, coefficients, panels, panel, len(starts) - 1, product, panel, 0)


@compiled
def accumulate_triangle(
    starts: IntVector, offsets: IntVector, coefficients: FloatVector, panels: FloatMatrix, product: FloatMatrix
) -> None:
    """Add as `accumulate_rows`, where the product is symmetric: of each panel only rows up to its own last column.

    The product has one row, in which these parts of panels follow each other.
    """
    for panel in range(len(panels)):
        n_rows = min((panel + 1) * PANEL, len(starts) - 1)
        place = triangle_offset(panel)
        _accumulate_panel(starts, offsets, coefficients, panels, panel, n_rows, product, 0, place)


@compiled
def triangle_offset(panel: int) -> int:
    """Where a panel's part of a triangle begins."""
    return panel * (panel + 1) // 2 * PANEL * PANEL


@compiled
def _accumulate_panel(
    starts: IntVector,
    offsets: IntVector,
    coefficients: FloatVector,
    panels: FloatMatrix,
    panel: int,
    n_rows: int,
    product: FloatMatrix,
    row: int,
    place: int,
) -> None:
    """Add one panel's part to some rows of the product, which begin at a place of it."""
    for i in range(n_rows):
        q, end = starts[i], starts[i + 1]
        if q == end:
            continue
        a0, a1, b0, b1 = zero_vector(panels), zero_vector(panels), zero_vector(panels), zero_vector(panels)
        while q < end:
            a, j = load_scalar(coefficients, (q,)), load_scalar(offsets, (q,))
            a0 = fma(a0, a, load(panels, (panel, j)))
            a1 = fma(a1, a, load(panels, (panel, j + N_LANES)))
            b, h = load_scalar(coefficients, (q + 1,)), load_scalar(offsets, (q + 1,))
            b0 = fma(b0, b, load(panels, (panel, h)))
            b1 = fma(b1, b, load(panels, (panel, h + N_LANES)))
            q += 2
        out = place + i * PANEL
        store(product, (row, out), add(load(product, (row, out)), add(a0, b0)))
        store(product, (row, out + N_LANES), add(load(product, (row, out + N_LANES)), add(a1, b1)))


def aligned_zeros(shape: tuple[int, ...], dtype: type) -> FloatMatrix:
    """Zeros that begin at a cache line: a vector of numbers that lies on two takes twice as long to read."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(n_bytes + CACHE_LINE, np.uint8)
    begin = -room.ctypes.data % CACHE_LINE
    return room[begin : begin + n_bytes].view(dtype).reshape(shape)


def pack_columns(narrow: FloatMatrix, width: int) -> FloatMatrix:
    """Rows of a factor as columns, (tiles, rank, columns): `width` of them to a tile, in room for whole words."""
    n, rank = narrow.shape
    tiles = aligned_zeros((-(-n // width), rank, -(-width // WORD) * WORD), np.float32)
    for tile, rows in zip(tiles, row_blocks(n, width), strict=True):
        tile[:, : rows.stop - rows.start] = narrow[rows].T
    return tiles


def pack_rows(X: FloatMatrix, width: int, length: float, dtype: type) -> FloatMatrix:
    """Rows of X over a length, (tiles, panels, rows x columns of a panel): `width` rows to a tile."""
    n, d = X.shape
    panels = aligned_zeros((-(-n // width), panel_count(d), width, PANEL), dtype)

    def fill(tile: int) -> None:
        rows = X[tile * width : (tile + 1) * width]
        _lay_out(rows / length, panels[tile, :, : len(rows)])

    for _ in ordered_map(fill, range(len(panels))):
        pass
    return panels.reshape(*panels.shape[:2], -1)


def pack_groups(
    X: FloatMatrix, order: IntVector, factor: FloatMatrix, width: int, group: int, length: float
) -> FloatMatrix:
    """Rows of X as `pack_rows` has them, in an order and float32; behind those of a tile P'X of each of its groups.

    The factor P is in this order already.
    """
    n, d = X.shape
    n_panels, rank = panel_count(d), factor.shape[1]
    panels = aligned_zeros((-(-n // width), n_panels, width + -(-width // group) * rank, PANEL), np.float32)

    def fill(rows: slice) -> None:
        block = X[order[rows]] / length
        tile, start = divmod(rows.start, width)
        behind = width + start // group * rank
        _lay_out(block, panels[tile, :, start : start + len(block)])
        _lay_out(factor[rows].T @ block, panels[tile, :, behind : behind + rank])

    groups = [
        slice(tile.start + g.start, tile.start + g.stop)
        for tile in row_blocks(n, width)
        for g in row_blocks(tile.stop - tile.start, group)
    ]
    for _ in ordered_map(fill, groups):
        pass
    return panels.reshape(len(panels), n_panels, -1)


def _lay_out(rows: FloatMatrix, panels: FloatMatrix) -> None:
    """Write rows to panels, (panels, rows, columns of a panel)."""
    whole = rows.shape[1] // PANEL
    panels[:whole] = rows[:, : whole * PANEL].reshape(len(rows), whole, PANEL).transpose(1, 0, 2)
    if whole < len(panels):
        panels[whole, :, : rows.shape[1] - whole * PANEL] = rows[:, whole * PANEL :]


def unpack_rows(product: FloatMatrix, d: int) -> FloatMatrix:
    """Sums laid out as (panels, rows x columns of a panel), row by row and in float64."""
    rows = product.reshape(len(product), -1, PANEL).transpose(1, 0, 2)
    return np.asarray(rows.reshape(rows.shape[0], -1)[:, :d], np.float64)


def largest_magnitude(X: FloatMatrix) -> float:
    """Return the largest magnitude, or 1 where all are zero."""
    blocks = row_blocks(len(X), max(16, BLOCK_ENTRIES // max(1, X.shape[1])))
    return float(max(ordered_map(lambda rows: max(X[rows].max(), -X[rows].min()), blocks), default=0.0)) or 1.0
