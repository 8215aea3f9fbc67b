"""Cases: buffers, launches, and what must be in the buffers afterwards.

A source module builds `Case`s; `write` turns each into a manifest (JSON) and a data file, which
the Rust test reads. Inputs come from a seed where they can, so that the data files stay small.
"""

import json
import numbers
import struct as packing

import numpy as np

WIDTH = {"bfloat16": 2, "bool": 1}


def width(dtype):
    """Bytes of one element."""
    return WIDTH.get(dtype) or np.dtype(dtype).itemsize


def random(seed, count):
    """`count` numbers of 64 bits: SplitMix64, whose state is a counter."""
    with np.errstate(over="ignore"):
        x = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


class Buffer:
    """Device memory with initial contents. `array` is the contents, as NumPy sees them."""

    def __init__(self, array, fill=None, dtype=None, symbol=None):
        self.shaped = np.ascontiguousarray(array)
        self.array = self.shaped.reshape(-1)
        self.dtype = dtype or self.array.dtype.name
        self.fill = fill
        self.symbol = symbol
        if symbol is None and fill is None and not self.array.any():
            self.fill = "zero"

    def at(self, offset):
        """The address `offset` bytes into the buffer, as an argument."""
        return Address(self, offset)

    def reshape(self, *shape):
        """The contents in another shape."""
        return self.array.reshape(*shape)


class Address:
    """An address inside a buffer."""

    def __init__(self, buffer, offset):
        self.buffer, self.offset = buffer, offset


class Raw:
    """Bytes of a scalar or plain structure, with their alignment."""

    def __init__(self, data, align):
        self.data, self.align = bytes(data), align


class Struct:
    """A structure whose fields may be addresses."""

    def __init__(self, *fields, align=8):
        self.fields, self.align = fields, align


def scalar(form, value):
    """A scalar argument, naturally aligned."""
    data = packing.pack("<" + form, value)
    return Raw(data, len(data))


def i32(value):
    """A 32-bit signed argument."""
    return scalar("i", int(value))


def u32(value):
    """A 32-bit unsigned argument."""
    return scalar("I", int(value))


def i64(value):
    """A 64-bit signed argument."""
    return scalar("q", int(value))


def u64(value):
    """A 64-bit unsigned argument."""
    return scalar("Q", int(value))


def f32(value):
    """A single precision argument."""
    return scalar("f", float(value))


def f64(value):
    """A double precision argument."""
    return scalar("d", float(value))


SEED = [0]


def next_seed():
    """Seeds 1, 2, 3 … within a source module."""
    SEED[0] += 1
    return SEED[0]


def count_of(shape):
    """Elements of a shape."""
    return int(np.prod(shape))


