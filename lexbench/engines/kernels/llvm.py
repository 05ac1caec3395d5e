"""Operations that numba cannot express, as LLVM code: prefetching, comparing 64 numbers at once, adding to vectors of sums.

Only compiled code calls these intrinsics. LLVM translates them into the instructions of the machine. Addresses are whole
numbers, `array.ctypes.data` plus bytes. Nothing is checked.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features, get_process_triple
from numba import extending
from numba.core import cgutils, config, types

BLOCK = 64  # numbers compared together, one bit of a word each
STEP = 8  # postings added without a jump
CURSOR = 4  # int64 of a list's row, see `sweep`
SHORT, NARROW = 65_535, 65_535 // 255  # the largest number of 16 bits; the largest factor of weights of a byte in 16 bits
AHEAD = 256, 128  # bytes that weights and bitmaps are prefetched ahead

_BIT, _BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
_BITS, _BYTES, _WORDS, _INTS = (ir.VectorType(*kind) for kind in ((_BIT, 64), (_BYTE, 64), (_SHORT, 32), (_INT, 16)))
_POINTER = ir.PointerType(_BYTE)
_TABLE = ir.ArrayType(_BYTE, 8 * 256)

_cgutils: Any = cgutils
_config: Any = config
_Value: TypeAlias = Any  # llvmlite has no types


def intrinsic(function: Callable[..., Any]) -> Any:
    """Decorate like `numba.extending.intrinsic`, which has no types."""
    return extending.intrinsic(function)


def machine_expands() -> bool:
    """Return whether the machine can spread bytes by a mask quickly; otherwise bitmaps are read bit by bit."""
    return machine_has("avx512vbmi2") or bool(_shuffle())


def machine_has(feature: str) -> bool:
    """Return whether numba may use a feature of the processor; NUMBA_CPU_FEATURES limits them."""
    if _config.CPU_FEATURES is not None:
        return f"+{feature}" in _config.CPU_FEATURES.split(",")
    return bool(get_host_cpu_features().get(feature))


def _shuffle() -> str:
    """Return the instruction that picks 16 of 16 bytes by number, and 0 for numbers with the highest bit; "" for none."""
    # Every 64-bit Arm processor has NEON, but under QEMU LLVM cannot list its features.
    on_arm = get_process_triple().startswith(("aarch64", "arm64"))
    return "llvm.aarch64.neon.tbl1.v16i8" if on_arm else "llvm.x86.ssse3.pshuf.b.128" if machine_has("ssse3") else ""


class _Writer:
    """Writes LLVM code at *builder*: short names for frequent operations."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def address(self, base: _Value, element: int | _Value, size: int) -> _Value:
        """Return the address of an element of *size* bytes."""
        index = ir.Constant(_LONG, element) if isinstance(element, int) else element
        return self.builder.add(base, self.builder.mul(index, ir.Constant(_LONG, size)))

    def load(self, address: _Value, kind: Any, align: int = 1) -> _Value:
        """Return the value of type *kind* at *address*."""
        value = self.builder.load(self.builder.inttoptr(address, ir.PointerType(kind)))
        value.align = align
        return value

    def store(self, value: _Value, address: _Value, align: int = 1) -> None:
        """Store *value* at *address*."""
        self.builder.store(value, self.builder.inttoptr(address, ir.PointerType(value.type))).align = align

    def bytes_of(self, bits: _Value) -> _Value:
        """Return how many whole bytes are in so many *bits*."""
        return self.builder.lshr(bits, ir.Constant(_LONG, 3))

    def ones(self, bits: _Value) -> _Value:
        """Return a word whose lowest *bits*, fewer than 64, are 1."""
        return self.builder.not_(self.builder.shl(ir.Constant(_LONG, -1), bits))

    def splat(self, value: _Value, kind: Any) -> _Value:
        """Return a vector of type *kind* with *value* in every element."""
        nothing = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(nothing, value, ir.Constant(_INT, 0))
        return self.builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INT, kind.count), [0] * kind.count))

    def call(self, name: str, result: Any, *args: _Value) -> _Value:
        """Call one of LLVM's own functions."""
        kind = ir.FunctionType(result, [arg.type for arg in args])
        return self.builder.call(_cgutils.get_or_insert_function(self.builder.module, kind, name), args)

    def prefetch(self, address: _Value) -> None:
        """Prefetch the cache line at *address*, for reading, into all levels."""
        flags = (ir.Constant(_INT, flag) for flag in (0, 3, 1))
        self.call("llvm.prefetch.p0", ir.VoidType(), self.builder.inttoptr(address, _POINTER), *flags)


