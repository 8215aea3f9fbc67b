"""Fatbins as compilers leave them in programs: PTX and machine code in one container."""

import struct

PTX, ELF = 1, 2


def entry(kind, architecture, body):
    """One program of a container, not compressed."""
    padding = -len(body) % 8
    head = bytearray(64)
    struct.pack_into("<HHIQ", head, 0, kind, 0x101, len(head), len(body) + padding)
    struct.pack_into("<I", head, 28, architecture)
    struct.pack_into("<Q", head, 40, 0x11)
    return bytes(head) + body + bytes(padding)


def container(*entries):
    """A container of these programs."""
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def of_ptx(text, architecture=50):
    """A container of one PTX text."""
    return container(entry(PTX, architecture, text.encode() + b"\0"))
