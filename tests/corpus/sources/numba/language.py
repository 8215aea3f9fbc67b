"""More of Numba: intrinsics, divisions, votes of blocks, stacks, three dimensions."""

import math

import numpy as np
from numba import types

from harness.case import close, f64, i64, integers, uniform, zeros
from harness.numba_ptx import case, cuda

n = 200


def intrinsics(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = cuda.fma(x[i], x[i], np.float32(1))
        out[1, i] = cuda.cbrt(x[i])
        out[2, i] = cuda.selp(x[i] > 0, np.float32(2), np.float32(3))
        out[3, i] = round(x[i] * 10)
        out[4, i] = math.floor(x[i] * 3) + math.ceil(x[i] * 5)
        out[5, i] = math.copysign(2.0, x[i]) + math.degrees(x[i])
        out[6, i] = math.frexp(x[i])[0] + math.ldexp(x[i], 3)
        out[7, i] = min(max(x[i], np.float32(-0.5)), np.float32(0.5))
        out[8, i] = math.sqrt(math.fabs(x[i])) + math.log1p(math.fabs(x[i]))


x, out = uniform(n, -2, 2), zeros((9, n))
v = x.array.astype(float)
want = [v * v + 1, np.cbrt(v), np.where(v > 0, 2, 3), np.rint(x.array * np.float32(10)),
        np.floor(v * 3) + np.ceil(v * 5), np.copysign(2, v) + np.degrees(v),
        np.frexp(v)[0] + v * 8, np.clip(v, -0.5, 0.5), np.sqrt(abs(v)) + np.log1p(abs(v))]
case(intrinsics, 2, 128, [x, out], {out: close(np.stack(want), 2e-6)})


def division(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = a[i] // b[i]
        out[1, i] = a[i] % b[i]
        out[2, i] = abs(a[i]) >> (b[i] & 31)
        out[3, i] = a[i] ** 3
        q, r = divmod(a[i], 17)
        out[4, i] = q * 100 + r


a, b, out = integers(n, -10**12, 10**12, "int64"), integers(n, 1, 10**6, "int64"), zeros((5, n), "int64")
# Numba raises an integer to a power in integers and then makes a float of it.
p, q = a.array, b.array
with np.errstate(over="ignore"):
    want = [p // q, p % q, abs(p) >> (q & 31),
            (p**3).astype(float).astype(np.int64), p // 17 * 100 + p % 17]
case(division, 2, 128, [a, b, out], {out: np.stack(want)})


def warp_groups(x, out):
    i = cuda.grid(1)
    mask = cuda.activemask()
    v = x[i]
    cuda.syncwarp(mask)
    pred = cuda.match_all_sync(0xFFFFFFFF, v // 1000)[1]
    total = cuda.syncthreads_count(1 if v > 500 else 0)
    both = cuda.syncthreads_and(1 if v >= 0 else 0) + 2 * cuda.syncthreads_or(1 if v > 998 else 0)
    out[i] = total * 10 + both + (100000 if pred else 0)


x, out = integers(96, 0, 1000), zeros(96, "int32")
v = x.array
total = (v > 500).sum() * 10 + 1 + 2 * (v > 998).any() + 100000
case(warp_groups, 1, 96, [x, out], {out: np.full(96, total)})


def tree(x, depth, out):
    i = cuda.grid(1)
    stack = cuda.local.array(16, types.int64)
    top, total = 0, 0
    stack[0] = x[i]
    while top >= 0:
        v = stack[top]
        top -= 1
        total += v
        if v > depth and top < 13:
            stack[top + 1] = v // 2
            stack[top + 2] = v // 3
            top += 2
    out[i] = total


def summed(v, depth):
    """`tree` for one number."""
    stack, total = [v], 0
    while stack:
        v = stack.pop()
        total += v
        if v > depth and len(stack) < 14:
            stack += [v // 2, v // 3]
    return total


x, out = integers(64, 0, 5000, "int64"), zeros(64, "int64")
case(tree, 2, 32, [x, (types.int64, i64(40)), out],
     {out: np.array([summed(int(v), 40) for v in x.array])})


def stencil3(u, out, k):
    i, j, l = cuda.grid(3)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1 and 0 < l < u.shape[2] - 1:
        s = (u[i - 1, j, l] + u[i + 1, j, l] + u[i, j - 1, l] + u[i, j + 1, l] + u[i, j, l - 1]
             + u[i, j, l + 1] - 6 * u[i, j, l])
        out[i, j, l] = u[i, j, l] + k * s


u, out = uniform((8, 9, 10), dtype="float64"), zeros((8, 9, 10), "float64")
v = u.shaped
want = np.zeros_like(v)
c = v[1:-1, 1:-1, 1:-1]
want[1:-1, 1:-1, 1:-1] = c + 0.1 * (v[:-2, 1:-1, 1:-1] + v[2:, 1:-1, 1:-1] + v[1:-1, :-2, 1:-1]
                                    + v[1:-1, 2:, 1:-1] + v[1:-1, 1:-1, :-2] + v[1:-1, 1:-1, 2:] - 6 * c)
case(stencil3, (2, 3, 3), (4, 4, 4), [u, out, (types.float64, f64(0.1))], {out: close(want, 1e-14)})


def text(x, out):
    i = cuda.grid(1)
    if i < out.size:
        v, k = x[i], 0
        if v < 0:
            v, k = -v, 1
        while True:
            k += 1
            v //= 10
            if v == 0:
                break
        out[i] = k


x, out = integers(100), zeros(100, "int32")
case(text, 1, 128, [x, out], {out: np.array([len(str(int(v))) for v in x.array])})
