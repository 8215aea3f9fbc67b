#!/usr/bin/env python3
"""Compile one kernel for every function of CUDA's device headers with NVRTC, and load each on the
CPU device: what it refuses is listed.

The functions are found in the headers themselves (math, SIMD and conversion intrinsics, cuda_fp16,
cuda_bf16, cuda_fp8 and the atomic, warp and memory intrinsics); the templates of cooperative
groups, cuda/atomic, cuda/barrier, mma.h and the pipeline are called by the lines of
ops/scripts/sweep-intrinsics.txt. NVRTC and the headers come from the wheels of
ops/scripts/corpus-requirements.txt (see compile-corpus.py, which installs them), nothing needs a
GPU. Needs `cargo` for the CPU device's `load` example.

  ops/scripts/sweep-intrinsics.py              all headers for sm_75, sm_80 and sm_90
  ops/scripts/sweep-intrinsics.py --arch 80    one target
  ops/scripts/sweep-intrinsics.py cuda_fp16    headers whose name contains this
  ops/scripts/sweep-intrinsics.py --keep DIR   leave the PTX there
  ops/scripts/sweep-intrinsics.py --wheels DIR the wheels are installed here

Exit status: 0 nothing refused but what is known to be (the list KNOWN below), 1 something refused,
2 wrong usage, 3 the compilers are missing.
"""

import argparse
import ctypes
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINES = ROOT / "ops" / "scripts" / "sweep-intrinsics.txt"

# Opcodes that the CPU device leaves out, and calls by which a header says that the target has not
# what was asked for; a kernel refused for one of them is no finding.
KNOWN = re.compile(r"`(tex|tld4|txq|suld|sust|sured|suq|wgmma|tensormap|mma\.sp|cp\.async\.bulk)\b"
                   r"|bulk copies are|_is_not_supported_before_SM_")

# Where functions are declared, and what is to be included to call them.
HEADERS = {
    "crt/device_functions.h": "",
    "crt/device_double_functions.h": "",
    "crt/math_functions.h": "",
    "crt/sm_70_rt.h": "",
    "crt/sm_80_rt.h": "",
    "crt/sm_90_rt.h": "",
    "device_atomic_functions.h": "",
    "sm_20_intrinsics.h": "",
    "sm_30_intrinsics.h": "",
    "sm_32_intrinsics.h": "",
    "sm_60_atomic_functions.h": "",
    "sm_61_intrinsics.h": "",
    "cuda_fp16.h": "#include <cuda_fp16.h>\n",
    "cuda_bf16.h": "#include <cuda_bf16.h>\n",
    "cuda_fp8.h": "#include <cuda_fp8.h>\n",
    "cuda_fp6.h": "#include <cuda_fp6.h>\n",
    "cuda_fp4.h": "#include <cuda_fp4.h>\n",
}

# Arguments that must be constants.
CONSTANTS = {
    "__nv_saturation_t": ["__NV_NOSAT", "__NV_SATFINITE"],
    "__nv_fp8_interpretation_t": ["__NV_E4M3", "__NV_E5M2"],
    "__nv_fp6_interpretation_t": ["__NV_E2M3", "__NV_E3M2"],
    "__nv_fp4_interpretation_t": ["__NV_E2M1"],
    "cudaRoundMode": ["cudaRoundNearest", "cudaRoundZero", "cudaRoundPosInf", "cudaRoundMinInf"],
}

SCALARS = """bool char short int long float double size_t half __half __half2 half2 __nv_bfloat16
__nv_bfloat162 nv_bfloat16 nv_bfloat162 uint32_t int32_t uint64_t clock_t int2 uint2 uint4 int4
short2 short4 ushort2 ushort4 char2 char4 uchar2 uchar4 float2 float4 double2 longlong2 ulonglong2
__nv_fp8_storage_t __nv_fp8x2_storage_t __nv_fp8x4_storage_t __nv_fp6_storage_t
__nv_fp6x2_storage_t __nv_fp6x4_storage_t __nv_fp4_storage_t __nv_fp4x2_storage_t
__nv_fp4x4_storage_t __half_raw __half2_raw __nv_bfloat16_raw __nv_bfloat162_raw""".split()
WORDS = re.compile(r"\b(const|volatile|unsigned|signed|long|short|int|char|enum|struct)\b")


class Failure(Exception):
    """Something the user can act on, with the exit status that says which kind."""

    def __init__(self, message, status=1):
        super().__init__(message)
        self.status = status