def uniform(shape, low=-1.0, high=1.0, dtype="float32"):
    """Floats from `low` to before `high`; `float16` and `bfloat16` are written as data."""
    seed, count = next_seed(), count_of(shape)
    unit = (random(seed, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    values = (low + (high - low) * unit).reshape(shape)
    if dtype == "bfloat16":
        return Buffer(to_bf16(values), dtype=dtype)
    if dtype == "float16":
        return Buffer(values.astype(np.float16))
    fill = {"uniform": {"seed": seed, "low": float(low), "high": float(high)}}
    return Buffer(values.astype(dtype), fill)


def integers(shape, low=0, high=0, dtype="int32"):
    """Integers from `low` to before `high`; of the whole range if both are equal."""
    seed, count = next_seed(), count_of(shape)
    numbers64 = random(seed, count)
    span = high - low
    with np.errstate(over="ignore"):
        if span:
            numbers64 = numbers64 % np.uint64(span)
        numbers64 = numbers64 + np.uint64(low % 2**64)
    values = numbers64.astype(dtype).reshape(shape)
    return Buffer(values, {"integers": {"seed": seed, "low": low, "high": high}})


def data(array, dtype=None):
    """A buffer with these contents, kept in the data file."""
    array = np.asarray(array)
    return Buffer(array.astype(dtype) if dtype and dtype not in WIDTH else array, dtype=dtype)


def zeros(shape, dtype="float32"):
    """A buffer of zeros."""
    base = np.uint16 if dtype == "bfloat16" else dtype
    return Buffer(np.zeros(shape, base), "zero", dtype)


def symbol(name, array):
    """A module variable that the host fills before the first launch."""
    return Buffer(np.asarray(array), symbol=name)


def to_bf16(values):
    """The bits of the nearest bfloat16, ties to even."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    """Single precision values of bfloat16 bits."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


class Want:
    """What a buffer must contain, from element `first` on."""

    def __init__(self, array, relative=0.0, absolute=0.0, first=0, unordered=False):
        self.array, self.relative, self.absolute = np.asarray(array), relative, absolute
        self.first, self.unordered = first, unordered


def close(array, relative=1e-5, absolute=None, first=0):
    """An inexact expectation; the absolute error allowed is the relative one by default."""
    return Want(array, relative, relative if absolute is None else absolute, first)


def unordered(array, first=0):
    """An exact expectation whose elements may come in any order."""
    return Want(array, first=first, unordered=True)


class Launch:
    """One kernel."""

    def __init__(self, ptx, entry, grid, block, args, shared=0):
        self.ptx, self.entry, self.args, self.shared = ptx, entry, list(args), shared
        self.grid, self.block = three(grid), three(block)


def three(size):
    """Dimensions as a list of three."""
    size = [size] if isinstance(size, numbers.Integral) else list(size)
    return [int(x) for x in size] + [1] * (3 - len(size))


class Case:
    """A named case. `want` maps buffers to arrays (exact) or `Want`s."""

    def __init__(self, name, launches, want):
        self.name, self.launches = name, launches
        self.want = [(b, w if isinstance(w, Want) else Want(w)) for b, w in want.items()]
        self.buffers = []

    def index(self, buffer):
        """The number of a buffer in the manifest."""
        for number, known in enumerate(self.buffers):
            if known is buffer:
                return number
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def argument(self, arg):
        """The manifest's form of an argument."""
        if isinstance(arg, Buffer):
            return {"buffer": [self.index(arg), 0]}
        if isinstance(arg, Address):
            return {"buffer": [self.index(arg.buffer), arg.offset]}
        if isinstance(arg, Raw):
            return {"bytes": [arg.data.hex(), arg.align]}
        if isinstance(arg, Struct):
            return {"struct": [arg.align, [self.argument(field) for field in arg.fields]]}
        raise TypeError(f"{self.name}: {arg!r} is no argument")

    def check(self, buffer, want, blob):
        """The manifest's form of a comparison; the expected elements go to the data file."""
        array = want.array.reshape(-1)
        if buffer.dtype == "bfloat16":
            array = array if array.dtype == np.uint16 else to_bf16(array)
        else:
            array = array.astype(buffer.dtype)
        size = width(buffer.dtype)
        if want.first + array.size > buffer.array.size:
            raise ValueError(f"{self.name}: more is wanted than the buffer holds")
        start = place(blob, array.tobytes())
        return {"buffer": self.index(buffer), "from": want.first * size, "dtype": buffer.dtype,
                "count": int(array.size), "data": start, "relative": want.relative,
                "absolute": want.absolute, "unordered": want.unordered}

    def write(self):
        """The manifest's text and the data file's bytes."""
        blob = bytearray()
        for buffer, _ in self.want:
            if buffer.symbol:
                self.index(buffer)
        launches = []
        for launch in self.launches:
            args = [self.argument(a) for a in launch.args
                    if not (isinstance(a, Buffer) and a.symbol and self.index(a) is not None)]
            launches.append({"ptx": launch.ptx, "entry": launch.entry, "grid": launch.grid,
                             "block": launch.block, "shared": launch.shared, "args": args})
        checks = [self.check(buffer, want, blob) for buffer, want in self.want]
        buffers = []
        for buffer in self.buffers:
            fill = buffer.fill or {"data": place(blob, buffer.array.tobytes())}
            entry = {"dtype": buffer.dtype, "count": int(buffer.array.size), "fill": fill}
            if buffer.symbol:
                entry["symbol"] = buffer.symbol
            buffers.append(entry)
        manifest = {"buffers": buffers, "launches": launches, "checks": checks}
        return layout(manifest), bytes(blob)


def place(blob, contents):
    """Appends to the data file; returns where."""
    start = len(blob)
    blob += contents
    return start


def layout(manifest):
    """JSON, an element of each list a line."""
    parts = []
    for key, elements in manifest.items():
        lines = ",\n".join("    " + json.dumps(element) for element in elements)
        parts.append(f'  "{key}": [\n{lines}\n  ]')
    return "{\n" + ",\n".join(parts) + "\n}\n"
