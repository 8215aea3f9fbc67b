"""Programs and their number, loops and branches, warps, barriers and hints to the compiler."""

import numpy as np
import pytest
import triton
import triton.language as tl

from elementwise import same
from kinds import FP32, INT32, INT64, named


@triton.jit
def _programs(ids, counts):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(ids + at * 3, x)
    tl.store(ids + at * 3 + 1, y)
    tl.store(ids + at * 3 + 2, z)
    for axis in tl.static_range(3):
        tl.store(counts + at * 3 + axis, tl.num_programs(axis))


@pytest.mark.parametrize("grid", [(1,), (7,), (3, 5), (2, 3, 4)], ids=str)
def test_programs(memory, grid):
    x, y, z = (*grid, 1, 1)[:3]
    ids, counts = memory.room(INT32, x * y * z * 3), memory.room(INT32, x * y * z * 3)
    memory.launch(_programs, grid, ids, counts)
    k, j, i = np.mgrid[:z, :y, :x]
    same(memory.get(ids, (x * y * z, 3)), np.stack([i, j, k], -1).reshape(-1, 3).astype(np.int32))
    same(memory.get(counts, (x * y * z, 3)), np.tile(np.array([x, y, z], np.int32), (x * y * z, 1)))


@triton.jit
def _loops(out, start, stop, STEP: tl.constexpr, step):
    total = 0
    for i in range(start, stop, STEP):
        total += i * i
    tl.store(out, total)
    total = 0
    for i in tl.range(start, stop, step, loop_unroll_factor=2):
        total += i
    tl.store(out + 1, total)
    total = 0
    for i in tl.static_range(0, 10, 3):
        total += i
    tl.store(out + 2, total)
    while stop > 1:
        stop = stop // 2
        total += 100
    tl.store(out + 3, total)


@pytest.mark.parametrize("start, stop, step", [(0, 10, 1), (3, 40, 7), (5, 5, 1), (10, 3, 1), (-9, 9, 4)])
def test_loops(memory, start, stop, step):
    out = memory.room(INT32, 4)
    memory.launch(_loops, (1,), out, start, stop, step, step)
    halved = 0
    rest = stop
    while rest > 1:
        rest, halved = rest // 2, halved + 100
    want = [sum(i * i for i in range(start, stop, step)), sum(range(start, stop, step)), 18, 18 + halved]
    same(memory.get(out), np.array(want, np.int32))


@triton.jit
def _downwards(out, n):
    at = 0
    for i in range(n, 0, -2):
        tl.store(out + at, i)
        at += 1


def test_loops_downwards(memory):
    out = memory.put(INT32, np.zeros(8))
    memory.launch(_downwards, (1,), out, 9)
    same(memory.get(out), np.array([9, 7, 5, 3, 1, 0, 0, 0], np.int32))


@triton.jit
def _pipelined(out, x, n, BLOCK: tl.constexpr, STAGES: tl.constexpr, FLAT: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, ), tl.float32)
    for i in tl.range(0, n, num_stages=STAGES, flatten=FLAT, disallow_acc_multi_buffer=FLAT, disable_licm=FLAT):
        total += tl.load(x + i * BLOCK + at)
    tl.store(out + at, total)


@pytest.mark.parametrize("flat", [False, True], ids=["plain", "flat"])
@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("rounds", [0, 1, 2, 9])
def test_pipelines(memory, rounds, stages, flat):
    """Loads that run ahead of what they are for."""
    x = np.random.default_rng(1).integers(-100, 100, (max(rounds, 1), 256)).astype(np.float32)
    out = memory.room(FP32, 256)
    memory.launch(_pipelined, (1,), out, memory.put(FP32, x), rounds, 256, stages, flat)
    same(memory.get(out), x[:rounds].sum(0, dtype=np.float32))


