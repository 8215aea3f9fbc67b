"""Products of matrices in every type, with and without what they are added to."""

import numpy as np
import pytest
import triton
import triton.language as tl

from elementwise import near, same
from kinds import BF16, FP16, FP32, FP64, FP8E4B15, FP8E5, INT32, INT8, UINT8, named


@triton.jit
def _rows(pointer, M: tl.constexpr, N: tl.constexpr):
    return pointer + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]


@triton.jit
def _dot(out, a, b, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
         ADDED: tl.constexpr):
    left, right = tl.load(_rows(a, M, K)), tl.load(_rows(b, K, N))
    out_type: tl.constexpr = out.dtype.element_ty
    if ADDED:
        total = tl.load(_rows(out, M, N))
        total = tl.dot(left, right, total, input_precision=PRECISION, out_dtype=out_type)
    else:
        total = tl.dot(left, right, input_precision=PRECISION, out_dtype=out_type)
    tl.store(_rows(out, M, N), total)


def _whole(kind, shape, seed):
    """Whole numbers whose products and sums every type holds exactly, whatever the order."""
    if kind is FP8E4B15:
        # Its largest number is 1.875.
        return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.float32)
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(kind.values)


def _multiplied(memory, kind, out_kind, a, b, precision=None, start=None, **options):
    (m, k), n = a.shape, b.shape[1]
    out = memory.room(out_kind, m * n) if start is None else memory.put(out_kind, start)
    memory.launch(_dot, (1,), out, memory.put(kind, a), memory.put(kind, b), m, n, k, precision,
                  start is not None, **options)
    return memory.get(out, (m, n))


EXACT = [(FP16, FP32), (FP16, FP16), (BF16, FP32), (FP32, FP32), (FP64, FP64), (INT8, INT32), (FP8E5, FP32),
         (FP8E4B15, FP32)]
SHAPES = [(16, 16, 16), (32, 64, 32), (64, 16, 64), (128, 32, 32)]


