"""Operators of numbers: arithmetic, division and remainder, shifts, bits, comparisons, minimum and maximum."""

import numpy as np
import pytest
import triton
import triton.language as tl

from elementwise import elementwise, near, same, spread
from kinds import FLOATS, FP32, FP64, INT1, INT8, INTEGERS, NUMBERS, UINT8, named


@triton.jit
def _add(x, y):
    return x + y


@triton.jit
def _sub(x, y):
    return x - y


@triton.jit
def _mul(x, y):
    return x * y


@triton.jit
def _named_add(x, y):
    return tl.add(x, y)


@triton.jit
def _named_sub(x, y):
    return tl.sub(x, y)


@triton.jit
def _named_mul(x, y):
    return tl.mul(x, y)


@triton.jit
def _true(x, y):
    return x / y


@triton.jit
def _floor(x, y):
    return x // y


@triton.jit
def _mod(x, y):
    return x % y


@triton.jit
def _cdiv(x, y):
    return tl.cdiv(x, y)


@triton.jit
def _and(x, y):
    return x & y


@triton.jit
def _or(x, y):
    return x | y


@triton.jit
def _xor(x, y):
    return x ^ y


@triton.jit
def _not(x):
    return ~x


@triton.jit
def _minus(x):
    return -x


@triton.jit
def _left(x, y):
    return x << y


@triton.jit
def _right(x, y):
    return x >> y


@triton.jit
def _both(x, y):
    return x and y


@triton.jit
def _either(x, y):
    return x or y


@triton.jit
def _neither(x):
    return not x


def _both_ways(kind, x, y, function):
    """What NumPy makes of it: integers wrap around, and small types are rounded once."""
    with np.errstate(all="ignore"):
        if kind.small:
            return kind.round(function(x.astype(np.float64), y.astype(np.float64)))
        return function(x, y)


@pytest.mark.parametrize("kernel, function", [(_add, np.add), (_sub, np.subtract), (_mul, np.multiply)],
                         ids=["add", "sub", "mul"])
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_arithmetic(memory, kernel, function, kind):
    x, y = spread(kind, seed=1), spread(kind, seed=2)
    y[:16] = y[16:32]
    same(elementwise(memory, kernel, kind, (kind, x), (kind, y)), _both_ways(kind, x, y, function))


@pytest.mark.parametrize("kernel, function", [(_named_add, np.add), (_named_sub, np.subtract),
                                              (_named_mul, np.multiply)], ids=["add", "sub", "mul"])
def test_functions_of_arithmetic(memory, kernel, function):
    for kind in (INTEGERS[2], FP32):
        x, y = spread(kind, seed=1), spread(kind, seed=3)[::-1].copy()
        same(elementwise(memory, kernel, kind, (kind, x), (kind, y)), _both_ways(kind, x, y, function))


def _divisors(kind, seed):
    """Numbers to divide by: not zero, and not the one whose quotient no type holds."""
    values = spread(kind, seed=seed)
    values[values == 0] = 3
    if kind.integer and kind.signed:
        values[values == -1] = -5
    return values


def _quotient(x, y):
    """Integers divided towards zero."""
    with np.errstate(all="ignore"):
        down = x // y
        return np.where((x % y != 0) & ((x < 0) != (y < 0)), down + x.dtype.type(1), down)


@pytest.mark.parametrize("kind", **named(INTEGERS))
def test_floordiv_of_integers(memory, kind):
    """Towards zero, as in C, whatever its name says."""
    x, y = spread(kind, seed=1), _divisors(kind, 2)
    same(elementwise(memory, _floor, kind, (kind, x), (kind, y)), _quotient(x, y))


@pytest.mark.parametrize("kind", **named(INTEGERS))
def test_mod_of_integers(memory, kind):
    """With the sign of the dividend, as in C."""
    x, y = spread(kind, seed=1), _divisors(kind, 2)
    same(elementwise(memory, _mod, kind, (kind, x), (kind, y)), np.fmod(x, y))


@pytest.mark.parametrize("kind", **named([FP32, FP64]))
def test_mod_of_floats(memory, kind):
    random = np.random.default_rng(5)
    x = np.append((random.standard_normal(200) * 100), [5.5, -5.5, 0.0, np.inf, np.nan, 1e5]).astype(kind.values)
    y = np.append((random.standard_normal(200) + 3), [2, 2, 3, 2, 1, 0.7]).astype(kind.values)
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
    got = elementwise(memory, _mod, kind, (kind, x), (kind, y))
    # By a quotient that is rounded: its error times the divisor.
    least = 2.0 ** (-20 if kind is FP32 else -49) * float(np.nanmax(np.abs(x[np.isfinite(x)])))
    # Where the quotient is whole but for its rounding the remainder may be nearly the divisor.
    whole = np.isclose(np.abs(got - want), np.abs(y), rtol=1e-3)
    near(np.where(whole, want, got), want, 4, least)


