"""What Warp brings beside its compiler: scans, sorts, sparse matrices, trees, meshes, volumes, streams, graphs."""

import numpy as np
import pytest
import warp as wp
import warp.sparse

# Kernels without gradients are compiled in half the time.
wp.set_module_options({"enable_backward": False})


def test_copies_and_fills(random):
    x = random.standard_normal((30, 20)).astype(np.float32)
    a = wp.array(x)
    b = wp.empty_like(a)
    wp.copy(b, a)
    b[5:10].fill_(2.0)
    part = a[::2, 3:7]
    want = x.copy()
    want[5:10] = 2
    np.testing.assert_array_equal(b.numpy(), want)
    np.testing.assert_array_equal(part.numpy(), x[::2, 3:7])
    np.testing.assert_array_equal(wp.clone(part).numpy(), x[::2, 3:7])
    np.testing.assert_array_equal(a.to("cpu").numpy(), x)


@pytest.mark.parametrize("kind", [np.int32, np.float32])
@pytest.mark.parametrize("inclusive", [True, False])
def test_scan(kind, inclusive, random):
    x = random.integers(0, 9, 3000).astype(kind)
    out = wp.zeros(3000, dtype=wp.dtype_from_numpy(kind))
    wp.utils.array_scan(wp.array(x), out, inclusive=inclusive)
    want = np.cumsum(x)
    np.testing.assert_array_equal(out.numpy(), want if inclusive else want - x)


@pytest.mark.parametrize("kind", [np.int32, np.float32, np.int64])
def test_radix_sort(kind, random):
    keys = random.permutation(2000).astype(kind) - kind(500)
    room = np.zeros(4000, kind)
    room[:2000] = keys
    values = np.arange(4000, dtype=np.int32)
    pairs = wp.array(room), wp.array(values)
    wp.utils.radix_sort_pairs(*pairs, 2000)
    np.testing.assert_array_equal(pairs[0].numpy()[:2000], np.sort(keys))
    np.testing.assert_array_equal(pairs[1].numpy()[:2000], np.argsort(keys))


def test_runlength_encode(random):
    x = np.sort(random.integers(0, 40, 1000)).astype(np.int32)
    values, lengths, count = wp.zeros(1000, dtype=int), wp.zeros(1000, dtype=int), wp.zeros(1, dtype=int)
    wp.utils.runlength_encode(wp.array(x), values, lengths, count)
    want = np.unique(x, return_counts=True)
    runs = count.numpy()[0]
    np.testing.assert_array_equal(values.numpy()[:runs], want[0])
    np.testing.assert_array_equal(lengths.numpy()[:runs], want[1])


def test_sum_and_inner_product(random):
    x, y = (random.standard_normal(5000).astype(np.float32) for _ in range(2))
    assert abs(wp.utils.array_sum(wp.array(x)) - x.astype(float).sum()) < 1e-2
    assert abs(wp.utils.array_inner(wp.array(x), wp.array(y)) - np.dot(x.astype(float), y)) < 1e-2


def test_sparse_matrices(random):
    rows, columns = random.integers(0, 30, 100), random.integers(0, 20, 100)
    blocks = random.standard_normal((100, 2, 2)).astype(np.float32)
    made = wp.sparse.bsr_from_triplets(30, 20, wp.array(rows, dtype=int), wp.array(columns, dtype=int),
                                       wp.array(blocks, dtype=wp.mat22))
    dense = np.zeros((60, 40))
    for row, column, block in zip(rows, columns, blocks):
        dense[2 * row:2 * row + 2, 2 * column:2 * column + 2] += block
    x = random.standard_normal((20, 2)).astype(np.float32)
    out = wp.sparse.bsr_mv(made, wp.array(x, dtype=wp.vec2))
    np.testing.assert_allclose(out.numpy().ravel(), dense @ x.ravel(), atol=2e-5)
    square = wp.sparse.bsr_mm(made, wp.sparse.bsr_transposed(made))
    np.testing.assert_allclose(_dense(square), dense @ dense.T, atol=1e-4)


def _dense(matrix):
    offsets, columns, blocks = (it.numpy() for it in (matrix.offsets, matrix.columns, matrix.values))
    out = np.zeros((2 * matrix.nrow, 2 * matrix.ncol))
    for row in range(matrix.nrow):
        for at in range(offsets[row], offsets[row + 1]):
            column = columns[at]
            out[2 * row:2 * row + 2, 2 * column:2 * column + 2] += blocks[at]
    return out


@wp.kernel
def _neighbours(grid: wp.uint64, points: wp.array(dtype=wp.vec3), radius: float, count: wp.array(dtype=int)):
    i = wp.tid()
    found = int(0)
    for other in wp.hash_grid_query(grid, points[i], radius):
        if wp.length(points[other] - points[i]) <= radius:
            found += 1
    count[i] = found


