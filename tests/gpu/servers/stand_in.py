#!/usr/bin/env python3
"""A job server without PyTorch, for rehearsals: the driver API by ctypes, kernels as PTX.

Each job of `jobs.json` has a stand-in of a similar shape: many tiny launches, one long kernel, module
loads, frees, or copies. `--scale` shortens kernels and copies. `protocol.py` says what it understands.
"""

import argparse
import ctypes
import hashlib
import itertools
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from protocol import Job, Server  # noqa: E402

PTX = b""".version 7.0
.target sm_80
.address_size 64
.visible .entry mix(.param .u64 out, .param .u32 trips, .param .u32 salt) {
  .reg .u64 %o, %a; .reg .u32 %n, %i, %t, %b, %d, %x, %s; .reg .pred %p;
  ld.param.u64 %o, [out]; ld.param.u32 %n, [trips]; ld.param.u32 %s, [salt];
  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %d, %ntid.x; mad.lo.u32 %t, %b, %d, %t;
  mul.wide.u32 %a, %t, 4; add.u64 %a, %o, %a; ld.global.u32 %x, [%a]; mov.u32 %i, 0;
again: setp.ge.u32 %p, %i, %n; @%p bra done;
  mad.lo.u32 %x, %x, 1664525, %s; add.u32 %i, %i, 1; bra again;
done: st.global.u32 [%a], %x; ret;
}
"""
#: Launches of a step, blocks of 128 threads, trips of the loop.
SHAPES = {"launch": (20, 1, 50), "decode": (10, 1, 200), "middle": (4, 8, 20_000), "large": (1, 16, 60_000),
          "urgent": (2, 4, 20_000), "train": (12, 4, 5_000)}
USUAL = (4, 4, 5_000)
#: A driver keeps compiled PTX on the disk: no later process may find that of this one.
FRESH = itertools.count(2 * (time.time_ns() % 2**30) + 1, 2)


class Driver:
    """The driver's functions; a call that fails raises with its name and error."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.call("cuCtxSetCurrent", self.context)
        self.mix = self.load(PTX)[1]

    def call(self, name, *arguments):
        """Calls a function."""
        if code := getattr(self.library, name)(*arguments):
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()} ({code})")

    def load(self, ptx):
        """Loads PTX: the module and its function `mix`."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ptx)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"mix")
        return module, function

    def allocate(self, size):
        """Allocates device memory, zeroed."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), ctypes.c_size_t(size))
        return address

    def launch(self, function, blocks, stream, address, trips, salt):
        """Launches the kernel."""
        values = (address, ctypes.c_uint32(trips), ctypes.c_uint32(salt))
        pointers = (ctypes.c_void_p * 3)(*(ctypes.cast(ctypes.byref(it), ctypes.c_void_p) for it in values))
        self.call("cuLaunchKernel", function, blocks, 1, 1, 128, 1, 1, 0, stream, pointers, None)

    def facts(self):
        """The driver's version, the device, and its memory."""
        version, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.call("cuDeviceGetName", name, 256, self.device)
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return {"server": "stand-in", "device": name.value.decode(errors="replace"), "driver": version.value,
                "allocated": total.value - free.value, "total": total.value}


