"""Values on a grid, read at places between its points."""

import jax
import jax.numpy as jnp


def resize_bicubic(grid: jax.Array, size: tuple[int, int], antialias: bool = False) -> jax.Array:
    """Bicubic interpolation of a grid [h, w, ...] to [H, W, ...], H, W = size (Keys 1981).

        y[i] = sum_j k((j - c_i) / s) x[j] / sum_j k((j - c_i) / s),    c_i = (i + 1/2) h / H - 1/2,

    along both axes, with k the cubic kernel. As torch.nn.functional.interpolate(mode='bicubic', align_corners=False) has it:
    without antialias s = 1, a = -3/4 in k, and places outside of the grid have the value of its edge; with it s = max(1, h / H),
    a = -1/2, and they do not count.

    Args:
        grid: [h, w, ...], float.
        size: H, W.
        antialias: whether the kernel grows as the grid shrinks.
    """
    rows, columns = (_weights(old, new, antialias) for old, new in zip(grid.shape, size))
    return jnp.einsum('ih,jw,hw...->ij...', rows, columns, grid.astype(jnp.float32)).astype(grid.dtype)


def _weights(old, new, antialias):
    """[new, old]: how much of every point is in what is read at each new place."""
    centre = (jnp.arange(new, dtype=jnp.float32) + 0.5) * (old / new) - 0.5
    if antialias:
        weights = _cubic((jnp.arange(old, dtype=jnp.float32) - centre[:, None]) / max(1.0, old / new), -0.5)
        return weights / weights.sum(axis=1, keepdims=True)
    near = jnp.floor(centre)[:, None] + jnp.arange(-1.0, 3.0)                                 # [new, 4]
    weights = _cubic(near - centre[:, None], -0.75)
    return (weights[:, :, None] * jax.nn.one_hot(jnp.clip(near, 0, old - 1).astype(jnp.int32), old)).sum(axis=1)


def _cubic(x, a):
    """The kernel of Keys 1981, with a in the place of its -1/2."""
    x = jnp.abs(x)
    inner = (a + 2) * x ** 3 - (a + 3) * x ** 2 + 1
    outer = a * (x ** 3 - 5 * x ** 2 + 8 * x - 4)
    return jnp.where(x <= 1, inner, jnp.where(x < 2, outer, 0.0))
