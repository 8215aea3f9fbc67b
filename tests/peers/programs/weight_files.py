"""Files of weights by their formats' own writers, and a program that copies what their readers find there.

  weight_files.py write FOLDER    m.gguf, of every type of tensor that gguf knows, and m.safetensors
  weight_files.py copy FOLDER     each tensor of at least 256 KiB to the device; prints their number and bytes
"""

import ctypes
import json
import pathlib
import sys

import gguf
import numpy
from safetensors.numpy import load_file, save_file

LEAST = 256 << 10
#: What quantized numbers are worked with, and not kept in files: gguf and ggml's C differ on its size.
NOT_IN_FILES = (gguf.GGMLQuantizationType.Q8_1,)


def write(folder):
    random = numpy.random.default_rng(7)
    writer = gguf.GGUFWriter(folder / "m.gguf", "llama")
    writer.add_context_length(4096)
    writer.add_token_list([f"token {n}" for n in range(5000)])
    writer.add_array("some.floats", [0.5] * 99)
    for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
        if kind not in NOT_IN_FILES:
            # Of an odd number of rows, so that the next one begins behind padding.
            rows = 3 + LEAST // (1024 // elements * size)
            data = random.integers(0, 256, (rows, 1024 // elements * size), dtype=numpy.uint8)
            writer.add_tensor(f"of.{kind.name}", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tensors = {name: random.integers(0, 99, (513 * (n + 1), 257)).astype(name)
               for n, name in enumerate(("float32", "float16", "int64", "uint8", "float64"))}
    save_file(tensors, folder / "m.safetensors", metadata={"format": "np"})


def copy(folder):
    reader = gguf.GGUFReader(folder / "m.gguf")
    arrays = [numpy.ascontiguousarray(tensor.data) for tensor in reader.tensors]
    arrays += load_file(folder / "m.safetensors").values()
    arrays = [array for array in arrays if array.nbytes >= LEAST]
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        code = getattr(cuda, name)(*arguments)
        assert code == 0, f"{name}: {code}"

    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    for array in arrays:
        there, back = ctypes.c_uint64(), numpy.empty_like(array)
        size = ctypes.c_size_t(array.nbytes)
        call("cuMemAlloc_v2", ctypes.byref(there), size)
        call("cuMemcpyHtoD_v2", there, ctypes.c_void_p(array.ctypes.data), size)
        call("cuMemcpyDtoH_v2", ctypes.c_void_p(back.ctypes.data), there, size)
        assert back.tobytes() == array.tobytes(), "what came back is not what went"
    print(json.dumps({"tensors": len(arrays), "bytes": sum(array.nbytes for array in arrays)}))


if __name__ == "__main__":
    {"write": write, "copy": copy}[sys.argv[1]](pathlib.Path(sys.argv[2]))
