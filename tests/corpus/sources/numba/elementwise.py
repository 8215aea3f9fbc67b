"""Elementwise Numba kernels: mathematics, types, complex numbers, shapes."""

import math

import numpy as np
from numba import complex64, types

from harness import functions as fn
from harness.case import (Buffer, Raw, close, data, f64, i32, i64, integers, uniform,
                          zeros)
from harness.numba_ptx import Array, case, cuda

n = 300


def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


x, y = uniform(n, -3, 3, "float64"), uniform(n, -3, 3, "float64")
case(axpy, 3, 128, [(types.float64, f64(1.25)), x, y],
     {y: close(1.25 * x.array + y.array, 1e-15)})


def waves(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        v = x[i]
        out[i, 0] = math.sin(v)
        out[i, 1] = math.cos(v)
        out[i, 2] = math.tan(v * np.float32(0.1))
        out[i, 3] = math.exp(-v * v)
        out[i, 4] = math.tanh(v)
        out[i, 5] = math.atan2(v, np.float32(2.0))


x, out = uniform(n, -12, 12), zeros((n, 6))
v = x.array.astype(float)
want = np.stack([np.sin(v), np.cos(v), np.tan(v * np.float32(0.1)), np.exp(-v * v), np.tanh(v),
                 np.arctan2(v, 2)], 1)
case(waves, 5, 64, [x, out], {out: close(want, 1e-5, 1e-6)})


def gammas(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        v = x[i]
        out[0, i] = math.gamma(v)
        out[1, i] = math.lgamma(v)
        out[2, i] = math.erf(v)
        out[3, i] = math.erfc(v)
        out[4, i] = math.log1p(v)
        out[5, i] = math.expm1(v)
        out[6, i] = v ** 2.5
        out[7, i] = math.hypot(v, 3.0)
        out[8, i] = math.acosh(v + 1.0)
        out[9, i] = math.fmod(v, 0.7)


x, out = uniform(n, 0.1, 9, "float64"), zeros((10, n), "float64")
v = x.array
want = [fn.gamma(v), fn.lgamma(v), fn.erf(v), fn.erfc(v), np.log1p(v), np.expm1(v), v**2.5,
        np.hypot(v, 3), np.arccosh(v + 1), np.fmod(v, 0.7)]
case(gammas, 5, 64, [x, out], {out: close(np.stack(want), 1e-12, 1e-14)})


def complex_step(z, c, out):
    i = cuda.grid(1)
    if i < z.size:
        w = z[i]
        for _ in range(4):
            w = w * w + c
        out[i] = w / (z[i] + c)


real, imaginary = uniform(n).array, uniform(n).array
z, out = data((real + 1j * imaginary).astype(np.complex64)), data(np.zeros(n, np.complex64))
w = z.array.astype(complex)
c = np.complex64(0.3 + 0.5j)
for _ in range(4):
    w = w * w + c
want = (w / (z.array + c)).astype(np.complex64)



def as_floats(buffer):
    """The same memory as pairs of floats."""
    pairs = Buffer(buffer.array.view(np.float32))
    array = Array(pairs, (n,))
    array.dtype = np.dtype(np.complex64)
    return pairs, array


(zb, za), (ob, oa) = as_floats(z), as_floats(out)
scalar = Raw(np.array([c]).tobytes(), 4)
case(complex_step, 3, 128, [za, (complex64, scalar), oa],
     {ob: close(want.view(np.float32), 3e-5)})


def narrow(a, b, out, flags):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = np.uint8(a[i] + b[i]) ^ np.uint8(a[i] >> 3)
        flags[i] = (a[i] > b[i]) and not (a[i] & 1)


a, b = integers(n, 0, 256, "uint8"), integers(n, 0, 256, "uint8")
out, flags = zeros(n, "uint8"), zeros(n, "uint8")
case(narrow, 3, 128, [a, b, out, flags],
     {out: (a.array + b.array) ^ (a.array >> 3), flags: (a.array > b.array) & (a.array % 2 == 0)})


def transpose(source, target):
    tile = cuda.shared.array((16, 17), types.int32)
    row, column = cuda.blockIdx.y * 16, cuda.blockIdx.x * 16
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    if row + ty < source.shape[0] and column + tx < source.shape[1]:
        tile[ty, tx] = source[row + ty, column + tx]
    cuda.syncthreads()
    if column + ty < source.shape[1] and row + tx < source.shape[0]:
        target[column + ty, row + tx] = tile[tx, ty]


source, target = integers((37, 50)), zeros((50, 37), "int32")
case(transpose, (4, 3), (16, 16), [source, target], {target: source.reshape(37, 50).T})


def collatz(out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        v, steps = i + 1, 0
        while v != 1:
            v = v // 2 if v % 2 == 0 else 3 * v + 1
            steps += 1
        out[i] = steps


def steps(v):
    """Length of a Collatz sequence."""
    count = 0
    while v != 1:
        v, count = v // 2 if v % 2 == 0 else 3 * v + 1, count + 1
    return count


out = zeros(500, "int64")
case(collatz, 2, 64, [out], {out: np.array([steps(i + 1) for i in range(500)])}, arch=75)


def mandelbrot(out, limit):
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        cr, ci = -2.0 + x * 0.0625, -1.25 + y * 0.0625
        zr, zi, count = 0.0, 0.0, 0
        while count < limit and zr * zr + zi * zi <= 4.0:
            zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
            count += 1
        out[y, x] = count


def escapes(x, y, limit):
    """Iterations until a point escapes; the kernel's sums may be fused."""
    cr, ci, zr, zi, count = -2.0 + x * 0.0625, -1.25 + y * 0.0625, 0.0, 0.0, 0
    while count < limit and zr * zr + zi * zi <= 4.0:
        zr, zi, count = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci, count + 1
    return count


out = zeros((40, 48), "int32")
want = np.array([[escapes(x, y, 30) for x in range(48)] for y in range(40)])
case(mandelbrot, (3, 3), (16, 16), [out, (types.int32, i32(30))], {out: want}, fastmath=False)


def index_views(a, out, step):
    i = cuda.grid(1)
    row = a[::2, i % 5:]
    if i < 20:
        total = 0
        for k in range(row.shape[0]):
            total += row[k, 1] * (k + 1)
        out[i] = total // step - (total % step) * i


a, out = integers((9, 8), -100, 100, "int64"), zeros(20, "int64")
want = []
for i in range(20):
    total = int((a.reshape(9, 8)[::2, i % 5 + 1] * np.arange(1, 6)).sum())
    want.append(total // 7 - total % 7 * i)
case(index_views, 1, 32, [a, out, (types.int64, i64(7))], {out: np.array(want)})
