"""Tiles: what the threads of a block do together, without the library for products that Warp does not bring."""

import numpy as np
import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _tiles(a: wp.array2d(dtype=float), sums: wp.array(dtype=float), out: wp.array2d(dtype=float)):
    i = wp.tid()
    part = wp.tile_load(a, shape=(8, 16), offset=(i * 8, 0))
    wp.tile_store(out, wp.tile_map(wp.sin, part) * 2.0, offset=(i * 8, 0))
    wp.tile_store(sums, wp.tile_sum(part), offset=i)


def test_tiles(random):
    x = random.standard_normal((32, 16)).astype(np.float32)
    sums, out = wp.zeros(4, dtype=float), wp.zeros((32, 16), dtype=float)
    wp.launch_tiled(_tiles, dim=[4], inputs=[wp.array(x), sums, out], block_dim=64)
    np.testing.assert_allclose(out.numpy(), np.sin(x) * 2, atol=2e-6)
    np.testing.assert_allclose(sums.numpy(), x.reshape(4, -1).sum(1), atol=1e-5)


@wp.kernel
def _products(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), c: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(16, 16), dtype=float)
    for k in range(4):
        wp.tile_matmul(wp.tile_load(a, shape=(16, 8), offset=(i * 16, k * 8)),
                       wp.tile_load(b, shape=(8, 16), offset=(k * 8, j * 16)), total)
    wp.tile_store(c, total, offset=(i * 16, j * 16))


def test_products_of_tiles(random):
    a, b = random.standard_normal((64, 32)).astype(np.float32), random.standard_normal((32, 48)).astype(np.float32)
    c = wp.zeros((64, 48), dtype=float)
    wp.launch_tiled(_products, dim=[4, 3], inputs=[wp.array(a), wp.array(b), c], block_dim=64)
    np.testing.assert_allclose(c.numpy(), a @ b, atol=2e-5)
