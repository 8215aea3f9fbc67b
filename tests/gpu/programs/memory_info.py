"""What a program is told of its memory, and one allocation too many: it is refused, and the program goes on."""

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)


call("cuInit", 0)
device, context = ctypes.c_int(), ctypes.c_void_p()
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
free, total = ctypes.c_size_t(), ctypes.c_size_t()
call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
assert 0 < free.value <= total.value
address = ctypes.c_uint64()
refused = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(total.value * 2))
assert refused == 2, refused
half = free.value // 2 & ~0xFFFFF
call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(half))
call("cuMemsetD8_v2", address, ctypes.c_ubyte(7), ctypes.c_size_t(half))
word = ctypes.c_uint64()
call("cuMemcpyDtoH_v2", ctypes.byref(word), ctypes.c_uint64(address.value + half - 8), ctypes.c_size_t(8))
assert word.value == 0x0707070707070707, hex(word.value)
call("cuMemFree_v2", address)
print(f"well; total {total.value >> 20} MiB")
sys.exit(0)
