"""A program of its own, as an assertion that fails ends what the device does for a process."""

import sys

import triton
import triton.language as tl

from kinds import INT32
from memory import DriverArrays, Memory, TorchArrays


@triton.jit
def _asserted(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.device_assert(value < 40, "the value is too large", mask=at < 30)


@triton.jit
def _overflowing(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) + 2147483600)


@triton.jit
def _zero(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.expect_zero(tl.load(x + at), at < 2))


def main():
    """Arguments: who makes the arrays, which kernel, the largest value, whether assertions are compiled."""
    arrays, which, largest, debug = sys.argv[1:]
    memory = Memory({"driver": DriverArrays, "torch": TorchArrays}[arrays]())
    values = [0] * 29 + [int(largest)] + [50, 0]
    array = memory.put(INT32, values)
    kernel = {"asserted": _asserted, "overflowing": _overflowing, "zero": _zero}[which]
    memory.launch(kernel, (1,), array, 32, debug=debug == "debug")
    memory.arrays.synchronize()
    print("done")


if __name__ == "__main__":
    main()
