"""Small programs."""

import hashlib
import zlib

import numpy as np

from harness.case import close, data, i32, integers, symbol, u32, uniform, zeros
from harness.nvrtc import Source

cu = Source(__file__, arch=89)

u, out = uniform((19, 45)), zeros((19, 45))
w = np.pad(u.shaped.astype(float), 1, "edge")
around = w[:-2, 1:-1] + w[2:, 1:-1] + w[1:-1, :-2] + w[1:-1, 2:]
cu.case("stencil", (2, 3), (32, 8), [u, out, i32(19), i32(45)],
        {out: close(u.shaped + 0.1 * (around - 4 * u.shaped), 1e-6)})

a, b = integers((20, 33), 0, 2, "uint8"), zeros((20, 33), "uint8")
v = a.shaped.astype(int)
around = sum(np.roll(v, (p, q), (0, 1)) for p in (-1, 0, 1) for q in (-1, 0, 1)) - v
cu.case("life", (5, 5), (8, 4), [a, b, i32(20), i32(33)],
        {b: (around == 3) | (around == 2) & (v == 1)})

a, b = integers((12, 40), 0, 256, "uint8"), zeros((12, 40), "uint8")
w = np.pad(a.shaped, 1, "edge")
windows = np.stack([w[p:p + 12, q:q + 40] for p in range(3) for q in range(3)])
cu.case("median", (2, 12), 32, [a, b, i32(12), i32(40)], {b: np.median(windows, 0)})

for inverse in (0, 1):
    x = uniform((3, 128, 2))
    z = x.shaped[..., 0].astype(float) + 1j * x.shaped[..., 1]
    z = np.fft.ifft(z, axis=1) * 128 if inverse else np.fft.fft(z, axis=1)
    cu.case("fft", 3, 64, [x, i32(inverse)], {x: close(np.stack([z.real, z.imag], 2), 1e-5)},
            name=f"fft_{inverse}")

x = integers(128, -1000, 1000)
signs = np.array([[(-1)**(i & j).bit_count() for j in range(32)] for i in range(32)])
cu.case("walsh", 2, 64, [x], {x: x.reshape(4, 32) @ signs})

rows = 90
lengths = integers(rows, 0, 12).array
start = data(np.concatenate([[0], lengths.cumsum()]).astype(np.int32))
nonzeros = int(lengths.sum())
column, value = integers(nonzeros, 0, 70), uniform(nonzeros, dtype="float64")
x = uniform(70, dtype="float64")
dense = np.zeros((rows, 70))
np.add.at(dense, (np.repeat(np.arange(rows), lengths), column.array), value.array)
for entry, grid in (("spmv", 3), ("spmv_warp", 90)):
    y = zeros(rows, "float64")
    cu.case(entry, grid, 32, [start, column, value, x, y, i32(rows)],
            {y: close(dense @ x.array, 1e-13)})

n = 80
lengths = integers(n, 0, 4).array
start = data(np.concatenate([[0], lengths.cumsum()]).astype(np.int32))
edge = integers(int(lengths.sum()), 0, n)
first = np.full(n, -1, np.int32)
first[0] = 0
depth, changed = data(first), zeros(1, "int32")
want = first.copy()
for level in range(6):
    for v in np.flatnonzero(want == level):
        for o in edge.array[start.array[v]:start.array[v + 1]]:
            want[o] = level + 1 if want[o] == -1 else want[o]
cu.cases("frontier", [cu.launch("frontier", 3, 32, [start, edge, depth, i32(level), changed, i32(n)])
                      for level in range(6)], {depth: want})

p, force = uniform((100, 4)), zeros((100, 3))
position, mass = p.shaped[:, :3].astype(float), p.shaped[:, 3].astype(float)
d = position[None] - position[:, None]
weight = mass / ((d * d).sum(2) + 0.01)**1.5
cu.case("bodies", 2, 64, [p, force, i32(100)], {force: close((d * weight[:, :, None]).sum(1), 1e-4)})


def philox(i, k):
    """Philox 4x32 with ten rounds."""
    c, m = [i, 7, 0, 0], 2**32
    for _ in range(10):
        p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [q >> 32 ^ c[1] ^ k[0], q % m, p >> 32 ^ c[3] ^ k[1], p % m]
        k = [(k[0] + 0x9E3779B9) % m, (k[1] + 0xBB67AE85) % m]
    return c


