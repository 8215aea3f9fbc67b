"""tinygrad products, convolutions and layers; half precision uses tensor cores."""

import numpy as np

from harness.case import close, uniform
from harness.tinygrad_ptx import Tensor, case, dtypes

f = np.float64

a, b = uniform((64, 64)), uniform((64, 64))
case("matmul", lambda x, y: x @ y, [a, b], close(a.shaped.astype(f) @ b.shaped, 2e-2))
a, b = uniform((45, 33)), uniform((33, 27))
case("matmul_odd", lambda x, y: x @ y, [a, b], close(a.shaped.astype(f) @ b.shaped, 1e-5))
a, b = uniform((64, 64), dtype="float16"), uniform((64, 64), dtype="float16")
want = a.shaped.astype(f) @ b.shaped.astype(f)
case("matmul_half", lambda x, y: x.matmul(y, dtype=dtypes.float), [a, b], close(want, 1e-4))
case("matmul_accumulated_half", lambda x, y: x.matmul(y, dtype=dtypes.half), [a, b],
     close(want, 2e-2))
m, x = uniform((60, 128)), uniform(128)
case("matvec", lambda m, x: m @ x, [m, x], close(m.shaped.astype(f) @ x.array, 1e-5))
a, b = uniform((3, 16, 20)), uniform((3, 20, 12))
case("batched", lambda x, y: x @ y, [a, b], close(a.shaped.astype(f) @ b.shaped, 1e-5))


def convolution(x, w, stride=1, padding=0):
    """A 2-D convolution from its definition."""
    x = np.pad(x.astype(f), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    _, _, kh, kw = w.shape
    h, width = (x.shape[2] - kh) // stride + 1, (x.shape[3] - kw) // stride + 1
    out = np.zeros((x.shape[0], w.shape[0], h, width))
    for i in range(h):
        for j in range(width):
            part = x[:, :, i * stride:i * stride + kh, j * stride:j * stride + kw]
            out[:, :, i, j] = np.tensordot(part, w.astype(f), ([1, 2, 3], [1, 2, 3]))
    return out


x, w = uniform((2, 3, 14, 14)), uniform((6, 3, 3, 3))
case("conv", lambda x, w: x.conv2d(w, padding=1), [x, w],
     close(convolution(x.shaped, w.shaped, 1, 1), 1e-5))
case("conv_relu_pool", lambda x, w: x.conv2d(w, stride=2).relu().max_pool2d((2, 2)), [x, w],
     close(np.maximum(convolution(x.shaped, w.shaped, 2), 0)[:, :, :6, :6]
           .reshape(2, 6, 3, 2, 3, 2).max((3, 5)), 1e-5))
case("average_pool", lambda x: x.avg_pool2d((2, 2)), [x],
     close(x.shaped.astype(f).reshape(2, 3, 7, 2, 7, 2).mean((3, 5)), 1e-5))
mean = x.shaped.astype(f).mean((0, 2, 3), keepdims=True)
variance = x.shaped.astype(f).var((0, 2, 3), keepdims=True)
case("batchnorm", lambda x: (x - x.mean((0, 2, 3), keepdim=True))
     * (x.var((0, 2, 3), keepdim=True, correction=0) + 1e-5).rsqrt(), [x],
     close((x.shaped - mean) / np.sqrt(variance + 1e-5), 1e-5))

q, k, v = (uniform((2, 16, 8)) for _ in range(3))
score = q.shaped.astype(f) @ k.shaped.transpose(0, 2, 1) / np.sqrt(8)
for name, causal in (("attention", False), ("attention_causal", True)):
    masked = np.where(np.tri(16, dtype=bool), score, -np.inf) if causal else score
    p = np.exp(masked - masked.max(-1, keepdims=True))
    want = p / p.sum(-1, keepdims=True) @ v.shaped
    case(name, lambda q, k, v, c=causal: q.scaled_dot_product_attention(k, v, is_causal=c),
         [q, k, v], close(want, 5e-3))  # TF32

x, w = uniform((8, 20)), uniform((20, 5))
label = np.arange(8) % 5
z = x.shaped.astype(f) @ w.shaped
p = np.exp(z - z.max(1, keepdims=True))
p /= p.sum(1, keepdims=True)
gradient = x.shaped.T.astype(f) @ (p - np.eye(5)[label]) / 8


def trained(x, w):
    """Loss and gradient of a linear classifier."""
    weights = w
    loss = (x @ weights).cross_entropy(Tensor(label.astype(np.int32)))
    return loss.gradient(weights)[0]


case("gradient", trained, [x, w], close(gradient, 1e-5))