class Kernels(Job):
    """Some launches a step over one buffer."""

    def __init__(self, driver, name, scale):
        self.driver = driver
        launches, self.blocks, trips = SHAPES.get(name.partition(":")[0], USUAL)
        self.launches = launches if scale >= 1 else max(1, launches // 2)
        self.trips = max(1, int(trips * scale))
        self.salt = int(hashlib.sha256(name.encode()).hexdigest()[:4], 16)
        self.stream, self.events, self.held = None, [], []

    def enter(self, alone=False):
        self.driver.call("cuCtxSetCurrent", self.driver.context)
        self.stream = ctypes.c_void_p()
        # A stream that does not wait for the default one.
        self.driver.call("cuStreamCreate", ctypes.byref(self.stream), 1)

    def prepare(self):
        self.size = self.blocks * 128 * 4
        self.buffer = self.hold(self.size)
        self.driver.call("cuCtxSynchronize")

    def hold(self, size):
        """Allocates memory that the job holds until it is dropped."""
        self.held.append(self.driver.allocate(size))
        return self.held[-1]

    def step(self):
        for _ in range(self.launches):
            self.driver.launch(self.driver.mix, self.blocks, self.stream, self.buffer, self.trips, self.salt)

    def mark(self):
        event = self.events.pop() if self.events else ctypes.c_void_p()
        if not event:
            self.driver.call("cuEventCreate", ctypes.byref(event), 2)
        self.driver.call("cuEventRecord", event, self.stream)
        return event

    def reach(self, mark):
        self.driver.call("cuEventSynchronize", mark)
        self.events.append(mark)

    def sync(self):
        self.driver.call("cuStreamSynchronize", self.stream)

    def digest(self):
        self.sync()
        size = ctypes.c_size_t(self.size)
        self.driver.call("cuMemsetD8Async", self.buffer, ctypes.c_ubyte(1), size, self.stream)
        for _ in range(3):
            self.step()
        self.sync()
        back = (ctypes.c_char * self.size)()
        self.driver.call("cuMemcpyDtoH_v2", back, self.buffer, size)
        return hashlib.sha256(bytes(back)).hexdigest(), None

    def drop(self):
        if self.stream:
            self.sync()
            self.driver.call("cuStreamDestroy_v2", self.stream)
        for it in self.held:
            self.driver.call("cuMemFree_v2", it)
        for it in self.events:
            self.driver.call("cuEventDestroy_v2", it)
        self.stream, self.events, self.held = None, [], []


class Loader(Kernels):
    """A module that no cache has seen, loaded, launched and unloaded at each step."""

    def step(self):
        fresh = PTX.replace(b"ret;", b"mov.u32 %%i, %d; ret;" % next(FRESH))
        module, function = self.driver.load(fresh)
        self.driver.launch(function, self.blocks, self.stream, self.buffer, self.trips, self.salt)
        self.sync()
        self.driver.call("cuModuleUnload", module)


class Freer(Kernels):
    """Memory that is allocated, used and freed at each step."""

    def step(self):
        super().step()
        pieces = [self.driver.allocate(1 << 16) for _ in range(4)]
        for it in pieces:
            self.driver.launch(self.driver.mix, 1, self.stream, it, self.trips, self.salt)
        for it in pieces:
            self.driver.call("cuMemFree_v2", it)


class Copier(Kernels):
    """A copy of pinned memory to the device and back at each step."""

    host = None

    def __init__(self, driver, name, scale):
        super().__init__(driver, name, scale)
        self.bytes = max(1 << 18, int((256 << 20) * min(scale, 1) ** 2))

    def prepare(self):
        super().prepare()
        host = ctypes.c_void_p()
        self.there = self.hold(self.bytes)
        self.driver.call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(self.bytes), 0)
        self.host = host
        ctypes.memset(self.host, 7, self.bytes)

    def step(self):
        size = ctypes.c_size_t(self.bytes)
        self.driver.call("cuMemcpyHtoDAsync_v2", self.there, self.host, size, self.stream)
        self.driver.call("cuMemcpyDtoHAsync_v2", self.host, self.there, size, self.stream)

    def digest(self):
        ctypes.memset(self.host, 9, self.bytes)
        self.step()
        self.sync()
        return hashlib.sha256(ctypes.string_at(self.host, self.bytes)).hexdigest(), None

    def drop(self):
        super().drop()
        if self.host:
            self.driver.call("cuMemFreeHost", self.host)
            self.host = None


class Weights(Kernels):
    """Equal weights of every process, copied from the host when the job is built; then kernels over them."""

    def __init__(self, driver, name, scale):
        super().__init__(driver, name, scale)
        self.bytes = max(1 << 20, int((2 << 30) * min(scale, 1) ** 2))

    def prepare(self):
        super().prepare()
        pattern = b"".join(hashlib.sha256(b"%d" % it).digest() for it in range(1 << 11))
        there = self.hold(self.bytes)
        for at in range(0, self.bytes, len(pattern)):
            part = min(len(pattern), self.bytes - at)
            address, size = ctypes.c_uint64(there.value + at), ctypes.c_size_t(part)
            self.driver.call("cuMemcpyHtoD_v2", address, pattern, size)


def main():
    """Serves until the end of stdin."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    driver = Driver()
    kinds = {"loader": Loader, "freer": Freer, "copier": Copier, "weights_2g": Weights}
    Server(lambda name: kinds.get(name, Kernels)(driver, name, options.scale), driver.facts).serve()


if __name__ == "__main__":
    main()
