"""Directed rounding against exact rational arithmetic."""

import math
from fractions import Fraction

import numpy as np

from harness.case import data, i32, integers, uniform, zeros
from harness.nvrtc import Source

cu = Source(__file__, arch=75)
n = 150
MODES = ("rn", "rz", "rd", "ru")


def integer(value, mode):
    """A rational rounded to an integer."""
    low = math.floor(value)
    if mode == "rd":
        return low
    up = low if value == low else low + 1
    if mode == "ru":
        return up
    if mode == "rz":
        return low if value >= 0 else up
    rest = value - low
    return up if rest > Fraction(1, 2) or rest == Fraction(1, 2) and low % 2 else low


def rounded(value, bits, mode, least=-1022):
    """A rational rounded to a float of `bits` of precision; no overflow is expected."""
    if value == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(value))) if 1e-300 < abs(value) < 1e300 else 0
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - bits + 1)
    return float(integer(value / unit, mode) * unit)


def root(value, bits, mode):
    """A square root: enough digits of it, and a sticky one."""
    scale = 4**120
    whole = math.isqrt(int(value * scale))
    exact = Fraction(whole * whole, scale) == value
    return rounded(Fraction(2 * whole + (not exact), 2 * 2**120), bits, mode)


def table(x, y, z, bits):
    """All rows of a kernel."""
    operations = [lambda a, b, c: a + b, lambda a, b, c: a - b, lambda a, b, c: a * b,
                  lambda a, b, c: a / b, lambda a, b, c: a * b + c, lambda a, b, c: 1 / a]
    triples = [tuple(map(Fraction, triple)) for triple in zip(x.tolist(), y.tolist(), z.tolist())]
    rows = [[rounded(op(*triple), bits, mode) for triple in triples]
            for op in operations for mode in MODES]
    rows += [[root(abs(a), bits, mode) for a, _, _ in triples] for mode in MODES]
    return np.array(rows)


for entry, dtype, bits in (("single", "float32", 24), ("twice", "float64", 53)):
    a, b, c = (uniform(n, -10, 10, dtype) for _ in range(3))
    out = zeros(28 * n, dtype)
    cu.case(entry, 3, 64, [a, b, c, out, i32(n)], {out: table(a.array, b.array, c.array, bits)})

LIMITS = [(-2**31, 2**31 - 1), (0, 2**32 - 1), (-2**63, 2**63 - 1), (0, 2**64 - 1)]
odd = np.array([0.5, 1.5, -0.5, -1.5, 2.5, 1e10, -1e10, 1e20, -1e20, 2**31, -2**31, 2**32, 2**63,
                2**64, 0.0, -0.0, 4294967295.5, 2147483647.5, 1e-30, -1e-30], float)
single = data(np.concatenate([odd, uniform(n - len(odd), -5e9, 5e9).array]).astype(np.float32))
double = data(np.concatenate([odd, uniform(n - len(odd), -9e18, 9e18, "float64").array]))


def saturated(x, limits, mode):
    """What a conversion to an integer gives."""
    value = min(max(integer(Fraction(x), mode), limits[0]), limits[1])
    return (value + 2**63) % 2**64 - 2**63


want = [[saturated(x, limits, mode) for x in source.array.tolist()]
        for source in (single, double) for limits in LIMITS for mode in MODES]
out = zeros(32 * n, "int64")
cu.case("to_integers", 3, 64, [single, double, out, i32(n)], {out: np.array(want, np.int64)})

words, longs = integers(n), integers(n, dtype="int64")
doubles = uniform(n, -1e6, 1e6, "float64")
out, wide = zeros(20 * n), zeros(4 * n, "float64")
unsigned = [[int(x) % 2**size for x in source.array] for source, size in ((words, 32), (longs, 64))]
signed = [words.array.tolist(), longs.array.tolist()]
sources = [signed[0], unsigned[0], signed[1], unsigned[1], doubles.array.tolist()]
want = [[rounded(Fraction(x), 24, mode) for x in source] for source in sources for mode in MODES]
broad = [[rounded(Fraction(x), 53, mode) for x in source]
         for source, mode in ((signed[1], "rn"), (signed[1], "rd"), (unsigned[1], "ru"),
                              (signed[0], "rn"))]
cu.case("from_integers", 3, 64, [words, longs, doubles, out, wide, i32(n)],
        {out: np.array(want), wide: np.array(broad)})
