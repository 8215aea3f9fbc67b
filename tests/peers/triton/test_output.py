"""What kernels print, assert, and say while they are compiled."""

import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import triton
import triton.language as tl

from elementwise import refused, same
from kinds import FLOATS, FP32, INT32, INTEGERS, named

HERE = pathlib.Path(__file__).parent


@triton.jit
def _print(x, HEX: tl.constexpr, BLOCK: tl.constexpr):
    tl.device_print("seen", tl.load(x + tl.arange(0, BLOCK)), hex=HEX)


def _printed(memory, capfd, kernel, *arguments):
    capfd.readouterr()
    memory.launch(kernel, (1,), *arguments)
    memory.arrays.synchronize()
    return capfd.readouterr().out


LINE = re.compile(r"pid \((\d+), (\d+), (\d+)\) idx \(\s*(\d+)\) seen: (\S+)")


@pytest.mark.parametrize("kind", **named([*INTEGERS, *FLOATS]))
def test_print(memory, capfd, kind):
    # One for each thread of four warps: of fewer several threads have the same, and print it.
    x = (np.arange(128) % 100).astype(kind.values)
    out = _printed(memory, capfd, _print, memory.put(kind, x), False, 128)
    seen = sorted((int(index), float(value)) for *_, index, value in LINE.findall(out))
    assert seen == [(at, float(value)) for at, value in enumerate(x)], out[:500]


def test_print_in_hexadecimal(memory, capfd):
    x = np.arange(128, dtype=np.int32) * 1000003
    out = _printed(memory, capfd, _print, memory.put(INT32, x), True, 128)
    assert sorted(int(value, 16) for *_, value in LINE.findall(out)) == sorted(int(it) for it in x), out[:500]


@triton.jit
def _print_scalars(n, f):
    tl.device_print("both", n, f)
    print("alone", n)
    tl.device_print("nothing")


def test_print_of_scalars(memory, capfd):
    out = _printed(memory, capfd, _print_scalars, -5, 2.5)
    assert re.search(r"both: \(operand 0\) -5", out) and re.search(r"both: \(operand 1\) 2\.50*", out), out[:500]
    assert re.search(r"alone: -5", out) and "nothing" in out, out[:500]


def _run(request, which, largest, debug):
    command = [sys.executable, "asserts.py", request.config.getoption("--arrays"), which, str(largest), debug]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.parametrize("which, good, bad, said", [("asserted", 39, 40, "the value is too large"),
                                                    ("overflowing", -2147483600, 48, "overflow detected")],
                         ids=["asserted", "overflowing"])
def test_assertions(request, which, good, bad, said):
    """They end what the device does for this program, and say which it was; left out, they do nothing."""
    if which == "asserted":
        assert (ran := _run(request, which, good, "debug")).stdout.strip() == "done", ran.stderr
    failed = _run(request, which, bad, "debug")
    assert failed.returncode != 0 and "done" not in failed.stdout, failed.stdout
    assert said in failed.stderr + failed.stdout, failed.stderr
    assert (ran := _run(request, which, bad, "no")).stdout.strip() == "done", ran.stderr


def test_expect_zero(request):
    """In a debugging build it asserts; else it gives the values on."""
    assert (ran := _run(request, "zero", 5, "debug")).stdout.strip() == "done", ran.stderr
    assert (ran := _run(request, "zero", 5, "no")).stdout.strip() == "done", ran.stderr


@triton.jit
def _expected(out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.expect_zero(tl.load(x + at), at < 4))


def test_expect_zero_gives_values_on(memory):
    x = np.arange(32, dtype=np.float32)
    out = memory.room(FP32, 32)
    memory.launch(_expected, (1,), out, memory.put(FP32, x), 32)
    same(memory.get(out), x)


@triton.jit
def _static(out, N: tl.constexpr):
    tl.static_print("compiled for", N)
    tl.static_assert(N % 2 == 0, "it must be even")
    tl.store(out, N)


def test_while_it_is_compiled(memory, capfd):
    out = memory.room(INT32, 1)
    memory.launch(_static, (1,), out, 123456)
    same(memory.get(out), np.array([123456], np.int32))
    with refused("it must be even"):
        memory.launch(_static, (1,), out, 3)
    # It is printed where the kernel is compiled, and not where it was before.
    said = capfd.readouterr().out
    assert "compiled for 3" in said.replace("constexpr[", "").replace("]", ""), said
