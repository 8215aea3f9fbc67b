"""What sm_90 adds, without its matrix groups and tensor copies."""

import numpy as np

from harness.case import close, i32, integers, uniform, zeros
from harness.nvrtc import Source

cu = Source(__file__, arch=90)
n = 256


def rounded(v, bits, least):
    """Values rounded to floats of `bits` of precision whose smallest exponent is `least`."""
    v = v.astype(float)
    exponent = np.maximum(np.floor(np.log2(np.abs(v))), least)
    unit = 2.0**(exponent - bits + 1)
    return np.rint(v / unit) * unit


def encoded(v, bits, least, size):
    """Their 8 bits; `size` is the number of fraction bits."""
    magnitude = np.abs(v)
    exponent = np.maximum(np.floor(np.log2(np.maximum(magnitude, 1e-30))), least)
    fraction = magnitude / 2.0**(exponent - size)
    normal = fraction >= 2**size
    code = np.where(normal, (exponent - least + 1) * 2**size + fraction - 2**size, fraction)
    return (code + 128 * np.signbit(v)).astype(np.uint8)


x = uniform(n, -200, 200)
x.array[:64] *= np.float32(1e-3)
x.fill = None
a, b, back = zeros(n, "uint8"), zeros(n, "uint8"), zeros(n)
p, q = rounded(x.array, 4, -6), rounded(x.array, 3, -14)
cu.case("eights", 2, 32, [x, a, b, back, i32(n)],
        {a: encoded(p, 4, -6, 3), b: encoded(q, 3, -14, 2), back: close(p + q, 1e-7)})

x, out = integers(192, -1000, 1000), zeros(192, "int32")
s = x.reshape(3, 64)
for k in range(3):
    s = np.roll(s + k if k else s, -13, 1) * 3
cu.case("barriers", 3, 64, [x, out], {out: s})

x, out = integers((5, 64), -99, 99), zeros(64, "int32")
want = np.zeros(64, int)
for row in x.shaped:
    want = want * 7 + row
cu.case("pipeline", 1, 64, [x, out, i32(5)], {out: want})

x, out = integers((2, 96, 4)), zeros((2, 96, 4), "int32")
cu.case("copies", 2, 96, [x, out], {out: x.shaped[:, ::-1]})

x, out = integers(32, 1, 100), zeros(32, "int32")
cu.case("elected", 1, 32, [x, out], {out: np.full(32, x.array[0] * 1000 + 1)})
