"""Half precision and bfloat16."""

from fractions import Fraction

import numpy as np

from harness.case import close, from_bf16, i32, integers, to_bf16, uniform, zeros
from harness.nvrtc import Source

cu = Source(__file__, arch=80)
n = 200
H = np.float16


a, b = uniform(n, -4, 4, "float16"), uniform(n, -4, 4, "float16")
b.array[np.abs(b.array) < 0.05] = 1
out = zeros(24 * n, "float16")
x, y = a.array.astype(float), b.array.astype(float)
want = [x + y, x - y, x * y, x * y + x, x / y, -x, abs(x), np.maximum(x, y), np.minimum(x, y),
        np.sqrt(abs(x)), np.exp(x), np.log(abs(x)), np.sin(x), np.cos(y), np.tanh(x), 1 / y,
        np.floor(x), np.ceil(x), np.rint(x), np.trunc(x), np.clip(x + y, 0, 1),
        np.maximum(x * y + x, 0), np.exp2(x), 1 / np.sqrt(abs(y))]
# Sums, products and roundings are exact; functions are within an ulp or so.
cu.case("half_math", 4, 64, [a, b, out, i32(n)], {out: close(np.stack(want), 1.1e-3, 1e-4)})

n = 192
a, b = uniform((n, 2), -4, 4, "float16"), uniform((n, 2), -4, 4, "float16")
a.array[::17] = np.nan
a.shaped[1::7] = b.shaped[1::7]
out, flags = zeros((10, n, 2), "float16"), zeros(n, "uint32")
x, y = a.shaped, b.shaped
xd, yd = x.astype(float), y.astype(float)
swap = x.reshape(n // 2, 2, 2)[:, ::-1].reshape(n, 2)
want = np.stack([x + y, x * y, (xd * yd + xd).astype(H), np.fmax(x, y), (x > y).astype(H),
                 x[:, ::-1], np.stack([x[:, 0], y[:, 0]], 1), np.sqrt(abs(xd)).astype(H),
                 np.where(np.isnan(x), 0, np.clip(xd - yd, 0, 1)).astype(H), swap])
word = ((x > y).all(1) + 2 * (x[:, 0] <= y[:, 1]) + 4 * np.isnan(x[:, 0])
        + 8 * (x[:, 0] == x[:, 0]))
cu.case("half_pairs", 3, 64, [a, b, out, flags, i32(n)],
        {out: close(want, 1e-3, 1e-7), flags: word})
n = 200

a, b = uniform(n, -4, 4, "bfloat16"), uniform(n, 0.5, 4, "bfloat16")
x, y = from_bf16(a.array).astype(float), from_bf16(b.array).astype(float)
out = zeros(15 * n, "bfloat16")
want = [x + y, x * y, x * y + x, x / y, np.maximum(x, y), -x, abs(x), np.exp(x), np.sqrt(abs(x)),
        np.where(x > y, x, y - x), x * x + 0.5, y * y + 0.5, np.minimum(x, y), np.floor(x), x - y]
cu.case("bfloat_math", 4, 64, [a, b, out, i32(n)],
        {out: close(np.stack(want).astype(np.float32), 8e-3, 1e-6)})


def rounded(value, bits, least, mode):
    """A rational rounded to a float of `bits` of precision whose smallest exponent is `least`."""
    value = Fraction(value)
    if value == 0:
        return 0.0
    exponent = 0
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(value) < Fraction(2) ** exponent and exponent > least:
        exponent -= 1
    unit = Fraction(2) ** (exponent - bits + 1)
    whole, rest = divmod(value / unit, 1)
    up = {"rd": 0, "ru": rest > 0, "rz": rest > 0 and value < 0,
          "rn": rest > Fraction(1, 2) or rest == Fraction(1, 2) and whole % 2}[mode]
    return float((whole + bool(up)) * unit)


x, k = uniform(n, -300, 300), integers(n, -60000, 60000)
x.array[:40] *= np.float32(2e-8)
x.fill = None
d = uniform(n, -1000, 1000, "float64")
out, back = zeros(13 * n, "uint16"), zeros(9 * n)
MODES = ("rn", "rz", "rd", "ru")
half = [[rounded(v, 11, -14, mode) for v in x.array.tolist()] for mode in MODES]
brain = [[rounded(v, 8, -126, mode) for v in x.array.tolist()] for mode in MODES]
more = [[rounded(v, 11, -14, "rn") for v in k.array.tolist()],
        [rounded(v & 0xFFFF, 11, -14, "rz") for v in k.array.tolist()],
        [rounded(v, 11, -14, "rn") for v in d.array.tolist()]]
last = [[rounded(v, 8, -126, "rn") for v in source.array.tolist()] for source in (d, k)]


def bits16(table):
    """The bits of half precision values."""
    return np.array(table).astype(H).view(np.uint16)


words = np.concatenate([bits16(half), to_bf16(np.array(brain, np.float32)), bits16(more),
                        to_bf16(np.array(last, np.float32))])
h, w = np.array(half[0]), np.array(brain[0])
want = [h, w, np.rint(h), np.floor(h), np.trunc(h), np.ceil(abs(h)), np.rint(h), np.trunc(w), 2 * h]
signed_zero = close(np.stack(want), 0, 1e-30)
cu.case("conversions", 4, 64, [x, k, d, out, back, i32(n)], {out: words, back: signed_zero})

x, out = uniform((6, 128), dtype="float16"), zeros(6)
cu.case("half_reduce", 6, 32, [x, out, i32(128)],
        {out: close(np.sqrt((x.shaped.astype(float)**2).sum(1)), 1e-5)})
