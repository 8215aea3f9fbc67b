"""What functions of libdevice are, in NumPy and 64 bits, and values to ask them about."""

import math

import numpy as np

from kinds import FP32


def each(function):
    """A function of Python's numbers, of arrays; what it has no value for is NaN."""
    def called(*numbers):
        try:
            return function(*map(float, numbers))
        except (ValueError, ZeroDivisionError):
            return math.nan
        except OverflowError:
            return math.inf
    return np.vectorize(called, otypes=[np.float64])


def _around(function, x):
    """The mean of a smooth function of x and an angle over a whole turn: equal steps are as good as exact."""
    angle = np.arange(256) * (2 * np.pi / 256)
    return function(np.asarray(x, np.float64)[..., None], angle).mean(-1)


def _integral(function, x, start, end, panels=32):
    """Of a smooth function of x and a variable, by Gauss and Legendre on equal panels."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    width = (end - start) / panels
    at = (start + width * (np.arange(panels)[:, None] + (nodes + 1) / 2)).reshape(-1)
    return (function(np.asarray(x, np.float64)[..., None], at) * np.tile(weights, panels)).sum(-1) * width / 2


def jn(n, x):
    return _around(lambda at, t: np.cos(n * t - at * np.sin(t)), x)


def yn(n, x):
    first = _integral(lambda at, t: np.sin(at * np.sin(t) - n * t), x, 0, np.pi) / np.pi
    with np.errstate(all="ignore"):
        second = _integral(lambda at, t: (np.exp(n * t) + (-1)**n * np.exp(-n * t)) * np.exp(-at * np.sinh(t)),
                           x, 0, 9) / np.pi
    return first - second


def bessel_i(n, x):
    return _around(lambda at, t: np.exp(at * np.cos(t)) * np.cos(n * t), x)


def _inverse(function, slope, low, high):
    """Where a growing or falling function has a value: by halving, and then by Newton's steps."""
    def solve(value):
        a, b = low, high
        rises = function(high) > function(low)
        for _ in range(80):
            middle = (a + b) / 2
            if (function(middle) < value) == rises:
                a = middle
            else:
                b = middle
        x = (a + b) / 2
        for _ in range(3):
            x -= (function(x) - value) / slope(x)
        return x
    return each(solve)


_BELL = 2 / math.sqrt(math.pi)
erfinv = _inverse(math.erf, lambda x: _BELL * math.exp(-x * x), -4, 4)
erfcinv = _inverse(math.erfc, lambda x: -_BELL * math.exp(-x * x), -4, 5)
normcdf = each(lambda x: math.erfc(-x / math.sqrt(2)) / 2)
normcdfinv = _inverse(lambda x: math.erfc(-x / math.sqrt(2)) / 2,
                      lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi), -6, 6)

#: Name: the function; from where to where it is asked; how many units in the last place it may be off
#: (32 bits, 64 bits): about what the manual of CUDA's functions bounds them by, and the reference's own.
ONE = {
    "acos": (np.arccos, -1, 1, 4, 4), "acosh": (np.arccosh, 1, 1e6, 6, 6), "asin": (np.arcsin, -1, 1, 4, 4),
    "asinh": (np.arcsinh, -1e3, 1e3, 6, 6), "atan": (np.arctan, -50, 50, 4, 4),
    "atanh": (np.arctanh, -0.99, 0.99, 6, 6), "cbrt": (np.cbrt, -1e6, 1e6, 3, 3), "ceil": (np.ceil, -9, 9, 0, 0),
    "floor": (np.floor, -9, 9, 0, 0), "trunc": (np.trunc, -9, 9, 0, 0), "rint": (np.rint, -9, 9, 0, 0),
    "nearbyint": (np.rint, -9, 9, 0, 0), "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), -9, 9, 0, 0),
    "cos": (np.cos, -1e3, 1e3, 4, 4), "sin": (np.sin, -1e3, 1e3, 4, 4), "tan": (np.tan, -1e2, 1e2, 6, 6),
    "cosh": (np.cosh, -50, 50, 4, 4), "sinh": (np.sinh, -50, 50, 5, 5), "tanh": (np.tanh, -12, 12, 4, 4),
    "cospi": (lambda x: np.cos(np.pi * np.fmod(x, 2)), -9, 9, 4, 4),
    "sinpi": (lambda x: np.sin(np.pi * np.fmod(x, 2)), -9, 9, 4, 4),
    "cyl_bessel_i0": (lambda x: bessel_i(0, x), -20, 20, 16, 40),
    "cyl_bessel_i1": (lambda x: bessel_i(1, x), -20, 20, 16, 40),
    "j0": (lambda x: jn(0, x), -30, 30, 16, 40), "j1": (lambda x: jn(1, x), -30, 30, 16, 40),
    "y0": (lambda x: yn(0, x), 0.5, 30, 16, 40), "y1": (lambda x: yn(1, x), 0.5, 30, 16, 40),
    "erf": (each(math.erf), -6, 6, 4, 4), "erfc": (each(math.erfc), -6, 6, 8, 8),
    "erfcx": (each(lambda x: math.exp(x * x) * math.erfc(x)), -5, 5, 16, 60),
    "erfinv": (erfinv, -0.99, 0.99, 6, 12), "erfcinv": (erfcinv, 0.01, 1.99, 8, 12),
    "normcdf": (normcdf, -4, 4, 16, 32), "normcdfinv": (normcdfinv, 0.001, 0.9, 12, 16),
    "exp": (np.exp, -80, 80, 4, 4), "exp2": (np.exp2, -100, 100, 4, 4), "exp10": (lambda x: 10.0**x, -30, 30, 4, 4),
    "expm1": (np.expm1, -20, 50, 4, 4), "log": (np.log, 1e-3, 1e6, 4, 4), "log10": (np.log10, 1e-3, 1e6, 4, 4),
    "log1p": (np.log1p, -0.9, 1e3, 4, 4), "log2": (np.log2, 1e-3, 1e6, 4, 4),
    "logb": (lambda x: np.floor(np.log2(np.abs(x))), 0.1, 1e6, 0, 0), "lgamma": (each(math.lgamma), 0.1, 50, 16, 16),
    "tgamma": (each(math.gamma), 0.1, 20, 12, 12), "sqrt": (np.sqrt, 0, 1e6, 0, 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-3, 1e6, 3, 3), "rcbrt": (lambda x: 1 / np.cbrt(x), 1e-3, 1e6, 3, 3),
}

