"""Recurrent layers: the parameters of `ops.recur`, stacked, in one direction or both."""

from collections.abc import Sequence
import dataclasses
import functools

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError, check_at_least, check_rates
from seqjax.nn.projection import Projection, parameter, partitioned

MERGES = ('concat', 'mean', 'sum', 'project')


class Regularisers(nn.Module, kw_only=True):
    """The regularisers of a recurrent layer, as fields of the layer, of stacks of it and of models.

    recurrent_dropout: one mask over h for all time steps of a row (Gal & Ghahramani 2016). zoneout: every unit keeps its old value
    with this probability (Krueger et al. 2017). weight_drop: DropConnect on U (Merity et al. 2018). learned_state: the first state
    is learned.
    """

    recurrent_dropout: float = 0.0
    zoneout: float = 0.0
    weight_drop: float = 0.0
    learned_state: bool = False

    @nn.nowrap
    def regularisers(self) -> dict[str, float | bool]:
        """These fields, for another module that has them."""
        return {name: getattr(self, name) for name in REGULARISERS}


REGULARISERS = tuple(field.name for field in dataclasses.fields(Regularisers) if field.name not in ('parent', 'name'))


class RecurrentLayer(Regularisers):
    """One layer in one direction. Equations: its cell, see `ops.Cell`. inputs [B, T, D] -> outputs [B, T, M], final state.

    Its parameters are the weights that `ops.recur` takes. In training each of the regularisers below acts; in evaluation
    only zoneout does, with its expectation.
    """

    features: int
    cell: ops.Cell
    reverse: bool = False
    bias: bool = True
    unroll: int = 1
    checkpoint_every: int = 0
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, inputs, lengths=None, state=None, *, segments=None, train=False):
        self._check_width(inputs)
        declared = self.cell.weights(inputs.shape[-1], self.features)
        weights = {name: self._weight(name, weight) for name, weight in declared.items()}
        if train and self.weight_drop:
            weights['recurrent_kernel'] = self._dropped(weights['recurrent_kernel'], self.weight_drop)
        fresh = self._fresh_state(inputs.shape[0])
        inputs, state = ops.constrain(inputs, 'batch', ..., 'embed'), fresh if state is None else state
        outputs, final = ops.recur(
            self.cell, weights, inputs, _by_rows(state), lengths, reverse=self.reverse,
            segments=segments, fresh=fresh, hold=self._hold(inputs.shape, train),
            state_mask=self._state_mask(inputs.shape[0], train), unroll=self.unroll,
            checkpoint_every=self.checkpoint_every)
        return ops.constrain(outputs.astype(self.dtype), 'batch', ..., 'embed'), _by_rows(final)

    @nn.nowrap
    def summed_axes(self):
        """See `Projection.summed_axes`: all matrices of a cell sum over their first axis."""
        declared = self.cell.weights(self.features, self.features)
        return {name: (-len(weight.shape),) for name, weight in declared.items() if weight.kind == 'matrix'}

    def _check_width(self, inputs):
        if self.has_variable('params', 'input_kernel'):
            width = nn.unbox(self.get_variable('params', 'input_kernel')).shape[0]
            if inputs.shape[-1] != width:
                raise ValueError(f'inputs have shape {inputs.shape}, width {inputs.shape[-1]}; '
                                 f'the parameters of {self.name} were made for width {width}')

    def _weight(self, name, declared):
        if declared.kind == 'bias' and not self.bias:
            return jnp.zeros(declared.shape)
        weight = parameter(self, name, partitioned(declared.init, declared.axes), declared.shape)
        weight = weight.astype(self.dtype) if declared.kind == 'matrix' else weight  # the matmuls are in dtype, nothing else
        # The loop needs all of it at every step: it comes before the loop begins.
        axes = ('whole' if axis == 'embed' else axis for axis in declared.axes)
        return ops.constrain(weight, *axes)

    def _fresh_state(self, rows):
        """The state that a sequence starts from: zeros, or learned."""
        zeros = self.cell.zero_state(rows, self.features)
        if not self.learned_state:
            return zeros
        axes = lambda part: ('hidden', *(None,) * (len(part.shape) - 1))
        learned = [self.param(f'initial_{name}', partitioned(nn.initializers.zeros, axes(part)), part.shape)
                   for name, part in self.cell.state(self.features).items()]
        return tuple(zero + part.astype(zero.dtype) for zero, part in zip(zeros, learned))

    def _hold(self, shape, train):
        """Zoneout (Krueger et al. 2017): every unit keeps its old value with this probability."""
        if not self.zoneout:
            return None
        parts = self.cell.state(self.features).values()
        if not train:
            return (self.zoneout,) * len(parts)
        keys = jax.random.split(self.make_rng('dropout'), len(parts))
        return tuple(jax.random.bernoulli(key, self.zoneout, (*shape[:2], *part.shape)).astype(jnp.float32)
                     for key, part in zip(keys, parts))

    def _state_mask(self, rows, train):
        """Recurrent dropout (Gal & Ghahramani 2016): one mask over h for all steps of a row."""
        if not (train and self.recurrent_dropout):
            return None
        return self._dropped(jnp.ones((rows, self.cell.output_width(self.features))), self.recurrent_dropout)

    def _dropped(self, array, rate):
        return nn.Dropout(rate, deterministic=False)(array)


