"""A convolution, against NumPy."""

import conftest  # noqa: F401
import jax
import numpy as np

assert jax.default_backend() == "gpu"
random = np.random.default_rng(7)
x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 12, 12), (4, 3, 3, 3)))
got = jax.jit(lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME", precision="highest"))(x, w)
padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
np.testing.assert_allclose(got, np.einsum("bcijkl,ockl->boij", windows, w), atol=1e-4)
