"""Parts of networks: matrix products, attention, convolutions."""

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_work import Work, seeded

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "tf32": torch.float32}


class Product(Work):
    """A product of two square matrices."""

    DIGESTED = 1

    def __init__(self, options, kind, size):
        size = min(size, 64) if options.tiny else size
        self.kind, self.out = kind, None
        with seeded(options.device):
            a, b = (torch.randn(size, size) for _ in range(2))
            self.one = torch.ones((), dtype=torch.float32)
        if kind == "fp8":
            self.a = a.to(torch.float8_e4m3fn)
            # The right factor of a scaled product lies column by column.
            self.b = b.to(torch.float8_e4m3fn).t().contiguous().t()
        else:
            self.a, self.b = a.to(TYPES[kind]), b.to(TYPES[kind])
        # The other jobs have no product in float32.
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"

    def __call__(self):
        if self.kind == "fp8":
            self.out = torch._scaled_mm(self.a, self.b, scale_a=self.one, scale_b=self.one,
                                        out_dtype=torch.bfloat16)
        else:
            self.out = self.a @ self.b

    def outputs(self):
        return [self.out]

    def close(self):
        torch.backends.cuda.matmul.allow_tf32 = False


class Attention(Work):
    """Causal attention, forward and backward, by one backend."""

    DIGESTED = 1
    BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
                "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}

    def __init__(self, options, kind):
        shape = (1, 2, 32, 16) if options.tiny else (4, 16, 2048, 64)
        # The CPU build has no other backends.
        self.backend = SDPBackend.MATH if options.device == "cpu" else self.BACKENDS[kind]
        with seeded(options.device):
            self.inputs = [torch.randn(shape, dtype=torch.bfloat16).requires_grad_() for _ in range(3)]
            self.grad = torch.randn(shape, dtype=torch.bfloat16)

    def __call__(self):
        with sdpa_kernel(self.backend):
            out = functional.scaled_dot_product_attention(*self.inputs, is_causal=True)
            self.grads = torch.autograd.grad(out, self.inputs, self.grad)
        self.out = out.detach()

    def outputs(self):
        # The gradient of the queries is summed by atomic additions, in any order.
        return [self.out, self.grads[2]]


class Convolution(Work):
    """A convolution, forward."""

    DIGESTED = 1

    def __init__(self, options, kind):
        size, wide, batch = (8, 8, 1) if options.tiny else (56, 128, 32)
        volume = kind == "3d"
        if volume:
            size, batch = size // 2, max(batch // 4, 1)
        last = torch.channels_last_3d if volume else torch.channels_last
        with seeded(options.device):
            layer = (torch.nn.Conv3d if volume else torch.nn.Conv2d)(
                wide, wide, 1 if kind == "1x1" else 3, padding=0 if kind == "1x1" else 1, bias=False,
                groups=wide if kind == "depthwise" else 1)
            x = torch.randn(batch, wide, *[size] * (3 if volume else 2), dtype=torch.bfloat16)
        self.layer, self.x = layer.to(torch.bfloat16).to(memory_format=last), x.to(memory_format=last)

    @torch.no_grad()
    def __call__(self):
        self.out = self.layer(self.x)

    def outputs(self):
        return [self.out]


class Weights(Work):
    """Weights of 2 GiB that come from the host, equal in each process; a step is one product with a part."""

    DIGESTED = 1
    SIDE = 8192

    def __init__(self, options):
        side, parts = (64, 4) if options.tiny else (self.SIDE, 16)
        made = torch.Generator().manual_seed(5)
        # Bits of a small table, turned for each part: 2 GiB of random numbers would take a host a minute.
        row = torch.randn(side * side // 64, generator=made).to(torch.bfloat16)
        self.parts = []
        for part in range(parts):
            host = torch.cat([row.roll(part * 64 + it) for it in range(64)]).view(side, side)
            self.parts.append(host.to(options.device))
        self.turn = 0
        with seeded(options.device):
            self.x = torch.randn(64, side, dtype=torch.bfloat16)

    def reset(self):
        self.turn = 0

    @torch.no_grad()
    def __call__(self):
        self.out = self.x @ self.parts[self.turn]
        self.turn = (self.turn + 1) % len(self.parts)

    def outputs(self):
        return [self.out]
