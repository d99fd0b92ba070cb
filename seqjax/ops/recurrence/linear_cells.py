"""Cells that are linear in their state: h_t = a_t * h_{t-1} + b_t. Letters and layout: `cell`."""

import dataclasses
import math

import jax
import jax.numpy as jnp

from seqjax.ops.recurrence.cell import Cell, Weight, part, uniform_gates
from seqjax.ops.recurrence.cells import sigmoid


@dataclasses.dataclass(frozen=True)
class Linear(Cell):
    """h_t = a_t * h_{t-1} + b_t with a_t and b_t functions of the input alone: all steps can be computed in parallel."""

    linear = True

    def weights(self, D, N):
        weights = super().weights(D, N)
        del weights['recurrent_kernel']
        return weights

    def coefficients(self, weights, x):
        """(a, b), each [N, ...], from the projected inputs x [G, N, ...]."""
        raise NotImplementedError

    def outputs(self, weights, h, inputs):
        """What the layer puts out, [B, T, N], from its states h [B, T, N] and inputs [B, T, D]."""
        del weights, inputs
        return h

    def step(self, weights, x, r, state, dot=None):
        a, b = self.coefficients(weights, x)
        return a * state[0] + b,


@dataclasses.dataclass(frozen=True)
class MinGRU(Linear):
    """A GRU whose gate does not look at the state (Feng et al. 2024).

        u = sigmoid(W_u i + b_u),   g = W_g i + b_g,   h' = u * h + (1 - u) * g
    """

    gate_kinds = dict(u='sigmoid', g='identity')

    def activations(self, weights, x, r, state, dot):
        return sigmoid(x[0]), x[1]

    def coefficients(self, weights, x):
        u, g = self.activations(weights, x, None, None, None)
        return u, (1 - u) * g


@dataclasses.dataclass(frozen=True)
class MinLSTM(Linear):
    """An LSTM whose gates do not look at the state, and share one unit between them (Feng et al. 2024).

        f, i = sigmoid(W i + b),   h' = f / (f + i) * h + i / (f + i) * (W_g i + b_g)
    """

    forget_bias: float = 1.0

    gate_kinds = dict(f='sigmoid', i='sigmoid', g='identity')

    def bias_starts(self):
        return dict(f=self.forget_bias)

    def activations(self, weights, x, r, state, dot):
        return sigmoid(x[0]), sigmoid(x[1]), x[2]

    def coefficients(self, weights, x):
        # f / (f + i) = sigmoid(log f - log i), which is safe where both gates are closed.
        keep = sigmoid(jax.nn.log_sigmoid(x[0]) - jax.nn.log_sigmoid(x[1]))
        return keep, (1 - keep) * x[2]


@dataclasses.dataclass(frozen=True)
class LRU(Linear):
    """The linear recurrent unit (Orvieto et al. 2023): a complex diagonal recurrence, then a gated output.

        lambda = exp(-exp(nu) + i exp(theta))                         |lambda| < 1 whatever the parameters
        h' = lambda * h + sqrt(1 - |lambda|^2) * (B i)                the two gates are the real and imaginary part of B i
        y = Re(C h) + D i,   output = y * sigmoid(V y)

    The paper puts the gate into the block around it; here it belongs to the layer, so that a stack is not linear.
    smallest, largest, angle: the ring of the complex plane in which lambda starts.
    """

    smallest: float = 0.9
    largest: float = 0.999
    angle: float = 2 * math.pi

    gate_kinds = dict(re='identity', im='identity')

    def state(self, N):
        return dict(h=part(N, dtype=jnp.complex64))

    def weights(self, D, N):
        mapped = dict(init=jax.nn.initializers.lecun_normal(), axes=('embed', 'hidden'), in_loop=False, kind='matrix')
        return {**super().weights(D, N),
                'nu': Weight((N,), self._ring, ('hidden',), in_loop=False),
                'theta': Weight((N,), self._angles, ('hidden',), in_loop=False),
                'output_kernel': Weight((N, 2, N), uniform_gates, ('embed', None, 'hidden'), in_loop=False, kind='matrix'),
                'skip_kernel': Weight((D, N), **mapped), 'gate_kernel': Weight((N, N), **mapped)}

    def _ring(self, key, shape, dtype=jnp.float32):
        """nu with |lambda|^2 = exp(-2 exp(nu)) uniform between the squares of the ring's radii."""
        square = jax.random.uniform(key, shape, dtype, self.smallest ** 2, self.largest ** 2)
        return jnp.log(-0.5 * jnp.log(square))

    def _angles(self, key, shape, dtype=jnp.float32):
        """theta, with exp(theta) uniform between 0 and the largest angle."""
        return jnp.log(jax.random.uniform(key, shape, dtype, 1e-6, self.angle))

    def eigenvalues(self, weights):
        return jnp.exp(jax.lax.complex(-jnp.exp(weights['nu']), jnp.exp(weights['theta'])))  # [N]

    def activations(self, weights, x, r, state, dot):
        return x[0], x[1]

    def coefficients(self, weights, x):
        axes = (-1,) + (1,) * (x.ndim - 2)
        # sqrt(1 - |lambda|^2) with |lambda|^2 = exp(-2 exp(nu))
        scale = jnp.sqrt(-jnp.expm1(-2 * jnp.exp(weights['nu']))).reshape(axes)
        b = jax.lax.complex(x[0] * scale, x[1] * scale)
        return jnp.broadcast_to(self.eigenvalues(weights).reshape(axes), b.shape), b

    def outputs(self, weights, h, inputs):
        product = lambda array, kernel: (array.astype(kernel.dtype) @ kernel).astype(h.real.dtype)
        C = weights['output_kernel']
        y = product(h.real, C[:, 0]) - product(h.imag, C[:, 1]) + product(inputs, weights['skip_kernel'])
        return y * sigmoid(product(y, weights['gate_kernel']))
