"""Scans along an axis, and what goes by order: sorting, the largest, flipping, histograms, gathering."""

import numpy as np
import pytest
import triton
import triton.language as tl

from elementwise import near, same, spread
from kinds import FP32, FP64, INT32, NUMBERS, UINT32, named

ROWS, COLUMNS = 16, 64


@triton.jit
def _rows(pointer, M: tl.constexpr, N: tl.constexpr):
    return pointer + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]


@triton.jit
def _cumsum(x, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    return tl.cumsum(x, AXIS, REVERSE)


@triton.jit
def _cumprod(x, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    return tl.cumprod(x, AXIS, REVERSE)


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def _running_max(x, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    return tl.associative_scan(x, AXIS, _larger, REVERSE)


@triton.jit
def _scan(out, x, F: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    tl.store(_rows(out, M, N), F(tl.load(_rows(x, M, N)), AXIS, REVERSE))


def _scanned(memory, function, kind, values, axis, reverse, out_kind=None, **options):
    out = memory.room(out_kind or kind, values.size)
    memory.launch(_scan, (1,), out, memory.put(kind, values), function, axis, reverse, *values.shape, **options)
    return memory.get(out, values.shape)


def _accumulated(function, values, axis, reverse):
    turned = np.flip(values, axis) if reverse else values
    result = function.accumulate(turned, axis, dtype=values.dtype)
    return np.flip(result, axis) if reverse else result


DIRECTIONS = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
BOTH_AXES = pytest.mark.parametrize("axis", [0, 1])


def _sum_kind(kind):
    if kind.integer and kind.bits < 32:
        return INT32 if kind.signed else UINT32
    return kind


@DIRECTIONS
@BOTH_AXES
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_cumsum(memory, kind, axis, reverse):
    x = np.random.default_rng(1).integers(0, 3, (ROWS, COLUMNS)).astype(kind.values)
    out = _sum_kind(kind)
    same(_scanned(memory, _cumsum, kind, x, axis, reverse, out),
         _accumulated(np.add, x.astype(out.values), axis, reverse))


@DIRECTIONS
@BOTH_AXES
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_cumprod(memory, kind, axis, reverse):
    x = np.ones((ROWS, COLUMNS))
    x[::5, ::7] = 2
    x[1, 3] = x[3, 1] = -1 if kind.signed else 1
    x, out = x.astype(kind.values), _sum_kind(kind)
    same(_scanned(memory, _cumprod, kind, x, axis, reverse, out),
         _accumulated(np.multiply, x.astype(out.values), axis, reverse))


@DIRECTIONS
@BOTH_AXES
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_associative_scan(memory, kind, axis, reverse):
    x = np.random.default_rng(2).integers(0, 100, (ROWS, COLUMNS)).astype(kind.values)
    same(_scanned(memory, _running_max, kind, x, axis, reverse), _accumulated(np.maximum, x, axis, reverse))


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@BOTH_AXES
def test_scans_by_warps(memory, axis, warps):
    x = np.random.default_rng(3).integers(-9, 9, (64, 128)).astype(np.int32)
    same(_scanned(memory, _cumsum, INT32, x, axis, False, num_warps=warps), x.cumsum(axis, dtype=np.int32))


@triton.jit
def _linear(gain_a, value_a, gain_b, value_b):
    """One step of x -> gain * x + value after another: not commutative."""
    return gain_a * gain_b, value_a * gain_b + value_b


@triton.jit
def _recurrence(out, gains, values, M: tl.constexpr, N: tl.constexpr, REVERSE: tl.constexpr):
    gain, value = tl.load(_rows(gains, M, N)), tl.load(_rows(values, M, N))
    _, result = tl.associative_scan((gain, value), 1, _linear, REVERSE)
    tl.store(_rows(out, M, N), result)


@DIRECTIONS
def test_scan_of_several_values(memory, reverse):
    random = np.random.default_rng(4)
    gains, values = random.uniform(0.5, 1, (8, 64)), random.standard_normal((8, 64))
    out = memory.room(FP64, 512)
    memory.launch(_recurrence, (1,), out, memory.put(FP64, gains), memory.put(FP64, values), 8, 64, reverse)
    want, state = np.empty((8, 64)), np.zeros(8)
    for at in (range(63, -1, -1) if reverse else range(64)):
        state = gains[:, at] * state + values[:, at]
        want[:, at] = state
    near(memory.get(out, (8, 64)), want, 0, 1e-12)


@triton.jit
def _sort(out, x, DOWN: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    tl.store(_rows(out, M, N), tl.sort(tl.load(_rows(x, M, N)), descending=DOWN))


def _orderly(kind, seed=5, shape=(ROWS, COLUMNS)):
    """Numbers without NaN, and of zeros one."""
    values = spread(kind, int(np.prod(shape)), seed)
    if kind.is_floating_point:
        values = np.where(np.isnan(values) | (values == 0), kind.values.type(0.5), values)
    return values.reshape(shape)


@pytest.mark.parametrize("down", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_sort(memory, kind, down):
    x = _orderly(kind)
    out = memory.room(kind, x.size)
    memory.launch(_sort, (1,), out, memory.put(kind, x), down, ROWS, COLUMNS)
    want = np.sort(x, 1)
    same(memory.get(out, x.shape), want[:, ::-1] if down else want)


@triton.jit
def _topk(out, x, K: tl.constexpr, DOWN: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    tl.store(_rows(out, M, K), tl.topk(tl.load(_rows(x, M, N)), K, descending=DOWN))


@pytest.mark.parametrize("k", [1, 8, 64])
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_topk(memory, kind, k):
    x = _orderly(kind)
    for down in (True, False):
        out = memory.room(kind, ROWS * k)
        memory.launch(_topk, (1,), out, memory.put(kind, x), k, down, ROWS, COLUMNS)
        want = np.sort(x, 1)
        same(memory.get(out, (ROWS, k)), want[:, ::-1][:, :k] if down else want[:, :k])


@triton.jit
def _merge(out, x, DOWN: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    tl.store(_rows(out, M, N), tl.bitonic_merge(tl.load(_rows(x, M, N)), descending=DOWN))


@pytest.mark.parametrize("down", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("kind", **named([INT32, FP32]))
def test_bitonic_merge(memory, kind, down):
    """One half goes up, the other down."""
    x = np.sort(_orderly(kind), 1)
    x[:, COLUMNS // 2:] = x[:, COLUMNS // 2:][:, ::-1]
    out = memory.room(kind, x.size)
    memory.launch(_merge, (1,), out, memory.put(kind, x), down, ROWS, COLUMNS)
    want = np.sort(x, 1)
    same(memory.get(out, x.shape), want[:, ::-1] if down else want)


@triton.jit
def _flip(out, x, DIM: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    tl.store(_rows(out, M, N), tl.flip(tl.load(_rows(x, M, N)), DIM))


@pytest.mark.parametrize("dim", [None, 0, 1, -1], ids=str)
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_flip(memory, kind, dim):
    x = spread(kind, ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    out = memory.room(kind, x.size)
    memory.launch(_flip, (1,), out, memory.put(kind, x), dim, ROWS, COLUMNS)
    same(memory.get(out, x.shape), np.flip(x, 1 if dim is None else dim))


@triton.jit
def _histogram(out, x, n, N: tl.constexpr, BINS: tl.constexpr, MASKED: tl.constexpr):
    at = tl.arange(0, N)
    if MASKED:
        counts = tl.histogram(tl.load(x + at), BINS, mask=at < n)
    else:
        counts = tl.histogram(tl.load(x + at), BINS)
    tl.store(out + tl.arange(0, BINS), counts)


@pytest.mark.parametrize("bins", [1, 8, 32, 128, 256])
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("kind", **named([INT32, UINT32]))
def test_histogram(memory, kind, masked, bins):
    x = np.random.default_rng(6).integers(0, bins, 1024)
    out = memory.room(INT32, bins)
    memory.launch(_histogram, (1,), out, memory.put(kind, x), 700, 1024, bins, masked)
    same(memory.get(out), np.bincount(x[:700] if masked else x, minlength=bins).astype(np.int32))


@triton.jit
def _gather(out, x, index, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, P: tl.constexpr, Q: tl.constexpr):
    tl.store(_rows(out, P, Q), tl.gather(tl.load(_rows(x, M, N)), tl.load(_rows(index, P, Q)), AXIS))


@pytest.mark.parametrize("axis, shape", [(0, (32, 64)), (0, (4, 64)), (1, (16, 16)), (1, (16, 128))], ids=str)
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_gather(memory, kind, axis, shape):
    x = spread(kind, ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    index = np.random.default_rng(7).integers(0, x.shape[axis], shape).astype(np.int32)
    out = memory.room(kind, index.size)
    memory.launch(_gather, (1,), out, memory.put(kind, x), memory.put(INT32, index), axis, *x.shape, *shape)
    same(memory.get(out, shape), np.take_along_axis(x, index, axis))
