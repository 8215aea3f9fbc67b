#!/usr/bin/env python3
"""CUDA C++ through cuda.core: NVRTC makes PTX of a template, which runs and is checked.

Prints one JSON object: the device's name and how many elements were checked.
"""

import json

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = r"""
template <typename T> __global__ void blend(const T *x, const T *y, T *out, T weight, size_t count) {
    extern __shared__ unsigned char shared[];
    T *staged = reinterpret_cast<T *>(shared);
    for (size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
        staged[threadIdx.x] = x[at] * weight;
        out[at] = staged[threadIdx.x] + y[at] * (T(1) - weight);
    }
}
"""
COUNT, BLOCK = 40_000, 256


def blended(device, stream, kind, name):
    """How many elements of `blend` on numbers of a kind are right: all, or this fails."""
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    symbol = f"blend<{name}>"
    program = Program(SOURCE, code_type="c++", options=options)
    kernel = program.compile("ptx", name_expressions=(symbol,)).get_kernel(symbol)
    pinned, size = LegacyPinnedMemoryResource(), np.dtype(kind).itemsize
    host = pinned.allocate(3 * COUNT * size, stream=stream)
    there = device.memory_resource.allocate(3 * COUNT * size, stream=stream)
    x, y, out = np.from_dlpack(host).view(kind).reshape(3, COUNT)
    numbers = np.random.default_rng(7)
    x[:], y[:], out[:] = numbers.integers(-99, 99, COUNT), numbers.integers(-99, 99, COUNT), 0
    there.copy_from(host, stream=stream)
    base = int(there.handle)
    addresses = [base + part * COUNT * size for part in range(3)]
    config = LaunchConfig(grid=60, block=BLOCK, shmem_size=BLOCK * size)
    launch(stream, config, kernel, *addresses, kind(0.25), np.uint64(COUNT))
    there.copy_to(host, stream=stream)
    stream.sync()
    assert np.array_equal(out, x * kind(0.25) + y * kind(0.75)), "the result differs"
    there.close(stream)
    host.close(stream)
    return COUNT


def main():
    device = Device()
    device.set_current()
    stream = device.create_stream()
    checked = sum(blended(device, stream, kind, name)
                  for kind, name in ((np.float32, "float"), (np.float64, "double")))
    print(json.dumps({"device": device.name, "checked": checked}))


if __name__ == "__main__":
    main()
