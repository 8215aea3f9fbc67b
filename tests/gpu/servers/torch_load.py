"""Neighbours that disturb: module loads, frees, copies."""

import ctypes
import itertools
import time

import torch

from torch_work import Work, seeded

#: A body of some hundred instructions, as a small kernel of a framework has.
PTX = """.version 7.0
.target sm_80
.address_size 64
.visible .entry fresh(.param .u64 out) {{
  .reg .u64 %o; .reg .u32 %x, %y; ld.param.u64 %o, [out]; ld.global.u32 %x, [%o]; mov.u32 %y, {nonce};
{body}
  st.global.u32 [%o], %x; ret;
}}
"""
BODY = "\n".join(f"  mad.lo.u32 %x, %x, {1664525 + 4 * it}, {{constant}}; xor.b32 %x, %x, {it};"
                 for it in range(100))


class Loader(Work):
    """Compiles PTX that no cache has seen, loads it, launches it once and unloads it."""

    def __init__(self, options):
        self.device = options.device
        with seeded(self.device):
            self.word = torch.zeros(1, dtype=torch.int32)
        self.driver = ctypes.CDLL("libcuda.so.1") if self.device == "cuda" else None
        # A driver keeps compiled PTX on the disk: no later process may find that of this one.
        self.nonce = itertools.count(time.time_ns() % 2**30)
        self.reset()

    def reset(self):
        self.constant = itertools.count(1)
        self.word.zero_()

    def _call(self, name, *arguments):
        if code := getattr(self.driver, name)(*arguments):
            text = ctypes.c_char_p()
            self.driver.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()} ({code})")

    def __call__(self):
        body = BODY.format(constant=next(self.constant))
        text = PTX.format(nonce=next(self.nonce), body=body).encode()
        if not self.driver:
            return
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        stream = torch.cuda.current_stream()
        address = ctypes.c_uint64(self.word.data_ptr())
        pointers = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(address), ctypes.c_void_p))
        self._call("cuModuleLoadData", ctypes.byref(module), text)
        try:
            self._call("cuModuleGetFunction", ctypes.byref(function), module, b"fresh")
            self._call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, ctypes.c_void_p(stream.cuda_stream),
                       pointers, None)
            stream.synchronize()
        finally:
            self._call("cuModuleUnload", module)

    def outputs(self):
        return [self.word]


class Freer(Work):
    """Allocates, computes, and gives the memory back to the driver."""

    DIGESTED = 1

    def __init__(self, options):
        self.device, self.size = options.device, 64 if options.tiny else 2048

    def __call__(self):
        pieces = [torch.full((self.size, self.size), it + 1.0, device=self.device) for it in range(8)]
        self.total = torch.stack([it.sum() for it in pieces])
        del pieces
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def outputs(self):
        return [self.total]


class Copier(Work):
    """Copies pinned memory to the device and back."""

    def __init__(self, options):
        self.size = 1 << 16 if options.tiny else 256 << 20
        self.host = torch.zeros(self.size, dtype=torch.uint8, pin_memory=options.device == "cuda")
        self.there = torch.zeros(self.size, dtype=torch.uint8, device=options.device)

    def reset(self):
        if self.there.is_cuda:
            torch.cuda.current_stream().synchronize()
        self.host.copy_((torch.arange(1 << 16) % 251).to(torch.uint8).repeat(self.size >> 16))
        self.there.zero_()

    def __call__(self):
        self.there.copy_(self.host, non_blocking=True)
        self.host.copy_(self.there, non_blocking=True)

    def outputs(self):
        # The first and the last MiB tell as much as all.
        part = min(1 << 20, self.size // 2)
        return [self.there[:part], self.there[-part:]]
