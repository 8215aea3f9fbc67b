"""Python kernels through numba-cuda: libnvvm and libdevice come from wheels."""

import math
import re

from harness import files, wheels
from harness.case import Buffer, Case, Launch, i64, u64

for _library in (("cuda_runtime", "libcudart.so.12"), ("cuda_nvrtc", "libnvrtc.so.12")):
    wheels.load("nvidia", _library[0], "lib", _library[1])

from numba import cuda, types  # noqa: E402  (after the libraries it looks for)
from numba.cuda import dispatcher  # noqa: E402


class Device:
    """What Numba asks the current device for when it compiles a device function."""

    compute_capability = (8, 0)


dispatcher.get_current_device = Device


class Array:
    """A buffer as Numba passes an array: seven or more parameters, one a field."""

    def __init__(self, buffer, shape=None):
        self.buffer = buffer
        self.shape = shape or buffer.shaped.shape
        self.dtype = buffer.array.dtype

    def fields(self):
        """Parent objects, element count, element size, address, shape, strides in bytes."""
        strides = [self.dtype.itemsize]
        for size in reversed(self.shape[1:]):
            strides.insert(0, strides[0] * size)
        count = math.prod(self.shape)
        return [u64(0), u64(0), i64(count), i64(self.dtype.itemsize), self.buffer,
                *map(i64, self.shape), *map(i64, strides)]


def numba_type(arg):
    """Numba's type of an argument."""
    if isinstance(arg, Array):
        scalar = getattr(types, arg.dtype.name)
        return types.Array(scalar, len(arg.shape), "C")
    raise TypeError(f"{arg!r}: give scalars as (type, argument)")


def compile(function, args, arch=80, **options):
    """PTX and name of the entry. Scalars are pairs of Numba's type and the argument."""
    signature = tuple(arg[0] if isinstance(arg, tuple) else numba_type(arg) for arg in args)
    Device.compute_capability = arch // 10, arch % 10
    ptx, _ = cuda.compile_ptx(function, signature, cc=Device.compute_capability, **options)
    ptx = ptx.decode() if isinstance(ptx, bytes) else ptx
    entry = re.search(r"\.visible \.entry (\w+)", ptx).group(1)
    return ptx, entry


def case(function, grid, block, args, want, arch=80, shared=0, name=None, **options):
    """A case of one kernel; buffers among `args` are passed as arrays."""
    args = [Array(arg) if isinstance(arg, Buffer) else arg for arg in args]
    name = name or function.__name__
    ptx, entry = compile(function, args, arch, **options)
    flat = []
    for arg in args:
        flat += arg.fields() if isinstance(arg, Array) else [arg[1]]
    file = files.add_ptx(name, ptx)
    files.add_case(Case(name, [Launch(file, entry, grid, block, flat, shared)], want))
