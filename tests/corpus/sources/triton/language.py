"""Triton's language beyond products: joins, gathers, custom reductions, formats of 8 bits."""

import numpy as np
import triton
import triton.language as tl

from harness.case import close, data, i32, integers, uniform, zeros
from harness.triton_ptx import case


@triton.jit
def bins(x, out, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(out + tl.arange(0, 32), tl.histogram(v, 32))


x, out = integers(512, 0, 32), zeros(32, "int32")
case(bins, 1, [x, out], {out: np.bincount(x.array, minlength=32)}, {"B": 512})


@triton.jit
def flipped(x, out, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    a, b = tl.split(tl.reshape(v, (B // 2, 2)))
    tl.store(out + tl.arange(0, B), tl.flip(v))
    tl.store(out + B + tl.arange(0, B), tl.interleave(b, a))
    tl.store(out + 2 * B + tl.arange(0, B), tl.cat(a, b, can_reorder=False))


x, out = integers(128), zeros(384, "int32")
v = x.array
case(flipped, 1, [x, out],
     {out: np.concatenate([v[::-1], v.reshape(64, 2)[:, ::-1].reshape(-1), v[::2], v[1::2]])},
     {"B": 128}, warps=2)


@triton.jit
def largest(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def linear(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def folds(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(out + i, tl.associative_scan(v, 0, largest))
    tl.store(out + B, tl.reduce(v, 0, largest))
    _, s = tl.associative_scan((tl.load(y + i), v), 0, linear)
    tl.store(out + B + 1 + i, s)
    tl.store(out + 2 * B + 1 + i, tl.cumsum(v, 0, reverse=True))


x, y, out = uniform(256), uniform(256), zeros(769)
v = x.array.astype(float)
state, states = 0.0, []
for a, b in zip(y.array.astype(float), v):
    state = state * a + b
    states.append(state)
case(folds, 1, [x, y, out],
     {out: close(np.concatenate([np.maximum.accumulate(v), [v.max()], states,
                                 v[::-1].cumsum()[::-1]]), 1e-5)}, {"B": 256})


@triton.jit
def picks(x, index, out, N: tl.constexpr, M: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, M)
    v = tl.load(x + i[:, None] * M + j[None, :])
    k = tl.load(index + i[:, None] * M + j[None, :])
    tl.store(out + i[:, None] * M + j[None, :], tl.gather(v, k, 1))


x, index, out = uniform((16, 32)), integers((16, 32), 0, 32), zeros((16, 32))
case(picks, 1, [x, index, out],
     {out: np.take_along_axis(x.shaped, index.shaped, 1)}, {"N": 16, "M": 32})


@triton.jit
def eights(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(out + i, v.to(tl.float8e5).to(tl.float32))
    tl.store(out + B + i, v.to(tl.float8e4nv).to(tl.float32))


def eighth(v, bits, least):
    """Values rounded to floats of `bits` of precision whose smallest exponent is `least`."""
    v = v.astype(float)
    exponent = np.maximum(np.floor(np.log2(np.abs(v))), least)
    unit = 2.0**(exponent - bits + 1)
    return np.rint(v / unit) * unit


x, out = uniform(256, -100, 100), zeros(512)
case(eights, 1, [x, out], {out: np.concatenate([eighth(x.array, 3, -14), eighth(x.array, 4, -6)])},
     {"B": 256}, arch=89)


@triton.jit
def inline(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    r = tl.inline_asm_elementwise("lop3.b32 $0, $1, $2, 0x55, 0x96; prmt.b32 $0, $0, $1, 0x3175;",
                                  "=r,r,r", [v, v >> 3], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out + i, r)


x, out = integers(128), zeros(128, "int32")
v = x.array
mixed = (v ^ v >> 3 ^ 0x55).view(np.uint8).reshape(-1, 4)
both = np.concatenate([mixed, v.view(np.uint8).reshape(-1, 4)], 1)
case(inline, 1, [x, out], {out: both[:, [5, 7, 1, 3]].copy().view(np.int32)}, {"B": 128})


@triton.jit
def batched(a, b, c, Z: tl.constexpr, N: tl.constexpr):
    z, i, j = tl.arange(0, Z), tl.arange(0, N), tl.arange(0, N)
    at = z[:, None, None] * N * N + i[None, :, None] * N + j[None, None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


a, b = uniform((4, 16, 16), dtype="float16"), uniform((4, 16, 16), dtype="float16")
c = zeros((4, 16, 16))
case(batched, 1, [a, b, c], {c: close(a.shaped.astype(float) @ b.shaped.astype(float), 1e-5)},
     {"Z": 4, "N": 16})


@triton.jit
def persistent(x, out, n, blocks, B: tl.constexpr):
    for block in tl.range(tl.program_id(0), blocks, tl.num_programs(0), num_stages=2):
        i = block * B + tl.arange(0, B)
        v = tl.load(x + i, i < n, other=0.0, eviction_policy="evict_first", cache_modifier=".cg")
        tl.store(out + i, v * 2 + 1, i < n, eviction_policy="evict_last")


x, out = uniform(1000), zeros(1000)
case(persistent, 3, [x, out, ("i32", i32(1000)), ("i32", i32(8))], {out: x.array * 2 + 1},
     {"B": 128})


@triton.jit
def narrow_atomics(x, out, brain, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < n, other=0.0)
    tl.atomic_add(out + i % 16, v.to(tl.float16), i < n)
    tl.atomic_add(brain + i % 8, v.to(tl.bfloat16), i < n)


x = integers(256, -3, 4)
values = x.array.astype(np.float32)

x, out, brain = data(values), zeros(16, "float16"), zeros(8, "bfloat16")
case(narrow_atomics, 2, [x, out, brain, ("i32", i32(256))],
     {out: values.reshape(16, 16).sum(0), brain: values.reshape(32, 8).sum(0)}, {"B": 128}, arch=90)


@triton.jit
def lock(flag, total, n):
    while tl.atomic_cas(flag, 0, 1) == 1:
        pass
    v = tl.load(total, volatile=True)
    tl.store(total, v * 3 + 1)
    tl.debug_barrier()
    tl.atomic_xchg(flag, 0)


flag, total, value = zeros(1, "int32"), zeros(1, "int32"), 0
for _ in range(16):
    value = value * 3 + 1
case(lock, 16, [flag, total, ("i32", i32(1))], {total: np.array([value])}, warps=1)


@triton.jit
def ranks(x, out, B: tl.constexpr, K: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    tl.store(out + tl.arange(0, K), tl.topk(v, K))


x, out = uniform(128), zeros(8)
case(ranks, 1, [x, out], {out: -np.sort(-x.array)[:8]}, {"B": 128, "K": 8})


@triton.jit
def normal(out, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.sqrt_rn(tl.abs(tl.randn(seed, i))) * 0 + tl.div_rn(i.to(tl.float32), 7.0))


out = zeros(128)
case(normal, 1, [out, ("i32", i32(5))],
     {out: np.arange(128, dtype=np.float32) / np.float32(7)}, {"B": 128})
