"""The layer of Mamba: a short convolution, a selective state space, and a gate.

Shapes: B rows, T steps, D width, E channels, N states of each, K steps of the convolution, R rank of the step sizes.
"""

import math

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.nn.multi_head import Context
from seqjax.nn.projection import Projection, partitioned

SMALLEST, LARGEST = 1e-3, 1e-1  # of the first step sizes (Gu & Dao 2023, section 3.6)
FLOOR = 1e-4

_uniform = nn.initializers.variance_scaling(1 / 3, 'fan_in', 'uniform')  # between -1 / sqrt(D) and 1 / sqrt(D), as torch has it


class Mamba(nn.Module):
    """The mixer of Mamba (Gu & Dao 2023, figure 3 and section 3.6).

        x, z = W_x i, W_z i                                    [E] each
        x_t = silu(sum_k c_k * x_{t-K+1+k} + c)                a convolution of every channel with itself
        r_t, B_t, C_t = W_s x_t                                [R], [N], [N]
        delta_t = softplus(W_d r_t + d)                        [E], the step sizes
        y_t = selective_scan(x, delta, -exp(A_log), B, C, D)   see `ops.selective_scan`
        out = W_o (y_t * silu(z_t))

    Its calls: see `nn.ResidualBlock`. Its state is (the last K - 1 of x before the convolution [B, K - 1, E], h [B, N, E]).
    expand: E / D. rank: R; 0: D / 16, rounded up. bias: of W_x, W_z and W_o; conv_bias: of the convolution.
    out_scale: W_o starts with so much of its usual deviation; 1 / sqrt(L) in a residual stack of L.
    """

    width: int
    expand: int = 2
    state_size: int = 16
    kernel_size: int = 4
    rank: int = 0
    bias: bool = False
    conv_bias: bool = True
    out_scale: float = 1.0
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x, context=Context(), state=None, *, train=False):
        (past, h), lengths, segments = state, context.lengths, context.segments
        E, N, R = self.expand * self.width, self.state_size, self.rank or -(-self.width // 16)
        project = lambda name, features, axes, bias, init=_uniform: Projection(
            (features,), axes, bias=bias, kernel_init=init, dtype=self.dtype, name=name)

        z = project('gate', E, ('embed', 'mlp'), self.bias)(x)
        x = project('in', E, ('embed', 'mlp'), self.bias)(x)
        past, x = ops.last_inputs(x, past, lengths, segments=segments), jax.nn.silu(self._convolve(x, past, segments))
        chosen = project('selection', R + 2 * N, ('mlp', None), False)(x)  # [B, T, R + 2 N]
        rate, write, read = jnp.split(chosen, (R, R + N), axis=-1)
        delta = project('step', E, (None, 'mlp'), False, _within(R ** -0.5))(rate).astype(jnp.float32)
        delta = jax.nn.softplus(delta + self.param('step_bias', partitioned(_step_sizes, ('mlp',)), (E,)))
        A = -jnp.exp(self.param('A_log', partitioned(_rates, (None, 'mlp')), (N, E)))
        skip = self.param('D', partitioned(nn.initializers.ones, ('mlp',)), (E,))
        y, h = ops.selective_scan(x, delta, A, write, read, skip, h, lengths, segments=segments)
        return project('out', self.width, ('mlp', 'embed'), self.bias, _scaled(self.out_scale))(y * jax.nn.silu(z)), (past, h)

    def _convolve(self, x, past, segments):
        """y_t = c + sum_k c_k * x_{t-K+1+k}, [B, T, E]."""
        K, E = self.kernel_size, x.shape[-1]
        kernel = self.param('conv_kernel', partitioned(_within(K ** -0.5), (None, 'mlp')), (K, E)).astype(self.dtype)
        y = x * kernel[-1] + sum(ops.earlier_step(x, past, by, segments) * kernel[-1 - by] for by in range(1, K))
        if self.conv_bias:
            y += self.param('conv_bias', partitioned(_within(K ** -0.5), ('mlp',)), (E,)).astype(self.dtype)
        return y

    @nn.nowrap
    def empty_state(self, rows, slots=0):
        E = self.expand * self.width
        return jnp.zeros((rows, self.kernel_size - 1, E), self.dtype), ops.selective_state(rows, self.state_size, E)


def _within(limit):
    """An initializer: uniform between -limit and limit."""
    return lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, -limit, limit)


def _scaled(scale):
    return nn.initializers.variance_scaling(scale ** 2 / 3, 'fan_in', 'uniform')


def _rates(key, shape, dtype=jnp.float32):
    """log n for state n = 1 .. N of every channel: A = -n (S4D-Real, Gu et al. 2022)."""
    del key
    return jnp.broadcast_to(jnp.log(jnp.arange(1, shape[0] + 1, dtype=dtype))[:, None], shape)


def _step_sizes(key, shape, dtype=jnp.float32):
    """What softplus makes step sizes of whose logarithm is uniform between those of SMALLEST and LARGEST."""
    delta = jnp.exp(jax.random.uniform(key, shape, dtype, math.log(SMALLEST), math.log(LARGEST)))
    delta = jnp.maximum(delta, FLOOR)
    return delta + jnp.log(-jnp.expm1(-delta))
