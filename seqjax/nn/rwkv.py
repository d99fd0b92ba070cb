"""The two layers of RWKV: mixing over time, with `ops.wkv`, and mixing of channels. Both look at a step and the one before it.

Shapes: B rows, T steps, D width, F inner width.
"""

import math

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.nn.multi_head import Context
from seqjax.nn.projection import Projection, partitioned


class TimeMixing(nn.Module):
    """RWKV's attention (Peng et al. 2023, equations 11 to 17).

        r, k, v = W_r (mu_r * x_t + (1 - mu_r) * x_{t-1}), ...         each with a mixture of its own
        out = W_o (sigmoid(r) * wkv(k, v, w=exp(decay), u=bonus))      see `ops.wkv`

    Its calls: see `nn.ResidualBlock`. Its state is (x of the last step [B, 1, D], that of `ops.wkv`). depth: L, of the stack it is in;
    new decays and mixtures depend on the layer (appendix E).
    """

    width: int
    depth: int = 1
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x, context=Context(), state=None, *, train=False):
        (past, sums), D, lengths, segments = state, self.width, context.lengths, context.segments
        before = ops.earlier_step(x, past, segments=segments)
        starts = dict(key=_mixture(context.layer, self.depth), value=_mixture(context.layer, self.depth, more=0.3),
                      receptance=_mixture(context.layer, self.depth, power=0.5))
        of = {name: _project(self, name, D, _mix(self, name, start, x, before), ('embed', 'heads'),
                             nn.initializers.orthogonal() if name == 'value' else nn.initializers.zeros)
              for name, start in starts.items()}
        decay = self.param('decay', partitioned(_decays(context.layer, self.depth), ('heads',)), (D,))
        bonus = self.param('bonus', partitioned(_bonuses, ('heads',)), (D,))
        mean, sums = ops.wkv(of['key'], of['value'], jnp.exp(decay), bonus, sums, lengths, segments=segments)
        out = _project(self, 'out', D, jax.nn.sigmoid(of['receptance']) * mean, ('heads', 'embed'), nn.initializers.zeros)
        return out, (ops.last_inputs(x, past, lengths, segments=segments), sums)

    @nn.nowrap
    def empty_state(self, rows, slots=0):
        return jnp.zeros((rows, 1, self.width), self.dtype), ops.wkv_state(rows, self.width)


class ChannelMixing(nn.Module):
    """RWKV's feed-forward network (Peng et al. 2023, equations 18 to 20).

        r, k = W_r (mu_r * x_t + (1 - mu_r) * x_{t-1}), ...            k is [F]
        out = sigmoid(r) * W_v max(k, 0)^2

    Its calls: see `nn.ResidualBlock`. Its state is x of the last step [B, 1, D]. inner: F; 0: 4 D. depth: as of `TimeMixing`.
    """

    width: int
    inner: int = 0
    depth: int = 1
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x, context=Context(), state=None, *, train=False):
        D, F, lengths, segments = self.width, self.inner or 4 * self.width, context.lengths, context.segments
        before = ops.earlier_step(x, state, segments=segments)
        mixed = {name: _mix(self, name, _mixture(context.layer, self.depth), x, before) for name in ('key', 'receptance')}
        k = _project(self, 'key', F, mixed['key'], ('embed', 'mlp'), nn.initializers.orthogonal(max(F / D, 1) ** 0.5))
        r = _project(self, 'receptance', D, mixed['receptance'], ('embed', None), nn.initializers.zeros)
        v = _project(self, 'value', D, jnp.square(jax.nn.relu(k)), ('mlp', 'embed'), nn.initializers.zeros)
        return jax.nn.sigmoid(r) * v, ops.last_inputs(x, state, lengths, segments=segments)

    @nn.nowrap
    def empty_state(self, rows, slots=0):
        return jnp.zeros((rows, 1, self.width), self.dtype)


def _project(layer, name, features, x, axes, init):
    return Projection((features,), axes, bias=False, kernel_init=init, dtype=layer.dtype, name=name)(x)


def _mix(layer, name, start, x, before):
    """mu * x + (1 - mu) * before, [B, T, D]."""
    mu = layer.param(f'{name}_mix', partitioned(start, ('embed',)), x.shape[-1:]).astype(layer.dtype)
    return x * mu + before * (1 - mu)


# ------------------------------------------------------------------------------------------------ how they start, in appendix E

def _depths(number, depth):
    """(l / (L - 1), 1 - l / L) of layer l; its number may be traced, where layers are scanned."""
    number = jnp.asarray(number, jnp.float32)
    return number / max(depth - 1, 1), 1 - number / depth


def _mixture(number, depth, power=1.0, more=0.0):
    """mu_i = (i / D)^(power (1 - l / L)) + more l / (L - 1)."""
    def start(key, shape, dtype=jnp.float32):
        del key
        up, down = _depths(number, depth)
        return (jnp.arange(shape[0], dtype=dtype) / shape[0]) ** (power * down) + more * up

    return start


def _decays(number, depth):
    """-5 + 8 (i / (D - 1))^(0.7 + 1.3 l / (L - 1)), of which `exp` makes decays: the first channels remember for long."""
    def start(key, shape, dtype=jnp.float32):
        del key
        return -5 + 8 * (jnp.arange(shape[0], dtype=dtype) / max(shape[0] - 1, 1)) ** (0.7 + 1.3 * _depths(number, depth)[0])

    return start


def _bonuses(key, shape, dtype=jnp.float32):
    """log 0.3 + ((i + 1) mod 3 - 1) / 2."""
    del key
    return math.log(0.3) + 0.5 * ((jnp.arange(shape[0]) + 1) % 3 - 1).astype(dtype)