@triton.jit
def _collatz(out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    steps = tl.zeros((BLOCK, ), tl.int32)
    while tl.condition(tl.max((value != 1).to(tl.int32), 0) == 1, disable_licm=True):
        odd = value % 2 == 1
        going = value != 1
        value = tl.where(going, tl.where(odd, 3 * value + 1, value // 2), value)
        steps += going.to(tl.int32)
    tl.store(out + at, steps)


def test_while_loops_over_blocks(memory):
    x = np.arange(1, 65)
    out = memory.room(INT32, 64)
    memory.launch(_collatz, (1,), out, memory.put(INT64, x), 64)

    def steps(number):
        count = 0
        while number != 1:
            number, count = (3 * number + 1 if number % 2 else number // 2), count + 1
        return count
    same(memory.get(out), np.array([steps(int(it)) for it in x], np.int32))


@triton.jit
def _branches(out, n, FLAG: tl.constexpr):
    value = 0
    if n > 10:
        value = 1
        if n > 20:
            value = 2
    elif n > 5:
        value = 3
    else:
        value = 4
    # One that is known when it is compiled leaves the other out: that has no type to agree with.
    if FLAG is None:
        extra = 100
    else:
        extra = FLAG
    # An expression of two, and a return in the middle.
    tl.store(out, value + extra if n % 2 == 0 else value - extra)
    if n == 7:
        return
    tl.store(out + 1, n)


@pytest.mark.parametrize("flag", [None, 1000], ids=str)
@pytest.mark.parametrize("n", [3, 7, 8, 15, 30])
def test_branches(memory, n, flag):
    out = memory.put(INT32, [0, 0])
    memory.launch(_branches, (1,), out, n, flag)
    value = 2 if n > 20 else 1 if n > 10 else 3 if n > 5 else 4
    extra = 100 if flag is None else flag
    same(memory.get(out), np.array([value + extra if n % 2 == 0 else value - extra, 0 if n == 7 else n], np.int32))


@triton.jit
def _chosen(out, x, y):
    at = tl.program_id(0)
    if at % 2 == 0:
        tl.store(out + at, tl.load(x))
    else:
        tl.store(out + at, tl.load(y))


def test_a_choice_of_arguments(memory):
    """LLVM makes of it a load from one of two parameters' addresses."""
    out = memory.room(INT32, 6)
    memory.launch(_chosen, (6,), out, memory.put(INT32, [7]), memory.put(INT32, [9]))
    same(memory.get(out), np.array([7, 9] * 3, np.int32))


@triton.jit
def _through_memory(out, x, scratch, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(scratch + at, tl.load(x + at))
    tl.debug_barrier()
    tl.store(out + at, tl.load(scratch + (BLOCK - 1 - at)))


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
def test_barriers(memory, warps):
    """What other warps wrote before a barrier is there behind it."""
    x = np.arange(1024, dtype=np.int32)
    out, scratch = memory.room(INT32, 1024), memory.room(INT32, 1024)
    memory.launch(_through_memory, (1,), out, memory.put(INT32, x), scratch, 1024, num_warps=warps)
    same(memory.get(out), x[::-1])


@triton.jit
def _hinted(out, x, n, BLOCK: tl.constexpr):
    tl.assume(n > 0)
    tl.assume(n % 16 == 0)
    n = tl.multiple_of(n, 16)
    at = tl.max_contiguous(tl.multiple_of(tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), BLOCK), BLOCK)
    row = tl.max_constancy(at // 16, 16)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=0) + row)


def test_hints_to_the_compiler(memory):
    x = np.arange(512, dtype=np.int32)
    out = memory.room(INT32, 512)
    memory.launch(_hinted, (2,), out, memory.put(INT32, x), 480, 256)
    same(memory.get(out), np.where(x < 480, x, 0) + x // 16)


@triton.jit
def _sum_by_warps(out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(out + at, value - tl.sum(value, 0) + tl.cumsum(value, 0))


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16, 32])
def test_numbers_of_warps(memory, warps):
    x = np.random.default_rng(2).integers(-50, 50, 2048).astype(np.int32)
    out = memory.room(INT32, 2048)
    memory.launch(_sum_by_warps, (1,), out, memory.put(INT32, x), 2048, num_warps=warps)
    same(memory.get(out), (x - x.sum() + x.cumsum()).astype(np.int32))


@triton.jit
def _scalar_types(whole, part, i, j, f, flag):
    tl.store(whole, i)
    tl.store(whole + 1, j)
    tl.store(whole + 2, flag)
    tl.store(part, f)


@pytest.mark.parametrize("i, j", [(0, 0), (1, 2**31 - 1), (-2**31, 2**31), (16, -2**63), (7, 2**63 - 1)])
def test_scalar_arguments(memory, i, j):
    """Numbers of 32 and of 64 bits, as Triton tells them apart; 1 and multiples of 16 are made special."""
    whole, part = memory.room(INT64, 3), memory.room(FP32, 1)
    memory.launch(_scalar_types, (1,), whole, part, i, j, 1.5, i > 0)
    same(memory.get(whole), np.array([i, j, int(i > 0)]))
    same(memory.get(part), np.array([1.5], np.float32))


@triton.jit
def _mapped(x, y):
    if x > y:
        result = x - y
    else:
        result = y * 2
    return result


@triton.jit
def _map(out, x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.map_elementwise(_mapped, tl.load(x + at), tl.load(y + at)))


@triton.jit
def _pair(a0, a1, b0, b1):
    return a0 + b1, a1 + b0, a0 - b0, a1 - b1


@triton.jit
def _map_pairs(sums, differences, x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    first, second = tl.map_elementwise(_pair, tl.load(x + at), tl.load(y + at), pack=2)
    tl.store(sums + at, first)
    tl.store(differences + at, second)


@pytest.mark.parametrize("kind", **named([INT32, FP32]))
def test_map_elementwise(memory, kind):
    x, y = np.random.default_rng(3).integers(-9, 9, (2, 256)).astype(kind.values)
    out = memory.room(kind, 256)
    memory.launch(_map, (1,), out, memory.put(kind, x), memory.put(kind, y), 256)
    same(memory.get(out), np.where(x > y, x - y, y * 2).astype(kind.values))


def test_map_elementwise_of_several(memory):
    """Which elements come together is not said: of each the second result tells."""
    x, y = np.random.default_rng(4).integers(-9, 9, (2, 256)).astype(np.int32)
    y[:] = 5
    sums, differences = memory.room(INT32, 256), memory.room(INT32, 256)
    memory.launch(_map_pairs, (1,), sums, differences, memory.put(INT32, x), memory.put(INT32, y), 256)
    same(memory.get(sums), x + 5)
    same(memory.get(differences), x - 5)
