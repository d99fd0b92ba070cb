"""The position-wise half of a Transformer block: one network for every step, or several of which each step chooses some.

Shapes: B rows, T steps, D width, F inner width, E experts.
"""

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError, suggestion
from seqjax.nn.projection import Projection, fan_in, parameter, partitioned


def gelu(x):
    """x P(X <= x) for a standard normal X (Hendrycks and Gimpel 2016), by the error function, in float32.

    jax.nn.gelu takes the complement of the error function, which two exponential series make, for small x in low precision;
    float32 has room for it.
    """
    wide = x.astype(jnp.float32)
    return (wide * (0.5 + 0.5 * jax.lax.erf(wide * 0.5 ** 0.5))).astype(x.dtype)


ACTIVATIONS = {
    'relu': jax.nn.relu,
    'gelu': gelu,
    'gelu_tanh': lambda x: jax.nn.gelu(x, approximate=True),  # of GPT-2 and BERT's first code
    'silu': jax.nn.silu,
    'quick_gelu': lambda x: x * jax.nn.sigmoid(1.702 * x),  # of CLIP (Hendrycks and Gimpel 2016, section 2)
}


def activation_function(name):
    if name not in ACTIVATIONS:
        raise FieldError('activation', name, f'no such activation; {suggestion(name, ACTIVATIONS)}')
    return ACTIVATIONS[name]


class FeedForward(nn.Module):
    """W2 f(W1 x), step by step (Vaswani et al. 2017, section 3.3); gated: W2 (f(W1 x) * V x) (Shazeer 2020).

    inner: F; 0: 4 D. dropout: after the activation.
    """

    inner: int = 0
    activation: str = 'gelu'
    gated: bool = False
    dropout: float = 0.0
    bias: bool = False
    dtype: jnp.dtype = jnp.float32
    kernel_init: nn.initializers.Initializer = fan_in()
    out_init: nn.initializers.Initializer = fan_in()

    @nn.compact
    def __call__(self, x, *, train=False):
        D = x.shape[-1]
        widen = lambda name: Projection((self.inner or 4 * D,), ('embed', 'mlp'), bias=self.bias, dtype=self.dtype,
                                        kernel_init=self.kernel_init, name=name)
        y = activation_function(self.activation)(widen('in')(x))  # [B, T, F]
        if self.gated:
            y = y * widen('gate')(x)
        y = nn.Dropout(self.dropout, deterministic=not train)(y)
        return Projection((D,), ('mlp', 'embed'), bias=self.bias, dtype=self.dtype, kernel_init=self.out_init, name='out')(y)


class MixtureOfExperts(nn.Module):
    """E feed-forward networks; a router chooses `chosen` of them for every step and adds up what they say.

        g = softmax(W_r x),  y = sum over the chosen e of g_e / (sum of the chosen g) * FFN_e(x)

    (Shazeer et al. 2017; the balance of Fedus et al. 2021, equations 4 to 6). Only the chosen ones are computed, and no step is
    ever dropped: see `ops.mix_experts`. Of every expert each device along the axis 'mlp' of the mesh table has a part.

    In training `balance` * E * sum_e (share of the steps that chose e first) * (mean of g_e), a sum over steps, is sown in
    'penalties': it is least when all experts are used alike. Here shares and means are those of a row and not of a batch, so that
    micro-batches and devices add up to the same.
    """

    experts: int
    chosen: int = 2
    balance: float = 0.01
    inner: int = 0
    activation: str = 'gelu'
    gated: bool = False
    bias: bool = False
    dtype: jnp.dtype = jnp.float32
    kernel_init: nn.initializers.Initializer = fan_in()
    out_init: nn.initializers.Initializer = fan_in()

    def __post_init__(self):
        super().__post_init__()
        if not 1 <= self.chosen <= self.experts:
            raise FieldError('chosen', self.chosen, f'must be at least 1 and at most experts={self.experts}')

    @nn.compact
    def __call__(self, x, *, train=False):
        D, E = x.shape[-1], self.experts
        F = self.inner or 4 * D
        gates = jax.nn.softmax(Projection((E,), ('embed', None), bias=False, name='router')(x.astype(jnp.float32)))  # [B, T, E]
        best, which = jax.lax.top_k(gates, self.chosen)
        if train and self.balance:
            share = jax.nn.one_hot(which[..., 0], E).mean(axis=1)  # [B, E]
            unlike = E * (share * gates.mean(axis=1)).sum()
            self.sow('penalties', 'balance', self.balance * unlike * gates.shape[1],
                     reduce_fn=jnp.add, init_fn=lambda: jnp.float32(0))
        inward, outward = (self.kernel_init, (D, F), ('embed', 'mlp')), (self.out_init, (F, D), ('mlp', 'embed'))
        gate = lambda: self._network('gate', *inward) if self.gated else {}
        kernels = self._network('in', *inward) | gate() | self._network('out', *outward)
        return ops.mix_experts(x.astype(self.dtype), kernels, which, best / best.sum(axis=-1, keepdims=True),
                               activation=activation_function(self.activation))

    @nn.nowrap
    def summed_axes(self):
        """See `Projection.summed_axes`."""
        return {f'{name}_kernel': (-2,) for name in ('in', 'out', *(['gate'] if self.gated else []))}

    def _network(self, name, init, shape, axes):
        """A kernel [E, *shape], every expert drawn by itself, and where there are biases one."""
        def draw(key, _shape, dtype=jnp.float32):
            return jax.vmap(lambda key: init(key, shape, dtype))(jax.random.split(key, self.experts))

        made = {f'{name}_kernel': parameter(self, f'{name}_kernel', partitioned(draw, ('experts', *axes)), (self.experts, *shape))}
        if self.bias:
            zeros = partitioned(nn.initializers.zeros, ('experts', axes[1]))
            made[f'{name}_bias'] = self.param(f'{name}_bias', zeros, (self.experts, shape[1]))
        return {name: array.astype(self.dtype) for name, array in made.items()}
