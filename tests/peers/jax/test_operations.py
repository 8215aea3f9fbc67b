"""Operations, compiled and one by one, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

#: What one rounding may differ by, by type, with a few of them in a row.
NEAR = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-6}


def normal(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


def near(got, want, tolerance=2e-6):
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=tolerance, atol=tolerance)


def test_devices():
    device, = jax.devices()
    assert (device.platform, device.id) == ("gpu", 0)
    assert jax.default_backend() == "gpu"
    assert device.memory_stats()["bytes_limit"] > 1 << 30


def test_there_and_back(random):
    for kind in "?bBhHiIefF":
        x = random.integers(0, 100, (30, 17)).astype(kind)
        there = jax.device_put(x)
        assert there.device.platform == "gpu"
        np.testing.assert_array_equal(jax.device_get(there), x)


def test_one_by_one(random):
    """Without jit: each operation is a program of its own."""
    x, y = normal(random, 40, 30), normal(random, 30)
    got = (jnp.asarray(x) + y) * 2 - jnp.maximum(x, 0)
    near(got[3:, ::2], ((x + y) * 2 - np.maximum(x, 0))[3:, ::2])


@pytest.mark.parametrize("kind", NEAR)
def test_elementwise(kind, random):
    x, y = normal(random, 33, 65), normal(random, 65)
    x, y = jnp.asarray(x, kind), jnp.asarray(y, kind)
    a, b = np.asarray(x, float), np.asarray(y, float)
    got = jax.jit(lambda x, y: jnp.tanh(x * y + 1) - jnp.exp(-x * x) / (2 + jnp.cos(y)))(x, y)
    near(got, np.tanh(a * b + 1) - np.exp(-a * a) / (2 + np.cos(b)), NEAR[kind])


def test_functions(random):
    x = normal(random, 900) * 3
    names = "sin cos tan arctan sinh cosh exp expm1 floor sign rint square cbrt".split()
    got = jax.jit(lambda x: [getattr(jnp, name)(x) for name in names])(x)
    for name, it in zip(names, got):
        near(it, getattr(np, name)(x.astype(float)), 1e-5)
    got = jax.jit(lambda x: [jnp.log(x), jnp.sqrt(x), jnp.log1p(x), x ** 1.7, jax.lax.rsqrt(x)])(abs(x) + 0.1)
    x = abs(x).astype(np.float32) + np.float32(0.1)
    for it, want in zip(got, [np.log(x), np.sqrt(x), np.log1p(x), x ** 1.7, 1 / np.sqrt(x)]):
        near(it, want, 1e-5)


def test_integers(random):
    x, y = random.integers(-1000, 1000, 700).astype(np.int32), random.integers(1, 30, 700).astype(np.int32)
    got = jax.jit(lambda x, y: [x // y, x % y, (x & 255) ^ (y << 3), x >> 2, abs(x), x * y, x > y])(x, y)
    want = [x // y, x % y, (x & 255) ^ (y << 3), x >> 2, abs(x), x * y, x > y]
    for it, wanted in zip(got, want):
        np.testing.assert_array_equal(it, wanted)


def test_64_bits(random):
    with jax.enable_x64(True):
        x = random.standard_normal(500)
        near(jax.jit(lambda x: jnp.sin(x) * jnp.exp(x) + jnp.sum(x))(x), np.sin(x) * np.exp(x) + x.sum(), 1e-13)
        whole = random.integers(-1 << 60, 1 << 60, 500)
        np.testing.assert_array_equal(jax.jit(lambda x: (x ^ (x << 3)) // 7)(whole), (whole ^ (whole << 3)) // 7)


def test_complex(random):
    x = normal(random, 200) + 1j * normal(random, 200)
    got = jax.jit(lambda x: x * jnp.exp(x) / (jnp.abs(x) + 1))(x.astype(np.complex64))
    np.testing.assert_allclose(got, x * np.exp(x) / (abs(x) + 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_reductions(axis, random):
    x = normal(random, 130, 300)
    got = jax.jit(lambda x: [f(x, axis) for f in (jnp.sum, jnp.mean, jnp.max, jnp.min, jnp.var, jnp.argmax)])(x)
    for it, f in zip(got, (np.sum, np.mean, np.max, np.min, np.var, np.argmax)):
        np.testing.assert_allclose(it, f(x.astype(float), axis), rtol=1e-5, atol=2e-4)


def test_long_sum(random):
    x = normal(random, 500_000)
    np.testing.assert_allclose(jax.jit(lambda x: jnp.sum(x * x))(x), (x.astype(float) ** 2).sum(), rtol=1e-5)


def test_softmax(random):
    x = normal(random, 40, 700) * 4
    want = np.exp(x - x.max(1, keepdims=True))
    near(jax.jit(jax.nn.softmax)(x), want / want.sum(1, keepdims=True))
    want = x.max(1) + np.log(want.sum(1))
    near(jax.jit(lambda x: jax.nn.logsumexp(x, 1))(x), want, 1e-5)


def test_running_sums(random):
    x = normal(random, 20, 300)
    near(jax.jit(lambda x: jnp.cumsum(x, 1))(x), np.cumsum(x.astype(float), 1), 2e-5)
    near(jax.jit(lambda x: jax.lax.associative_scan(jnp.maximum, x, axis=0))(x), np.maximum.accumulate(x, 0))


def test_sort(random):
    x, keys = normal(random, 9, 200), random.permutation(3000).astype(np.int32)
    np.testing.assert_array_equal(jax.jit(lambda x: jnp.sort(x, 1))(x), np.sort(x, 1))
    np.testing.assert_array_equal(jax.jit(jnp.argsort)(keys), np.argsort(keys))
    values, at = jax.jit(lambda x: jax.lax.top_k(x, 5))(x)
    np.testing.assert_array_equal(values, -np.sort(-x, 1)[:, :5])
    np.testing.assert_array_equal(np.take_along_axis(x, np.asarray(at), 1), values)


def test_gather_and_scatter(random):
    x, at = normal(random, 50, 8), random.integers(0, 50, 200)
    np.testing.assert_array_equal(jax.jit(lambda x, at: x[at])(x, at), x[at])
    want = np.zeros((50, 8))
    np.add.at(want, at, x[at])
    near(jax.jit(lambda x, at: jnp.zeros((50, 8)).at[at].add(x[at]))(x, at), want, 1e-5)
    near(jax.jit(lambda x: jax.lax.dynamic_update_slice(x, x[:3, :2] * 2, (7, 4)))(x)[7:10, 4:6], x[:3, :2] * 2)
    near(jax.jit(lambda x, at: jax.ops.segment_sum(x[at], at, 50))(x, at), want, 1e-5)


def test_shapes(random):
    x, y = normal(random, 4, 6, 10), normal(random, 4, 7)
    got = jax.jit(lambda x, y: jnp.roll(jnp.concatenate([x.transpose(0, 2, 1).reshape(4, -1), y[:, ::-1]], 1), 3, 1))
    np.testing.assert_array_equal(
        got(x, y), np.roll(np.concatenate([x.transpose(0, 2, 1).reshape(4, -1), y[:, ::-1]], 1), 3, 1))
    np.testing.assert_array_equal(jax.jit(lambda x: jnp.pad(x, ((0, 1), (2, 0), (1, 1))))(x),
                                  np.pad(x, ((0, 1), (2, 0), (1, 1))))
    np.testing.assert_array_equal(jax.jit(lambda x: jnp.where(x > 0, x, 0).T)(x), np.where(x > 0, x, 0).T)


def test_loops():
    got = jax.jit(lambda n: jax.lax.while_loop(lambda it: it[0] < n, lambda it: (it[0] + 1, it[1] * 2 % 1009), (0, 1)))
    assert int(got(100)[1]) == pow(2, 100, 1009)
    got = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda i, it: it * 0.5 + i, x))(jnp.ones(4))
    want = np.ones(4)
    for i in range(20):
        want = want * 0.5 + i
    near(got, want)


def test_scan_and_cond(random):
    x = normal(random, 50, 3)
    step = lambda carry, it: (carry * 0.9 + it, carry.sum())  # noqa: E731
    last, sums = jax.jit(lambda x: jax.lax.scan(step, jnp.zeros(3), x))(x)
    carry, want = np.zeros(3), []
    for it in x:
        want.append(carry.sum())
        carry = carry * 0.9 + it
    near(last, carry, 1e-5)
    near(sums, want, 1e-5)
    choose = jax.jit(lambda b, x: jax.lax.cond(b, lambda x: x * 2, lambda x: x - 1, x))
    near(choose(True, x), x * 2)
    near(choose(False, x), x - 1)


def test_random_numbers_are_those_of_the_host(host):
    def draw():
        key = jax.random.key(5)
        a, b, c = jax.random.split(key, 3)
        return (jax.random.bits(a, (50,)), jax.random.uniform(a, (300,)), jax.random.normal(b, (300,)),
                jax.random.randint(c, (100,), 0, 1000), jax.random.permutation(c, 64))

    here = jax.jit(draw)()
    with jax.default_device(host):
        there = jax.jit(draw)()
    for a, b in zip(here, there):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)


def test_vmap_and_gradients(random):
    x, w = normal(random, 60, 5), normal(random, 5)
    f = lambda w, x: jnp.sin(x @ w) ** 2  # noqa: E731
    near(jax.jit(jax.vmap(f, (None, 0)))(w, x), np.sin(x @ w) ** 2, 1e-5)
    got = jax.jit(jax.vmap(jax.grad(f), (None, 0)))(w, x)
    near(got, (2 * np.sin(x @ w) * np.cos(x @ w))[:, None] * x, 1e-5)
    hessian = jax.jit(jax.hessian(lambda w: jnp.sum(w ** 4)))(w)
    near(hessian, np.diag(12 * w.astype(float) ** 2), 1e-5)


def test_asynchronous_dispatch():
    x = jnp.ones((100, 100))
    step = jax.jit(lambda x: x * 1.001 + 0.001)
    for _ in range(50):
        x = step(x)
    x.block_until_ready()
    want = 1.0
    for _ in range(50):
        want = want * 1.001 + 0.001
    near(x, np.full((100, 100), want), 1e-5)


def test_given_away_and_freed():
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.zeros(10_000)
    for _ in range(5):
        before, x = x, step(x)
        assert before.is_deleted()
    assert (np.asarray(x) == 5).all()


def test_one_device_as_many(random):
    x = normal(random, 1, 50)
    near(jax.pmap(lambda x: x - jax.lax.pmean(x, "i") + 1, axis_name="i")(x), np.ones((1, 50)))
