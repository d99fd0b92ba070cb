"""The table of Vaswani et al. 2017, from programs at sizes so small that nothing needs to run."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn, ops
from seqjax.analysis.cost import complexity, scaling
from seqjax.analysis.cost.depth import sequential_depth
from seqjax.analysis.cost.flops import matmul_flops
from seqjax.errors import FieldError

TINY = dict(n=(32, 64, 128), d=(4, 8, 16), k=(2, 3, 5), r=(4, 8, 16))
LAYERS = complexity.LAYERS
RNG = np.random.default_rng(0)


def tiny(layer):
    return dataclasses.replace(layer, sizes={letter: TINY[letter] for letter in layer.sizes})


@pytest.mark.parametrize('name', LAYERS)
def test_operations_have_the_exponents_of_the_table(name):
    cases = tiny(LAYERS[name]).cases()
    flops = [matmul_flops(case.function, *case.arguments) for case in cases]
    found = scaling.fit_power_law([case.sizes for case in cases], flops)
    for letter, exponent in LAYERS[name].exponents.items():
        assert abs(found.exponents[letter] - exponent) < 0.01 * exponent  # the table's claim is 10 %
    assert found.exponents.keys() == LAYERS[name].exponents.keys()
    np.testing.assert_allclose(found.coefficient, {'self-attention': 4, 'recurrent': 4, 'convolutional': 2, 'restricted': 8}[name],
                               rtol=1e-6)


@pytest.mark.parametrize('name', LAYERS)
def test_only_recurrence_is_deeper_for_longer_rows(name):
    cases = tiny(LAYERS[name]).cases()
    depths = [sequential_depth(case.function, *case.arguments) for case in cases]
    exponents = scaling.fit_power_law([case.sizes for case in cases], depths).exponents
    expected = {letter: 1.0 if (name, letter) == ('recurrent', 'n') else 0.0 for letter in exponents}
    np.testing.assert_allclose(list(exponents.values()), list(expected.values()), atol=0.02)


@pytest.mark.parametrize('name, layers', [
    ('self-attention', lambda n, k, r: 1), ('recurrent', lambda n, k, r: 1),
    ('convolutional', lambda n, k, r: math.ceil(math.log(n, k))), ('restricted', lambda n, k, r: math.ceil((n - 1) / (r - 1)))])
def test_how_many_layers_lie_between_the_first_step_and_the_last(name, layers):
    for n in (16, 64):
        assert complexity.layers_until_seen(LAYERS[name], n) == layers(n, complexity.PATH_SIZES['k'], complexity.PATH_SIZES['r'])


def test_a_layer_that_looks_nowhere_else_is_never_seen_through():
    layer = dataclasses.replace(LAYERS['recurrent'], apply=lambda weights, x: jnp.tanh(x))
    with pytest.raises(FieldError, match='n=8: the last step does not see the first through 8 layers'):
        complexity.layers_until_seen(layer, 8)


@pytest.mark.parametrize('n, r', [(12, 3), (16, 16), (8, 1)])
def test_restricted_attention_is_attention_under_its_mask(n, r):
    def masked(x):
        heads = x[:, :, None]
        return ops.attend(heads, heads, heads, ops.Mask(causal=True, window=r), implementation='plain')[:, :, 0]

    x = RNG.normal(size=(2, n, 5)).astype(np.float32)
    found, wanted = jax.jit(lambda x: (complexity.restricted_attention({}, x, r), masked(x)))(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_whole_layer_is_what_mixes_and_four_projections():
    n, d = 32, 16
    layer = nn.MultiHeadAttention(d, heads=4)
    x = jax.ShapeDtypeStruct((1, n, d), jnp.float32)
    run = lambda key, x: layer.init_with_output(key, x)[0]
    case = LAYERS['self-attention'].case(dict(n=n, d=d))
    mixing = matmul_flops(case.function, *case.arguments)
    assert matmul_flops(run, jax.random.key(0), x) == mixing + 4 * 2 * n * d * d


def test_layers_by_name():
    assert complexity.chosen_layers('all') == LAYERS
    assert list(complexity.chosen_layers('recurrent, self-attention')) == ['recurrent', 'self-attention']
    with pytest.raises(FieldError, match="layers='recurent': no such layer as 'recurent'; did you mean 'recurrent'?"):
        complexity.chosen_layers('recurent')
    assert LAYERS['convolutional'].complexity == 'k n d^2'
