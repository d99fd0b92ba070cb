"""The position-wise half of a Transformer block: one network for every step, or several of which each step chooses some.

Shapes: B rows, T steps, D width, F inner width, E experts.
"""

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax.errors import FieldError, suggestion
from seqjax.nn.projection import Projection, fan_in, partitioned


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

    (Shazeer et al. 2017; the balance of Fedus et al. 2021, equations 4 to 6). Every expert sees every step here and what was
    not chosen is weighed with 0: no step is ever dropped, and the cost is that of all E. Experts lie along the axis 'experts' of
    the mesh table. In training `balance` * E * sum_e (share of the steps that chose e first) * (mean of g_e), a sum over steps,
    is sown in 'penalties': it is least when all experts are used alike. Here shares and means are those of a row and not of a
    batch, so that micro-batches and devices add up to the same.
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
        weights = jnp.zeros_like(gates)
        for n in range(self.chosen):
            weights += jax.nn.one_hot(which[..., n], E) * (best[..., n] / best.sum(axis=-1))[..., None]
        if train and self.balance:
            share = jax.nn.one_hot(which[..., 0], E).mean(axis=1)  # [B, E]
            unlike = E * (share * gates.mean(axis=1)).sum()
            self.sow('penalties', 'balance', self.balance * unlike * gates.shape[1],
                     reduce_fn=jnp.add, init_fn=lambda: jnp.float32(0))
        x = x.astype(self.dtype)
        y = activation_function(self.activation)(self._widen('in', x, F))  # [B, T, E, F]
        if self.gated:
            y = y * self._widen('gate', x, F)
        out = self._kernels('out', self.out_init, (F, D), (None, 'embed'))
        y = jnp.einsum('btef,efd->bted', y, out)
        if self.bias:
            y += self._biases('out', D, 'embed')
        return jnp.einsum('bted,bte->btd', y, weights.astype(self.dtype))

    def _widen(self, name, x, F):
        y = jnp.einsum('btd,edf->btef', x, self._kernels(name, self.kernel_init, (x.shape[-1], F), ('embed', None)))
        return y + self._biases(name, F, None) if self.bias else y

    def _kernels(self, name, init, shape, axes):
        """[E, *shape], every expert drawn by itself."""
        def draw(key, _shape, dtype=jnp.float32):
            return jax.vmap(lambda key: init(key, shape, dtype))(jax.random.split(key, self.experts))

        return self.param(f'{name}_kernel', partitioned(draw, ('experts', *axes)), (self.experts, *shape)).astype(self.dtype)

    def _biases(self, name, width, axis):
        zeros = partitioned(nn.initializers.zeros, ('experts', axis))
        return self.param(f'{name}_bias', zeros, (self.experts, width)).astype(self.dtype)
