"""The rungs below a recurrent network against a plain loop over rows and steps."""

import functools

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models
from tests.reference.parameters import random_parameters

B, T, V, D, L = 3, 5, 7, 4, 2
LADDER = ['per_step', 'unshared']


@functools.cache
def make(name, **fields):
    """A model with random parameters, and tokens in which some repeat."""
    model = models.build(name, vocabulary=V, context_length=T, width=D, depth=L, **fields)
    tokens = np.random.default_rng(0).integers(0, V, (B, T)).astype(np.int32)
    tokens[1] = tokens[0, 0]
    return model, random_parameters(model, tokens), tokens


@functools.cache
def logits(name):
    model, params, tokens = make(name)
    return np.asarray(jax.jit(model.apply)({'params': params}, tokens))


def numpy_logits(params, tokens):
    """Step t uses the weights of step t, or the only ones there are."""
    layers = [params['network'][name] for name in ('hidden_0', 'hidden_1', 'output')]
    table = params['network']['embedding']
    result = np.zeros((B, tokens.shape[1], V))
    for b in range(B):
        for t, token in enumerate(tokens[b]):
            own = t if len(table) > 1 else 0
            x = table[own, token].astype(np.float64)
            for number, layer in enumerate(layers):
                x = x @ layer['kernel'][own] + layer['bias'][own]
                x = np.maximum(x, 0) if number < L else x
            result[b, t] = x
    return result


@pytest.mark.parametrize('name', LADDER)
def test_logits_equal_a_loop_over_steps(name):
    _, params, tokens = make(name)
    np.testing.assert_allclose(logits(name), numpy_logits(params, tokens), rtol=1e-5, atol=1e-5)


def test_only_unshared_weights_tell_the_steps_of_a_repeated_token_apart():
    repeated = {name: logits(name)[1] for name in LADDER}  # row 1 is one token, T times
    np.testing.assert_array_equal(repeated['per_step'], np.repeat(repeated['per_step'][:1], T, axis=0))
    assert len(np.unique(repeated['unshared'].round(3), axis=0)) == T


@pytest.mark.parametrize('name', LADDER)
def test_a_prediction_sees_its_own_token_and_no_other(name):
    model, params, tokens = make(name)
    changed = tokens.copy()
    changed[:, 2] = (changed[:, 2] + 1) % V
    different = (np.asarray(jax.jit(model.apply)({'params': params}, changed)) != logits(name)).any(axis=-1)
    assert different.tolist() == [[t == 2 for t in range(T)]] * B


def test_sharing_is_cheaper_by_the_number_of_steps():
    size = {name: sum(leaf.size for leaf in jax.tree.leaves(make(name)[1])) for name in LADDER}
    assert size['per_step'] == V * D + L * (D * D + D) + D * V + V
    assert size['unshared'] == T * size['per_step']


def test_rows_may_be_shorter_than_the_weights_reach_and_not_longer():
    model, params, tokens = make('unshared')
    short = jax.jit(model.apply)({'params': params}, tokens[:, :3])
    np.testing.assert_allclose(short, logits('unshared')[:, :3], rtol=1e-6)
    with pytest.raises(ValueError, match='6 tokens in a row, and weights for 5 steps'):
        model.apply({'params': params}, np.zeros((1, T + 1), np.int32))
    longer = np.tile(tokens, (1, 3))
    model, params, _ = make('per_step')
    found = jax.jit(model.apply)({'params': params}, longer)
    np.testing.assert_allclose(found, np.tile(logits('per_step'), (1, 3, 1)), rtol=1e-5)


@pytest.mark.parametrize('name', LADDER)
def test_bfloat16_and_dropout(name):
    model, params, tokens = make(name, dtype='bfloat16', dropout=0.5)
    apply, variables = jax.jit(model.apply, static_argnames='train'), {'params': params}
    found = apply(variables, tokens)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float32(found), logits(name), atol=0.05 * np.abs(logits(name)).max())
    first, other = (apply(variables, tokens, train=True, rngs={'dropout': jax.random.key(seed)}) for seed in range(2))
    assert (np.float32(first) != np.float32(other)).any()


@pytest.mark.parametrize('name', LADDER)
def test_signals_keep_their_size_on_the_way_up(name):
    model = models.build(name, vocabulary=50, context_length=T, width=256)
    tokens = np.arange(50, dtype=np.int32).reshape(10, T)
    params = linen.unbox(jax.jit(model.init)(jax.random.key(0), tokens)['params'])
    kernel = params['network']['hidden_0']['kernel']
    assert float(kernel.std()) == pytest.approx(256 ** -0.5, rel=0.05)
