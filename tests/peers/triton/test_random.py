"""Random numbers: Philox bit for bit, and what is made of its words."""

import numpy as np
import pytest
import triton
import triton.language as tl

from elementwise import near, same
from kinds import FP32, FP64, INT32, INT64, UINT32, UINT64, named
from philox import philox

N = 512


@triton.jit
def _randint(out, seed, offsets, ROUNDS: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.randint(seed, tl.load(offsets + at), n_rounds=ROUNDS))


@triton.jit
def _randint4x(outs, seed, offsets, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b, c, d = tl.randint4x(seed, tl.load(offsets + at))
    tl.store(outs[0] + at, a)
    tl.store(outs[1] + at, b)
    tl.store(outs[2] + at, c)
    tl.store(outs[3] + at, d)


def _words(seed, offsets, rounds=10):
    offsets = np.asarray(offsets).astype(object)
    zero = offsets * 0
    return philox((offsets & 0xFFFFFFFF, (offsets >> 32) & 0xFFFFFFFF, zero, zero),
                  (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF), 32, rounds)


SEEDS = [0, 42, 2**31 + 5, 0x123456789ABCDEF0]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", **named([INT32, INT64, UINT32]))
def test_randint(memory, kind, seed):
    offsets = np.arange(N, dtype=np.int64) * (0x100000001 if kind is INT64 else 1)
    out = memory.room(UINT32, N)
    memory.launch(_randint, (1,), out, seed, memory.put(kind, offsets), 10, N)
    same(memory.get(out), _words(seed, offsets)[0])


@pytest.mark.parametrize("rounds", [1, 4, 7, 10])
def test_rounds(memory, rounds):
    out = memory.room(UINT32, N)
    memory.launch(_randint, (1,), out, 7, memory.put(INT32, np.arange(N)), rounds, N)
    same(memory.get(out), _words(7, np.arange(N), rounds)[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_randint4x(memory, seed):
    outs = tuple(memory.room(UINT32, N) for _ in range(4))
    memory.launch(_randint4x, (1,), outs, seed, memory.put(INT32, np.arange(N)), N)
    for out, want in zip(outs, _words(seed, np.arange(N))):
        same(memory.get(out), want)


@triton.jit
def _philox(outs, seed, c, N: tl.constexpr, ROUNDS: tl.constexpr):
    at = tl.arange(0, N)
    counter = tl.load(c + at)
    words = tl.philox(seed, counter, counter + 1, counter + 2, counter + 3, ROUNDS)
    for i in tl.static_range(4):
        tl.store(outs[i] + at, words[i])


@pytest.mark.parametrize("kind", **named([UINT32, UINT64]))
def test_philox(memory, kind):
    counter = np.arange(N, dtype=np.uint64) * 0x1234567 & (2**kind.bits - 1)
    outs = tuple(memory.room(kind, N) for _ in range(4))
    seed = 0x0FEDCBA987654321
    memory.launch(_philox, (1,), outs, seed, memory.put(kind, counter), N, 10)
    key = (seed, 0) if kind is UINT64 else (seed & 0xFFFFFFFF, seed >> 32)
    words = [counter.astype(object) + i for i in range(4)]
    for out, want in zip(outs, philox(words, key, kind.bits)):
        same(memory.get(out), want)


@triton.jit
def _philox_impl(outs, c, k0, k1, N: tl.constexpr):
    at = tl.arange(0, N)
    counter = tl.load(c + at)
    zero = counter * 0
    words = tl.philox_impl(counter, zero, zero, zero, zero + tl.load(k0), zero + tl.load(k1), 10)
    for i in tl.static_range(4):
        tl.store(outs[i] + at, words[i])


@pytest.mark.parametrize("kind", **named([UINT32, UINT64]))
def test_philox_impl(memory, kind):
    counter = np.arange(N).astype(kind.values)
    outs = tuple(memory.room(kind, N) for _ in range(4))
    keys = memory.put(kind, [11]), memory.put(kind, [22])
    memory.launch(_philox_impl, (1,), outs, memory.put(kind, counter), *keys, N)
    zero = counter * 0
    for out, want in zip(outs, philox((counter, zero, zero, zero), (11, 22), kind.bits)):
        same(memory.get(out), want)


@triton.jit
def _uniform(out, x, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.uint_to_uniform_float(tl.load(x + at)))


def _to_uniform(words):
    """Words as signed numbers; the negative ones inverted, and scaled to below 1."""
    bits = words.dtype.itemsize * 8
    signed = words.view(f"int{bits}")
    size = np.where(signed < 0, ~signed, signed)
    return size.astype(np.float32) * np.float32(4.6566127342e-10 if bits == 32 else 1.0842020432385337e-19)


@pytest.mark.parametrize("kind", **named([UINT32, INT32, UINT64, INT64]))
def test_uint_to_uniform_float(memory, kind):
    words = np.random.default_rng(3).integers(0, 2**kind.bits - 1, N, np.uint64, endpoint=True)
    words = words.astype(f"uint{kind.bits}")
    words[:3] = [0, 2**(kind.bits - 1) - 1, 2**kind.bits - 1]
    out = memory.room(FP32, N)
    memory.launch(_uniform, (1,), out, memory.put_bits(kind, words.view(kind.values)), N)
    got = memory.get(out)
    same(got, _to_uniform(words))
    assert (got >= 0).all() and (got < 1).all()


@triton.jit
def _rand(one, outs, seed, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(one + at, tl.rand(seed, at))
    a, b, c, d = tl.rand4x(seed, at)
    tl.store(outs[0] + at, a)
    tl.store(outs[1] + at, b)
    tl.store(outs[2] + at, c)
    tl.store(outs[3] + at, d)


@pytest.mark.parametrize("seed", SEEDS)
def test_rand(memory, seed):
    one, outs = memory.room(FP32, N), tuple(memory.room(FP32, N) for _ in range(4))
    memory.launch(_rand, (1,), one, outs, seed, N)
    words = _words(seed, np.arange(N))
    same(memory.get(one), _to_uniform(words[0]))
    for out, want in zip(outs, words):
        same(memory.get(out), _to_uniform(want))


@triton.jit
def _randn(one, outs, seed, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(one + at, tl.randn(seed, at))
    a, b, c, d = tl.randn4x(seed, at)
    tl.store(outs[0] + at, a)
    tl.store(outs[1] + at, b)
    tl.store(outs[2] + at, c)
    tl.store(outs[3] + at, d)


def _normal(u1, u2):
    """Box and Muller, in 64 bits."""
    u1, u2 = np.maximum(np.float64(1e-7), u1.astype(np.float64)), u2.astype(np.float64)
    radius, angle = np.sqrt(-2 * np.log(u1)), 2 * np.pi * u2
    return radius * np.cos(angle), radius * np.sin(angle)


@pytest.mark.parametrize("seed", SEEDS)
def test_randn(memory, seed):
    one, outs = memory.room(FP32, N), tuple(memory.room(FP32, N) for _ in range(4))
    memory.launch(_randn, (1,), one, outs, seed, N)
    u = [_to_uniform(word) for word in _words(seed, np.arange(N))]
    want = [*_normal(u[0], u[1]), *_normal(u[2], u[3])]
    near(memory.get(one), want[0], 0, 5e-6)
    for out, it in zip(outs, want):
        near(memory.get(out), it, 0, 5e-6)


@triton.jit
def _pair(first, second, u1, u2, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.pair_uniform_to_normal(tl.load(u1 + at), tl.load(u2 + at))
    tl.store(first + at, a)
    tl.store(second + at, b)


@pytest.mark.parametrize("kind", **named([FP32, FP64]))
def test_pair_uniform_to_normal(memory, kind):
    random = np.random.default_rng(4)
    u1, u2 = random.uniform(0, 1, N).astype(kind.values), random.uniform(0, 1, N).astype(kind.values)
    first, second = memory.room(kind, N), memory.room(kind, N)
    memory.launch(_pair, (1,), first, second, memory.put(kind, u1), memory.put(kind, u2), N)
    for out, want in zip((first, second), _normal(u1, u2)):
        near(memory.get(out), want, 0, 5e-6 if kind is FP32 else 1e-6)