@pytest.mark.parametrize("added", [False, True], ids=["alone", "added"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind, out", EXACT, ids=[f"{a}-{b}" for a, b in EXACT])
def test_dot(memory, kind, out, shape, added):
    m, n, k = shape
    k = max(k, 32) if kind.itemsize == 1 else k
    a, b = _whole(kind, (m, k), 1), _whole(kind, (k, n), 2)
    start = _whole(out, (m, n), 3) if added else None
    want = a.astype(np.float64) @ b.astype(np.float64) + (0 if start is None else start)
    same(_multiplied(memory, kind, out, a, b, None, start), want.astype(out.values))


@pytest.mark.parametrize("precision, bound", [("ieee", 1e-6), ("tf32", 2e-3), ("tf32x3", 4e-6), ("bf16x3", 3e-5),
                                              ("bf16x6", 4e-6)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_precisions_of_float32(memory, shape, precision, bound):
    """Each within what it promises of sums of products below 1."""
    m, n, k = shape
    random = np.random.default_rng(4)
    a, b = (random.uniform(-1, 1, it).astype(np.float32) for it in ((m, k), (k, n)))
    got = _multiplied(memory, FP32, FP32, a, b, precision)
    near(got, a.astype(np.float64) @ b.astype(np.float64), 0, bound * k**0.5)
    if precision == "tf32":
        # And it is tf32 indeed: nothing better.
        assert np.abs(got - a.astype(np.float64) @ b.astype(np.float64)).max() > 1e-6


@pytest.mark.parametrize("kind", **named([FP16, BF16]))
def test_any_numbers(memory, kind):
    random = np.random.default_rng(5)
    a, b = (kind.round(random.standard_normal(it).astype(np.float32)) for it in ((64, 64), (64, 64)))
    near(_multiplied(memory, kind, FP32, a.astype(kind.values), b.astype(kind.values)),
         a.astype(np.float64) @ b.astype(np.float64), 0, 1e-4)


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("kind, out", [(FP16, FP32), (FP32, FP32), (INT8, INT32)], ids=["f16", "f32", "i8"])
def test_warps(memory, kind, out, warps):
    a, b = _whole(kind, (64, 64), 6), _whole(kind, (64, 64), 7)
    got = _multiplied(memory, kind, out, a, b, num_warps=warps)
    same(got, (a.astype(np.float64) @ b.astype(np.float64)).astype(out.values))


@triton.jit
def _allowed(out, a, b, N: tl.constexpr, TF32: tl.constexpr):
    tl.store(_rows(out, N, N), tl.dot(tl.load(_rows(a, N, N)), tl.load(_rows(b, N, N)), allow_tf32=TF32))


@pytest.mark.parametrize("allowed", [False, True], ids=["ieee", "tf32"])
def test_allow_tf32(memory, allowed):
    x = np.random.default_rng(8).uniform(-1, 1, (32, 32)).astype(np.float32)
    out, array = memory.room(FP32, 1024), memory.put(FP32, x)
    memory.launch(_allowed, (1,), out, array, array, 32, allowed)
    near(memory.get(out, (32, 32)), x.astype(np.float64) @ x.astype(np.float64), 0, 1e-2 if allowed else 5e-6)


@triton.jit
def _batched(out, a, b, B: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, B)[:, None, None] * (N * N) + tl.arange(0, N)[None, :, None] * N + tl.arange(0, N)[None, None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@pytest.mark.parametrize("kind", **named([FP16, FP32]))
def test_batches(memory, kind):
    a, b = _whole(kind, (4, 32, 32), 9), _whole(kind, (4, 32, 32), 10)
    out = memory.room(FP32, a.size)
    memory.launch(_batched, (1,), out, memory.put(kind, a), memory.put(kind, b), 4, 32)
    same(memory.get(out, a.shape), (a.astype(np.float32) @ b.astype(np.float32)))


@triton.jit
def _matmul(out, a, b, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in tl.range(0, k, BK, num_stages=STAGES):
        l = start + tl.arange(0, BK)
        left = tl.load(a + i[:, None] * k + l[None, :], mask=(i[:, None] < m) & (l[None, :] < k), other=0)
        right = tl.load(b + l[:, None] * n + j[None, :], mask=(l[:, None] < k) & (j[None, :] < n), other=0)
        total = tl.dot(left, right, total)
    inside = (i[:, None] < m) & (j[None, :] < n)
    tl.store(out + i[:, None] * n + j[None, :], total.to(out.dtype.element_ty), mask=inside)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(64, 64, 128), (100, 80, 96), (33, 65, 130)], ids=str)
@pytest.mark.parametrize("kind", **named([FP16, BF16, FP32]))
def test_matmul_in_stages(memory, kind, shape, stages):
    """A loop whose loads run ahead of its products, by copies that the kernel does not wait for."""
    m, n, k = shape
    a, b = _whole(kind, (m, k), 11), _whole(kind, (k, n), 12)
    out = memory.room(FP32, m * n)
    memory.launch(_matmul, (-(-m // 32), -(-n // 32)), out, memory.put(kind, a), memory.put(kind, b), m, n, k,
                  32, 32, 32, stages)
    same(memory.get(out, (m, n)), (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32))


@triton.jit
def _attention(out, q, k, v, scale, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr, STEP: tl.constexpr):
    query = tl.load(_rows(q, ROWS, WIDTH))
    top = tl.full((ROWS, ), float("-inf"), tl.float32)
    weight = tl.zeros((ROWS, ), tl.float32)
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in range(0, KEYS, STEP):
        keys = tl.load(_rows(k + start * WIDTH, STEP, WIDTH))
        score = tl.dot(query, tl.trans(keys)) * scale
        now = tl.maximum(top, tl.max(score, 1))
        power = tl.exp(score - now[:, None])
        old = tl.exp(top - now)
        weight = weight * old + tl.sum(power, 1)
        values = tl.load(_rows(v + start * WIDTH, STEP, WIDTH))
        total = tl.dot(power.to(values.dtype), values, total * old[:, None])
        top = now
    tl.store(_rows(out, ROWS, WIDTH), total / weight[:, None])


@pytest.mark.parametrize("kind", **named([FP16, BF16, FP32]))
def test_attention(memory, kind):
    random = np.random.default_rng(13)
    q, k, v = (kind.round(random.standard_normal(it).astype(np.float32).astype(kind.values))
               for it in ((32, 32), (128, 32), (128, 32)))
    out = memory.room(FP32, 32 * 32)
    memory.launch(_attention, (1,), out, *(memory.put(kind, it) for it in (q, k, v)), 0.2, 32, 128, 32, 32)
    q, k, v = (it.astype(np.float64) for it in (q, k, v))
    power = np.exp(q @ k.T * 0.2)
    near(memory.get(out, (32, 32)), power / power.sum(1, keepdims=True) @ v, 0, 2e-2 if kind is BF16 else 5e-3)


@triton.jit
def _scaled(out, a, a_scale, b, b_scale, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
            A: tl.constexpr, B: tl.constexpr, APACK: tl.constexpr, BPACK: tl.constexpr):
    left = tl.load(_rows(a, M, K // APACK))
    right = tl.load(_rows(b, K // BPACK, N))
    scale = tl.load(_rows(a_scale, M, K // 32))
    other = tl.load(_rows(b_scale, N, K // 32))
    tl.store(_rows(out, M, N), tl.dot_scaled(left, scale, A, right, other, B))


def _e2m1(codes):
    """Numbers of four bits: sign, two of exponent, one of mantissa."""
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    return np.where(codes & 8, -table[codes & 7], table[codes & 7])


def _operand(memory, name, shape, axis, seed):
    """What a kernel is given, how many numbers are in each byte, and the numbers."""
    random = np.random.default_rng(seed)
    if name == "e2m1":
        codes = random.integers(0, 16, shape).astype(np.uint8)
        first, second = (np.take(codes, np.arange(start, shape[axis], 2), axis) for start in (0, 1))
        return memory.put(UINT8, first | second << 4), 2, _e2m1(codes)
    if name == "e5m2":
        codes = random.integers(0x30, 0x44, shape).astype(np.uint8)
        return memory.put(UINT8, codes), 1, FP8E5.unpack(codes).astype(np.float64)
    kind = BF16 if name == "bf16" else FP16
    values = random.integers(-3, 4, shape).astype(kind.values)
    return memory.put(kind, values), 1, values.astype(np.float64)


FORMATS = [("e2m1", "e2m1"), ("e5m2", "e5m2"), ("bf16", "bf16"), ("fp16", "fp16"), ("e2m1", "bf16"), ("e5m2", "e2m1"),
           ("fp16", "e5m2")]


@pytest.mark.parametrize("left, right", FORMATS, ids=[f"{a}-{b}" for a, b in FORMATS])
def test_dot_scaled(memory, left, right):
    """Each 32 numbers along the sum have a power of two of their own."""
    m, n, k = 32, 32, 64
    a, a_pack, a_values = _operand(memory, left, (m, k), 1, 14)
    b, b_pack, b_values = _operand(memory, right, (k, n), 0, 15)
    random = np.random.default_rng(16)
    scales = [random.integers(124, 130, shape).astype(np.uint8) for shape in ((m, k // 32), (n, k // 32))]
    out = memory.room(FP32, m * n)
    memory.launch(_scaled, (1,), out, a, memory.put(UINT8, scales[0]), b, memory.put(UINT8, scales[1]), m, n, k,
                  left, right, a_pack, b_pack)
    powers = [np.repeat(2.0 ** (it.astype(np.int64) - 127), 32, 1) for it in scales]
    near(memory.get(out, (m, n)), (a_values * powers[0]) @ (b_values * powers[1].T), 0, 1e-3)
