"""Parts of networks: matrix products, attention, convolutions."""

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "tf32": torch.float32}


class Product:
    """A product of two square matrices."""

    def __init__(self, options, kind, size):
        size = 64 if options.tiny else size
        self.kind = kind
        a, b = (torch.randn(size, size, device=options.device) for _ in range(2))
        if kind == "fp8":
            self.a = a.to(torch.float8_e4m3fn)
            # The right factor of a scaled product lies column by column.
            self.b = b.to(torch.float8_e4m3fn).t().contiguous().t()
            self.one = torch.ones((), device=options.device)
        else:
            self.a, self.b = a.to(TYPES[kind]), b.to(TYPES[kind])

    def __call__(self):
        if self.kind == "fp8":
            return torch._scaled_mm(self.a, self.b, scale_a=self.one, scale_b=self.one, out_dtype=torch.bfloat16)
        if self.kind == "tf32":
            torch.backends.cuda.matmul.allow_tf32 = True
        return self.a @ self.b


class Attention:
    """Causal attention, forward and backward, by one backend."""

    BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
                "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}

    def __init__(self, options, kind):
        shape = (1, 2, 32, 16) if options.tiny else (4, 16, 2048, 64)
        # The CPU build has no other backends.
        self.backend = SDPBackend.MATH if options.device == "cpu" else self.BACKENDS[kind]
        self.inputs = [torch.randn(shape, device=options.device, dtype=torch.bfloat16).requires_grad_()
                       for _ in range(3)]

    def __call__(self):
        with sdpa_kernel(self.backend):
            out = functional.scaled_dot_product_attention(*self.inputs, is_causal=True)
            self.grads = torch.autograd.grad(out.sum(), self.inputs)
        self.out = out
        return out

    def outputs(self):
        """The output, and the gradient of the values: that of the others may be summed in any order."""
        return [self.out, self.grads[2]]


class Convolution:
    """A convolution, forward."""

    def __init__(self, options, kind):
        size, wide = (8, 8) if options.tiny else (56, 128)
        volume = kind == "3d"
        layer, batch = (torch.nn.Conv3d if volume else torch.nn.Conv2d), (1 if options.tiny else 32)
        if volume:
            size, batch = size // 2, max(batch // 4, 1)
        self.layer = layer(wide, wide, 1 if kind == "1x1" else 3, padding="same", bias=False,
                           groups=wide if kind == "depthwise" else 1)
        last = torch.channels_last_3d if volume else torch.channels_last
        self.layer = self.layer.to(options.device, torch.bfloat16, memory_format=last)
        shape = (batch, wide, *[size] * (3 if volume else 2))
        self.x = torch.randn(shape, device=options.device, dtype=torch.bfloat16).to(memory_format=last)

    @torch.no_grad()
    def __call__(self):
        return self.layer(self.x)
