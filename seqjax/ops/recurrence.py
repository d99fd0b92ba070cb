"""Recurrence: cells are equations, and one engine runs any of them over time.

    r_t = h_{t-1} U                     the engine's matmul: [B, N] x [N, G, N]
    s_t = cell(x_t, r_t, s_{t-1})       the cell's equation; the state s is a tuple that starts with h

Shapes: B batch, T steps, N hidden width, G gates. The input projections x_t = W i_t + b of all steps are one matmul
before the loop. The backward pass is written by hand: the reverse loop carries only the gradient of the state, and
the gradient of U is one matmul after it instead of an accumulator inside it.
"""

import functools

import jax
import jax.numpy as jnp


def lstm_cell(x, r, state):
    """One step of the LSTM (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000).

        i, f, g, o = x + r
        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h' = sigmoid(o) * tanh(c')

    x, r: [B, 4, N]; state: (h [B, N], c [B, N]).
    """
    _, c = state
    i, f, g, o = jnp.moveaxis(x + r, -2, 0)  # each [B, N]
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return h, c


def recur(cell, kernel, inputs, state, lengths=None):
    """Runs `cell` over time and returns (outputs [B, T, N], final state).

    cell: a function (x [B, G, N], r [B, G, N], state) -> state.
    kernel: U, [N, G, N]; its dtype is the dtype of the matmuls, while the state stays in its own (float32).
    inputs: projected inputs, [T, B, G, N]: time leads, as the loop reads them.
    state: tuple of [B, N], h first.
    lengths: [B] or None. Past a row's length its state is frozen and its outputs are zero.
    """
    T = inputs.shape[0]
    valid = None if lengths is None else jnp.arange(T)[:, None] < lengths  # [T, B]
    outputs, state = _recur(cell, kernel, inputs, state, valid)
    return jnp.swapaxes(outputs, 0, 1), state


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _recur(cell, kernel, inputs, state, valid):
    (outputs, state), _ = _forward(cell, kernel, inputs, state, valid)
    return outputs, state


def _forward(cell, kernel, inputs, state, valid):
    def step(state, now):
        x, keep = now
        r = jnp.einsum('bn,ngm->bgm', state[0].astype(kernel.dtype), kernel, preferred_element_type=state[0].dtype)
        new = _freeze(keep, cell(x, r, state), state)
        return new, (_zero_past_end(keep, new[0]), r, state)

    final, (outputs, recurrent, before) = jax.lax.scan(step, state, (inputs, valid))
    return (outputs, final), (kernel, inputs, recurrent, before, valid)


def _backward(cell, saved, gradients):
    kernel, inputs, recurrent, before, valid = saved
    d_outputs, d_final = gradients

    def step(d_state, now):
        x, r, state, d_output, keep = now
        d_state = (d_state[0] + _zero_past_end(keep, d_output), *d_state[1:])
        _, pull = jax.vjp(cell, x, r, state)
        dx, dr, d_before = pull(d_state)
        dh = jnp.einsum('bgm,ngm->bn', dr.astype(kernel.dtype), kernel, preferred_element_type=dr.dtype)
        d_before = (d_before[0] + dh, *d_before[1:])
        if keep is not None:  # a frozen step passes its gradient straight through and touches no weight
            dx, dr = (jnp.where(keep[:, None, None], d, 0) for d in (dx, dr))
            d_before = _freeze(keep, d_before, d_state)
        return d_before, (dx, dr)

    d_state, (d_inputs, d_recurrent) = jax.lax.scan(
        step, d_final, (inputs, recurrent, before, d_outputs, valid), reverse=True)
    d_kernel = jnp.einsum('tbn,tbgm->ngm', before[0].astype(kernel.dtype), d_recurrent.astype(kernel.dtype))
    return d_kernel, d_inputs, d_state, None


_recur.defvjp(_forward, _backward)


def _freeze(keep, new, old):
    """`new` where a row is still running, `old` where it has ended."""
    if keep is None:
        return new
    return tuple(jnp.where(keep[:, None], n, o) for n, o in zip(new, old))


def _zero_past_end(keep, output):
    return output if keep is None else jnp.where(keep[:, None], output, 0)
