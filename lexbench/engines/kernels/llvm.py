"""What kernels do that numba cannot say, as LLVM code: prefetching, comparing 64 numbers at once, adding to vectors of sums.

Each intrinsic is called by compiled code only. LLVM translates them into the instructions that the machine has.
Addresses are whole numbers: `array.ctypes.data` and what is added to it, in bytes. Nothing is checked.
"""

from typing import Any, TypeAlias

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, types
from numba.extending import intrinsic

BLOCK = 64  # numbers that are looked at together, a bit of a word for each
STEP = 8  # postings that are added without a jump
CURSOR = 4  # int64 of a list's row, as `sweep` takes it
NARROW = 65_535 // 255  # what weights of a byte can be multiplied with in 16 bits

_BIT, _BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
_BITS, _BYTES, _WORDS, _INTS = (ir.VectorType(*kind) for kind in ((_BIT, 64), (_BYTE, 64), (_SHORT, 32), (_INT, 16)))
_POINTER = ir.PointerType(_BYTE)

_cgutils: Any = cgutils
_Value: TypeAlias = Any  # llvmlite has no types
_Code: TypeAlias = Any


def machine_expands() -> bool:
    """Tell whether the machine spreads bytes by a mask in one instruction, without which bitmaps are no gain."""
    return bool(get_host_cpu_features().get("avx512vbmi2"))


class _Writer:
    """Writes LLVM code at *builder*: short names for what the intrinsics below do often."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def address(self, base: _Value, element: int | _Value, size: int) -> _Value:
        """Return the address of an element of *size* bytes."""
        index = ir.Constant(_LONG, element) if isinstance(element, int) else element
        return self.builder.add(base, self.builder.mul(index, ir.Constant(_LONG, size)))

    def load(self, address: _Value, kind: Any, align: int = 1) -> _Value:
        """Return what is at *address*."""
        value = self.builder.load(self.builder.inttoptr(address, ir.PointerType(kind)))
        value.align = align
        return value

    def store(self, value: _Value, address: _Value, align: int = 1) -> None:
        """Put *value* at *address*."""
        self.builder.store(value, self.builder.inttoptr(address, ir.PointerType(value.type))).align = align

    def splat(self, value: _Value, kind: Any) -> _Value:
        """Return a vector of the type *kind*, all of whose elements are *value*."""
        nothing = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(nothing, value, ir.Constant(_INT, 0))
        return self.builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INT, kind.count), [0] * kind.count))

    def call(self, name: str, result: Any, *args: _Value) -> _Value:
        """Call one of LLVM's own functions."""
        kind = ir.FunctionType(result, [arg.type for arg in args])
        return self.builder.call(_cgutils.get_or_insert_function(self.builder.module, kind, name), args)

    def prefetch(self, address: _Value) -> None:
        """Ask for the cache line at *address*: read, into all levels, data."""
        flags = (ir.Constant(_INT, flag) for flag in (0, 3, 1))
        self.call("llvm.prefetch.p0", ir.VoidType(), self.builder.inttoptr(address, _POINTER), *flags)


def _trailing_zeros(_: Any, word: Any) -> _Code:  # noqa: ARG001 - numba counts the arguments
    """Return the number of the lowest bit of *word*, uint64, which is not 0."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> _Value:
        return builder.cttz(args[0], ir.Constant(_BIT, 1))

    return types.int64(types.uint64), code


trailing_zeros: Any = intrinsic(_trailing_zeros)


def _prefetch(_: Any, address: Any) -> _Code:  # noqa: ARG001 - numba counts the arguments
    """Ask for the cache line at *address*."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> _Value:
        _Writer(builder).prefetch(args[0])
        return ir.Constant(_INT, 0)

    return types.int32(types.int64), code


prefetch: Any = intrinsic(_prefetch)


def _add(_: Any, ids: Any, weights: Any, size: Any, factor: Any, sums: Any) -> _Code:  # noqa: ARG001 - numba counts the arguments
    """Add *factor* times the uint8 weight of each of *size* postings to the int32 sum of its uint16 id.

    Postings are added STEP at a time; the last step is a whole one, in which those beyond *size* count with weight 0, as a jump
    that cannot be foreseen costs more. As many postings again are prefetched, which are the list's next window.
    """

    def code(_: Any, builder: Any, __: Any, args: Any) -> _Value:
        ids, weights, size, factor, sums = args
        write = _Writer(builder)

        def post(posting: _Value, weight: _Value) -> None:
            at = write.address(sums, builder.zext(write.load(posting, _SHORT), _LONG), 4)
            write.store(builder.add(write.load(at, _INT, 4), builder.mul(weight, factor)), at, 4)

        whole = builder.and_(size, ir.Constant(_LONG, -STEP))
        with _cgutils.for_range_slice(builder, ir.Constant(_LONG, 0), whole, ir.Constant(_LONG, STEP), intp=_LONG) as (
            first,
            _,
        ):
            step_ids, step_weights = write.address(ids, first, 2), write.address(weights, first, 1)
            write.prefetch(write.address(step_ids, size, 2))
            write.prefetch(write.address(step_weights, size, 1))
            for i in range(STEP):
                weight = builder.zext(write.load(write.address(step_weights, i, 1), _BYTE), _INT)
                post(write.address(step_ids, i, 2), weight)
        step_ids, step_weights = write.address(ids, whole, 2), write.address(weights, whole, 1)
        write.prefetch(write.address(step_ids, size, 2))
        write.prefetch(write.address(step_weights, size, 1))
        bits = builder.mul(builder.sub(size, whole), ir.Constant(_LONG, 8))
        last_weights = builder.and_(write.load(step_weights, _LONG), builder.not_(builder.shl(ir.Constant(_LONG, -1), bits)))
        for i in range(STEP):
            byte = builder.and_(builder.lshr(last_weights, ir.Constant(_LONG, 8 * i)), ir.Constant(_LONG, 255))
            post(write.address(step_ids, i, 2), builder.trunc(byte, _INT))
        return ir.Constant(_INT, 0)

    return types.int32(types.int64, types.int64, types.int64, types.int32, types.int64), code


