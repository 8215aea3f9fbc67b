"""Sorting, merging, selecting."""

import numpy as np

from harness.case import data, i32, integers, uniform, unordered, zeros
from harness.nvrtc import Source

cu = Source(__file__, arch=75)

x = integers(1024, dtype="uint32")
cu.case("bitonic_block", 4, 256, [x], {x: np.sort(x.reshape(4, 256), 1)})

x = integers(256, dtype="int64")
steps, k = [], 2
while k <= 256:
    j = k // 2
    while j:
        steps.append(cu.launch("bitonic_step", 2, 128, [x, i32(j), i32(k)]))
        j //= 2
    k *= 2
cu.cases("bitonic_step", steps, {x: np.sort(x.array)})

x = uniform(256, -9, 9)
cu.case("bitonic_warp", 2, 128, [x], {x: np.sort(x.reshape(8, 32), 1)})

keys, values = integers(512, 0, 65536, "uint32"), integers(512, dtype="uint32")
order = np.argsort(keys.reshape(4, 128), 1, "stable")
cu.case("radix", 4, 128, [keys, values],
        {keys: np.take_along_axis(keys.reshape(4, 128), order, 1),
         values: np.take_along_axis(values.reshape(4, 128), order, 1)})

x = integers(101)
cu.case("odd_even", 1, 64, [x, i32(101)], {x: np.sort(x.array)}, shared=404)

halves = np.sort(integers((2, 300), -200, 200).shaped, 1)
x, out = data(halves), zeros(600, "int32")
cu.case("merge", 5, 128, [x, out, i32(300)], {out: np.sort(halves.reshape(-1))})

x = integers((64, 40), -1000, 1000)
cu.case("recursive", 2, 32, [x, i32(40)], {x: np.sort(x.shaped, 1)})

x, out, count = integers(1000), zeros(1000, "int32"), zeros(1, "int32")
kept = x.array[np.fmod(x.array, 3) == 0]
cu.case("compact", 8, 128, [x, out, count, i32(1000)],
        {out: unordered(kept), count: np.array([len(kept)])})

x, out = uniform((64, 50)), zeros((64, 8))
cu.case("top_k", 2, 32, [x, out, i32(50)], {out: -np.sort(-x.shaped, 1)[:, :8]})
