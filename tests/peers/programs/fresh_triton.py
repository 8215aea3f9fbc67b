"""Triton without PyTorch: kernels as its tutorials have them, their values checked by NumPy; also tests of them."""

import ctypes
import time

import numpy as np
import triton
import triton.language as tl

CUDA = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    """Calls the driver, which keeps a primary context current."""
    code = getattr(CUDA, name)(*arguments)
    assert code == 0, f"{name}: {code}"


class Array:
    """An array on the device: Triton takes for a pointer what has `data_ptr()` and `dtype`."""

    KINDS = {"float32": "fp32", "float16": "fp16", "int32": "i32"}

    def __init__(self, values):
        self.host = np.ascontiguousarray(values)
        self.dtype = self.KINDS[self.host.dtype.name]
        self.address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(self.host.nbytes))
        call("cuMemcpyHtoD_v2", self.address, self.host.ctypes.data_as(ctypes.c_void_p),
             ctypes.c_size_t(self.host.nbytes))

    def data_ptr(self):
        """The address, for a kernel."""
        return self.address.value

    def get(self):
        """The values now."""
        call("cuMemcpyDtoH_v2", self.host.ctypes.data_as(ctypes.c_void_p), self.address,
             ctypes.c_size_t(self.host.nbytes))
        return self.host.copy()


def device():
    """Makes the primary context current, as PyTorch does where it is there."""
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)


device()
RANDOM = np.random.default_rng(20261127)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax(x, out, sums, width, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * width + column, mask=column < width, other=float("-inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * width + column, powers / tl.sum(powers, 0), mask=column < width)
    tl.atomic_add(sums, tl.sum((values > 0).to(tl.int32), 0))


@triton.jit
def matmul(a, b, out, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, k, STEP):
        l = start + tl.arange(0, STEP)
        left = tl.load(a + i * k + l[None, :], mask=(i < m) & (l[None, :] < k), other=0)
        right = tl.load(b + l[:, None] * n + j, mask=(l[:, None] < k) & (j < n), other=0)
        total = tl.dot(left, right, total)
    tl.store(out + i * n + j, total, mask=(i < m) & (j < n))


def clock(kernel, quantiles):
    """Times a kernel for the autotuner, whose own way of it is made of PyTorch's tensors."""
    began = time.perf_counter()
    kernel()
    call("cuCtxSynchronize")
    return [time.perf_counter() - began] * len(quantiles)


TUNED = triton.autotune([triton.Config({"ROWS": size, "COLUMNS": size, "STEP": 32}, num_warps=warps)
                         for size, warps in ((16, 2), (32, 4))], key=["m", "n", "k"], do_bench=clock)(matmul)


def halves(*shape):
    """Whole numbers of 16 bits, whose sums of products float32 holds exactly."""
    return RANDOM.integers(-3, 4, shape).astype(np.float16)


def test_add():
    x, y = (RANDOM.standard_normal(1000).astype(np.float32) for _ in range(2))
    out = Array(np.zeros_like(x))
    add[(triton.cdiv(1000, 256),)](Array(x), Array(y), out, 1000, BLOCK=256)
    assert (out.get() == x + y).all()


def test_softmax():
    x = RANDOM.standard_normal((50, 100)).astype(np.float32)
    out, sums = Array(np.zeros_like(x)), Array(np.zeros(1, np.int32))
    softmax[(50,)](Array(x), out, sums, 100, BLOCK=128)
    powers = np.exp(x.astype(np.float64))
    assert np.abs(out.get() - powers / powers.sum(1, keepdims=True)).max() < 1e-6
    assert sums.get()[0] == (x > 0).sum()


def test_matmul():
    a, b = halves(100, 70), halves(70, 80)
    out = Array(np.zeros((100, 80), np.float32))
    matmul[(4, 3)](Array(a), Array(b), out, 100, 80, 70, ROWS=32, COLUMNS=32, STEP=32)
    assert (out.get() == a.astype(np.float32) @ b.astype(np.float32)).all()


def test_autotune():
    a, b = halves(64, 96), halves(96, 64)
    out = Array(np.zeros((64, 64), np.float32))
    TUNED[lambda it: (triton.cdiv(64, it["ROWS"]), triton.cdiv(64, it["COLUMNS"]))](Array(a), Array(b), out, 64, 64, 96)
    assert (out.get() == a.astype(np.float32) @ b.astype(np.float32)).all()
    assert len(TUNED.configs_timings) == 2 and TUNED.best_config in TUNED.configs


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