add: Any = intrinsic(_add)


def _sweep(_: Any, sums: Any, cursors: Any, lists: Any, block: Any, bar: Any, target: Any) -> _Code:  # noqa: ARG001 - numba counts the arguments
    """Return which of BLOCK sums are above *bar*, one bit each, after adding what dense lists have; clear the sums.

    *cursors* is the address of *lists* rows of CURSOR int64: the address of the list's bitmap, of whose words this is number
    *block*; the address of the block's weights, which is moved on; their factor; whether this is the last of lists whose
    factors are together at most NARROW, so that what they add to a sum fits in 16 bits. If a sum is above the bar, all go to
    the BLOCK int32 at *target*. There must be no lists where `machine_expands` is False.
    """

    def code(_: Any, builder: Any, __: Any, args: Any) -> _Value:
        sums, cursors, lists, block, bar, target = args
        write = _Writer(builder)
        totals = [_cgutils.alloca_once_value(builder, write.load(write.address(sums, i, 64), _INTS, 4)) for i in range(4)]
        for i in range(4):
            write.store(ir.Constant(_INTS, None), write.address(sums, i, 64), 4)
        if machine_expands():
            _add_dense(write, totals, cursors, lists, block)
        above, least = ir.Constant(_LONG, 0), write.splat(bar, _INTS)
        for i, total in enumerate(totals):
            bits = builder.bitcast(builder.icmp_signed(">", builder.load(total), least), _SHORT)
            above = builder.or_(above, builder.shl(builder.zext(bits, _LONG), ir.Constant(_LONG, 16 * i)))
        with builder.if_then(builder.icmp_unsigned("!=", above, ir.Constant(_LONG, 0)), likely=False):
            for i, total in enumerate(totals):
                write.store(builder.load(total), write.address(target, i, 64), 4)
        return above

    return types.uint64(types.int64, types.int64, types.int64, types.int64, types.int32, types.int64), code


sweep: Any = intrinsic(_sweep)


def _add_dense(write: _Writer, totals: list[_Value], cursors: _Value, lists: _Value, block: _Value) -> None:
    """Add what `sweep` says to *totals*, 4 variables of 16 int32.

    The bytes of a block are spread to where its bitmap has ones. Bytes 0, 2, 4 ... and bytes 1, 3, 5 ... become 32 words each
    by a mask and a shift, in which products are added up; their halves then go to *totals* likewise. That is why impact_index
    has `bit_of`. The load has a mask, without need, as LLVM would else make one instruction of it and of the spreading,
    which takes a Zen 4 half as long again.
    """
    builder = write.builder
    parts = [_cgutils.alloca_once_value(builder, ir.Constant(_WORDS, None)) for _ in range(2)]
    with _cgutils.for_range(builder, lists) as loop:
        row = write.address(cursors, loop.index, 8 * CURSOR)
        word = write.load(write.address(write.load(row, _LONG), block, 8), _LONG)
        weights, size = write.load(write.address(row, 1, 8), _LONG), builder.ctpop(word)
        write.store(builder.add(weights, size), write.address(row, 1, 8))
        others = builder.and_(builder.sub(ir.Constant(_LONG, BLOCK), size), ir.Constant(_LONG, BLOCK - 1))
        mask = builder.bitcast(builder.lshr(ir.Constant(_LONG, -1), others), _BITS)
        nothing, place = ir.Constant(_BYTES, None), builder.inttoptr(weights, _POINTER)
        loaded = write.call("llvm.masked.load.v64i8.p0", _BYTES, place, ir.Constant(_INT, 1), mask, nothing)
        spread = write.call("llvm.x86.avx512.mask.expand.v64i8", _BYTES, loaded, nothing, builder.bitcast(word, _BITS))
        words = builder.bitcast(spread, _WORDS)
        factor = write.splat(write.load(write.address(row, 2, 8), _SHORT), _WORDS)
        halves = builder.and_(words, ir.Constant(_WORDS, [255] * 32)), builder.lshr(words, ir.Constant(_WORDS, [8] * 32))
        for part, half in zip(parts, halves, strict=True):
            builder.store(builder.add(builder.load(part), builder.mul(half, factor)), part)
        last = builder.icmp_unsigned("!=", write.load(write.address(row, 3, 8), _LONG), ir.Constant(_LONG, 0))
        with builder.if_then(last):
            for i, total in enumerate(totals):
                pairs = builder.bitcast(builder.load(parts[i % 2]), _INTS)
                low, high = ir.Constant(_INTS, [65_535] * 16), ir.Constant(_INTS, [16] * 16)
                part = builder.and_(pairs, low) if i < len(parts) else builder.lshr(pairs, high)
                builder.store(builder.add(builder.load(total), part), total)
            for part in parts:
                builder.store(ir.Constant(_WORDS, None), part)


def _above_bar(_: Any, scores: Any, bar: Any) -> _Code:  # noqa: ARG001 - numba counts the arguments
    """Return which of the BLOCK float32 at the address *scores* are above *bar*, one bit each."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> _Value:
        write, kind = _Writer(builder), ir.VectorType(ir.FloatType(), BLOCK)
        above = builder.fcmp_ordered(">", write.load(args[0], kind, 4), write.splat(args[1], kind))
        return builder.bitcast(above, _LONG)

    return types.uint64(types.int64, types.float32), code


above_bar: Any = intrinsic(_above_bar)
