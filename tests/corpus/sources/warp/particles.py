"""Warp kernels: vectors, matrices, quaternions, structures, adjoints."""

import numpy as np
import warp as wp

from harness import functions as fn
from harness.case import close, f32, integers, uniform, zeros
from harness.warp_ptx import Array, case

n = 200


@wp.struct
class Body:
    position: wp.vec3
    velocity: wp.vec3
    mass: float


@wp.func
def pull(a: wp.vec3, b: wp.vec3, mass: float):
    d = b - a
    r = wp.length(d) + 0.1
    return d * (mass / (r * r * r))


@wp.kernel
def axpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def gravity(x: wp.array(dtype=wp.vec3), m: wp.array(dtype=float), force: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    total = wp.vec3(0.0, 0.0, 0.0)
    for j in range(x.shape[0]):
        if i != j:
            total += pull(x[i], x[j], m[j])
    force[i] = total


@wp.kernel
def integrate(bodies: wp.array(dtype=Body), dt: float, bounce: float):
    i = wp.tid()
    b = bodies[i]
    v = b.velocity + wp.vec3(0.0, -9.81, 0.0) * dt
    p = b.position + v * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], -p[1] * bounce, p[2])
        v = wp.vec3(v[0], -v[1] * bounce, v[2])
    b.position = p
    b.velocity = v
    bodies[i] = b


@wp.kernel
def rotate(q: wp.array(dtype=wp.quat), v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    unit = wp.normalize(q[i])
    out[i] = wp.quat_rotate(unit, v[i]) + wp.quat_rotate_inv(unit, v[i]) * 0.5


@wp.kernel
def matrices(m: wp.array(dtype=wp.mat33), v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3),
             scalars: wp.array2d(dtype=float)):
    i = wp.tid()
    a = m[i]
    out[i] = wp.inverse(a) * v[i]
    scalars[i, 0] = wp.determinant(a)
    scalars[i, 1] = wp.trace(a * wp.transpose(a))
    scalars[i, 2] = wp.ddot(a, wp.outer(v[i], v[i]))


