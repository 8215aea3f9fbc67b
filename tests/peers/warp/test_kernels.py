"""Kernels: one element at a time, in every type that Warp has, and what threads do together."""

import numpy as np
import pytest
import warp as wp
import warp.optim

FLOATS = [wp.float16, wp.float32, wp.float64]
WHOLE = [wp.int8, wp.uint8, wp.int16, wp.uint16, wp.int32, wp.uint32, wp.int64, wp.uint64]
#: What one rounding of a sum may differ by, by type.
NEAR = {wp.float16: 2e-3, wp.float32: 1e-6, wp.float64: 1e-14}


def _numpy(kind):
    return np.dtype(wp.dtype_to_numpy(kind))


def _polynomial(kind):
    @wp.kernel(module="unique")
    def polynomial(x: wp.array(dtype=kind), y: wp.array(dtype=kind), out: wp.array(dtype=kind)):
        i = wp.tid()
        out[i] = x[i] * y[i] + x[i] - y[i]

    return polynomial


@pytest.mark.parametrize("kind", FLOATS + WHOLE, ids=lambda it: it.__name__)
def test_arithmetic(kind, random):
    """A polynomial in every type; integers wrap around as NumPy's do."""
    if kind in FLOATS:
        x, y = (random.uniform(-2, 2, 1000).astype(_numpy(kind)) for _ in range(2))
    else:
        limits = np.iinfo(_numpy(kind))
        x, y = (random.integers(limits.min, limits.max, 1000, _numpy(kind), endpoint=True) for _ in range(2))
    out = wp.zeros(1000, dtype=kind)
    wp.launch(_polynomial(kind), 1000, [wp.array(x, dtype=kind), wp.array(y, dtype=kind), out])
    if kind in FLOATS:
        want = x.astype(float) * y + x - y
        np.testing.assert_allclose(out.numpy(), want, rtol=0, atol=8 * NEAR[kind])
    else:
        np.testing.assert_array_equal(out.numpy(), x * y + x - y)


@wp.kernel
def _functions(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    a = x[i]
    out[0, i] = wp.sin(a)
    out[1, i] = wp.cos(a)
    out[2, i] = wp.exp(a)
    out[3, i] = wp.log(wp.abs(a) + 1.0)
    out[4, i] = wp.sqrt(wp.abs(a))
    out[5, i] = wp.tanh(a)
    out[6, i] = wp.atan2(a, 2.0)
    out[7, i] = wp.pow(wp.abs(a), 1.5)
    out[8, i] = wp.floor(a)
    out[9, i] = wp.min(a, 0.5)


def test_functions(random):
    x = random.uniform(-4, 4, 777).astype(np.float32)
    out = wp.zeros((10, 777), dtype=float)
    wp.launch(_functions, 777, [wp.array(x), out])
    x = x.astype(float)
    want = [np.sin(x), np.cos(x), np.exp(x), np.log(abs(x) + 1), np.sqrt(abs(x)), np.tanh(x),
            np.arctan2(x, 2), abs(x) ** 1.5, np.floor(x), np.minimum(x, 0.5)]
    np.testing.assert_allclose(out.numpy(), want, rtol=2e-6, atol=2e-6)


@wp.kernel
def _vectors(a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), crossed: wp.array(dtype=wp.vec3),
             dots: wp.array(dtype=float)):
    i = wp.tid()
    crossed[i] = wp.cross(a[i], b[i]) + 2.0 * wp.normalize(a[i])
    dots[i] = wp.dot(a[i], b[i])


def test_vectors(random):
    a, b = (random.standard_normal((300, 3)).astype(np.float32) for _ in range(2))
    crossed, dots = wp.zeros(300, dtype=wp.vec3), wp.zeros(300, dtype=float)
    wp.launch(_vectors, 300, [wp.array(a, dtype=wp.vec3), wp.array(b, dtype=wp.vec3), crossed, dots])
    want = np.cross(a, b) + 2 * a / np.linalg.norm(a, axis=1, keepdims=True)
    np.testing.assert_allclose(crossed.numpy(), want, atol=2e-6)
    np.testing.assert_allclose(dots.numpy(), (a * b).sum(1), atol=2e-6)


