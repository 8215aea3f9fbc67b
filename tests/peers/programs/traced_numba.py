"""The work of traced.py on Numba."""

import numpy as np
from numba import cuda

BLOCK = 128


@cuda.jit("void(uint32[::1], uint32)")
def step(values, number):
    i = cuda.grid(1)
    if i < values.size:
        values[i] = values[i] * np.uint32(3) + number


class Device:
    """Numbers on the device, and a stream."""

    def __init__(self, values, is_alone):
        # Threads that share a stream wait for each other's work.
        self.stream = cuda.default_stream() if is_alone else cuda.stream()
        self.values = cuda.to_device(values, stream=self.stream)
        self.out = cuda.pinned_array(values.size, np.uint32)

    def step(self, number):
        step[self.values.size // BLOCK, BLOCK, self.stream](self.values, np.uint32(number))

    def copy_out(self):
        self.values.copy_to_host(self.out, stream=self.stream)

    def wait(self):
        self.stream.synchronize()
