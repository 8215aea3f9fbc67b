"""JAX: jit, a gradient and a product of matrices, against NumPy."""

import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
try:
    import jax
    import jax._src.hardware_utils
    import jax.numpy as jnp
    import numpy as np
except ImportError as missing:
    print(missing)
    sys.exit(77)

jax._src.hardware_utils.has_visible_nvidia_gpu = lambda: True
assert jax.default_backend() == "gpu", jax.default_backend()
x = np.random.default_rng(1).random((64, 48), dtype=np.float32)
got = jax.jit(lambda x: jnp.tanh(x).sum(0))(x)
np.testing.assert_allclose(got, np.tanh(x).sum(0), rtol=1e-4)
slope = jax.jit(jax.grad(lambda x: (x**3).sum()))(x)
np.testing.assert_allclose(slope, 3 * x**2, rtol=1e-4)
with jax.default_matmul_precision("highest"):
    np.testing.assert_allclose(jax.jit(lambda x: x @ x.T)(x), x @ x.T, rtol=1e-3)
print("well")