def _by_rows(state):
    """A state before or after the loop, and its gradient, where its rows lie: see `Projection`."""
    return tuple(ops.constrain(part, 'batch', 'embed', ...) for part in state)


class Recurrent(Regularisers):
    """A stack of recurrent layers of any cell.

        outputs, final_state = nn.LSTM(features=256, num_layers=2).apply(variables, inputs, lengths)

    features: hidden units of every layer, or one number a layer. cell: a name of `ops.CELLS` or a cell, such as
        ops.LSTM(candidate='sigmoid'). bidirectional: a second layer reads each row from its own end, and `merge` says what
        becomes of the two outputs: 'concat', 'mean', 'sum' or 'project' (a learned map of both to the width of one).
    dropout: between layers; variational: with one mask for all steps of a row. Inside the loop: see `Regularisers`.
    unroll, checkpoint_every: see `ops.recur`.

    inputs: [B, T, D]. lengths: [B] or None; outputs past a row's length are zero, its final state is the one at its own
    end. segments: [B, T] or None, for rows that hold several sequences. The state is a tuple with one entry a layer, a
    tuple of the parts of the cell's state, each [B, ...] with the shape and dtype that the cell declares; with two
    directions the entry is (forward state, backward state).
    """

    features: int | Sequence[int]
    num_layers: int = 1
    cell: str | ops.Cell = 'lstm'
    bidirectional: bool = False
    merge: str = 'concat'
    bias: bool = True
    dropout: float = 0.0
    variational: bool = False
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
        check_at_least(self, 1, 'num_layers', 'unroll')
        check_at_least(self, 0, 'checkpoint_every')
        if min(self.widths, default=0) < 1:
            raise FieldError('features', self.features, 'every layer needs at least one hidden unit')
        check_rates(self, 'dropout', 'recurrent_dropout', 'zoneout', 'weight_drop')
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

    @property
    def output_width(self):
        """What the last layer puts out, in one direction."""
        return ops.make_cell(self.cell).output_width(self.widths[-1])

    @nn.nowrap
    def zero_state(self, batch_size):
        """The state before the first step of a stack whose first state is not learned."""
        states = (ops.make_cell(self.cell).zero_state(batch_size, width) for width in self.widths)
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
        layer = RecurrentLayer(width, ops.make_cell(self.cell), reverse, self.bias, self.unroll, self.checkpoint_every, self.dtype,
                               **self.regularisers(), name=f'layer_{number}' + '_reverse' * reverse)
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
