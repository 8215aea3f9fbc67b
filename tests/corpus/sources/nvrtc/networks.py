"""Layers of neural networks."""

import numpy as np

from harness.case import close, data, f32, i32, integers, uniform, zeros
from harness.nvrtc import Source

cu = Source(__file__, arch=80)


def softmax(v):
    """Softmax along the last axis."""
    e = np.exp(v - v.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


x, y = uniform((5, 333), -9, 9), zeros((5, 333))
cu.case("softmax", 5, 128, [x, y, i32(333)], {y: close(softmax(x.shaped.astype(float)), 1e-5, 1e-9)})

x, gain, y = uniform((4, 96), -2, 2, "float16"), uniform(96, dtype="float16"), zeros((4, 96), "float16")
v = x.shaped.astype(float)
want = v / np.sqrt((v * v).mean(1, keepdims=True) + 1e-5) * gain.array.astype(float)
cu.case("rms_norm", 4, 32, [x, gain, y, i32(96), f32(1e-5)], {y: close(want, 1e-3, 1e-6)})

q, position = uniform((6, 2, 32)), integers(6, 0, 500)
v = q.shaped.astype(float)
angle = position.array[:, None, None] * 10000.0**(-2 * np.arange(16) / 32)
s, c = np.sin(angle), np.cos(angle)
want = np.stack([v[..., ::2] * c - v[..., 1::2] * s, v[..., ::2] * s + v[..., 1::2] * c], 3)
cu.case("rope", (6, 2), 16, [q, position, i32(2), i32(32)], {q: close(want, 2e-4)})

for causal in (0, 1):
    q, k, v = (uniform((20, 32), -2, 2) for _ in range(3))
    out = zeros((20, 32))
    score = q.shaped.astype(float) @ k.shaped.T / np.sqrt(32)
    score = np.where(np.tri(20, dtype=bool) | (not causal), score, -np.inf)
    cu.case("attention", 20, 32, [q, k, v, out, i32(20), i32(causal)],
            {out: close(softmax(score) @ v.shaped, 1e-5)}, name=f"attention_{causal}")

x, label = uniform((7, 50), -4, 4), integers(7, 0, 50)
loss, gradient = zeros(7), zeros((7, 50))
p = softmax(x.shaped.astype(float))
cu.case("cross_entropy", 7, 32, [x, label, loss, gradient, i32(50)],
        {loss: close(-np.log(p[np.arange(7), label.array]), 1e-5),
         gradient: close(p - np.eye(50)[label.array], 1e-5)})

x, w, y = uniform((3, 18, 21)), uniform((4, 3, 3, 3)), zeros((4, 18, 21))
padded = np.pad(x.shaped.astype(float), ((0, 0), (1, 1), (1, 1)))
want = sum(np.tensordot(w.shaped[:, :, p, q].astype(float), padded[:, p:p + 18, q:q + 21], 1)
           for p in range(3) for q in range(3))
cu.case("conv", (2, 3, 4), (16, 8), [x, w, y, i32(3), i32(18), i32(21), i32(4)],
        {y: close(np.maximum(want, 0), 1e-5)})

x, y, place = uniform((20, 30)), zeros((10, 15)), zeros((10, 15), "uint8")
windows = x.shaped.reshape(10, 2, 15, 2).transpose(0, 2, 1, 3).reshape(10, 15, 4)
cu.case("max_pool", (1, 10), 32, [x, y, place, i32(30), i32(15)],
        {y: windows.max(2), place: windows.argmax(2)})

x, q, scale = uniform((6, 100), -3, 3), zeros((6, 100), "int8"), zeros(6)
s = np.abs(x.shaped).max(1) / np.float32(127)
cu.case("quantise", 6, 32, [x, q, scale, i32(100)],
        {q: np.clip(np.rint(x.shaped / s[:, None]), -127, 127), scale: s})

w, g, m, v = uniform(300), uniform(300), uniform(300), uniform(300, 0, 1)
gd = g.array.astype(float)
m1 = 0.9 * m.array + 0.1 * gd
v1 = 0.999 * v.array.astype(float) + 0.001 * gd * gd
want = w.array - 0.01 * (m1 / 0.271) / (np.sqrt(v1 / 0.003) + 1e-8)
cu.case("adam", 3, 128, [w, g, m, v, f32(0.01), f32(0.271), f32(0.003), i32(300)],
        {w: close(want, 2e-6), m: close(m1, 1e-6), v: close(v1, 1e-6)})

table, ids = uniform((30, 40)), integers(50, 0, 30)
offsets = data(np.int32([0, 7, 7, 20, 33, 50]))
out = zeros((5, 40))
want = np.zeros((5, 40))
for bag, (start, end) in enumerate(zip(offsets.array, offsets.array[1:])):
    if end > start:
        want[bag] = table.shaped[ids.array[start:end]].astype(float).mean(0)
cu.case("embedding_bag", 5, 32, [table, ids, offsets, out, i32(40)], {out: close(want, 1e-6)})

gates, c, h = uniform((4, 90), -3, 3), uniform(90), zeros(90)
g = gates.shaped.astype(float)
sigmoid = 1 / (1 + np.exp(-g))
cell = sigmoid[1] * c.array + sigmoid[0] * np.tanh(g[2])
cu.case("lstm", 3, 32, [gates, c, h, i32(90)],
        {c: close(cell, 2e-6), h: close(sigmoid[3] * np.tanh(cell), 2e-6)})
