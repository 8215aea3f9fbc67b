#!/usr/bin/env python3
"""What `warploom bench client` measures torch with; each way prints a line of JSON.

  bench.py import          torch and Triton are imported, and nothing else
  bench.py start           the same, and a kernel that Triton has compiled before runs
  bench.py call COUNT      a compiled block of GPT-2 is called so many times, with an input from the host and
                           the result back there
  bench.py record FOLDER   the seconds of such calls with input and result on the device, and in the folder
                           every launch of one: kernels, grids, arguments, what the memory holds
"""

import json
import pathlib
import struct
import sys
import time

BEGAN = time.monotonic()

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

#: Tokens of a call, and calls that are measured.
TOKENS, CALLS = 16, 20


@triton.jit
def double(data, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(data + at, tl.load(data + at, at < count) * 2, at < count)


def start():
    """From the start of the process to the end of a kernel of Triton's."""
    data = torch.empty(256, device="cuda")
    double[(1,)](data, 256, BLOCK=256)
    torch.cuda.synchronize()
    return {"seconds": time.monotonic() - BEGAN}


def block():
    """A block of GPT-2, of its width, compiled, and an input."""
    import head  # noqa: F401
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block
    torch.manual_seed(0)
    made = GPT2Block(GPT2Config(), layer_idx=0).eval().to("cuda")
    call = torch.compile(lambda x: made(x))
    x = torch.randn(1, TOKENS, 768)

    def result(x):
        with torch.no_grad():
            y = call(x)
        return y[0] if isinstance(y, tuple) else y

    return result, x


def call(count):
    """Calls, as somebody makes them who asks for an answer to what they have."""
    result, x = block()
    result(x.to("cuda")).cpu()
    for _ in range(int(count)):
        result(x.to("cuda")).cpu()
    return {"calls": int(count)}


class Recorder:
    """Stands where Inductor's launcher does, and writes down what goes through."""

    def __init__(self, launcher):
        self.launcher, self.on = launcher, False
        self.images, self.kernels, self.launches, self.tensors = {}, [], [], []

    def _load_kernel(self, path, name, shared, device):
        loaded = self.launcher._load_kernel(path, name, shared, device)
        self.images[loaded[1]] = pathlib.Path(path).read_bytes(), name
        return loaded

    def _unload_kernel(self, module):
        self.launcher._unload_kernel(module)

    def _launch_kernel(self, function, x, y, z, warps, shared, kinds, arguments, stream):
        if self.on:
            if function not in self.kernels:
                self.kernels.append(function)
            self.launches.append({"kernel": self.kernels.index(function), "grid": [x, y, z],
                                  "threads": 32 * warps, "shared": shared,
                                  "arguments": [self._argument(*it) for it in zip(kinds, arguments)]})
        self.launcher._launch_kernel(function, x, y, z, warps, shared, kinds, arguments, stream)

    def _argument(self, kind, value):
        if kind != "O":
            return {"bytes": list(struct.pack("<" + {"l": "q", "K": "Q"}.get(kind, kind), value))}
        if value is None:
            return {"bytes": [0] * 8}
        storage = value.untyped_storage()
        bases = [it.untyped_storage().data_ptr() for it in self.tensors]
        if storage.data_ptr() not in bases:
            # Held, so that nothing else gets its place.
            self.tensors.append(value)
            bases.append(storage.data_ptr())
        at = bases.index(storage.data_ptr())
        return {"buffer": at, "offset": value.data_ptr() - bases[at]}

    def write(self, folder, result):
        """All of it, into a folder."""
        for at, function in enumerate(self.kernels):
            (folder / f"kernel-{at}.ptx").write_bytes(self.images[function][0].rstrip(b"\0"))
        contents = []
        for it in self.tensors:
            whole = torch.empty(0, dtype=torch.uint8, device="cuda").set_(it.untyped_storage())
            contents.append(whole.cpu().numpy().tobytes())
        (folder / "memory.bin").write_bytes(b"".join(contents))
        told = {"kernels": [self.images[it][1] for it in self.kernels], "launches": self.launches,
                "buffers": [len(it) for it in contents],
                "result": self._argument("O", result) | {"bytes": result.numel() * result.element_size()}}
        (folder / "launches.json").write_text(json.dumps(told))


def record(folder):
    """Calls with everything on the device: seconds of each, and what one of them launched."""
    from torch._inductor.runtime.static_triton_launcher import StaticallyLaunchedCudaKernel
    recorder = Recorder(torch._C._StaticCudaLauncher)
    StaticallyLaunchedCudaKernel.C_impl = recorder
    result, x = block()
    there = x.to("cuda")
    # Behind the first call of a kernel Inductor takes a shorter way to it.
    recorder.on = True
    recorder.write(pathlib.Path(folder), result(there))
    StaticallyLaunchedCudaKernel.C_impl = recorder.launcher
    seconds = []
    for _ in range(CALLS):
        began = time.perf_counter()
        result(there)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return {"seconds": seconds, "launches": len(recorder.launches)}


if __name__ == "__main__":
    ways = {"import": lambda: {"seconds": time.monotonic() - BEGAN}, "start": start, "call": call, "record": record}
    print(json.dumps(ways[sys.argv[1]](*sys.argv[2:])))
