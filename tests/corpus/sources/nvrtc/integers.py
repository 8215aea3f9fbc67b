"""Integer kernels against Python's integers."""

import numpy as np

from harness.case import data, i32, integers, zeros
from harness.nvrtc import Source

cu = Source(__file__, arch=80, options=["--device-int128"])
n = 160
M32, M64 = 2**32 - 1, 2**64 - 1


def s32(x):
    """The low 32 bits as a signed number."""
    return (x + 2**31) % 2**32 - 2**31


def s64(x):
    """The low 64 bits as a signed number."""
    return (x + 2**63) % 2**64 - 2**63


def quotient(x, y):
    """Division that truncates."""
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def remainder(x, y):
    """What truncating division leaves."""
    return x - y * quotient(x, y)


def prmt(x, y, selector):
    """Byte permutation without modes."""
    source = [(y << 32 | x) >> 8 * k & 255 for k in range(8)]
    out = 0
    for k in range(4):
        pick = selector >> 4 * k & 15
        byte = source[pick & 7]
        out |= (255 if byte >> 7 else 0 if pick & 8 else byte) << 8 * k if pick & 8 else byte << 8 * k
    return out


def bfe(x, position, length, signed):
    """A bit field, the bits above the word being its sign."""
    bits = [(x >> min(k, 31) if signed else x >> k if k < 32 else 0) & 1
            for k in range(position, position + length)]
    value = sum(bit << k for k, bit in enumerate(bits[:32]))
    if signed and 0 < length < 32:
        top = x >> min(position + length - 1, 31) & 1
        value |= (M32 << length & M32) * top
    return value & M32


def bfi(x, y, position, length):
    """x's low bits put into y."""
    mask = (2**length - 1) << position & M32
    return y & ~mask & M32 | x << position & mask


def bfind(x, signed=False):
    """Position of the highest bit that is no sign."""
    x = ~x & M32 if signed and x >> 31 else x
    return x.bit_length() - 1 & M32


def bits(x, y, i):
    """Rows of `bits`."""
    both = x | y << 32
    left, right = min(i, 32), min(i, 32)
    signed = s32(x) >> (y & 31) & M32
    shift = bfind(signed, True)
    return [int(f"{x:032b}"[::-1], 2), 32 - x.bit_length(), (x & -x).bit_length(), x.bit_count(),
            prmt(x, y, 0x5241), prmt(x, y, y & 0x7777), both << (i & 31) >> 32 & M32,
            both >> (i & 31) & M32, both << left >> 32 & M32, both >> right & M32,
            (x << (y & 31) | x >> (-y & 31)) & M32, signed, bfe(x, y & 63, y >> 8 & 63, False),
            bfe(x, y & 31, y >> 8 & 31, True), bfi(x, y, y & 31, x & 31),
            bfind(x >> (y & 31)), shift if shift == M32 else 31 - shift,
            sum((0xD8 >> ((x >> k & 1) << 2 | (y >> k & 1) << 1 | i >> k & 1) & 1) << k
                for k in range(32)),
            x << (y & 63) & M32 if y & 63 < 32 else 0]


def products(x, y, i):
    """Rows of `products`."""
    ux, uy = x & M32, y & M32
    a24, b24 = ((v & 0xFFFFFF ^ 0x800000) - 0x800000 for v in (x, y))
    ua, ub = x & 0xFFFFFF, y & 0xFFFFFF
    limit = lambda v: min(max(v, -2**31), 2**31 - 1)  # noqa: E731
    return [x * y >> 32, ux * uy >> 32, s32(a24 * b24), ua * ub & M32, abs(x - y) + ux & M32,
            abs(ux - uy) + ux & M32, x + y >> 1, x + y + 1 >> 1, ux + uy >> 1, ux + uy + 1 >> 1,
            x * y, ux * uy, max(x, y), min(ux, uy), s32(abs(x)), s32(x * y + i), limit(x + y),
            limit(x - y), limit((x * y >> 32) + x), s32(a24 * b24 >> 16), s32(ua * ub + i)]


def divisions(x, y, _):
    """Rows of `divisions`."""
    ux, uy = x & M64, y & M64
    xi, yi, xs, ys = s32(x), s32(y | 1), x & M32, (y | 1) & M32
    half = lambda v: (v + 2**15) % 2**16 - 2**15  # noqa: E731
    return [quotient(x, y), remainder(x, y), ux // uy, ux % uy, quotient(xi, yi),
            remainder(xi, yi), xs // ys, xs % ys, quotient(half(x), half(y | 1)),
            (x & 255) % ((y | 1) & 255), quotient(x, 1000003), ux % 10, quotient(xi, 7), xs % 641,
            x * y >> 64, ux * uy >> 64, 64 - ux.bit_length(), (ux & -ux).bit_length(),
            ux.bit_count(), int(f"{ux:064b}"[::-1], 2), x << (y & 63), x >> (y & 63),
            ux >> (y & 63), abs(x), max(x, y), min(ux, uy)]


