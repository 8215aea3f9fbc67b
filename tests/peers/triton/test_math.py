"""`tl.math`: functions of one to three numbers in every type they take."""

import math
from fractions import Fraction

import numpy as np
import pytest
import triton
import triton.language as tl

from elementwise import elementwise, near, refused, same, spread
from kinds import BF16, FLOATS, FP16, FP32, FP64, FP8E4B15, FP8E5, INTEGERS, UINT8, named

WIDE = named([FP32, FP64])


@triton.jit
def _exp(x):
    return tl.exp(x)


@triton.jit
def _exp2(x):
    return tl.exp2(x)


@triton.jit
def _log(x):
    return tl.log(x)


@triton.jit
def _log2(x):
    return tl.log2(x)


@triton.jit
def _sin(x):
    return tl.sin(x)


@triton.jit
def _cos(x):
    return tl.cos(x)


@triton.jit
def _sqrt(x):
    return tl.sqrt(x)


@triton.jit
def _sqrt_rn(x):
    return tl.sqrt_rn(x)


@triton.jit
def _rsqrt(x):
    return tl.rsqrt(x)


@triton.jit
def _erf(x):
    return tl.erf(x)


@triton.jit
def _floor(x):
    return tl.floor(x)


@triton.jit
def _ceil(x):
    return tl.ceil(x)


@triton.jit
def _abs(x):
    return tl.abs(x)


@triton.jit
def _sigmoid(x):
    return tl.sigmoid(x)


@triton.jit
def _fma(x, y, z):
    return tl.fma(x, y, z)


@triton.jit
def _umulhi(x, y):
    return tl.umulhi(x, y)


@triton.jit
def _fdiv(x, y):
    return tl.fdiv(x, y)


@triton.jit
def _fdiv_ieee(x, y):
    return tl.fdiv(x, y, ieee_rounding=True)


@triton.jit
def _fdiv_approx(x, y):
    return tl.fdiv(x, y, approx=True)


@triton.jit
def _div_rn(x, y):
    return tl.div_rn(x, y)


def _numbers(kind, low, high, count=512):
    """Random numbers of a range, with its ends."""
    values = np.linspace(low, high, count).astype(kind.values)
    return kind.round(values)


def _wide(function, values):
    """The function in 64 bits, as an array."""
    with np.errstate(all="ignore"):
        return function(values.astype(np.float64))


@pytest.mark.parametrize("kind", **WIDE)
def test_exp(memory, kind):
    x = np.append(_numbers(kind, -80, 80), np.array([0, -np.inf, np.inf, np.nan, 1000, -1000], kind.values))
    # The ISA's ex2.approx is within 2 units, and the product before it costs with its size.
    near(elementwise(memory, _exp, kind, (kind, x)), _wide(np.exp, x), 128 if kind is FP32 else 2, 1e-40)


@pytest.mark.parametrize("kind", **WIDE)
def test_exp2(memory, kind):
    x = np.append(_numbers(kind, -100, 100), np.array([0, -np.inf, np.inf, np.nan, 2000, -2000], kind.values))
    near(elementwise(memory, _exp2, kind, (kind, x)), _wide(np.exp2, x), 4, 1e-40)


@pytest.mark.parametrize("kind", **WIDE)
def test_log(memory, kind):
    x = np.append(_numbers(kind, 1e-6, 1e6), np.array([1, 0, -1, np.inf, np.nan, 1e-30], kind.values))
    near(elementwise(memory, _log, kind, (kind, x)), _wide(np.log, x), 4, 2e-7 if kind is FP32 else 0)


@pytest.mark.parametrize("kind", **WIDE)
def test_log2(memory, kind):
    x = np.append(_numbers(kind, 1e-6, 1e6), np.array([1, 0, -1, np.inf, np.nan, 2, 1024], kind.values))
    near(elementwise(memory, _log2, kind, (kind, x)), _wide(np.log2, x), 4, 2e-7 if kind is FP32 else 0)


@pytest.mark.parametrize("kind", **WIDE)
def test_sin(memory, kind):
    x = np.append(_numbers(kind, -30, 30), np.array([0, np.inf, np.nan, 1e5], kind.values))
    near(elementwise(memory, _sin, kind, (kind, x)), _wide(np.sin, x), 4)


@pytest.mark.parametrize("kind", **WIDE)
def test_cos(memory, kind):
    x = np.append(_numbers(kind, -30, 30), np.array([0, np.inf, np.nan, 1e5], kind.values))
    near(elementwise(memory, _cos, kind, (kind, x)), _wide(np.cos, x), 4)


@pytest.mark.parametrize("kind", **WIDE)
def test_sqrt(memory, kind):
    x = np.append(_numbers(kind, 0, 1e6), np.array([-0.0, -1, np.inf, np.nan, 2, 1e-30], kind.values))
    near(elementwise(memory, _sqrt, kind, (kind, x)), _wide(np.sqrt, x), 3)


def test_sqrt_rn(memory):
    x = spread(FP32, 1024)
    with np.errstate(all="ignore"):
        same(elementwise(memory, _sqrt_rn, FP32, (FP32, x)), np.sqrt(x))