@intrinsic
def trailing_zeros(_: Any, word: Any) -> _Value:  # noqa: ARG001 - numba counts the arguments
    """Return the number of the lowest bit that is 1 in *word*, a uint64 above 0."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> _Value:
        return builder.cttz(args[0], ir.Constant(_BIT, 1))

    return types.int64(types.uint64), code


@intrinsic
def prefetch(_: Any, address: Any) -> _Value:  # noqa: ARG001 - numba counts the arguments
    """Prefetch the cache line at *address*."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> _Value:
        _Writer(builder).prefetch(args[0])
        return ir.Constant(_INT, 0)

    return types.int32(types.int64), code


@intrinsic
def add(_: Any, list_: Any, counters: Any, bits: Any, factor: Any, sums: Any, window: Any) -> _Value:  # noqa: ARG001 - numba counts the arguments
    """Add *factor* times the weights of the postings in one *window* to the int32 *sums* of their places; return their end.

    At the address *list_* are the number of postings, in *counters* bytes (1 or 2), gaps of *bits* bits and, from the next
    whole byte on, uint8 weights (see impact_index). Postings are added STEP at a time. The last step is also a whole one,
    because a jump that cannot be predicted costs more: its extra postings have weight 0 and any place of the window, whose size
    is a power of 2. As many bytes behind the end are prefetched: the list in the next window.
    """

    def code(_: Any, builder: Any, __: Any, args: Any) -> _Value:
        list_, counters, bits, factor, sums, window = args
        # Where gaps and weights begin, and where the list ends.
        write = _Writer(builder)
        counted = builder.zext(write.load(list_, _SHORT), _LONG)
        size = builder.and_(counted, write.ones(builder.mul(counters, ir.Constant(_LONG, 8))))
        start = builder.add(list_, counters)
        weights = builder.add(start, write.bytes_of(builder.add(builder.mul(size, bits), ir.Constant(_LONG, 7))))
        end = builder.add(weights, size)
        mask = write.ones(bits)
        half = builder.mul(bits, ir.Constant(_LONG, STEP // 2))
        place = _cgutils.alloca_once_value(builder, ir.Constant(_LONG, 0))

        def step(first: _Value) -> Iterator[tuple[int, _Value]]:
            """Yield the number in the step and the place of STEP postings from *first* on."""
            gaps = builder.add(start, write.bytes_of(builder.mul(first, bits)))
            write.prefetch(builder.add(end, builder.add(builder.sub(gaps, start), first)))
            word = write.load(gaps, _LONG)  # half a step of the widest gaps fits in a word
            for i in range(STEP):
                if i == STEP // 2:
                    behind = write.load(builder.add(gaps, write.bytes_of(half)), _LONG)
                    word = builder.lshr(behind, builder.and_(half, ir.Constant(_LONG, 7)))
                builder.store(builder.add(builder.load(place), builder.and_(word, mask)), place)
                word = builder.lshr(word, bits)
                yield i, builder.load(place)

        def post(place: _Value, weight: _Value) -> None:
            """Add the product of *weight* to the sum of a *place*."""
            at = write.address(sums, place, 4)
            write.store(builder.add(write.load(at, _INT, 4), builder.mul(weight, factor)), at, 4)

        # All steps but the last.
        whole = builder.and_(size, ir.Constant(_LONG, -STEP))
        with _cgutils.for_range_slice(builder, ir.Constant(_LONG, 0), whole, ir.Constant(_LONG, STEP), intp=_LONG) as (
            first,
            _,
        ):
            for i, at in step(first):
                posting = write.address(builder.add(weights, first), i, 1)
                post(at, builder.zext(write.load(posting, _BYTE), _INT))
        # The last step: weights behind the list's end are masked to 0, and their places are kept inside the window.
        left = builder.mul(builder.sub(size, whole), ir.Constant(_LONG, 8))
        last_weights = builder.and_(write.load(builder.add(weights, whole), _LONG), write.ones(left))
        inside = builder.sub(window, ir.Constant(_LONG, 1))
        for i, at in step(whole):
            byte = builder.and_(builder.lshr(last_weights, ir.Constant(_LONG, 8 * i)), ir.Constant(_LONG, 255))
            post(builder.and_(at, inside), builder.trunc(byte, _INT))
        return end

    return types.int64(types.int64, types.int64, types.int64, types.int32, types.int64, types.int64), code


@intrinsic
def sweep(_: Any, sums: Any, cursors: Any, lists: Any, block: Any, bar: Any, target: Any) -> _Value:  # noqa: ARG001 - numba counts the arguments
    """Add dense lists to BLOCK *sums*, return which are above *bar*, one bit each, and clear them.

    *cursors* is the address of *lists* rows of CURSOR int64, one row per list:

        0   address of the list's bitmap; the word of these sums has the number *block*
        1   address of the block's weights, which moves on
        2   the factor times 65,537: twice in 32 bits, once in each half
        3   whether the list ends a group of lists that together add at most SHORT to a sum, so that it fits in 16 bits

    If a sum is above the bar, all BLOCK sums are stored as int32 at *target*. If `machine_expands` is False, there must be no
    lists.
    """

    def code(_: Any, builder: Any, __: Any, args: Any) -> _Value:
        sums, cursors, lists, block, bar, target = args
        write = _Writer(builder)
        totals = [_cgutils.alloca_once_value(builder, write.load(write.address(sums, i, 64), _INTS, 4)) for i in range(4)]
        for i in range(4):
            write.store(ir.Constant(_INTS, None), write.address(sums, i, 64), 4)
        if machine_expands():
            _add_dense(write, totals, cursors, lists, block)
        # The largest of the sums decides for most blocks that none is above the bar.
        found, least = _cgutils.alloca_once_value(builder, ir.Constant(_LONG, 0)), write.splat(bar, _INTS)
        most = builder.load(totals[0])
        for total in totals[1:]:
            most = write.call("llvm.smax.v16i32", _INTS, most, builder.load(total))
        any_above = builder.bitcast(builder.icmp_signed(">", most, least), _SHORT)
        with builder.if_then(builder.icmp_unsigned("!=", any_above, ir.Constant(_SHORT, 0)), likely=False):
            above = ir.Constant(_LONG, 0)
            for i, total in enumerate(totals):
                bits = builder.bitcast(builder.icmp_signed(">", builder.load(total), least), _SHORT)
                above = builder.or_(above, builder.shl(builder.zext(bits, _LONG), ir.Constant(_LONG, 16 * i)))
                write.store(builder.load(total), write.address(target, i, 64), 4)
            builder.store(above, found)
        return builder.load(found)

    return types.uint64(types.int64, types.int64, types.int64, types.int64, types.int32, types.int64), code


def _add_dense(write: _Writer, totals: list[_Value], cursors: _Value, lists: _Value, block: _Value) -> None:
    """Add the dense lists of `sweep` to *totals*, 4 variables of 16 int32.

    The bytes of a block are spread to the ones of its bitmap. A mask and a shift turn bytes 0, 2, 4 ... and bytes 1, 3, 5 ...
    into 32 words of 16 bits each, in which the products of a group of lists are added up. In the same way their halves become
    32 bits and are added to *totals*. `impact_index.bit_of` orders bits such that this ends in the order of places.
    """
    builder = write.builder
    parts = [_cgutils.alloca_once_value(builder, ir.Constant(_WORDS, None)) for _ in range(2)]
    spread = _spread_by_mask if machine_has("avx512vbmi2") else _spread_by_table
    with _cgutils.for_range(builder, lists) as loop:
        row = write.address(cursors, loop.index, 8 * CURSOR)
        at, weights = write.address(write.load(row, _LONG), block, 8), write.load(write.address(row, 1, 8), _LONG)
        for address, ahead in zip((weights, at), AHEAD, strict=True):  # the machine itself cannot follow so many lists
            write.prefetch(builder.add(address, ir.Constant(_LONG, ahead)))
        word = write.load(at, _LONG)
        write.store(builder.add(weights, builder.ctpop(word)), write.address(row, 1, 8))
        words = builder.bitcast(spread(write, weights, word), _WORDS)
        factor = builder.bitcast(write.splat(write.load(write.address(row, 2, 8), _INT), _INTS), _WORDS)
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


def _spread_by_mask(write: _Writer, weights: _Value, word: _Value) -> _Value:
    """Return BLOCK bytes: those at the address *weights* in order where *word* has ones, else 0; by one instruction."""
    builder, nothing = write.builder, ir.Constant(_BYTES, None)
    # An empty piece of assembler keeps LLVM from one instruction that loads and spreads: on a Zen 4 it takes 1.5 times as long.
    apart = ir.InlineAsm(ir.FunctionType(_BYTES, [_BYTES]), "", "=v,0")
    loaded = builder.call(apart, [write.load(weights, _BYTES)])
    return write.call("llvm.x86.avx512.mask.expand.v64i8", _BYTES, loaded, nothing, builder.bitcast(word, _BITS))


def _spread_by_table(write: _Writer, weights: _Value, word: _Value) -> _Value:
    """Return the same as `_spread_by_mask`, 16 bytes at a time: a table says for 8 bits of *word* where bytes come from."""
    builder = write.builder
    table = builder.ptrtoint(_cgutils.global_constant(builder, "lexbench.spread", ir.Constant(_TABLE, _sources())), _LONG)
    pair, kind = ir.VectorType(_LONG, 2), ir.VectorType(_BYTE, 16)
    parts = []
    for half in range(0, 8, 2):
        taken, sources = ir.Constant(pair, ir.Undefined), ir.Constant(pair, ir.Undefined)
        for lane in range(2):
            first = 8 * (half + lane)  # bit of the word
            before = builder.ctpop(builder.and_(word, ir.Constant(_LONG, (1 << first) - 1)))
            bits = builder.and_(builder.lshr(word, ir.Constant(_LONG, first)), ir.Constant(_LONG, 255))
            place = ir.Constant(_INT, lane)
            taken = builder.insert_element(taken, write.load(builder.add(weights, before), _LONG), place)
            sources = builder.insert_element(sources, write.load(write.address(table, bits, 8), _LONG), place)
        upper = ir.Constant(kind, [0] * 8 + [8] * 8)  # the second eight bytes come from the second word
        picks = builder.or_(builder.bitcast(sources, kind), upper)
        parts.append(write.call(_shuffle(), kind, builder.bitcast(taken, kind), picks))
    halves = [builder.shuffle_vector(parts[i], parts[i + 1], _joining(32)) for i in (0, 2)]
    return builder.shuffle_vector(*halves, _joining(64))


def _joining(count: int) -> _Value:
    """Return the mask 0, 1, ..., count - 1, with which `shuffle_vector` joins two vectors into one of *count* elements."""
    return ir.Constant(ir.VectorType(_INT, count), list(range(count)))


def _sources() -> list[int]:
    """Return, for each value of 8 bits and each bit, the byte that goes there: the ones before it, or 128 for none."""
    return [(mask & ((1 << bit) - 1)).bit_count() if mask >> bit & 1 else 128 for mask in range(256) for bit in range(8)]


@intrinsic
def above_bar(_: Any, scores: Any, bar: Any) -> _Value:  # noqa: ARG001 - numba counts the arguments
    """Return which of the BLOCK float32 at the address *scores* are above *bar*, one bit each."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> _Value:
        write, kind = _Writer(builder), ir.VectorType(ir.FloatType(), BLOCK)
        above = builder.fcmp_ordered(">", write.load(args[0], kind, 4), write.splat(args[1], kind))
        return builder.bitcast(above, _LONG)

    return types.uint64(types.int64, types.float32), code
