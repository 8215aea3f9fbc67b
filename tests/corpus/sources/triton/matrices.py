"""Triton kernels with tensor cores: pipelined products, attention, gradients."""

import numpy as np
import triton
import triton.language as tl

from harness import functions as fn
from harness.case import close, f32, from_bf16, i32, integers, uniform, zeros
from harness.triton_ptx import case


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    pa = a + rows[:, None] * k + inner[None, :]
    pb = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        left = tl.load(pa, (rows[:, None] < m) & (start + inner[None, :] < k), other=0.0)
        right = tl.load(pb, (columns[None, :] < n) & (start + inner[:, None] < k), other=0.0)
        total = tl.dot(left, right, total)
        pa += K
        pb += K * n
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask)


def values(buffer):
    """A buffer's contents in double precision."""
    array = buffer.array
    return (from_bf16(array) if buffer.dtype == "bfloat16" else array).astype(float)


def product(dtype, arch, name, tile, relative, **options):
    """A case of `matmul`."""
    m, n, k = 64, 64, 96
    a, b, c = uniform((m, k), dtype=dtype), uniform((k, n), dtype=dtype), zeros((m, n))
    want = values(a).reshape(m, k) @ values(b).reshape(k, n)
    sizes = [("i32", i32(size), 16) for size in (m, n, k)]
    case(matmul, (m // tile[0], n // tile[1]), [a, b, c, *sizes], {c: close(want, relative)},
         dict(zip("MNK", tile)), arch=arch, name=name, **options)


product("float16", 80, "matmul_half", (32, 32, 32), 1e-4)
product("bfloat16", 80, "matmul_bfloat", (32, 64, 16), 1e-4, warps=2, stages=4)
product("float32", 80, "matmul_tf32", (32, 32, 32), 2e-2)
product("float16", 75, "matmul_turing", (32, 32, 16), 1e-4, stages=1)
product("float16", 86, "matmul_large", (64, 64, 32), 1e-4, warps=8, stages=2)
product("float16", 89, "matmul_ada", (16, 32, 32), 1e-4, warps=1)


@triton.jit
def matmul_exact(a, b, c, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    i, j, k = tl.arange(0, N), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + i[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + j[None, :])
    total = tl.dot(left, right, input_precision=PRECISION)
    tl.store(c + i[:, None] * N + j[None, :], total)


a, b, c = uniform((32, 32)), uniform((32, 32)), zeros((32, 32))
want = values(a).reshape(32, 32) @ values(b).reshape(32, 32)
case(matmul_exact, 1, [a, b, c], {c: close(want, 1e-5)}, {"N": 32, "K": 32, "PRECISION": "ieee"})
a, b, c = uniform((32, 32)), uniform((32, 32)), zeros((32, 32))
want = values(a).reshape(32, 32) @ values(b).reshape(32, 32)
case(matmul_exact, 1, [a, b, c], {c: close(want, 1e-4)}, {"N": 32, "K": 32, "PRECISION": "tf32x3"},
     name="matmul_three")
a, b = integers((32, 64), -128, 128, "int8"), integers((64, 32), -128, 128, "int8")
c = zeros((32, 32), "int32")
want = a.reshape(32, 64).astype(int) @ b.reshape(64, 32).astype(int)
case(matmul_exact, 1, [a, b, c], {c: want}, {"N": 32, "K": 64, "PRECISION": None},
     name="matmul_bytes")
a, b = uniform((32, 32), dtype="float64"), uniform((32, 32), dtype="float64")
c = zeros((32, 32), "float64")
want = a.reshape(32, 32) @ b.reshape(32, 32)
case(matmul_exact, 1, [a, b, c], {c: close(want, 1e-13)}, {"N": 32, "K": 32, "PRECISION": "ieee"},
     name="matmul_double")


@triton.jit
def attention(q, k, v, out, scale, length, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
              CAUSAL: tl.constexpr):
    rows, d = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + d[None, :])
    largest = tl.full((M,), -1e30, tl.float32)
    weight = tl.zeros((M,), tl.float32)
    total = tl.zeros((M, D), tl.float32)
    end = (tl.program_id(0) + 1) * M if CAUSAL else length
    for start in range(0, end, N):
        columns = start + tl.arange(0, N)
        key = tl.load(k + columns[None, :] * D + d[:, None])
        score = tl.dot(query, key) * scale
        if CAUSAL:
            score = tl.where(rows[:, None] >= columns[None, :], score, -1e30)
        bigger = tl.maximum(largest, tl.max(score, 1))
        p = tl.exp2((score - bigger[:, None]) * 1.44269504)
        shrink = tl.exp2((largest - bigger) * 1.44269504)
        weight = weight * shrink + tl.sum(p, 1)
        value = tl.load(v + columns[:, None] * D + d[None, :])
        total = tl.dot(p.to(tl.float16), value, total * shrink[:, None])
        largest = bigger
    tl.store(out + rows[:, None] * D + d[None, :], (total / weight[:, None]).to(tl.float16))


for causal in (False, True):
    length, depth = 64, 32
    q, k, v = (uniform((length, depth), -1, 1, "float16") for _ in range(3))
    out = zeros((length, depth), "float16")
    shape = length, depth
    score = values(q).reshape(shape) @ values(k).reshape(shape).T * 0.25
    if causal:
        score = np.where(np.tri(length, dtype=bool), score, -np.inf)
    p = np.exp(score - score.max(1, keepdims=True))
    want = p / p.sum(1, keepdims=True) @ values(v).reshape(shape)
    case(attention, 2, [q, k, v, out, ("fp32", f32(0.25)), ("i32", i32(length), 16)],
         {out: close(want, 3e-3)}, {"D": depth, "M": 32, "N": 16, "CAUSAL": causal},
         name="attention_causal" if causal else "attention", warps=2, stages=2)


@triton.jit
def linear_gelu(x, w, bias, out, K: tl.constexpr, N: tl.constexpr):
    i, j, k = tl.arange(0, 16), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(x + i[:, None] * K + k[None, :])
    right = tl.load(w + j[None, :] * K + k[:, None])
    y = tl.dot(left, right) + tl.load(bias + j)[None, :]
    y = 0.5 * y * (1 + tl.math.erf(y * 0.70710678))
    tl.store(out + i[:, None] * N + j[None, :], y)


x, w = uniform((16, 64), dtype="bfloat16"), uniform((32, 64), dtype="bfloat16")
bias, out = uniform(32), zeros((16, 32))
y = values(x).reshape(16, 64) @ values(w).reshape(32, 64).T + bias.array
case(linear_gelu, 1, [x, w, bias, out], {out: close(0.5 * y * (1 + fn.erf(y * 0.70710678)), 1e-4)},
     {"K": 64, "N": 32}, arch=90, warps=2)


@triton.jit
def split_k(a, b, c, N: tl.constexpr, K: tl.constexpr, PART: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, N)
    k = tl.program_id(0) * PART + tl.arange(0, PART)
    left = tl.load(a + i[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + j[None, :])
    tl.atomic_add(c + i[:, None] * N + j[None, :], tl.dot(left, right))


a, b, c = uniform((16, 128), dtype="float16"), uniform((128, 16), dtype="float16"), zeros((16, 16))
want = values(a).reshape(16, 128) @ values(b).reshape(128, 16)
case(split_k, 4, [a, b, c], {c: close(want, 1e-4)}, {"N": 16, "K": 128, "PART": 32}, warps=1)


@triton.jit
def transposed(x, out, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + i[:, None] * N + j[None, :])
    turned = tl.trans(tile)
    tl.store(out + j[:, None] * M + i[None, :], turned)


x, out = integers((64, 32), dtype="int16"), zeros((32, 64), "int16")
case(transposed, 1, [x, out], {out: x.reshape(64, 32).T}, {"M": 64, "N": 32})