@wp.kernel
def frames(t: wp.array(dtype=wp.transform), p: wp.array(dtype=wp.vec3),
           out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    both = wp.transform_multiply(t[i], wp.transform_inverse(t[i]))
    out[i] = wp.transform_point(t[i], p[i]) + wp.transform_point(both, p[i])


@wp.kernel
def twists(a: wp.array(dtype=wp.spatial_vector), b: wp.array(dtype=wp.spatial_vector),
           out: wp.array(dtype=wp.spatial_vector), dots: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.spatial_cross(a[i], b[i])
    dots[i] = wp.spatial_dot(a[i], b[i])


@wp.kernel
def loss(x: wp.array(dtype=float), target: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    d = wp.sin(x[i]) * x[i] - target[i]
    wp.atomic_add(out, 0, d * d)


@wp.kernel
def heat(u: wp.array2d(dtype=float), out: wp.array2d(dtype=float), k: float):
    i, j = wp.tid()
    h, w = u.shape[0], u.shape[1]
    up, down = u[wp.max(i - 1, 0), j], u[wp.min(i + 1, h - 1), j]
    left, right = u[i, wp.max(j - 1, 0)], u[i, wp.min(j + 1, w - 1)]
    out[i, j] = u[i, j] + k * (up + down + left + right - 4.0 * u[i, j])


@wp.kernel
def extremes(x: wp.array(dtype=int), out: wp.array(dtype=int), hits: wp.array(dtype=wp.uint64)):
    i = wp.tid()
    wp.atomic_max(out, 0, x[i])
    wp.atomic_min(out, 1, x[i])
    wp.atomic_add(hits, x[i] % 4, wp.uint64(x[i]))
    wp.atomic_sub(out, 2, x[i])


@wp.kernel
def special(x: wp.array(dtype=wp.float64), out: wp.array2d(dtype=wp.float64)):
    i = wp.tid()
    v = x[i]
    out[0, i] = wp.sin(v) * wp.cosh(v)
    out[1, i] = wp.log(v) + wp.exp(-v) + wp.pow(v, wp.float64(1.5))
    out[2, i] = wp.atan2(v, wp.float64(2.0)) + wp.tanh(v)
    out[3, i] = wp.floor(v) + wp.mod(v, wp.float64(0.3)) + wp.sign(v - wp.float64(2.0))
    out[4, i] = wp.cbrt(v) + wp.erf(v)


@wp.kernel
def halves(x: wp.array(dtype=wp.float16), v: wp.array(dtype=wp.vec2h), out: wp.array(dtype=wp.float16)):
    i = wp.tid()
    out[i] = x[i] * x[i] + wp.dot(v[i], v[i])


@wp.kernel
def grid_index(out: wp.array3d(dtype=int), counts: wp.array(dtype=int)):
    i, j, k = wp.tid()
    out[i, j, k] = i * 100 + j * 10 + k
    wp.atomic_add(counts, (i + j + k) % 5, 1)


x, y = uniform(n), uniform(n)
case(axpy, n, [x, y, f32(2.5)],
     {y: close(2.5 * x.array.astype(float) + y.array, 1e-7, 1e-7)})

p, m, force = uniform((60, 3)), uniform(60, 0.5, 2), zeros((60, 3))
pos = p.shaped.astype(float)
d = pos[None] - pos[:, None]
r = np.linalg.norm(d, axis=2) + 0.1
pair = d * (m.array / r**3)[:, :, None]
case(gravity, 60, [Array(p, element=12), m, Array(force, element=12)],
     {force: close(pair.sum(1), 1e-4)})

bodies = uniform((50, 7), -1, 1)
b = bodies.shaped.astype(float)
v = b[:, 3:6] + np.array([0, -9.81, 0]) * 0.05
q = b[:, :3] + v * 0.05
below = q[:, 1] < 0
q[:, 1] = np.where(below, -q[:, 1] * 0.8, q[:, 1])
v[:, 1] = np.where(below, -v[:, 1] * 0.8, v[:, 1])
case(integrate, 50, [Array(bodies, element=28), f32(0.05), f32(0.8)],
     {bodies: close(np.concatenate([q, v, b[:, 6:]], 1), 1e-5)})


def turn(q, v):
    """Rotation of vectors by unit quaternions whose real part comes last."""
    axis, real = q[:, :3], q[:, 3:]
    t = 2 * np.cross(axis, v)
    return v + real * t + np.cross(axis, t)


q, v, out = uniform((n, 4)), uniform((n, 3)), zeros((n, 3))
unit = q.shaped.astype(float) / np.linalg.norm(q.shaped.astype(float), axis=1, keepdims=True)
back = unit * [-1, -1, -1, 1]
vectors = v.shaped.astype(float)
case(rotate, n, [Array(q, element=16), Array(v, element=12), Array(out, element=12)],
     {out: close(turn(unit, vectors) + turn(back, vectors) * 0.5, 1e-5)})

m, v, out, scalars = uniform((n, 3, 3)), uniform((n, 3)), zeros((n, 3)), zeros((n, 3))
m.shaped[:] += 2 * np.eye(3, dtype=np.float32)
m.fill = None
a, w = m.shaped.astype(float), v.shaped.astype(float)
want = np.stack([np.linalg.det(a), (a * a).sum((1, 2)), np.einsum("nij,ni,nj->n", a, w, w)], 1)
case(matrices, n, [Array(m, element=36), Array(v, element=12), Array(out, element=12),
                   Array(scalars, n, 3)],
     {out: close(np.linalg.solve(a, w[:, :, None])[:, :, 0], 1e-4), scalars: close(want, 1e-5)})

t, p, out = uniform((n, 7)), uniform((n, 3)), zeros((n, 3))
t.shaped[:, 3:] /= np.linalg.norm(t.shaped[:, 3:], axis=1, keepdims=True)
t.fill = None
moved = turn(t.shaped[:, 3:].astype(float), p.shaped.astype(float)) + t.shaped[:, :3]
case(frames, n, [Array(t, element=28), Array(p, element=12), Array(out, element=12)],
     {out: close(moved + p.shaped, 1e-5)})

a, b, out, dots = uniform((n, 6)), uniform((n, 6)), zeros((n, 6)), zeros(n)
wa, va, wb, vb = a.shaped[:, :3], a.shaped[:, 3:], b.shaped[:, :3], b.shaped[:, 3:]
cross = np.concatenate([np.cross(wa, wb), np.cross(va, wb) + np.cross(wa, vb)], 1)
case(twists, n, [Array(a, element=24), Array(b, element=24), Array(out, element=24), dots],
     {out: close(cross, 1e-5), dots: close((a.shaped.astype(float) * b.shaped).sum(1), 1e-5)})

x, target, out = uniform(n, -3, 3), uniform(n), zeros(1)
v = x.array.astype(float)
d = np.sin(v) * v - target.array
case(loss, n, [x, target, out], {out: close([(d * d).sum()], 1e-5)})
gx, gt, go = zeros(n), zeros(n), uniform(1, 1, 1.0001)
slope = 2 * d * (np.cos(v) * v + np.sin(v)) * go.array
case(loss, n, [Array(x, grad=gx), Array(target, grad=gt), Array(out, grad=go)],
     {gx: close(slope, 1e-4), gt: close(-2 * d * go.array, 1e-4)}, name="loss_adjoint",
     adjoint=[Array(gx), Array(gt), Array(go)])

u, out = uniform((24, 31)), zeros((24, 31))
w = np.pad(u.shaped.astype(float), 1, "edge")
around = w[:-2, 1:-1] + w[2:, 1:-1] + w[1:-1, :-2] + w[1:-1, 2:]
case(heat, (24, 31), [Array(u, 24, 31), Array(out, 24, 31), f32(0.2)],
     {out: close(u.shaped + 0.2 * (around - 4 * u.shaped), 1e-5)})

x, out, hits = integers(n, 1, 10**6), zeros(3, "int32"), zeros(4, "uint64")
w = x.array.astype(np.int64)
want = [w.max(), 0, -w.sum()]
case(extremes, n, [x, out, hits],
     {out: np.array(want).astype(np.int32),
      hits: np.bincount(w % 4, w, 4).astype(np.uint64)})

x, out = uniform(n, 0.5, 4, "float64"), zeros((5, n), "float64")
w = x.array

want = [np.sin(w) * np.cosh(w), np.log(w) + np.exp(-w) + w**1.5, np.arctan2(w, 2) + np.tanh(w),
        np.floor(w) + np.fmod(w, 0.3) + np.where(w - 2 < 0, -1, 1), np.cbrt(w) + fn.erf(w)]
case(special, n, [x, Array(out, 5, n)], {out: close(np.stack(want), 1e-12)})

x, v, out = uniform(n, dtype="float16"), uniform((n, 2), dtype="float16"), zeros(n, "float16")
want = x.array.astype(float)**2 + (v.shaped.astype(float)**2).sum(1)
case(halves, n, [x, Array(v, element=4), out], {out: close(want, 4e-3)})

out, counts = zeros((4, 5, 6), "int32"), zeros(5, "int32")
i, j, k = np.meshgrid(range(4), range(5), range(6), indexing="ij")
case(grid_index, (4, 5, 6), [Array(out, 4, 5, 6), counts],
     {out: i * 100 + j * 10 + k, counts: np.bincount(((i + j + k) % 5).reshape(-1))})

