"""Sixteen numbers in registers, for compiled loops: sums that a compiler would keep in memory stay at hand.

The machine's own vectors may be shorter; its code then takes several of them. Arrays are in C order, and their places,
tuples of indices, never count from the end.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

N_LANES = 16
_INT = ir.IntType(32)


class Lanes(types.Type):
    """Type of sixteen numbers, known to the compiler alone."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(f"Lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, ir.VectorType(manager.lookup(lanes.dtype).get_value_type(), N_LANES))


@intrinsic
def nothing(_: Any, like: Any) -> Any:
    """Sixteen zeros, of the type of an array's numbers."""
    lanes = Lanes(like.dtype)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(context.get_value_type(lanes), None)

    return lanes(like), code


@intrinsic
def load(_: Any, array: Any, place: Any) -> Any:
    """Sixteen numbers of an array, from a place on."""
    lanes = Lanes(array.dtype)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args, arguments)
        wide = builder.bitcast(pointer, context.get_value_type(lanes).as_pointer())
        return builder.load(wide, align=array.dtype.bitwidth // 8)

    return lanes(array, place), code


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
def number(_: Any, array: Any, place: Any) -> Any:
    """One number of an array; an index would be looked at first for whether it counts from the end."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_pointer(context, builder, signature.args, arguments))

    return array.dtype(array, place), code


@intrinsic
def fetch(_: Any, array: Any, place: Any) -> Any:
    """Have the processor bring the numbers at a place near, for use soon; it need not wait for them."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args, arguments)
        byte = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [byte.type, _INT, _INT, _INT])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(prefetch, [byte, _INT(0), _INT(3), _INT(1)])
        return context.get_dummy_value()

    return types.void(array, place), code


def _pointer(context: Any, builder: Any, kinds: Any, arguments: Any) -> Any:
    array = context.make_array(kinds[0])(context, builder, arguments[0])
    indices = [
        context.cast(builder, index, kind, types.intp)
        for index, kind in zip(cgutils.unpack_tuple(builder, arguments[1]), kinds[1], strict=True)
    ]
    return cgutils.get_item_pointer(context, builder, kinds[0], array, indices, wraparound=False)


@intrinsic
def add_product(_: Any, sums: Any, factor: Any, numbers: Any) -> Any:
    """Return sums + factor * numbers, rounded once where the machine can."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        factors = _spread(builder, context.cast(builder, arguments[1], factor, numbers.dtype))
        product = builder.fmul(factors, arguments[2], flags=["contract"])
        return builder.fadd(arguments[0], product, flags=["contract"])

    return sums(sums, factor, numbers), code


@intrinsic
def add(_: Any, left: Any, right: Any) -> Any:
    """Sum of two times sixteen numbers, in the precision of the first."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = arguments[1] if left == right else builder.fpext(arguments[1], arguments[0].type)
        return builder.fadd(arguments[0], wide)

    return left(left, right), code


@intrinsic
def add_square(_: Any, sums: Any, left: Any, right: Any) -> Any:
    """Return sums + (left - right)², rounded after the difference and at the end where the machine can."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        difference = builder.fsub(arguments[1], arguments[2])
        return builder.fadd(arguments[0], builder.fmul(difference, difference, flags=["contract"]), flags=["contract"])

    return sums(sums, left, right), code


@intrinsic
def total(_: Any, numbers: Any) -> Any:
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
def reaching(_: Any, numbers: Any, least: Any) -> Any:
    """Bits of the numbers whose magnitude is at least `least`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bar = _spread(builder, context.cast(builder, arguments[1], least, numbers.dtype))
        kind = ir.FunctionType(bar.type, [bar.type])
        name = f"llvm.fabs.v{N_LANES}f{numbers.dtype.bitwidth}"
        magnitudes = builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments[:1])
        return _bits(builder, builder.fcmp_ordered(">=", magnitudes, bar))

    return types.uint64(numbers, least), code


@intrinsic
def nonzero(_: Any, numbers: Any) -> Any:
    """Bits of the numbers that are not zero; what is no number counts among them."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zeros = ir.Constant(arguments[0].type, None)
        return _bits(builder, builder.fcmp_unordered("!=", arguments[0], zeros))

    return types.uint64(numbers), code


@intrinsic
def within(_: Any, numbers: Any, limit: Any, limits: Any) -> Any:
    """Bits of the numbers that are at most `limit`, or at most their own one of `limits`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bar = _spread(builder, context.cast(builder, arguments[1], limit, numbers.dtype))
        return _bits(builder, builder.or_(*(builder.fcmp_ordered("<=", arguments[0], b) for b in (bar, arguments[2]))))

    return types.uint64(numbers, limit, limits), code


@intrinsic
def lowest_bit(_: Any, word: Any) -> Any:
    """Place of the lowest bit that is set, or 64: one instruction of the processor."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return types.int64(types.uint64), code


@intrinsic
def n_bits(_: Any, word: Any) -> Any:
    """Count the bits that are set."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), code


def _spread(builder: Any, number: Any) -> Any:
    """Sixteen times the same number."""
    lanes = ir.VectorType(number.type, N_LANES)
    first = builder.insert_element(ir.Constant(lanes, ir.Undefined), number, _INT(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT, N_LANES), [0] * N_LANES))


def _bits(builder: Any, truths: Any) -> Any:
    return builder.zext(builder.bitcast(truths, ir.IntType(N_LANES)), ir.IntType(64))
