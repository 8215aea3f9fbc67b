"""tinygrad: a tensor expression becomes kernels of its PTX renderer, recorded instead of run."""

import os

# A source that wants another target sets this before it imports anything of tinygrad.
ARCH = os.environ.get("WARPLOOM_CORPUS_ARCH", "sm_80")
os.environ["DEV"] = f"NULL:PTX:{ARCH}"
os.environ["CACHELEVEL"] = "0"
# Its pool of compiler processes waits for ever where the main module is not its own.
os.environ["PARALLEL"] = "0"

import numpy as np  # noqa: E402
import tinygrad.runtime.ops_null as null  # noqa: E402
from tinygrad.runtime.support import compiler_cuda  # noqa: E402

# The assembler of NVIDIA's linker is not wanted: the text is.
compiler_cuda.NVPTXCompiler = compiler_cuda.PTXCompiler

from tinygrad import Device, Tensor, dtypes  # noqa: E402,F401

from harness import files  # noqa: E402
from harness.case import Buffer, Case, Launch, i32, zeros  # noqa: E402

RECORD = []


class Memory:
    """An allocation of the device that is not there, or a part of one."""

    def __init__(self, size, whole=None, offset=0):
        self.size, self.whole, self.offset, self.contents = size, whole, offset, None

    def base(self):
        """The whole allocation and the offset in it."""
        return (self, 0) if self.whole is None else (self.whole, self.offset)


class Allocator(null.NullAllocator):
    """Keeps what is copied to the device."""

    def _alloc(self, size, options):
        return Memory(size)

    def _copyin(self, dest, src):
        dest.contents = bytes(src)

    def _offset(self, buf, size, offset):
        return Memory(size, buf, offset)


class Program:
    """A kernel: its launches are recorded."""

    def __init__(self, _, obj):
        self.name, self.text = obj.name, obj.lib.decode()

    def __call__(self, *bufs, global_size=(1, 1, 1), local_size=(1, 1, 1), vals=(), **_):
        RECORD.append((self.name, self.text, bufs, global_size, local_size, vals))
        return 1e-3


class Graph:
    """tinygrad only asks whether there is one."""


null.NullAllocator, null.NullProgram = Allocator, Program


class Recorded:
    """The launches of one expression, with device memory turned into buffers of a case."""

    def __init__(self, inputs, outputs):
        self.known = {}
        self.inputs = {buffer.array.tobytes(): buffer for buffer in inputs}
        for tensor, buffer in outputs:
            self.known[tensor.uop.buffer._buf.base()[0]] = buffer

    def argument(self, memory):
        """The address of a piece of device memory."""
        whole, offset = memory.base()
        if whole not in self.known:
            known = self.inputs.get(whole.contents) if whole.contents else None
            if known is None and whole.contents:
                known = Buffer(np.frombuffer(whole.contents, np.uint8))
            self.known[whole] = known if known is not None else zeros(whole.size, "uint8")
        return self.known[whole].at(offset)


def case(name, expression, inputs, want):
    """A case of the kernels that compute `expression(*tensors)`.

    `want` is the expected result, or a list of them if the expression gives several tensors.
    """
    tensors = [Tensor(buffer.shaped).realize() for buffer in inputs]
    RECORD.clear()
    results = expression(*tensors)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    want = list(want) if isinstance(want, (list, tuple)) else [want]
    results = [result.contiguous() for result in results]
    Tensor.realize(*results)
    outputs = [(result, zeros(result.shape, dtype_of(result))) for result in results]
    recorded = Recorded(inputs, outputs)
    launches = []
    for number, (entry, text, bufs, grid, block, vals) in enumerate(RECORD):
        args = [recorded.argument(buf) for buf in bufs] + [i32(value) for value in vals]
        suffix = f"_{number}" if len(RECORD) > 1 else ""
        file = files.add_ptx(f"{name}{suffix}", text)
        launches.append(Launch(file, entry, grid, block, args))
    wants = {buffer: w for (_, buffer), w in zip(outputs, want, strict=True)}
    files.add_case(Case(name, launches, wants))


def dtype_of(tensor):
    """NumPy's word for a tensor's type."""
    names = {"half": "float16", "float": "float32", "double": "float64", "char": "int8",
             "short": "int16", "int": "int32", "long": "int64", "uchar": "uint8",
             "ushort": "uint16", "uint": "uint32", "ulong": "uint64", "bool": "bool"}
    word = str(tensor.dtype).rsplit(".", maxsplit=1)[-1]
    return names.get(word, word)
