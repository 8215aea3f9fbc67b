"""Elementwise kernels."""

import math

import numpy as np

from harness.case import close, f32, f64, i32, integers, uniform, zeros
from harness.nvrtc import Source

cu = Source(__file__, arch=75)

n = 1000
x, y = uniform(n, -4, 4), uniform(n, -2, 2)
a = np.float32(1.7)
exact = np.float64(a) * x.array + y.array.astype(np.float64)  # product exact, one rounding left
# 53 bits do not always hold the sum: NumPy's double rounding is allowed for by half an ulp.
cu.case("saxpy", 4, 256, [f32(a), x, y, i32(n)], {y: close(exact, 1.2e-7, 1e-9)})

x, y, out = uniform(n, -4, 4), uniform(n, -2, 2), zeros(n)
cu.case("stride", 2, 96, [x, y, out, i32(n)], {out: x.array * y.array + x.array})

erf = np.vectorize(math.erf)
x, out = uniform(n, -6, 6), zeros(n)
v = x.array.astype(float)
cu.case("gelu", 4, 256, [x, out, i32(n)], {out: close(0.5 * v * (1 + erf(v * 0.70710678)), 2e-6)})
x, out = uniform(n, -6, 6), zeros(n)
v = x.array.astype(float)
want = 0.5 * v * (1 + np.tanh(0.79788456 * (v + 0.044715 * v**3)))
cu.case("gelu_tanh", 8, 128, [x, out, i32(n)], {out: close(want, 2e-6)})
x, out = uniform(n, -30, 30), zeros(n)
v = x.array.astype(float)
cu.case("silu", 4, 256, [x, out, i32(n)], {out: close(v / (1 + np.exp(-v)), 2e-6, 1e-12)})
x, out = uniform(n, -30, 30), zeros(n)
v = x.array.astype(float)
cu.case("softplus", 4, 256, [x, out, i32(n)], {out: close(np.log1p(np.exp(v)), 2e-6, 1e-12)})

x, y = uniform((256, 4)), uniform((256, 4))
x.array[::16] = y.array[::16]
x.fill = None
total, dots = zeros(1024), zeros(512)
p, q = x.reshape(256, 4), y.reshape(256, 4)
want = np.stack([p[:, 0] + q[:, 0], p[:, 1] - q[:, 1], np.maximum(p[:, 2], q[:, 2]),
                 np.minimum(p[:, 3], q[:, 3])], 1)
same = np.where(p[:, 0] == q[:, 0], 1, -1)
cu.case("vectors", 2, 128, [x, y, total, dots],
        {total: want, dots: close(np.stack([(p.astype(float) * q).sum(1), same], 1), 1e-6)})

pixels, pairs = integers((512, 4), 0, 256, "uint8"), integers((512, 2), -128, 128, "int8")
grey, wide = zeros(2048, "uint8"), zeros(1024, "int16")
p = pixels.reshape(512, 4).astype(int)
v = (p[:, 0] * 77 + p[:, 1] * 150 + p[:, 2] * 29) >> 8
c = pairs.reshape(512, 2).astype(int)
less = np.where(c[:, 0] < c[:, 1], c[:, 0] - c[:, 1], c[:, 1])
cu.case("bytes", 4, 128, [pixels, grey, pairs, wide],
        {grey: np.stack([v, 255 - v, v >> 1, p[:, 3]], 1),
         wide: np.stack([c[:, 0] * c[:, 1], less], 1)})

x, out = uniform(n, -4, 4, "float64"), zeros(n, "float64")
want = np.clip(x.array, -1.5, 2.25) + np.where(np.signbit(x.array), 0.25, 0.5)
cu.case("clamp", 4, 256, [x, f64(-1.5), f64(2.25), out, i32(n)], {out: want})

cube, out = integers((5, 11, 13), 0, 65536, "uint16"), zeros(5 * 11 * 13, "uint16")
z, _, w = np.meshgrid(range(5), range(11), range(13), indexing="ij")
want = (cube.reshape(5, 11, 13) ^ (w << 8 | z).astype(np.uint16)).transpose(2, 1, 0)
cu.case("planes", (4, 3, 3), (4, 4, 2), [cube, out, i32(13), i32(11), i32(5)], {out: want})
