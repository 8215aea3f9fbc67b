"""Reductions and scans."""

import numpy as np

from harness.case import close, i32, integers, uniform, zeros
from harness.nvrtc import Source

cu = Source(__file__, arch=80)

x, out = uniform(3000), zeros(1)
cu.case("tree", 4, 128, [x, out, i32(3000)], {out: close([x.array.sum(dtype=float)], 1e-5)},
        shared=512)
x, out = uniform(700, dtype="float64"), zeros(3, "float64")
padded = np.pad(x.array, (0, 68)).reshape(3, 256)
cu.case("shuffles", 3, 256, [x, out, i32(700)], {out: close(padded.sum(1), 1e-14)})

x = uniform((9, 100), -5, 5)
place, value = zeros(9, "int32"), zeros(9)
cu.case("argmax", 9, 32, [x, place, value, i32(100)],
        {place: x.shaped.argmax(1), value: x.shaped.max(1)})

x, out = integers(128, -1000, 1000), zeros(16, "int32")
want = []
for v in x.reshape(4, 32):
    up = v[v > 0]
    want += [up.sum(), up.max(), np.bitwise_and.reduce(v | 255), np.bitwise_xor.reduce(v)]
cu.case("redux", 2, 64, [x, out], {out: np.array(want)})

x, out = integers(200, -1000, 1000), zeros(6, "int32")
want = [[(v & 1).sum(), (v > -900).all(), (v > 990).any()] for v in x.reshape(2, 100)]
cu.case("block_votes", 2, 100, [x, out], {out: np.array(want)})

x, parts, out = integers(5000, dtype="uint32"), zeros(7, "uint32"), zeros(1, "uint32")
launch = cu.launch("last_block", 7, 128, [x, parts, out, i32(5000)])
cu.cases("last_block", [launch, launch], {out: x.array.sum(dtype=np.uint32)[None]})

x = uniform((5, 150), 10, 12)
mean, variance = zeros(5), zeros(5)
v = x.shaped.astype(float)
cu.case("welford", 5, 32, [x, mean, variance, i32(150)],
        {mean: close(v.mean(1), 1e-6), variance: close(v.var(1), 1e-5)})

x, out = integers(768, -10**6, 10**6), zeros(768, "int32")
cu.case("inclusive", 3, 256, [x, out], {out: x.reshape(3, 256).cumsum(1)})
x, out = uniform(512), zeros(512)
v = x.reshape(2, 256).astype(float)
cu.case("blelloch", 2, 128, [x, out], {out: close(v.cumsum(1) - v, 1e-5)})

x, head, out = integers(128, -99, 99), integers(128, 0, 4, "uint8"), zeros(128, "int32")
head.array[:] = head.array == 0
head.fill = None
want = []
for i in range(128):
    restart = i % 32 == 0 or head.array[i]
    want.append(x.array[i] + (0 if restart else want[-1]))
cu.case("segmented", 4, 32, [x, head, out], {out: np.array(want)})

n = 4000
x, out = integers(n, dtype="uint32"), zeros(n, "uint32")
status, ticket = zeros(32, "uint64"), zeros(1, "uint32")
cu.case("lookback", 32, 128, [x, out, status, ticket, i32(n)],
        {out: x.array.cumsum(dtype=np.uint32), ticket: np.array([32])})
