"""Loads and stores: masks, hints to caches, strides, volatile access, tensor descriptors."""

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from elementwise import refused, same, spread
from kinds import ALL, FP16, FP32, INT32, INT64, NUMBERS, UINT32, UINT8, named


@triton.jit
def _copy(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


@pytest.mark.parametrize("kind", **named(ALL))
def test_copy(memory, kind):
    """Every code of every type comes through as it is, and nothing is written where the mask is not set."""
    stored = np.random.default_rng(2).integers(0, 256, 1000 * kind.itemsize, np.uint8)
    stored = (stored & 1).astype(bool) if kind.name == "int1" else stored.view(kind.stored)
    array, out = memory.put_bits(kind, stored), memory.room(kind, 1024)
    before = out.bits().view(np.uint8)[1000 * kind.itemsize:]
    memory.launch(_copy, (4,), out, array, 1000, 256)
    after = out.bits().view(np.uint8)
    np.testing.assert_array_equal(after[:1000 * kind.itemsize], stored.view(np.uint8))
    np.testing.assert_array_equal(after[1000 * kind.itemsize:], before)


@triton.jit
def _other(out, x, n, OTHER: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at % 3 < n, other=OTHER))


@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_other(memory, kind):
    x = spread(kind)
    out = memory.room(kind, 256)
    memory.launch(_other, (1,), out, memory.put(kind, x), 1, 42, 256)
    same(memory.get(out), np.where(np.arange(256) % 3 < 1, x, kind.values.type(42)))


@triton.jit
def _blocked_mask(out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    # The address of what is masked is nobody's: it is not touched.
    far = x + at.to(tl.int64) * 1_000_000_000_000
    tl.store(out + at, tl.load(far, mask=at == 0, other=7))
    tl.store(far, at, mask=at < 0)


def test_masked_addresses_are_not_touched(memory):
    out = memory.room(INT32, 64)
    memory.launch(_blocked_mask, (1,), out, memory.put(INT32, [5]), 64)
    same(memory.get(out), np.where(np.arange(64) == 0, 5, 7).astype(np.int32))


@triton.jit
def _hinted(out, x, LOAD: tl.constexpr, STORE: tl.constexpr, EVICT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, cache_modifier=LOAD, eviction_policy=EVICT)
    tl.store(out + at, value, cache_modifier=STORE, eviction_policy=EVICT)


@pytest.mark.parametrize("kind", **named([UINT8, FP16, FP32, INT64]))
@pytest.mark.parametrize("load, store, evict", [(".ca", ".wb", ""), (".cg", ".cg", ""), (".cs", ".cs", ""),
                                                (".cv", ".wt", ""), ("", "", "evict_first"),
                                                ("", "", "evict_last"), ("", "", "")])
def test_hints_to_caches(memory, kind, load, store, evict):
    x = spread(kind)
    out = memory.room(kind, 256)
    memory.launch(_hinted, (1,), out, memory.put(kind, x), load, store, evict, 256)
    same(memory.get(out), x)


@triton.jit
def _volatile(out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, volatile=True))


@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_volatile(memory, kind):
    x = spread(kind)
    out = memory.room(kind, 256)
    memory.launch(_volatile, (1,), out, memory.put(kind, x), 256)
    same(memory.get(out), x)


@triton.jit
def _scalars(out, x, n):
    total = tl.load(x)
    for i in range(1, n):
        total += tl.load(x + i)
    tl.store(out, total)
    tl.store(out + 1, tl.load(x + n, mask=n < 3, other=-1))


def test_scalars(memory):
    out = memory.room(INT64, 2)
    memory.launch(_scalars, (1,), out, memory.put(INT64, np.arange(10)), 9)
    same(memory.get(out), np.array([36, -1]))


