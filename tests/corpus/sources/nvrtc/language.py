"""Calls, tables, objects, memory spaces."""

import functools
import struct

import numpy as np

from harness.case import (Raw, Struct, close, data, i32, i64, integers, symbol, uniform, zeros)
from harness.nvrtc import Source

cu = Source(__file__, arch=75)


def s32(v):
    """The low 32 bits as a signed number."""
    return (int(v) + 2**31) % 2**32 - 2**31


@functools.cache
def ackermann(m, n):
    """Its definition."""
    return n + 1 if m == 0 else ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))


out = zeros(96, "int32")
want = [[ackermann(i % 3, i % 5), (i % 2 == 0) * 2 + (i + 3) % 2] for i in range(48)]
cu.case("recursion", 2, 24, [out], {out: np.array(want)})

a, b, which, out = uniform(200), uniform(200), integers(200), zeros(200)
f = [np.add, np.subtract, np.multiply, np.maximum]
two = np.float32(2)
want = [f[w & 3](f[w & 3](p, q), two) for p, q, w in zip(a.array, b.array, which.array)]
cu.case("pointers", 4, 64, [a, b, which, out, i32(200)], {out: np.array(want)})

x, out = uniform(100, 0, 5), zeros(100)
v = x.array.astype(float)
want = np.where(np.arange(100) % 3 == 0, 3 * v * v, v * (v + 1) + 4)
cu.case("virtuals", 2, 64, [x, out, i32(100)], {out: close(want, 1e-6)})

code, out = integers(40, 0, 14, "uint8"), zeros(128, "int32")


def machine(i):
    """The interpreter for one thread."""
    a, b, pc, steps = i, 1, 0, 0
    while pc < 40:
        steps += 1
        if steps > 200:
            break
        op = int(code.array[pc])
        if op == 0:
            a += b
        elif op == 1:
            a -= b * 2
        elif op == 2:
            a ^= b
        elif op == 3:
            b = a & 7
        elif op == 4:
            pc += 2 if a & 1 else 0
        elif op == 5:
            a = a * 3 + 1
        elif op == 6:
            b = -b
        elif op == 7:
            a >>= 1
        elif op == 8:
            pc = steps & 3 if b < 0 else pc
        elif op == 9:
            a, b = b, a
        elif op == 10:
            a = ~a
        elif op == 11:
            b += 1
        elif op == 12:
            a = abs(a) % 1000 * (1 if a >= 0 else -1)
        else:
            b += pc
        a, b = s32(a), s32(b)
        pc += 1
    return a, b


cu.case("machine", 2, 32, [code, out, i32(40)], {out: np.array([machine(i) for i in range(64)])})

inner = np.dtype([("a", "<i2"), ("b", "i1"), ("pad", "V5"), ("c", "<f8")])
records = np.zeros(60, inner)
records["a"], records["b"] = integers(60, -99, 99, "int16").array, integers(60, -99, 99, "int8").array
records["c"] = integers(60, -99, 99).array * 0.25
parts = np.zeros(3, inner)
parts["a"], parts["c"] = [5, -7, 11], [0.5, 2, -4]
weights = np.float32([1, 2, 4, 8, 16])
source, target = data(records.view(np.uint8)), zeros(60 * 16, "uint8")
where = zeros(60, "int32")
big = Struct(Raw(parts.tobytes() + weights.tobytes() + bytes(4), 8), where, Raw(b"\x05", 1))
i = np.arange(60)
want = records.copy()
want["a"] += parts["a"][i % 3]
want["b"] ^= 5 + 3
want["c"] = want["c"] * parts["c"][(i + 1) % 3] + 1000 + 3 * weights[i % 5]
cu.case("structures", 2, 30,
        [big, i64(1000), Raw(b"\x03", 1), Raw(struct.pack("<4f", 1.5, 2, 3, 4), 16), source, target],
        {target: want.view(np.uint8),
         where: (1.5 + 2 * weights[i * 3 % 5]).astype(np.int32)})

coefficients = symbol("coefficients", np.float32([1, -2, 3, -4, 5, -6, 7, -8]) / 8)
x, out, letters = uniform(64), zeros(64), zeros(64, "int32")
primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
value = np.polyval(coefficients.array[::-1].astype(float), x.array.astype(float))
text = b"warp and weft"
launch = cu.launch("memories", 1, 64, [coefficients, x, out, letters])
cu.cases("memories", [launch], {out: close(value * np.array(primes)[np.arange(64) % 10], 1e-5)})

for which in range(3):
    g = integers(192, 0, 100)
    v = g.array.copy()
    t = np.arange(64)
    cells = [v[64:128], t * t, np.array([1, 2, 3, 4])[t % 4]]
    if which == 2:
        cells[2] = cells[2] + 10  # each thread's own
    place = (t + which) % 3
    tag = np.array([4000, 1000, 2000])
    mixed = np.choose(place, cells) + tag[place]
    skip = 8 if which == 1 else 0  # words 0 to 3 of shared memory are added to by a race
    cu.case("generic", 1, 64, [g, i32(which)],
            {g: close(np.concatenate([[0], mixed[skip:]])[1:], 0, 0, 128 + skip)},
            name=f"generic_{which}")

x, out = integers(32, -9, 9), zeros(96, "int64")
want = []
for i, v in enumerate(int(v) for v in x.array):
    b = i
    for u in x.array[:16]:
        b = s32(b * 31 + int(u) + i)
    bits = struct.unpack("<q", struct.pack("<d", v * 0.5))[0]
    want += [v**5, b, bits ^ bits >> 32]
cu.case("templates", 1, 32, [x, out], {out: np.array(want)})

x, out = integers(64, 0, 1000), zeros(128, "int32")
want = []
for v in (int(v) for v in x.array):
    text = [97 + (v + k * k) % 26 for k in range(24)]
    stack, seen, visited = [v & 15], [0] * 16, 0
    while stack:
        w = stack.pop()
        seen[w] += 1
        if seen[w] > 1:
            continue
        visited += w * (len(stack) + 1)
        stack += [(w * 5 + 3) & 15, (w ^ 9) & 15]
    code = 5381
    for k in range(24):
        code = s32(code * 33 + text[k * 7 % 24])
    want += [visited, code]
cu.case("locals", 2, 32, [x, out], {out: np.array(want)})

a, b, c = integers(128, 0, 1000), integers(64, 0, 1000), zeros(512, "int32")
v = sum(a.array[k:k + 64] for k in range(4)) + 2 * b.array
i = np.arange(64)
four = np.stack([v, i, ~v, a.array[1::2]], 1).reshape(-1)
cu.case("caches", 1, 64, [a, b, c], {c: np.concatenate([v, v * 2, v * 3, v * 4, four])})

x, out = integers(96, -100, 5), zeros(192, "int32")
v = x.array
want = np.concatenate([v[32:64], v[:32], v[32:64] + v[:32], np.full(96, (v > 0).any())])
cu.case("named_barriers", 1, 96, [x, out], {out: want})

out = zeros(12 * 60, "uint32")
cu.case("specials", (2, 3, 2), (5, 4, 3), [out], {out: np.full(720, 31)}, shared=64)
