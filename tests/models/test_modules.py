"""Models of modules that are passed in compute what models of the same fields compute, with the same parameters."""

import functools

from flax import linen
import jax
import numpy as np
import pytest

from seqjax import models, nn
from tests.reference.parameters import random_parameters

B, T, S, V, D, H, L = 2, 5, 4, 11, 8, 2, 2
TOKENS = np.random.default_rng(0).integers(5, V, (B, T)).astype(np.int32)
SOURCE = np.random.default_rng(1).integers(5, V, (B, S)).astype(np.int32)
LENGTHS = np.array([4, 2])
FRAMES = np.random.default_rng(2).standard_normal((B, T, 3)).astype(np.float32)
norm = functools.partial(nn.make_norm, 'layer')


class TwoLayers(linen.Module):
    """A head of one's own."""

    @linen.compact
    def __call__(self, x):
        x = jax.nn.relu(nn.Projection((6,), ('embed', 'mlp'), name='hidden')(x))
        return nn.Projection((3,), ('mlp', None), name='out')(x)


class Same(linen.Module):
    def __call__(self, x):
        return x


def block(cross=False):
    part = dict(bias=True)
    return nn.Block(nn.MultiHeadAttention(D, H, **part), nn.FeedForward(activation='relu', **part), norm,
                    nn.CrossAttention(D, H, **part) if cross else None, 'post')


fields = dict(width=D, depth=L, heads=H)
sines = lambda: nn.Positions('sinusoidal', D, H)
CASES = {  # name: (of modules, of fields, inputs, where the first has other names of parameters)
    'recurrent': (models.RecurrentLanguageModel(V, width=D, recurrent=nn.GRU(D, 2)),
                  models.RecurrentLanguageModel(V, width=D, depth=2, cell='gru'), (TOKENS,), {}),
    'reader': (models.Reader(V, 3, width=D, encoder=nn.LSTM(D, 2, bidirectional=True), pooling=nn.Pooling('mean')),
               models.Reader(V, 3, width=D, depth=2, bidirectional=True, pooling='mean'), (TOKENS, LENGTHS), dict(encoder='recurrent')),
    'reader of frames': (models.Reader(outputs=3, encoder=nn.ConvolutionalEncoder(D)),
                         models.Reader(outputs=3, encoder='conv', width=D, bidirectional=True), (FRAMES, LENGTHS), {}),
    'encoder': (models.EncoderOnly(V, T, 0, width=D, depth=L, block=block(), norm=norm, positions=nn.Positions('learned', D, H, T)),
                models.BERT(V, T, 0, activation='relu', epsilon=1e-5, **fields), (TOKENS, LENGTHS), {}),
    'encoder-decoder': (
        models.EncoderDecoder(V, width=D, depth=L, block=block(), decoder_block=block(True), source_positions=sines(),
                              target_positions=sines()),
        models.Transformer(V, **fields), (SOURCE, LENGTHS, TOKENS), {}),
}


@pytest.mark.parametrize('name', [name for name in CASES if name != 'encoder'])
def test_modules_compute_what_fields_compute(name):
    composed, described, inputs, renamed = CASES[name]
    params = random_parameters(described, *inputs)
    theirs = {name: params[renamed.get(name, name)] for name in random_parameters(composed, *inputs)}
    run = jax.jit(lambda model, params: model.apply({'params': params}, *inputs), static_argnums=0)
    np.testing.assert_allclose(run(composed, theirs), run(described, params), rtol=1e-5, atol=1e-6)


def test_an_encoder_of_a_block_has_the_encoding_of_bert():
    composed, described, inputs, _ = CASES['encoder']
    params = random_parameters(described, *inputs)
    run = jax.jit(lambda model: model.apply({'params': params}, *inputs, method='encode'), static_argnums=0)
    np.testing.assert_allclose(run(composed), run(described), rtol=1e-5, atol=1e-5)


def test_a_translator_takes_stacks_and_attention():
    composed = models.Seq2Seq(V, width=D, encoder=nn.LSTM(D, 2), decoder=nn.LSTM(D, 2), attention=nn.Attention('additive', D))
    described = models.Seq2Seq(V, width=D, depth=2, cell='lstm')
    params = random_parameters(described, SOURCE, LENGTHS, TOKENS)
    theirs = {**params, 'attention': params['lookup']}
    del theirs['lookup']
    run = jax.jit(lambda model, params: model.apply({'params': params}, SOURCE, LENGTHS, TOKENS), static_argnums=0)
    np.testing.assert_allclose(run(composed, theirs), run(described, params), rtol=1e-5, atol=1e-6)


def test_a_reader_takes_a_head_and_an_embedding():
    reader = models.Reader(outputs=3, encoder=nn.AttentionEncoder(D, heads=2), embedding=nn.Embedding(V, D), head=TwoLayers())
    params = random_parameters(reader, TOKENS, LENGTHS)
    assert set(params) == {'embedding', 'encoder', 'head'} and set(params['head']) == {'hidden', 'out'}
    answers = reader.apply({'params': params}, TOKENS, LENGTHS)
    pooled = reader.clone(head=Same()).apply({'params': params}, TOKENS, LENGTHS)
    hidden = np.maximum(pooled @ params['head']['hidden']['kernel'] + params['head']['hidden']['bias'], 0)
    np.testing.assert_allclose(answers, hidden @ params['head']['out']['kernel'] + params['head']['out']['bias'], rtol=1e-5, atol=1e-5)


def test_layers_of_a_stack_have_parameters_of_their_own():
    stack = nn.Stack(block(), 3)
    params = linen.unbox(jax.jit(stack.init)(jax.random.key(0), np.zeros((B, T, D), np.float32)))['params']
    kernels = [params[f'block_{layer}']['attention']['query']['kernel'] for layer in range(3)]
    assert not any(np.array_equal(kernels[i], kernels[j]) for i, j in ((0, 1), (1, 2), (0, 2)))
