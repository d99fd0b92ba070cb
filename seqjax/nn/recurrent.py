"""Recurrent layers: the parameters of `ops.recur`, stacked, in one direction or both."""

from collections.abc import Sequence
import functools

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError
from seqjax.nn.projection import Projection, parameter, partitioned

MERGES = ('concat', 'mean', 'sum', 'project')


class RecurrentLayer(nn.Module):
    """One layer in one direction. Equations: its cell, in `ops.cells`. inputs [B, T, D] -> outputs [B, T, M], final state.

    Its parameters are the weights that `ops.recur` takes. In training each of the regularisers below acts; in evaluation
    only zoneout does, with its expectation.
    """

    features: int
    cell: ops.Cell
    reverse: bool = False
    bias: bool = True
    recurrent_dropout: float = 0.0
    zoneout: float = 0.0
    weight_drop: float = 0.0
    learned_state: bool = False
    unroll: int = 1
    checkpoint_every: int = 0
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, inputs, lengths=None, state=None, *, segments=None, train=False):
        self._check_width(inputs)
        shapes = self.cell.weight_shapes(inputs.shape[-1], self.features)
        weights = {name: self._weight(name, shape) for name, shape in shapes.items()}
        if train and self.weight_drop:
            weights['recurrent_kernel'] = self._dropped(weights['recurrent_kernel'], self.weight_drop)
        fresh = self._fresh_state(inputs.shape[0])
        outputs, state = ops.recur(
            self.cell, weights, inputs, fresh if state is None else state, lengths, reverse=self.reverse, segments=segments,
            fresh=fresh, hold=self._hold(inputs.shape, train), state_mask=self._state_mask(inputs.shape[0], train),
            unroll=self.unroll, checkpoint_every=self.checkpoint_every)
        return outputs.astype(self.dtype), state

    @nn.nowrap
    def summed_axes(self):
        """See `Projection.summed_axes`: all kernels of a cell sum over their first axis."""
        shapes = self.cell.weight_shapes(self.features, self.features)
        return {name: (-len(shape),) for name, shape in shapes.items() if name.endswith('kernel')}

    def _check_width(self, inputs):
        if self.has_variable('params', 'input_kernel'):
            width = nn.unbox(self.get_variable('params', 'input_kernel')).shape[0]
            if inputs.shape[-1] != width:
                raise ValueError(f'inputs have shape {inputs.shape}, width {inputs.shape[-1]}; '
                                 f'the parameters of {self.name} were made for width {width}')

    def _weight(self, name, shape):
        if name.endswith('bias') and not self.bias:
            return jnp.zeros(shape)
        start, axes = _weight(self.cell, name)
        weight = parameter(self, name, partitioned(start, axes), shape)
        return weight.astype(self.dtype) if name.endswith('kernel') else weight  # the matmuls are in dtype, nothing else

    def _fresh_state(self, rows):
        """The state that a sequence starts from: zeros, or learned."""
        if not self.learned_state:
            return zero_state(self.cell, rows, self.features)
        zeros = zero_state(self.cell, rows, self.features)
        learned = [self.param(f'initial_{part}', partitioned(nn.initializers.zeros, ('hidden',)), zero.shape[1:])
                   for part, zero in zip(self.cell.parts, zeros)]
        return tuple(zero + part.astype(zero.dtype) for zero, part in zip(zeros, learned))

    def _hold(self, shape, train):
        """Zoneout (Krueger et al. 2017): every unit keeps its old value with this probability."""
        if not self.zoneout:
            return None
        if not train:
            return (self.zoneout,) * len(self.cell.parts)
        keys = jax.random.split(self.make_rng('dropout'), len(self.cell.parts))
        return tuple(jax.random.bernoulli(key, self.zoneout, (*shape[:2], width)).astype(jnp.float32)
                     for key, width in zip(keys, self.cell.state_shapes(self.features)))

    def _state_mask(self, rows, train):
        """Recurrent dropout (Gal & Ghahramani 2016): one mask over h for all steps of a row."""
        if not (train and self.recurrent_dropout):
            return None
        return self._dropped(jnp.ones((rows, self.cell.output_width(self.features))), self.recurrent_dropout)

    def _dropped(self, array, rate):
        return nn.Dropout(rate, deterministic=False)(array)


