"""CUDA C through NVRTC."""

import ctypes
import pathlib

from harness import files, wheels
from harness.case import Case, Launch

LIBRARY = []


def library():
    """NVRTC, loaded once."""
    if not LIBRARY:
        LIBRARY.append(wheels.load("nvidia", "cuda_nvrtc", "lib", "libnvrtc.so.12"))
        LIBRARY[0].nvrtcGetErrorString.restype = ctypes.c_char_p
    return LIBRARY[0]


def call(name, *arguments):
    """Calls a function of NVRTC; raises if it fails."""
    status = getattr(library(), name)(*arguments)
    if status:
        raise RuntimeError(f"{name}: {library().nvrtcGetErrorString(status).decode()}")


def text(what, program):
    """The log or the PTX of a program."""
    size = ctypes.c_size_t()
    call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    call(f"nvrtcGet{what}", program, buffer)
    return buffer.raw.rstrip(b"\0").decode()


def compile(source, name, arch, options=()):
    """The PTX of CUDA C."""
    program = ctypes.c_void_p()
    call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
    words = [f"--gpu-architecture=compute_{arch}", "-default-device", "--std=c++17"]
    words += [f"--include-path={folder}" for folder in wheels.includes()] + list(options)
    packed = (ctypes.c_char_p * len(words))(*[word.encode() for word in words])
    try:
        call("nvrtcCompileProgram", program, len(words), packed)
    except RuntimeError as error:
        raise RuntimeError(f"{name}: {error}\n{text('ProgramLog', program)}") from None
    return text("PTX", program)


class Source:
    """A .cu file beside the module that describes its cases."""

    def __init__(self, module, arch=80, options=(), name=None):
        module = pathlib.Path(module)
        self.name = name or module.stem
        source = module.with_suffix(".cu")
        self.ptx = files.add_ptx(self.name,
                                 compile(source.read_text(), source.name, arch, options))

    def launch(self, entry, grid, block, args, shared=0):
        """A launch of one of its entries."""
        return Launch(self.ptx, entry, grid, block, args, shared)

    def case(self, entry, grid, block, args, want, shared=0, name=None):
        """A case of a single launch."""
        launch = self.launch(entry, grid, block, args, shared)
        self.cases(name or entry, [launch], want)

    def cases(self, name, launches, want):
        """A case of several launches."""
        files.add_case(Case(f"{self.name}_{name}", launches, want))
