"""Finding the recurrent layers of any model, with all that is needed to run each of them again, step by step."""

from typing import Any

from flax import linen, struct
from flax.core import meta
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.nn.recurrent import RecurrentLayer


@struct.dataclass
class RecurrentCall:
    """One call of one `nn.RecurrentLayer`: arrays, so that it may leave a jitted function.

    weights: what `ops.recur` takes, in float32. inputs: [B, T, D]. lengths: [B]. state: tuple of [B, ...], the one that
    the last sequence of each row started from. steps: [B], of that sequence; the row's length, where it holds one sequence.
    """

    cell: Any = struct.field(pytree_node=False)
    reverse: bool = struct.field(pytree_node=False)
    weights: dict
    inputs: jax.Array
    lengths: jax.Array
    state: tuple
    steps: jax.Array
    zoneout: float = struct.field(pytree_node=False, default=0.0)

    def in_order(self):
        """(inputs [B, T, D], valid [B, T]) in the order in which the layer reads, every row ending at the last place."""
        T = self.inputs.shape[1]
        valid = jnp.arange(T) >= T - self.steps[:, None]
        if self.reverse:
            return jnp.flip(self.inputs, axis=1), valid
        return jax.vmap(lambda row, length: jnp.roll(row, T - length, axis=0))(self.inputs, self.lengths), valid

    def advance(self, state, inputs):
        """One step of the layer in evaluation: state, inputs [B, D] -> state."""
        new = ops.advance(self.cell, self.weights, inputs, state)
        return tuple(self.zoneout * old + (1 - self.zoneout) * part for old, part in zip(state, new))


def recurrent_layers(function, *args, **kwargs):
    """{path: RecurrentCall} of every recurrent layer that `function(*args, **kwargs)` calls.

        layers = jax.jit(lambda params, tokens: recurrent_layers(model.apply, {'params': params}, tokens))(params, tokens)

    function: the `apply` of a model, a task, or whatever calls them. A layer that is called twice appears twice, as
    'path' and 'path#2'. Layers inside a lifted loop (`linen.scan`) cannot be taken out of it and are refused by jax.
    """
    calls = {}

    def record(path, call, result):
        calls[path] = call
        return result

    watching_layers(record, function, *args, **kwargs)
    return calls


def watching_layers(visit, function, *args, **kwargs):
    """Runs function(*args, **kwargs); what a recurrent layer returns becomes visit(path, RecurrentCall, its result)."""
    seen = {}

    def intercept(method, args, kwargs, context):
        result, layer = method(*args, **kwargs), context.module
        if context.method_name != '__call__' or not isinstance(layer, RecurrentLayer):
            return result
        name = '/'.join(layer.path)
        seen[name] = seen.get(name, 0) + 1
        return visit(name if seen[name] == 1 else f'{name}#{seen[name]}', _call(layer, *args, **kwargs), result)

    with linen.intercept_methods(intercept):
        return function(*args, **kwargs)


def _call(layer, inputs, lengths=None, state=None, *, segments=None, train=False):
    del train  # layers are looked at as in evaluation
    params = {name: value.astype(jnp.float32) for name, value in meta.unbox(layer.variables['params']).items()}
    weights = {name: params[name] for name in layer.cell.weights(inputs.shape[-1], layer.features) if name in params}
    B, T, _ = inputs.shape
    lengths = jnp.full(B, T, jnp.int32) if lengths is None else lengths
    fresh = tuple(params.get(f'initial_{part}', zeros) + zeros
                  for part, zeros in zip(layer.cell.parts, layer.cell.zero_state(B, layer.features)))
    state, steps = fresh if state is None else state, lengths
    if segments is not None:
        steps = _last_segment(segments, lengths, layer.reverse)
        state = ops.select_rows(steps == lengths, state, fresh)
    inputs = inputs.astype(jnp.float32)
    return RecurrentCall(layer.cell, layer.reverse, weights, inputs, lengths, state, steps, layer.zoneout)


def _last_segment(segments, lengths, reverse):
    """How many steps the sequence has that is read last, [B]."""
    end = jnp.zeros_like(lengths) if reverse else jnp.maximum(lengths - 1, 0)
    same = segments == jnp.take_along_axis(segments, end[:, None], axis=1)
    return (same & (jnp.arange(segments.shape[1]) < lengths[:, None])).sum(axis=1, dtype=lengths.dtype)
