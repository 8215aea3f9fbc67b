"""Atomics, locks, tables, grid barriers."""

import numpy as np

from harness.case import Want, data, i32, integers, u32, uniform, zeros
from harness.nvrtc import Source

cu = Source(__file__, arch=80)

n = 500
x = integers(n, dtype="uint32")
first = np.zeros(16, np.uint32)
first[[2, 6]] = 2**32 - 1
first[4] = 2**31 - 1
first[5] = 2**31
a = data(first)
wide = np.zeros(5, np.uint64)
wide[2], wide[4] = 2**64 - 1, 2**63
b, f, d = data(wide), zeros(1), zeros(1, "float64")
v = [int(word) for word in x.array]
signed = [word - 2**32 if word >> 31 else word for word in v]
want = first.copy()
down = 0
for _ in range(n):
    down = 9 if down == 0 or down > 9 else down - 1
results = [sum(v), -sum(v), min(v), max(v), min(signed), max(signed),
           np.bitwise_and.reduce(x.array | np.uint32(0xF0F)),
           np.bitwise_or.reduce(x.array & np.uint32(0xFF00FF)), np.bitwise_xor.reduce(x.array),
           n % 13, down]
want[:11] = [int(value) % 2**32 for value in results]
long = [sum(word << 20 for word in v), max(word * word for word in v), min(v) * 3,
        int(results[8]) << 31, -min(v)]
cu.case("kinds", 4, 128, [x, a, b, f, d, i32(n)],
        {a: want, b: np.array([value % 2**64 for value in long], np.uint64),
         f: np.array([n / 4]), d: np.array([n / 8])})

x, most, least = uniform(n, -5, 5), data(np.float32([-9])), data(np.float32([9]))
cu.case("floats", 4, 128, [x, most, least, i32(n)],
        {most: x.array.max()[None], least: x.array.min()[None]})

a, b, c = zeros(8, "float16"), zeros(4, "bfloat16"), zeros(3, "float16")
cu.case("halves", 3, 64, [a, b, c],
        {a: np.tile([24, 48], 4), b: np.tile(np.float32([96, 192]), 2), c: np.array([64] * 3)})

x, bins = integers(4000, 0, 256, "uint8"), zeros(256, "uint32")
cu.case("histogram", 3, 128, [x, bins, i32(4000)], {bins: np.bincount(x.array, minlength=256)})
x, bins = integers(900, 0, 9, "uint8"), zeros(256, "uint32")
cu.case("matched", 8, 128, [x, bins, i32(900)], {bins: np.bincount(x.array, minlength=256)})

keys = integers(600, 1, 300, "uint32")
slots, counts, out = zeros(512, "uint32"), zeros(512, "uint32"), zeros(600, "uint32")
size = np.bincount(keys.array)
cu.cases("table", [cu.launch("table_insert", 5, 128, [keys, slots, counts, i32(600), u32(511)]),
                   cu.launch("table_find", 5, 128,
                             [keys, slots, counts, out, i32(600), u32(511)])],
         {out: size[keys.array]})

x, head, chain = integers(300), data(np.full(8, -1, np.int32)), zeros(300, "int32")
length, total = zeros(8, "int32"), zeros(8, "int64")
members = [np.flatnonzero(x.array & 7 == k) for k in range(8)]
cu.cases("lists", [cu.launch("lists", 3, 128, [x, head, chain, i32(300)]),
                   cu.launch("walk", 1, 8, [head, chain, length, total])],
         {length: np.array([len(m) for m in members]), total: np.array([m.sum() for m in members])})

flag, value, expected = zeros(1, "int32"), zeros(1, "uint32"), 0
for _ in range(5 * 48):
    expected = (expected * 5 + 3) % 2**32
cu.case("lock", 5, 48, [flag, value], {value: np.array([expected]), flag: np.array([0])})

cursor, work, done = zeros(1, "uint32"), integers(60, 0, 200, "uint32"), zeros(60, "uint64")
squares = [sum(k * k for k in range(v)) for v in work.array]
cu.case("queue", 4, 32, [cursor, work, done, i32(60)],
        {done: np.array(squares), cursor: Want(np.array([64]))})

a, b = integers(12 * 40, -5, 5), zeros(480, "int32")
v = a.array.copy()
with np.errstate(over="ignore"):
    for k in range(5):
        w = np.roll(v, 1) + np.int32(k)
        v = np.roll(w, -37) * np.int32(3) - np.int32(k)
cu.case("barrier", 12, 40, [a, b, i32(5)], {a: v, b: w})

flags, values = zeros(40, "int32"), zeros(40, "int32")
want = [1]
for k in range(1, 40):
    want.append((want[-1] * 2 + k + 2**31) % 2**32 - 2**31)
cu.case("pipeline", 40, 32, [flags, values], {values: np.array(want), flags: np.ones(40)})