def lanes(x, y, size, function, signed=False):
    """A function of each byte or half."""
    out = 0
    for k in range(0, 32, size):
        a, b = (v >> k & (2**size - 1) for v in (x, y))
        if signed:
            a, b = ((v ^ 1 << size - 1) - (1 << size - 1) for v in (a, b))
        out |= (function(a, b) & (2**size - 1)) << k
    return out


def simd(x, y, i):
    """Rows of `simd`."""
    byte = lambda v, k: v >> 8 * k & 255  # noqa: E731
    sbyte = lambda v, k: (byte(v, k) ^ 128) - 128  # noqa: E731
    half = lambda v, k: v >> 16 * k & 65535  # noqa: E731
    shalf = lambda v, k: (half(v, k) ^ 32768) - 32768  # noqa: E731
    four = range(4)
    return [lanes(x, y, 8, lambda a, b: a + b),
            lanes(x, y, 8, lambda a, b: max(-128, min(127, a + b)), True),
            lanes(x, y, 16, lambda a, b: min(65535, a + b)),
            lanes(x, y, 8, lambda a, b: a + b + 1 >> 1), lanes(x, y, 16, max),
            lanes(x, y, 16, max, True), lanes(x, y, 8, min),
            lanes(x, y, 8, lambda a, b: 255 * (a > b)),
            lanes(x, y, 8, lambda a, b: a + b >> 1),
            lanes(x & 0x01010101, y & 0x01010101, 8, lambda a, b: a == b),
            i + sum(sbyte(x, k) * sbyte(y, k) for k in four) & M32,
            i + sum(byte(x, k) * byte(y, k) for k in four) & M32,
            i + sum(shalf(x, k) * sbyte(y, k) for k in range(2)) & M32,
            i + sum(half(x, k) * byte(y, k + 2) for k in range(2)) & M32,
            lanes(x, x, 16, lambda a, _: -a), lanes(x, y, 8, lambda a, b: max(0, a - b))]


def table(function, a, b, dtype):
    """The rows of a kernel, its elements computed one by one."""
    rows = [function(int(x), int(y), i) for i, (x, y) in enumerate(zip(a.array, b.array))]
    size = 8 * np.dtype(dtype).itemsize
    return np.array([[v % 2**size for v in row] for row in rows], f"uint{size}").T.astype(dtype)


for function, dtype, outer in ((bits, "uint32", "uint32"), (products, "int32", "int64"),
                               (divisions, "int64", "int64"), (simd, "uint32", "uint32")):
    a, b = integers(n, dtype=dtype), integers(n, dtype=dtype)
    if function is bits:
        b.array &= np.uint32(0x77777777)  # no sign mode in prmt's selector here
        a.array[:3], b.fill, a.fill = [0, 1, 2**31], None, None
    if function is divisions:
        b.array[::3] >>= 40
        b.array[b.array == 0] = 3
        b.fill = None
    want = table(function, a, b, outer)
    out = zeros(want.size, outer)
    cu.case(function.__name__, 5, 32, [a, b, out, i32(n)], {out: want})


def limbs(values, count):
    """Numbers as little-endian words."""
    return np.array([[v >> 32 * k & M32 for k in range(count)] for v in values], np.uint32)


def numbers(words):
    """The opposite of `limbs`."""
    return [sum(int(word) << 32 * k for k, word in enumerate(row)) for row in words]


a, b = integers((64, 8), dtype="uint32"), integers((64, 8), dtype="uint32")
x, y = numbers(a.reshape(64, 8)), numbers(b.reshape(64, 8))
outs = [zeros(64 * size, "uint32") for size in (9, 9, 16)]
cu.case("wide", 2, 32, [a, b, *outs, i32(64)],
        {outs[0]: limbs([p + q for p, q in zip(x, y)], 9),
         outs[1]: limbs([p - q for p, q in zip(x, y)], 9),
         outs[2]: limbs([p * q for p, q in zip(x, y)], 16)})

a, b, out = integers(n, dtype="uint64"), integers(n, dtype="uint64"), zeros(4 * n, "uint64")
rows = []
for p, q in zip(a.array.tolist(), b.array.tolist()):
    x = p << 64 | q
    y, z = x * x + (x >> 37) - (q << 5), x // (p >> 20 | 1)
    rows.append([y & M64, y >> 64 & M64, z & M64, z >> 64 & M64])
cu.case("wide128", 5, 32, [a, b, out, i32(n)], {out: np.array(rows, np.uint64).T})

known = [2**61 - 1, 2**31 - 1, 18446744073709551557, 3, 7919, 1000000007, 9007199254740881,
         4, 561, 3215031751, 3825123056546413051, 2**62, 1, 2**61 + 1, 999999999999999989,
         999999999999999990]
out = zeros(16, "uint8")
cu.case("primes", 1, 32, [data(np.array(known, np.uint64)), out, i32(16)],
        {out: np.array([1] * 7 + [0] * 7 + [1, 0], np.uint8)})
