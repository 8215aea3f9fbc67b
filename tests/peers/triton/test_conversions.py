"""Conversions and reinterpretations: every type to every other."""

import numpy as np
import pytest
import triton
import triton.language as tl

from elementwise import refused, same, spread
from kinds import ALL, BF16, FP16, FP32, FP64, FP8, FP8E4B15, FP8E5, INT1, INT32, named


@triton.jit
def _convert(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def _cast(out, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.cast(tl.load(x + at, mask=at < n), out.dtype.element_ty), mask=at < n)


@triton.jit
def _towards_zero(out, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(out.dtype.element_ty, fp_downcast_rounding="rtz")
    tl.store(out + at, value, mask=at < n)


@triton.jit
def _reinterpret(out, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(out.dtype.element_ty, bitcast=True)
    tl.store(out + at, value, mask=at < n)


def _converted(memory, source, values, target, kernel=_convert):
    array, out = memory.put(source, values), memory.room(target, values.size)
    memory.launch(kernel, (1,), out, array, values.size, triton.next_power_of_2(values.size))
    return memory.get(out)


def _cut(target, values):
    """Values rounded towards zero to a type that has infinities."""
    with np.errstate(all="ignore"):
        near = target.round(values).astype(np.float64)
        stored = target.pack(near)
        beyond = (np.abs(near) > np.abs(values)) & np.isfinite(values)
        return target.unpack(np.where(beyond, stored.view(f"uint{target.bits}") - 1,
                                      stored.view(f"uint{target.bits}")).astype(f"uint{target.bits}")
                             .view(target.stored))


def _values(source, target):
    """Values that the conversion is defined for."""
    values = spread(source, 256, seed=7)
    if source.is_floating_point and target.integer:
        # Beyond its range nothing is promised.
        info = np.iinfo(target.values)
        return values[(values > float(info.min) - 1) & (values < float(info.max))]
    if source in FP8:
        values = source.unpack(np.arange(256, dtype=np.uint8))
        # Triton's way from float8e5 to bfloat16 takes infinity and NaN for the numbers that would follow.
        return values[np.isfinite(values)] if target is BF16 else values
    if target in FP8:
        values = values[np.isfinite(values)] if source.is_floating_point else values
        return values[np.abs(values.astype(np.float64)) <= (50000 if target is FP8E5 else 1.7)]
    return values


def _expected(source, values, target):
    if target is INT1:
        return values != 0
    if target.integer:
        return (np.trunc(values) if source.is_floating_point else values).astype(target.values)
    with np.errstate(all="ignore"):
        if target is BF16 and source.integer:
            # By way of 32 bits, as there is no instruction for it before compute capability 9.0.
            values = values.astype(np.float32)
        return target.round(values.astype(np.float64)) if target.small else values.astype(target.values)


#: What Triton converts: float8e5 to and from floating-point types of at most 32 bits, float8e4b15 to and
#: from two of them.
HALVES = {FP8E5: (FP16, BF16, FP32), FP8E4B15: (FP16, FP32)}
PAIRS = [(a, b) for a in ALL for b in ALL if a is not b
         and b in HALVES.get(a, ALL) and a in HALVES.get(b, ALL)]


@pytest.mark.parametrize("source, target", PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
def test_conversion(memory, source, target):
    values = _values(source, target)
    assert values.size > 20 or source is INT1
    got = _converted(memory, source, values, target)
    if target is FP8E4B15:
        same(got, _nearest_away(values))
    else:
        same(got, _expected(source, values, target))


def _nearest_away(values):
    """What Triton makes of float8e4b15: by way of 16 bits, towards zero; then the nearest, ties away from zero."""
    bits = _cut(FP16, values.astype(np.float64)).astype(np.float16).view(np.uint16).astype(np.int64)
    size = np.minimum(bits & 0x7FFF, 0x3F00)
    return FP8E4B15.unpack((((size * 2 + 0x80) >> 8) | ((bits >> 8) & 0x80)).astype(np.uint8))


def test_cast_is_the_same(memory):
    values = spread(FP32)
    same(_converted(memory, FP32, values, FP16, _cast), _converted(memory, FP32, values, FP16))


TOWARDS_ZERO = [(FP32, FP16), (FP32, BF16)]


@pytest.mark.parametrize("source, target", TOWARDS_ZERO, ids=[f"{a}-{b}" for a, b in TOWARDS_ZERO])
def test_rounding_towards_zero(memory, source, target):
    values = spread(source, seed=9)
    values = values[np.isfinite(values)]
    same(_converted(memory, source, values, target, _towards_zero), _cut(target, values).astype(target.values))


@pytest.mark.parametrize("target", **named([FP16, BF16, FP32, FP8E5]))
def test_ties_go_to_even(memory, target):
    """Numbers halfway between two neighbours, and a little to either side."""
    source = FP64 if target is FP32 else FP32
    if target.itemsize == 1:
        low = target.unpack(np.arange(0x70, dtype=np.uint8)).astype(np.float64)
    else:
        codes = np.random.default_rng(3).integers(0x0400, 0x7000, 200)
        bits = codes.astype(f"uint{target.bits}") << (target.bits - 16)
        bits |= (np.arange(200) % 2).astype(bits.dtype)
        low = target.unpack(bits.view(target.stored)).astype(np.float64)
    low = np.sort(low[np.isfinite(low) & (low < 1e30)])
    step = target.round(low).astype(np.float64)
    up = np.array([_next(target, it) for it in step])
    middle = ((step + up) / 2).astype(source.values)
    values = np.concatenate([middle, np.nextafter(middle, source.values.type(0)),
                             np.nextafter(middle, source.values.type(np.inf)), -middle])
    same(_converted(memory, source, values, target), _expected(source, values, target))


def _next(target, value):
    code = target.pack(np.array([value])).view(f"uint{target.bits}")[0]
    return float(target.unpack(np.array([code + 1], f"uint{target.bits}").view(target.stored))[0])


SAME_SIZE = [(a, b) for a in ALL for b in ALL if a is not b and a.bits == b.bits and INT1 not in (a, b)]


@pytest.mark.parametrize("source, target", SAME_SIZE, ids=[f"{a}-{b}" for a, b in SAME_SIZE])
def test_reinterpretation(memory, source, target):
    stored = np.random.default_rng(1).integers(0, 256, 256 * source.itemsize, np.uint8).view(source.stored)
    array, out = memory.put_bits(source, stored), memory.room(target, 256)
    memory.launch(_reinterpret, (1,), out, array, 256, 256)
    np.testing.assert_array_equal(out.bits().view(np.uint8), stored.view(np.uint8))


@triton.jit
def _address(out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    # A pointer is a number of 64 bits, and that number a pointer.
    number = (x + at).to(tl.int64)
    again = number.to(tl.pointer_type(tl.int32))
    tl.store(out + at, tl.load(again) + (number - x.to(tl.int64)).to(tl.int32))


def test_pointers_and_integers(memory):
    values = np.arange(32, dtype=np.int32) * 3
    out = memory.room(INT32, 32)
    memory.launch(_address, (1,), out, memory.put(INT32, values), 32)
    same(memory.get(out), values + np.arange(32, dtype=np.int32) * 4)


@triton.jit
def _of_a_type(x, OTHER: tl.constexpr):
    at = tl.arange(0, 32)
    tl.store(x + at, tl.load(x + at).to(OTHER).to(tl.float32))


@pytest.mark.parametrize("name", ["float8e4nv", "float8e4b8", "float8e5b16"])
def test_types_of_other_devices_are_refused(memory, name):
    with refused("not supported in this architecture"):
        memory.launch(_of_a_type, (1,), memory.put(FP32, np.zeros(32)), getattr(tl, name))
