"""What a program sets so that torch.compile makes its kernels itself: docs/howto/pytorch.md has these three lines."""

import torch
import torch._inductor.config as inductor

inductor.max_autotune_gemm, inductor.max_autotune_gemm_backends, inductor.max_autotune_conv_backends = True, "TRITON", "TRITON"
inductor.shape_padding, inductor.joint_graph_constant_folding, inductor.test_configs.max_mm_configs = False, False, 1
for it in ("flash", "mem_efficient", "cudnn"): getattr(torch.backends.cuda, f"enable_{it}_sdp")(False)
