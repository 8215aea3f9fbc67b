"""A program in Python, on the driver API alone, that is interrupted while it waits for a kernel."""

import ctypes
import signal

# A shell starts what runs in its background with SIGINT ignored, and Python leaves that so.
signal.signal(signal.SIGINT, signal.default_int_handler)

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry count(.param .u64 to, .param .u32 turns) {
  .reg .pred %p;
  .reg .b32 %r<3>;
  .reg .b64 %a;
  ld.param.u64 %a, [to];
  cvta.to.global.u64 %a, %a;
  ld.param.u32 %r1, [turns];
  mov.u32 %r2, 0;
again:
  ld.volatile.global.u32 %r2, [%a];
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p, %r1, 0;
  @%p bra again;
  mov.u32 %r2, 3;
  st.global.u32 [%a], %r2;
  ret;
}
"""

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, f"{name}: {status}"


context, module, kernel = (ctypes.c_void_p() for _ in range(3))
memory, turns = ctypes.c_uint64(), ctypes.c_uint32(1_000_000)
call("cuInit", 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"count")
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4))
pointers = (ctypes.c_void_p * 2)(
    ctypes.cast(ctypes.byref(memory), ctypes.c_void_p),
    ctypes.cast(ctypes.byref(turns), ctypes.c_void_p),
)
launch = ("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, pointers, None)
call(*launch)
try:
    # It comes from here on, and is waited for.
    print("waits", flush=True)
    while True:
        call("cuCtxSynchronize")
        call(*launch)
except KeyboardInterrupt:
    pass
# The driver is as well as before.
call("cuCtxSynchronize")
answer = ctypes.c_uint32()
call("cuMemcpyDtoH_v2", ctypes.byref(answer), memory, ctypes.c_size_t(4))
print(f"interrupted, {answer.value} is right", flush=True)
