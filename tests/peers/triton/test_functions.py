"""Functions and values of programs: calls, tuples, aggregates, constants, inline assembly, tuning."""

from typing import NamedTuple

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.language.extra import cuda

from elementwise import elementwise, near, refused, same, spread
from kinds import BF16, FP16, FP32, INT32, INT64, INT8, UINT32, UINT8, named


@triton.jit
def _square(x):
    return x * x


@triton.jit
def _both(x, y, F: tl.constexpr):
    return F(x) + F(y), F(x) - F(y)


@triton.jit(noinline=True)
def _apart(x, y):
    return x * 3 + y


@triton.jit
def _calls(sums, differences, called, x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    first, second = _both(a, b, F=_square)
    tl.store(sums + at, first)
    tl.store(differences + at, second)
    # A call that stays one: a function of its own in the PTX.
    tl.store(called + at, _apart(tl.sum(a), tl.sum(b)) + at)


def test_calls(memory):
    x, y = np.arange(64, dtype=np.int32), np.arange(64, dtype=np.int32)[::-1] * 2
    arrays = [memory.room(INT32, 64) for _ in range(3)]
    memory.launch(_calls, (1,), *arrays, memory.put(INT32, x), memory.put(INT32, y), 64)
    same(memory.get(arrays[0]), x * x + y * y)
    same(memory.get(arrays[1]), x * x - y * y)
    same(memory.get(arrays[2]), (x.sum() * 3 + y.sum() + np.arange(64)).astype(np.int32))


@triton.constexpr_function
def _power_of_two(n):
    return 1 << (n - 1).bit_length()


@triton.jit
def _constants(out, N: tl.constexpr):
    SIZE: tl.constexpr = _power_of_two(N)
    HALF: tl.constexpr = SIZE // 2
    at = tl.arange(0, SIZE)
    tl.static_assert(at.shape[0] == SIZE)
    tl.store(out + at, at + HALF, mask=at < N)
    tl.static_assert(tl.constexpr(5).value + 1 == 6)


def test_constants(memory):
    out = memory.put(INT32, np.zeros(128))
    memory.launch(_constants, (1,), out, 100)
    same(memory.get(out), np.where(np.arange(128) < 100, np.arange(128) + 64, 0).astype(np.int32))


GLOBAL = tl.constexpr(17)


@triton.jit
def _global(out):
    tl.store(out, GLOBAL * 2)


def test_global_constants(memory):
    out = memory.room(INT32, 1)
    memory.launch(_global, (1,), out)
    same(memory.get(out), np.array([34], np.int32))


class Point(NamedTuple):
    """A tuple with names, as an argument."""

    x: object
    y: object


@triton.jit
def _moved(point, by):
    return Point(point.x + by, point.y - by)


@triton.jit
def _tuples(out, point, nested, pointers):
    moved = _moved(point, 10)
    tl.store(out, moved.x)
    tl.store(out + 1, moved.y)
    first, (second, third) = nested
    tl.store(out + 2, first + second * third)
    tl.store(out + 3, len(pointers))
    for i in tl.static_range(len(pointers)):
        tl.store(pointers[i], i + 5)
    both = (first, second) + (third, )
    tl.store(out + 4, both[-1])
    rest = both[1:]
    tl.store(out + 5, rest[0] + len(rest))


def test_tuples(memory):
    out, pointers = memory.room(INT32, 6), tuple(memory.room(INT32, 1) for _ in range(3))
    memory.launch(_tuples, (1,), out, Point(3, 4), (2, (3, 5)), pointers)
    same(memory.get(out), np.array([13, -6, 17, 3, 5, 5], np.int32))
    for at, array in enumerate(pointers):
        same(memory.get(array), np.array([at + 5], np.int32))


@triton.language.core._aggregate
class Range:
    """Two numbers that belong together, and what is done with them."""

    low: tl.tensor
    high: tl.tensor

    @triton.constexpr_function
    def __init__(self, low, high):
        self.low = low
        self.high = high

    @triton.jit
    def width(self):
        return self.high - self.low


@triton.jit
def _aggregates(out, low, high):
    span = Range(tl.load(low), tl.load(high))
    tl.store(out, span.width())
    wider = tl.aggregate_replace(span, high=span.high + 100)
    tl.store(out + 1, wider.width())


def test_aggregates(memory):
    out = memory.room(INT32, 2)
    memory.launch(_aggregates, (1,), out, memory.put(INT32, [7]), memory.put(INT32, [20]))
    same(memory.get(out), np.array([13, 113], np.int32))


@triton.jit
def _types(out, x, BLOCK: tl.constexpr):
    value = tl.load(x + tl.arange(0, BLOCK))
    tl.static_assert(value.dtype == tl.float16)
    tl.static_assert(value.type == tl.block_type(tl.float16, [BLOCK]))
    tl.static_assert(x.dtype == tl.pointer_type(tl.float16))
    tl.static_assert(x.dtype.element_ty == tl.float16)
    tl.static_assert(tl.float16.primitive_bitwidth == 16)
    tl.static_assert(tl.int32.is_int_signed() and not tl.uint8.is_int_signed())
    tl.static_assert(tl.bfloat16.is_bf16() and tl.float64.is_floating())
    tl.static_assert(value.numel == BLOCK)
    tl.store(out, tl.to_tensor(5).to(tl.int64) + tl.to_tensor(2.0).to(tl.int64))


def test_types(memory):
    out = memory.room(INT64, 1)
    memory.launch(_types, (1,), out, memory.put(FP16, np.zeros(32)), 32)
    same(memory.get(out), np.array([7]))


@triton.jit
def _typed(out, x: tl.const, n: tl.int64, m: "u32"):
    tl.static_assert(n.dtype == tl.int64)
    tl.static_assert(m.dtype == tl.uint32)
    tl.store(out, tl.load(x) + n)
    tl.store(out + 1, m.to(tl.int64))


@triton.jit
def _into_constant(x: tl.const):
    tl.store(x, 1)


def test_annotated_arguments(memory):
    out, x = memory.room(INT64, 2), memory.put(INT32, [5])
    memory.launch(_typed, (1,), out, x, 2, 2**32 - 1)
    same(memory.get(out), np.array([7, 2**32 - 1]))
    with refused("Cannot store to a constant pointer"):
        memory.launch(_into_constant, (1,), x)


@triton.jit
def _assembled(x, y):
    return tl.inline_asm_elementwise("{ .reg .b32 t; add.u32 t, $1, $2; shl.b32 $0, t, 1; }", "=r,r,r", [x, y],
                                     dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def _bytes(x, y):
    return tl.inline_asm_elementwise("vadd4.u32.u32.u32 $0, $1, $2, 0;", "=r,r,r", [x, y], dtype=tl.uint8,
                                     is_pure=True, pack=4)


@triton.jit
def _permuted(x, y):
    return tl.inline_asm_elementwise("prmt.b32 $0, $1, $2, 0x5140;", "=r,r,r", [x, y], dtype=tl.uint32, is_pure=True,
                                     pack=1)


@triton.jit
def _halves(x, y):
    return tl.inline_asm_elementwise("max.f16x2 $0, $1, $2;", "=r,r,r", [x, y], dtype=tl.float16, is_pure=True, pack=2)


@triton.jit
def _two_results(quotients, remainders, x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    quotient, remainder = tl.inline_asm_elementwise(
        "div.u32 $0, $2, $3; rem.u32 $1, $2, $3;", "=&r,=r,r,r", [tl.load(x + at), tl.load(y + at)],
        dtype=(tl.uint32, tl.uint32), is_pure=False, pack=1)
    tl.store(quotients + at, quotient)
    tl.store(remainders + at, remainder)


def test_inline_assembly(memory):
    x, y = spread(INT32, seed=1), spread(INT32, seed=2)
    same(elementwise(memory, _assembled, INT32, (INT32, x), (INT32, y)), ((x + y) << 1))
    a, b = spread(UINT8, seed=1), spread(UINT8, seed=2)
    same(elementwise(memory, _bytes, UINT8, (UINT8, a), (UINT8, b)), a + b)
    c, d = spread(UINT32, seed=3), spread(UINT32, seed=4)
    lanes = [c.view(np.uint8)[0::4], d.view(np.uint8)[0::4], c.view(np.uint8)[1::4], d.view(np.uint8)[1::4]]
    want = np.stack(lanes, 1).reshape(-1).view(np.uint32)
    same(elementwise(memory, _permuted, UINT32, (UINT32, c), (UINT32, d)), want)
    e, f = (np.random.default_rng(seed).standard_normal(256).astype(np.float16) for seed in (1, 2))
    same(elementwise(memory, _halves, FP16, (FP16, e), (FP16, f)), np.maximum(e, f))


def test_inline_assembly_with_two_results(memory):
    x, y = spread(UINT32, seed=1), np.maximum(spread(UINT32, seed=2), 1).astype(np.uint32)
    arrays = [memory.room(UINT32, 256), memory.room(UINT32, 256)]
    memory.launch(_two_results, (1,), *arrays, memory.put(UINT32, x), memory.put(UINT32, y), 256)
    same(memory.get(arrays[0]), x // y)
    same(memory.get(arrays[1]), x % y)


@triton.jit
def _machine(out, times):
    tl.store(out, cuda.num_threads())
    tl.store(out + 1, cuda.num_warps())
    tl.store(out + 2, cuda.smid() >= 0)
    before = cuda.globaltimer()
    tl.debug_barrier()
    tl.store(times, before)
    tl.store(times + 1, cuda.globaltimer())


@pytest.mark.parametrize("warps", [1, 4, 8])
def test_what_the_machine_says(memory, warps):
    out, times = memory.room(INT32, 3), memory.room(INT64, 2)
    memory.launch(_machine, (1,), out, times, num_warps=warps)
    same(memory.get(out), np.array([32 * warps, warps, 1], np.int32))
    before, after = memory.get(times)
    assert 0 < before <= after


@triton.jit
def _target(out):
    tl.static_assert(tl.target_info.is_cuda() and not tl.target_info.is_hip())
    if tl.target_info.cuda_capability_geq(9, 0):
        tl.store(out, 90)
    elif tl.target_info.cuda_capability_geq(8, 0):
        tl.store(out, 80)


def test_target(memory):
    out = memory.room(INT32, 1)
    memory.launch(_target, (1,), out)
    same(memory.get(out), np.array([80], np.int32))
    assert tl.target_info.current_target().arch == 80


def test_what_other_devices_have(memory):
    """Clusters of blocks came with compute capability 9.0: Triton refuses them."""
    with refused("num_ctas > 1 requires"):
        memory.launch(_target, (1,), memory.room(INT32, 1), num_ctas=2)


def _tried(kernel_calls):
    """A benchmark for Triton to choose by that needs no PyTorch: as long as the kernel's block says."""
    def bench(call, quantiles):
        call()
        kernel_calls.append(1)
        return [float(len(kernel_calls))] * len(quantiles)
    return bench


CALLS = []


@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_warps=4),
                          triton.Config({"BLOCK": 256}, num_warps=8, num_stages=1)],
                 key=["n"], do_bench=_tried(CALLS))
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
@triton.jit
def _tuned(out, x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at) if EVEN else tl.load(x + at, mask=at < n, other=0)
    tl.store(out + at, value * (2 if EVEN else 3), mask=at < n)


def test_autotune_and_heuristics(memory):
    """Each configuration is tried once for each size, and the best of them stays."""
    CALLS.clear()
    for n, factor in ((512, 2), (500, 3), (512, 2)):
        x = np.arange(n, dtype=np.int32)
        out = memory.room(INT32, n)
        memory.launch(_tuned, lambda meta: (triton.cdiv(n, meta["BLOCK"]),), out, memory.put(INT32, x), n)
        same(memory.get(out), x * factor)
    assert len(CALLS) == 6
    assert _tuned.best_config.kwargs == {"BLOCK": 64}


@triton.jit
def _spread_out(out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(out + at, value.to(tl.float32) * 0.5)


@pytest.mark.parametrize("kind", **named([INT8, FP16, BF16, FP32]))
@pytest.mark.parametrize("options", [{"num_warps": 1}, {"num_warps": 8}, {"num_stages": 1}, {"maxnreg": 64},
                                     {"enable_fp_fusion": False}], ids=str)
def test_options(memory, kind, options):
    x = np.arange(512) % 100
    out = memory.room(FP32, 512)
    memory.launch(_spread_out, (1,), out, memory.put(kind, x), 512, **options)
    near(memory.get(out), x * 0.5)


def test_compiled_kernels_know_themselves(memory):
    """What a launch returns tells what Triton asks the driver about a kernel."""
    out = memory.room(FP32, 512)
    compiled = memory.launch(_spread_out, (1,), out, memory.put(FP32, np.zeros(512)), 512)
    assert compiled.asm["ptx"].startswith("//") and ".target sm_80" in compiled.asm["ptx"]
    # What is loaded for machine code is the PTX, by the `ptxas` that `warploom run` sets.
    assert b".target sm_80" in compiled.asm["cubin"]
    assert compiled.n_regs > 0 and compiled.n_spills == 0 and compiled.metadata.num_warps == 4
    assert 0 < compiled.n_max_threads <= 1024
