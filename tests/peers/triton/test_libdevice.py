"""`triton.language.extra.libdevice`: every function that it has for CUDA."""

import inspect
import math
from fractions import Fraction

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice

from elementwise import near, same, spread
from kinds import FP32, FP64, INT32, INT64, UINT32, UINT64, named
from libdevice_values import ABSOLUTE, FAST, ONE, SEVERAL, between, jn, operands, yn

WIDE = named([FP32, FP64])
#: The roundings of instructions: to the nearest, towards zero, down and up.
ROUNDS = ["rn", "rz", "rd", "ru"]


@triton.jit
def _called(out, xs, NAME: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    function: tl.constexpr = getattr(libdevice, NAME)
    if len(xs) == 1:
        tl.store(out + at, function(tl.load(xs[0] + at)))
    elif len(xs) == 2:
        tl.store(out + at, function(tl.load(xs[0] + at), tl.load(xs[1] + at)))
    elif len(xs) == 3:
        tl.store(out + at, function(tl.load(xs[0] + at), tl.load(xs[1] + at), tl.load(xs[2] + at)))
    else:
        tl.store(out + at, function(tl.load(xs[0] + at), tl.load(xs[1] + at), tl.load(xs[2] + at),
                                    tl.load(xs[3] + at)))


def _call(memory, name, kind, *operands):
    """A function of operands, each a type and its values."""
    values = np.broadcast_arrays(*(it for _, it in operands))
    size = triton.next_power_of_2(values[0].size)
    padded = [np.concatenate([it, np.repeat(it[-1:], size - it.size)]) for it in values]
    arrays = tuple(memory.put(of, it) for (of, _), it in zip(operands, padded))
    out = memory.room(kind, size)
    memory.launch(_called, (1,), out, arrays, name, size)
    return memory.get(out)[:values[0].size]


#: What a test asked for, so that none of libdevice's is forgotten.
TABLES = [ONE, SEVERAL, FAST]


@pytest.mark.parametrize("kind", **WIDE)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_number(memory, name, kind):
    function, low, high, *ulps = ONE[name]
    x = between(kind, low, high)
    with np.errstate(all="ignore"):
        want = function(x.astype(np.float64))
    least = ABSOLUTE.get(name, (0, 0))
    near(_call(memory, name, kind, (kind, x)), want, ulps[kind is FP64], least[kind is FP64])


@pytest.mark.parametrize("kind", **WIDE)
@pytest.mark.parametrize("name", SEVERAL)
def test_functions_of_several_numbers(memory, name, kind):
    function, count, *ulps = SEVERAL[name]
    xs = operands(kind, count)
    if name == "pow":
        xs[0] = np.abs(xs[0]) + kind.values.type(0.1)
    want = function(*(it.astype(np.float64) for it in xs))
    near(_call(memory, name, kind, *((kind, it) for it in xs)), want, ulps[kind is FP64])


@pytest.mark.parametrize("name", FAST)
def test_fast_functions(memory, name):
    function, low, high, least, relative = FAST[name]
    x = between(FP32, low, high)
    want = function(x.astype(np.float64))
    near(_call(memory, name, FP32, (FP32, x)), want, relative / 2.0 ** -23, least)


def test_fast_functions_of_two(memory):
    x, y = (np.abs(it) + np.float32(0.1) for it in operands(FP32, 2))
    near(_call(memory, "fast_dividef", FP32, (FP32, x), (FP32, y)), x.astype(np.float64) / y, 2)
    near(_call(memory, "fast_powf", FP32, (FP32, x), (FP32, y)), x.astype(np.float64)**y, 512)


def _rounded(kind, exact, how):
    """A fraction rounded to a type."""
    if exact == 0:
        return 0.0
    bits = 24 if kind is FP32 else 53
    power = exact.numerator.bit_length() - exact.denominator.bit_length() - bits
    power = max(power, -149 if kind is FP32 else -1074)
    while abs(exact) >= Fraction(2) ** (power + bits):
        power += 1
    scaled = exact / Fraction(2) ** power
    whole = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}[how](scaled)
    return math.ldexp(whole, power)


