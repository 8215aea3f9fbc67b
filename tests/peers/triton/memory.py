"""Memory of the device for kernels' arguments: through the driver alone, or as PyTorch's tensors.

Triton takes for a pointer whatever has `data_ptr()` and `dtype`. Its own driver needs PyTorch only
where PyTorch has been imported, so that a program without it brings its arrays and nothing else.
"""

import ctypes

import numpy as np

from kinds import Kind


class DriverArrays:
    """Makes arrays through the driver API."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name, *arguments):
        error = getattr(self.cuda, name)(*arguments)
        if error:
            said = ctypes.c_char_p()
            self.cuda.cuGetErrorName(error, ctypes.byref(said))
            raise RuntimeError(f"{name}: {(said.value or b'?').decode()}")

    def empty(self, count, kind):
        """Memory for so many elements, which hold what happens to be there."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(count, 1) * kind.itemsize))
        return DriverArray(self, address.value, count, kind)

    def write(self, address, values):
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), values.ctypes.data_as(ctypes.c_void_p),
                   ctypes.c_size_t(values.nbytes))

    def read(self, address, values):
        self._call("cuMemcpyDtoH_v2", values.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(address),
                   ctypes.c_size_t(values.nbytes))

    def free(self, address):
        # At the end of the process the driver may be gone before the last array.
        self.cuda.cuMemFree_v2(ctypes.c_uint64(address))

    def synchronize(self):
        self._call("cuCtxSynchronize")


class DriverArray:
    """Memory of the device with a type: what Triton takes for a pointer."""

    def __init__(self, arrays, address, count, kind):
        self.arrays, self.address, self.count, self.dtype = arrays, address, count, kind

    def data_ptr(self):
        return self.address

    def element_size(self):
        return self.dtype.itemsize

    def bits(self):
        """What lies there, uninterpreted."""
        stored = np.empty(self.count, self.dtype.stored)
        self.arrays.read(self.address, stored)
        return stored

    def fill(self, stored):
        self.arrays.write(self.address, stored)

    def __del__(self):
        self.arrays.free(self.address)


class TorchArrays:
    """Makes arrays as PyTorch's tensors; only memory and copies are PyTorch's."""

    def __init__(self):
        # Before Triton makes its driver, which asks PyTorch for the device and the stream from now on.
        import torch
        self.torch = torch
        torch.cuda.init()

    def empty(self, count, kind):
        return TorchArray(self.torch, count, kind)

    def synchronize(self):
        self.torch.cuda.synchronize()


class TorchArray:
    """A tensor of bytes, which Triton is told the type of."""

    def __init__(self, torch, count, kind):
        self.torch, self.count, self.dtype = torch, count, kind
        self.bytes = torch.empty(max(count, 1) * kind.itemsize, dtype=torch.uint8, device="cuda")
        # Where PyTorch has the type, Triton is given a tensor of it.
        own = getattr(torch, {"int1": "bool", "float8e5": "float8_e5m2"}.get(kind.name, kind.name), None)
        self.tensor = self.bytes.view(own) if isinstance(own, torch.dtype) else None

    def data_ptr(self):
        return self.bytes.data_ptr()

    def element_size(self):
        return self.dtype.itemsize

    def bits(self):
        stored = self.bytes.cpu().numpy().view(self.dtype.stored)
        return stored[:self.count]

    def fill(self, stored):
        self.bytes.copy_(self.torch.from_numpy(stored.view(np.uint8).copy()))


class Memory:
    """What the tests make their arrays with."""

    def __init__(self, arrays):
        self.arrays = arrays

    def put(self, kind, values):
        """An array with these values."""
        return self.put_bits(kind, kind.pack(np.asarray(values).reshape(-1)))

    def put_bits(self, kind, stored):
        array = self.arrays.empty(stored.size, kind)
        if stored.size:
            array.fill(np.ascontiguousarray(stored.reshape(-1), kind.stored))
        return array

    def room(self, kind, count):
        """An array for results, filled with bytes that no result consists of."""
        stored = np.full(count * kind.itemsize, 0xA5, np.uint8).view(kind.stored)
        return self.put_bits(kind, stored)

    @staticmethod
    def get(array, shape=None):
        """An array's values."""
        values = array.dtype.unpack(array.bits())
        return values if shape is None else values.reshape(shape)

    @staticmethod
    def argument(array):
        """What a kernel is given for an array."""
        return getattr(array, "tensor", None) if getattr(array, "tensor", None) is not None else array

    def launch(self, kernel, grid, *arguments, **options):
        """Runs a kernel over a grid; arrays stand for themselves, also in tuples."""
        def given(it):
            if isinstance(it, tuple):
                # A tuple with names keeps them.
                return type(it)(*map(given, it)) if hasattr(it, "_fields") else tuple(map(given, it))
            return self.argument(it) if isinstance(getattr(it, "dtype", None), Kind) else it
        return kernel[grid](*map(given, arguments), **options)
