"""Shapes: blocks made, widened, turned, joined, split and strung out; their order is NumPy's."""

import numpy as np
import pytest
import triton
import triton.language as tl

from elementwise import same, spread
from kinds import ALL, FP16, FP32, FP8E5, INT1, INT32, INT8, INT64, NUMBERS, named

SOME = named([INT8, FP16, FP32, INT64])


@triton.jit
def _rank2(pointer, M: tl.constexpr, N: tl.constexpr):
    return pointer + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]


@triton.jit
def _rank3(pointer, L: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    return (pointer + tl.arange(0, L)[:, None, None] * (M * N) + tl.arange(0, M)[None, :, None] * N +
            tl.arange(0, N)[None, None, :])


@triton.jit
def _arange(out, START: tl.constexpr, END: tl.constexpr):
    tl.store(out + tl.arange(0, END - START), tl.arange(START, END))


@pytest.mark.parametrize("start, end", [(0, 1), (0, 128), (5, 37), (1000, 2024)])
def test_arange(memory, start, end):
    out = memory.room(INT32, end - start)
    memory.launch(_arange, (1,), out, start, end)
    same(memory.get(out), np.arange(start, end, dtype=np.int32))


@triton.jit
def _filled(full, zeros, like, VALUE: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    values = tl.full((N, ), VALUE, full.dtype.element_ty)
    tl.store(full + at, values)
    tl.store(zeros + at, tl.zeros((N, ), zeros.dtype.element_ty))
    tl.store(like + at, tl.zeros_like(values))


@pytest.mark.parametrize("kind", **named([INT1, *NUMBERS]))
def test_full_and_zeros(memory, kind):
    arrays = [memory.room(kind, 64) for _ in range(3)]
    memory.launch(_filled, (1,), *arrays, 1, 64)
    same(memory.get(arrays[0]), np.ones(64, kind.values))
    for array in arrays[1:]:
        same(memory.get(array), np.zeros(64, kind.values))


@triton.jit
def _turned(out, x, L: tl.constexpr, M: tl.constexpr, N: tl.constexpr, ORDER: tl.constexpr, P: tl.constexpr,
            Q: tl.constexpr, R: tl.constexpr, HOW: tl.constexpr):
    block = tl.load(_rank3(x, L, M, N))
    if HOW == "permute":
        turned = tl.permute(block, ORDER)
    elif HOW == "trans":
        turned = tl.trans(block, ORDER)
    else:
        turned = block.permute(ORDER[0], ORDER[1], ORDER[2])
    tl.store(_rank3(out, P, Q, R), turned)


@pytest.mark.parametrize("how", ["permute", "trans", "method"])
@pytest.mark.parametrize("order", [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)], ids=str)
def test_permute(memory, order, how):
    shape = (4, 8, 16)
    x = spread(INT32, 512).reshape(shape)
    want = x.transpose(order)
    out = memory.room(INT32, 512)
    memory.launch(_turned, (1,), out, memory.put(INT32, x), *shape, order, *want.shape, how)
    same(memory.get(out, want.shape), want)


@triton.jit
def _transposed(out, again, x, M: tl.constexpr, N: tl.constexpr):
    block = tl.load(_rank2(x, M, N))
    tl.store(_rank2(out, N, M), tl.trans(block))
    tl.store(_rank2(again, N, M), block.T)


@pytest.mark.parametrize("kind", **named(ALL))
def test_trans(memory, kind):
    x = spread(kind, 512).reshape(16, 32)
    out, again = memory.room(kind, 512), memory.room(kind, 512)
    memory.launch(_transposed, (1,), out, again, memory.put(kind, x), 16, 32)
    same(memory.get(out, (32, 16)), x.T)
    same(memory.get(again, (32, 16)), x.T)


@triton.jit
def _reshaped(out, viewed, flat, x, M: tl.constexpr, N: tl.constexpr, P: tl.constexpr, Q: tl.constexpr):
    block = tl.load(_rank2(x, M, N))
    tl.store(_rank2(out, P, Q), tl.reshape(block, (P, Q)) + 1)
    tl.store(_rank2(viewed, P, Q), tl.view(block, (P, Q)) + 1)
    tl.store(flat + tl.arange(0, M * N), tl.ravel(block) + 1)


@pytest.mark.parametrize("kind", **SOME)
@pytest.mark.parametrize("shape", [(8, 64), (64, 8), (1, 512), (512, 1), (32, 16)], ids=str)
def test_reshape(memory, kind, shape):
    x = spread(kind, 512)
    out, viewed, flat = (memory.room(kind, 512) for _ in range(3))
    memory.launch(_reshaped, (1,), out, viewed, flat, memory.put(kind, x), 16, 32, *shape)
    with np.errstate(all="ignore"):
        want = x + kind.values.type(1)
    for array in (out, flat, viewed):
        same(memory.get(array), want)


@triton.jit
def _widened(out, x, M: tl.constexpr, N: tl.constexpr, HOW: tl.constexpr):
    row = tl.load(x + tl.arange(0, N))
    if HOW == "broadcast_to":
        block = tl.broadcast_to(row[None, :], (M, N))
    elif HOW == "expand_dims":
        block = tl.broadcast_to(tl.expand_dims(row, 0), (M, N))
    elif HOW == "unsqueeze":
        block = tl.broadcast_to(tl.unsqueeze(tl.squeeze(tl.unsqueeze(row, 1), -1), 0), M, N)
    elif HOW == "broadcast":
        block, _ = tl.broadcast(row[None, :], tl.zeros((M, 1), x.dtype.element_ty))
    else:
        block = row[None, :] + tl.zeros((M, N), x.dtype.element_ty)
    tl.store(_rank2(out, M, N), block)


@pytest.mark.parametrize("how", ["broadcast_to", "expand_dims", "unsqueeze", "broadcast", "add"])
@pytest.mark.parametrize("kind", **SOME)
def test_broadcast(memory, kind, how):
    x = spread(kind, 32)
    x[x == 0] = 0
    out = memory.room(kind, 256)
    memory.launch(_widened, (1,), out, memory.put(kind, x), 8, 32, how)
    same(memory.get(out, (8, 32)), np.broadcast_to(x, (8, 32)))


@triton.jit
def _joined(out, alternating, left, right, x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    pairs = tl.join(a, b)
    tl.store(_rank2(out, N, 2), pairs)
    tl.store(alternating + tl.arange(0, 2 * N), tl.interleave(a, b))
    first, second = tl.split(pairs)
    tl.store(left + at, first)
    tl.store(right + at, second)


@pytest.mark.parametrize("kind", **named([it for it in ALL if it.name != "float8e4b15"]))
def test_join_split_interleave(memory, kind):
    x, y = spread(kind, 128, 1), spread(kind, 128, 2)
    arrays = [memory.room(kind, count) for count in (256, 256, 128, 128)]
    memory.launch(_joined, (1,), *arrays, memory.put(kind, x), memory.put(kind, y), 128)
    want = np.stack([x, y], 1)
    same(memory.get(arrays[0], (128, 2)), want)
    same(memory.get(arrays[1]), want.reshape(-1))
    same(memory.get(arrays[2]), x)
    same(memory.get(arrays[3]), y)


@triton.jit
def _strung(out, x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + tl.arange(0, 2 * N), tl.cat(tl.load(x + at), tl.load(y + at)))


@triton.jit
def _stacked(out, x, y, M: tl.constexpr, N: tl.constexpr, DIM: tl.constexpr):
    both = tl.cat(tl.load(_rank2(x, M, N)), tl.load(_rank2(y, M, N)), dim=DIM)
    if DIM == 0:
        tl.store(_rank2(out, 2 * M, N), both)
    else:
        tl.store(_rank2(out, M, 2 * N), both)


@pytest.mark.parametrize("kind", **named([INT8, INT32, FP16, FP32, INT64, FP8E5]))
def test_cat(memory, kind):
    x, y = spread(kind, 128, 1), spread(kind, 128, 2)
    out = memory.room(kind, 256)
    memory.launch(_strung, (1,), out, memory.put(kind, x), memory.put(kind, y), 128)
    same(memory.get(out), np.concatenate([x, y]))
    for dim in (0, 1):
        memory.launch(_stacked, (1,), out, memory.put(kind, x), memory.put(kind, y), 8, 16, dim)
        want = np.concatenate([x.reshape(8, 16), y.reshape(8, 16)], dim)
        same(memory.get(out, want.shape), want)


@triton.jit
def _swizzled(rows, columns, M: tl.constexpr, N: tl.constexpr, GROUP: tl.constexpr):
    i, j = tl.program_id(0), tl.program_id(1)
    new_i, new_j = tl.swizzle2d(i, j, M, N, GROUP)
    tl.store(rows + i * N + j, new_i)
    tl.store(columns + i * N + j, new_j)


@pytest.mark.parametrize("group", [1, 2, 3, 5])
def test_swizzle2d(memory, group):
    """Within groups of rows the order goes down the columns; the last group may be smaller."""
    m, n = 5, 7
    rows, columns = memory.room(INT32, m * n), memory.room(INT32, m * n)
    memory.launch(_swizzled, (m, n), rows, columns, m, n, group)
    order = [(i, j) for top in range(0, m, group) for j in range(n) for i in range(top, min(top + group, m))]
    same(memory.get(rows), np.array([i for i, _ in order], np.int32))
    same(memory.get(columns), np.array([j for _, j in order], np.int32))


@triton.jit
def _indexed(out, x, N: tl.constexpr):
    # An index of nothing is a new axis, wherever it stands; `item` makes a scalar of a single element.
    column = tl.load(x + tl.arange(0, N))[:, None]
    tl.static_assert(column.shape[0] == N and column.shape[1] == 1)
    single = tl.load(x + tl.arange(0, 1) + 3)
    tl.store(_rank2(out, N, 1), column + single.item())


def test_indices_and_items(memory):
    x = np.arange(32, dtype=np.int32)
    out = memory.room(INT32, 32)
    memory.launch(_indexed, (1,), out, memory.put(INT32, x), 32)
    same(memory.get(out), x + np.int32(3))
