"""As much of CUDA's driver API as the tests here need, by ctypes."""

import ctypes
import struct

PTX = """.version 7.0
.target sm_70
.address_size 64
.visible .entry double_it(.param .u64 to) {
  .reg .b64 %a;
  .reg .b32 %r;
  ld.param.u64 %a, [to];
  ld.global.u32 %r, [%a];
  add.u32 %r, %r, %r;
  st.global.u32 [%a], %r;
  ret;
}
.visible .entry trapped(.param .u64 to) {
  trap;
}
"""


def _container(kind, architecture, body):
    body += bytes(-len(body) % 8)
    head = bytearray(64)
    struct.pack_into("<HHIQ", head, 0, kind, 0x101, len(head), len(body))
    struct.pack_into("<I", head, 28, architecture)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 64 + len(body)) + bytes(head) + body


#: A library that has machine code and nothing else.
MACHINE_CODE = _container(2, 90, b"\x7fELF and so on")


class CudaError(Exception):
    """A call of the driver's that failed."""


class Driver:
    """The driver, with the primary context of its device."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self("cuCtxSetCurrent", context)

    def __call__(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            said = ctypes.c_char_p()
            self.library.cuGetErrorString(status, ctypes.byref(said))
            raise CudaError(f"{name}: {status}: {(said.value or b'').decode()}")

    def function(self, image, name):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self("cuModuleLoadData", ctypes.byref(module), image)
        self("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def run(self, function, value):
        """Runs a kernel of one thread on one word; the word behind it."""
        address, word = ctypes.c_uint64(), ctypes.c_uint32(value)
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4))
        self("cuMemcpyHtoD_v2", address, ctypes.byref(word), ctypes.c_size_t(4))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(address))
        self("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, pointers, None)
        self("cuMemcpyDtoH_v2", ctypes.byref(word), address, ctypes.c_size_t(4))
        self("cuMemFree_v2", address)
        return word.value