#: Functions that go through zero, or near it, are bounded absolutely there (32 bits, 64 bits).
ABSOLUTE = {"cospi": (2**-22, 2**-50), "sinpi": (2**-22, 2**-50), "lgamma": (2**-22, 2**-50),
            "erfcinv": (2**-22, 2**-50), "normcdfinv": (2**-22, 2**-50),
            **dict.fromkeys(("j0", "j1", "y0", "y1", "jn", "yn"), (2.2e-6, 5e-12))}

#: The same with several operands.
SEVERAL = {
    "atan2": (np.arctan2, 2, 4, 4), "copysign": (np.copysign, 2, 0, 0),
    "fdim": (lambda x, y: np.where(x > y, x - y, 0.0), 2, 1, 1), "fmod": (np.fmod, 2, 0, 0),
    "remainder": (each(math.remainder), 2, 0, 0),
    "hypot": (np.hypot, 2, 4, 4), "rhypot": (lambda x, y: 1 / np.hypot(x, y), 2, 4, 4),
    "pow": (lambda x, y: np.abs(x)**y, 2, 16, 4), "norm3d": (lambda *x: np.sqrt(sum(it * it for it in x)), 3, 5, 5),
    "rnorm3d": (lambda *x: 1 / np.sqrt(sum(it * it for it in x)), 3, 5, 5),
    "norm4d": (lambda *x: np.sqrt(sum(it * it for it in x)), 4, 5, 5),
    "rnorm4d": (lambda *x: 1 / np.sqrt(sum(it * it for it in x)), 4, 5, 5),
}

#: Quick ones of 32 bits: the function, its range, and how far off the result may be, absolutely and relatively.
FAST = {
    "fast_sinf": (np.sin, -3, 3, 1e-6, 0), "fast_cosf": (np.cos, -3, 3, 1e-6, 0),
    "fast_tanf": (np.tan, -1.2, 1.2, 1e-5, 0),
    "fast_log2f": (np.log2, 0.1, 100, 1e-6, 1e-6), "fast_logf": (np.log, 0.1, 100, 1e-6, 1e-6),
    "fast_log10f": (np.log10, 0.1, 100, 1e-6, 1e-6), "fast_expf": (np.exp, -20, 20, 0, 1e-5),
    "fast_exp10f": (lambda x: 10.0**x, -9, 9, 0, 1e-5),
    "saturatef": (lambda x: np.clip(x, 0, 1), -2, 2, 0, 0),
}


def between(kind, low, high, count=256):
    """Numbers of a range of a type, with its ends, none of them round."""
    numbers = np.linspace(low, high, count) + np.random.default_rng(1).uniform(0, (high - low) / count, count)
    numbers[0], numbers[-1] = low, high
    return np.clip(numbers, low, high).astype(kind.values)


def operands(kind, count, size=256):
    """So many arrays of numbers of both signs and several sizes."""
    random = np.random.default_rng(2)
    scale = 2.0 ** random.integers(-3, 4 if kind is FP32 else 5, (count, size))
    return [row.astype(kind.values) for row in random.standard_normal((count, size)) * scale]
