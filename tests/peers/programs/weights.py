#!/usr/bin/env python3
"""A model's large weights and a small adapter of its own on tinygrad; or a training that needs much memory.

  DEV=CUDA:PTX weights.py --adapter 3 [--mib 500]   copies weights that every such program has, and an adapter
                                                    that only number 3 has; applies both, and is checked
  DEV=CUDA:PTX weights.py --train 20 [--mib 40]     so many steps over weights of that size, checked

Prints one JSON object (seconds until the weights are there, the difference from NumPy's), and keeps its memory
until its standard input ends.
"""

import argparse
import json
import sys
import time

import numpy as np
from tinygrad import Device, Tensor

WIDTH, RANK, TOLERANCE = 2_560, 8, 2e-3


def adapt(number, mib):
    rows = 25 * (1 << 20) // (4 * WIDTH)
    layers = max(1, mib // 25)
    shared = np.random.default_rng(7)
    host = [shared.standard_normal((rows, WIDTH), np.float32) for _ in range(layers)]
    own = np.random.default_rng(100 + number)
    down, up = (own.standard_normal(shape, np.float32) for shape in ((rows, RANK), (RANK, WIDTH)))
    x = own.standard_normal((1, rows), np.float32)
    Tensor([1.0]).realize()
    began = time.perf_counter()
    there = [Tensor(layer).realize() for layer in host]
    Device[Device.DEFAULT].synchronize()
    seconds = time.perf_counter() - began
    small = Tensor(x) @ Tensor(down).realize() @ Tensor(up).realize()
    difference = 0.0
    for layer, values in zip(there[:2] + there[-1:], host[:2] + host[-1:]):
        answer = (Tensor(x) @ layer + small).numpy()
        wanted = x.astype(np.float64) @ values + x.astype(np.float64) @ down @ up
        difference = max(difference, float(np.abs(answer - wanted).max() / np.abs(wanted).max()))
    held = sum(layer.nbytes for layer in host)
    return {"seconds": seconds, "weights": held, "difference": difference}, there


def train(steps, mib):
    count = mib * (1 << 20) // 4
    start = np.random.default_rng(3).standard_normal(count, np.float32)
    began = time.perf_counter()
    weights, host = Tensor(start).realize(), start.astype(np.float64)
    for step in range(steps):
        weights = (weights * 0.9 + (step + 1) * 0.01).realize()
        host = host * 0.9 + (step + 1) * 0.01
    answer = weights.numpy()
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "difference": float(np.abs(answer - host).max())}, weights


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adapter", type=int)
    parser.add_argument("--train", type=int)
    parser.add_argument("--mib", type=int)
    given = parser.parse_args()
    if given.train is not None:
        told, kept = train(given.train, given.mib or 40)
    else:
        told, kept = adapt(given.adapter or 0, given.mib or 500)
    print(json.dumps(told), flush=True)
    if told["difference"] > TOLERANCE:
        sys.exit(f"the results differ from NumPy's by {told['difference']}")
    sys.stdin.read()
    del kept


if __name__ == "__main__":
    main()