class Recurrent(nn.Module):
    """A stack of recurrent layers of any cell.

        outputs, final_state = nn.LSTM(features=256, num_layers=2).apply(variables, inputs, lengths)

    features: hidden units of every layer, or one number a layer. cell: a name of `ops.CELLS` or a cell, such as
        ops.LSTM(candidate='sigmoid'). bidirectional: a second layer reads each row from its own end, and `merge` says what
        becomes of the two outputs: 'concat', 'mean', 'sum' or 'project' (a learned map of both to the width of one).
    dropout: between layers; variational: with one mask for all steps of a row. recurrent_dropout: the same on h inside the
        loop. zoneout, weight_drop (DropConnect on U, Merity et al. 2018): rates. learned_state: the first state is learned.
    unroll, checkpoint_every: see `ops.recur`.

    inputs: [B, T, D]. lengths: [B] or None; outputs past a row's length are zero, its final state is the one at its own
    end. segments: [B, T] or None, for rows that hold several sequences. The state is a tuple with one entry a layer, a
    tuple of the parts of the cell's state, each [B, N] and float32 (LRU: complex64); with two directions the entry is
    (forward state, backward state).
    """

    features: int | Sequence[int]
    num_layers: int = 1
    cell: str | ops.Cell = 'lstm'
    bidirectional: bool = False
    merge: str = 'concat'
    bias: bool = True
    dropout: float = 0.0
    variational: bool = False
    recurrent_dropout: float = 0.0
    zoneout: float = 0.0
    weight_drop: float = 0.0
    learned_state: bool = False
    unroll: int = 1
    checkpoint_every: int = 0
    dtype: jnp.dtype = jnp.float32

    def __post_init__(self):
        super().__post_init__()
        cell = ops.make_cell(self.cell)
        if self.merge not in MERGES:
            raise FieldError('merge', self.merge, f'choose one of: {", ".join(MERGES)}')
        if not isinstance(self.features, int) and self.num_layers not in (1, len(self.features)):
            reason = f'features={tuple(self.features)} are {len(self.features)} layers'
            raise FieldError('num_layers', self.num_layers, reason)
        for field, least in (('num_layers', 1), ('unroll', 1), ('checkpoint_every', 0)):
            if getattr(self, field) < least:
                raise FieldError(field, getattr(self, field), f'must be at least {least}')
        if min(self.widths, default=0) < 1:
            raise FieldError('features', self.features, 'every layer needs at least one hidden unit')
        for field in ('dropout', 'recurrent_dropout', 'zoneout', 'weight_drop'):
            if not 0 <= getattr(self, field) < 1:
                raise FieldError(field, getattr(self, field), 'must be at least 0 and less than 1')
        for field in ('recurrent_dropout', 'weight_drop'):
            if getattr(self, field) and 'recurrent_kernel' not in cell.weight_shapes(1, 1):
                raise FieldError(field, getattr(self, field), f'cell {self.cell!r} has no recurrent matrix of free weights')

    @nn.compact
    def __call__(self, inputs, lengths=None, initial_state=None, *, segments=None, train=False):
        widths = self.widths
        if initial_state is None:
            initial_state = (None,) * len(widths)
        self._check_state(initial_state, inputs.shape[0])
        x, final_state = inputs, []
        for number, (width, state) in enumerate(zip(widths, initial_state)):
            if number:
                x = nn.Dropout(self.dropout, broadcast_dims=(1,) if self.variational else (), deterministic=not train)(x)
            layer = functools.partial(self._layer, number, width, x, lengths, segments=segments, train=train)
            if self.bidirectional:
                forward, backward = (None, None) if state is None else state
                (x, forward), (y, backward) = layer(forward), layer(backward, reverse=True)
                x, state = self._merge(x, y, number), (forward, backward)
            else:
                x, state = layer(state)
            final_state.append(state)
        return x, tuple(final_state)

    @property
    def widths(self):
        """The hidden units of every layer."""
        return (self.features,) * self.num_layers if isinstance(self.features, int) else tuple(self.features)

    @nn.nowrap
    def zero_state(self, batch_size):
        """The state before the first step of a stack whose first state is not learned."""
        states = (zero_state(ops.make_cell(self.cell), batch_size, width) for width in self.widths)
        return tuple((state, state) if self.bidirectional else state for state in states)

    def _check_state(self, initial_state, rows):
        expected = self.zero_state(rows)
        if len(initial_state) != len(expected):
            raise ValueError(f'initial_state has {len(initial_state)} layers; this stack has {len(expected)}')
        for number, state in enumerate(initial_state):
            found, takes = jax.tree.map(jnp.shape, (state, expected[number]))
            if state is not None and found != takes:
                pair = ', (forward state, backward state)' * self.bidirectional
                raise ValueError(f'initial_state[{number}] has shapes {found}; this layer takes {takes}{pair}')

    def _layer(self, number, width, inputs, lengths, state, *, reverse=False, segments, train):
        same = ('bias', 'recurrent_dropout', 'zoneout', 'weight_drop', 'learned_state', 'unroll', 'checkpoint_every',
                'dtype')
        layer = RecurrentLayer(width, ops.make_cell(self.cell), reverse, **{field: getattr(self, field) for field in same},
                               name=f'layer_{number}' + '_reverse' * reverse)
        return layer(inputs, lengths, state, segments=segments, train=train)

    def _merge(self, forward, backward, number):
        if self.merge == 'concat':
            return jnp.concatenate((forward, backward), axis=-1)
        if self.merge == 'project':
            both = jnp.concatenate((forward, backward), axis=-1)
            return Projection(forward.shape[-1:], ('hidden', 'embed'), kernel_init=nn.initializers.lecun_normal(),
                              dtype=self.dtype, name=f'merge_{number}')(both)
        return (forward + backward) * (0.5 if self.merge == 'mean' else 1)


