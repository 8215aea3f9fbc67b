"""Functions: each with its gradients, compiled as one."""

import torch
import torch.nn.functional as F

from compare import function

randn = torch.randn


def positive(*shape):
    """Numbers from a half to one and a half."""
    return torch.rand(shape) + 0.5


def _attention(query, key, value):
    weights = torch.softmax(query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5, dim=-1)
    return weights @ value


def _unfolded(image, weight):
    """A convolution as a product of matrices, written out."""
    columns = F.unfold(image, 3, padding=1)
    return (weight.flatten(1) @ columns).unflatten(2, image.shape[2:])


def _batch_norm(x, weight, bias):
    return F.batch_norm(x, None, None, weight, bias, training=True)


def _whole(x, y):
    return [x // y, x % y, (x & 255) ^ (y << 3), x.abs().min(y), x > y, (x * y).sum(1)]


#: Name, the function, its inputs on the CPU, made when its turn comes.
FUNCTIONS = {
    # One element at a time.
    "arithmetic": (lambda x, y: (x * y + x - y) / (y * y + 1), lambda: (randn(40, 70), randn(70))),
    "activations": (lambda x: [F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.softplus(x), F.elu(x)],
                    lambda: (randn(33, 65),)),
    "exponentials": (lambda x: [x.exp(), x.log(), x.pow(1.7), x.rsqrt(), x.expm1(), x.log1p()],
                     lambda: (positive(33, 65),)),
    "trigonometry": (lambda x: [x.sin(), x.cos(), x.tanh(), x.atan(), x.sigmoid(), x.erf()],
                     lambda: (randn(33, 65) * 3,)),
    "choices": (lambda x, y: [torch.where(x > y, x, y * 2), x.clamp(-0.5, 0.5), F.relu(x), x.abs(), x.maximum(y)],
                lambda: (randn(33, 65), randn(33, 65))),
    "whole numbers": (_whole, lambda: (torch.randint(-99, 999, (20, 50)), torch.randint(1, 30, (20, 50)))),
    "shapes": (lambda x, y: torch.cat([x.transpose(1, 2).reshape(4, -1), y.flip(1)], 1).roll(3, 1),
               lambda: (randn(4, 6, 10), randn(4, 7))),
    # Many elements to one.
    "sums": (lambda x: [x.sum(0) * 1.5, x.mean(1).exp(), x.sum() / 100], lambda: (randn(130, 300),)),
    "spreads": (lambda x: [x.var(1), x.std(0), x.norm(dim=1)], lambda: (randn(50, 130),)),
    "extremes": (lambda x: [x.max(1).values, x.argmax(1), x.amin(0), x.argmin(0)], lambda: (randn(50, 130),)),
    "logsumexp": (lambda x: x.logsumexp(1), lambda: (randn(50, 130) * 5,)),
    "long sum": (lambda x: (x * x).sum(), lambda: (randn(300_000),)),
    "running sums": (lambda x: [x.cumsum(1), x.exp().cumsum(0)], lambda: (randn(20, 100),)),
    "products": (lambda x: x.prod(1), lambda: (positive(30, 20),)),
    # Softmax and norms.
    "softmax": (lambda x: F.softmax(x, -1), lambda: (randn(40, 130) * 4,)),
    "wide softmax": (lambda x: F.log_softmax(x, -1), lambda: (randn(3, 5000) * 4,)),
    "cross entropy": (F.cross_entropy, lambda: (randn(40, 100), torch.randint(0, 100, (40,)))),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (130,), w, b), lambda: (randn(40, 130), randn(130), randn(130))),
    "rms norm": (lambda x, w: F.rms_norm(x, (130,), w), lambda: (randn(40, 130), randn(130))),
    "batch norm": (_batch_norm, lambda: (randn(4, 16, 8, 8), randn(16), randn(16))),
    "group norm": (lambda x, w, b: F.group_norm(x, 4, w, b), lambda: (randn(4, 16, 8, 8), randn(16), randn(16))),
    # Products of matrices.
    "matmul": (lambda x, y: x @ y, lambda: (randn(60, 48), randn(48, 80))),
    "linear": (lambda x, w, b: F.gelu(F.linear(x, w, b)), lambda: (randn(3, 20, 48), randn(80, 48), randn(80))),
    "batched matmul": (torch.bmm, lambda: (randn(4, 33, 48), randn(4, 48, 65))),
    "einsum": (lambda x, y: torch.einsum("bhqd,bhkd->bhqk", x, y), lambda: (randn(2, 3, 20, 16), randn(2, 3, 30, 16))),
    # Attention.
    "attention": (_attention, lambda: (randn(2, 3, 32, 16), randn(2, 3, 40, 16), randn(2, 3, 40, 16))),
    "causal attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                         lambda: (randn(2, 3, 32, 16), randn(2, 3, 32, 16), randn(2, 3, 32, 16))),
    "grouped attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
                          lambda: (randn(2, 4, 32, 16), randn(2, 2, 32, 16), randn(2, 2, 32, 16))),
    # Convolutions and pools.
    "convolution": (lambda x, w, b: F.conv2d(x, w, b, padding=1),
                    lambda: (randn(2, 16, 12, 12), randn(24, 16, 3, 3), randn(24))),
    "strided convolution": (lambda x, w: F.conv2d(x, w, stride=2, padding=3),
                            lambda: (randn(2, 4, 16, 16), randn(16, 4, 7, 7))),
    "pointwise convolution": (F.conv2d, lambda: (randn(2, 16, 8, 8), randn(32, 16, 1, 1))),
    "convolution in one dimension": (lambda x, w: F.conv1d(x, w, padding=2),
                                     lambda: (randn(2, 16, 50), randn(24, 16, 5))),
    "convolution as matmul": (_unfolded, lambda: (randn(2, 8, 10, 10), randn(12, 8, 3, 3))),
    "pools": (lambda x: [F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)],
              lambda: (randn(2, 8, 12, 12),)),
    "interpolation": (lambda x: [F.interpolate(x, scale_factor=2), F.interpolate(x, size=(15, 9), mode="bilinear")],
                      lambda: (randn(2, 3, 8, 8),)),
    # Elements by their numbers.
    "embedding": (F.embedding, lambda: (torch.randint(0, 50, (4, 16)), randn(50, 32))),
    "gather and scatter": (lambda x, at, y: [x.gather(1, at), x.scatter_add(1, at, y), x[:, at[0]]],
                           lambda: (randn(10, 40), torch.randint(0, 40, (10, 20)), randn(10, 20))),
    "sort": (lambda x: x.sort(1).values, lambda: (randn(10, 100),)),
}


def _one(compute, inputs):
    return lambda: function(compute, inputs())


CASES = {name: _one(*it) for name, it in FUNCTIONS.items()}
