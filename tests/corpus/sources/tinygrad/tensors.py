"""tinygrad tensor expressions in single precision and integers."""

import numpy as np

from harness import functions as fn
from harness.case import close, integers, uniform
from harness.tinygrad_ptx import Tensor, case, dtypes

a, b = uniform((30, 40)), uniform((30, 40))
case("add", lambda x, y: x + y * 2, [a, b], a.shaped + b.shaped * 2)

x = uniform((24, 50), -4, 4)
v = x.shaped.astype(float)
case("gelu", lambda x: x.gelu(), [x],
     close(0.5 * v * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v**3))), 1e-5))
case("silu", lambda x: x.silu(), [x], close(v / (1 + np.exp(-v)), 1e-5))
case("waves", lambda x: x.sin() + (x * 3).cos(), [x], close(np.sin(v) + np.cos(3 * v), 1e-5))
case("roots", lambda x: (x.abs() + 1).sqrt() + (x.abs() + 1).rsqrt() + (x.abs() + 1).log2(), [x],
     close(np.sqrt(np.abs(v) + 1) + 1 / np.sqrt(np.abs(v) + 1) + np.log2(np.abs(v) + 1), 1e-5))
case("erf", lambda x: x.erf(), [x], close(fn.erf(v), 1e-5))
case("power", lambda x: (x.abs() + 0.5) ** 1.7, [x], close((np.abs(v) + 0.5)**1.7, 1e-5))
case("rounded", lambda x: x.round() + x.floor() * 2 + x.ceil() * 3 + x.trunc() * 5, [x],
     np.rint(v) + np.floor(v) * 2 + np.ceil(v) * 3 + np.trunc(v) * 5)
case("where", lambda x: (x > 0.5).where(x, -x).clip(0.1, 3), [x],
     np.clip(np.where(x.shaped > 0.5, x.shaped, -x.shaped), np.float32(0.1), 3))

s = np.exp(v - v.max(1, keepdims=True))
s /= s.sum(1, keepdims=True)
case("softmax", lambda x: x.softmax(), [x], close(s, 1e-5, 1e-8))
case("log_softmax", lambda x: x.log_softmax(), [x], close(np.log(s), 1e-5))
case("layernorm", lambda x: x.layernorm(), [x],
     close((v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5), 1e-5))

x = uniform((64, 200))
v = x.shaped.astype(float)
case("sum_rows", lambda x: x.sum(1), [x], close(v.sum(1), 1e-5))
case("sum_columns", lambda x: x.sum(0), [x], close(v.sum(0), 1e-5))
case("mean_all", lambda x: x.mean(), [x], close(v.mean(), 1e-5))
case("max_rows", lambda x: x.max(1), [x], x.shaped.max(1))
case("argmax", lambda x: x.argmax(1), [x], x.shaped.argmax(1))
case("variance", lambda x: x.std(1), [x], close(v.std(1, ddof=1), 1e-5))
case("cumsum", lambda x: x.cumsum(1), [x], close(v.cumsum(1), 1e-4))
case("transposed", lambda x: x.T + 1, [x], x.shaped.T + 1)
case("padded", lambda x: x.pad(((1, 2), (3, 4))), [x], np.pad(x.shaped, ((1, 2), (3, 4))))
case("shrunk", lambda x: x[5:20:3, ::-7].contiguous() * 2, [x], x.shaped[5:20:3, ::-7] * 2)

k = integers((20, 64), -1000, 1000)
case("sorted", lambda x: x.sort(1)[0], [k], np.sort(k.shaped, 1))
case("integers", lambda x: (x * 7 // 3 + x % 5) ^ (x << 2), [k],
     (k.shaped * 7 // 3 + k.shaped % 5) ^ (k.shaped << 2))
case("narrow", lambda x: x.cast(dtypes.int8).cast(dtypes.int16) * 3, [k],
     k.shaped.astype(np.int8).astype(np.int16) * np.int16(3))
case("wide", lambda x: (x.cast(dtypes.int64) * x.cast(dtypes.int64) * 100003).sum(), [k],
     (k.shaped.astype(np.int64)**2 * 100003).sum())
case("minimum", lambda x: x.min(0), [k], k.shaped.min(0))
case("any_all", lambda x: ((x > 990).any(1), (x < 900).all(0)), [k],
     [(k.shaped > 990).any(1), (k.shaped < 900).all(0)])

table, index = uniform((40, 24)), integers(30, 0, 40)
case("embedding", lambda t, i: t[i], [table, index], table.shaped[index.array])
case("one_hot", lambda i: i.one_hot(40).cast(dtypes.int32), [index], np.eye(40, dtype=np.int32)[index.array])

d = uniform((16, 30), -2, 2, "float64")
case("doubles", lambda x: x * x + 1 / (x + 3), [d], close(d.shaped**2 + 1 / (d.shaped + 3), 1e-14))
bits = integers((12, 33), dtype="uint32")
case("bits", lambda x: (x >> 5 ^ x) & 0xFFFF | x << 16, [bits],
     (bits.shaped >> 5 ^ bits.shaped) & 0xFFFF | bits.shaped << 16)


def threefry(pairs, key):
    """The random bits tinygrad's generator makes of a counter and a key."""
    mask = 2**32 - 1
    rotations = [[13, 15, 26, 6], [17, 29, 16, 24]]
    out = []
    for counter in pairs:
        keys = [key >> 32, (key & mask) ^ key >> 32 ^ 0x1BD11BDA, key & mask]
        x, y = counter & mask, counter >> 32
        x, y = (x + keys[2]) & mask, (y + keys[0]) & mask
        for k in range(5):
            for r in rotations[k % 2]:
                x = (x + y) & mask
                y = x ^ (y << r & mask | y >> 32 - r)
            x, y = (x + keys[k % 3]) & mask, (y + keys[(k + 1) % 3] + k + 1) & mask
        out.append(y << 32 | x)
    return np.array(out, np.uint64)


counters = integers(64, dtype="uint64")
key = 0x0123456789ABCDEF
case("threefry",
     lambda c: Tensor(c.uop.threefry(Tensor.full((64,), key, dtype=dtypes.uint64).uop)),
     [counters], threefry(map(int, counters.array), key))