@pytest.mark.parametrize("kind", **WIDE)
def test_rsqrt(memory, kind):
    x = np.append(_numbers(kind, 1e-3, 1e6), np.array([-1, np.inf, np.nan, 4, 0], kind.values))
    near(elementwise(memory, _rsqrt, kind, (kind, x)), _wide(lambda it: 1 / np.sqrt(it), x), 3)


@pytest.mark.parametrize("kind", **WIDE)
def test_erf(memory, kind):
    x = np.append(_numbers(kind, -6, 6), np.array([0, np.inf, -np.inf, np.nan], kind.values))
    near(elementwise(memory, _erf, kind, (kind, x)), np.vectorize(math.erf)(x.astype(np.float64)), 4)


@pytest.mark.parametrize("kind", **WIDE)
def test_floor(memory, kind):
    x = spread(kind)
    same(elementwise(memory, _floor, kind, (kind, x)), np.floor(x))


@pytest.mark.parametrize("kind", **WIDE)
def test_ceil(memory, kind):
    x = spread(kind)
    same(elementwise(memory, _ceil, kind, (kind, x)), np.ceil(x))


@pytest.mark.parametrize("kind", **named([*INTEGERS, *FLOATS]))
def test_abs(memory, kind):
    x = spread(kind)
    with np.errstate(all="ignore"):
        same(elementwise(memory, _abs, kind, (kind, x)), np.abs(x))


@pytest.mark.parametrize("kind", **named([FP8E5, FP8E4B15]))
def test_abs_of_eight_bits(memory, kind):
    codes = np.arange(256, dtype=np.uint8)
    x = kind.unpack(codes)
    x = x[~np.isnan(x)]
    same(elementwise(memory, _abs, kind, (kind, x)), np.abs(x))


@pytest.mark.parametrize("kind", **WIDE)
def test_sigmoid(memory, kind):
    x = np.append(_numbers(kind, -20, 20), np.array([0, np.inf, -np.inf, np.nan], kind.values))
    want = _wide(lambda it: 1 / (1 + np.exp(-it)), x)
    near(elementwise(memory, _sigmoid, kind, (kind, x)), want, 32)


@pytest.mark.parametrize("kind", **named(FLOATS))
def test_fma(memory, kind):
    x, y, z = (kind.round(np.random.default_rng(seed).standard_normal(512).astype(kind.values)) for seed in (1, 2, 3))
    got = elementwise(memory, _fma, kind, (kind, x), (kind, y), (kind, z))
    if kind is FP64:
        same(got, np.array([_rounded_once(*it) for it in zip(x.tolist(), y.tolist(), z.tolist())]))
    else:
        # A product is exact in 64 bits, and that the sum is rounded twice changes none of these.
        wide = x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)
        same(got, kind.round(wide) if kind.small else wide.astype(kind.values))


def _rounded_once(x, y, z):
    """A fused multiply and add, rounded once: by whole fractions."""
    return float(Fraction(x) * Fraction(y) + Fraction(z))


@pytest.mark.parametrize("kind", **named([it for it in INTEGERS if it.bits >= 32]))
def test_umulhi(memory, kind):
    x, y = spread(kind, seed=1), spread(kind, seed=2)
    # Of signed types too it is the product of the bits.
    mask = (1 << kind.bits) - 1
    want = [((int(a) & mask) * (int(b) & mask)) >> kind.bits for a, b in zip(x, y)]
    want = np.array(want, np.uint64).astype(f"uint{kind.bits}").view(kind.values)
    same(elementwise(memory, _umulhi, kind, (kind, x), (kind, y)), want)


@pytest.mark.parametrize("function, ulps", [(_fdiv, 2), (_fdiv_ieee, 0), (_fdiv_approx, 2), (_div_rn, 0)],
                         ids=["fdiv", "ieee", "approx", "div_rn"])
def test_division_of_float32(memory, function, ulps):
    x, y = spread(FP32, seed=1), spread(FP32, seed=2)
    with np.errstate(all="ignore"):
        want = x / y
    got = elementwise(memory, function, FP32, (FP32, x), (FP32, y))
    (near(got, want, ulps) if ulps else same(got, want))


def test_division_of_float64(memory):
    x, y = spread(FP64, seed=1), spread(FP64, seed=2)
    with np.errstate(all="ignore"):
        same(elementwise(memory, _fdiv, FP64, (FP64, x), (FP64, y)), x / y)


@pytest.mark.parametrize("kind", **named([FP16, BF16]))
def test_fdiv_of_halves(memory, kind):
    x, y = spread(kind, seed=1), spread(kind, seed=2)
    with np.errstate(all="ignore"):
        want = x.astype(np.float32) / y.astype(np.float32)
    near(elementwise(memory, _fdiv, FP32, (kind, x), (kind, y)), want, 2)


@pytest.mark.parametrize("function", [_exp, _exp2, _log, _log2, _sin, _cos, _sqrt, _rsqrt, _erf, _floor, _ceil],
                         ids=lambda it: it.__name__)
def test_types_that_functions_refuse(memory, function):
    """What a type lacks is refused by Triton, and nothing else is calculated in its place."""
    for kind in (FP16, BF16, UINT8):
        with refused("Expected dtype"):
            elementwise(memory, function, kind, (kind, spread(kind)))
