"""CuPy's own kernels, one of the program's, and cuSPARSE, which is linked with nvJitLink; also tests of them."""

import cupy
from cupy_backends.cuda.libs import cusparse

SAXPY = r"""
extern "C" __global__ void saxpy(float a, const float *x, const float *y, float *out, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
"""


def test_saxpy():
    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.ones(1000, cupy.float32)
    out = cupy.zeros_like(x)
    cupy.RawKernel(SAXPY, "saxpy")((8,), (128,), (cupy.float32(2), x, y, out, 1000))
    assert (out == 2 * x + y).all()


def test_cusparse():
    assert cusparse.getVersion(cusparse.create()) > 0


if __name__ == "__main__":
    test_saxpy()
    test_cusparse()
