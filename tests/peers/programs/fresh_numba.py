"""A kernel of Numba's, as its manual begins; also a test of it."""

import numpy as np
from numba import cuda


@cuda.jit
def saxpy(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def test_saxpy():
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    out = np.zeros_like(x)
    saxpy[8, 128](np.float32(2), x, y, out)
    assert (out == 2 * x + y).all()


if __name__ == "__main__":
    test_saxpy()
