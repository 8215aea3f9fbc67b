"""CuPy: a product of matrices, which cuBLAS does in machine code."""

import sys

try:
    import cupy as cp
    import numpy as np
except ImportError as missing:
    print(missing)
    sys.exit(77)

x = np.random.default_rng(1).random((256, 256), dtype=np.float32)
d = cp.asarray(x)
np.testing.assert_allclose((d @ d).get(), x @ x, rtol=1e-3)
print("well")
