"""CUDA's double precision functions."""

import math

import numpy as np

from harness import functions as fn
from harness.case import Want, close, i32, uniform, zeros
from harness.nvrtc import Source

DTYPE = "float64"
cu = Source(__file__, arch=80)
n = 200


REMAINDER = np.vectorize(math.remainder)


def case(entry, low, high, rows, relative, absolute=None):
    """A kernel whose rows are functions of two inputs with these ranges."""
    a, b = uniform(n, low[0], low[1], DTYPE), uniform(n, high[0], high[1], DTYPE)
    x, y = a.array.astype(float), b.array.astype(float)
    table = np.stack([np.broadcast_to(row, n) for row in rows(x, y)])
    out = zeros(table.size, DTYPE)
    want = close(table, relative, absolute) if relative else Want(table)
    cu.case(entry, 4, 64, [a, b, out, i32(n)], {out: want})


def trigonometry(x, y):
    """Rows of `trigonometry`."""
    sin, cos = np.sin(x), np.cos(x)
    return [sin, cos, np.tan(y), np.arctan(x), np.arctan2(x, y), np.arcsin(y), np.arccos(y), sin,
            cos, np.sin(np.pi * y), np.cos(np.pi * y)]


def hyperbolic(x, y):
    """Rows of `hyperbolic`."""
    return [np.sinh(x), np.cosh(x), np.tanh(x), np.arcsinh(x), np.arccosh(1 + np.abs(x)),
            np.arctanh(y)]


def exponential(x, y):
    """Rows of `exponential`."""
    return [np.exp(x), np.exp2(x), 10.0**x, np.expm1(x), np.log(y), np.log2(y), np.log10(y),
            np.log1p(y), y**x, np.cbrt(x), 1 / np.cbrt(y), np.hypot(x, y), np.sqrt(y),
            1 / np.sqrt(y), np.sqrt(x * x + y * y + 1)]


def special(x, y):
    """Rows of `special`."""
    return [fn.erf(x), fn.erfc(x), fn.gamma(y), fn.lgamma(y), fn.erfinv(x * 0.33), fn.normcdf(x),
            fn.bessel_j(0, y), fn.bessel_j(1, y), fn.bessel_j(3, y), fn.bessel_i0(x), fn.erfcx(y),
            -fn.erfinv(x * 0.16 - 0.5), fn.normcdfinv(0.5 + x * 0.16)]


def parts(x, y):
    """Rows of `parts`: exact."""
    kind = np.dtype(DTYPE).type
    index = np.arange(n)
    fraction, exponent = np.frexp(x)
    away = np.copysign(np.floor(np.abs(x) + 0.5), x)
    step = np.nextafter(x.astype(kind), y.astype(kind))
    return [np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), away, np.rint(x), np.fmod(x, y),
            REMAINDER(x, y), np.ldexp(x, index % 40 - 20), step, np.copysign(x, y),
            np.maximum(x - y, 0).astype(kind), exponent - 1, fraction, exponent, x - np.trunc(x),
            np.trunc(x), np.frexp(y)[1] - 1, np.ldexp(y.astype(kind), index % 300 - 150),
            np.abs(y), np.maximum(x, y), np.minimum(x, y), np.rint(x), away, 4 * np.signbit(x)]


case("trigonometry", (-300, 300), (-0.99, 0.99), trigonometry, 4e-15)
case("hyperbolic", (-8, 8), (-0.99, 0.99), hyperbolic, 4e-15)
case("exponential", (-20, 20), (0.01, 30), exponential, 1e-13, 1e-300)
case("special", (-2.9, 2.9), (0.1, 8), special, 2e-12)
case("parts", (-50, 50), (-7, 7), parts, 0)
