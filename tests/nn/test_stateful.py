"""The layers of Mamba and RWKV against their loops, how they start, and stacks that carry their states."""

from collections.abc import Callable
import functools

from flax import linen
import jax
import numpy as np
import pytest

from seqjax import nn
from tests.reference import state_space as reference
from tests.reference.parameters import random_parameters

B, T, D = 3, 8, 6
LENGTHS = np.array([8, 0, 5])
SEGMENTS = np.array([[1, 1, 2, 2, 2, 2, 3, 3], [1] * 8, [1, 2, 2, 2, 2, 0, 0, 0]])
X = np.random.default_rng(0).standard_normal((B, T, D)).astype(np.float32)
LAYERS = {'mamba': nn.Mamba(D, state_size=3), 'mamba with others': nn.Mamba(D, 3, 2, 3, 4, bias=True, conv_bias=False),
          'time mixing': nn.TimeMixing(D), 'channel mixing': nn.ChannelMixing(D, inner=9)}


@functools.cache
def made(name):
    """(layer, parameters, its call with a state that begins or goes on)."""
    layer = LAYERS[name]
    params = random_parameters(layer, X, nn.Context(), layer.empty_state(B))
    return layer, params, jax.jit(lambda params, x, state, **given: layer.apply(
        {'params': params}, x, nn.Context(**given), state))


def loop(name, params, **given):
    if name.startswith('mamba'):
        return reference.mamba(params, np.float64(X), **given)[0]
    if name == 'time mixing':
        return reference.time_mixing(params, np.float64(X), **given)
    return reference.channel_mixing(params, np.float64(X), given.get('segments'))


@pytest.mark.parametrize('name', LAYERS)
def test_a_layer_equals_its_loop_in_ragged_and_packed_rows(name):
    layer, params, run = made(name)
    for given in (dict(lengths=LENGTHS), dict(lengths=LENGTHS, segments=SEGMENTS)):
        y, _ = run(params, X, layer.empty_state(B), **given)
        counts = np.arange(T) < LENGTHS[:, None]
        np.testing.assert_allclose(y[counts], loop(name, params, **given)[counts], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('name', LAYERS)
def test_in_pieces_of_its_own_length_every_row_says_what_it_says_at_once(name):
    layer, params, run = made(name)
    y, end = run(params, X, layer.empty_state(B))
    first = np.array([5, 3, 0])
    later = np.stack([np.roll(row, -n, axis=0) for row, n in zip(X, first)])
    begun, state = run(params, X, layer.empty_state(B), lengths=first)
    ended, state = run(params, later, state, lengths=T - first)
    for b, n in enumerate(first):
        np.testing.assert_allclose(np.concatenate((begun[b, :n], ended[b, :T - n])), y[b], rtol=1e-5, atol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), state, end)


# ------------------------------------------------------------------------------------------------ how they start

def start(layer, number=0):
    return linen.unbox(jax.jit(layer.init)(jax.random.key(1), X, nn.Context(layer=number), layer.empty_state(B)))['params']


def test_mamba_starts_as_published():
    params = start(nn.Mamba(D, expand=100, out_scale=0.5))
    np.testing.assert_allclose(params['A_log'], np.log(np.arange(1, 17))[:, None].repeat(600, axis=1), rtol=1e-6)
    assert np.all(params['D'] == 1) and params['step']['kernel'].shape == (1, 600)
    sizes = np.log1p(np.exp(np.float64(params['step_bias'])))
    assert 1e-3 * 0.999 < sizes.min() < 1.2e-3 and 0.08 < sizes.max() < 0.1 * 1.001
    np.testing.assert_allclose(np.median(sizes), 1e-2, rtol=0.3)  # the logarithm is uniform
    assert 0.95 / D ** 0.5 < np.abs(params['in']['kernel']).max() <= 1 / D ** 0.5
    assert 0.45 / 600 ** 0.5 < np.abs(params['out']['kernel']).max() <= 0.5 / 600 ** 0.5


def test_rwkv_starts_as_published():
    L, i = 3, np.arange(D)
    for number in range(L):
        params, up, down = start(nn.TimeMixing(D, depth=L), number), number / (L - 1), 1 - number / L
        close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
        close(params['decay'], -5 + 8 * (i / (D - 1)) ** (0.7 + 1.3 * up))
        close(params['bonus'], np.log(0.3) + np.array([0, 0.5, -0.5] * 2))
        close(params['key_mix'], (i / D) ** down)
        close(params['value_mix'], (i / D) ** down + 0.3 * up)
        close(params['receptance_mix'], (i / D) ** (down / 2))
        close(params['value']['kernel'] @ params['value']['kernel'].T, np.eye(D))
        assert not any(np.any(params[name]['kernel']) for name in ('key', 'receptance', 'out'))
    params = start(nn.ChannelMixing(D, depth=L), 1)
    close(params['key_mix'], (i / D) ** (2 / 3))
    close(params['key']['kernel'] @ params['key']['kernel'].T, 4 * np.eye(D))


# ------------------------------------------------------------------------------------------------ stacks

class Mixing(nn.ResidualBlock):
    time_mixing: linen.Module
    channel_mixing: linen.Module
    norm: Callable[..., linen.Module]

    layers = ('time_mixing', 'channel_mixing')


def stack(**options):
    norm = functools.partial(nn.make_norm, 'layer')
    return nn.Stack(Mixing(nn.TimeMixing(D, 2), nn.ChannelMixing(D, 0, 2), norm), 2, norm, **options)


def test_scanned_and_recomputed_layers_start_and_compute_the_same():
    def run(module, params):
        def loss(params):
            y, states = module.apply({'params': params}, X, nn.Context(lengths=LENGTHS), module.empty_states(B))
            return (y ** 2).sum(), (y, states)

        return jax.jit(jax.grad(loss, has_aux=True))(params)

    def stacked(tree, axis=0):
        return jax.tree.map(lambda *layers: np.stack(layers, axis), *tree)

    plain, scanned = stack(), stack(scan_layers=True, remat=True)
    random = random_parameters(plain, X, nn.Context(), plain.empty_states(B))
    blocks = stacked([random['block_0'], random['block_1']])
    gradient, (y, states) = run(plain, random)
    their_gradient, (their_y, their_states) = run(scanned, dict(blocks=blocks, norm=random['norm']))
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    close(their_y, y)
    jax.tree.map(close, their_states, stacked(states, axis=1))  # rows first, then layers
    jax.tree.map(close, their_gradient['blocks'], stacked([gradient['block_0'], gradient['block_1']]))

    made = linen.unbox(jax.jit(scanned.init)(jax.random.key(0), X, nn.Context(), scanned.empty_states(B)))['params']
    for number in range(2):
        expected = start(nn.TimeMixing(D, depth=2), number)
        np.testing.assert_allclose(made['blocks']['time_mixing']['decay'][number], expected['decay'], rtol=1e-6)
        np.testing.assert_allclose(made['blocks']['time_mixing']['value_mix'][number], expected['value_mix'], rtol=1e-6)
