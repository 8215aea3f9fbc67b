"""Triton: a softmax over rows, whose tensors come from the host."""

import sys

try:
    import torch
    import triton
    import triton.language as tl
except ImportError as missing:
    print(missing)
    sys.exit(77)


@triton.jit
def softmax(source, target, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(source + row * columns + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(target + row * columns + at, e / tl.sum(e, axis=0), mask=at < columns)


torch.manual_seed(1)
x = torch.randn(300, 1000)
d, out = x.to("cuda"), torch.empty(x.shape, device="cuda")
softmax[(x.shape[0],)](d, out, x.shape[1], BLOCK=1024)
torch.testing.assert_close(out.cpu(), torch.softmax(x, 1), rtol=1e-4, atol=1e-6)
print("well")
