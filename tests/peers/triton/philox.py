"""Philox 4x32 and 4x64 in NumPy, after the paper (Salmon and others, SC 2011)."""

import numpy as np

#: Of each word size the multipliers and what the key grows by.
CONSTANTS = {32: ((0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)),
             64: ((0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B))}


def philox(counter, key, bits=32, rounds=10):
    """Four words of each counter (arrays of four words) under a key of two."""
    mask = (1 << bits) - 1
    (m0, m1), (w0, w1) = CONSTANTS[bits]
    words = [np.asarray(word).astype(object) & mask for word in counter]
    k0, k1 = (int(word) & mask for word in key)
    for _ in range(rounds):
        first, second = words[0] * m0, words[2] * m1
        words = [(second >> bits) ^ words[1] ^ k0, second & mask, (first >> bits) ^ words[3] ^ k1, first & mask]
        k0, k1 = (k0 + w0) & mask, (k1 + w1) & mask
    return [word.astype(f"uint{bits}") for word in words]
