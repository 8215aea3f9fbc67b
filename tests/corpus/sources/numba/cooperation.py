"""Numba kernels whose threads work together: reductions, scans, atomics, warps, grids."""

import numpy as np
from numba import types

from harness.case import close, i32, i64, integers, uniform, zeros
from harness.numba_ptx import case, cuda


def block_sum(x, out):
    shared = cuda.shared.array(128, types.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    shared[t] = x[i] if i < x.size else 0.0
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            shared[t] += shared[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, shared[0])


x, out = uniform(1000, -1, 1), zeros(1)
case(block_sum, 8, 128, [x, out], {out: close([x.array.sum(dtype=float)], 1e-5)})


def warp_sum(x, out):
    i = cuda.grid(1)
    v = x[i]
    for offset in (16, 8, 4, 2, 1):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, offset)
    if cuda.laneid == 0:
        out[i // 32] = v


x, out = integers(256, -1000, 1000), zeros(8, "int32")
case(warp_sum, 2, 128, [x, out], {out: x.reshape(8, 32).sum(1)})


def warp_words(x, out):
    i = cuda.grid(1)
    v = x[i]
    lane = i % 32
    ballot = cuda.ballot_sync(0xFFFFFFFF, v % 3 == 0)
    out[0, i] = cuda.popc(ballot)
    out[1, i] = cuda.any_sync(0xFFFFFFFF, v > 990)
    out[2, i] = cuda.all_sync(0xFFFFFFFF, v >= 0)
    out[3, i] = cuda.shfl_sync(0xFFFFFFFF, v, (lane * 5) % 32)
    out[4, i] = cuda.shfl_xor_sync(0xFFFFFFFF, v, 7)
    out[5, i] = cuda.match_any_sync(0xFFFFFFFF, v % 4)
    out[6, i] = cuda.brev(v)
    out[7, i] = cuda.clz(v)
    out[8, i] = cuda.ffs(v)


x, out = integers(64, 0, 1000), zeros((9, 64), "int32")
rows = np.zeros((9, 64), np.int64)
for start in (0, 32):
    v = x.array[start:start + 32].astype(int)
    part = rows[:, start:start + 32]
    part[0], part[1], part[2] = (v % 3 == 0).sum(), (v > 990).any(), 1
    part[3], part[4] = v[np.arange(32) * 5 % 32], v[np.arange(32) ^ 7]
    part[5] = [sum(1 << k for k in range(32) if v[k] % 4 == w % 4) for w in v]
    part[6] = [int(f"{w:032b}"[::-1], 2) for w in v]
    part[7] = [32 - int(w).bit_length() for w in v]
    part[8] = [(int(w) & -int(w)).bit_length() for w in v]
case(warp_words, 2, 32, [x, out], {out: rows.astype(np.uint32).view(np.int32)})


def scan(x, out):
    shared = cuda.shared.array(256, types.int64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    shared[t] = x[i]
    cuda.syncthreads()
    step = 1
    while step < 256:
        v = shared[t - step] if t >= step else 0
        cuda.syncthreads()
        shared[t] += v
        cuda.syncthreads()
        step *= 2
    out[i] = shared[t]


x, out = integers(512, -10**12, 10**12, "int64"), zeros(512, "int64")
case(scan, 2, 256, [x, out], {out: x.reshape(2, 256).cumsum(1)})


def histogram(x, bins):
    local = cuda.shared.array(32, types.int32)
    if cuda.threadIdx.x < 32:
        local[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(local, int(x[i] * 32), 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < 32:
        cuda.atomic.add(bins, cuda.threadIdx.x, local[cuda.threadIdx.x])


x, bins = uniform(3000, 0, 1, "float64"), zeros(32, "int32")
case(histogram, 3, 96, [x, bins], {bins: np.bincount((x.array * 32).astype(int), minlength=32)})


def atomics(x, out, real):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.max(out, 0, x[i])
        cuda.atomic.min(out, 1, x[i])
        cuda.atomic.and_(out, 2, x[i] | 0xFF)
        cuda.atomic.or_(out, 3, x[i])
        cuda.atomic.xor(out, 4, x[i])
        cuda.atomic.inc(out, 5, 6)
        cuda.atomic.sub(out, 6, x[i])
        cuda.atomic.cas(out, 7, 0, 99)
        cuda.atomic.max(real, 0, np.float64(x[i]) * 0.5)
        cuda.atomic.add(real, 1, 0.5)


n = 500
x, out, real = integers(n, 1, 10**6, "uint32"), zeros(8, "uint32"), zeros(2, "float64")
v = x.array
want = [v.max(), 0, 0, np.bitwise_or.reduce(v), np.bitwise_xor.reduce(v), n % 7,
        -int(v.sum(dtype=int)) % 2**32, 99]
case(atomics, 4, 128, [x, out, real],
     {out: np.array(want, np.uint32), real: np.array([v.max() * 0.5, n * 0.5])})


def matmul(a, b, c):
    sa = cuda.shared.array((16, 16), types.float32)
    sb = cuda.shared.array((16, 16), types.float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = np.float32(0)
    for k in range((a.shape[1] + 15) // 16):
        sa[ty, tx] = a[y, 16 * k + tx] if y < a.shape[0] and 16 * k + tx < a.shape[1] else 0
        sb[ty, tx] = b[16 * k + ty, x] if x < b.shape[1] and 16 * k + ty < b.shape[0] else 0
        cuda.syncthreads()
        for j in range(16):
            total += sa[ty, j] * sb[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


a, b, c = uniform((45, 40)), uniform((40, 33)), zeros((45, 33))
want = a.reshape(45, 40).astype(float) @ b.reshape(40, 33)
case(matmul, (3, 3), (16, 16), [a, b, c], {c: close(want, 1e-5)})


def insertion_sort(x):
    i = cuda.grid(1)
    keys = cuda.local.array(12, types.int32)
    for k in range(12):
        keys[k] = x[i, k]
    for k in range(1, 12):
        key, j = keys[k], k - 1
        while j >= 0 and keys[j] > key:
            keys[j + 1] = keys[j]
            j -= 1
        keys[j + 1] = key
    for k in range(12):
        x[i, k] = keys[k]


x = integers((64, 12), -50, 50)
case(insertion_sort, 2, 32, [x], {x: np.sort(x.reshape(64, 12), 1)})


def bitonic(x):
    keys = cuda.shared.array(128, types.float32)
    t = cuda.threadIdx.x
    keys[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    k = 2
    while k <= 128:
        j = k // 2
        while j > 0:
            other = t ^ j
            if other > t and (keys[t] > keys[other]) == (t & k == 0):
                keys[t], keys[other] = keys[other], keys[t]
            cuda.syncthreads()
            j //= 2
        k *= 2
    x[cuda.grid(1)] = keys[t]


x = uniform(384, -1e6, 1e6)
case(bitonic, 3, 128, [x], {x: np.sort(x.reshape(3, 128), 1)})

WEIGHTS = np.array([1, 4, 6, 4, 1], np.float32)


def blur(x, out):
    weights = cuda.const.array_like(WEIGHTS)
    i = cuda.grid(1)
    if i < x.size:
        total = np.float32(0)
        for k in range(5):
            j = min(max(i + k - 2, 0), x.size - 1)
            total += weights[k] * x[j]
        out[i] = total / np.float32(16)


x, out = uniform(400, 0, 10), zeros(400)
padded = np.pad(x.array.astype(float), 2, "edge")
case(blur, 4, 128, [x, out], {out: close(np.convolve(padded, WEIGHTS, "valid") / 16, 1e-6)})


def dynamic(x):
    shared = cuda.shared.array(0, types.float64)
    t, size = cuda.threadIdx.x, cuda.blockDim.x
    shared[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    x[cuda.grid(1)] = shared[size - 1 - t]


x = uniform(384, 0, 1, "float64")
case(dynamic, 4, 96, [x], {x: x.reshape(4, 96)[:, ::-1]}, shared=96 * 8)


@cuda.jit(device=True, inline="never")
def wave(x, depth):
    """A device function that is called, not inlined."""
    return x * depth + 1 if x % 2 else x // 2 - depth


def calls(x, out):
    i = cuda.grid(1)
    v = x[i]
    for k in range(5):
        v = wave(v, k)
    out[i] = v


def applied(v):
    """`calls` for one number."""
    for k in range(5):
        v = v * k + 1 if v % 2 else v // 2 - k
    return v


x, out = integers(128, -1000, 1000, "int64"), zeros(128, "int64")
case(calls, 1, 128, [x, out], {out: np.array([applied(int(v)) for v in x.array])}, arch=86)


def philox(out, seed, draws):
    i = cuda.grid(1)
    c0, c1, c2, c3 = np.uint32(i), np.uint32(0), np.uint32(0), np.uint32(0)
    k0, k1 = np.uint32(seed), np.uint32(seed >> 32)
    for _ in range(draws):
        p0 = np.uint64(c0) * np.uint64(0xD2511F53)
        p1 = np.uint64(c2) * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (np.uint32(p1 >> np.uint64(32)) ^ c1 ^ k0, np.uint32(p1),
                          np.uint32(p0 >> np.uint64(32)) ^ c3 ^ k1, np.uint32(p0))
        k0 = np.uint32(k0 + np.uint32(0x9E3779B9))
        k1 = np.uint32(k1 + np.uint32(0xBB67AE85))
    out[i, 0], out[i, 1], out[i, 2], out[i, 3] = c0, c1, c2, c3


def philox_words(counter, seed, rounds):
    """Philox 4x32 in Python's integers."""
    c, k, m = [counter, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32], 2**32
    for _ in range(rounds):
        p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [q >> 32 ^ c[1] ^ k[0], q % m, p >> 32 ^ c[3] ^ k[1], p % m]
        k = [(k[0] + 0x9E3779B9) % m, (k[1] + 0xBB67AE85) % m]
    return c


seed, out = 0x123456789ABCDEF, zeros((64, 4), "uint32")
want = np.array([philox_words(i, seed, 10) for i in range(64)], np.uint32)
case(philox, 2, 32, [out, (types.uint64, i64(seed)), (types.int32, i32(10))], {out: want}, arch=89)


def spin(lock, total):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        total[0] = total[0] * 3 + 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


lock, total = zeros(1, "int32"), zeros(1, "uint32")
value = 0
for _ in range(30):
    value = (value * 3 + 1) % 2**32
case(spin, 30, 32, [lock, total], {total: np.array([value], np.uint32), lock: np.zeros(1)}, arch=80)


def monte_carlo(states, hits):
    i = cuda.grid(1)
    a, b = states[i, 0], states[i, 1]
    inside = 0
    for _ in range(50):
        for k in range(2):
            s1, s0 = a, b
            a = s0
            s1 ^= s1 << np.uint64(23)
            b = s1 ^ s0 ^ (s1 >> np.uint64(17)) ^ (s0 >> np.uint64(26))
            if k == 0:
                x = np.float64((a + b) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
            else:
                y = np.float64((a + b) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
        if x * x + y * y < 1.0:
            inside += 1
    cuda.atomic.add(hits, 0, inside)
    states[i, 0], states[i, 1] = a, b


def walk(a, b):
    """One thread's points and its last state."""
    mask, inside = 2**64 - 1, 0
    for _ in range(50):
        draws = []
        for _ in range(2):
            s1, s0 = a, b
            a = s0
            s1 = (s1 ^ s1 << 23) & mask
            b = s1 ^ s0 ^ s1 >> 17 ^ s0 >> 26
            draws.append(((a + b & mask) >> 11) / 2**53)
        inside += draws[0] ** 2 + draws[1] ** 2 < 1
    return inside, a, b


states, hits = integers((64, 2), dtype="uint64"), zeros(1, "int64")
walks = [walk(*map(int, row)) for row in states.reshape(64, 2)]
case(monte_carlo, 1, 64, [states, hits],
     {hits: np.array([sum(w[0] for w in walks)]),
      states: np.array([w[1:] for w in walks], np.uint64)}, arch=90)
