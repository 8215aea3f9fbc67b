"""Products of matrices and what is made of them, against NumPy and against JAX on the host."""

import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from test_operations import near, normal


HERE = pathlib.Path(__file__).parent

#: By default a device of compute capability 8.0 multiplies with 10 bits of each number (TF32).
PRECISE = {"default": 3e-2, "highest": 1e-4}


@pytest.mark.parametrize("precision", PRECISE)
@pytest.mark.parametrize("shape", [(64, 64, 64), (33, 70, 50), (1, 128, 256), (256, 128, 1)], ids=str)
def test_products(shape, precision, random):
    m, k, n = shape
    a, b = normal(random, m, k), normal(random, k, n)
    got = jax.jit(lambda a, b: jnp.matmul(a, b, precision=precision))(a, b)
    near(got, a.astype(float) @ b, PRECISE[precision])


def test_products_of_half_precision(random):
    a, b = (jnp.asarray(normal(random, 64, 64), jnp.bfloat16) for _ in range(2))
    want = np.asarray(a, float) @ np.asarray(b, float)
    near(jax.jit(lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.float32))(a, b), want, 1e-3)


def test_batches_of_products(random):
    a, b = normal(random, 3, 20, 32), normal(random, 3, 32, 24)
    got = jax.jit(lambda a, b: jnp.einsum("bij,bjk->bik", a, b, precision="highest"))(a, b)
    near(got, a.astype(float) @ b, 1e-4)


def test_convolution():
    """In a process of its own: where cuDNN refuses, XLA ends the process."""
    # JAX takes three quarters of the memory at once, of which this process has them.
    variables = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    ran = subprocess.run([sys.executable, HERE / "convolution.py"], env=variables, capture_output=True, text=True,
                         check=False)
    said = [line for line in ran.stderr.splitlines() if "Check failed" in line or "Error" in line]
    assert ran.returncode == 0, said


def test_fourier_transform(random):
    x = normal(random, 4, 64)
    np.testing.assert_allclose(jax.jit(jnp.fft.rfft)(x), np.fft.rfft(x), atol=1e-4)


def test_linear_equations(random):
    a, b = normal(random, 20, 20) + 5 * np.eye(20, dtype=np.float32), normal(random, 20, 2)
    near(jax.jit(jnp.linalg.solve)(a, b), np.linalg.solve(a, b), 1e-4)


def test_cholesky(random):
    a = normal(random, 16, 16)
    a = a @ a.T + 16 * np.eye(16, dtype=np.float32)
    near(jax.jit(jnp.linalg.cholesky)(a), np.linalg.cholesky(a), 1e-4)


def _perceptron(weights, x):
    for w, b in weights[:-1]:
        x = jax.nn.relu(x @ w + b)
    return x @ weights[-1][0] + weights[-1][1]


def _loss(weights, x, labels):
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(_perceptron(weights, x)) * jax.nn.one_hot(labels, 10), 1))


@jax.jit
def _step(weights, x, labels):
    loss, slopes = jax.value_and_grad(_loss)(weights, x, labels)
    return jax.tree.map(lambda w, slope: w - 0.1 * slope, weights, slopes), loss


def test_perceptron_learns(random, host):
    """Ten steps of training: the losses are those of JAX on the host."""
    sizes = [(64, 48), (48, 32), (32, 10)]
    weights = [(normal(random, *size) * 0.2, np.zeros(size[1], np.float32)) for size in sizes]
    x, labels = normal(random, 100, 64), random.integers(0, 10, 100)

    def losses():
        now, told = weights, []
        for _ in range(10):
            now, loss = _step(now, x, labels)
            told.append(float(loss))
        return told

    with jax.default_matmul_precision("highest"):
        here = losses()
        with jax.default_device(host):
            there = losses()
    assert here[-1] < here[0] - 0.1
    np.testing.assert_allclose(here, there, rtol=1e-4)


def _block(weights, x):
    """Attention and a perceptron, each behind a norm, as in a transformer."""
    def norm(x):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    length, width = x.shape
    query, key, value = ((norm(x) @ weights[name]).reshape(length, 4, -1) for name in ("q", "k", "v"))
    scores = jnp.einsum("qhd,khd->hqk", query, key) / (width // 4) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores), value).reshape(length, width)
    x = x + mixed @ weights["o"]
    return x + jax.nn.gelu(norm(x) @ weights["up"]) @ weights["down"]


def test_transformer_block(random, host):
    shapes = {"q": (32, 32), "k": (32, 32), "v": (32, 32), "o": (32, 32), "up": (32, 128), "down": (128, 32)}
    weights = {name: normal(random, *shape) * 0.2 for name, shape in shapes.items()}
    x = normal(random, 24, 32)
    both = jax.jit(jax.value_and_grad(lambda weights, x: jnp.mean(_block(weights, x) ** 2)))
    with jax.default_matmul_precision("highest"):
        here = both(weights, x)
        with jax.default_device(host):
            there = both(weights, x)
    np.testing.assert_allclose(here[0], there[0], rtol=1e-4)
    for name in shapes:
        np.testing.assert_allclose(here[1][name], there[1][name], rtol=1e-3, atol=1e-4)
