"""SIMD for numba: compiler flags, vector intrinsics, loops shared by several modules, and packing of rows.

Vectors keep sums in registers that a compiler would keep in memory. They are as long as a panel (32) or a word (64);
LLVM splits them into several machine registers. Arrays must be in C order; indices are tuples and must not be negative.

Rows are packed into tiles of panels, like the micro-panels of a GEMM, so that vector loads are contiguous. Packed
arrays are aligned to cache lines and padded with zeros, which change no sum.
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
from adaam.engines.blocks import for_each, row_blocks
from adaam.engines.compiled import PANEL, panel_count

Loop = TypeVar("Loop", bound=Callable[..., Any])

WORD = 64  # entries per word: their bitmask is one uint64
CACHE_LINE = 64  # bytes
UNROLLED = 4  # positions of a word that are written unconditionally: a mispredicted branch costs more
ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_INT = ir.IntType(32)


def source_digest() -> str:
    """Digest of all sources that end up in machine code: loops, and the constants that they import."""
    folder = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted([*folder.glob("*.py"), *folder.glob("neighbors/*.py"), *folder.glob("pruned/*.py")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


DIGEST = source_digest()


def compiled(loop: Loop) -> Loop:
    """Compile on first use; sums keep the order of the source, products and sums may be fused (FMA)."""
    return cast(Loop, _compiled(loop, {"contract"}))


def compiled_unfused(loop: Loop) -> Loop:
    """Compile on first use without FMA: every product and sum is rounded as in NumPy."""
    return cast(Loop, _compiled(loop, set()))


def compiled_reordered(loop: Loop) -> Loop:
    """Compile on first use, with sums reordered over SIMD lanes: faster, but the last bits depend on the processor."""
    return cast(Loop, _compiled(loop, {"contract", "reassoc"}))


def _compiled(loop: Any, fastmath: set[str]) -> Any:
    # numba's cache checks only the file of a function for changes, but its machine code contains functions of other
    # files. A name that depends on all sources gives each version of them its own cache files.
    loop.__qualname__ = f"{loop.__qualname__}_{DIGEST}"
    # All loops release the GIL, so that the threads of an engine run them in parallel.
    options = {"nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        return numba.njit(cache=True, **options)(loop)
    except RuntimeError:  # there is no writable cache folder
        return numba.njit(**options)(loop)


class Vector(types.Type):
    """SIMD vector of `length` numbers, a type for compiled code only."""

    def __init__(self, dtype: Any, length: int) -> None:
        self.dtype, self.length = dtype, length
        super().__init__(f"Vector({dtype}, {length})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, ir.VectorType(manager.lookup(vector.dtype).get_value_type(), vector.length))


@intrinsic(prefer_literal=True)
def zero_vector(_: Any, like: Any, length: Any) -> Any:
    """Vector of zeros with the dtype of the array `like`; `length` must be a literal."""
    vector = Vector(like.dtype, length.literal_value)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(context.get_value_type(vector), None)

    return vector(like, length), code


@intrinsic(prefer_literal=True)
def load(_: Any, array: Any, place: Any, length: Any) -> Any:
    """Load `length` numbers (a literal) of an array, from the index `place` on."""
    vector = Vector(array.dtype, length.literal_value)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args, arguments)
        wide = builder.bitcast(pointer, context.get_value_type(vector).as_pointer())
        return builder.load(wide, align=array.dtype.bitwidth // 8)

    return vector(array, place, length), code


@intrinsic
def store(_: Any, array: Any, place: Any, numbers: Any) -> Any:
    """Store a vector in an array, from the index `place` on."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args, arguments)
        wide = builder.bitcast(pointer, arguments[2].type.as_pointer())
        builder.store(arguments[2], wide, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, place, numbers), code