def test_hash_grid(random):
    points = random.random((500, 3)).astype(np.float32)
    grid, count = wp.HashGrid(16, 16, 16), wp.zeros(500, dtype=int)
    there = wp.array(points, dtype=wp.vec3)
    grid.build(there, 0.15)
    wp.launch(_neighbours, 500, [grid.id, there, 0.15, count])
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    sure = ~(abs(apart - 0.15) < 1e-5).any(1)
    np.testing.assert_array_equal(count.numpy()[sure], (apart <= 0.15).sum(1)[sure])


@wp.kernel
def _overlaps(tree: wp.uint64, lower: wp.vec3, upper: wp.vec3, hit: wp.array(dtype=int)):
    query = wp.bvh_query_aabb(tree, lower, upper)
    at = int(0)
    while wp.bvh_query_next(query, at):
        hit[at] = 1


def test_bounding_volumes(random):
    lower = random.random((300, 3)).astype(np.float32)
    upper = lower + random.random((300, 3)).astype(np.float32) * 0.1
    tree = wp.Bvh(wp.array(lower, dtype=wp.vec3), wp.array(upper, dtype=wp.vec3))
    hit = wp.zeros(300, dtype=int)
    wp.launch(_overlaps, 1, [tree.id, wp.vec3(0.2, 0.2, 0.2), wp.vec3(0.6, 0.5, 0.7), hit])
    want = ((lower <= [0.6, 0.5, 0.7]) & (upper >= [0.2, 0.2, 0.2])).all(1)
    np.testing.assert_array_equal(hit.numpy(), want)


@wp.kernel
def _rays(mesh: wp.uint64, starts: wp.array(dtype=wp.vec3), away: wp.array(dtype=float),
          near: wp.array(dtype=float)):
    i = wp.tid()
    found = wp.mesh_query_ray(mesh, starts[i], wp.vec3(0.0, 0.0, -1.0), 100.0)
    away[i] = wp.where(found.result, found.t, -1.0)
    closest = wp.mesh_query_point_no_sign(mesh, starts[i], 100.0)
    near[i] = wp.length(wp.mesh_eval_position(mesh, closest.face, closest.u, closest.v) - starts[i])


def test_meshes(random):
    points = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], np.float32)
    mesh = wp.Mesh(wp.array(points, dtype=wp.vec3), wp.array([0, 1, 2, 0, 2, 3], dtype=int))
    starts = (random.random((200, 3)) * [2, 2, 1] + [-0.5, -0.5, 0.5]).astype(np.float32)
    away, near = wp.zeros(200, dtype=float), wp.zeros(200, dtype=float)
    wp.launch(_rays, 200, [mesh.id, wp.array(starts, dtype=wp.vec3), away, near])
    within = ((starts[:, :2] >= 0) & (starts[:, :2] <= 1)).all(1)
    np.testing.assert_allclose(away.numpy(), np.where(within, starts[:, 2], -1), atol=1e-5)
    nearest = np.concatenate([starts[:, :2].clip(0, 1), np.zeros((200, 1))], 1)
    np.testing.assert_allclose(near.numpy(), np.linalg.norm(starts - nearest, axis=1), atol=1e-5)


@wp.kernel
def _sampled(volume: wp.uint64, at: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.volume_sample_f(volume, wp.volume_world_to_index(volume, at[i]), wp.Volume.LINEAR)


def test_volume(random):
    x, y, z = np.meshgrid(*[np.arange(16.0)] * 3, indexing="ij")
    volume = wp.Volume.load_from_numpy((x + 2 * y + 3 * z).astype(np.float32), voxel_size=1.0)
    at = (random.random((100, 3)) * 12 + 1).astype(np.float32)
    out = wp.zeros(100, dtype=float)
    wp.launch(_sampled, 100, [volume.id, wp.array(at, dtype=wp.vec3), out])
    np.testing.assert_allclose(out.numpy(), at @ [1, 2, 3], atol=1e-4)


@wp.kernel
def _add(x: wp.array(dtype=float), y: float):
    i = wp.tid()
    x[i] = x[i] * 2.0 + y


def test_streams_and_events():
    first, second = wp.Stream(), wp.Stream()
    x, event = wp.zeros(1000, dtype=float), wp.Event(enable_timing=True)
    with wp.ScopedStream(first):
        wp.launch(_add, 1000, [x, 1.0])
        first.record_event(event)
    second.wait_event(event)
    with wp.ScopedStream(second):
        wp.launch(_add, 1000, [x, 3.0])
        later = second.record_event(wp.Event(enable_timing=True))
    wp.synchronize_event(later)
    assert (x.numpy() == 5).all()
    assert wp.get_event_elapsed_time(event, later) >= 0


def test_captured_graph():
    x = wp.zeros(500, dtype=float)
    wp.launch(_add, 500, [x, 0.0])
    with wp.ScopedCapture() as capture:
        for _ in range(3):
            wp.launch(_add, 500, [x, 1.0])
    assert (x.numpy() == 0).all()
    for _ in range(2):
        wp.capture_launch(capture.graph)
    assert (x.numpy() == 63).all()
