"""Bicubic interpolation against torch's, and against the kernel written out point by point."""

import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops

SIZES = [((4, 4), (4, 4)), ((4, 4), (7, 9)), ((5, 3), (2, 4)), ((14, 14), (24, 16)), ((8, 6), (3, 2)), ((1, 2), (3, 3))]


def grid_of(size):
    return np.random.default_rng(sum(size)).standard_normal((*size, 3)).astype(np.float32)


@pytest.mark.parametrize('antialias', [False, True])
@pytest.mark.parametrize('old, new', SIZES, ids=str)
def test_the_values_are_those_of_torch(old, new, antialias):
    torch = pytest.importorskip('torch')
    grid = grid_of(old)
    given = torch.tensor(grid).permute(2, 0, 1)[None]
    theirs = torch.nn.functional.interpolate(given, size=new, mode='bicubic', align_corners=False, antialias=antialias)
    ours = ops.resize_bicubic(jnp.asarray(grid), new, antialias)
    np.testing.assert_allclose(ours, theirs[0].permute(1, 2, 0), atol=1e-5)  # float32, of numbers up to 4


def test_a_point_is_the_mean_of_its_sixteen_neighbours_weighed_by_the_kernel():
    def kernel(x, a=-0.75):
        x = abs(x)
        return (a + 2) * x ** 3 - (a + 3) * x ** 2 + 1 if x <= 1 else a * (x ** 3 - 5 * x ** 2 + 8 * x - 4) if x < 2 else 0

    grid, (H, W) = grid_of((4, 5)), (7, 3)
    resized = ops.resize_bicubic(jnp.asarray(grid), (H, W))
    for i, j in np.ndindex(H, W):
        y, x = (i + 0.5) * 4 / H - 0.5, (j + 0.5) * 5 / W - 0.5
        expected = sum(kernel(row - y) * kernel(column - x) * grid[np.clip(row, 0, 3), np.clip(column, 0, 4)]
                       for row in range(-3, 8) for column in range(-3, 9))
        np.testing.assert_allclose(resized[i, j], expected, atol=1e-5)


@pytest.mark.parametrize('antialias', [False, True])
def test_a_constant_stays_constant_and_the_type_is_kept(antialias):
    resized = ops.resize_bicubic(jnp.full((3, 4), 2, jnp.bfloat16), (5, 2), antialias)
    assert resized.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float32(resized), 2, atol=1e-2)
