"""Recurrent cells: equations, and nothing else. `ops.recurrence` runs any of them over time. Letters and layout: `cell`."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from seqjax.ops.recurrence.cell import Cell, Weight, choose, part

init = jax.nn.initializers


def sigmoid(x):
    """1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2: XLA on the CPU vectorises a tanh, but not a quotient of exponentials."""
    return 0.5 * jnp.tanh(0.5 * x) + 0.5


ACTIVATIONS = {'tanh': jnp.tanh, 'sigmoid': sigmoid, 'relu': jax.nn.relu, 'identity': lambda x: x}


@dataclasses.dataclass(frozen=True)
class Elman(Cell):
    """The simple recurrent network (Elman 1990).

        h' = f(W i + U h + b),      f: tanh, relu, identity or modrelu

    modrelu(z) = sign(z) relu(|z| + threshold) (Arjovsky et al. 2016) keeps signs, and norms where the threshold is 0.
    """

    activation: str = 'tanh'

    @property
    def gate_kinds(self):
        return {'h': self.activation}

    def __post_init__(self):
        choose('activation', self.activation, (*ACTIVATIONS, 'modrelu'))

    def weights(self, D, N):
        weights = super().weights(D, N)
        if self.activation == 'modrelu':
            weights['threshold'] = Weight((N,), _thresholds, ('hidden',))
        return weights

    def activations(self, weights, x, r, state, dot):
        z = (x + r)[0]
        if self.activation == 'modrelu':
            return jnp.sign(z) * jax.nn.relu(jnp.abs(z) + weights['threshold'][:, None]),
        return ACTIVATIONS[self.activation](z),

    def update(self, weights, gates, state, dot):
        return gates

    @property
    def by_hand(self):
        return self.activation == 'tanh'

    def forward(self, weights, x, r, state):
        h = jnp.tanh(x + r)
        return (h[0],), h

    def backward(self, weights, h, state, d_new):
        dz = d_new[0] * (1 - h * h)  # [1, N, B]
        return dz, dz, (jnp.zeros_like(d_new[0]),), {}


@dataclasses.dataclass(frozen=True)
class Orthogonal(Elman):
    """An Elman network whose recurrent matrix is orthogonal whatever its parameters (Helfrich et al. 2018).

        A = S - S^T,   U = (I + A)^-1 (I - A)        Cayley's transform of a skew-symmetric matrix

    All eigenvalues of U have magnitude 1, so that U neither shrinks nor stretches a gradient; the activation still can.
    """

    activation: str = 'modrelu'

    def weights(self, D, N):
        weights = super().weights(D, N)
        del weights['recurrent_kernel']
        return {**weights, 'skew': Weight((N, N), _random_rotations, (None, None), in_loop=False)}

    def kernel(self, weights):
        A = weights['skew'] - weights['skew'].T
        I = jnp.eye(A.shape[0], dtype=A.dtype)
        U = jnp.linalg.solve(I + A, I - A)
        # Large parameters make the solution inexact: one step of Newton's iteration squares the distance from orthogonal.
        U = 0.5 * jnp.dot(U, 3 * I - jnp.dot(U.T, U, precision='highest'), precision='highest')
        return U[:, None].astype(weights['input_kernel'].dtype)


@dataclasses.dataclass(frozen=True)
class LSTM(Cell):
    """Long short-term memory (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000).

        i, f, g, o = W i + U h + b
        c' = sigmoid(f) * c + sigmoid(i) * phi(g)        phi: tanh, or sigmoid
        h' = sigmoid(o) * tanh(c')

    forget_bias: where the bias of f starts; 1 keeps the memory open at first (Jozefowicz et al. 2015).
    """

    candidate: str = 'tanh'
    forget_bias: float = 1.0

    memory = ('c', 'f')

    @property
    def gate_kinds(self):
        return dict(i='sigmoid', f='sigmoid', g=self.candidate, o='sigmoid')

    def __post_init__(self):
        choose('candidate', self.candidate, ACTIVATIONS)

    def bias_starts(self):
        return dict(f=self.forget_bias)

    def state(self, N):
        return dict(h=part(N), c=part(N))

    def activations(self, weights, x, r, state, dot):
        i, f, g, o = x + r
        return sigmoid(i), sigmoid(f), ACTIVATIONS[self.candidate](g), sigmoid(o)

    def update(self, weights, gates, state, dot):
        (i, f, g, o), (_, c) = gates, state
        c = f * c + i * g
        return o * jnp.tanh(c), c

    @property
    def by_hand(self):
        return type(self) is LSTM and self.candidate == 'tanh'

    def forward(self, weights, x, r, state):
        halves = jnp.array((0.5, 0.5, 1, 0.5), x.dtype)[:, None, None]  # sigmoid(z) = (1 + tanh(z / 2)) / 2
        kept = jnp.tanh((x + r) * halves)  # [4, N, B]: all gates are one tanh
        i, f, g, o = self._gates(kept)
        c = f * state[1] + i * g
        tanh_c = jnp.tanh(c)
        return (o * tanh_c, c), (kept, tanh_c)

    def backward(self, weights, kept, state, d_new):
        (kept, tanh_c), (_, c), (dh, dc) = kept, state, d_new
        i, f, g, o = self._gates(kept)
        dc += dh * o * (1 - tanh_c * tanh_c)
        dz = jnp.stack((0.25 * dc * g, 0.25 * dc * c, dc * i, 0.25 * dh * tanh_c)) * (1 - kept * kept)  # [4, N, B]
        return dz, dz, (jnp.zeros_like(dh), dc * f), {}

    @staticmethod
    def _gates(kept):
        i, f, g, o = kept
        return 0.5 * i + 0.5, 0.5 * f + 0.5, g, 0.5 * o + 0.5


@dataclasses.dataclass(frozen=True)
class PeepholeLSTM(LSTM):
    """An LSTM whose gates also see the cell (Gers & Schmidhuber 2000).

        i, f = ... + p_i * c, ... + p_f * c         o = ... + p_o * c'
    """

    def weights(self, D, N):
        return {**super().weights(D, N), 'peephole': Weight((3, N), init.zeros, (None, 'hidden'))}

    def activations(self, weights, x, r, state, dot):
        (i, f, g, o), (_, c) = x + r, state
        p_i, p_f, p_o = weights['peephole'][:, :, None]
        i, f, g = sigmoid(i + p_i * c), sigmoid(f + p_f * c), ACTIVATIONS[self.candidate](g)
        return i, f, g, sigmoid(o + p_o * (f * c + i * g))


@dataclasses.dataclass(frozen=True)
class CoupledLSTM(LSTM):
    """An LSTM that writes what it forgets, with a quarter of the weights less (Greff et al. 2017, 'CIFG').

        c' = f * c + (1 - f) * g
    """

    @property
    def gate_kinds(self):
        return dict(f='sigmoid', g=self.candidate, o='sigmoid')

    def activations(self, weights, x, r, state, dot):
        f, g, o = x + r
        return sigmoid(f), ACTIVATIONS[self.candidate](g), sigmoid(o)

    def update(self, weights, gates, state, dot):
        f, g, o = gates
        return LSTM.update(self, weights, (1 - f, f, g, o), state, dot)


@dataclasses.dataclass(frozen=True)
class LayerNormLSTM(LSTM):
    """An LSTM with normalised sums (Ba, Kiros & Hinton 2016, equations 20-22).

        i, f, g, o = LN(W i) + LN(U h) + b          h' = sigmoid(o) * tanh(LN(c'))

    LN is over all gates of a row together; each has its own scale, and that of c' a shift.
    """

    additive = False

    def weights(self, D, N):
        return {**super().weights(D, N),
                'input_scale': Weight((4, N), init.ones, (None, 'hidden'), in_loop=False),
                'recurrent_scale': Weight((4, N), init.ones, (None, 'hidden')),
                'cell_scale': Weight((N,), init.ones, ('hidden',)),
                'cell_shift': Weight((N,), init.zeros, ('hidden',))}

    def prepare(self, weights, x):
        return normalize(x, axes=(0, 1)) * weights['input_scale'][:, :, None, None].astype(x.dtype)

    def activations(self, weights, x, r, state, dot):
        r = normalize(r, axes=(0, 1)) * weights['recurrent_scale'][:, :, None]
        return super().activations(weights, x, r, state, dot)

    def update(self, weights, gates, state, dot):
        (i, f, g, o), (_, c) = gates, state
        c = f * c + i * g
        return o * jnp.tanh(normalize(c, axes=(0,)) * weights['cell_scale'][:, None] + weights['cell_shift'][:, None]), c


@dataclasses.dataclass(frozen=True)
class ProjectedLSTM(LSTM):
    """An LSTM with a narrow h (Sak et al. 2014): h' = P (sigmoid(o) * tanh(c')), with P from N units to `width`."""

    width: int = 64

    second = 'projection_kernel'

    def state(self, N):
        return dict(h=part(self.width), c=part(N))

    def weights(self, D, N):
        weights = super().weights(D, N)
        weights['recurrent_kernel'] = dataclasses.replace(weights['recurrent_kernel'], shape=(self.width, 4, N))
        projection = Weight((N, self.width), init.orthogonal(), ('hidden', 'embed'), kind='matrix')
        return {**weights, 'projection_kernel': projection}

    def update(self, weights, gates, state, dot):
        wide, c = LSTM.update(self, weights, gates, state, dot)
        return dot(wide), c


@dataclasses.dataclass(frozen=True)
class GRU(Cell):
    """The gated recurrent unit (Cho et al. 2014), the reset gate after the matmul, as in cuDNN and torch.

        r, u = sigmoid(W i + U h + b)
        g = phi(W i + b + r * (U h + b_g))        phi: tanh, or sigmoid
        h' = u * h + (1 - u) * g
    """

    candidate: str = 'tanh'

    additive = False

    @property
    def gate_kinds(self):
        return dict(r='sigmoid', u='sigmoid', g=self.candidate)

    def __post_init__(self):
        choose('candidate', self.candidate, ACTIVATIONS)

    def weights(self, D, N):
        return {**super().weights(D, N), 'candidate_bias': Weight((N,), init.zeros, ('hidden',), kind='bias')}

    def activations(self, weights, x, r, state, dot):
        reset, u = sigmoid(x[0] + r[0]), sigmoid(x[1] + r[1])
        return reset, u, ACTIVATIONS[self.candidate](x[2] + reset * (r[2] + weights['candidate_bias'][:, None]))

    def update(self, weights, gates, state, dot):
        (_, u, g), (h,) = gates, state
        return u * h + (1 - u) * g,

    @property
    def by_hand(self):
        return type(self) is GRU and self.candidate == 'tanh'

    def forward(self, weights, x, r, state):
        halves = jnp.tanh(0.5 * (x[:2] + r[:2]))
        product = r[2] + weights['candidate_bias'][:, None]
        reset, u = 0.5 * halves + 0.5
        g = jnp.tanh(x[2] + reset * product)
        return self.update(weights, (reset, u, g), state, None), (halves, g, product)

    def backward(self, weights, kept, state, d_new):
        (halves, g, product), (h,), (dh,) = kept, state, d_new
        reset, u = 0.5 * halves + 0.5
        dg = dh * (1 - u) * (1 - g * g)  # of the candidate's sum
        d_gates = 0.25 * jnp.stack((dg * product, dh * (h - g))) * (1 - halves * halves)  # of the sums of r and u
        d_product = dg * reset
        return (jnp.concatenate((d_gates, dg[None])), jnp.concatenate((d_gates, d_product[None])), (dh * u,),
                dict(candidate_bias=d_product.sum(axis=1)))


@dataclasses.dataclass(frozen=True)
class ResetBeforeGRU(GRU):
    """The GRU as first published: the reset gate acts before the matmul, g = phi(W i + b + V (r * h))."""

    second = 'candidate_kernel'

    def weights(self, D, N):
        weights = Cell.weights(self, D, N)
        weights['recurrent_kernel'] = dataclasses.replace(weights['recurrent_kernel'], shape=(N, 2, N))
        return {**weights, 'candidate_kernel': Weight((N, N), init.orthogonal(), ('embed', 'hidden'), kind='matrix')}

    def activations(self, weights, x, r, state, dot):
        reset, u = sigmoid(x[0] + r[0]), sigmoid(x[1] + r[1])
        return reset, u, ACTIVATIONS[self.candidate](x[2] + dot(reset * state[0]))


def normalize(x, axes, epsilon=1e-5):
    """(x - mean) / sqrt(variance + epsilon) over `axes`."""
    x = x - x.mean(axes, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(axes, keepdims=True) + epsilon)


def _thresholds(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """Between -0.5 and 0: with thresholds of 0 modrelu would be the identity, and the network linear."""
    return jax.random.uniform(key, shape, dtype, -0.5, 0)


def _random_rotations(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """Rotations of pairs of units by random angles: Cayley's transform of tan(angle / 2) is a rotation by that angle.

    Henaff et al. 2016, initialisation by blocks; half of the circle is left out, where the tangent grows without bound.
    """
    N = shape[0]
    angles = jax.random.uniform(key, (N // 2,), dtype, -jnp.pi / 2, jnp.pi / 2)
    even = jnp.arange(N // 2) * 2
    return jnp.zeros(shape, dtype).at[even, even + 1].set(jnp.tan(angles / 2))
