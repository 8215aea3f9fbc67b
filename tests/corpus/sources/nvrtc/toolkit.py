"""Kernels that use the headers of CUDA's toolkit."""

import numpy as np

from harness.case import close, i32, integers, uniform, zeros
from harness.nvrtc import Source

cu = Source(__file__, arch=80)

x, out = integers(128, -100, 100), zeros(6 * 128, "int32")
v = x.reshape(16, 8).astype(int)
rank = np.arange(8)
down = np.where(rank + 3 < 8, np.roll(v, -3, 1), v)
place = (np.arange(16) % 8)[:, None]
ballot = ((v & 1) << rank).sum(1, keepdims=True)
vote = (v > 90).any(1, keepdims=True) + 2 * (v > -95).all(1, keepdims=True) + 4 * ballot
w = x.reshape(4, 32).astype(int)
odd = w & 1
some = np.where(odd, odd.sum(1, keepdims=True) * 100 + odd.cumsum(1) - 1, -1)
full = np.broadcast_to
rows = [full(v.sum(1, keepdims=True), v.shape), full(v.max(1, keepdims=True), v.shape),
        v.cumsum(1), down + rank * 1000 + place * 100000, full(vote, v.shape), some]
cu.case("groups", 2, 64, [x, out], {out: np.concatenate([row.reshape(-1) for row in rows])})

x, out = integers(32, 0, 100), zeros(32, "int32")
v = x.array
same = v[:, None] & 3 == v[None] & 3
want = (same * v).sum(1) + np.tril(same, -1).sum(1) * 100000
cu.case("labelled", 1, 32, [x, out], {out: want})

x, shared = integers(64, 0, 1000), zeros(64, "int32")
flag, total = zeros(1, "int32"), zeros(1, "uint32")
cu.case("ordered", 5, 64, [x, shared, flag, total],
        {total: np.array([4 * 2 * x.array.sum()]), shared: x.array * 2})

x, out = uniform((100, 2), -2, 2), zeros((100, 5))
z = x.shaped[:, 0].astype(float) + 1j * x.shaped[:, 1]
w = z * z + z.conj() / (1.5 - 0.5j)
cu.case("complexes", 2, 64, [x, out, i32(100)],
        {out: close(np.stack([abs(z), np.angle(z), abs(w)**2, w.real, w.imag], 1), 2e-6)})

keys, values = integers(512, dtype="uint32"), integers(512)
order = np.argsort(keys.reshape(2, 256), 1, "stable")
cu.case("block_sort", 2, 64, [keys, values],
        {keys: np.take_along_axis(keys.reshape(2, 256), order, 1),
         values: np.take_along_axis(values.reshape(2, 256), order, 1)})

x, out, total = integers(256, -1000, 1000), zeros(256, "int32"), zeros(4, "int32")
v = x.reshape(2, 128)
cu.case("block_scan", 2, 128, [x, out, total],
        {out: v.cumsum(1) - v, total: np.stack([v.sum(1), v.max(1)], 1)})

a, b = integers(192), zeros(192, "int32")
cu.case("grid_sync", 3, 64, [a, b], {b: np.roll(a.array, -1) + 3})
