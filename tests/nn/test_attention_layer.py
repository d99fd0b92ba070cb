"""Attention with parameters is the functions of ops.attention, with its own maps of queries, keys and values."""

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn
from seqjax.errors import FieldError
from tests.reference import attention as reference
from tests.reference.parameters import random_parameters

B, T, S, D, E, A = 2, 3, 5, 4, 6, 7
SIZES = {'additive': (A, E), 'dot': (A, D), 'scaled_dot': (A, E), 'bilinear': (D, E)}  # width, width of the outputs


class Whole(linen.Module):
    """Reads the outputs and answers the queries."""

    attention: nn.Attention

    def __call__(self, queries, outputs, mask=None):
        return self.attention(queries, *self.attention.read(outputs), mask)


def draw(kind, **options):
    """A layer with random parameters, and random queries, outputs and mask; the last row of the mask shows nothing."""
    width, outputs_width = SIZES[kind]
    rng = np.random.default_rng(0)
    queries, outputs = (rng.standard_normal(shape).astype(np.float32) for shape in ((B, T, D), (B, S, outputs_width)))
    mask = np.arange(S) < np.array([3, 0])[:, None]  # [B, S]
    layer = Whole(nn.Attention(kind, width, **options))
    # Without any parameters, init makes no entry for them.
    params = {} if kind == 'dot' and not options.get('value_width') else random_parameters(layer, queries, outputs)
    return layer, params, queries, outputs, mask


def expected_scores(kind, params, queries, outputs):
    mapped = lambda name, x: x @ params[name]['kernel'] + params[name].get('bias', 0)
    if kind == 'additive':
        return reference.additive_scores(mapped('query', queries), mapped('key', outputs), params['v'])
    if kind == 'scaled_dot':
        return reference.scaled_dot_scores(mapped('query', queries), mapped('key', outputs))
    if kind == 'bilinear':
        return reference.bilinear_scores(queries, outputs, params['key']['kernel'].T)
    return reference.dot_scores(queries, outputs)


@pytest.mark.parametrize('hard', [False, True], ids=['soft', 'hard'])
@pytest.mark.parametrize('value_width', [0, 2])
@pytest.mark.parametrize('kind', SIZES)
def test_a_layer_is_its_function_with_its_own_maps(kind, value_width, hard):
    layer, params, queries, outputs, mask = draw(kind, value_width=value_width, hard_attention=hard)
    contexts, weights = jax.jit(layer.apply)({'params': params}, queries, outputs, mask)
    own = params.get('attention', {})
    weighted = reference.hard_weights if hard else reference.soft_weights
    expected = weighted(expected_scores(kind, own, queries, outputs), np.broadcast_to(mask[:, None], (B, T, S)))
    values = outputs @ own['value']['kernel'] if value_width else outputs
    np.testing.assert_allclose(weights, expected, atol=2e-6)
    np.testing.assert_allclose(contexts, reference.weigh(expected, values), atol=5e-6)
    assert not np.any(weights[1]) and not np.any(contexts[1]) and contexts.shape == (B, T, value_width or SIZES[kind][1])


@pytest.mark.parametrize('kind', SIZES)
def test_without_a_mask_every_output_is_seen(kind):
    layer, params, queries, outputs, mask = draw(kind)
    contexts, weights = layer.apply({'params': params}, queries, outputs)
    assert np.all(weights) and np.all(contexts)
    np.testing.assert_allclose(weights.sum(-1), np.ones((B, T)), atol=1e-6)


@pytest.mark.parametrize('hard', [False, True], ids=['soft', 'hard'])
@pytest.mark.parametrize('kind', SIZES)
def test_every_parameter_learns_and_hidden_outputs_do_not_matter(kind, hard):
    layer, params, queries, outputs, mask = draw(kind, value_width=2, hard_attention=hard)
    directions = np.random.default_rng(1).standard_normal((B, T, 2)).astype(np.float32)

    @jax.jit
    def gradients(params, outputs):
        total = lambda params, outputs: (layer.apply({'params': params}, queries, outputs, mask)[0] * directions).sum()
        return jax.grad(total, argnums=(0, 1))(params, outputs)

    d_params, d_outputs = jax.device_get(gradients(params, outputs))
    assert all(np.isfinite(leaf).all() and np.any(leaf) for leaf in jax.tree.leaves(d_params))
    np.testing.assert_array_equal(np.any(d_outputs, axis=2), mask)


@pytest.mark.parametrize('kind', SIZES)
def test_bfloat16_comes_close_and_weights_stay_float32(kind):
    exact, params, queries, outputs, mask = draw(kind)
    low, *_ = draw(kind, dtype=jnp.bfloat16)
    inputs = (jnp.asarray(x, jnp.bfloat16) for x in (queries, outputs))
    contexts, weights = low.apply({'params': params}, *inputs, mask)
    assert (contexts.dtype, weights.dtype) == (jnp.bfloat16, jnp.float32)
    expected = exact.apply({'params': params}, queries, outputs, mask)[1]
    np.testing.assert_allclose(weights, expected, atol=5e-2)


def test_an_unknown_kind_is_refused():
    with pytest.raises(FieldError, match="^attention='cosine': choose one of: additive, dot, scaled_dot, bilinear$"):
        nn.Attention('cosine')
