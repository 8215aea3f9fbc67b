"""Reference functions that NumPy lacks, in double precision and by plain definitions."""

import math

import numpy as np

erf = np.vectorize(math.erf)
erfc = np.vectorize(math.erfc)
gamma = np.vectorize(math.gamma)
lgamma = np.vectorize(math.lgamma)


def normcdf(x):
    """The normal distribution."""
    return 0.5 * erfc(-np.asarray(x, float) / math.sqrt(2))


def inverse(function, slope, y, start):
    """Solves function(x) = y by Newton's method from `start`."""
    x = start
    for _ in range(60):
        x = x - (function(x) - y) / slope(x)
    return x


def erf_slope(x):
    """Derivative of erf."""
    return 2 / math.sqrt(math.pi) * np.exp(-x * x)


def erfinv(y):
    """Inverse of erf."""
    return inverse(erf, erf_slope, np.asarray(y, float), np.zeros(len(y)))


def normcdfinv(y):
    """Inverse of the normal distribution."""
    return math.sqrt(2) * erfinv(2 * np.asarray(y, float) - 1)


# Periodic integrands: the trapezoid rule converges faster than any power of the step.
_ANGLES = (np.arange(4000) + 0.5) * math.pi / 4000


def bessel_j(order, x):
    """Bessel's function of the first kind, from its integral."""
    x = np.asarray(x, float)[:, None]
    return np.cos(order * _ANGLES - x * np.sin(_ANGLES)).mean(1)


def bessel_i0(x):
    """The modified Bessel function of order 0."""
    return np.exp(np.asarray(x, float)[:, None] * np.cos(_ANGLES)).mean(1)


def erfcx(x):
    """Scaled complementary error function."""
    x = np.asarray(x, float)
    return np.exp(x * x) * erfc(x)
