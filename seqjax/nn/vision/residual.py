"""Convolutions over the pixels of an image, and the residual units that ResNets are made of.

Shapes: B images of H x W places and C channels, [B, H, W, C].
"""

from collections.abc import Callable

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.nn.projection import partitioned
from seqjax.nn.vision.norms import image_norm

SHORTCUTS = ('projection', 'pad')
UNITS = ('basic', 'bottleneck')
REDUCTION = 4  # channels of a bottleneck are a quarter of those that it returns


class ImageConvolution(nn.Module):
    """y_ij = b + sum_kl W_kl x_{s i + k - K // 2, s j + l - K // 2}, with zeros outside: [B, H, W, C] -> [B, H / s, W / s, features].

    kernel_size: K; stride: s; sides of H not divided by s are rounded up. axes: logical names of the channels, of x and of y. The
    variance of the initial weights keeps that of gradients through a ReLU (He et al. 2015, equation 14). zero: they begin as 0.
    """

    features: int
    kernel_size: int = 3
    stride: int = 1
    bias: bool = False
    axes: tuple[str | None, str | None] = ('embed', 'mlp')
    dtype: jnp.dtype = jnp.float32
    zero: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        K, draw = self.kernel_size, nn.initializers.variance_scaling(2.0, 'fan_out', 'normal')
        draw = nn.initializers.zeros if self.zero else draw
        kernel = self.param('kernel', partitioned(draw, (None, None, *self.axes)), (K, K, x.shape[-1], self.features))
        y = jax.lax.conv_general_dilated(x.astype(self.dtype), kernel.astype(self.dtype), (self.stride,) * 2, [(K // 2, K // 2)] * 2,
                                         dimension_numbers=('NHWC', 'HWIO', 'NHWC'))
        if self.bias:
            zeros = partitioned(nn.initializers.zeros, self.axes[1:])
            y += self.param('bias', zeros, (self.features,)).astype(self.dtype)
        return ops.constrain(y, 'batch', ..., self.axes[1])


class ResidualUnit(nn.Module):
    """y = relu(F(x) + S(x)), or with norm_position='pre' y = F(x) + S(x): [B, H, W, C] -> [B, H / s, W / s, channels].

        F of 'basic'        conv 3x3, conv 3x3
        F of 'bottleneck'   conv 1x1 to channels / 4, conv 3x3, conv 1x1

    post: a norm after every convolution, and a ReLU after every norm but the last (He et al. 2016a, figure 2 and 5). pre: norm and
    ReLU before every convolution, and nothing on the way of S (He et al. 2016b, figure 4e).

    S: x; where the shape changes 'projection', a 1x1 convolution (option B of He et al. 2016a), or 'pad', every s-th place with zeros
    for the new channels, which has no parameters (option A). residual=False: without S, a plain network.

    norm: makes a norm of the options axis, zero and name of `image_norm`. bias: of the convolutions, where there is no norm.
    zero_init: the scale of the last norm of F begins as 0, or where there is none its last kernel, so that the unit begins as S: deep
    networks then begin as shallow ones, and take higher rates. stride_first: of a bottleneck, s belongs to
    the first convolution, as in 2016, and not to the 3x3 one ("version 1.5", which scores about 0.5 % more on ImageNet).
    """

    channels: int
    kind: str = 'basic'
    stride: int = 1
    norm: Callable[..., nn.Module] = image_norm
    norm_position: str = 'post'
    residual: bool = True
    shortcut: str = 'projection'
    zero_init: bool = False
    stride_first: bool = False
    bias: bool = False
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        pre, layers = self.norm_position == 'pre', self._layers()
        y = start = x
        for number, (features, K, stride, axes) in enumerate(layers):
            last = number == len(layers) - 1
            zero = self.zero_init and last and self.residual
            convolution = ImageConvolution(features, K, stride, self.bias, axes, self.dtype, zero and self.bias, name=f'conv_{number}')
            norm = self.norm(axis=axes[0] if pre else axes[1], zero=zero, name=f'norm_{number}')
            if pre:
                y = jax.nn.relu(norm(y, train))
                start = y if number == 0 and self._projects(x) else start
                y = convolution(y)
            else:
                y = norm(convolution(y), train)
                y = y if last else jax.nn.relu(y)
        y = y + self._shortcut(start, train) if self.residual else y
        return ops.constrain(y if pre else jax.nn.relu(y), 'batch', ..., 'embed')

    def _layers(self):
        """(features, K, stride, axes) of the convolutions of F."""
        if self.kind == 'basic':
            return (self.channels, 3, self.stride, ('embed', 'mlp')), (self.channels, 3, 1, ('mlp', 'embed'))
        narrow = self.channels // REDUCTION
        first, second = (self.stride, 1) if self.stride_first else (1, self.stride)
        return ((narrow, 1, first, ('embed', 'mlp')), (narrow, 3, second, ('mlp', None)),
                (self.channels, 1, 1, (None, 'embed')))

    def _projects(self, x):
        changes = x.shape[-1] != self.channels or self.stride != 1
        return changes and self.shortcut == 'projection'

    def _shortcut(self, x, train):
        if self._projects(x):
            x = ImageConvolution(self.channels, 1, self.stride, self.bias, ('embed', None), self.dtype, name='shortcut')(x)
            return x if self.norm_position == 'pre' else self.norm(axis='embed', zero=False, name='shortcut_norm')(x, train)
        x = x[:, ::self.stride, ::self.stride]
        return jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, self.channels - x.shape[-1])))