@triton.jit
def _transpose(out, x, start, rows, columns, row_stride, column_stride, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.program_id(0) * M + tl.arange(0, M)[:, None], tl.program_id(1) * N + tl.arange(0, N)[None, :]
    inside = (i < rows) & (j < columns)
    value = tl.load(x + start + i * row_stride + j * column_stride, mask=inside)
    tl.store(out + j * rows + i, value, mask=inside)


@pytest.mark.parametrize("kind", **named([UINT8, FP16, FP32, INT64]))
@pytest.mark.parametrize("strides", [(70, 1), (1, 50), (140, 2), (-70, 1)], ids=str)
def test_strides(memory, kind, strides):
    rows, columns = 50, 70
    x = spread(kind, 2 * rows * columns)
    start = (rows - 1) * 70 if strides[0] < 0 else 0
    array, out = memory.put(kind, x), memory.room(kind, rows * columns)
    i, j = np.mgrid[:rows, :columns]
    memory.launch(_transpose, (4, 3), out, array, start, rows, columns, *strides, 16, 32)
    same(memory.get(out, (columns, rows)), x[start + i * strides[0] + j * strides[1]].T)


@triton.jit
def _refused(x):
    tl.make_block_ptr(x, (32, ), (1, ), (0, ), (32, ), (0, ))


def test_block_pointers_are_gone(memory):
    """This version of Triton has tensor descriptors in their place."""
    with refused("tensor descriptor API"):
        memory.launch(_refused, (1,), memory.room(FP32, 32))


@triton.jit
def _described(out, x, rows, columns, M: tl.constexpr, N: tl.constexpr):
    read = tl.make_tensor_descriptor(x, shape=[rows, columns], strides=[columns, 1], block_shape=[M, N])
    write = tl.make_tensor_descriptor(out, shape=[rows, columns], strides=[columns, 1], block_shape=[M, N])
    at = [tl.program_id(0) * M, tl.program_id(1) * N]
    block = read.load(at)
    write.store(at, block + block)


@pytest.mark.parametrize("kind", **named(NUMBERS))
def test_descriptors_made_by_kernels(memory, kind):
    """On a device of 8.0 Triton makes pointers of them."""
    rows, columns = 40, 48
    x = spread(kind, rows * columns)
    out = memory.room(kind, rows * columns)
    memory.launch(_described, (3, 3), out, memory.put(kind, x), rows, columns, 16, 16)
    with np.errstate(all="ignore"):
        want = kind.round(x.astype(np.float64) * 2) if kind.small else x + x
    same(memory.get(out), want)


@triton.jit
def _edges(out, x, rows, columns, PADDING: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    read = tl.make_tensor_descriptor(x, shape=[rows, columns], strides=[columns, 1], block_shape=[M, N],
                                     padding_option=PADDING)
    block = tl.load_tensor_descriptor(read, [rows - 2, columns - 4])
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], block)
    # What would lie beyond the edge is not written.
    tl.store_tensor_descriptor(read, [rows - 1, 0], block)


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_descriptors_at_edges(memory, padding):
    rows, columns, m, n = 10, 16, 4, 8
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    array, out = memory.put(FP32, x), memory.room(FP32, m * n)
    memory.launch(_edges, (1,), out, array, rows, columns, padding, m, n)
    block = np.full((m, n), 0 if padding == "zero" else np.nan, np.float32)
    block[:2, :4] = x[8:, 12:]
    same(memory.get(out, (m, n)), block)
    want = x.copy()
    want[9, :8] = block[0]
    same(memory.get(array, (rows, columns)), want)


@triton.jit
def _handed(out, x, M: tl.constexpr, N: tl.constexpr):
    at = [tl.program_id(0) * M, tl.program_id(1) * N]
    out.store(at, x.load(at) * 3)


@pytest.mark.parametrize("kind", **named([UINT8, FP16, FP32, INT32]))
def test_descriptors_made_by_the_host(memory, kind):
    rows, columns = 32, 64
    x = (np.arange(rows * columns) % 31).astype(kind.values)
    array, out = memory.put(kind, x), memory.room(kind, rows * columns)
    describe = lambda it: TensorDescriptor(memory.argument(it), [rows, columns], [columns, 1], [8, 16])
    memory.launch(_handed, (4, 4), describe(out), describe(array), 8, 16)
    same(memory.get(out), x * kind.values.type(3))


@triton.jit
def _gathered(out, x, rows, M: tl.constexpr, N: tl.constexpr):
    table = tl.make_tensor_descriptor(x, shape=[rows, N], strides=[N, 1], block_shape=[1, N])
    block = table.gather((tl.arange(0, M) * 3) % rows, 0)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], block)


def test_descriptors_gather_rows(memory):
    rows, m, n = 20, 16, 32
    x = np.arange(rows * n, dtype=np.float32).reshape(rows, n)
    out = memory.room(FP32, m * n)
    memory.launch(_gathered, (1,), out, memory.put(FP32, x), rows, m, n)
    same(memory.get(out, (m, n)), x[(np.arange(m) * 3) % rows])


@triton.jit
def _scattered(out, x, rows, M: tl.constexpr, N: tl.constexpr):
    table = tl.make_tensor_descriptor(out, shape=[rows, N], strides=[N, 1], block_shape=[1, N])
    block = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    # What goes beyond the last row is not written.
    table.scatter(block, tl.arange(0, M) * 2, 0)


def test_descriptors_scatter_rows(memory):
    rows, m, n = 20, 16, 32
    x = np.arange(m * n, dtype=np.float32).reshape(m, n) + 1
    out = memory.put(FP32, np.zeros(rows * n))
    memory.launch(_scattered, (1,), out, memory.put(FP32, x), rows, m, n)
    want = np.zeros((rows, n), np.float32)
    want[::2] = x[:rows // 2]
    same(memory.get(out, (rows, n)), want)


@triton.jit
def _added(x, rows, M: tl.constexpr, N: tl.constexpr):
    table = tl.make_tensor_descriptor(x, shape=[rows, N], strides=[N, 1], block_shape=[M, N])
    table.atomic_add([0, 0], tl.full((M, N), 5, x.dtype.element_ty))
    table.atomic_max([0, 0], tl.full((M, N), 40, x.dtype.element_ty))


@pytest.mark.parametrize("kind", **named([INT32, UINT32]))
def test_descriptors_add_and_compare(memory, kind):
    x = np.arange(8 * 16).astype(kind.values)
    array = memory.put(kind, x)
    memory.launch(_added, (1,), array, 8, 8, 16)
    same(memory.get(array), np.maximum(x + 5, 40).astype(kind.values))
