"""How much memory the gradient of a long sequence needs, as the compiler plans it: states that are stored only now and then,
and attention block by block."""

import functools

import jax
import jax.numpy as jnp

from seqjax import nn, ops

B, T, D, N = 4, 8192, 32, 64


@functools.cache
def bytes_needed(checkpoint_every):
    """Temporary memory of the compiled gradient of a function of the final state."""
    layer, inputs = nn.LSTM(N, checkpoint_every=checkpoint_every), jax.ShapeDtypeStruct((B, T, D), jnp.float32)
    variables = jax.eval_shape(layer.init, jax.random.key(0), inputs)
    gradient = jax.jit(jax.grad(lambda variables, inputs: layer.apply(variables, inputs)[1][0][0].sum(), argnums=(0, 1)))
    return gradient.lower(variables, inputs).compile().memory_analysis().temp_size_in_bytes


def test_a_long_sequence_in_pieces_needs_less_than_a_tenth_of_the_memory():
    assert bytes_needed(0) > 10 * 4 * B * T * N  # gates, states and projected inputs of every step
    assert bytes_needed(91) < bytes_needed(0) / 10  # 91 is about the square root of T


@functools.cache
def bytes_of_attention(implementation, T):
    """Temporary memory of causal attention and its gradient, compiled."""
    loss = lambda *qkv: ops.attend(*qkv, ops.Mask(causal=True), implementation=implementation).sum()
    shapes = 3 * [jax.ShapeDtypeStruct((1, T, 2, 32), jnp.float32)]
    return jax.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(*shapes).compile().memory_analysis().temp_size_in_bytes


def test_attention_block_by_block_needs_less_than_a_tenth_of_the_memory_and_it_is_linear():
    assert bytes_of_attention('plain', T) > 2 * 4 * T * T  # the scores of two heads
    for implementation in ('blockwise', 'auto'):
        assert bytes_of_attention(implementation, T) < bytes_of_attention('plain', T) / 10
        assert bytes_of_attention(implementation, 2 * T) < 2.2 * bytes_of_attention(implementation, T)
