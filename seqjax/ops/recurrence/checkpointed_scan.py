"""Long sequences in pieces: only the states between pieces are stored, and a piece is computed again when its gradient is due.

With pieces of sqrt(T) steps the memory grows with sqrt(T) instead of T, for one more forward pass (Chen et al. 2016).
"""

import functools

import jax
import jax.numpy as jnp


def run_in_pieces(run, steps, reverse, constants, inputs, state, masks):
    """`run` over pieces of `steps` steps and a rest, with only the states between them stored (Chen et al. 2016)."""
    T = inputs.shape[1]
    whole = T - T % steps
    pieces = functools.partial(_pieces, run, steps, reverse, whole)
    rest = jax.checkpoint(lambda constants, inputs, state: run(
        constants, inputs[:, whole:], state, jax.tree.map(lambda mask: mask[:, whole:], masks)))
    if whole == T:
        return pieces(constants, inputs, state, masks)
    first, second = (rest, lambda *now: pieces(*now, masks)) if reverse else (lambda *now: pieces(*now, masks), rest)
    outputs, state = first(constants, inputs, state)
    more, state = second(constants, inputs, state)
    return jnp.concatenate((more, outputs) if reverse else (outputs, more), axis=1), state


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2, 3))
def _pieces(run, steps, reverse, whole, constants, inputs, state, masks):
    """(outputs, final state) of the first `whole` steps. Pieces are cut out of [B, T, ...] one by one, never all at once."""
    return _pieces_forward(run, steps, reverse, whole, constants, inputs, state, masks)[0]


def _pieces_forward(run, steps, reverse, whole, constants, inputs, state, masks):
    def piece(carry, start):
        state, outputs = carry
        some, new = run(constants, _cut(inputs, start, steps), state, _cut(masks, start, steps))
        return (new, jax.lax.dynamic_update_slice_in_dim(outputs, some, start, axis=1)), state

    B, width = inputs.shape[0], jax.eval_shape(run, constants, inputs, state, masks)[0]
    (final, outputs), before = jax.lax.scan(piece, (state, jnp.zeros((B, whole, width.shape[2]), width.dtype)),
                                            jnp.arange(0, whole, steps), reverse=reverse)
    return (outputs, final), (constants, inputs, masks, before)


def _pieces_backward(run, steps, reverse, whole, saved, gradients):
    constants, inputs, masks, before = saved
    d_outputs, d_final = gradients

    def piece(carry, now):
        (d_constants, d_inputs, d_state), (start, state) = carry, now
        again = lambda constants, inputs, state: run(constants, inputs, state, _cut(masks, start, steps))
        _, pull = jax.vjp(again, constants, _cut(inputs, start, steps), state)
        more, some, d_state = pull((_cut(d_outputs, start, steps), d_state))
        d_inputs = jax.lax.dynamic_update_slice_in_dim(d_inputs, some, start, axis=1)
        return (jax.tree.map(jnp.add, d_constants, more), d_inputs, d_state), None

    zeros = jax.tree.map(jnp.zeros_like, (constants, inputs))
    (d_constants, d_inputs, d_state), _ = jax.lax.scan(piece, (*zeros, d_final), (jnp.arange(0, whole, steps), before),
                                                       reverse=not reverse)
    return d_constants, d_inputs, d_state, None


_pieces.defvjp(_pieces_forward, _pieces_backward)


def _cut(tree, start, steps):
    return jax.tree.map(lambda array: jax.lax.dynamic_slice_in_dim(array, start, steps, axis=1), tree)
