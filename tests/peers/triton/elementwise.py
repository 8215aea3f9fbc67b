"""Functions of one to three operands, element by element; and how results are compared."""

import contextlib

import numpy as np
import pytest
import triton
import triton.language as tl

from kinds import INT1


@triton.jit
def _one(out, x, n, F: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, F(tl.load(x + at, mask=at < n)), mask=at < n)


@triton.jit
def _two(out, x, y, n, F: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = at < n
    tl.store(out + at, F(tl.load(x + at, mask=here, other=1), tl.load(y + at, mask=here, other=1)), mask=here)


@triton.jit
def _three(out, x, y, z, n, F: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = at < n
    values = F(tl.load(x + at, mask=here), tl.load(y + at, mask=here), tl.load(z + at, mask=here))
    tl.store(out + at, values, mask=here)


def elementwise(memory, function, kind, *operands, **options):
    """The function of operands, each a type and its values: values of a type."""
    arrays = [memory.put(*operand) for operand in operands]
    count = arrays[0].count
    out = memory.room(kind, count)
    kernel = (_one, _two, _three)[len(arrays) - 1]
    block = 256
    memory.launch(kernel, (-(-count // block),), out, *arrays, count, function, block, **options)
    return memory.get(out)


def same(got, want):
    """Every bit is the expected one, except that any NaN is as good as another."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, f"{got.dtype}{got.shape} {want.dtype}{want.shape}"
    if got.dtype.kind == "f":
        right = (np.isnan(got) & np.isnan(want)) | ((got == want) & (np.signbit(got) == np.signbit(want)))
    else:
        right = got == want
    _told(right, got, want)


def near(got, want, ulps=0, least=0.0):
    """Within so many units in the last place of the type, or within `least`; infinities are exact."""
    got, want = np.asarray(got), np.asarray(want)
    kind = np.float32 if got.dtype != np.float64 and got.dtype != np.float16 else got.dtype
    with np.errstate(all="ignore"):
        wide = want.astype(np.float64)
        # Of what the type cannot hold, the unit is the largest one's.
        most = float(np.finfo(kind).max)
        unit = np.spacing(np.abs(np.clip(wide, -most, most)).astype(kind)).astype(np.float64)
        apart = np.abs(got.astype(np.float64) - wide)
        right = (apart <= np.maximum(ulps * unit, least)) | (np.isnan(got) & np.isnan(wide))
        right |= got == want.astype(kind)
    _told(right, got, want)


@contextlib.contextmanager
def refused(text):
    """Triton refuses what is within, in these words, it or what brought it to that."""
    with pytest.raises(Exception) as caught:
        yield
    error, said = caught.value, []
    while error is not None:
        said.append(str(error))
        error = error.__cause__ or error.__context__
    assert any(text in it for it in said), f"refused, but not for {text!r}: {said}"


def _told(right, got, want):
    wrong = np.argwhere(~right)
    if len(wrong):
        shown = [f"{tuple(map(int, at))}: {got[tuple(at)]!r} not {want[tuple(at)]!r}" for at in wrong[:6]]
        raise AssertionError(f"{len(wrong)} of {right.size} differ: " + "; ".join(shown))


def spread(kind, count=256, seed=0):
    """Values of a type: its extremes, what lies about zero, and random ones of every size."""
    random = np.random.default_rng(seed)
    if kind is INT1:
        return random.integers(0, 2, count).astype(bool)
    if kind.integer:
        info = np.iinfo(kind.values)
        edges = [0, 1, 2, 3, 7, info.max, info.max - 1, info.max // 2, info.min, info.min + 1]
        edges += [-1, -2, -3, -7] if kind.signed else []
        shift = random.integers(0, kind.bits, count).astype(kind.values)
        values = random.integers(info.min, info.max, count, dtype=kind.values, endpoint=True) >> shift
        values[:len(edges)] = edges
        return values
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan]
    values = random.standard_normal(count) * 2.0 ** random.integers(-10, 10, count)
    values[:len(edges)] = edges
    return kind.round(values.astype(kind.values))
