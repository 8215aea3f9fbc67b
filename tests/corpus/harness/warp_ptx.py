"""Warp kernels: ahead of time, through the NVRTC inside Warp's own library."""

import ctypes
import json
import pathlib
import sys
import tempfile

import warp as wp

from harness import files
from harness.case import Buffer, Case, Launch, Raw, Struct

wp.config.quiet = True
wp.config.kernel_cache_dir = tempfile.mkdtemp(prefix="warp-")

MODULES = {}


def compile(module, arch):
    """The PTX and the shared bytes of all kernels of a source module."""
    if module not in MODULES:
        out = pathlib.Path(tempfile.mkdtemp(prefix="warp-"))
        wp.compile_aot_module(sys.modules[module], arch=arch, module_dir=str(out), use_ptx=True)
        (ptx,) = out.glob("*.ptx")
        (meta,) = out.glob("*.meta")
        MODULES[module] = ptx.read_text(), json.loads(meta.read_text())
    return MODULES[module]


class Array:
    """A buffer as Warp passes an array: `shape` counts elements, vectors being one."""

    def __init__(self, buffer, *shape, element=None, grad=None):
        self.buffer, self.grad = buffer, grad
        self.element = element or buffer.array.dtype.itemsize
        self.shape = shape or (buffer.array.nbytes // self.element,)

    def pack(self):
        """The structure `array_t`."""
        strides = [self.element]
        for size in reversed(self.shape[1:]):
            strides.insert(0, strides[0] * size)
        rest = wp._src.types.array_t(ndim=len(self.shape), shape=self.shape, strides=strides)
        tail = bytes(rest)[16:]
        grad = self.grad if self.grad is not None else Raw(bytes(8), 8)
        return Struct(self.buffer, grad, Raw(tail, 4))


def argument(arg):
    """An argument as the kernel's parameter."""
    if isinstance(arg, Buffer):
        arg = Array(arg)
    return arg.pack() if isinstance(arg, Array) else arg


def case(kernel, dim, args, want, arch=80, block=128, name=None, adjoint=None):
    """A case of one kernel over `dim` threads; `adjoint` runs the backward pass with these."""
    module = kernel.module.name
    ptx, shared = compile(module, arch)
    file = files.add_ptx(module, ptx)
    name = name or kernel.key
    way = "forward" if adjoint is None else "backward"
    entry = f"{kernel.get_mangled_name()}_cuda_kernel_{way}"
    # A tile kernel's last dimension is its block: threads of one share their coordinates.
    dim = dim if isinstance(dim, tuple) else (dim,)
    bounds = wp._src.context._build_launch_bounds_from_tuple(dim, kernel.adj.kernel_dim)
    threads = bounds.size
    packed = [Raw(bytes(bounds), ctypes.alignment(type(bounds)))]
    packed += [argument(arg) for arg in list(args) + list(adjoint or [])]
    grid = -(-threads // block)
    launch = Launch(file, entry, grid, block, packed, shared.get(f"{entry}_smem_bytes", 0))
    files.add_case(Case(f"{module}_{name}", [launch], want))
