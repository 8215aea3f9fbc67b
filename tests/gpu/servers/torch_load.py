"""Neighbours that disturb: module loads, frees, copies."""

import ctypes
import itertools

import torch

PTX = """.version 7.0
.target sm_80
.address_size 64
.visible .entry fresh() {{ .reg .u32 %x; mov.u32 %x, {}; ret; }}
"""
COUNTER = itertools.count(1)


class Loader:
    """Compiles PTX that no cache has seen, loads it, launches it once and unloads it."""

    def __init__(self, options):
        self.gpu = options.device == "cuda"
        if self.gpu:
            torch.zeros(1, device="cuda")
            self.driver = ctypes.CDLL("libcuda.so.1")

    def _call(self, name, *arguments):
        if code := getattr(self.driver, name)(*arguments):
            raise RuntimeError(f"{name}: {code}")

    def __call__(self):
        text = PTX.format(next(COUNTER)).encode()
        if self.gpu:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            self._call("cuModuleLoadData", ctypes.byref(module), text)
            self._call("cuModuleGetFunction", ctypes.byref(function), module, b"fresh")
            self._call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, None, None)
            self._call("cuModuleUnload", module)


class Freer:
    """Allocates, computes, and gives the memory back to the driver."""

    def __init__(self, options):
        self.options = options

    def __call__(self):
        size = 64 if self.options.tiny else 2048
        pieces = [torch.ones(size, size, device=self.options.device) for _ in range(8)]
        total = sum(it.sum() for it in pieces)
        del pieces
        if self.options.device == "cuda":
            torch.cuda.empty_cache()
        return total


class Copier:
    """Copies pinned memory to the device and back."""

    def __init__(self, options):
        size = 1 << 10 if options.tiny else 256 << 20
        gpu = options.device == "cuda"
        self.host = torch.zeros(size, dtype=torch.uint8, pin_memory=gpu)
        self.there = torch.empty(size, dtype=torch.uint8, device=options.device)

    def __call__(self):
        self.there.copy_(self.host, non_blocking=True)
        self.host.copy_(self.there, non_blocking=True)
