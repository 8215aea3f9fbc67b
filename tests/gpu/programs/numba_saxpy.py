"""numba-cuda: a kernel over vectors, with shared memory in a second one."""

import sys

try:
    import numpy as np
    from numba import cuda, float32
except ImportError as missing:
    print(missing)
    sys.exit(77)


@cuda.jit
def saxpy(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@cuda.jit
def block_sums(x, out):
    part = cuda.shared.array(256, float32)
    i = cuda.threadIdx.x
    part[i] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 128
    while step:
        if i < step:
            part[i] += part[i + step]
        cuda.syncthreads()
        step //= 2
    if i == 0:
        out[cuda.blockIdx.x] = part[0]


n = 1 << 20
x, y = np.arange(n, dtype=np.float32), np.ones(n, dtype=np.float32)
out = cuda.device_array(n, dtype=np.float32)
saxpy[n // 256, 256](np.float32(2), cuda.to_device(x), cuda.to_device(y), out)
assert (out.copy_to_host() == 2 * x + y).all()
sums = cuda.device_array(n // 256, dtype=np.float32)
block_sums[n // 256, 256](cuda.to_device(y), sums)
assert (sums.copy_to_host() == 256).all()
print("well")