@intrinsic
def load_scalar(_: Any, array: Any, place: Any) -> Any:
    """Load one number of an array, without the test for negative indices that numba adds to plain indexing."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, signature.args, arguments))

    return array.dtype(array, place), code


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
    """LLVM intrinsic, declared once per module."""
    known = builder.module.globals.get(name)
    return ir.Function(builder.module, kind, name) if known is None else known


@intrinsic
def fma(_: Any, sums: Any, factor: Any, numbers: Any) -> Any:
    """Return sums + factor * numbers, rounded once if the machine has FMA."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        factors = _broadcast(builder, context.cast(builder, arguments[1], factor, numbers.dtype), numbers)
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
def mask_magnitude_ge(_: Any, numbers: Any, least: Any) -> Any:
    """Bitmask of the numbers of a word whose magnitude is at least `least`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bar = _broadcast(builder, context.cast(builder, arguments[1], least, numbers.dtype), numbers)
        kind = ir.FunctionType(bar.type, [bar.type])
        fabs = _declared(builder, kind, f"llvm.fabs.v{numbers.length}f{numbers.dtype.bitwidth}")
        return builder.bitcast(builder.fcmp_ordered(">=", builder.call(fabs, arguments[:1]), bar), ir.IntType(WORD))

    return types.uint64(numbers, least), code


@intrinsic
def mask_le_either(_: Any, numbers: Any, limit: Any, limits: Any) -> Any:
    """Bitmask of the numbers of a word that are at most `limit`, or at most their own entry of `limits`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bar = _broadcast(builder, context.cast(builder, arguments[1], limit, numbers.dtype), numbers)
        either = (builder.fcmp_ordered("<=", arguments[0], b) for b in (bar, arguments[2]))
        return builder.bitcast(builder.or_(*either), ir.IntType(WORD))

    return types.uint64(numbers, limit, limits), code


@intrinsic
def count_trailing_zeros(_: Any, word: Any) -> Any:
    """Position of the lowest set bit, or 64 if there is none: one machine instruction."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return types.int64(types.uint64), code


@intrinsic
def popcount(_: Any, word: Any) -> Any:
    """Number of set bits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), code


def _broadcast(builder: Any, number: Any, like: Vector) -> Any:
    """Vector with the same number in every lane."""
    first = builder.insert_element(ir.Constant(ir.VectorType(number.type, like.length), ir.Undefined), number, _INT(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT, like.length), [0] * like.length))


@compiled
def set_bit_positions(words: IntVector, start: int, stop: int, positions: IntVector) -> int:
    """Write the positions in [start, stop) whose bit is set, return their number; needs room for `UNROLLED` more."""
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
    """Add to `product` the product of a CSR matrix, all rows of even length, and a matrix packed in panels.

    `offsets` locate rows of the packed matrix in a panel. A CSR row is summed in the precision of the panels, and the
    sum is added in float64.
    """
    for panel in range(len(panels)):
        for i in range(len(starts) - 1):
            q, end = starts[i], starts[i + 1]
            if q == end:
                continue
            sums, others = zero_vector(panels, PANEL), zero_vector(panels, PANEL)
            while q < end:
                row, other = load_scalar(offsets, (q,)), load_scalar(offsets, (q + 1,))
                sums = fma(sums, load_scalar(coefficients, (q,)), load(panels, (panel, row), PANEL))
                others = fma(others, load_scalar(coefficients, (q + 1,)), load(panels, (panel, other), PANEL))
                q += 2
            out = (panel, i * PANEL)
            store(product, out, add(load(product, out, PANEL), add(sums, others)))


def aligned_zeros(shape: tuple[int, ...], dtype: type) -> FloatMatrix:
    """Zeros aligned to a cache line: loading a vector that spans two lines takes twice as long."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(n_bytes + CACHE_LINE, np.uint8)
    begin = -room.ctypes.data % CACHE_LINE
    return room[begin : begin + n_bytes].view(dtype).reshape(shape)


def pack_columns(rows: FloatMatrix) -> FloatMatrix:
    """Rows of a factor, transposed and in float32, of shape (words, columns of the factor, rows of a word)."""
    n, rank = rows.shape
    words = aligned_zeros((-(-n // WORD), rank, WORD), np.float32)
    for word, some in zip(words, row_blocks(n, WORD), strict=True):
        word[:, : some.stop - some.start] = rows[some].T
    return words


def pack_rows(X: FloatMatrix, width: int, length: float, dtype: type, order: IntVector | None = None) -> FloatMatrix:
    """Pack X[order] / length in tiles of `width` rows: shape (tiles, panels, rows x columns of a panel)."""
    n, d = X.shape
    panels = aligned_zeros((-(-n // width), panel_count(d), width, PANEL), dtype)

    def fill(tile: int) -> None:
        some = slice(tile * width, (tile + 1) * width)
        rows = X[some if order is None else order[some]] / length
        for panel, columns in zip(panels[tile, :, : len(rows)], row_blocks(d, PANEL), strict=True):
            panel[:, : columns.stop - columns.start] = rows[:, columns]

    for_each(fill, range(len(panels)))
    return panels.reshape(*panels.shape[:2], width * PANEL)


def unpack_rows(product: FloatMatrix, d: int) -> FloatMatrix:
    """Convert sums of shape (panels, rows x columns of a panel) to rows of `d` columns in float64."""
    rows = product.reshape(len(product), -1, PANEL).transpose(1, 0, 2)
    return np.asarray(rows.reshape(rows.shape[0], -1)[:, :d], np.float64)
