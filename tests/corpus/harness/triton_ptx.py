"""Triton kernels: compiled for a target that is not there."""

import os
import tempfile

# Lines would name the source's path, and the path is not the same everywhere.
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="triton-")

import re  # noqa: E402

import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from harness import files  # noqa: E402
from harness.case import Buffer, Case, Launch, u64  # noqa: E402

POINTER = {"float32": "*fp32", "float64": "*fp64", "float16": "*fp16", "bfloat16": "*bf16",
           "int8": "*i8", "uint8": "*u8", "int16": "*i16", "int32": "*i32", "uint32": "*u32",
           "int64": "*i64", "uint64": "*u64", "bool": "*i1"}


def case(function, grid, args, want, constants=None, arch=80, name=None, warps=4, stages=3,
         aligned=True, **options):
    """A case of one kernel. Scalars are pairs of Triton's type and the argument.

    `aligned` promises 16-byte alignment of every pointer, as Triton's own launcher does for
    tensors; it is what makes it emit vector accesses and asynchronous copies.
    """
    constants = constants or {}
    name = name or function.__name__
    names = [word for word in function.arg_names if word not in constants]
    signature, attributes = {}, {}
    for word, arg in zip(names, args, strict=True):
        is_buffer = isinstance(arg, Buffer)
        signature[word] = POINTER[arg.dtype] if is_buffer else arg[0]
        if aligned and is_buffer:
            attributes[(function.arg_names.index(word),)] = [["tt.divisibility", 16]]
        if not is_buffer and len(arg) > 2:
            attributes[(function.arg_names.index(word),)] = [["tt.divisibility", arg[2]]]
    signature.update({word: "constexpr" for word in constants})
    ordered = {word: signature[word] for word in function.arg_names}
    source = ASTSource(fn=function, signature=ordered, constexprs=constants, attrs=attributes)
    options = {"num_warps": warps, "num_stages": stages, **options}
    made = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    ptx, meta = made.asm["ptx"], made.metadata
    if meta.global_scratch_size or meta.profile_scratch_size:
        raise ValueError(f"{name}: scratch memory is not passed by this harness")
    entry = re.search(r"\.visible \.entry (\w+)", ptx).group(1)
    flat = [arg if isinstance(arg, Buffer) else arg[1] for arg in args]
    # Two pointers to scratch memory follow, which these kernels do not use.
    declared = re.search(r"\.visible \.entry \w+\(([^)]*)\)", ptx).group(1).count(".param")
    flat += [u64(0)] * (declared - len(flat))
    file = files.add_ptx(name, ptx)
    launch = Launch(file, entry, grid, 32 * made.metadata.num_warps, flat, meta.shared)
    files.add_case(Case(name, [launch], want))
