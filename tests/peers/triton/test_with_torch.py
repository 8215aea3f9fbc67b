"""What a program with PyTorch hands to Triton: its tensors as they are, streams, types; and its own kernels' stand-in.

Collected only where the arrays are PyTorch's.
"""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from host_kernels import OnHost


@triton.jit
def _doubled(out, x, stride, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * stride, mask=at < n) * 2, mask=at < n)


def _there(values):
    """On the device by a copy alone."""
    host = torch.from_numpy(values)
    tensor = torch.empty(host.shape, dtype=host.dtype, device="cuda")
    tensor.copy_(host)
    return tensor


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float16, np.float32, np.float64])
def test_tensors_and_views(dtype):
    x = np.arange(120).reshape(10, 12).astype(dtype)
    tensor = _there(x)
    for view, want in ((tensor[3], x[3]), (tensor[:, 5], x[:, 5]), (tensor.t()[2], x.T[2]), (tensor[1:, 4], x[1:, 4])):
        out = torch.empty(len(want), dtype=tensor.dtype, device="cuda")
        _doubled[(1, )](out, view, view.stride(0), len(want), BLOCK=16)
        np.testing.assert_array_equal(out.cpu().numpy(), want * 2)


def test_streams():
    x = np.arange(64, dtype=np.float32)
    tensor, out = _there(x), torch.empty(64, dtype=torch.float32, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        _doubled[(1, )](out, tensor, 1, 64, BLOCK=64)
    stream.synchronize()
    np.testing.assert_array_equal(out.cpu().numpy(), x * 2)


@triton.jit
def _widened(out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at).to(tl.float32))


@pytest.mark.parametrize("dtype, width", [(torch.bfloat16, 2), (torch.float8_e5m2, 1), (torch.bool, 1)], ids=str)
def test_types_that_numpy_lacks(dtype, width):
    host = torch.tensor([0, 1, 2.5, 4] * 8).to(dtype)
    tensor = torch.empty(32, dtype=dtype, device="cuda")
    tensor.copy_(host)
    out = torch.empty(32, dtype=torch.float32, device="cuda")
    _widened[(1, )](out, tensor, BLOCK=32)
    assert tensor.element_size() == width
    assert torch.equal(out.cpu(), host.float())


def test_reinterpreted_tensors():
    codes = torch.arange(0, 0x7C, dtype=torch.uint8)
    tensor = torch.empty(64, dtype=torch.uint8, device="cuda")
    tensor.copy_(codes[:64])
    out = torch.empty(64, dtype=torch.float32, device="cuda")
    _widened[(1, )](out, triton.reinterpret(tensor, tl.float8e5), BLOCK=64)
    assert torch.equal(out.cpu(), codes[:64].view(torch.float8_e5m2).float())


def test_operations_done_on_the_host():
    """The plugin `host_kernels`: results, operands that are changed, views of them, indices, several results."""
    with OnHost():
        x = torch.arange(12, device="cuda").reshape(3, 4)
        assert x.is_cuda and torch.equal((x + 1).cpu(), torch.arange(1, 13).reshape(3, 4))
        x[:, 1] = 7
        x.t().mul_(2)
        want = torch.arange(12).reshape(3, 4)
        want[:, 1] = 7
        assert torch.equal(x.cpu(), want * 2)
        values, places = torch.topk(x.float(), 2)
        assert values.is_cuda and places.is_cuda and values.tolist() == torch.topk(want.float() * 2, 2)[0].tolist()
        torch.testing.assert_close(x.float() @ x.t().float(), (want.float() @ want.t().float() * 4).cuda())
        assert torch.rand(5, device="cuda", generator=torch.Generator("cuda")).is_cuda
        half = torch.full((2, 3), 1.5, device="cuda", dtype=torch.bfloat16)
        assert half.cpu().tolist() == [[1.5] * 3] * 2 and half.zero_().sum().item() == 0
