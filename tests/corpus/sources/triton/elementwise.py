"""Triton kernels without cooperation between elements, or with reductions along a row."""

import numpy as np
import triton
import triton.language as tl
from triton.language.extra import libdevice

from harness import functions as fn
from harness.case import close, f32, from_bf16, i32, i64, integers, uniform, zeros
from harness.triton_ptx import case


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask) + tl.load(y + i, mask), mask)


n = 1000
x, y, out = uniform(n), uniform(n), zeros(n)
case(add, 4, [x, y, out, ("i32", i32(n))], {out: x.array + y.array}, {"BLOCK": 256})
x, y, out = uniform(n), uniform(n), zeros(n)
case(add, 1, [x, y, out, ("i32", i32(n), 8)], {out: x.array + y.array}, {"BLOCK": 1024}, arch=90,
     name="add_vector")
x, y, out = integers(n, dtype="int16"), integers(n, dtype="int16"), zeros(n, "int16")
case(add, 8, [x, y, out, ("i32", i32(n))], {out: x.array + y.array}, {"BLOCK": 128}, arch=75,
     name="add_short", warps=1, aligned=False)
x, y, out = uniform(n, dtype="bfloat16"), uniform(n, dtype="bfloat16"), zeros(n, "bfloat16")
case(add, 4, [x, y, out, ("i32", i32(n))],
     {out: from_bf16(x.array) + from_bf16(y.array)}, {"BLOCK": 256}, name="add_bfloat")


@triton.jit
def activations(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x + i, mask, other=0.0)
    tl.store(out + i, tl.sigmoid(v) * v, mask)
    tl.store(out + n + i, 0.5 * v * (1 + tl.math.erf(v * 0.70710678)), mask)
    tl.store(out + 2 * n + i, tl.where(v > 0, v, 0.1 * (tl.exp(v) - 1)), mask)
    tl.store(out + 3 * n + i, tl.sqrt(tl.abs(v)) + tl.rsqrt(tl.abs(v) + 1), mask)
    tl.store(out + 4 * n + i, tl.sin(v) * tl.cos(v), mask)
    tl.store(out + 5 * n + i, tl.log(tl.abs(v) + 1) + tl.exp2(v) + tl.log2(tl.abs(v) + 2), mask)
    tl.store(out + 6 * n + i, tl.floor(v) + tl.ceil(v * 2) + tl.fma(v, v, 1.0), mask)


x, out = uniform(n, -5, 5), zeros(7 * n)
v = x.array.astype(float)
s = 1 / (1 + np.exp(-v))
want = [v * s, 0.5 * v * (1 + fn.erf(v * 0.70710678)), np.where(v > 0, v, 0.1 * np.expm1(v)),
        np.sqrt(np.abs(v)) + 1 / np.sqrt(np.abs(v) + 1), np.sin(v) * np.cos(v),
        np.log(np.abs(v) + 1) + np.exp2(v) + np.log2(np.abs(v) + 2),
        np.floor(v) + np.ceil(v * 2) + v * v + 1]
case(activations, 4, [x, out, ("i32", i32(n))], {out: close(np.stack(want), 5e-6)}, {"BLOCK": 256})


