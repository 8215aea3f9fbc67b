"""CuPy: its own elementwise kernels and reductions, which it compiles itself."""

import sys

try:
    import cupy as cp
    import numpy as np
except ImportError as missing:
    print(missing)
    sys.exit(77)

x = np.random.default_rng(1).random((512, 300), dtype=np.float32)
d = cp.asarray(x)
np.testing.assert_allclose((d * 2 + cp.sin(d)).get(), x * 2 + np.sin(x), rtol=1e-5)
np.testing.assert_allclose(d.sum(axis=0).get(), x.sum(axis=0), rtol=1e-4)
kernel = cp.ElementwiseKernel("float32 a, float32 b", "float32 c", "c = a > b ? a - b : 0", "positive_part")
np.testing.assert_allclose(kernel(d, cp.float32(0.5)).get(), np.maximum(x - 0.5, 0), rtol=1e-5)
print("well")