@pytest.mark.parametrize("kind", **named(INTEGERS))
def test_true_division_of_integers(memory, kind):
    x, y = spread(kind, seed=1), _divisors(kind, 2)
    want = x.astype(np.float32) / y.astype(np.float32)
    near(elementwise(memory, _true, FP32, (kind, x), (kind, y)), want, 2)


@pytest.mark.parametrize("kind", **named(FLOATS))
def test_true_division_of_floats(memory, kind):
    x, y = spread(kind, seed=1), spread(kind, seed=2)
    out = FP64 if kind is FP64 else FP32
    with np.errstate(all="ignore"):
        want = x.astype(out.values) / y.astype(out.values)
    near(elementwise(memory, _true, out, (kind, x), (kind, y)), want, 0 if kind is FP64 else 2)


@pytest.mark.parametrize("kind", **named([it for it in INTEGERS if it.bits >= 32]))
def test_cdiv(memory, kind):
    x = np.arange(256).astype(kind.values)
    y = (np.arange(256) % 17 + 1).astype(kind.values)
    same(elementwise(memory, _cdiv, kind, (kind, x), (kind, y)), -(-x.astype(np.int64) // y.astype(np.int64))
         .astype(kind.values) if kind.signed else ((x + y - kind.values.type(1)) // y))


@pytest.mark.parametrize("kernel, function", [(_and, np.bitwise_and), (_or, np.bitwise_or), (_xor, np.bitwise_xor)],
                         ids=["and", "or", "xor"])
@pytest.mark.parametrize("kind", **named([INT1, *INTEGERS]))
def test_bits(memory, kernel, function, kind):
    x, y = spread(kind, seed=1), spread(kind, seed=4)[::-1].copy()
    same(elementwise(memory, kernel, kind, (kind, x), (kind, y)), function(x, y))


@pytest.mark.parametrize("kind", **named([INT1, *INTEGERS]))
def test_invert(memory, kind):
    x = spread(kind)
    same(elementwise(memory, _not, kind, (kind, x)), np.invert(x))


@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_negative(memory, kind):
    x = spread(kind)
    if kind.is_floating_point:
        # Zero less the number, or the number with another sign: a zero's own sign is either.
        x = x[x != 0]
    with np.errstate(all="ignore"):
        same(elementwise(memory, _minus, kind, (kind, x)), np.negative(x))


@pytest.mark.parametrize("kernel, function", [(_left, np.left_shift), (_right, np.right_shift)],
                         ids=["left", "right"])
@pytest.mark.parametrize("kind", **named(INTEGERS))
def test_shifts(memory, kernel, function, kind):
    x = spread(kind)
    by = (np.arange(256) % kind.bits).astype(kind.values)
    same(elementwise(memory, kernel, kind, (kind, x), (kind, by)), function(x, by))


@triton.jit
def _compare(less, most, equal, other, least, more, x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(less + at, a < b)
    tl.store(most + at, a <= b)
    tl.store(equal + at, a == b)
    tl.store(other + at, a != b)
    tl.store(least + at, a >= b)
    tl.store(more + at, a > b)


@pytest.mark.parametrize("kind", **named([INT1, *NUMBERS]))
def test_comparisons(memory, kind):
    x, y = spread(kind, seed=1), spread(kind, seed=2)
    y[::3] = x[::3]
    results = [memory.room(INT1, 256) for _ in range(6)]
    memory.launch(_compare, (1,), *results, memory.put(kind, x), memory.put(kind, y), 256)
    functions = (np.less, np.less_equal, np.equal, np.not_equal, np.greater_equal, np.greater)
    for result, function in zip(results, functions):
        same(memory.get(result), function(x, y))


@pytest.mark.parametrize("kernel, function", [(_both, np.logical_and), (_either, np.logical_or)],
                         ids=["and", "or"])
def test_logic(memory, kernel, function):
    x, y = spread(INT1, seed=1), spread(INT1, seed=2)
    same(elementwise(memory, kernel, INT1, (INT1, x), (INT1, y)), function(x, y))
    same(elementwise(memory, _neither, INT1, (INT1, x)), np.logical_not(x))


@triton.jit
def _minimum(x, y):
    return tl.minimum(x, y)


@triton.jit
def _maximum(x, y):
    return tl.maximum(x, y)


@triton.jit
def _minimum_or_nan(x, y):
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _maximum_or_nan(x, y):
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


def extreme(x, y, largest, propagate):
    """The larger or smaller of two; of two zeros the negative one is the smaller."""
    if x.dtype.kind != "f":
        return np.maximum(x, y) if largest else np.minimum(x, y)
    first = (x > y) if largest else (x < y)
    first |= (x == y) & (np.signbit(y) if largest else np.signbit(x))
    value = np.where(first, x, y)
    if propagate:
        return np.where(np.isnan(x) | np.isnan(y), np.array(np.nan, x.dtype), value)
    return np.where(np.isnan(x), y, np.where(np.isnan(y), x, value))


@pytest.mark.parametrize("kernel, largest, propagate", [(_minimum, False, False), (_maximum, True, False),
                                                        (_minimum_or_nan, False, True),
                                                        (_maximum_or_nan, True, True)],
                         ids=["minimum", "maximum", "minimum-nan", "maximum-nan"])
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_extremes(memory, kernel, largest, propagate, kind):
    x, y = spread(kind, seed=1), spread(kind, seed=2)
    y[:11] = np.roll(y[:11], 3)
    same(elementwise(memory, kernel, kind, (kind, x), (kind, y)), extreme(x, y, largest, propagate))


@triton.jit
def _clamp(x, low, high):
    return tl.clamp(x, low, high)


@triton.jit
def _clamp_or_nan(x, low, high):
    return tl.clamp(x, low, high, propagate_nan=tl.PropagateNan.ALL)


@pytest.mark.parametrize("propagate", [False, True], ids=["number", "nan"])
@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_clamp(memory, propagate, kind):
    x = spread(kind)
    low = np.full_like(x, -2 if kind.signed else 2)
    high = np.full_like(x, 5)
    kernel = _clamp_or_nan if propagate else _clamp
    want = np.clip(x, low, high)
    if kind.is_floating_point and not propagate:
        want = np.where(np.isnan(x), low, want)
    same(elementwise(memory, kernel, kind, (kind, x), (kind, low), (kind, high)), want)


@triton.jit
def _where(x, y):
    return tl.where(x > y, x, y - 1)


@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_where(memory, kind):
    x, y = spread(kind, seed=1), spread(kind, seed=2)
    one = np.ones_like(y)
    want = np.where(x > y, x, _both_ways(kind, y, one, np.subtract))
    same(elementwise(memory, _where, kind, (kind, x), (kind, y)), want.astype(kind.values))


@triton.jit
def _where_of_blocks(out, condition, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    chosen = tl.load(condition + at) != 0
    # A condition of a row and a value of a column are broadcast; so is a scalar.
    column = tl.load(x + at)
    tl.store(out + at[:, None] * BLOCK + at[None, :], tl.where(chosen[None, :], column[:, None], -1.0))


def test_where_broadcasts(memory):
    condition, x = spread(INT8, 32), spread(FP32, 32)
    out = memory.room(FP32, 32 * 32)
    memory.launch(_where_of_blocks, (1,), out, memory.put(INT8, condition), memory.put(FP32, x), 32)
    want = np.where((condition != 0)[None, :], x[:, None], np.float32(-1))
    same(memory.get(out, (32, 32)), want)


@triton.jit
def _sums(outs, x, ys, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    for i in tl.static_range(len(ys)):
        total = a + tl.load(ys[i] + at)
        tl.static_assert(total.dtype == outs[i].dtype.element_ty)
        tl.store(outs[i] + at, total)


def _promoted(a, b):
    """The type that two numbers are added in."""
    if a is b:
        return a
    names = {a.name, b.name}
    for name, wide in (("float64", "float64"), ("float32", "float32"), ("float16", "float16"),
                       ("bfloat16", "float32")):
        if name in names:
            return next(it for it in NUMBERS if it.name == wide)
    if a.signed == b.signed:
        return max(a, b, key=lambda it: it.bits)
    unsigned, signed = (b, a) if a.signed else (a, b)
    return unsigned if unsigned.bits >= signed.bits else signed


@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_promotion(memory, kind):
    x, y = np.arange(32) % 8, np.arange(32) % 5
    kinds = [_promoted(kind, other) for other in NUMBERS]
    outs = tuple(memory.room(it, 32) for it in kinds)
    memory.launch(_sums, (1,), outs, memory.put(kind, x), tuple(memory.put(it, y) for it in NUMBERS), 32)
    for out, it in zip(outs, kinds):
        same(memory.get(out), (x + y).astype(it.values))


@triton.jit
def _with_scalars(whole, part, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    # A scalar of the same or a lower sort of number leaves the type as it is.
    tl.static_assert((a + 1).dtype == a.dtype)
    tl.store(whole + at, a + 1 + n)
    tl.static_assert((a + 0.5).dtype == tl.float32)
    tl.store(part + at, 0.5 + a)


def test_scalars_do_not_widen(memory):
    x = np.arange(32).astype(np.uint8)
    whole, part = memory.room(UINT8, 32), memory.room(FP32, 32)
    memory.launch(_with_scalars, (1,), whole, part, memory.put(UINT8, x), 250, 32)
    same(memory.get(whole), x + np.uint8(251))
    same(memory.get(part), x.astype(np.float32) + np.float32(0.5))