def _root(kind, value, how):
    """A square root rounded to a type, by that of a whole number."""
    fraction = Fraction(value)
    shift = 1 << 240
    below = Fraction(math.isqrt(fraction.numerator * shift * shift // fraction.denominator), shift)
    # What is not a square lies between this and the next.
    return _rounded(kind, below if below * below == fraction else below + Fraction(1, 2 * shift), how)


EXACT = {"add": (2, lambda x, y: x + y), "sub": (2, lambda x, y: x - y), "mul": (2, lambda x, y: x * y),
         "div": (2, lambda x, y: x / y), "fma": (3, lambda x, y, z: x * y + z), "rcp": (1, lambda x: 1 / x)}


@pytest.mark.parametrize("how", ROUNDS)
@pytest.mark.parametrize("kind", **WIDE)
@pytest.mark.parametrize("name", [*EXACT, "sqrt"])
def test_roundings(memory, name, kind, how):
    """Every rounding of a correctly rounded operation, against fractions."""
    count, function = EXACT.get(name, (1, None))
    xs = operands(kind, count)
    if function is None:
        xs = [np.abs(it) for it in xs]
        want = [_root(kind, value.item(), how) for value in xs[0]]
    else:
        want = [_rounded(kind, function(*map(Fraction, (it.item() for it in row))), how) for row in zip(*xs)]
    same(_call(memory, f"{name}_{how}", kind, *((kind, it) for it in xs)), np.array(want).astype(kind.values))


@pytest.mark.parametrize("kind", **WIDE)
def test_fma(memory, kind):
    xs = operands(kind, 3)
    want = [_rounded(kind, Fraction(x.item()) * Fraction(y.item()) + Fraction(z.item()), "rn") for x, y, z in zip(*xs)]
    same(_call(memory, "fma", kind, *((kind, it) for it in xs)), np.array(want).astype(kind.values))


def test_rsqrt_rn(memory):
    x = between(FP32, 0.01, 1e4)
    near(_call(memory, "rsqrt_rn", FP32, (FP32, x)), 1 / np.sqrt(x.astype(np.float64)), 1)


def test_rcp64h(memory):
    """A first guess at a reciprocal: of the upper half of the bits."""
    x = between(FP64, 0.5, 100)
    near(_call(memory, "rcp64h", FP64, (FP64, x)), 1 / x, 0, 1e-5)


def _whole(value, how):
    return {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}[how](value)


TO_WHOLE = [(f"{source}2{target}_{how}", source, target, how) for source in ("float", "double")
            for target in ("int", "uint", "ll", "ull") for how in ROUNDS]


@pytest.mark.parametrize("name, source, target, how", TO_WHOLE, ids=[it[0] for it in TO_WHOLE])
def test_to_whole_numbers(memory, name, source, target, how):
    kind = FP32 if source == "float" else FP64
    long, unsigned = target.endswith("ll"), target.startswith("u")
    x = np.concatenate(operands(kind, 2))
    x = np.append(x, np.array([0.5, 1.5, 2.5, 1e6 + 0.5, 3e9 if unsigned or long else 2e9], kind.values))
    if unsigned:
        x = np.abs(x)
    # Their results are signed numbers with the same bits.
    stored = np.int64 if long else np.int32
    want = np.array([_whole(value.item(), how) for value in x]).astype(np.int64).astype(stored)
    same(_call(memory, name, INT64 if long else INT32, (kind, x)), want)


OF_WHOLE = [(f"{source}2{target}_{how}", source, target, how) for source in ("int", "uint", "ll", "ull")
            for target in ("float", "double") for how in ROUNDS
            if hasattr(libdevice, f"{source}2{target}_{how}")]


@pytest.mark.parametrize("name, source, target, how", OF_WHOLE, ids=[it[0] for it in OF_WHOLE])
def test_of_whole_numbers(memory, name, source, target, how):
    of = {"int": INT32, "uint": UINT32, "ll": INT64, "ull": UINT64}[source]
    kind = FP32 if target == "float" else FP64
    x = spread(of)
    want = [_rounded(kind, Fraction(int(value)), how) for value in x]
    same(_call(memory, name, kind, (of, x)), np.array(want).astype(kind.values))


@pytest.mark.parametrize("how", ROUNDS)
def test_double2float(memory, how):
    x = np.concatenate(operands(FP64, 2))
    want = [_rounded(FP32, Fraction(value.item()), how) for value in x]
    same(_call(memory, f"double2float_{how}", FP32, (FP64, x)), np.array(want).astype(np.float32))


REINTERPRETED = [("int_as_float", INT32, FP32), ("float_as_int", FP32, INT32), ("uint_as_float", UINT32, FP32),
                 ("float_as_uint", FP32, INT32), ("longlong_as_double", INT64, FP64),
                 ("double_as_longlong", FP64, INT64)]


@pytest.mark.parametrize("name, source, target", REINTERPRETED, ids=[it[0] for it in REINTERPRETED])
def test_reinterpretation(memory, name, source, target):
    x = spread(source)
    got = _call(memory, name, target, (source, x))
    want = x.astype(source.values).view(target.values)
    same(got, want)


def test_halves_of_double(memory):
    x = spread(FP64)
    bits = x.view(np.int64)
    same(_call(memory, "double2loint", INT32, (FP64, x)), bits.astype(np.int32))
    same(_call(memory, "double2hiint", INT32, (FP64, x)), (bits >> 32).astype(np.int32))
    high, low = (bits >> 32).astype(np.int32), bits.astype(np.int32)
    same(_call(memory, "hiloint2double", FP64, (INT32, high), (INT32, low)), x)


BITS = {"clz": lambda v, n: n - v.bit_length(), "popc": lambda v, n: v.bit_count(),
        "ffs": lambda v, n: (v & -v).bit_length(), "brev": lambda v, n: int(f"{v:0{n}b}"[::-1], 2)}


@pytest.mark.parametrize("kind", **named([INT32, INT64]))
@pytest.mark.parametrize("name", BITS)
def test_bits(memory, name, kind):
    x = spread(kind)
    out = kind if name == "brev" else INT32
    want = [BITS[name](int(value) & ((1 << kind.bits) - 1), kind.bits) for value in x]
    same(_call(memory, name, out, (kind, x)), np.array(want, np.uint64).astype(f"uint{out.bits}").view(out.values))


def _sized(kind, function):
    """A function of whole numbers, of arrays, cut to a type."""
    def called(*xs):
        values = [function(*(int(it) for it in row)) & ((1 << kind.bits) - 1) for row in zip(*xs)]
        return np.array(values, np.uint64).astype(f"uint{kind.bits}").view(kind.values)
    return called


@pytest.mark.parametrize("kind", **named([INT32, UINT32, INT64, UINT64]))
def test_mulhi(memory, kind):
    x, y = spread(kind, seed=1), spread(kind, seed=2)
    same(_call(memory, "mulhi", kind, (kind, x), (kind, y)), _sized(kind, lambda a, b: (a * b) >> kind.bits)(x, y))


@pytest.mark.parametrize("kind", **named([INT32, UINT32]))
def test_products_and_means(memory, kind):
    x, y, z = (spread(kind, seed=seed) for seed in (1, 2, 3))

    def cut(value):
        value &= 0xFFFFFF
        return value - (1 << 24) if kind.signed and value >> 23 else value
    for name, function in (("mul24", lambda a, b: cut(a) * cut(b)), ("hadd", lambda a, b: (a + b) >> 1),
                           ("rhadd", lambda a, b: (a + b + 1) >> 1)):
        same(_call(memory, name, kind, (kind, x), (kind, y)), _sized(kind, function)(x, y))
    z = spread(UINT32, seed=3)
    same(_call(memory, "sad", kind, (kind, x), (kind, y), (UINT32, z)),
         _sized(kind, lambda a, b, c: abs(a - b) + c)(x, y, z))


def test_byte_perm(memory):
    x, y = spread(INT32, seed=1), spread(INT32, seed=2)
    choice = np.random.default_rng(3).integers(0, 0x8888, 256) & 0x7777

    def permuted(a, b, c):
        both = ((a & 0xFFFFFFFF) | (b & 0xFFFFFFFF) << 32).to_bytes(8, "little")
        return int.from_bytes(bytes(both[(c >> 4 * at) & 7] for at in range(4)), "little")
    same(_call(memory, "byte_perm", INT32, (INT32, x), (INT32, y), (INT32, choice.astype(np.int32))),
         _sized(INT32, permuted)(x, y, choice))


@pytest.mark.parametrize("kind", **named([INT32, INT64, FP32, FP64]))
def test_abs(memory, kind):
    x = spread(kind)
    with np.errstate(all="ignore"):
        same(_call(memory, "abs", kind, (kind, x)), np.abs(x))


CLASSES = [("isnan", FP32, np.isnan), ("isnan", FP64, np.isnan), ("isinf", FP32, np.isinf), ("isinf", FP64, np.isinf),
           ("signbit", FP32, np.signbit), ("signbit", FP64, np.signbit), ("finitef", FP32, np.isfinite),
           ("isfinited", FP64, np.isfinite)]


@pytest.mark.parametrize("name, kind, function", CLASSES, ids=[f"{name}-{kind}" for name, kind, _ in CLASSES])
def test_classes(memory, name, kind, function):
    x = spread(kind)
    assert ((_call(memory, name, INT32, (kind, x)) != 0) == function(x)).all()


@pytest.mark.parametrize("kind", **WIDE)
def test_whole_results(memory, kind):
    x = np.append(between(kind, -9, 9), np.array([0.5, 1.5, 2.5, -0.5, -2.5], kind.values))
    same(_call(memory, "llrint", INT64, (kind, x)), np.rint(x).astype(np.int64))
    same(_call(memory, "llround", INT64, (kind, x)), np.copysign(np.floor(np.abs(x) + 0.5), x).astype(np.int64))
    x = between(kind, 0.001, 1000)
    same(_call(memory, "ilogb", INT32, (kind, x)), (np.frexp(x)[1] - 1).astype(np.int32))


@pytest.mark.parametrize("kind", **WIDE)
def test_neighbours_and_powers_of_two(memory, kind):
    x, y = operands(kind, 2)
    same(_call(memory, "nextafter", kind, (kind, x), (kind, y)), np.nextafter(x, y))
    by = (np.arange(256) % 60 - 30).astype(np.int32)
    for name in ("ldexp", "scalbn"):
        same(_call(memory, name, kind, (kind, x), (INT32, by)), np.ldexp(x, by))
    near(_call(memory, "pow", kind, (kind, x), (INT32, by % 7)), x.astype(np.float64)**(by % 7), 16)


@pytest.mark.parametrize("kind", **WIDE)
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_bessel_functions_of_any_order(memory, n, kind):
    x = between(kind, 1, 25)
    order = np.full(256, n, np.int32)
    for name, function in (("jn", jn), ("yn", yn)):
        want = function(n, x.astype(np.float64))
        near(_call(memory, name, kind, (INT32, order), (kind, x)), want, 64, ABSOLUTE[name][kind is FP64])


#: Asked for by name in the tests above, and not by a table.
BY_NAME = {"fast_dividef", "fast_powf", "rsqrt_rn", "rcp64h", "fma", "double2loint", "double2hiint", "hiloint2double",
           "mulhi", "mul24", "hadd", "rhadd", "sad", "byte_perm", "abs", "llrint", "llround", "ilogb", "nextafter",
           "ldexp", "scalbn", "jn", "yn"}


def test_every_function_is_asked_for():
    here = {name for name, it in vars(libdevice).items() if inspect.isfunction(it) and not name.startswith("_")}
    asked = set().union(*TABLES) | BY_NAME | set(BITS) | {name for name, *_ in [*TO_WHOLE, *OF_WHOLE, *REINTERPRETED,
                                                                             *CLASSES]}
    asked |= {f"{name}_{how}" for name in [*EXACT, "sqrt", "double2float"] for how in ROUNDS}
    assert here == asked