class Nvrtc:
    """NVRTC, with the headers of the other wheels."""

    def __init__(self, wheels):
        nvidia = wheels / "nvidia"
        self.folders = [nvidia / "cuda_runtime" / "include", nvidia / "cuda_cccl" / "include",
                        nvidia / "cuda_nvcc" / "include"]
        try:
            self.library = ctypes.CDLL(str(nvidia / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"))
        except OSError as error:
            raise Failure(f"NVRTC is missing ({error}): ops/scripts/compile-corpus.py installs it",
                          3) from error

    def text(self, what, program):
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw.rstrip(b"\0").decode()

    def compile(self, source, arch):
        """PTX and log; the PTX is empty where it does not compile."""
        program = ctypes.c_void_p()
        self.library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"sweep.cu", 0,
                                        None, None)
        words = [f"--gpu-architecture=compute_{arch}", "-default-device", "--std=c++17",
                 "--disable-warnings"]
        words += [f"--include-path={folder}" for folder in self.folders]
        packed = (ctypes.c_char_p * len(words))(*[word.encode() for word in words])
        status = self.library.nvrtcCompileProgram(program, len(words), packed)
        return (self.text("PTX", program) if status == 0 else "", self.text("ProgramLog", program))


def statements(text):
    """Declarations of a header: comments and directives removed, braces cut."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", " ", text, flags=re.M)
    return re.split(r"[;{}]|__DEF_IF_HOST", text)


def known(kind):
    """Whether a value of the type can be loaded from memory."""
    plain = WORDS.sub(" ", kind).split()
    return not plain or (len(plain) == 1 and plain[0] in SCALARS)


def parse(statement):
    """Result, name and argument types of a function that code on the device can call."""
    flat = " ".join(statement.split())
    found = re.search(r"([\w ]+?[ *]+)(\w+) ?\(([^()]*)\)(?: *(?:__\w+|noexcept|throw) *)*$", flat)
    device = re.search(r"__device__|__DEVICE|DEVICE_FUNCTIONS_DECL|FP\d+_DECL|BF16_DECL|_DECL__",
                       flat)
    if not found or not device or re.search(r"\b(operator|template|return|typedef)\b", flat):
        return None
    result, name, arguments = found.groups()
    words = [word for word in result.replace("*", " * ").split()
             if not re.match(r"(__\w*(DECL|device|host|inline|builtin|DEVICE|static|CRT|THROW|attr)"
                             r"\w*|static|inline|extern|_?CRTIMP\w*|constexpr)$", word)]
    result = " ".join(words)
    kinds = []
    for argument in arguments.split(","):
        argument = argument.strip()
        if argument in ("", "void"):
            continue
        argument = re.sub(r"=.*", "", argument).strip()
        words = re.match(r"(.*?[\s*])(\w+)$", argument)
        bare = argument in SCALARS or argument in CONSTANTS or not words or known(argument)
        kind = (argument if bare else words.group(1)).replace("enum ", "").strip()
        kinds.append(re.sub(r"^const (\w+)$", r"\1", kind))
    return result, name, kinds


def kernels(header, folders):
    """A kernel in one line for every function of a header; variants for constant arguments."""
    path = next((folder / header for folder in folders if (folder / header).is_file()), None)
    if path is None:
        raise Failure(f"{header} is in none of the wheels", 3)
    made = {}
    for statement in statements(path.read_text()):
        function = parse(statement)
        if function is None:
            continue
        result, name, kinds = function
        values, pointers = [], []
        for at, kind in enumerate(kinds):
            bare = re.sub(r"\bconst\b|\*", "", kind).strip()
            if kind in CONSTANTS:
                values.append(CONSTANTS[kind])
            elif "*" in kind:
                if not known(bare) and bare != "void":
                    break
                pointers.append(f"{kind} a{at}")
                values.append([f"a{at}"])
            elif known(kind):
                pointers.append(f"const {re.sub('const ', '', kind)} *a{at}")
                values.append([f"a{at}[i]"])
            else:
                break
        if len(values) < len(kinds) or (result != "void" and not known(result)):
            continue
        for chosen in itertools.product(*values):
            call = f"{name}({', '.join(chosen)})"
            if result == "void":
                head, body = pointers, call
            else:
                plain = re.sub(r"\bconst\b", "", result)
                head, body = [f"{plain} *out", *pointers], f"out[i] = {call}"
            made[f"{name}({', '.join(kinds)}) {' '.join(c for c in chosen if '_' in c)}"] = (
                f"({', '.join(head)}) {{ int i = threadIdx.x; {body}; }}")
    return made


def written():
    """The kernels of the list beside this script: groups of an include line and bodies."""
    groups, current = {}, None
    for line in LINES.read_text().splitlines():
        line = line.strip()
        if line.startswith("## "):
            current = groups.setdefault(line[3:], ["", {}])
        elif line.startswith("#include") or line.startswith("#define") or line.startswith("using "):
            current[0] += line + "\n"
        elif line and not line.startswith("# "):
            current[1][line] = ("(unsigned *u, int *s, float *f, double *d, unsigned long long *l) "
                                f"{{ int i = threadIdx.x; {line} }}")
    return groups


def compiled(nvrtc, include, made, arch):
    """PTX of all kernels that compile for a target, their names, and of the others the reason."""
    left, refused = dict(made), {}
    while left:
        names = list(left)
        head = include.count("\n")
        source = include + "".join(f'extern "C" __global__ void k{at}{left[name]}\n'
                                   for at, name in enumerate(names))
        ptx, log = nvrtc.compile(source, arch)
        if ptx:
            return ptx, names, refused
        lines = {int(at): why for at, why in
                 re.findall(r"sweep\.cu\((\d+)\): (?:catastrophic )?error: ?(.*)", log)}
        wrong = {at - head - 1: why for at, why in lines.items() if 0 < at - head <= len(names)}
        if not wrong:
            # What is wrong lies in a header: halves find out by whom.
            if len(names) == 1:
                refused[names[0]] = log.strip().splitlines()[-1] if log.strip() else "?"
                return "", [], refused
            parts = [compiled(nvrtc, include, {n: left[n] for n in half}, arch)
                     for half in (names[::2], names[1::2])]
            return [part for part in parts if part[0]], [], {
                **refused, **parts[0][2], **parts[1][2]}
        for at, why in wrong.items():
            refused[names[at]] = why
            del left[names[at]]
    return "", [], refused


def flatten(result):
    """The modules of a result of `compiled`: PTX and names."""
    ptx, names, _ = result
    if isinstance(ptx, list):
        return [module for part in ptx for module in flatten(part)]
    return [(ptx, names)] if ptx else []


def load(loader, ptx, names, folder, title):
    """Loads a module; entries that are refused are cut out one by one. Name: reason."""
    refused = {}
    while True:
        path = folder / (re.sub(r"\W+", "_", title) + ".ptx")
        path.write_text(ptx)
        result = subprocess.run([loader, path], capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return refused
        error = result.stderr.strip() or f"died with {result.returncode}"
        found = re.search(r"line (\d+)|(\d+):\d+", error)
        lines = ptx.splitlines(keepends=True)
        at = int(found.group(1) or found.group(2)) - 1 if found else len(lines)
        start = at
        while 0 <= start < len(lines) and not re.match(r"\.visible \.entry k\d+\b", lines[start]):
            start -= 1
        if not 0 <= start < len(lines):
            refused[f"(module {title})"] = error
            return refused
        end = start
        while not lines[end].startswith("}"):
            end += 1
        if at > end:
            refused[f"(module {title})"] = error
            return refused
        number = int(re.search(r"k(\d+)", lines[start]).group(1))
        refused[names[number]] = f"{error.splitlines()[-1]}   [{lines[at].strip()}]"
        ptx = "".join(lines[:start] + lines[end + 1:])


def build():
    """The program that loads a module."""
    subprocess.run(["cargo", "build", "--locked", "-p", "device-cpu", "--example", "load"],
                   cwd=ROOT, check=True)
    return ROOT / "target" / "debug" / "examples" / "load"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="HEADER")
    parser.add_argument("--arch", type=int, action="append")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--wheels", type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true", help="list what NVRTC refuses, too")
    arguments = parser.parse_args()
    wheels = arguments.wheels or next(iter((ROOT / "target" / "tools").glob("corpus-*")), None)
    if wheels is None:
        raise Failure("the compilers are missing: ops/scripts/compile-corpus.py installs them", 3)
    nvrtc = Nvrtc(wheels)
    loader = build()
    tasks = {header: [include, kernels(header, nvrtc.folders)]
             for header, include in HEADERS.items()} | written()
    tasks = {title: task for title, task in tasks.items()
             if not arguments.names or any(name in title for name in arguments.names)}
    found = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for arch in arguments.arch or [75, 80, 90]:
            for title, (include, made) in tasks.items():
                result = compiled(nvrtc, include, made, arch)
                modules, failed = flatten(result), result[2]
                refused = {}
                for number, (ptx, names) in enumerate(modules):
                    refused |= load(loader, ptx, names, folder, f"{title}-{arch}-{number}")
                news = {name: why for name, why in refused.items() if not KNOWN.search(why)}
                found += len(news)
                loaded = sum(len(names) for _, names in modules) - len(refused)
                print(f"sm_{arch} {title}: {len(made)} kernels, {len(failed)} not for this target, "
                      f"{loaded} loaded, {len(refused) - len(news)} left out, {len(news)} refused",
                      flush=True)
                for name, why in news.items():
                    print(f"    {name}: {why}")
                if arguments.verbose:
                    for name, why in failed.items():
                        print(f"    NVRTC: {name}: {why}")
    if found:
        raise Failure(f"{found} kernels are refused")


if __name__ == "__main__":
    try:
        main()
    except Failure as problem:
        print(f"sweep-intrinsics: {problem}", file=sys.stderr)
        sys.exit(problem.status)
