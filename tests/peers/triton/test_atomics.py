"""Atomic operations in every type, with every meaning for the order of memory and every scope."""

import numpy as np
import pytest
import triton
import triton.language as tl

from elementwise import near, refused, same, spread
from kinds import BF16, FLOATS, FP16, FP32, FP64, INT16, INT32, INT64, INT8, INTEGERS, UINT16, UINT32, UINT64, named

#: The integers that atomic operations of this language have.
WORDS = [INT32, INT64, UINT32, UINT64]
N, BINS = 1024, 16


@triton.jit
def _add(pointer, value, SEM: tl.constexpr, SCOPE: tl.constexpr):
    return tl.atomic_add(pointer, value, sem=SEM, scope=SCOPE)


@triton.jit
def _max(pointer, value, SEM: tl.constexpr, SCOPE: tl.constexpr):
    return tl.atomic_max(pointer, value, sem=SEM, scope=SCOPE)


@triton.jit
def _min(pointer, value, SEM: tl.constexpr, SCOPE: tl.constexpr):
    return tl.atomic_min(pointer, value, sem=SEM, scope=SCOPE)


@triton.jit
def _and(pointer, value, SEM: tl.constexpr, SCOPE: tl.constexpr):
    return tl.atomic_and(pointer, value, sem=SEM, scope=SCOPE)


@triton.jit
def _or(pointer, value, SEM: tl.constexpr, SCOPE: tl.constexpr):
    return tl.atomic_or(pointer, value, sem=SEM, scope=SCOPE)


@triton.jit
def _xor(pointer, value, SEM: tl.constexpr, SCOPE: tl.constexpr):
    return tl.atomic_xor(pointer, value, sem=SEM, scope=SCOPE)


@triton.jit
def _xchg(pointer, value, SEM: tl.constexpr, SCOPE: tl.constexpr):
    return tl.atomic_xchg(pointer, value, sem=SEM, scope=SCOPE)


