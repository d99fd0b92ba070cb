"""The gradient of a loss at the end of every recurrent layer: what then travels back through time."""

import jax
import jax.numpy as jnp

from seqjax.analysis.recurrent.gradients import as_reals, as_state
from seqjax.analysis.recurrent.layers import watching_layers


def end_gradients(loss, *args):
    """({path: RecurrentCall}, {path: dL/ds_T [B, P]}) of every recurrent layer that loss(*args) -> number calls.

    dL/ds_T is what reaches the last state of a row from outside of the layer: through its last output and through the final
    state. Losses at earlier steps are left out, so that what is found at lag k has come k steps through the recurrence.
    """
    def run(shifts):
        calls, sizes = {}, {}

        def visit(path, call, result):
            outputs, state = result
            calls[path], sizes[path] = call, (outputs, as_reals(state))
            if not shifts:
                return result
            d_outputs, d_state = shifts[path]
            return outputs + d_outputs, tuple(s + d for s, d in zip(state, as_state(d_state, state)))

        return watching_layers(visit, loss, *args), (calls, sizes)

    _, (_, sizes) = jax.eval_shape(run, {})
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), sizes)
    gradients, (calls, sizes) = jax.grad(run, has_aux=True)(zeros)
    ends = {path: _at_the_end(call, *gradients[path], sizes[path][1]) for path, call in calls.items()}
    return calls, ends


def _at_the_end(call, d_outputs, d_state, state):
    """dL/ds_T from the gradients of all outputs [B, T, M] and of the final state [B, P]."""
    last = jnp.zeros_like(call.lengths) if call.reverse else jnp.maximum(call.lengths - 1, 0)
    pick = jax.vmap(lambda row, t: row[t])
    d_output, inputs = pick(d_outputs, last), pick(call.inputs, last)  # [B, M], [B, D]

    def output(state):
        h = as_state(state, call.state)[0]
        h = call.cell.outputs(call.weights, h[:, None], inputs[:, None])[:, 0] if call.cell.linear else h
        return h.astype(d_output.dtype)

    _, pull = jax.vjp(output, state)
    return d_state + pull(d_output)[0]
