"""The types of Triton's language, and what NumPy makes of them."""

import numpy as np


class Kind:
    """A type: how its values lie in memory, and which numbers they are in NumPy.

    Triton takes it for the type of an argument: it asks for its name, its size, and whether it is a
    floating-point type.
    """

    def __init__(self, name, stored, values=None, small=None):
        self.name = name
        #: How NumPy holds it as it lies in memory, and how it calculates with it.
        self.stored, self.values = np.dtype(stored), np.dtype(values or stored)
        #: Of a floating-point type that NumPy lacks its encoding.
        self.small = small

    def __str__(self):
        return self.name

    __repr__ = __str__

    @property
    def itemsize(self):
        return self.stored.itemsize

    @property
    def is_floating_point(self):
        return self.values.kind == "f"

    @property
    def integer(self):
        return self.values.kind in "iu"

    @property
    def signed(self):
        return self.values.kind in "if"

    @property
    def bits(self):
        return self.itemsize * 8

    def pack(self, values):
        """Values as they lie in memory; of those it has no encoding for, the nearest, ties to even."""
        values = np.asarray(values)
        if self.small is None:
            return np.ascontiguousarray(values).astype(self.stored)
        return self.small.encode(values.astype(np.float64)).astype(self.stored)

    def unpack(self, stored):
        """What lies in memory as values."""
        stored = np.asarray(stored)
        return stored if self.small is None else self.small.decode(stored).astype(self.values)

    def round(self, values):
        """The values of this type nearest to those."""
        return self.unpack(self.pack(values))


class Small:
    """A floating-point type of at most 16 bits: sign, exponent, mantissa."""

    def __init__(self, exponent, mantissa, bias, infinite=True):
        codes = np.arange(1 << (exponent + mantissa), dtype=np.int64)
        power, part = codes >> mantissa, codes & ((1 << mantissa) - 1)
        scale = 2.0 ** (np.maximum(power, 1) - bias - mantissa).astype(np.float64)
        whole = np.where(power > 0, part + (1 << mantissa), part)
        #: The values of the codes without a sign; above `last` are infinity and NaN.
        self.table = whole * scale
        self.infinite, self.sign = infinite, 1 << (exponent + mantissa)
        self.last = len(codes) - 1
        if infinite:
            top = power == (1 << exponent) - 1
            self.table[top] = np.where(part[top] == 0, np.inf, np.nan)
            self.last = int(np.argmax(top)) - 1

    def decode(self, codes):
        codes = codes.astype(np.int64)
        values = self.table[codes & (self.sign - 1)]
        return np.where(codes & self.sign, -values, values)

    def encode(self, values):
        size = np.abs(values)
        finite = self.table[:self.last + 1]
        low = np.clip(np.searchsorted(finite, size, side="right") - 1, 0, self.last)
        above = np.append(finite[1:], 2 * finite[-1] - finite[-2])[low]
        middle = (finite[low] + above) / 2
        up = (size > middle) | ((size == middle) & (low % 2 == 1))
        # What the largest value's successor would be is infinity, or stays the largest.
        codes = np.where(up, np.minimum(low + 1, self.last + self.infinite), low)
        if self.infinite:
            codes = np.where(np.isinf(size), self.last + 1, codes)
            codes = np.where(np.isnan(size), self.last + 2, codes)
        return np.where(np.signbit(values), codes | self.sign, codes)


INT1 = Kind("int1", "bool")
SIGNED = [Kind(f"int{bits}", f"int{bits}") for bits in (8, 16, 32, 64)]
UNSIGNED = [Kind(f"uint{bits}", f"uint{bits}") for bits in (8, 16, 32, 64)]
INTEGERS = [*SIGNED, *UNSIGNED]
FP16, FP32, FP64 = (Kind(f"float{bits}", f"float{bits}") for bits in (16, 32, 64))
BF16 = Kind("bfloat16", "uint16", "float32", Small(8, 7, 127))
FLOATS = [FP16, BF16, FP32, FP64]
#: Of the types of 8 bits those that a device of compute capability 8.0 has.
FP8E5 = Kind("float8e5", "uint8", "float32", Small(5, 2, 15))
FP8E4B15 = Kind("float8e4b15", "uint8", "float32", Small(4, 3, 15, infinite=False))
FP8 = [FP8E5, FP8E4B15]
NUMBERS = [*INTEGERS, *FLOATS]
ALL = [INT1, *NUMBERS, *FP8]
BY_NAME = {kind.name: kind for kind in ALL}
INT8, INT16, INT32, INT64 = SIGNED
UINT8, UINT16, UINT32, UINT64 = UNSIGNED


def named(kinds):
    """Arguments for `pytest.mark.parametrize`, by name."""
    return {"argvalues": kinds, "ids": [str(kind) for kind in kinds]}
