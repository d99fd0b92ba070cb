"""Projections and embeddings against numpy."""

from flax import linen
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec
import numpy as np
import pytest

from seqjax import nn
from tests.reference.parameters import random_parameters

SHAPES = [  # features, contract, shape of x, einsum
    ((5,), 1, (2, 3, 4), 'btd,df->btf'),
    ((3, 2, 5), 1, (2, 3, 4), 'btd,dghk->btghk'),
    ((5,), 2, (2, 3, 4, 6), 'bthk,hkd->btd'),
    ((5,), 1, (4,), 'd,df->f'),
]


@pytest.mark.parametrize('bias', [True, False])
@pytest.mark.parametrize('features, contract, shape, equation', SHAPES, ids=[equation for *_, equation in SHAPES])
def test_a_projection_contracts_the_last_axes_and_adds_its_bias(features, contract, shape, equation, bias):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    layer = nn.Projection(features, (None,) * (contract + len(features)), contract=contract, bias=bias)
    params = random_parameters(layer, x)
    assert sorted(params) == ['bias', 'kernel'][not bias:]
    expected = np.einsum(equation, x, params['kernel']) + params.get('bias', 0)
    np.testing.assert_allclose(jax.jit(layer.apply)({'params': params}, x), expected, atol=1e-5)


@pytest.mark.parametrize('features, contract, shape, equation', SHAPES, ids=[equation for *_, equation in SHAPES])
def test_gradients_of_a_projection_are_those_of_its_equation_backwards_forwards_and_in_batches(features, contract, shape, equation):
    rng = np.random.default_rng(4)
    layer = nn.Projection(features, (None,) * (contract + len(features)), contract=contract, bias=False)
    x = rng.standard_normal(shape).astype(np.float32)
    kernel = random_parameters(layer, x)['kernel']
    run = jax.jit(lambda x, kernel: layer.apply({'params': dict(kernel=kernel)}, x))
    inputs, made = equation.split('->')
    (left, right), y_shape = inputs.split(','), run(x, kernel).shape
    dx, dk, dy = (rng.standard_normal(s).astype(np.float32) for s in (x.shape, kernel.shape, y_shape))
    to_x, to_kernel = jax.vjp(run, x, kernel)[1](dy)
    np.testing.assert_allclose(to_x, np.einsum(f'{made},{right}->{left}', dy, kernel), atol=1e-5)
    np.testing.assert_allclose(to_kernel, np.einsum(f'{left},{made}->{right}', x, dy), atol=1e-5)
    _, tangent = jax.jvp(run, (x, kernel), (dx, dk))
    np.testing.assert_allclose(tangent, np.einsum(equation, dx, kernel) + np.einsum(equation, x, dk), atol=1e-5)
    np.testing.assert_allclose(jax.vmap(run, (None, 0))(x, np.stack([kernel, dk])),
                               [np.einsum(equation, x, each) for each in (kernel, dk)], atol=1e-5)


