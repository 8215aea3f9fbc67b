#!/usr/bin/env python3
"""A service on Numba: requests one after the other, each answered from the device and checked.

  requests.py [--requests 300]      prints one JSON object: requests, p50_ms, p99_ms

A request is a vector copied to the device, a blocked sum of its squares, the sums copied back.
"""

import argparse
import json
import time

import numpy as np
from numba import cuda, float32

COUNT, BLOCK = 16_384, 128


@cuda.jit
def squares(numbers, sums):
    part = cuda.shared.array(BLOCK, float32)
    lane = cuda.threadIdx.x
    part[lane] = numbers[cuda.grid(1)] ** 2
    cuda.syncthreads()
    width = BLOCK // 2
    while width:
        if lane < width:
            part[lane] += part[lane + width]
        cuda.syncthreads()
        width //= 2
    if lane == 0:
        sums[cuda.blockIdx.x] = part[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=300)
    requests = parser.parse_args().requests
    numbers = np.random.default_rng(11).standard_normal((requests, COUNT)).astype(np.float32)
    there = cuda.device_array(COUNT, np.float32)
    sums = cuda.device_array(COUNT // BLOCK, np.float32)

    def answer(vector):
        there.copy_to_device(vector)
        squares[COUNT // BLOCK, BLOCK](there, sums)
        return sums.copy_to_host().sum(dtype=np.float64)

    answer(numbers[0])
    latencies = []
    for vector in numbers:
        began = time.monotonic()
        said = answer(vector)
        latencies.append(1e3 * (time.monotonic() - began))
        expected = (vector.astype(np.float64) ** 2).sum()
        assert abs(said - expected) <= 1e-5 * expected, f"{said} instead of {expected}"
        # Somebody asks again after a while.
        time.sleep(0.01)
    p50, p99 = np.percentile(latencies, (50, 99))
    print(json.dumps({"requests": requests, "p50_ms": round(p50, 2), "p99_ms": round(p99, 2)}))


if __name__ == "__main__":
    main()
