"""Matrix products."""

import numpy as np

from harness.case import close, f32, from_bf16, i32, integers, uniform, zeros
from harness.nvrtc import Source

cu = Source(__file__, arch=80)


def exact(buffer):
    """A buffer's contents in double precision."""
    array = buffer.shaped
    return (from_bf16(array) if buffer.dtype == "bfloat16" else array).astype(float)


a, b, c = uniform((40, 50)), uniform((50, 35)), zeros((40, 35))
cu.case("tiled", (3, 3), (16, 16), [a, b, c, i32(40), i32(35), i32(50)],
        {c: close(exact(a) @ exact(b), 1e-5)})
a, b, c = uniform((64, 32)), uniform((32, 128)), zeros((64, 128))
cu.case("blocked", (2, 1), 256, [a, b, c, i32(128), i32(32)], {c: close(exact(a) @ exact(b), 1e-5)})
a, b, c = (uniform((20, 20), dtype="float64") for _ in range(3))
cu.case("doubles", (3, 3), (8, 8), [a, b, c, i32(20)], {c: close(exact(a) @ exact(b), 1e-14)})

for entry, dtype, out, tile, relative in (
        ("wmma_half", "float16", "float32", (16, 16), 1e-5),
        ("wmma_wide", "float16", "float16", (8, 32), 4e-3),
        ("wmma_tall", "bfloat16", "float32", (32, 8), 1e-5)):
    m, n, k = 32, 32, 48
    a, b, c = uniform((m, k), dtype=dtype), uniform((k, n), dtype=dtype), zeros((m, n), out)
    cu.case(entry, (n // tile[1], m // tile[0]), 32, [a, b, c, i32(n), i32(k)],
            {c: close(2 * exact(a) @ exact(b), relative)})
a, b = integers((32, 48), -128, 128, "int8"), integers((48, 32), -128, 128, "int8")
c = zeros((32, 32), "int32")
cu.case("wmma_bytes", (2, 2), 32, [a, b, c, i32(32), i32(48)], {c: 2 * exact(a) @ exact(b)})
a, b, c = uniform((32, 40)), uniform((32, 40)), zeros((32, 32))
cu.case("wmma_tf32", (2, 2), 32, [a, b, c, i32(32), i32(40)],
        {c: close(exact(a) @ exact(b).T, 5e-3)})
a, b = uniform((16, 20), dtype="float64"), uniform((20, 24), dtype="float64")
c = zeros((16, 24), "float64")
cu.case("wmma_double", (3, 2), 32, [a, b, c, i32(24), i32(20)],
        {c: close(exact(a) @ exact(b), 1e-13)})

a, b = uniform((32, 64), dtype="float16"), uniform((64, 16), dtype="float16")
c = zeros((32, 16))
cu.case("mma_half", (2, 2), 32, [a, b, c, i32(16), i32(64)], {c: close(exact(a) @ exact(b), 1e-5)})
a, b = integers((32, 64), -128, 128, "int8"), integers((16, 64), 0, 256, "uint8")
c = zeros((32, 16), "int32")
tile = np.zeros((16, 8))
for t in range(32):
    tile[t // 4, t % 4 * 2:t % 4 * 2 + 2] = 1, 2
    tile[t // 4 + 8, t % 4 * 2:t % 4 * 2 + 2] = 3, 4
cu.case("mma_bytes", (2, 2), 32, [a, b, c, i32(16), i32(64)],
        {c: exact(a) @ exact(b).T + np.tile(tile, (2, 2))})
a, b = integers((10, 64), -128, 128, "int8"), integers((40, 64), -128, 128, "int8")
c = zeros((10, 40), "int32")
cu.case("dot_bytes", (2, 10), 32, [a, b, c, i32(40), i32(16)], {c: exact(a) @ exact(b).T})

x, out = uniform((4, 8, 8), dtype="float16"), zeros((4, 8, 8), "float16")
cu.case("transposed_tile", 1, 32, [x, out], {out: x.shaped.transpose(0, 2, 1)})

a, x, y = uniform((13, 70)), uniform(13), uniform(70)
cu.case("outer", (2, 5), 32, [a, x, y, f32(0.5), i32(13), i32(70)],
        {a: close(exact(a) + 0.5 * np.outer(exact(x), exact(y)), 1e-6)})

a = uniform((3, 18, 18), dtype="float64")
spd = a.shaped @ a.shaped.transpose(0, 2, 1) + 18 * np.eye(18)
a.shaped[:] = spd
a.fill = None
lower = np.tri(18, dtype=bool)
want = np.where(lower, np.linalg.cholesky(spd), spd)
cu.case("cholesky", 3, 32, [a, i32(18)], {a: close(want, 1e-12)})
