#!/usr/bin/env python3
"""A job server of JAX: `jax_perceptron` and `jax_attention`. `protocol.py` says what it does.

`--device cpu --tiny` runs it with tiny shapes on a processor: a test of the script.
"""

import argparse
import hashlib
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from protocol import Job, Refused, Server  # noqa: E402


class Jax(Job):
    """A jitted function from a state to the next one. JAX has no streams to choose."""

    state = next = None

    def __init__(self, build):
        self.build = build

    def prepare(self):
        self.state, self.next = self.build()
        self.first = self.state

    def step(self):
        self.state = self.next(self.state)

    def mark(self):
        return self.state

    def reach(self, mark):
        import jax
        jax.block_until_ready(mark)

    def sync(self):
        self.reach(self.state)

    def digest(self):
        import jax
        import numpy
        told = []
        for _ in range(2):
            state = self.first
            for _ in range(2):
                state = self.next(state)
            hashed = hashlib.sha256()
            for it in jax.tree_util.tree_leaves(state):
                hashed.update(numpy.asarray(it).tobytes())
            told.append(hashed.hexdigest())
        if told[0] != told[1]:
            return None, "unsteady: two runs of this process from one state gave other bits"
        return told[0], None

    def drop(self):
        self.state = self.first = self.next = None


def perceptron(tiny):
    """A perceptron of four layers: a step of gradient descent."""
    import jax
    import jax.numpy as jnp

    wide, batch = (32, 8) if tiny else (4096, 2048)
    keys = jax.random.split(jax.random.key(7), 5)
    x = jax.random.normal(keys[4], (batch, wide), jnp.bfloat16)
    scale = jnp.bfloat16(wide ** -0.5)
    layers = [jax.random.normal(it, (wide, wide), jnp.bfloat16) * scale for it in keys[:4]]

    # The inputs are an argument: as a constant the compiler would fold them.
    def loss(weights, x):
        y = x
        for it in weights:
            y = jax.nn.gelu(y @ it)
        return jnp.mean((y - x).astype(jnp.float32) ** 2)

    following = jax.jit(lambda weights, x: jax.tree_util.tree_map(
        lambda it, grad: (it - 0.01 * grad).astype(it.dtype), weights, jax.grad(loss)(weights, x)))
    return layers, lambda weights: following(weights, x)


def attention(tiny):
    """Causal attention, forward and backward; a step moves the inputs along the gradient."""
    import jax
    import jax.numpy as jnp

    shape = (1, 2, 16, 8) if tiny else (4, 16, 2048, 64)
    keys = jax.random.split(jax.random.key(9), 3)
    inputs = [jax.random.normal(it, shape, jnp.bfloat16) for it in keys]
    mask = jnp.tril(jnp.ones((shape[2], shape[2]), bool))

    def total(parts, mask):
        q, k, v = parts
        scores = (q @ k.swapaxes(-1, -2)).astype(jnp.float32) * shape[3] ** -0.5
        shares = jax.nn.softmax(jnp.where(mask, scores, -1e9)).astype(v.dtype)
        return jnp.sum((shares @ v).astype(jnp.float32) ** 2)

    following = jax.jit(lambda parts, mask: jax.tree_util.tree_map(
        lambda it, grad: (it - 0.01 * grad).astype(it.dtype), parts, jax.grad(total)(parts, mask)))
    return inputs, lambda parts: following(parts, mask)


def facts():
    """Versions, and the device as JAX sees it."""
    import jax
    import jaxlib

    device = jax.devices()[0]
    used = device.memory_stats() or {}
    return {"server": "jax", "jax": jax.__version__, "jaxlib": jaxlib.__version__,
            "device": device.device_kind, "platform": device.platform, "allocated": used.get("bytes_in_use")}


def main():
    """Serves until the end of stdin."""
    whole = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=whole)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes")
    parser.add_argument("--list", action="store_true", help="prints the jobs, a JSON line each")
    options = parser.parse_args()
    if options.list:
        for it in json.loads((pathlib.Path(__file__).resolve().parent / "jobs.json").read_text()):
            if it["server"] == "jax":
                print(json.dumps(it))
        return
    # The memory of a shared GPU is not one program's.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["JAX_PLATFORMS"] = options.device
    # Autotuning picks algorithms by their time: two processes would differ in bits, whatever runs them.
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_autotune_level=0".strip()
    jobs = {"jax_perceptron": perceptron, "jax_attention": attention}

    def make(name):
        if name not in jobs:
            raise Refused(f"there is no job {name}")
        return Jax(lambda: jobs[name](options.tiny))

    Server(make, facts).serve()


if __name__ == "__main__":
    main()