@triton.jit
def library(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    a, b = tl.load(x + i, mask, other=1.0), tl.load(y + i, mask, other=1.0)
    tl.store(out + i, libdevice.pow(a, b), mask)
    tl.store(out + n + i, libdevice.tgamma(a), mask)
    tl.store(out + 2 * n + i, libdevice.atan2(b, a), mask)
    tl.store(out + 3 * n + i, libdevice.log1p(a), mask)
    tl.store(out + 4 * n + i, libdevice.acosh(a + 1), mask)
    tl.store(out + 5 * n + i, libdevice.tanh(b), mask)
    tl.store(out + 6 * n + i, libdevice.fmod(a, b * 0 + 0.75), mask)
    tl.store(out + 7 * n + i, libdevice.j0(a), mask)


m = 200
x, y, out = uniform(m, 0.2, 6, "float64"), uniform(m, -3, 3, "float64"), zeros(8 * m, "float64")
a, b = x.array, y.array
want = [a**b, fn.gamma(a), np.arctan2(b, a), np.log1p(a), np.arccosh(a + 1), np.tanh(b),
        np.fmod(a, 0.75), fn.bessel_j(0, a)]
case(library, 4, [x, y, out, ("i32", i32(m))], {out: close(np.stack(want), 1e-12)}, {"BLOCK": 64},
     warps=2)


@triton.jit
def integers_mixed(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    a, b = tl.load(x + i, mask, other=1), tl.load(y + i, mask, other=1)
    tl.store(out + i, a // b, mask)
    tl.store(out + n + i, a % b, mask)
    tl.store(out + 2 * n + i, (a << 3) ^ (b >> 2) | (a & b), mask)
    tl.store(out + 3 * n + i, tl.maximum(a, b) - tl.minimum(a, -b), mask)
    tl.store(out + 4 * n + i, tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32), mask)
    tl.store(out + 5 * n + i, a.to(tl.int8).to(tl.int32) * b.to(tl.int16).to(tl.int32), mask)
    tl.store(out + 6 * n + i, (a.to(tl.float32) * 0.001).to(tl.int32), mask)


x, y, out = integers(n), integers(n, 1, 10**6), zeros(7 * n, "int32")
a, b = x.array.astype(np.int64), y.array.astype(np.int64)
cut = (np.abs(a) // b) * np.sign(a)
want = [cut, a - cut * b, (a << 3) ^ (b >> 2) | (a & b), np.maximum(a, b) - np.minimum(a, -b),
        (a % 2**32) * b >> 32, a.astype(np.int8).astype(int) * b.astype(np.int16),
        np.trunc(x.array.astype(np.float32) * np.float32(0.001))]
case(integers_mixed, 4, [x, y, out, ("i32", i32(n))],
     {out: np.stack(want).astype(np.int64).astype(np.int32)}, {"BLOCK": 256})


@triton.jit
def softmax(x, out, columns, stride, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, i < columns, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * stride + i, e / tl.sum(e, 0), i < columns)


def softmax_of(v):
    """Softmax along the last axis."""
    e = np.exp(v - v.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


x, out = uniform((6, 300), -8, 8), zeros((6, 300))
case(softmax, 6, [x, out, ("i32", i32(300)), ("i32", i32(300))],
     {out: close(softmax_of(x.reshape(6, 300).astype(float)), 1e-5, 1e-9)}, {"BLOCK": 512})


@triton.jit
def layernorm(x, gain, bias, out, columns, eps, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    mask = i < columns
    v = tl.load(x + row * columns + i, mask, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / columns
    d = tl.where(mask, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, 0) / columns + eps)
    v = d * scale * tl.load(gain + i, mask, other=0.0) + tl.load(bias + i, mask, other=0.0)
    tl.store(out + row * columns + i, v, mask)


x, gain, bias = uniform((5, 200), -3, 3, "float16"), uniform(200), uniform(200)
out = zeros((5, 200), "float16")
v = x.reshape(5, 200).astype(float)
v = (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5)
case(layernorm, 5, [x, gain, bias, out, ("i32", i32(200)), ("fp32", f32(1e-5))],
     {out: close(v * gain.array + bias.array, 1e-3)}, {"BLOCK": 256})


@triton.jit
def reductions(x, out, place, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    v = tl.load(x + r[:, None] * COLUMNS + c[None, :])
    tl.store(out + c, tl.sum(v, 0))
    tl.store(out + COLUMNS + c, tl.max(v, 0))
    tl.store(out + 2 * COLUMNS + r, tl.min(v, 1))
    tl.store(out + 2 * COLUMNS + ROWS + r, tl.sum(v, 1))
    tl.store(place + r, tl.argmax(v, 1))
    tl.store(place + ROWS + c, tl.argmin(v, 0))


x, out, place = integers((32, 64), -999, 999), zeros(192, "int32"), zeros(96, "int32")
v = x.reshape(32, 64)
case(reductions, 1, [x, out, place],
     {out: np.concatenate([v.sum(0), v.max(0), v.min(1), v.sum(1)]),
      place: np.concatenate([v.argmax(1), v.argmin(0)])}, {"ROWS": 32, "COLUMNS": 64})


@triton.jit
def scans(x, out, first, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, tl.cumsum(v, 0))
    tl.store(first + i, tl.cumprod((v % 7 + 8).to(tl.int64) | 1, 0))


x, out, first = integers(512, -1000, 1000), zeros(512, "int32"), zeros(512, "int64")
v = x.array.astype(np.int64)
with np.errstate(over="ignore"):
    product = np.multiply.accumulate((np.fmod(v, 7) + 8) | 1)
case(scans, 1, [x, out, first, ("i32", i32(512))], {out: np.cumsum(v), first: product},
     {"BLOCK": 512})


@triton.jit
def ordered(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.sort(tl.load(x + i)))


x, out = integers(256, -10**6, 10**6), zeros(256, "int32")
case(ordered, 1, [x, out], {out: np.sort(x.array)}, {"BLOCK": 256}, warps=2)


@triton.jit
def counts(x, bins, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.atomic_add(bins + tl.load(x + i, mask, other=0), 1, mask)


x, bins = integers(n, 0, 20), zeros(20, "int32")
case(counts, 4, [x, bins, ("i32", i32(n))], {bins: np.bincount(x.array, minlength=20)},
     {"BLOCK": 256})


@triton.jit
def atomics(x, out, real, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x + i, mask, other=1)
    tl.atomic_max(out + 0 * v, v, mask)
    tl.atomic_min(out + 1 + 0 * v, v, mask)
    tl.atomic_xor(out + 2 + 0 * v, v, mask, sem="relaxed")
    tl.atomic_or(out + 3 + 0 * v, v, mask, scope="cta")
    tl.atomic_cas(out + 4 + 0 * v, 0 * v, v * 0 + 5)
    tl.atomic_add(real + tl.program_id(0), tl.sum(v.to(tl.float32) * mask, 0), sem="release")


x, out, real = integers(n, 1, 9999), zeros(5, "int32"), zeros(4)
v = x.array
want = np.array([v.max(), 0, np.bitwise_xor.reduce(v), np.bitwise_or.reduce(v), 5])
parts = [v[k:k + 256].sum() for k in range(0, 1000, 256)]
case(atomics, 4, [x, out, real, ("i32", i32(n))], {out: want, real: np.array(parts)},
     {"BLOCK": 256})


@triton.jit
def dropout(x, out, n, seed, rate, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, i) > rate
    v = tl.load(x + i, i < n)
    tl.store(out + i, tl.where(keep, v / (1 - rate), 0.0), i < n)
    tl.store(out + n + i, tl.randint(seed, i).to(tl.float32), i < n)


def philox(counter, seed):
    """First word of Philox 4x32 with ten rounds, as Triton keys it."""
    m = 2**32
    c, k = [counter, 0, 0, 0], [seed % m, seed >> 32]
    for _ in range(10):
        p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [q >> 32 ^ c[1] ^ k[0], q % m, p >> 32 ^ c[3] ^ k[1], p % m]
        k = [(k[0] + 0x9E3779B9) % m, (k[1] + 0xBB67AE85) % m]
    return c[0]


x, out = uniform(n), zeros(2 * n)
words = np.array([philox(i, 123456789012) for i in range(n)])
signed = words.astype(np.uint32).view(np.int32)
unit = np.where(signed < 0, -signed.astype(np.int64) - 1, signed).astype(np.float32) * np.float32(
    4.6566127342e-10)
want = [np.where(unit > 0.3, x.array / (1 - np.float32(0.3)), 0), words.astype(np.float32)]
case(dropout, 4, [x, out, ("i32", i32(n)), ("i64", i64(123456789012)), ("fp32", f32(0.3))],
     {out: close(np.stack(want), 1e-6)}, {"BLOCK": 256}, arch=86)


@triton.jit
def gather(table, index, out, width, BLOCK: tl.constexpr):
    row = tl.load(index + tl.program_id(0))
    i = tl.arange(0, BLOCK)
    v = tl.load(table + row * width + i, i < width)
    tl.store(out + tl.program_id(0) * width + i, v, i < width)


table, index, out = uniform((50, 96)), integers(20, 0, 50, "int64"), zeros((20, 96))
case(gather, 20, [table, index, out, ("i32", i32(96), 16)],
     {out: table.reshape(50, 96)[index.array]}, {"BLOCK": 128}, warps=1)


@triton.jit
def convert(x, half, brain, signed, wide, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    v = tl.load(x + i, mask, other=0.0)
    tl.store(half + i, v.to(tl.float16), mask)
    tl.store(brain + i, v.to(tl.bfloat16), mask)
    tl.store(signed + i, v.to(tl.int8), mask)
    tl.store(wide + i, (v * 1000).to(tl.int64).to(tl.float64), mask)


x = uniform(n, -100, 100)
outs = [zeros(n, "float16"), zeros(n, "bfloat16"), zeros(n, "int8"), zeros(n, "float64")]
v = x.array
case(convert, 4, [x, *outs, ("i32", i32(n))],
     {outs[0]: v.astype(np.float16), outs[1]: v, outs[2]: np.trunc(v).astype(np.int8),
      outs[3]: np.trunc(v * np.float32(1000)).astype(float)}, {"BLOCK": 256}, arch=89)
