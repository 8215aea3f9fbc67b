"""Reductions along every axis: sums, extremes and where they are, bits, and functions of one's own."""

import numpy as np
import pytest
import triton
import triton.language as tl

from elementwise import near, same, spread
from kinds import BF16, FP16, FP32, FP64, INT32, INT64, INTEGERS, NUMBERS, UINT32, named

SHAPE = (8, 4, 32)
AXES = [0, 1, 2, None]


@triton.jit
def _sum(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.sum(x, AXIS, keep_dims=KEEP)


@triton.jit
def _max(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.max(x, AXIS, keep_dims=KEEP)


@triton.jit
def _min(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.min(x, AXIS, keep_dims=KEEP)


@triton.jit
def _xor_sum(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.xor_sum(x, AXIS, keep_dims=KEEP)


@triton.jit
def _reduce_or(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.reduce_or(x, AXIS, keep_dims=KEEP)


@triton.jit
def _argmax(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.argmax(x, AXIS, keep_dims=KEEP)


@triton.jit
def _argmin(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.argmin(x, AXIS, keep_dims=KEEP)


@triton.jit
def _larger_by_size(a, b):
    return tl.where(tl.abs(a) >= tl.abs(b), a, b)


@triton.jit
def _own(x, AXIS: tl.constexpr, KEEP: tl.constexpr):
    return tl.reduce(x, AXIS, _larger_by_size, keep_dims=KEEP)


@triton.jit
def _along(out, x, F: tl.constexpr, AXIS: tl.constexpr, L: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """The axis that is reduced stays as one of length 1, so that every shape is stored alike."""
    i = tl.arange(0, L)[:, None, None]
    j = tl.arange(0, M)[None, :, None]
    k = tl.arange(0, N)[None, None, :]
    block = F(tl.load(x + i * (M * N) + j * N + k), AXIS, True)
    if AXIS is None:
        tl.store(out, block.item())
    elif AXIS == 0:
        tl.store(out + j * N + k, block)
    elif AXIS == 1:
        tl.store(out + i * N + k, block)
    else:
        tl.store(out + i * M + j, block)


def _reduced(memory, function, kind, values, axis, out_kind=None, **options):
    shape = () if axis is None else tuple(size for at, size in enumerate(values.shape) if at != axis)
    out = memory.room(out_kind or kind, int(np.prod(shape)))
    memory.launch(_along, (1,), out, memory.put(kind, values), function, axis, *values.shape, **options)
    return memory.get(out, shape)


def _small(kind, seed=0):
    """Whole numbers whose sums every type holds, so that their order does not matter."""
    random = np.random.default_rng(seed)
    high = 1 if kind is BF16 else 3
    values = random.integers(-1 if kind.signed else 0, high, SHAPE)
    return values.astype(kind.values)


def _sum_kind(kind):
    """Sums of integers below 32 bits have 32."""
    if kind.integer and kind.bits < 32:
        return INT32 if kind.signed else UINT32
    return kind


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_sum(memory, kind, axis):
    x, out = _small(kind), _sum_kind(kind)
    same(_reduced(memory, _sum, kind, x, axis, out), np.asarray(x.astype(out.values).sum(axis, dtype=out.values)))


@pytest.mark.parametrize("kind", **named([FP32, FP64]))
def test_sum_of_any_numbers(memory, kind):
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(kind.values)
    near(_reduced(memory, _sum, kind, x, None), x.astype(np.float64).sum(), 0, 1e-3 if kind is FP32 else 1e-11)


@triton.jit
def _sum_in(out, x, N: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, N)), 0, dtype=out.dtype.element_ty))


def test_sum_in_another_type(memory):
    x = np.full(1024, 60000, np.float16)
    out = memory.room(FP32, 1)
    memory.launch(_sum_in, (1,), out, memory.put(FP16, x), 1024)
    same(memory.get(out), np.array([1024 * 60000.0], np.float32))
    whole = memory.room(INT64, 1)
    memory.launch(_sum_in, (1,), whole, memory.put(INT32, np.full(1024, 2**31 - 1)), 1024)
    same(memory.get(whole), np.array([1024 * (2**31 - 1)]))


def _spread(kind, seed=3):
    values = spread(kind, int(np.prod(SHAPE)), seed).reshape(SHAPE)
    if kind.is_floating_point:
        # NaN has tests of its own; of two zeros either may be the extreme.
        values = np.where(np.isnan(values) | (values == 0), kind.values.type(0.25), values)
    return values


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("function, numpy", [(_max, np.max), (_min, np.min)], ids=["max", "min"])
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_extremes(memory, kind, function, numpy, axis):
    x = _spread(kind)
    out = kind
    if kind.integer and kind.bits < 32:
        out = INT32 if kind.signed else UINT32
    if kind in (FP16, BF16):
        out = FP32
    same(_reduced(memory, function, kind, x, axis, out), np.asarray(numpy(x, axis)).astype(out.values))


@pytest.mark.parametrize("function, numpy", [(_max, np.fmax), (_min, np.fmin)], ids=["max", "min"])
@pytest.mark.parametrize("kind", **named([FP32, FP64]))
def test_extremes_leave_nan_out(memory, kind, function, numpy):
    x = _spread(kind)
    x[:, 1, ::2] = np.nan
    same(_reduced(memory, function, kind, x, 1), numpy.reduce(x, 1))


@pytest.mark.parametrize("axis", AXES[:3])
@pytest.mark.parametrize("function, numpy", [(_argmax, np.argmax), (_argmin, np.argmin)], ids=["argmax", "argmin"])
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_where_extremes_are(memory, kind, function, numpy, axis):
    """Of equal ones the first."""
    x = np.random.default_rng(4).integers(0, 20, SHAPE).astype(kind.values)
    same(_reduced(memory, function, kind, x, axis, INT32), numpy(x, axis).astype(np.int32))


@triton.jit
def _with_indices(values, indices, x, MAX: tl.constexpr, LEFT: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    block = tl.load(x + i[:, None] * N + j[None, :])
    if MAX:
        value, index = tl.max(block, 1, return_indices=True, return_indices_tie_break_left=LEFT)
    else:
        value, index = tl.min(block, 1, return_indices=True, return_indices_tie_break_left=LEFT)
    tl.store(values + i, value)
    tl.store(indices + i, index)


@pytest.mark.parametrize("left", [True, False], ids=["left", "any"])
@pytest.mark.parametrize("largest", [True, False], ids=["max", "min"])
def test_extremes_with_indices(memory, largest, left):
    x = np.random.default_rng(5).permutation(16 * 64).reshape(16, 64).astype(np.float32)
    values, indices = memory.room(FP32, 16), memory.room(INT32, 16)
    memory.launch(_with_indices, (1,), values, indices, memory.put(FP32, x), largest, left, 16, 64)
    same(memory.get(values), (np.max if largest else np.min)(x, 1))
    same(memory.get(indices), (np.argmax if largest else np.argmin)(x, 1).astype(np.int32))


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("function, numpy", [(_xor_sum, np.bitwise_xor), (_reduce_or, np.bitwise_or)],
                         ids=["xor_sum", "reduce_or"])
@pytest.mark.parametrize("kind", **named(INTEGERS))
def test_bits(memory, kind, function, numpy, axis):
    x = spread(kind, int(np.prod(SHAPE)), 6).reshape(SHAPE)
    if function is _reduce_or:
        x &= kind.values.type(0x15)
    same(_reduced(memory, function, kind, x, axis), np.asarray(numpy.reduce(x, axis)))


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_functions_of_ones_own(memory, kind, axis):
    x = np.random.default_rng(7).permutation(int(np.prod(SHAPE))).reshape(SHAPE) % 120
    # The sign goes by the size, so that of several of the largest size each is the same number.
    x = (np.where(x % 2, -x, x) if kind.signed else x).astype(kind.values)
    flat = np.moveaxis(x, axis, 0) if axis is not None else x.reshape(-1)
    where = np.argmax(np.abs(flat), 0)
    same(_reduced(memory, _own, kind, x, axis), np.asarray(np.take_along_axis(flat, where[None], 0)[0]))


@triton.jit
def _welford(mean_a, spread_a, count_a, mean_b, spread_b, count_b):
    """Two groups' means and sums of squares put together."""
    apart = mean_b - mean_a
    count = count_a + count_b
    part = tl.where(count == 0, 0.0, count_b / count)
    return (mean_a + apart * part, spread_a + spread_b + apart * apart * count_a * part, count)


@triton.jit
def _moments(means, variances, x, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    block = tl.load(x + i[:, None] * N + j[None, :])
    mean, square, count = tl.reduce((block, tl.zeros((M, N), tl.float32), tl.full((M, N), 1.0, tl.float32)), 1,
                                    _welford)
    tl.store(means + i, mean)
    tl.store(variances + i, square / count)


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_several_values_at_once(memory, warps):
    x = np.random.default_rng(8).standard_normal((16, 128)).astype(np.float32)
    means, variances = memory.room(FP32, 16), memory.room(FP32, 16)
    memory.launch(_moments, (1,), means, variances, memory.put(FP32, x), 16, 128, num_warps=warps)
    wide = x.astype(np.float64)
    near(memory.get(means), wide.mean(1), 0, 1e-6)
    near(memory.get(variances), wide.var(1), 0, 1e-5)


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_warps(memory, warps, axis):
    x = np.random.default_rng(9).integers(-1000, 1000, SHAPE).astype(np.int32)
    same(_reduced(memory, _sum, INT32, x, axis, num_warps=warps), x.sum(axis, dtype=np.int32))


@triton.jit
def _softmax(out, x, AXIS: tl.constexpr, IEEE: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, tl.softmax(tl.load(x + at), AXIS, ieee_rounding=IEEE))


@pytest.mark.parametrize("ieee", [False, True], ids=["fast", "ieee"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", **named([FP32, FP64]))
def test_softmax(memory, kind, axis, ieee):
    if kind is FP64 and ieee:
        ieee = False
    x = np.random.default_rng(10).standard_normal((16, 64)).astype(kind.values) * 5
    out = memory.room(kind, x.size)
    memory.launch(_softmax, (1,), out, memory.put(kind, x), axis, ieee, 16, 64)
    wide = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    near(memory.get(out, x.shape), wide / wide.sum(axis, keepdims=True), 0, 1e-6 if kind is FP32 else 1e-14)
