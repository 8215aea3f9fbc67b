#!/usr/bin/env python3
"""A job server of JAX. `--device cpu --tiny` runs it with tiny shapes on a processor, on request."""

import argparse
import hashlib
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from protocol import Job, Server  # noqa: E402


class Jax(Job):
    """A jitted function from a state to the next one."""

    def __init__(self, build):
        self.build = build

    def prepare(self):
        self.state, self.next = self.build()

    def step(self):
        self.state = self.next(self.state)

    def sync(self):
        import jax
        jax.block_until_ready(self.state)

    def digest(self):
        import jax
        import numpy
        state, following = self.build()
        for _ in range(2):
            state = following(state)
        hashed = hashlib.sha256()
        for it in jax.tree_util.tree_leaves(state):
            hashed.update(numpy.asarray(it).tobytes())
        return hashed.hexdigest(), None

    def drop(self):
        self.state = self.next = None


def perceptron(tiny):
    """A perceptron of four layers: a step of gradient descent."""
    import jax
    import jax.numpy as jnp

    wide, batch = (32, 8) if tiny else (4096, 2048)
    keys = jax.random.split(jax.random.key(7), 5)
    x = jax.random.normal(keys[4], (batch, wide), jnp.bfloat16)
    layers = [jax.random.normal(it, (wide, wide), jnp.bfloat16) * wide ** -0.5 for it in keys[:4]]

    def loss(weights):
        y = x
        for it in weights:
            y = jax.nn.gelu(y @ it)
        return jnp.mean((y - x).astype(jnp.float32) ** 2)

    return layers, jax.jit(lambda weights: jax.tree_util.tree_map(
        lambda it, grad: it - 0.01 * grad, weights, jax.grad(loss)(weights)))


def attention(tiny):
    """Causal attention, forward and backward; a step moves the inputs along the gradient."""
    import jax
    import jax.numpy as jnp

    shape = (1, 2, 16, 8) if tiny else (4, 16, 2048, 64)
    keys = jax.random.split(jax.random.key(9), 3)
    inputs = [jax.random.normal(it, shape, jnp.bfloat16) for it in keys]
    mask = jnp.tril(jnp.ones((shape[2], shape[2]), bool))

    def total(parts):
        q, k, v = parts
        scores = jnp.where(mask, q @ k.swapaxes(-1, -2) * shape[3] ** -0.5, -1e9)
        return jnp.sum((jax.nn.softmax(scores.astype(jnp.float32)).astype(v.dtype) @ v).astype(jnp.float32))

    return inputs, jax.jit(lambda parts: jax.tree_util.tree_map(
        lambda it, grad: it - 0.01 * grad, parts, jax.grad(total)(parts)))


def main():
    """Serves until the end of stdin."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes")
    options = parser.parse_args()
    # The memory of a shared GPU is not one program's.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["JAX_PLATFORMS"] = options.device
    jobs = {"jax_perceptron": perceptron, "jax_attention": attention}

    def make(name):
        if name not in jobs:
            raise ValueError(f"there is no job {name}")
        return Jax(lambda: jobs[name](options.tiny))

    Server(make).serve()


if __name__ == "__main__":
    main()
