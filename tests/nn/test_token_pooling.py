"""From tokens to one vector, each against its equation in numpy; and blocks that are scaled and left out."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn
from seqjax.errors import FieldError
from tests.reference import transformer as reference
from tests.reference.parameters import random_parameters

B, P, N, D = 3, 2, 5, 8
TOKENS = np.random.default_rng(0).standard_normal((B, P + N, D)).astype(np.float32)


def sequence(params, x):
    out = np.zeros((B, D))
    for b in range(B):
        scores = np.exp([x[b, t] @ params['weight']['kernel'][:, 0] + params['weight']['bias'][0] for t in range(P + N)])
        out[b] = scores / scores.sum() @ x[b]
    return out


def attention(params, x):
    query = np.broadcast_to(params['query'], (B, 1, D))
    z = reference.attention(params['attention'], query, np.ones((B, 1, P + N), bool), x)
    return (z + reference.feed_forward(params['feed_forward'], reference.layer_norm(params['norm'], z, 1e-6)))[:, 0]


EXPECTED = {
    'cls': lambda params, x: x[:, 0],
    'mean': lambda params, x: x[:, P:].mean(axis=1),
    'cls_mean': lambda params, x: np.concatenate([x[:, 0], x[:, P:].mean(axis=1)], axis=1),
    'attention': attention,
    'sequence': sequence,
}


@pytest.mark.parametrize('kind', nn.TOKEN_POOLINGS)
def test_one_vector_is_what_the_equation_says(kind):
    layer = nn.TokenPooling(kind, P, heads=2)
    params = random_parameters(layer, TOKENS)
    np.testing.assert_allclose(layer.apply({'params': params}, TOKENS), EXPECTED[kind](params, np.float64(TOKENS)), atol=1e-5)
    half = nn.TokenPooling(kind, P, heads=2, dtype=jnp.bfloat16)
    assert half.apply({'params': params}, jnp.asarray(TOKENS, jnp.bfloat16)).dtype == jnp.bfloat16


def test_an_unknown_pooling_is_named():
    with pytest.raises(FieldError, match="pooling='clss': no such pooling of tokens; did you mean 'cls'"):
        nn.TokenPooling('clss')


# ------------------------------------------------------------------------------------------------ LayerScale, stochastic depth

def block(**fields):
    part = dict(bias=True, parent=None)
    return nn.ScaledBlock(nn.MultiHeadAttention(D, 2, **part), nn.FeedForward(**part), functools.partial(nn.layer_norm, True, jnp.float32),
                          **fields)


def test_layers_are_scaled_before_they_are_added():
    made = block(layer_scale=0.1)
    params = random_parameters(made, TOKENS)
    fresh = made.init(jax.random.key(0), TOKENS)['params']
    np.testing.assert_array_equal(fresh['attention_scale'].unbox(), np.full(D, 0.1, np.float32))
    mask, x = np.ones((B, P + N, P + N), bool), np.float64(TOKENS)
    x = x + params['attention_scale'] * reference.attention(params['attention'], reference.layer_norm(params['attention_norm'], x), mask)
    x = x + params['feed_forward_scale'] * reference.feed_forward(params['feed_forward'], reference.layer_norm(params['feed_forward_norm'], x))
    np.testing.assert_allclose(made.apply({'params': params}, TOKENS)[0], x, atol=1e-5)


@pytest.mark.parametrize('layer, kept', [(0, 0.75), (1, 0.5)])
def test_layers_are_left_out_of_whole_images_more_often_the_deeper_they_are(layer, kept):
    made, x = block(stochastic_depth=0.5, depth=2), np.repeat(TOKENS[:1], 400, axis=0)
    params = random_parameters(made, x[:1])
    whole = made.apply({'params': params}, x)[0]
    run = jax.jit(lambda key: made.apply({'params': params}, x, nn.Context(layer=layer), train=True, rngs={'dropout': key})[0])
    outputs = np.asarray(run(jax.random.key(0)))
    different = len(np.unique(outputs.round(4), axis=0))
    assert different == 4  # each of two layers is there or not, for all tokens of an image
    untouched = np.isclose(outputs, x, atol=1e-5).all(axis=(1, 2)).mean()
    assert abs(untouched - (1 - kept) ** 2) < 0.06
    assert not np.isclose(outputs, whole, atol=1e-3).all(axis=(1, 2)).any()  # what is kept is divided by its probability
    np.testing.assert_array_equal(made.apply({'params': params}, x, train=False)[0], whole)
