"""Images as tokens: patches or a convolutional stem, and where in the image a token stands.

Shapes: B images of H x W pixels and C channels; h x w tokens of width D.
"""

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError, check_at_least
from seqjax.nn.projection import Projection, fan_in, partitioned


def pixels(images, dtype):
    """Images as networks read them: those of uint8 become numbers from 0 to 1."""
    return images.astype(dtype) / 255 if images.dtype == jnp.uint8 else images.astype(dtype)


class PatchEmbedding(nn.Module):
    """Images [B, H, W, C] -> tokens [B, h, w, D]: a linear map of every patch of P x P pixels (Dosovitskiy et al. 2021, equation 1).

        x_ij = W patch_ij + b,    h = H / P, w = W / P

    patch_size: P.
    """

    width: int
    patch_size: int
    bias: bool = True
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, images):
        (B, H, W, C), P = images.shape, self.patch_size
        h, w = self.grid(H), self.grid(W)
        x = pixels(images, self.dtype).reshape(B, h, P, w, P, C).swapaxes(2, 3)  # [B, h, w, P, P, C]
        return Projection((self.width,), (None, None, None, 'embed'), contract=3, bias=self.bias, kernel_init=fan_in(3),
                          dtype=self.dtype, name='projection')(x)

    @nn.nowrap
    def grid(self, size):
        """How many tokens lie along so many pixels."""
        if size % self.patch_size:
            fits = ', '.join(str(n) for n in range(2, size + 1) if size % n == 0)
            raise FieldError('patch_size', self.patch_size, f'must divide the {size} pixels of a side of the images; {fits} would')
        return size // self.patch_size


class ConvolutionalStem(nn.Module):
    """Images [B, H, W, C] -> tokens [B, h, w, D]: `layers` times MaxPool(ReLU(Conv(x))) (Hassani et al. 2021).

    No biases. kernel_size: K, odd, with stride max(1, (K - 1) / 2 - 1), 1 for K = 3 and 2 for K = 7; the maximum is over 3 x 3
    with stride 2. hidden: channels between the layers.
    """

    width: int
    layers: int = 1
    kernel_size: int = 3
    hidden: int = 64
    dtype: jnp.dtype = jnp.float32

    def __post_init__(self):
        super().__post_init__()
        check_at_least(self, 1, 'width', 'layers', 'kernel_size', 'hidden')
        if self.kernel_size % 2 == 0:
            raise FieldError('kernel_size', self.kernel_size, 'must be odd')

    @nn.compact
    def __call__(self, images):
        x, K, around = pixels(images, self.dtype), self.kernel_size, ((1, 1), (1, 1))
        for layer in range(self.layers):
            features = self.width if layer == self.layers - 1 else self.hidden
            kernel = self.param(f'kernel_{layer}', partitioned(nn.initializers.he_normal(), (None, None, None, 'embed')),
                                (K, K, x.shape[-1], features))
            x = jax.lax.conv_general_dilated(x, kernel.astype(self.dtype), (self._stride,) * 2, [(K // 2, K // 2)] * 2,
                                             dimension_numbers=('NHWC', 'HWIO', 'NHWC'))
            x = nn.max_pool(jax.nn.relu(ops.constrain(x, 'batch', ..., 'embed')), (3, 3), (2, 2), around)
        return x

    @nn.nowrap
    def grid(self, size):
        """How many tokens lie along so many pixels."""
        for _ in range(self.layers):
            size = ((size - 1) // self._stride) // 2 + 1  # a convolution, and a maximum of 3 with stride 2
        return size

    @property
    def _stride(self):
        return max(1, self.kernel_size // 2 - 1)


class GridPositions(nn.Module):
    """A learned vector for every place of a grid, and for each of `prefix` tokens before it (Dosovitskiy et al. 2021, section 3.1).

    grid: (h, w) of the table; None: that of the first images. Images of another resolution get the table interpolated
    (`ops.resize_bicubic`, with or without `antialias`; section 3.2 there). scale: their deviation before the first step. Returns
    ([h, w, D], [prefix, D]).
    """

    width: int
    prefix: int = 0
    grid: tuple[int, int] | None = None
    antialias: bool = False
    scale: float = 0.02
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, h, w):
        stored = self.get_variable('params', 'table') if self.has_variable('params', 'table') else None
        grid = tuple(self.grid or (h, w)) if stored is None else nn.unbox(stored).shape[:2]
        draw = nn.initializers.normal(self.scale)
        table = self.param('table', partitioned(draw, (None, None, 'embed')), (*grid, self.width))
        first = jnp.zeros((0, self.width))
        if self.prefix:
            first = self.param('prefix', partitioned(draw, (None, 'embed')), (self.prefix, self.width))
        table = table if grid == (h, w) else ops.resize_bicubic(table, (h, w), self.antialias)
        return table.astype(self.dtype), first.astype(self.dtype)