@triton.jit
def _into_bins(bins, x, F: tl.constexpr, SEM: tl.constexpr, SCOPE: tl.constexpr, BINS: tl.constexpr,
               BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    F(bins + at % BINS, tl.load(x + at), SEM, SCOPE)


@triton.jit
def _each(out, places, x, F: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, F(places + at, tl.load(x + at), None, None))


def _collided(memory, kernel, kind, start, values, sem=None, scope=None):
    """What bins hold after blocks' elements meet in them."""
    bins = memory.put(kind, start)
    memory.launch(_into_bins, (4,), bins, memory.put(kind, values), kernel, sem, scope, BINS, N // 4)
    return memory.get(bins)


FUNCTIONS = [(_add, np.add, [*WORDS, *FLOATS]), (_max, np.maximum, [*WORDS, FP32, FP64]),
             (_min, np.minimum, [*WORDS, FP32, FP64]), (_and, np.bitwise_and, WORDS), (_or, np.bitwise_or, WORDS),
             (_xor, np.bitwise_xor, WORDS)]
CASES = [(kernel, function, kind) for kernel, function, kinds in FUNCTIONS for kind in kinds]
IDS = [f"{kernel.__name__[1:]}-{kind}" for kernel, _, kind in CASES]


def _operands(function, kind):
    """Values whose order does not matter, and what is there before."""
    if kind.integer and function is not np.add:
        # Also what is not reached by the first.
        return spread(kind, N, 1), spread(kind, BINS, 2)
    random = np.random.default_rng(3)
    values = random.integers(-1 if kind.signed else 0, 2 if kind is BF16 else 3, N)
    if function is not np.add:
        values = random.standard_normal(N) * 100
    return values.astype(kind.values), np.arange(BINS).astype(kind.values)


@pytest.mark.parametrize("kernel, function, kind", CASES, ids=IDS)
def test_elements_that_meet(memory, kernel, function, kind):
    values, start = _operands(function, kind)
    want = start
    for row in values.reshape(-1, BINS):
        with np.errstate(all="ignore"):
            want = function(want, row).astype(kind.values)
    same(_collided(memory, kernel, kind, start, values), want)


@pytest.mark.parametrize("kernel, function, kind", [*CASES, *((_xchg, lambda _, new: new, kind)
                                                              for kind in [*WORDS, FP32, FP64])],
                         ids=[*IDS, *(f"xchg-{kind}" for kind in [*WORDS, FP32, FP64])])
def test_what_was_there_before(memory, kernel, function, kind):
    """Each returns what it found; of floating-point types what is added need not be a whole number."""
    values, _ = _operands(function, kind)
    start = spread(kind, N, 5)
    if kind.is_floating_point:
        start = np.where(np.isnan(start) | (start == 0), kind.values.type(2), start)
    places, out = memory.put(kind, start), memory.room(kind, N)
    memory.launch(_each, (1,), out, places, memory.put(kind, values), kernel, N)
    same(memory.get(out), start)
    with np.errstate(all="ignore"):
        wide = function(start.astype(np.float64), values.astype(np.float64)) if kind.small else function(start, values)
    same(memory.get(places), kind.round(wide) if kind.small else wide.astype(kind.values))


@pytest.mark.parametrize("scope", ["cta", "gpu", "sys"])
@pytest.mark.parametrize("sem", ["relaxed", "acquire", "release", "acq_rel"])
@pytest.mark.parametrize("kernel, function, kind", [it for it in CASES if it[2] in (INT32, FP32)],
                         ids=[name for name in IDS if name.endswith(("-int32", "-float32"))])
def test_meanings_and_scopes(memory, kernel, function, kind, sem, scope):
    if scope == "cta" and kernel is _add:
        # Blocks have bins of their own then.
        values, start = _operands(function, kind)
        bins = memory.put(kind, start)
        memory.launch(_into_bins, (1,), bins, memory.put(kind, values), kernel, sem, scope, BINS, N)
        same(memory.get(bins), start + values.reshape(-1, BINS).sum(0).astype(kind.values))
        return
    values, start = _operands(function, kind)
    want = start
    for row in values.reshape(-1, BINS):
        want = function(want, row)
    same(_collided(memory, kernel, kind, start, values, sem, scope), want.astype(kind.values))


@triton.jit
def _masked(places, out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.atomic_add(places + at, tl.load(x + at), mask=at % 3 == 0), mask=at % 3 == 0)


@pytest.mark.parametrize("kind", **named([*WORDS, *FLOATS]))
def test_masks(memory, kind):
    x = (np.arange(N) % 5).astype(kind.values)
    places = memory.put(kind, np.ones(N, kind.values))
    out = memory.put(kind, np.full(N, 9, kind.values))
    memory.launch(_masked, (1,), places, out, memory.put(kind, x), N)
    third = np.arange(N) % 3 == 0
    same(memory.get(places), np.where(third, x + kind.values.type(1), kind.values.type(1)))
    same(memory.get(out), np.where(third, kind.values.type(1), kind.values.type(9)))


@triton.jit
def _exchanged(places, seen, x, SEM: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    # A chain: what each finds was put there by another, or was there before.
    tl.store(seen + at, tl.atomic_xchg(places + at * 0, tl.load(x + at), sem=SEM))


@pytest.mark.parametrize("sem", ["relaxed", "acq_rel"])
@pytest.mark.parametrize("kind", **named([*WORDS, FP32, FP64]))
def test_xchg(memory, kind, sem):
    x = (np.arange(N) + 1).astype(kind.values)
    place, seen = memory.put(kind, np.zeros(1)), memory.room(kind, N)
    memory.launch(_exchanged, (4,), place, seen, memory.put(kind, x), sem, N // 4)
    every = np.sort(np.append(memory.get(seen), memory.get(place)))
    same(every, np.arange(N + 1).astype(kind.values))


@triton.jit
def _cas(out, places, cmp, x, SEM: tl.constexpr, SCOPE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.atomic_cas(places + at, tl.load(cmp + at), tl.load(x + at), sem=SEM, scope=SCOPE))


@pytest.mark.parametrize("sem, scope", [(None, None), ("relaxed", "cta"), ("acquire", "gpu"), ("release", "sys"),
                                        ("acq_rel", "sys")], ids=str)
@pytest.mark.parametrize("kind", **named([INT16, UINT16, *WORDS, FP16, BF16, FP32, FP64]))
def test_cas(memory, kind, sem, scope):
    start = (np.arange(256) % 4).astype(kind.values)
    expected = (np.arange(256) % 3).astype(kind.values)
    x = (np.arange(256) % 7 + 10).astype(kind.values)
    places, out = memory.put(kind, start), memory.room(kind, 256)
    memory.launch(_cas, (1,), out, places, memory.put(kind, expected), memory.put(kind, x), sem, scope, 256)
    same(memory.get(out), start)
    same(memory.get(places), np.where(start == expected, x, start))


@triton.jit
def _locked(lock, total, n):
    for _ in range(n):
        while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
            pass
        # Every warp is within, and only then is it read.
        tl.debug_barrier()
        tl.store(total, tl.load(total) + 1)
        tl.debug_barrier()
        tl.atomic_xchg(lock, 0, sem="release")


def test_a_lock(memory):
    """Blocks that spin for one another are all let through."""
    lock, total = memory.put(INT32, [0]), memory.put(INT32, [0])
    memory.launch(_locked, (8,), lock, total, 20)
    same(memory.get(total), np.array([160], np.int32))


@triton.jit
def _loaded(out, x, SEM: tl.constexpr, SCOPE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_store(out + at, tl.atomic_load(x + at, sem=SEM, scope=SCOPE),
                    sem="release" if SEM == "acquire" else SEM, scope=SCOPE, mask=at < 200)


@pytest.mark.parametrize("sem, scope", [(None, None), ("relaxed", "cta"), ("acquire", "sys")], ids=str)
@pytest.mark.parametrize("kind", **named([*INTEGERS, *FLOATS]))
def test_load_and_store(memory, kind, sem, scope):
    x, before = spread(kind), np.full(256, 3, kind.values)
    out = memory.put(kind, before)
    memory.launch(_loaded, (1,), out, memory.put(kind, x), sem, scope, 256)
    same(memory.get(out), np.where(np.arange(256) < 200, x, before))


@triton.jit
def _handed_over(flag, data, seen):
    if tl.program_id(0) == 0:
        tl.store(data, 42)
        tl.debug_barrier()
        tl.atomic_store(flag, 7)
    else:
        tl.atomic_poll(flag, 7)
        tl.store(seen + tl.program_id(0), tl.load(data, volatile=True))


@pytest.mark.parametrize("kind", **named([INT32, INT64, UINT32, UINT64, INT16, UINT16]))
def test_poll(memory, kind):
    """Blocks wait for what another block stores."""
    flag, data, seen = memory.put(kind, [0]), memory.put(INT32, [0]), memory.put(INT32, [42, 0, 0, 0])
    memory.launch(_handed_over, (4,), flag, data, seen)
    same(memory.get(seen), np.full(4, 42, np.int32))


@triton.jit
def _waited(out, flags, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.atomic_poll(flags + at, 1, sem="relaxed", timeout_ns=1000))


def test_poll_that_ends(memory):
    """What is not there after a time is not waited for."""
    flags = (np.arange(64) % 2).astype(np.int32)
    out = memory.room(INT8, 64)
    memory.launch(_waited, (1,), out, memory.put(INT32, flags), 64)
    same(memory.get(out), flags.astype(np.int8))


REFUSED = [(kernel, kind) for kernel in (_add, _max, _and, _xchg) for kind in (INT8, INT16, UINT16)]


@pytest.mark.parametrize("kernel, kind", REFUSED, ids=[f"{kernel.__name__[1:]}-{kind}" for kernel, kind in REFUSED])
def test_types_without_atomics(memory, kernel, kind):
    with refused("does not support"):
        _collided(memory, kernel, kind, np.zeros(BINS), np.zeros(N))


@pytest.mark.parametrize("kernel", [_max, _min], ids=["max", "min"])
@pytest.mark.parametrize("kind", **named([FP16, BF16]))
def test_halves_have_no_extremes(memory, kernel, kind):
    with refused("does not support"):
        _collided(memory, kernel, kind, np.zeros(BINS), np.zeros(N))


@pytest.mark.parametrize("kind", **named([FP32, FP64]))
def test_sums_of_any_numbers(memory, kind):
    values = np.random.default_rng(8).standard_normal(N).astype(kind.values)
    got = _collided(memory, _add, kind, np.zeros(BINS), values)
    near(got, values.reshape(-1, BINS).astype(np.float64).sum(0), 0, 1e-4 if kind is FP32 else 1e-12)