def test_heads_that_a_mesh_cuts_stay_on_their_devices():
    """A product over merged axes would gather the kernel if the heads were not the first of those made."""
    mesh = jax.make_mesh((2,), ('tensor',), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    on = lambda *places: NamedSharding(mesh, PartitionSpec(*places))
    layer, x = nn.Projection((4, 3), ('embed', 'heads', None), bias=False), jnp.zeros((2, 5, 8))
    kernel = jax.ShapeDtypeStruct((8, 4, 3), jnp.float32, sharding=on(None, 'tensor'))
    gradient = jax.jit(jax.value_and_grad(lambda kernel, x: (layer.apply({'params': dict(kernel=kernel)}, x) ** 2).sum()),
                       in_shardings=(on(None, 'tensor'), on()), out_shardings=(on(), on(None, 'tensor')))
    text = gradient.lower(kernel, x).compile().as_text()
    assert 'all-gather' not in text and 'all-to-all' not in text and 'all-reduce' in text  # of the sum


def test_a_projection_names_the_axes_of_kernel_and_bias():
    layer = nn.Projection((3, 2, 5), ('embed', None, 'heads', None))
    params = jax.eval_shape(layer.init, jax.random.key(0), jnp.zeros((1, 4)))['params']
    assert params['kernel'].names == ('embed', None, 'heads', None) and params['kernel'].value.shape == (4, 3, 2, 5)
    assert params['bias'].names == (None, 'heads', None) and params['bias'].value.shape == (3, 2, 5)


def test_a_bias_starts_at_zero_and_a_kernel_as_told():
    layer = nn.Projection((6,), (None, None), kernel_init=linen.initializers.constant(0.25))
    params = linen.unbox(layer.init(jax.random.key(0), jnp.zeros((1, 4))))['params']
    np.testing.assert_array_equal(params['kernel'], np.full((4, 6), 0.25))
    np.testing.assert_array_equal(params['bias'], np.zeros(6))


def test_bfloat16_layers_keep_float32_parameters_and_come_close():
    x, tokens = np.random.default_rng(1).standard_normal((7, 8)).astype(np.float32), np.arange(3)
    for low, exact, inputs in (
            (nn.Projection((5,), (None, None), dtype=jnp.bfloat16), nn.Projection((5,), (None, None)), x),
            (nn.Embedding(5, 8, dtype=jnp.bfloat16), nn.Embedding(5, 8), tokens)):
        params = random_parameters(low, inputs)
        assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {np.dtype('float32')}
        result = low.apply({'params': params}, inputs)
        assert result.dtype == jnp.bfloat16
        np.testing.assert_allclose(np.float32(result), exact.apply({'params': params}, inputs), atol=4e-2)


def test_an_embedding_looks_up_rows_and_scores_against_all_of_them():
    layer, rng = nn.Embedding(vocabulary=7, features=4), np.random.default_rng(2)
    tokens, x = rng.integers(0, 7, (2, 3)), rng.standard_normal((2, 3, 4)).astype(np.float32)
    params = random_parameters(layer, tokens)
    np.testing.assert_array_equal(layer.apply({'params': params}, tokens), params['table'][tokens])
    scores = layer.apply({'params': params}, x, method='attend')
    np.testing.assert_allclose(scores, np.einsum('btd,vd->btv', x, params['table']), atol=1e-6)


def test_the_gradient_of_an_embedding_adds_up_repeated_tokens_and_skips_unseen_ones():
    layer, tokens = nn.Embedding(vocabulary=5, features=2), np.array([3, 1, 3])
    weights = np.random.default_rng(3).standard_normal((3, 2)).astype(np.float32)
    params = random_parameters(layer, tokens)
    gradient = jax.grad(lambda params: (layer.apply({'params': params}, tokens) * weights).sum())(params)['table']
    expected = np.zeros((5, 2), np.float32)
    expected[1], expected[3] = weights[1], weights[0] + weights[2]
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_the_row_of_a_padding_token_is_zero_and_gets_no_gradient():
    layer, tokens = nn.Embedding(vocabulary=5, features=2, padding=1), np.array([3, 1, 0, 1])
    params = random_parameters(layer, tokens)

    def score(params):
        rows = layer.apply({'params': params}, tokens)
        return (rows * (1 + rows)).sum() + layer.apply({'params': params}, rows, method='attend').sum(), rows

    gradient, rows = jax.grad(score, has_aux=True)(params)
    np.testing.assert_array_equal(rows, np.where(tokens[:, None] == 1, 0, params['table'][tokens]))
    assert not np.any(gradient['table'][1]) and np.all(gradient['table'][::3])


def test_one_hot_is_a_lookup_in_the_identity_without_parameters():
    layer, tokens = nn.OneHot(vocabulary=5, dtype=jnp.bfloat16), np.array([[3, 1], [0, 4]])
    assert not layer.init(jax.random.key(0), tokens)
    vectors = layer.apply({}, tokens)
    assert vectors.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.float32(vectors), np.eye(5)[tokens])
