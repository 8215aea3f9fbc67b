"""Warp kernels of blocks: tiles in shared memory, random numbers, noise, loops and closures."""

import numpy as np
import warp as wp

from harness.case import Raw, close, data, i32, integers, uniform, zeros
from harness.warp_ptx import Array, case

TILE = wp.constant(64)
M = wp.constant(8)


@wp.kernel
def tile_total(x: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    t = wp.tile_load(x[i], shape=TILE)
    s = wp.tile_sum(t)
    wp.tile_store(out, s, offset=i)


@wp.kernel
def tile_scale(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    a = wp.tile_load(x, shape=(M, M), offset=(i * M, j * M))
    b = wp.tile_load(y, shape=(M, M), offset=(i * M, j * M))
    wp.tile_store(out, a * 2.0 + b, offset=(i * M, j * M))


@wp.kernel
def tile_turn(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    t = wp.tile_load(x, shape=(M, M), offset=(i * M, j * M), storage="shared")
    wp.tile_store(out, wp.tile_transpose(t), offset=(j * M, i * M))


@wp.kernel
def draws(seed: int, out: wp.array(dtype=wp.uint32), unit: wp.array(dtype=float)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    out[i] = wp.randu(state)
    unit[i] = wp.randf(state)


@wp.kernel
def escape(out: wp.array2d(dtype=int), limit: int):
    i, j = wp.tid()
    c = wp.vec2(float(j) * 0.0625 - 2.0, float(i) * 0.125 - 1.25)
    z = wp.vec2(0.0, 0.0)
    count = int(0)
    while count < limit:
        z = wp.vec2(z[0] * z[0] - z[1] * z[1], 2.0 * z[0] * z[1]) + c
        if wp.dot(z, z) > 4.0:
            break
        count += 1
    out[i, j] = count


@wp.kernel
def search(keys: wp.array(dtype=float), x: wp.array(dtype=float), out: wp.array(dtype=int)):
    i = wp.tid()
    out[i] = wp.lower_bound(keys, x[i])


@wp.kernel
def bits(x: wp.array(dtype=wp.uint32), out: wp.array2d(dtype=wp.uint32)):
    i = wp.tid()
    v = x[i]
    out[0, i] = (v << wp.uint32(7)) ^ (v >> wp.uint32(9))
    out[1, i] = v / wp.uint32(7) + v % wp.uint32(1000)
    out[2, i] = wp.where(v > wp.uint32(1000000), ~v, v | wp.uint32(255))


@wp.func
def smooth(x: float, low: float, high: float):
    t = wp.clamp((x - low) / (high - low), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


@wp.kernel
def polynomial(x: wp.array(dtype=float), c: wp.vec4, out: wp.array(dtype=float)):
    i = wp.tid()
    r = float(0.0)
    for k in range(4):
        r = r * x[i] + c[3 - k]
    out[i] = r + smooth(x[i], -0.5, 0.5)


x, out = uniform((5, 64)), zeros(5)
block = {"block": 64}
case(tile_total, (5, 64), [Array(x, 5, 64), out],
     {out: close(x.shaped.astype(float).sum(1), 1e-5)}, **block)

x, y, out = uniform((16, 24)), uniform((16, 24)), zeros((16, 24))
case(tile_scale, (2, 3, 64), [Array(x, 16, 24), Array(y, 16, 24), Array(out, 16, 24)],
     {out: close(x.shaped.astype(float) * 2 + y.shaped, 1e-6)}, **block)
x, out = uniform((16, 24)), zeros((24, 16))
case(tile_turn, (2, 3, 64), [Array(x, 16, 24), Array(out, 24, 16)], {out: x.shaped.T}, **block)


def pcg(x):
    """Warp's hash of a state."""
    b = (x * 747796405 + 2891336453) % 2**32
    c = ((b >> (b >> 28) + 4) ^ b) * 277803737 % 2**32
    return c >> 22 ^ c


words, units = [], []
for i in range(100):
    state = pcg((42 + pcg(i)) % 2**32)
    state = pcg(state)
    words.append(state)
    state = pcg(state)
    units.append((state >> 8) / 2**24)
out, unit = zeros(100, "uint32"), zeros(100)
case(draws, 100, [i32(42), out, unit], {out: np.array(words), unit: np.array(units)})


def steps(x, y):
    """Iterations until a point escapes, in single precision with fused sums as the kernel may."""
    cx, cy, zx, zy, count = x * 0.0625 - 2, y * 0.125 - 1.25, 0.0, 0.0, 0
    while count < 12:
        zx, zy = zx * zx - zy * zy + cx, 2 * zx * zy + cy
        if zx * zx + zy * zy > 4:
            break
        count += 1
    return count


out = zeros((20, 40), "int32")
case(escape, (20, 40), [Array(out, 20, 40), i32(12)],
     {out: np.array([[steps(x, y) for x in range(40)] for y in range(20)])})

keys, x, out = data(np.sort(uniform(50).array)), uniform(120), zeros(120, "int32")
case(search, 120, [keys, x, out], {out: np.minimum(np.searchsorted(keys.array, x.array), 49)})

x, out = integers(100, dtype="uint32"), zeros((3, 100), "uint32")
v = x.array
case(bits, 100, [x, Array(out, 3, 100)],
     {out: np.stack([v << 7 ^ v >> 9, v // 7 + v % 1000, np.where(v > 1000000, ~v, v | 255)])})


x, out = uniform(100), zeros(100)
v = x.array.astype(float)
c = np.float32([0.5, -1.25, 2, 0.75])
t = np.clip(v + 0.5, 0, 1)
want = np.polyval(c[::-1].astype(float), v) + t * t * (3 - 2 * t)
case(polynomial, 100, [x, Raw(c.tobytes(), 4), out], {out: close(want, 1e-5)})