out = zeros((64, 4), "uint32")
cu.case("philox", 2, 32, [out, u32(0xDEADBEEF), u32(42)],
        {out: np.array([philox(i, [0xDEADBEEF, 42]) for i in range(64)])})

state, out = integers(128, dtype="uint64"), zeros((128, 2))
after, normal = [], []
for s in (int(v) for v in state.array):
    u = []
    for _ in range(2):
        old, s = s, (s * 6364136223846793005 + 1442695040888963407) % 2**64
        x, rot = ((old >> 18 ^ old) >> 27) % 2**32, old >> 59
        u.append((((x >> rot | x << (-rot & 31)) % 2**32) >> 8) * 2.0**-24 + 2.0**-25)
    after.append(s)
    r = np.sqrt(-2 * np.log(u[0]))
    normal.append([r * np.cos(2 * np.pi * u[1]), r * np.sin(2 * np.pi * u[1])])
cu.case("normals", 2, 64, [state, out],
        {state: np.array(after, np.uint64), out: close(np.array(normal), 2e-6)})


def fraction(root, k):
    """32 bits of the fraction of a root of a prime, as SHA-256 takes them."""
    return int((k ** (1 / root) % 1) * 2**32)


primes = [p for p in range(2, 312) if all(p % q for q in range(2, p))]
table = symbol("rounds", np.array([fraction(3, p) for p in primes], np.uint32))
lines = [f"line {i:02d} of the corpus".encode() for i in range(20)]
blocks = b"".join(line + b"\x80" + bytes(55 - len(line)) + (8 * len(line)).to_bytes(8, "big")
                  for line in lines)
message, digest = data(np.frombuffer(blocks, np.uint8)), zeros(20 * 32, "uint8")
want = b"".join(hashlib.sha256(line).digest() for line in lines)
cu.cases("sha256", [cu.launch("sha256", 1, 20, [table, message, digest])],
         {digest: np.frombuffer(want, np.uint8)})

text, out = integers(40 * 17, 0, 256, "uint8"), zeros(40, "uint32")
want = [zlib.crc32(text.array[17 * i:17 * i + 17].tobytes()) for i in range(40)]
cu.case("crc32", 2, 20, [text, out, i32(17)], {out: np.array(want)})

a, b, out = integers((3, 30), 97, 101, "int8"), integers((3, 30), 97, 101, "int8"), zeros(3, "int32")


def edit(p, q):
    """Edit distance by rows."""
    row = list(range(len(q) + 1))
    for i, x in enumerate(p):
        last, row[0] = row[0], i + 1
        for j, y in enumerate(q):
            last, row[j + 1] = row[j + 1], min(row[j] + 1, row[j + 1] + 1, last + (x != y))
    return row[-1]


cu.case("edit", 3, 32, [a, b, out, i32(30)],
        {out: np.array([edit(p, q) for p, q in zip(a.shaped, b.shaped)])}, shared=31 * 31 * 4)

spheres = uniform((6, 4), -1, 1)
spheres.shaped[:, 2] += 4
spheres.shaped[:, 3] = 0.5 + np.abs(spheres.shaped[:, 3])
spheres.fill = None
depth, hit = zeros((24, 24)), zeros((24, 24), "int32")
s = spheres.shaped.astype(float)
axis = (np.arange(24) + 0.5) / 24 - 0.5
dx, dy = np.meshgrid(axis, axis)
best, which = np.full((24, 24), np.inf), np.full((24, 24), -1)
for k in range(6):
    b = dx * s[k, 0] + dy * s[k, 1] + s[k, 2]
    aa, c = dx * dx + dy * dy + 1, (s[k, :3]**2).sum() - s[k, 3]**2
    t = (b - np.sqrt(np.maximum(b * b - aa * c, 0))) / aa
    closer = (b * b - aa * c > 0) & (t > 0) & (t < best)
    best, which = np.where(closer, t, best), np.where(closer, k, which)
cu.case("rays", (3, 3), (8, 8), [spheres, depth, hit, i32(6), i32(24)],
        {hit: which, depth: close(np.where(which < 0, -1, best), 1e-3)})

p, centre = uniform((200, 2)), uniform((7, 2))
nearest, count = zeros(200, "int32"), zeros(7, "int32")
d = ((p.shaped[:, None] - centre.shaped[None])**2)
d = d[..., 0] + d[..., 1]
cu.case("kmeans", 2, 128, [p, centre, nearest, count, i32(200), i32(7)],
        {nearest: d.argmin(1), count: np.bincount(d.argmin(1), minlength=7)})