@wp.kernel
def _matrices(m: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.mat33), values: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.inverse(m[i]) * wp.transpose(m[i])
    values[i] = wp.determinant(m[i]) + wp.trace(m[i])


def test_matrices(random):
    m = (random.standard_normal((200, 3, 3)) + 4 * np.eye(3)).astype(np.float32)
    out, values = wp.zeros(200, dtype=wp.mat33), wp.zeros(200, dtype=float)
    wp.launch(_matrices, 200, [wp.array(m, dtype=wp.mat33), out, values])
    want = np.linalg.inv(m.astype(float)) @ m.transpose(0, 2, 1)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(values.numpy(), np.linalg.det(m) + np.trace(m, axis1=1, axis2=2), rtol=1e-4)


@wp.kernel
def _decompose(m: wp.array(dtype=wp.mat33), back: wp.array(dtype=wp.mat33), sizes: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    u, s, v = wp.svd3(m[i])
    back[i] = u * wp.diag(s) * wp.transpose(v)
    sizes[i] = s


def test_singular_values(random):
    m = random.standard_normal((100, 3, 3)).astype(np.float32)
    back, sizes = wp.zeros(100, dtype=wp.mat33), wp.zeros(100, dtype=wp.vec3)
    wp.launch(_decompose, 100, [wp.array(m, dtype=wp.mat33), back, sizes])
    np.testing.assert_allclose(back.numpy(), m, atol=1e-4)
    np.testing.assert_allclose(np.sort(abs(sizes.numpy())), np.sort(np.linalg.svd(m)[1]), atol=1e-3)


@wp.kernel
def _turn(axis: wp.vec3, angles: wp.array(dtype=float), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = wp.quat_rotate(wp.quat_from_axis_angle(axis, angles[i]), wp.vec3(1.0, 2.0, 3.0))


def test_quaternions(random):
    angles = random.uniform(-3, 3, 200).astype(np.float32)
    out = wp.zeros(200, dtype=wp.vec3)
    wp.launch(_turn, 200, [wp.vec3(0.0, 0.0, 1.0), wp.array(angles), out])
    cos, sin = np.cos(angles), np.sin(angles)
    want = np.stack([cos - 2 * sin, sin + 2 * cos, np.full(200, 3.0)], 1)
    np.testing.assert_allclose(out.numpy(), want, atol=2e-6)


@wp.kernel
def _frames(frames: wp.array(dtype=wp.transform), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = wp.transform_point(wp.transform_inverse(frames[i]), wp.transform_point(frames[i], wp.vec3(1.0, 2.0, 3.0)))


def test_transforms(random):
    frames = random.standard_normal((64, 7)).astype(np.float32)
    frames[:, 3:] /= np.linalg.norm(frames[:, 3:], axis=1, keepdims=True)
    out = wp.zeros(64, dtype=wp.vec3)
    wp.launch(_frames, 64, [wp.array(frames, dtype=wp.transform), out])
    np.testing.assert_allclose(out.numpy(), np.tile([1, 2, 3], (64, 1)), atol=1e-5)


@wp.struct
class Particle:
    position: wp.vec3
    mass: float
    fixed: wp.bool


@wp.kernel
def _move(particles: wp.array(dtype=Particle), step: float):
    i = wp.tid()
    p = particles[i]
    if not p.fixed:
        p.position = p.position + wp.vec3(step * p.mass, 0.0, 1.0)
    particles[i] = p


def test_structs(random):
    made = np.zeros(50, dtype=Particle.numpy_dtype())
    made["mass"], made["fixed"] = random.random(50), random.random(50) > 0.5
    particles = wp.array(made, dtype=Particle)
    wp.launch(_move, 50, [particles, 0.5])
    out = particles.numpy()
    moved = ~made["fixed"].astype(bool)
    np.testing.assert_allclose(out["position"][:, 0], np.where(moved, 0.5 * made["mass"], 0), atol=1e-6)
    np.testing.assert_array_equal(out["position"][:, 2], moved)


@wp.kernel
def _count(x: wp.array(dtype=int), bins: wp.array(dtype=int), extremes: wp.array(dtype=int),
           total: wp.array(dtype=wp.float64)):
    i = wp.tid()
    wp.atomic_add(bins, x[i] % 16, 1)
    wp.atomic_max(extremes, 0, x[i])
    wp.atomic_min(extremes, 1, x[i])
    wp.atomic_add(total, 0, wp.float64(x[i]))


def test_atomics(random):
    x = random.integers(0, 10_000, 5000).astype(np.int32)
    bins, total = wp.zeros(16, dtype=int), wp.zeros(1, dtype=wp.float64)
    extremes = wp.array([-1, 1 << 30], dtype=int)
    wp.launch(_count, 5000, [wp.array(x), bins, extremes, total])
    np.testing.assert_array_equal(bins.numpy(), np.bincount(x % 16, minlength=16))
    assert extremes.numpy().tolist() == [x.max(), x.min()]
    assert total.numpy()[0] == x.sum()


@wp.kernel
def _stencil(x: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    if i > 0 and j > 0 and i < x.shape[0] - 1 and j < x.shape[1] - 1:
        out[i, j] = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] - 4.0 * x[i, j]


def test_two_dimensions(random):
    x = random.standard_normal((60, 44)).astype(np.float32)
    out = wp.zeros((60, 44), dtype=float)
    wp.launch(_stencil, (60, 44), [wp.array(x), out])
    want = np.zeros_like(x)
    want[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]
    np.testing.assert_allclose(out.numpy(), want, atol=4e-6)


@wp.kernel
def _draw(seed: int, out: wp.array(dtype=float)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    out[i] = wp.randf(state) + wp.noise(state, wp.vec2(float(i) * 0.1, 0.5))


def test_random_numbers_and_noise_are_those_of_the_host():
    here, there = wp.zeros(2000, dtype=float), wp.zeros(2000, dtype=float, device="cpu")
    wp.launch(_draw, 2000, [3, here])
    wp.launch(_draw, 2000, [3, there], device="cpu")
    np.testing.assert_allclose(here.numpy(), there.numpy(), atol=2e-6)


@wp.func
def _square(x: float):
    return x * x


@wp.kernel
def _loss(x: wp.array(dtype=float), w: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, _square(wp.sin(x[i] * w[0]) - 0.5))


def test_gradients_by_a_tape(random):
    x = random.uniform(-1, 1, 400).astype(np.float32)
    w = wp.array([0.7], dtype=float, requires_grad=True)
    xs = wp.array(x, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(_loss, 400, [xs, w, loss])
    tape.backward(loss)
    x = x.astype(float)
    part = 2 * (np.sin(x * 0.7) - 0.5) * np.cos(x * 0.7)
    np.testing.assert_allclose(loss.numpy()[0], ((np.sin(x * 0.7) - 0.5) ** 2).sum(), rtol=1e-5)
    np.testing.assert_allclose(w.grad.numpy()[0], (part * x).sum(), rtol=1e-4)
    np.testing.assert_allclose(xs.grad.numpy(), part * 0.7, atol=1e-5)


@wp.kernel
def _distance(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - 3.0) * (x[i] - 3.0))


def test_adam():
    x = wp.zeros(20, dtype=float, requires_grad=True)
    adam = warp.optim.Adam([x], lr=0.3)
    want, first, second = 0.0, 0.0, 0.0
    for step in range(1, 31):
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(_distance, 20, [x, loss])
        tape.backward(loss)
        adam.step([x.grad])
        tape.zero()
        slope = 2 * (want - 3)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope ** 2
        want -= 0.3 * (first / (1 - 0.9 ** step)) / (np.sqrt(second / (1 - 0.999 ** step)) + 1e-8)
    np.testing.assert_allclose(x.numpy(), want, atol=1e-4)