class RNN(Recurrent):
    """Elman's network, with 'tanh' or 'relu' as its non-linearity."""

    cell: str | ops.Cell = 'elman'
    nonlinearity: str = 'tanh'

    def __post_init__(self):
        if self.nonlinearity not in ('tanh', 'relu'):
            raise FieldError('nonlinearity', self.nonlinearity, 'choose one of: relu, tanh')
        if self.nonlinearity == 'relu':
            if self.cell not in ('elman', 'relu'):
                raise FieldError('nonlinearity', 'relu', f'cell={self.cell!r} has its own; leave one of the two out')
            object.__setattr__(self, 'cell', 'relu')
        super().__post_init__()


class LSTM(Recurrent):
    """Long short-term memory; cell='peephole_lstm', 'coupled_lstm', 'layer_norm_lstm' and ops.ProjectedLSTM vary it."""

    cell: str | ops.Cell = 'lstm'


class GRU(Recurrent):
    """The gated recurrent unit, its reset gate after the matmul; cell='gru_before' has it before."""

    cell: str | ops.Cell = 'gru'


def zero_state(cell, rows, features):
    dtype = jnp.complex64 if isinstance(cell, ops.LRU) else jnp.float32
    return tuple(jnp.zeros((rows, width), dtype) for width in cell.state_shapes(features))


def _weight(cell, name):
    """How a weight starts, and the logical names of its axes."""
    starts = {
        'input_kernel': (_uniform_gates, ('embed', None, 'hidden')),
        'recurrent_kernel': (_orthogonal_gates, ('embed', None, 'hidden')),
        'bias': (functools.partial(_biases, cell), (None, 'hidden')),
        'threshold': (_thresholds, ('hidden',)),
        'skew': (_random_rotations, (None, None)),
        'peephole': (nn.initializers.zeros, (None, 'hidden')),
        'input_scale': (nn.initializers.ones, (None, 'hidden')),
        'recurrent_scale': (nn.initializers.ones, (None, 'hidden')),
        'cell_scale': (nn.initializers.ones, ('hidden',)),
        'cell_shift': (nn.initializers.zeros, ('hidden',)),
        'projection_kernel': (nn.initializers.orthogonal(), ('hidden', 'embed')),
        'candidate_kernel': (nn.initializers.orthogonal(), ('embed', 'hidden')),
        'candidate_bias': (nn.initializers.zeros, ('hidden',)),
        'nu': (functools.partial(_ring, cell), ('hidden',)),
        'theta': (functools.partial(_angles, cell), ('hidden',)),
        'output_kernel': (_uniform_gates, ('embed', None, 'hidden')),
        'skip_kernel': (nn.initializers.lecun_normal(), ('embed', 'hidden')),
        'gate_kernel': (nn.initializers.lecun_normal(), ('embed', 'hidden')),
    }
    return starts[name]


def _uniform_gates(key, shape, dtype=jnp.float32):
    """Glorot's uniform for each gate's own [D, N] matrix."""
    D, _, N = shape
    limit = jnp.sqrt(6 / (D + N)).astype(dtype)
    return jax.random.uniform(key, shape, dtype, -limit, limit)


def _orthogonal_gates(key, shape, dtype=jnp.float32):
    """An orthogonal [M, N] matrix for each gate."""
    M, gates, N = shape
    keys = jax.random.split(key, gates)
    return jnp.stack([nn.initializers.orthogonal()(k, (M, N), dtype) for k in keys], axis=1)


def _biases(cell, key, shape, dtype=jnp.float32):
    """Zeros, and the cell's `forget_bias` for its forget gate."""
    del key
    bias = jnp.zeros(shape, dtype)
    return bias.at[cell.gate_names.index('f')].set(cell.forget_bias) if 'f' in cell.gate_names else bias


def _thresholds(key, shape, dtype=jnp.float32):
    """Between -0.5 and 0: with thresholds of 0 modrelu would be the identity, and the network linear."""
    return jax.random.uniform(key, shape, dtype, -0.5, 0)


def _random_rotations(key, shape, dtype=jnp.float32):
    """Rotations of pairs of units by random angles: Cayley's transform of tan(angle / 2) is a rotation by that angle.

    Henaff et al. 2016, initialisation by blocks; half of the circle is left out, where the tangent grows without bound.
    """
    N = shape[0]
    angles = jax.random.uniform(key, (N // 2,), dtype, -jnp.pi / 2, jnp.pi / 2)
    even = jnp.arange(N // 2) * 2
    return jnp.zeros(shape, dtype).at[even, even + 1].set(jnp.tan(angles / 2))


def _ring(cell, key, shape, dtype=jnp.float32):
    """nu with |lambda|^2 = exp(-2 exp(nu)) uniform between the squares of the ring's radii (Orvieto et al. 2023)."""
    square = jax.random.uniform(key, shape, dtype, cell.smallest ** 2, cell.largest ** 2)
    return jnp.log(-0.5 * jnp.log(square))


def _angles(cell, key, shape, dtype=jnp.float32):
    """theta, with exp(theta) uniform between 0 and the cell's largest angle."""
    return jnp.log(jax.random.uniform(key, shape, dtype, 1e-6, cell.angle))
