"""Model families from outside: one registered and launched (`gated_convolution`), and one of a block that is passed in."""

import functools
import importlib
import json
import pathlib
import subprocess
import sys

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models, nn, ops
from seqjax.errors import FieldError
from tests.reference.parameters import random_parameters

ROOT = pathlib.Path(__file__).parents[2]
FILE = pathlib.Path(__file__).with_name('gated_convolution.py')
B, T, V, D, L, K = 2, 9, 11, 6, 2, 3
TOKENS = np.random.default_rng(0).integers(0, V, (B, T)).astype(np.int32)


@pytest.fixture(scope='module')
def family():
    """The family, which is registered while these tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models.MODELS, '_things', dict(models.MODELS))
        yield importlib.import_module('tests.extending.gated_convolution').GatedConvolutionalModel


@pytest.fixture(scope='module')
def case(family):
    """(model, random parameters)"""
    model = models.build('gated_convolution', dict(vocabulary=V, context_length=T), width=D, depth=L, kernel_size=K, tie_embeddings=False)
    assert isinstance(model, family)
    return model, random_parameters(model, TOKENS)


def loop(params, tokens):
    """The equations, one position at a time in float64: logits [T, V] of tokens [T]."""
    norm = lambda scale, x: x / np.sqrt((x ** 2).mean() + 1e-5) * scale
    x = np.float64(params['embedding']['table'])[tokens]
    for layer in range(L):
        block = params['decoder'][f'block_{layer}']
        seen = [np.zeros(D)] * (K - 1) + [norm(block['convolution_norm']['scale'], row) for row in x]
        kernel, bias = (np.float64(block['convolution']['in'][name]) for name in ('kernel', 'bias'))
        for t in range(len(x)):
            both = np.concatenate([seen[t + K - 1 - k] for k in range(K)]) @ kernel + bias
            x[t] = x[t] + both[:D] / (1 + np.exp(-both[D:]))
    return np.stack([norm(params['decoder']['norm']['scale'], row) for row in x]) @ params['output']['kernel']


def test_the_family_computes_its_equations(case):
    model, params = case
    logits = jax.jit(model.apply)({'params': params}, TOKENS)
    np.testing.assert_allclose(logits, np.stack([loop(params, row) for row in TOKENS]), rtol=1e-4, atol=1e-4)


def test_packed_rows_and_pieces_of_rows_are_those_of_whole_rows(case):
    model, params = case
    segments = np.array([[1] * 4 + [2] * 5] * B)
    packed = jax.jit(model.apply)({'params': params}, TOKENS, segments=segments)
    expected = np.stack([np.concatenate([loop(params, row[:4]), loop(params, row[4:])]) for row in TOKENS])
    np.testing.assert_allclose(packed, expected, rtol=1e-4, atol=1e-4)
    extend = jax.jit(functools.partial(model.apply, method='extend'))
    state, logits = model.initial_state(B, T), []
    for piece in np.split(TOKENS, 3, axis=1):
        state, some = extend({'params': params}, state, piece)
        logits.append(some)
    np.testing.assert_allclose(np.concatenate(logits, axis=1), np.stack([loop(params, row) for row in TOKENS]), rtol=1e-4, atol=1e-4)


def test_its_fields_are_those_of_a_config_and_are_checked(family):
    assert models.fields('gated_convolution')['kernel_size'] == 4 and 'gated_convolution' in models.able('carries')
    assert not {'vocabulary', 'block', 'norm'} & set(models.fields('gated_convolution'))
    with pytest.raises(FieldError, match="kernel_sise=3: 'gated_convolution' has no such field; did you mean 'kernel_size'?"):
        models.build('gated_convolution', vocabulary=V, kernel_sise=3)


class LocalAttention(nn.MultiHeadAttention):
    """A layer of one's own: attention to the last `reach` positions, whatever the model's mask."""

    reach: int = 2

    def __call__(self, x, context, cache=None, *, train=False):
        return super().__call__(x, context.replace(mask=ops.Mask(causal=True, window=self.reach)), cache, train=train)


@pytest.mark.parametrize('scan', [False, True], ids=['', 'scan'])
def test_a_block_that_is_passed_in_is_that_of_a_family_with_a_window(scan):
    norm = functools.partial(nn.make_norm, 'layer', bias=False)
    own = models.DecoderOnly(V, width=8, depth=L, scan_layers=scan, norm=norm, context_length=T,
                             block=nn.Block(LocalAttention(8, 2), nn.FeedForward(), norm),
                             positions=nn.Positions('learned', 8, 2, T))
    gpt = models.GPT(V, width=8, depth=L, heads=2, scan_layers=scan, sliding_window=2, context_length=T)
    params = random_parameters(gpt, TOKENS)
    shapes = lambda model: jax.tree.map(jnp.shape, linen.unbox(jax.eval_shape(model.init, jax.random.key(0), TOKENS)))
    assert shapes(own) == shapes(gpt)  # parameters of the same names
    run = jax.jit(lambda model, params: model.apply({'params': params}, TOKENS), static_argnums=0)
    np.testing.assert_allclose(run(own, params), run(gpt, params), rtol=1e-5, atol=1e-5)
    state, first = own.apply({'params': params}, own.initial_state(B, T), TOKENS[:, :5], method='extend')
    _, last = own.apply({'params': params}, state, TOKENS[:, 5:], method='extend')
    np.testing.assert_allclose(jnp.concatenate([first, last], axis=1), run(gpt, params), rtol=1e-5, atol=1e-5)
    assert own.rewinds and not hasattr(models.StatefulLanguageModel, 'rewind')


def test_launched_as_an_experiment_it_trains_and_writes(tmp_path):
    launch = lambda *words: subprocess.run(
        [sys.executable, 'launch.py', f'--config={FILE}', f'--workdir={tmp_path}', *words], cwd=ROOT, check=True,
        capture_output=True, text=True).stdout
    launch()
    result = json.loads((tmp_path / 'result.json').read_text())
    assert result['steps'] == 4 and np.isfinite(result['eval/loss'])
    assert 'def' in launch('--mode=generate', '--config.decode.prompt=def', '--config.decode.max_new_tokens=8')
