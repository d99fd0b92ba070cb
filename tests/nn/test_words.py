"""Words as vectors: the table, how words are spelled, and words that are dropped."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn
from seqjax.errors import FieldError
from tests.reference import recurrence as reference
from tests.reference.parameters import random_parameters

B, T, C, V, A, D, E = 2, 4, 5, 9, 7, 3, 6
WORDS = np.array([[3, 2, 8, 0], [5, 5, 0, 0]], np.int32)
LENGTHS = np.array([[5, 1, 3, 0], [2, 2, 0, 0]])
CHARACTERS = np.random.default_rng(0).integers(1, A, (B, T, C), np.int32) * (np.arange(C) < LENGTHS[..., None])


def make(kind='lstm', **fields):
    layer = nn.WordEmbedding(V, D, characters=A, character_encoder=kind, character_width=E, **fields)
    return layer, random_parameters(layer, WORDS, CHARACTERS)


@functools.partial(jax.jit, static_argnums=0)
def run(layer, params, *inputs):
    return layer.apply({'params': params}, *inputs)


def numpy_spelling(kind, params, word):
    """One word, without its padding."""
    x = np.float64(params['embedding']['table'])[word]
    if kind == 'lstm':
        layers = params['recurrent']
        states = [reference.recur('lstm', layers['layer_0' + '_reverse' * reverse], x[None], reverse=reverse)[1][0][0]
                  for reverse in (False, True)]
        return np.concatenate(states)
    x = np.pad(x, ((1, 1), (0, 0)))
    return params['bias'] + np.max([sum(x[i + k] @ params['kernel'][k] for k in range(3)) for i in range(len(word))], axis=0)


@pytest.mark.parametrize('kind', ['lstm', 'conv'])
def test_a_word_is_its_row_of_the_table_and_its_spelling(kind):
    layer, params = make(kind)
    found = np.asarray(run(layer, params, WORDS, CHARACTERS))
    assert found.shape == (B, T, D + E)
    np.testing.assert_array_equal(found[..., :D], np.where(WORDS[..., None] > 0, params['words']['table'][WORDS], 0))
    for place in np.ndindex(B, T):
        n = LENGTHS[place]
        expected = numpy_spelling(kind, params['spelling'], CHARACTERS[place][:n]) if n else np.zeros(E)
        np.testing.assert_allclose(found[place][D:], expected, atol=1e-5)


@pytest.mark.parametrize('kind', ['lstm', 'conv'])
def test_padding_of_words_and_of_characters_changes_no_value_and_no_gradient(kind):
    layer, params = make(kind)
    mix = np.random.default_rng(1).standard_normal(D + E).astype(np.float32)

    @jax.jit
    def both(words, characters):
        return jax.value_and_grad(lambda params: (layer.apply({'params': params}, words, characters) @ mix).sum())(params)

    more = np.pad(WORDS, ((0, 0), (0, 3))), np.pad(CHARACTERS, ((0, 0), (0, 3), (0, 6)))
    first, second = jax.device_get(both(WORDS, CHARACTERS)), jax.device_get(both(*more))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), first, second)
    gradient = first[1]
    assert all(np.isfinite(leaf).all() and leaf.any() for leaf in jax.tree.leaves(gradient))
    assert not gradient['words']['table'][0].any() and not gradient['spelling']['embedding']['table'][0].any()


def test_dropped_words_become_the_unknown_word_in_training_and_keep_their_spelling():
    layer, params = make('conv', word_dropout=0.4)
    words = np.full((40, 50), 6, np.int32)
    words[:, 40:] = 0
    characters = np.broadcast_to(CHARACTERS[0, 0], (40, 50, C))
    plain = np.asarray(run(layer, params, words, characters))
    train = jax.jit(lambda params, seed: layer.apply({'params': params}, words, characters, train=True,
                                                     rngs={'dropout': jax.random.key(seed)}))
    first, again, other = (np.asarray(train(params, seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    np.testing.assert_array_equal(first[..., D:], plain[..., D:])
    unknown = (first[..., :D] == params['words']['table'][1]).all(axis=-1)
    np.testing.assert_array_equal(first[~unknown], plain[~unknown])
    assert not unknown[:, 40:].any() and 0.36 < unknown[:, :40].mean() < 0.44


def test_a_pretrained_table_is_where_the_table_starts_and_the_layer_stays_hashable():
    vectors = np.random.default_rng(2).standard_normal((V, D)).astype(np.float32)
    layer = nn.WordEmbedding(V, D, vectors)
    params = layer.init(jax.random.key(0), WORDS)['params']
    assert params['words']['table'].names == ('vocab', 'embed')
    np.testing.assert_array_equal(params['words']['table'].value, vectors)
    assert hash(layer) == hash(nn.WordEmbedding(V, D, vectors.copy())) and layer == nn.WordEmbedding(V, D, vectors.copy())
    assert layer != nn.WordEmbedding(V, D, vectors + 1) and layer != nn.WordEmbedding(V, D)


@pytest.mark.parametrize('kind', ['lstm', 'conv'])
def test_bfloat16_stays_and_comes_close(kind):
    layer, params = make(kind, dtype=jnp.bfloat16)
    found = run(layer, params, WORDS, CHARACTERS)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float32(found), run(make(kind)[0], params, WORDS, CHARACTERS), atol=5e-2)


@pytest.mark.parametrize('fields, sentence', [
    (dict(table=np.zeros((V, D + 1))), 'table=(9, 4): the word vectors do not have the shape (vocabulary, width) = (9, 3)'),
    (dict(table=np.zeros(V)), 'table=(9,): word vectors have the shape [V, D]'),
    (dict(word_dropout=1.0), 'word_dropout=1.0: must be at least 0 and less than 1'),
    (dict(characters=A, character_encoder='gru'), "character_encoder='gru': choose one of: lstm, conv"),
    (dict(characters=A, character_width=7), "character_width=7: must be even for 'lstm': each direction gives a half"),
    (dict(characters=A, character_width=0), 'character_width=0: must be at least 1'),
], ids=lambda value: value if isinstance(value, str) else '')
def test_what_cannot_be_is_refused(fields, sentence):
    with pytest.raises(FieldError) as caught:
        nn.WordEmbedding(V, D, **fields)
    assert str(caught.value) == sentence
