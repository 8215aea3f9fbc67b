"""torch.compile: an elementwise function, a reduction and a product of matrices, against torch on the CPU."""

import sys

try:
    import torch
    import torch._inductor.config as inductor
except ImportError as missing:
    print(missing)
    sys.exit(77)

inductor.max_autotune_gemm, inductor.max_autotune_gemm_backends, inductor.max_autotune_conv_backends = True, "TRITON", "TRITON"
inductor.shape_padding, inductor.joint_graph_constant_folding, inductor.test_configs.max_mm_configs = False, False, 1


def function(x, w):
    return torch.nn.functional.gelu(x @ w).sum(1) + x.exp().mean(1)


torch.manual_seed(1)
x, w = torch.randn(128, 64), torch.randn(64, 96)
got = torch.compile(function)(x.to("cuda"), w.to("cuda")).cpu()
torch.testing.assert_close(got, function(x, w), rtol=1e-2, atol=1e-1)
print("well")
