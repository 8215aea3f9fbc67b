#!/usr/bin/env python3
"""Compile tests/kernels/*.cu and suite/*.cu in it to PTX with NVRTC, without a GPU or a CUDA toolkit.

NVRTC comes from its PyPI wheel, pinned by version and hash in
ops/scripts/nvrtc-requirements.txt and installed with pip into
target/tools/nvrtc-<version>. The PTX is written beside its source and committed,
so that nobody needs NVRTC to build or to run anything.

  ops/scripts/compile-kernels.py              compile every kernel file
  ops/scripts/compile-kernels.py chat train   only tests/kernels/{chat,train}.cu
  ops/scripts/compile-kernels.py suite/scan   only tests/kernels/suite/scan.cu
  ops/scripts/compile-kernels.py --check      recompile and compare with the committed PTX
  ops/scripts/compile-kernels.py --check --no-install   the same; exit 3 if NVRTC is missing

Exit status: 0 done or equal, 1 a kernel does not compile or its PTX differs,
2 wrong usage, 3 NVRTC is missing and could not be or must not be installed.
"""

import argparse
import ctypes
import difflib
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "ops" / "scripts" / "nvrtc-requirements.txt"
KERNELS = ROOT / "tests" / "kernels"

# The oldest architecture this NVRTC still compiles for without a warning: a driver can compile
# its PTX for every later GPU. A file that needs a later one says so in its first line.
ARCHITECTURE = "compute_75"


def options(source):
    """What NVRTC is told for one .cu file."""
    found = re.match(r"// Compiled for (compute_\d+)\b", source.read_text())
    architecture = found.group(1) if found else ARCHITECTURE
    return [f"--gpu-architecture={architecture}", "-default-device"]


class Failure(Exception):
    """Something the user can act on, with the exit status that says which kind."""

    def __init__(self, message, status=1):
        super().__init__(message)
        self.status = status


def pinned_version():
    """The version of NVRTC that the requirements file names."""
    found = re.search(r"^nvidia-cuda-nvrtc-cu12==(\S+)", REQUIREMENTS.read_text(), re.M)
    if not found:
        raise Failure(f"{REQUIREMENTS.relative_to(ROOT)} pins no nvidia-cuda-nvrtc-cu12", 2)
    return found.group(1)


def find_library(folder):
    """The NVRTC library below `folder`, or None."""
    for pattern in ("libnvrtc.so.*", "nvrtc64_*.dll"):
        for path in sorted(folder.rglob(pattern)):
            if ".alt." not in path.name:
                return path
    return None


def install(folder):
    """Install the pinned wheel into `folder`; nothing is left there on failure."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes",
               "--disable-pip-version-check", "--only-binary", ":all:",
               "--requirement", str(REQUIREMENTS), "--target"]
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    print(f"installing NVRTC into {folder.relative_to(ROOT)}", file=sys.stderr)
    result = subprocess.run(command + [str(partial)], capture_output=True, text=True, check=False)
    if result.returncode != 0 or find_library(partial) is None:
        shutil.rmtree(partial, ignore_errors=True)
        raise Failure(f"pip could not install NVRTC:\n{result.stdout}{result.stderr}", 3)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


class Nvrtc:
    """The few entry points of NVRTC that a compilation needs."""

    def __init__(self, path):
        try:
            self.library = ctypes.CDLL(str(path))
        except OSError as error:
            raise Failure(f"{path} does not load: {error}", 3) from error
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            reason = self.library.nvrtcGetErrorString(status).decode()
            raise Failure(f"{name}: {reason}")

    def text(self, what, program):
        """The log or the PTX of a program: its size first, then its bytes."""
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw.rstrip(b"\0").decode()

    def compile(self, source):
        """The PTX of one .cu file."""
        program = ctypes.c_void_p()
        self.call("nvrtcCreateProgram", ctypes.byref(program), source.read_bytes(),
                  source.name.encode(), 0, None, None)
        try:
            words = [word.encode() for word in options(source)]
            packed = (ctypes.c_char_p * len(words))(*words)
            try:
                self.call("nvrtcCompileProgram", program, len(words), packed)
            except Failure as failure:
                log = self.text("ProgramLog", program).strip()
                raise Failure(f"{source.name}: {failure}\n{log}") from None
            log = self.text("ProgramLog", program).strip()
            if log:
                print(log, file=sys.stderr)
            return self.text("PTX", program).rstrip("\n") + "\n"
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))


def sources(names):
    """The .cu files to compile: those named, or all."""
    if not names:
        found = sorted([*KERNELS.glob("*.cu"), *KERNELS.glob("suite/*.cu")])
        if not found:
            raise Failure(f"no .cu files in {KERNELS.relative_to(ROOT)}", 2)
        return found
    paths = [KERNELS / (name.removesuffix(".cu") + ".cu") for name in names]
    for path in paths:
        if not path.is_file():
            raise Failure(f"no such kernel file: {path.relative_to(ROOT)}", 2)
    return paths


def check(source, ptx):
    """Compare with the committed PTX; True if they are equal."""
    committed = source.with_suffix(".ptx")
    name = committed.relative_to(ROOT)
    old = committed.read_text() if committed.is_file() else ""
    if old == ptx:
        return True
    print(f"{name}: differs from what {source.name} compiles to", file=sys.stderr)
    difference = difflib.unified_diff(old.splitlines(), ptx.splitlines(), "committed", "compiled",
                                      lineterm="", n=1)
    for _, line in zip(range(20), difference):
        print("  " + line, file=sys.stderr)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernel files (default: all)")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--no-install", action="store_true", help="never fetch NVRTC")
    arguments = parser.parse_args()

    chosen = sources(arguments.names)
    folder = ROOT / "target" / "tools" / f"nvrtc-{pinned_version()}"
    if find_library(folder) is None:
        if arguments.no_install:
            raise Failure(f"NVRTC is not in {folder.relative_to(ROOT)}", 3)
        install(folder)
    nvrtc = Nvrtc(find_library(folder))

    different = 0
    for source in chosen:
        ptx = nvrtc.compile(source)
        if arguments.check:
            different += not check(source, ptx)
        else:
            source.with_suffix(".ptx").write_text(ptx)
            print(f"{source.name} -> {source.stem}.ptx ({len(ptx.splitlines())} lines)")
    if different:
        raise Failure(f"{different} of {len(chosen)} differ: run ops/scripts/compile-kernels.py "
                      "and commit the result")
    if arguments.check:
        print(f"{len(chosen)} kernel files compile to the committed PTX")


if __name__ == "__main__":
    try:
        main()
    except Failure as problem:
        print(f"compile-kernels: {problem}", file=sys.stderr)
        sys.exit(problem.status)
