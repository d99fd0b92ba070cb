"""Recurrent cells: equations, and nothing else. `ops.recurrence` runs any of them over time.

A cell is a frozen dataclass, so that it can be a static argument of a compiled function. Inside the loop batch comes
last, which is the layout in which the small matmuls are fastest:

    x  [G, N, B]   the projected input W i_t + b             r  [G, N, B]   the recurrent product U h_{t-1}
    state          tuple of [N, B], h first                  weights        {name: array}, see `weight_shapes`

G gates, N hidden units, M the width of h (N, except for the projected LSTM), D inputs, B rows.
"""

import dataclasses

import jax
import jax.numpy as jnp

from seqjax.errors import FieldError, suggestion


def sigmoid(x):
    """1 / (1 + exp(-x)) = (1 + tanh(x / 2)) / 2: XLA on the CPU vectorises a tanh, but not a quotient of exponentials."""
    return 0.5 * jnp.tanh(0.5 * x) + 0.5


ACTIVATIONS = {'tanh': jnp.tanh, 'sigmoid': sigmoid, 'relu': jax.nn.relu, 'identity': lambda x: x}


def choose(field, value, known):
    if value not in known:
        raise FieldError(field, value, suggestion(str(value), known))


@dataclasses.dataclass(frozen=True)
class Cell:
    """What the engine must know of a cell.

    gate_names: one name a gate. parts: names of the parts of the state, h first. additive: the equation looks at x + r
    only. second: the name of a second matrix that the equation multiplies with inside the step, through `dot`.
    """

    gate_names = ()
    parts = ('h',)
    additive = True
    second = None
    linear = False

    @property
    def gates(self):
        return len(self.gate_names)

    def weight_shapes(self, D, N):
        """{name: shape} of everything that is learned, for inputs of width D."""
        return dict(input_kernel=(D, self.gates, N), recurrent_kernel=(N, self.gates, N), bias=(self.gates, N))

    def output_width(self, N):
        return N

    def state_shapes(self, N):
        """The width of every part of the state."""
        return (self.output_width(N),) + (N,) * (len(self.parts) - 1)

    def kernel(self, weights):
        """U [M, G, N], the matrix of the recurrent product."""
        return weights['recurrent_kernel']

    def prepare(self, weights, x):
        """What is done to the projected inputs x [G, N, T, B] of all steps before the loop."""
        del weights
        return x

    def activations(self, weights, x, r, state, dot):
        """The gates after their activation, one [N, B] a name of `gate_names`."""
        raise NotImplementedError

    def update(self, weights, gates, state, dot):
        """The new state from the activated gates."""
        raise NotImplementedError

    def step(self, weights, x, r, state, dot=None):
        """One step: the new state."""
        return self.update(weights, self.activations(weights, x, r, state, dot), state, dot)

    by_hand = False  # True: the cell brings its own `forward` and `backward` step, else the engine derives them from `step`

    def forward(self, weights, x, r, state):
        """(new state, what `backward` needs of this step beside the state before it)."""
        raise NotImplementedError

    def backward(self, weights, kept, state, d_new):
        """From the gradient of the new state: those of x, of r, of the state before (without U), and of small weights."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Elman(Cell):
    """The simple recurrent network (Elman 1990).

        h' = f(W i + U h + b),      f: tanh, relu, identity or modrelu

    modrelu(z) = sign(z) relu(|z| + threshold) (Arjovsky et al. 2016) keeps signs, and norms where the threshold is 0.
    """

    activation: str = 'tanh'

    gate_names = ('h',)

    def __post_init__(self):
        choose('activation', self.activation, (*ACTIVATIONS, 'modrelu'))

    def weight_shapes(self, D, N):
        shapes = super().weight_shapes(D, N)
        return {**shapes, 'threshold': (N,)} if self.activation == 'modrelu' else shapes

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

    def weight_shapes(self, D, N):
        shapes = super().weight_shapes(D, N)
        del shapes['recurrent_kernel']
        return {**shapes, 'skew': (N, N)}

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

    gate_names = ('i', 'f', 'g', 'o')
    parts = ('h', 'c')

    def __post_init__(self):
        choose('candidate', self.candidate, ACTIVATIONS)

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

    def weight_shapes(self, D, N):
        return {**super().weight_shapes(D, N), 'peephole': (3, N)}

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

    gate_names = ('f', 'g', 'o')

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

    def weight_shapes(self, D, N):
        return {**super().weight_shapes(D, N), 'input_scale': (4, N), 'recurrent_scale': (4, N),
                'cell_scale': (N,), 'cell_shift': (N,)}

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

    def output_width(self, N):
        return self.width

    def weight_shapes(self, D, N):
        return {**super().weight_shapes(D, N), 'recurrent_kernel': (self.width, 4, N), 'projection_kernel': (N, self.width)}

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

    gate_names = ('r', 'u', 'g')
    additive = False

    def __post_init__(self):
        choose('candidate', self.candidate, ACTIVATIONS)

    def weight_shapes(self, D, N):
        return {**super().weight_shapes(D, N), 'candidate_bias': (N,)}

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

    def weight_shapes(self, D, N):
        return dict(input_kernel=(D, 3, N), recurrent_kernel=(N, 2, N), bias=(3, N), candidate_kernel=(N, N))

    def activations(self, weights, x, r, state, dot):
        reset, u = sigmoid(x[0] + r[0]), sigmoid(x[1] + r[1])
        return reset, u, ACTIVATIONS[self.candidate](x[2] + dot(reset * state[0]))


def normalize(x, axes, epsilon=1e-5):
    """(x - mean) / sqrt(variance + epsilon) over `axes`."""
    x = x - x.mean(axes, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(axes, keepdims=True) + epsilon)
